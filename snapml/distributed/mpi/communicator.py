"""The ranks of an MPI communicator as shards of one fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snapml.distributed.interrupts import HeldInterrupts
from snapml.distributed.mpi.library import mpi_module
from snapml.distributed.mpi.nodes import Nodes
from snapml.distributed.ordered_sums import Group, Level
from snapml.distributed.ranks import MeetingGroup, Ranks

__all__ = ["MpiCommunicator"]


class MpiCommunicator(Ranks):
    """The ranks of an MPI communicator as shards of one fit (protocol `Communicator`).

    Sums are added in the order of ranks, or, where several ranks share a node and there are several
    nodes, first in that of the ranks of a node and then in that of nodes.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks. It is duplicated: messages of the fit and of the caller do not meet.
    node : int or None, default=None
        Number of the node that this rank counts as; None asks MPI which ranks share memory.
    by_node : bool or None, default=None
        Whether sums of long arrays go by nodes; None decides by the nodes. The same on all ranks.

    Attributes
    ----------
    rank, size : int
        Number of this rank, and of all.
    nodes : Nodes
        Which ranks share a node.
    traffic : Traffic
        Bytes sent in sums of long arrays.

    Raises
    ------
    ImportError
        If mpi4py or an MPI library is missing.
    TypeError
        If `comm` is no communicator of mpi4py.
    """

    def __init__(self, comm: Any, *, node: int | None = None, by_node: bool | None = None) -> None:
        mpi = mpi_module()
        if not isinstance(comm, mpi.Intracomm):
            raise TypeError(
                "comm: expected a communicator of mpi4py such as MPI.COMM_WORLD, got "
                f"{type(comm).__name__}"
            )
        with HeldInterrupts():
            self._comm = comm.Dup()
            self.nodes = Nodes(self._comm, node, by_node)
        super().__init__(self._comm.Get_rank(), self._comm.Get_size())

    def levels(self, make_group: Callable[[MeetingGroup], Group]) -> list[Level]:
        """Return the steps of a sum; see `Ranks.levels`."""
        return self.nodes.levels(make_group)

    def _gather_letters(self, own: np.ndarray) -> np.ndarray:
        letters = np.empty((self.size, own.size))
        self._comm.Allgather(own, letters)
        return letters

    def _gather_values(self, value: Any) -> list[Any]:
        found: list[Any] = self._comm.allgather(value)
        return found

    def _release(self) -> None:
        self.nodes.close()
        self._comm.Free()
