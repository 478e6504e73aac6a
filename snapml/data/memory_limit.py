"""How much memory rows may take: bytes, text such as "40MB", or what the machine has free."""

from __future__ import annotations

import os
import platform
import re
from numbers import Real
from pathlib import Path
from typing import Any

__all__ = ["available_bytes", "resolve_memory_limit"]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip
_CGROUP = Path("/sys/fs/cgroup")
# Of what is free: margins, samples and other programs need room as well.
_SHARE = 0.5


def resolve_memory_limit(limit: Any) -> int:
    """Return a limit in bytes.

    Parameters
    ----------
    limit : int, float, str or 'auto'
        Bytes; a number with a unit, as in "40MB", "1.5 GiB"; or half of what is available.

    Returns
    -------
    int
        Bytes, at least 0.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    if isinstance(limit, str) and limit == "auto":
        return int(_SHARE * available_bytes())
    number: Any = None
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]*)\s*", limit)
        if match and match[2].upper() in _UNITS:
            number = float(match[1]) * _UNITS[match[2].upper()]
    elif not isinstance(limit, bool) and isinstance(limit, Real):
        number = limit
    if number is None or not 0 <= number < 2**63:
        raise ValueError(
            f"memory_limit: expected 'auto', bytes, or text such as '40MB' or '2GiB', got {limit!r}"
        )
    return int(number)


def available_bytes() -> int:
    """Return what this process can still take, by the system's and its container's account."""
    free = _system_bytes()
    limit = _first_number(_CGROUP / "memory.max", _CGROUP / "memory/memory.limit_in_bytes")
    used = _first_number(_CGROUP / "memory.current", _CGROUP / "memory/memory.usage_in_bytes")
    if limit is not None and used is not None:
        # The pages of files count as used, and are given up where memory is short; memory that
        # processes share counts among them, and is not.
        stat = _text(_CGROUP / "memory.stat") or _text(_CGROUP / "memory/memory.stat") or ""
        files = _entry(stat, "file|total_cache") - _entry(stat, "shmem|total_shmem")
        free = min(free, max(0, limit - used + max(0, files)))
    return free


def _entry(stat: str, names: str) -> int:
    found = re.search(rf"^(?:{names}) (\d+)$", stat, re.MULTILINE)
    return int(found[1]) if found else 0


def _system_bytes() -> int:
    text = _text(Path("/proc/meminfo"))
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text or "", re.MULTILINE)
    if match:
        return 1024 * int(match[1])
    if platform.system() == "Linux":  # without /proc
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    import psutil  # a dependency wherever the system is not Linux

    return int(psutil.virtual_memory().available)


def _first_number(*paths: Path) -> int | None:
    for path in paths:
        text = (_text(path) or "").strip()
        if text.isdigit():
            return int(text)
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
