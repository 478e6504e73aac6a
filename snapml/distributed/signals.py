"""Signals that ask a fit to keep its state: SIGUSR1 to go on then, SIGTERM to end."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["FitInterrupted", "SignalWatch"]


class FitInterrupted(SystemExit):
    """A fit has ended because of SIGTERM, on all ranks; its checkpoint holds the state.

    Uncaught it ends the process with status 143, as the signal would.
    """

    def __init__(self, message: str) -> None:
        super().__init__(128 + signal.SIGTERM)
        self._message = message

    def __str__(self) -> str:
        return self._message


class SignalWatch:
    """Takes note of SIGUSR1 and SIGTERM inside ``with``, and restores what handled them before.

    Elsewhere than in the main thread, where Python has no handlers, it does nothing. A second
    SIGTERM does what it would have done without the watch; so does one that nobody has asked for
    by the end.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._wants_to_keep = self._wants_to_end = False

    def __enter__(self) -> SignalWatch:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGUSR1, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        if self._wants_to_end and error is None:
            self._wants_to_end = False
            signal.raise_signal(signal.SIGTERM)

    def taken(self) -> tuple[bool, bool]:
        """Return whether the state is to be kept, and whether the fit is to end; SIGUSR1 once."""
        wants_to_keep, self._wants_to_keep = self._wants_to_keep, False
        return wants_to_keep, self._wants_to_end

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self._wants_to_keep = True
        elif self._wants_to_end:  # whoever asks twice does not want to wait
            self._wants_to_end = False
            self._restore()
            signal.raise_signal(signal.SIGTERM)
        else:
            self._wants_to_end = True

    def _restore(self) -> None:
        for number, handler in self._before.items():
            # None stands for a handler that was not set from Python: it cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}
