"""A line on the terminal that says how far the work is."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ProgressLine", "logged_fit"]

_INTERVAL_S = 0.1
_WIDTH = 30
_logger = logging.getLogger("snapml")


class ProgressLine:
    """A line on stderr that is written over; none where that is no terminal.

    Parameters
    ----------
    what : str
        What is going on.
    is_quiet : bool
        Whether to show nothing.
    """

    def __init__(self, what: str, is_quiet: bool) -> None:
        self.is_shown = not is_quiet and sys.stderr.isatty()
        self._what = what
        self._began_s = time.monotonic()
        self._shown_s = -_INTERVAL_S
        self._length = 0

    def bytes(self, done: int, total: int | None) -> None:
        """Show how much has been read, how fast, and how long the rest will take.

        Parameters
        ----------
        done : int
            Bytes read so far.
        total : int or None
            Bytes of all; None where nobody knows.
        """
        now_s = time.monotonic()
        if not self.is_shown or (done != total and now_s - self._shown_s < _INTERVAL_S):
            return
        self._shown_s = now_s
        elapsed_s = max(now_s - self._began_s, 1e-9)
        text = f"{self._what} {done / 1e6:.0f} MB, {done / 1e6 / elapsed_s:.0f} MB/s"
        if total and done:
            share = min(1.0, done / total)
            bar = "#" * int(_WIDTH * share)
            left_s = elapsed_s * (1.0 / share - 1.0)
            text = f"{text} [{bar:<{_WIDTH}}] {100 * share:.0f} %, {_duration(left_s)} left"
        self.text(text)

    def text(self, text: str) -> None:
        """Show a text in the place of the last one.

        Parameters
        ----------
        text : str
            One line.
        """
        if self.is_shown:
            sys.stderr.write(f"\r{text:<{self._length}}")
            sys.stderr.flush()
            self._length = len(text)

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._length:
            sys.stderr.write(f"\r{'':<{self._length}}\r")
            sys.stderr.flush()


@contextmanager
def logged_fit(line: ProgressLine, is_verbose: bool) -> Iterator[bool]:
    """Show what the fit inside ``with`` logs: on the progress line, or as lines that stay.

    Parameters
    ----------
    line : ProgressLine
        Where it is shown.
    is_verbose : bool
        Whether lines stay.

    Yields
    ------
    bool
        Whether the estimator needs to log.
    """
    wants_log = is_verbose or line.is_shown
    handler = _LineHandler(line, is_verbose)
    level, propagate = _logger.level, _logger.propagate
    if wants_log:
        _logger.addHandler(handler)
        _logger.setLevel(logging.INFO)
        _logger.propagate = False
    try:
        yield wants_log
    finally:
        _logger.removeHandler(handler)
        _logger.setLevel(level)
        _logger.propagate = propagate


class _LineHandler(logging.Handler):
    def __init__(self, line: ProgressLine, is_verbose: bool) -> None:
        super().__init__()
        self._line = line
        self._is_verbose = is_verbose

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_verbose:
            sys.stderr.write(f"{record.getMessage()}\n")
        else:
            self._line.text(record.getMessage())


def _duration(time_s: float) -> str:
    minutes, seconds = divmod(int(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
