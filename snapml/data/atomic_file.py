"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["atomic_file"]


@contextmanager
def atomic_file(path: Any) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name once all of it is on the disk.

    Where the body of the ``with`` statement raises, what was written is removed, and a file that
    had the name before stays as it was.

    Parameters
    ----------
    path : str or path-like
        The file; one that exists is replaced, through a symbolic link too.

    Yields
    ------
    binary file
        To write to; may seek.

    Raises
    ------
    OSError
        If the folder does not exist, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)}: expected the name of a file, got a folder")
    # In the same folder: only there renaming is one step.
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with _opened(draft, path) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _opened(draft: Path, path: Any) -> BinaryIO:
    """Open a new file; say of what is wrong with its folder the name that the caller knows."""
    try:
        return draft.open("xb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
