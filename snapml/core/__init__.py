"""The mathematics, once: freestanding C++17 headers shared by the CPU and GPU engines."""

from __future__ import annotations

from pathlib import Path

__all__ = ["include_dir"]


def include_dir() -> Path:
    """Return the directory to put on a compiler's include path.

    Returns
    -------
    pathlib.Path
        Folder that holds ``snapml/*.hpp``.
    """
    return Path(__file__).parent / "include"
