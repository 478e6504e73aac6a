"""The mathematics, once: freestanding C++17 headers shared by the CPU and GPU engines."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

__all__ = ["include_dir", "source_digest"]


def include_dir() -> Path:
    """Return the directory to put on a compiler's include path.

    Returns
    -------
    pathlib.Path
        Folder that holds ``snapml/*.hpp``.
    """
    return Path(__file__).parent / "include"


@functools.cache
def source_digest() -> str:
    """Return a digest of all headers: what was compiled from them is stale when it changes.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for header in sorted(include_dir().rglob("*.hpp")):
        digest.update(header.relative_to(include_dir()).as_posix().encode())
        digest.update(header.read_bytes())
    return digest.hexdigest()
