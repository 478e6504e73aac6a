"""Sums over the ranks of an MPI job, in the order of ranks, that no failing rank can stall."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.distributed.mpi.library import mpi_module

__all__ = ["MpiCommunicator", "RankError"]

# Every sum begins with a letter of this many numbers from each rank to all: whether the rank is
# still there, how many numbers its array has, and the array itself where it fits. Short sums, of
# which a fit has many, then cost one message.
_LETTER = 64
_STATE, _COUNT, _HEADER = 0, 1, 2
_WELL, _FAILED, _EXCHANGES = 0.0, 1.0, 2.0


class RankError(RuntimeError):
    """Another rank of this job has failed; the message says which, and of what."""


class MpiCommunicator:
    """The ranks of an MPI communicator as shards of one fit (protocol `Communicator`).

    Sums are added in the order of ranks, so that equal jobs give equal bits on every rank. A rank
    that fails says so to the others with `fail` instead of coming to the next sum; they raise
    `RankError` there and do not wait for it.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks. It is duplicated: messages of the fit and of the caller do not meet.

    Raises
    ------
    ImportError
        If mpi4py or an MPI library is missing.
    TypeError
        If `comm` is no communicator of mpi4py.
    """

    def __init__(self, comm: Any) -> None:
        mpi = mpi_module()
        if not isinstance(comm, mpi.Intracomm):
            raise TypeError(
                "comm: expected a communicator of mpi4py such as MPI.COMM_WORLD, got "
                f"{type(comm).__name__}"
            )
        self._comm = comm.Dup()
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        self.n_sent = 0
        """Bytes that this rank has sent to others in sums of arrays."""

    def allreduce_sum(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over all ranks; every rank gets the same bits.

        Parameters
        ----------
        array : ndarray, float64
            This rank's addend; of the same shape on all ranks.

        Returns
        -------
        ndarray
            Of that shape.

        Raises
        ------
        RankError
            If another rank has failed.
        RuntimeError
            If the ranks' arrays differ in size.
        """
        if not isinstance(array, np.ndarray):
            raise TypeError(f"expected an array of the host, got {type(array)}")
        return self._sum(array)

    def exchange(self, value: Any) -> list[Any]:
        """Return what all ranks have laid down, in the order of ranks.

        Parameters
        ----------
        value : object
            That can be pickled; small.

        Returns
        -------
        list of object
            One of each rank.

        Raises
        ------
        RankError
            If another rank has failed.
        """
        self._post(_EXCHANGES, np.empty(0))
        found: list[Any] = self._comm.allgather(value)
        return found

    def fail(self, error: BaseException, *, is_cause: bool = False) -> RankError | None:
        """Tell the other ranks, at the sum that they are at or come to, that this one has failed.

        Parameters
        ----------
        error : BaseException
            Of this rank. A `RankError` is no news to the others.
        is_cause : bool, default=False
            Whether errors that other ranks meet at the same time may follow from this one.

        Returns
        -------
        RankError or None
            What other ranks have met from which this rank's error follows; None where it does not.
        """
        if isinstance(error, RankError):
            return None
        self._letters(_FAILED, np.empty(0))
        own = (self.rank, f"{type(error).__name__}: {error}", is_cause)
        met = [report for report in self._comm.allgather(own) if report is not None]
        causes = [report for report in met if report[2]]
        return None if is_cause or not causes else _rank_error(causes)

    def close(self) -> None:
        """Give the duplicate back; all ranks do so together."""
        self._comm.Free()

    def _sum(self, array: np.ndarray) -> np.ndarray:
        addend = np.ascontiguousarray(array, np.float64).reshape(-1)
        letters = self._post(_WELL, addend)
        if addend.size <= _LETTER - _HEADER:
            total = _in_order(letters[:, _HEADER : _HEADER + addend.size])
        else:
            total = self._sum_by_parts(addend)
        return total.reshape(array.shape)

    def _post(self, state: float, addend: np.ndarray) -> np.ndarray:
        """Send the letter of a sum; return those of all ranks, which have come to the same one."""
        letters = self._letters(state, addend)
        states, counts = letters[:, _STATE], letters[:, _COUNT]
        if (states == _FAILED).any():
            met = [report for report in self._comm.allgather(None) if report is not None]
            raise _rank_error([report for report in met if report[2]] or met)
        if (states != state).any() or (counts != addend.size).any():
            raise RuntimeError(
                "the ranks have come to different sums: expected the same number of entries on "
                f"all, got {counts.astype(int).tolist()}"
            )
        return letters

    def _letters(self, state: float, addend: np.ndarray) -> np.ndarray:
        own = np.zeros(_LETTER)
        own[_STATE], own[_COUNT] = state, addend.size
        if addend.size <= _LETTER - _HEADER:
            own[_HEADER : _HEADER + addend.size] = addend
        letters = np.empty((self.size, _LETTER))
        self._comm.Allgather(own, letters)
        return letters

    def _sum_by_parts(self, addend: np.ndarray) -> np.ndarray:
        """Add one part of the array on each rank, and share the parts.

        Each rank sends 2 (p - 1) / p times the array, which is the least that p ranks can do; and
        the order of the sum does not depend on what the MPI library makes of its own.
        """
        bounds = np.array([addend.size * k // self.size for k in range(self.size + 1)])
        counts = np.diff(bounds)
        own = int(counts[self.rank])
        parts = np.empty((self.size, own))
        evenly = np.full(self.size, own)
        self._comm.Alltoallv(
            [addend, (counts, bounds[:-1])],
            [parts, (evenly, own * np.arange(self.size))],
        )
        total = np.empty_like(addend)
        self._comm.Allgatherv(_in_order(parts), [total, (counts, bounds[:-1])])
        self.n_sent += 8 * (addend.size - own + own * (self.size - 1))
        return total


def _rank_error(reports: list[tuple[int, str, bool]]) -> RankError:
    return RankError("; ".join(f"rank {rank}: {text}" for rank, text, _ in reports))


def _in_order(addends: np.ndarray) -> np.ndarray:
    total: np.ndarray = addends[0].copy()
    for addend in addends[1:]:
        total += addend
    return total
