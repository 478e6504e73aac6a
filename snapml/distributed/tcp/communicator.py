"""Sums over ranks that are connected by TCP, in the order of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.distributed.ordered_sums import Level, OrderedSum, Traffic
from snapml.distributed.tcp.group import TcpGroup
from snapml.distributed.tcp.mesh import Mesh

__all__ = ["TcpCommunicator"]


class TcpCommunicator:
    """The ranks of a mesh as shards of one fit (protocol `Communicator`).

    Parameters
    ----------
    mesh : Mesh
        The connections.
    """

    def __init__(self, mesh: Mesh) -> None:
        self._group = TcpGroup(mesh)
        self.rank, self.size = self._group.rank, self._group.size
        level = Level(self._group, self.size, np.arange(self.size) != self.rank)
        self._sum = OrderedSum([level], Traffic())

    def allreduce_sum(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over all ranks; every rank gets the same bits."""
        addend = np.ascontiguousarray(array, np.float64).reshape(-1)
        total = np.empty_like(addend)
        self._sum.add(addend, total)
        return total.reshape(array.shape)

    def exchange(self, value: Any) -> list[Any]:
        """Return what all ranks have laid down, in the order of ranks."""
        return self._group.exchange(value)

    def with_device(self, device: Any) -> Any:
        """Refuse: arrays of devices do not travel here.

        Parameters
        ----------
        device : Device
            Any.

        Raises
        ------
        NotImplementedError
            Always.
        """
        raise NotImplementedError("sums of arrays of GPUs over TCP: this version has MPI for them")
