"""Ctrl-C between messages and never between two that belong together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

__all__ = ["HeldInterrupts"]


class HeldInterrupts:
    """Inside ``with``, Ctrl-C (SIGINT) waits; it takes effect at the end.

    A rank that leaves between the messages of one sum would meet the others' next ones with its
    own. May be nested. Of no effect on threads other than the main one, where nothing is raised,
    and where SIGINT has no handler of Python's.
    """

    def __enter__(self) -> HeldInterrupts:
        self._has_come = False
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._take_effect()

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Let those that have come, and those that come inside ``with``, take effect at once."""
        if self._before is None:
            yield
            return
        try:
            signal.signal(signal.SIGINT, self._before)
            self._take_effect()
            yield
        finally:
            signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._has_come = True

    def _take_effect(self) -> None:
        if self._has_come:
            self._has_come = False
            self._before(signal.SIGINT, None)
