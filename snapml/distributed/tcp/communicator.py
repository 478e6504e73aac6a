"""Ranks that are connected by TCP as shards of one fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snapml.distributed.ordered_sums import Group, Level
from snapml.distributed.ranks import MeetingGroup, Ranks
from snapml.distributed.tcp.group import TcpGroup
from snapml.distributed.tcp.mesh import Mesh

__all__ = ["TcpCommunicator"]


class TcpCommunicator(Ranks):
    """The ranks of a mesh as shards of one fit (protocol `Communicator`).

    Parameters
    ----------
    mesh : Mesh
        The connections; `close` closes them.
    """

    def __init__(self, mesh: Mesh) -> None:
        self._mesh, self._group = mesh, TcpGroup(mesh)
        super().__init__(self._group.rank, self._group.size)

    def levels(self, make_group: Callable[[MeetingGroup], Group]) -> list[Level]:
        """Return the one step of a sum; see `Ranks.levels`."""
        are_others = np.arange(self._group.size) != self._group.rank
        return [Level(make_group(self._group), self._group.size, are_others)]

    def _gather_letters(self, own: np.ndarray) -> np.ndarray:
        return self._group.gather(own)

    def _gather_values(self, value: Any) -> list[Any]:
        return self._group.exchange(value)

    def _release(self) -> None:
        self._mesh.close()
