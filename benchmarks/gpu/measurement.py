"""One row of the results, and the time of work on a device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from snapml.kernels import Device

__all__ = ["Measurement", "Stopwatch", "seconds_per_call"]

_ROUNDS = 5


@dataclass(frozen=True)
class Measurement:
    """What was measured, and beside what.

    Attributes
    ----------
    section : str
        Part of the check.
    name, case : str
        What ran, and on what.
    value, unit : float and str
        The result.
    reference : float or None
        What it is held against, in the same unit: an allowed error, a floor, another library.
    is_good : bool or None
        Whether it passed; None where nothing can fail.
    note : str
        What the number alone does not say.
    """

    section: str
    name: str
    case: str
    value: float
    unit: str
    reference: float | None = None
    is_good: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Value over reference."""
        return self.value / self.reference if self.reference else None


class Stopwatch:
    """Time on a device's queue: CUDA events where there are some, else the host's clock.

    Parameters
    ----------
    device : Device
        Whose current stream is timed.
    """

    def __init__(self, device: Device) -> None:
        self._cuda = getattr(device.xp, "cuda", None)

    def mark(self) -> Any:
        """Return a mark in the queue; nothing waits for it."""
        if self._cuda is None:
            return time.perf_counter()
        event = self._cuda.Event()
        event.record(self._cuda.get_current_stream())
        return event

    def between(self, first: Any, last: Any) -> float:
        """Return the seconds between two marks; waits until the last one is reached."""
        if self._cuda is None:
            return float(last - first)
        last.synchronize()
        return float(self._cuda.get_elapsed_time(first, last)) * 1e-3


def seconds_per_call(device: Device, call: Callable[[], Any], least_s: float = 0.02) -> float:
    """Return the time of one call: the median of five rounds of as many as take `least_s`.

    Calls are queued one after the other, so that the time of a launch hides behind the work of the
    one before; a call that reads a result on the host pays for its wait.

    Parameters
    ----------
    device : Device
        Runs the work.
    call : callable
        What to time; runs once untimed, which may compile it.
    least_s : float, default=0.02
        Least duration of a round, in seconds.

    Returns
    -------
    float
        Seconds.
    """
    watch = Stopwatch(device)
    call()
    device.synchronize()

    def round_s(n_calls: int) -> float:
        first = watch.mark()
        for _ in range(n_calls):
            call()
        return watch.between(first, watch.mark())

    n_calls = 1
    while (passed_s := round_s(n_calls)) < least_s:
        n_calls = max(2 * n_calls, int(n_calls * least_s / max(passed_s, 1e-9)))
    rounds = [passed_s, *(round_s(n_calls) for _ in range(_ROUNDS - 1))]
    return statistics.median(rounds) / n_calls
