"""Names and values in two columns."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["print_table", "sized"]


def print_table(content: dict[str, Any], *, as_json: bool = False) -> None:
    """Print names and values to stdout.

    Parameters
    ----------
    content : dict
        Numbers are printed with commas.
    as_json : bool, default=False
        Whether to print one JSON object instead, with ``_`` for blanks in names.
    """
    if as_json:
        print(json.dumps({name.replace(" ", "_"): value for name, value in content.items()}))
        return
    width = max(map(len, content))
    for name, value in content.items():
        text = f"{value:,}" if type(value) is int else str(value)
        print(f"{name:<{width}}  {text}")


def sized(n_bytes: int) -> str:
    """Return a number of bytes as people read it.

    Parameters
    ----------
    n_bytes : int
        Bytes.

    Returns
    -------
    str
        With a unit of powers of 1000.
    """
    size, units = float(n_bytes), ["B", "KB", "MB", "GB", "TB"]
    while size >= 1000.0 and len(units) > 1:
        size, units = size / 1000.0, units[1:]
    return f"{size:.3g} {units[0]}" if size < 999.5 else f"{size:.0f} {units[0]}"
