"""Runs mpirun: signals reach it, nothing outlives it, files for it go."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["run_job", "temporary_file"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
_PATIENCE_S = 0.2


@contextmanager
def temporary_file(text: str | None, name: str) -> Iterator[str | None]:
    """Keep a text in a file of this user's, inside.

    Parameters
    ----------
    text : str or None
        None makes no file.
    name : str
        How it is called, in a folder of its own.

    Yields
    ------
    str or None
        Its path.
    """
    if text is None:
        yield None
        return
    import tempfile  # costs as much as all other imports of a dry run

    with tempfile.TemporaryDirectory(prefix="snapml-run-") as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="ascii")
        yield str(path)


@contextmanager
def held_signals() -> Iterator[set[int]]:
    """Keep signals for `run_job` to take: none may end this process before its files are gone.

    Yields
    ------
    set of int
        The signals that were held before.
    """
    held = {*_ENDING, *_PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield {int(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_job(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    grace_s: float,
    save_s: float | None,
    mask: set[int],
) -> int:
    """Run a command to its end.

    It has a process group of its own, so that a Ctrl-C reaches it once, from here: at a second one
    mpirun would leave its ranks behind.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    environment : mapping
        Its variables.
    grace_s : float
        How long it may take to end after a signal; then all of its processes here are killed.
    save_s : float or None
        How long after a SIGUSR1 a SIGTERM (or SIGHUP) is passed on; None passes it on at once.
    mask : set of int
        Signals that it starts with as held.

    Returns
    -------
    int
        Its exit code; 128 and the signal's number where a signal ended it, or a job that was not
        done yet: 130 after Ctrl-C, 143 after SIGTERM, whatever the MPI's launcher makes of them,
        137 where it did not end in time and was killed.
    """
    # Nobody types to a process group in the background: the terminal would stop it.
    is_typed = os.isatty(0)
    process = subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL if is_typed else None,
        process_group=0,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask) and None,
    )
    end_at = kill_at = ended_by = None
    awaited = {*_ENDING, *_PASSED_ON, signal.SIGCHLD}
    while (code := process.poll()) is None:
        came = signal.sigtimedwait(awaited, _PATIENCE_S)
        number = None if came is None else signal.Signals(came.si_signo)
        now = time.monotonic()
        is_second = number in _ENDING and (end_at or kill_at) is not None
        if is_second or (kill_at is not None and now >= kill_at):
            _kill_tree(process.pid)
            code = process.wait()
            break
        if number in _ENDING and ended_by is None:
            ended_by = number
        if number in _PASSED_ON:
            process.send_signal(number)
        elif number in _ENDING and number != signal.SIGINT and save_s is not None:
            process.send_signal(signal.SIGUSR1)
            end_at = now + save_s
        elif number in _ENDING or (end_at is not None and kill_at is None and now >= end_at):
            # MPI libraries do not all expect a SIGHUP.
            process.send_signal(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)
            kill_at = now + grace_s
    if ended_by is not None and code not in (0, -signal.SIGKILL):
        return 128 + ended_by
    return 128 - code if code < 0 else code


def _kill_tree(root: int) -> None:
    """Kill a process and all that descend from it on this machine."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:  # the program's name stands in brackets, and may hold any
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(folder.name)] = int(fields[1])
    doomed, found = {root}, {root}
    while found:
        found = {child for child, parent in parents.items() if parent in found} - doomed
        doomed |= found
    for number in doomed:
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue
