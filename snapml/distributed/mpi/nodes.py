"""Which ranks share a node, and whether sums go by nodes."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np

from snapml.distributed.mpi.host_group import HostGroup
from snapml.distributed.mpi.library import mpi_module
from snapml.distributed.ordered_sums import Group, Level
from snapml.distributed.ranks import MeetingGroup

__all__ = ["Nodes"]


class Nodes:
    """The nodes of a job: ranks that share memory.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        All ranks.
    node : int or None
        Number of the node that this rank counts as, not negative; None asks MPI for those that
        share memory.
    by_node : bool or None
        Whether sums go by nodes; None lets them where there are several, and several ranks on one.

    Attributes
    ----------
    of_ranks : list of int
        Node of each rank; nodes are numbered by their first ranks.
    hosts : list of str
        Name of each rank's host.
    is_by_node : bool
        Whether sums go by nodes.
    """

    def __init__(self, comm: Any, node: int | None, by_node: bool | None) -> None:
        self._comm = comm
        self._split: list[Any] = []
        rank = comm.Get_rank()
        mark = self._first_of_node() if node is None else node
        found = comm.allgather((mark, platform.node()))
        self.hosts: list[str] = [host for _, host in found]
        order = list(dict.fromkeys(mark for mark, _ in found))
        self.of_ranks: list[int] = [order.index(mark) for mark, _ in found]
        self.own: int = self.of_ranks[rank]
        self.local_rank: int = self.of_ranks[:rank].count(self.own)
        sizes = np.bincount(self.of_ranks)
        self.n_nodes = len(sizes)
        self._n_lanes = int(sizes.min())
        saves = self.n_nodes > 1 and int(sizes.max()) > 1
        self.is_by_node: bool = saves if by_node is None else by_node
        self.comms: list[Any] = self._grouped() if self.is_by_node else [comm]

    def levels(self, make_group: Callable[[MeetingGroup], Group]) -> list[Level]:
        """Return the steps of a sum.

        Parameters
        ----------
        make_group : callable
            Makes a group, whose arrays may be elsewhere, of the same ranks.

        Returns
        -------
        list of Level
            For `OrderedSum`.
        """
        groups = [make_group(HostGroup(comm)) for comm in self.comms]
        if not self.is_by_node:
            (group,) = groups
            return [Level(group, group.size, np.array(self.of_ranks) != self.own)]
        levels = [Level(groups[0], self._n_lanes, np.zeros(groups[0].size, bool))]
        for lane in groups[1:]:
            levels.append(Level(lane, lane.size, np.arange(lane.size) != lane.rank))
        return levels

    def close(self) -> None:
        """Give the communicators back that were made of the ranks; all ranks do so together."""
        while self._split:
            self._split.pop().Free()

    def _first_of_node(self) -> int:
        mpi = mpi_module()
        shared = self._comm.Split_type(mpi.COMM_TYPE_SHARED, key=self._comm.Get_rank())
        first: int = shared.bcast(self._comm.Get_rank())
        shared.Free()
        return first

    def _grouped(self) -> list[Any]:
        """Return this rank's node, and those that have its part on all nodes, if it has one."""
        mpi = mpi_module()
        node = self._comm.Split(self.own, key=self._comm.Get_rank())
        has_part = self.local_rank < self._n_lanes
        color = self.local_rank if has_part else mpi.UNDEFINED
        lane = self._comm.Split(color, key=self.own)
        self._split = [node, lane] if has_part else [node]
        return list(self._split)
