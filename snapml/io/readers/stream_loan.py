"""Streams that threads of another library read from, and give back before a program may end."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Loan"]

_LONGEST_S, _STEP_S = 5.0, 0.001


class Loan:
    """A stream that is lent to threads which read ahead of what is asked of them.

    Such a thread asks for the interpreter's lock at each read. If the program ends at that moment,
    as it does after an error, Python before 3.14 ends the thread in a way that aborts the process.

    Parameters
    ----------
    stream : binary file
        Read from where it is.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lent: weakref.ref[_Lent] | None = None

    def take(self) -> Any:
        """Return what the threads read from; the caller must not keep it."""
        lent = _Lent(self._stream)
        self._lent = weakref.ref(lent)
        return lent

    @contextmanager
    def ended(self) -> Iterator[None]:
        """End the loan behind ``with``: reads find the end, until nobody holds the stream."""
        try:
            yield
        finally:
            deadline = time.monotonic() + _LONGEST_S
            while self._recall() and time.monotonic() < deadline:
                time.sleep(_STEP_S)

    def _recall(self) -> bool:
        """Let reads find the end; return whether anybody may still read."""
        lent = None if self._lent is None else self._lent()
        if lent is None:
            return False
        lent.recalled = True
        return True


class _Lent:
    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.recalled = False

    def read(self, size: int = -1) -> bytes:
        found: bytes = b"" if self.recalled else self._stream.read(size)
        return found

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Leave the stream to its owner."""
