"""Time of a fit over ranks by phase, and a communicator that counts its sums."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["PHASES", "MeasuredCommunicator", "PhaseClock"]

PHASES = ("prepare", "compute", "certificate", "sums", "checkpoint")


class PhaseClock:
    """Seconds of the phases of a fit; each moment counts once, for the innermost phase.

    Other threads than the one that made the clock are not measured.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._phase = PHASES[0]
        self._since = self._start = time.perf_counter()
        self._thread = threading.get_ident()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the clock was made."""
        return time.perf_counter() - self._start

    def turn_to(self, phase: str) -> str:
        """Count what follows for another phase; return the one before."""
        if threading.get_ident() != self._thread:
            return phase
        now = time.perf_counter()
        self.seconds[self._phase] += now - self._since
        before, self._phase, self._since = self._phase, phase, now
        return before

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is inside ``with`` for a phase."""
        before = self.turn_to(name)
        try:
            yield
        finally:
            self.turn_to(before)


class MeasuredCommunicator:
    """A communicator that counts its sums, and the time that they take.

    Parameters
    ----------
    inner : Ranks
        Who adds up; all but the sums is its own.
    clock : PhaseClock
        Gets the time.
    """

    def __init__(self, inner: Any, clock: PhaseClock) -> None:
        self._inner, self._clock = inner, clock
        self.n_sums = self.n_exchanges = 0
        self._on_devices: dict[int, MeasuredCommunicator] = {}

    def __getattr__(self, name: str) -> Any:
        """Return what the communicator inside has."""
        return getattr(self._inner, name)

    def with_device(self, device: Any) -> MeasuredCommunicator:
        """Return the ranks where each has a device; what these count counts for this one too."""
        inner = self._inner.with_device(device)
        if id(inner) not in self._on_devices:
            self._on_devices[id(inner)] = MeasuredCommunicator(inner, self._clock)
        return self._on_devices[id(inner)]

    def counts(self) -> tuple[int, int]:
        """Return the numbers of sums and of exchanges."""
        parts = [self._on_devices[key].counts() for key in self._on_devices]
        n_sums, n_exchanges = (sum(part) for part in zip((0, 0), *parts, strict=True))
        return self.n_sums + n_sums, self.n_exchanges + n_exchanges

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return int(self._inner.rank)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return int(self._inner.size)

    def allreduce_sum(self, array: Any) -> Any:
        """Return the sum over all ranks."""
        self.n_sums += 1
        before = self._clock.turn_to("sums")
        try:
            return self._inner.allreduce_sum(array)
        finally:
            self._clock.turn_to(before)

    def exchange(self, value: Any) -> list[Any]:
        """Return what all ranks have laid down."""
        self.n_exchanges += 1
        before = self._clock.turn_to("sums")
        try:
            found: list[Any] = self._inner.exchange(value)
            return found
        finally:
            self._clock.turn_to(before)
