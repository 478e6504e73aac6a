"""Ranks of a job as shards of one fit: sums in a fixed order that no failing rank can stall."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from snapml.distributed.device_ranks import DeviceRanks
from snapml.distributed.interrupts import HeldInterrupts
from snapml.distributed.ordered_sums import Group, Level, OrderedSum, Traffic, in_order
from snapml.kernels import Device

__all__ = ["MeetingGroup", "RankError", "Ranks"]

# Every sum begins with a letter of this many numbers from each rank to all: whether the rank is
# still there, how many numbers its array has, and the array itself where it fits. Short sums, of
# which a fit has many, then cost one message.
_LETTER = 64
_STATE, _COUNT, _HEADER = 0, 1, 2
_WELL, _FAILED, _EXCHANGES, _ON_DEVICES = 0.0, 1.0, 2.0, 3.0


class RankError(RuntimeError):
    """Another rank of this job has failed; the message says which, and of what."""


class MeetingGroup(Group, Protocol):
    """A `Group` of arrays of the host whose ranks can also lay down small values."""

    def exchange(self, value: Any) -> list[Any]:
        """Return what all ranks of the group have laid down, in their order."""


class Ranks(ABC):
    """The ranks of a job as shards of one fit (protocol `Communicator`).

    Sums are added in a fixed order, so that equal jobs give equal bits on every rank. A rank that
    fails says so to the others with `fail` instead of coming to the next sum; they raise
    `RankError` there and do not wait for it. Ctrl-C takes effect between sums.

    Parameters
    ----------
    rank, size : int
        Number of this rank, and of all.

    Attributes
    ----------
    rank, size : int
        Number of this rank, and of all.
    traffic : Traffic
        Bytes sent in sums of long arrays.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.traffic = Traffic()
        self._long_sum = OrderedSum(self.host_levels(), self.traffic)
        self._device_ranks: dict[int, DeviceRanks] = {}
        self._has_ended = False
        self._cut_short: BaseException | None = None

    @abstractmethod
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

    def host_levels(self) -> list[Level]:
        """Return the steps of a sum of arrays of the host."""
        return self.levels(_itself)

    @abstractmethod
    def _gather_letters(self, own: np.ndarray) -> np.ndarray:
        """Return the letters of all ranks, of shape (size, len(own))."""

    @abstractmethod
    def _gather_values(self, value: Any) -> list[Any]:
        """Return what all ranks have laid down, in the order of ranks."""

    @abstractmethod
    def _release(self) -> None:
        """Give back what connects the ranks."""

    @property
    def n_sent(self) -> int:
        """Bytes that this rank has sent to others in sums of long arrays."""
        return self.traffic.within + self.traffic.across

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
        addend = np.ascontiguousarray(array, np.float64).reshape(-1)
        if self.fits_letter(addend.size):
            return self.sum_in_letters(addend).reshape(array.shape)
        total = np.empty_like(addend)
        self._long_sum.reserve(addend.size)
        self.sum_long(addend.size, partial(self._long_sum.add, addend, total))
        return total.reshape(array.shape)

    def with_device(self, device: Device) -> DeviceRanks:
        """Return these ranks where each of them has a device, whose arrays they add up too.

        Parameters
        ----------
        device : Device
            This rank's. All ranks call this together.

        Returns
        -------
        DeviceRanks
            The same one for the same device, until `close`.
        """
        if id(device) not in self._device_ranks:
            self._device_ranks[id(device)] = DeviceRanks(self, device)
        return self._device_ranks[id(device)]

    def exchange(self, value: Any) -> list[Any]:
        """Return what all ranks have laid down, in the order of ranks.

        Parameters
        ----------
        value : object
            Small, and of a kind that these ranks can send.

        Returns
        -------
        list of object
            One of each rank.

        Raises
        ------
        RankError
            If another rank has failed.
        """
        with HeldInterrupts():
            self._post(_EXCHANGES, 0)
            return self._gathered(value)

    def finish(self) -> None:
        """Wait until all ranks have come to the end of their work; `fail` says nothing after it.

        Raises
        ------
        RankError
            If another rank has failed.
        """
        with HeldInterrupts():
            self._post(_EXCHANGES, 0)
            self._gathered(None)
            self._has_ended = True

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
        if isinstance(error, RankError) or self._has_ended or self._cut_short is not None:
            return None
        with HeldInterrupts():
            self._letters(_FAILED, 0)
            own = (self.rank, f"{type(error).__name__}: {error}", is_cause)
            met = [report for report in self._gathered(own) if report is not None]
            self._has_ended = True
        causes = [report for report in met if report[2]]
        return None if is_cause or not causes else _rank_error(causes)

    def close(self) -> None:
        """Give back what connects the ranks; all ranks do so together."""
        if self._cut_short is not None:  # the others wait in a sum
            return
        with HeldInterrupts():
            for ranks in self._device_ranks.values():
                ranks.close()
            self._device_ranks.clear()  # they refer back: memory of devices would stay for a while
            self._release()

    def fits_letter(self, count: int) -> bool:
        """Return whether an array of so many numbers travels with the letter of its sum."""
        return count <= _LETTER - _HEADER

    def sum_in_letters(self, addend: np.ndarray) -> np.ndarray:
        """Return the sum of short arrays.

        Parameters
        ----------
        addend : ndarray of shape (n,), float64
            This rank's, for which `fits_letter` holds.

        Returns
        -------
        ndarray of shape (n,)
            The sum.
        """
        with HeldInterrupts():
            letters = self._post(_WELL, addend.size, addend)
        return in_order(letters[:, _HEADER : _HEADER + addend.size])

    def sum_long(self, count: int, add: Callable[[], None], *, on_devices: bool = False) -> None:
        """Run the messages of a sum on all ranks, when all have come to it.

        Parameters
        ----------
        count : int
            Numbers of the arrays.
        add : callable
            Sends and receives what belongs to the sum; what can fail has been done before.
        on_devices : bool, default=False
            Whether the messages go between devices: then those of all ranks do.
        """
        with HeldInterrupts():
            self._post(_ON_DEVICES if on_devices else _WELL, count)
            self._paired(add)

    def _post(self, state: float, count: int, short: np.ndarray | None = None) -> np.ndarray:
        """Send the letter of a sum; return those of all ranks, which have come to the same one."""
        letters = self._letters(state, count, short)
        states, counts = letters[:, _STATE], letters[:, _COUNT]
        if (states == _FAILED).any():
            met = [report for report in self._gathered(None) if report is not None]
            self._has_ended = True
            raise _rank_error([report for report in met if report[2]] or met)
        if (states != state).any() or (counts != count).any():
            raise RuntimeError(
                "the ranks have come to different sums: expected the same number of entries on "
                f"all, got {counts.astype(int).tolist()}"
            )
        return letters

    def _letters(self, state: float, count: int, short: np.ndarray | None = None) -> np.ndarray:
        if self._cut_short is not None:
            raise RuntimeError(
                "this communicator is of no use any more: a sum has ended half way on this rank "
                f"({type(self._cut_short).__name__}), and the other ranks may still wait in it; "
                "end the job"
            ) from self._cut_short
        self._has_ended = False
        own = np.zeros(_LETTER)
        own[_STATE], own[_COUNT] = state, count
        if short is not None:
            own[_HEADER : _HEADER + count] = short
        letters: np.ndarray = self._paired(partial(self._gather_letters, own))
        return letters

    def _gathered(self, value: Any) -> list[Any]:
        found: list[Any] = self._paired(partial(self._gather_values, value))
        return found

    def _paired(self, send: Callable[[], Any]) -> Any:
        """Run messages that the other ranks answer; if they end half way, nothing can follow."""
        try:
            return send()
        except BaseException as error:
            self._cut_short = error
            raise


def _itself(group: MeetingGroup) -> Group:
    return group


def _rank_error(reports: list[tuple[int, str, bool]]) -> RankError:
    return RankError("; ".join(f"rank {rank}: {text}" for rank, text, _ in reports))
