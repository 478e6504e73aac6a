"""Ranks that send parts of arrays of the host, and small values, to each other through MPI."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["HostGroup"]


class HostGroup:
    """Ranks whose arrays are on the host, and go through MPI (protocol `MeetingGroup`).

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()

    def empty(self, count: int) -> np.ndarray:
        """Return memory for so many float64."""
        return np.empty(count)

    def deal(self, array: np.ndarray, bounds: np.ndarray, parts: np.ndarray) -> None:
        """Send every rank its part; see `Group.deal`."""
        n_own = parts.shape[1]
        self._comm.Alltoallv(
            [array, (np.diff(bounds), bounds[:-1])],
            [parts, (np.full(self.size, n_own), n_own * np.arange(self.size))],
        )

    def collect(self, part: np.ndarray, bounds: np.ndarray, whole: np.ndarray) -> None:
        """Send this rank's part to all; see `Group.collect`."""
        self._comm.Allgatherv(part, [whole, (np.diff(bounds), bounds[:-1])])

    def exchange(self, value: Any) -> list[Any]:
        """Return what all ranks of the group have laid down, in their order."""
        found: list[Any] = self._comm.allgather(value)
        return found
