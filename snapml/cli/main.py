"""Reads the arguments, runs a command, turns errors into a line and an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import snapml
from snapml.cli import convert, info, predict, train
from snapml.cli.exit_codes import FAILED, INTERRUPTED, LISTED, TERMINATED
from snapml.cli.own_words import in_own_words

__all__ = ["main", "make_parser"]

_COMMANDS = (convert, train, predict, info)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands.

    Returns
    -------
    argparse.ArgumentParser
        Whose result has the command's function in ``run``.
    """
    parser = argparse.ArgumentParser(
        prog="snapml",
        description="Train generalized linear models on data of any size, certified exact.",
        epilog="exit codes: " + "; ".join(f"{code} {text}" for code, text in LISTED.items()),
    )
    parser.add_argument("--version", action="version", version=f"snapml {snapml.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str or None, default=None
        What follows the program's name; None takes the process's.

    Returns
    -------
    int
        The exit code.

    Raises
    ------
    SystemExit
        With code 2 on bad usage, with 0 after ``--help``.
    """
    args = make_parser().parse_args(arguments)
    try:
        with warnings.catch_warnings(), _ending_on_sigterm():
            warnings.showwarning = _show_warning
            code: int = args.run(args)
            sys.stdout.flush()
            return code
    except _Terminated:
        return _failed("terminated", TERMINATED)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    except BrokenPipeError:  # who reads our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if args.debug:
            raise
        expected = (ValueError, OSError, ImportError, RuntimeError, MemoryError)
        kind = "" if isinstance(error, expected) and str(error) else f"{type(error).__name__}: "
        return _failed(f"{kind}{in_own_words(str(error))}", FAILED)


class _Terminated(KeyboardInterrupt):
    """SIGTERM: ends what Ctrl-C ends, and leaves as little behind."""


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Raise `_Terminated` on SIGTERM inside ``with``, where signals are handled at all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one is enough: what follows tidies up
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _failed(message: str, code: int) -> int:
    sys.stderr.write(f"snapml: {' '.join(message.split())}\n")
    return code


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    sys.stderr.write(f"snapml: warning: {' '.join(in_own_words(str(message)).split())}\n")
