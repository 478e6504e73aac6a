"""Folders for stores that live as long as a fit, and that no crash leaves behind for good.

Each folder has a file that its process keeps locked. The system takes the lock from a process that
ends, however it ends; whoever makes the next folder removes those that nobody has locked. Chunks
without a name would vanish at once, but every one of them would need an open file.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from snapml.data.store.file_lock import is_locked_by_us

__all__ = ["TemporaryStore", "removing_temporary_stores", "temporary_store_path"]

_PREFIX = "snapml-store-"
_LOCK = "lock"
_ROWS = "rows"
_scope: ContextVar[ExitStack | None] = ContextVar("snapml temporary stores", default=None)


class TemporaryStore:
    """A folder for a store, in that of `tempfile.gettempdir`: ``TMPDIR``, else ``/tmp``.

    Folders of processes that have crashed are removed from there.

    Parameters
    ----------
    n_bytes : int or None, default=None
        What the store will take, where that is known.

    Raises
    ------
    OSError
        If there is too little room on the disk.
    """

    def __init__(self, n_bytes: int | None = None) -> None:
        parent = Path(tempfile.gettempdir())
        _sweep(parent)
        free = shutil.disk_usage(parent).free
        if n_bytes is not None and n_bytes > free:
            raise OSError(
                errno.ENOSPC,
                f"the rows take {n_bytes} bytes in a temporary store, but {free} are free: "
                "expected a larger disk in TMPDIR",
                str(parent),
            )
        lock = None
        while lock is None:  # else another process took the folder for one that is left
            self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            lock = _locked(self._folder, is_new=True)
        self._lock, self._process = lock, os.getpid()

    @property
    def path(self) -> Path:
        """Where the store may be written; it is not there yet."""
        return self._folder / _ROWS

    def remove(self) -> None:
        """Remove the folder and all that is in it; a forked child leaves that to its parent."""
        if os.getpid() == self._process:
            _remove(self._folder, self._lock)


@contextmanager
def removing_temporary_stores() -> Iterator[None]:
    """Remove at the end what `temporary_store_path` has made inside ``with``, in this thread."""
    with ExitStack() as stack:
        token = _scope.set(stack)
        try:
            yield
        finally:
            _scope.reset(token)


def temporary_store_path(n_bytes: int | None = None) -> Path:
    """Return where a store may be written that goes with the ``with`` statement around.

    Parameters
    ----------
    n_bytes : int or None, default=None
        As for `TemporaryStore`.

    Returns
    -------
    pathlib.Path
        A folder that is not there yet.

    Raises
    ------
    OSError
        If there is too little room on the disk.
    RuntimeError
        Outside of ``with removing_temporary_stores()``.
    """
    stack = _scope.get()
    if stack is None:
        raise RuntimeError("expected a call inside of `with removing_temporary_stores()`")
    store = TemporaryStore(n_bytes)
    stack.callback(store.remove)
    return store.path


def _sweep(parent: Path) -> None:
    """Remove the folders of processes that are no more."""
    with os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if _is_ours(entry)]
    for folder in found:
        lock = _locked(folder, is_new=False)
        if lock is not None:
            _remove(folder, lock)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    try:
        return (
            entry.name.startswith(_PREFIX)
            and entry.is_dir(follow_symlinks=False)
            and (
                sys.platform == "win32"  # where each user has a folder of temporary files
                or entry.stat(follow_symlinks=False).st_uid == os.getuid()
            )
        )
    except OSError:  # which another process is removing
        return False


def _locked(folder: Path, *, is_new: bool) -> int | None:
    """Lock a folder, and return the descriptor of its lock; None where another process has it."""
    how = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | (os.O_CREAT | os.O_EXCL if is_new else 0)
    try:
        lock = os.open(folder / _LOCK, how, 0o600)
    except OSError:
        if not is_new:
            _remove_empty(folder)
        return None
    try:
        # Another process's, or about to be removed; or removed between the two calls.
        if is_locked_by_us(lock) and os.fstat(lock).st_nlink > 0:
            return lock
    except OSError:  # a file system without locks
        if is_new:
            os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)
            raise
    os.close(lock)
    return None


def _remove(folder: Path, lock: int) -> None:
    """Remove a folder, its lock last, so that what is interrupted here is found again."""
    with ExitStack() as stack:
        stack.callback(os.close, lock)
        shutil.rmtree(folder / _ROWS, ignore_errors=True)
        if (folder / _ROWS).exists():
            return
        if sys.platform != "win32":
            (folder / _LOCK).unlink(missing_ok=True)
        else:  # which removes no file that is open, here or in a process that is about to sweep
            stack.close()
            with suppress(PermissionError):
                (folder / _LOCK).unlink(missing_ok=True)
        _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    """Remove a folder unless it holds anything: one without a lock may be about to get it."""
    try:
        folder.rmdir()
    except OSError:
        return
