"""Locks on open files, which the system takes from a process that ends, however it ends."""

from __future__ import annotations

import os
import sys

__all__ = ["is_locked_by_us"]


def is_locked_by_us(descriptor: int) -> bool:
    """Lock an open file unless another process has, and return whether it is ours now.

    Parameters
    ----------
    descriptor : int
        Of a file that may be written.

    Returns
    -------
    bool
        False where another process has the lock; closing the file gives ours up.

    Raises
    ------
    OSError
        If the file system has no locks.
    """
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:  # how Windows says that another process has it
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
