"""Where files may be cut, and which part of a set of files is whose."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from snapml.io.readers.columnar import arrow_groups, parquet_groups
from snapml.io.readers.formats import format_of
from snapml.io.readers.snap_format import snap_layout
from snapml.io.readers.text_blocks import is_compressed

__all__ = ["Extent", "Piece", "extent_of", "parts_of"]

# A cut moves to the nearest border of row groups where that costs at most this part of a share;
# else both neighbours read the group.
_SLACK = 0.125


@dataclass(frozen=True)
class Extent:
    """How long a file or folder is, and where it may be cut.

    Attributes
    ----------
    path : str
        The file or folder.
    format : str
        One of `snapml.io.readers.formats.FORMATS`.
    size : int
        In `unit`.
    unit : {'bytes', 'rows', 'whole'}
        What it may be cut between; 'whole' says that only another file can follow.
    borders : tuple of int
        Of row groups: cuts there spare work.
    """

    path: str
    format: str
    size: int
    unit: str
    borders: tuple[int, ...] = ()


@dataclass(frozen=True)
class Piece:
    """A part of a file that one reader takes.

    Attributes
    ----------
    path, format : str
        As in `Extent`.
    options : dict
        For `snapml.io.sources.open_source`: ``offset`` and ``length``, or ``rows``, or none.
    """

    path: str
    format: str
    options: dict[str, Any] = field(default_factory=dict)


def extent_of(path: str | os.PathLike[str], format: str = "auto") -> Extent:
    """Measure a file or folder; of rows only headers and footers are read.

    Parameters
    ----------
    path : str or path-like
        The file, or a folder of Parquet files.
    format : str, default='auto'
        As for `snapml.io.convert`.

    Returns
    -------
    Extent
        Its length.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the format is unknown, the file is damaged, or it is a store.
    """
    kind, found = format_of(os.fspath(path), format)
    name, n_bytes = str(found), found.stat().st_size
    if kind == "store":
        raise ValueError(f"{name}: expected a file or a folder of Parquet files, got a store")
    if kind == "npy":
        return Extent(name, kind, _npy_rows(found), "rows")
    if kind == "snap":
        n_rows, by_column = snap_layout(found)
        return Extent(name, kind, n_rows, "whole" if by_column else "rows")
    if kind in ("parquet", "arrow"):
        groups = (parquet_groups if kind == "parquet" else arrow_groups)(found)
        if groups is None:
            return Extent(name, kind, n_bytes, "whole")
        return Extent(name, kind, sum(groups), "rows", (0, *accumulate(groups)))
    return Extent(name, kind, n_bytes, "whole" if is_compressed(found) else "bytes")


def parts_of(extents: Sequence[Extent], n_parts: int) -> list[list[Piece]]:
    """Divide files, laid end to end, into parts of about the same length.

    Parameters
    ----------
    extents : sequence of Extent
        The files, all of one format.
    n_parts : int
        How many parts.

    Returns
    -------
    list of list of Piece
        Each part in order; end to end they are all rows, each once. Where there are none, the first
        part has all files and the others have nothing.

    Raises
    ------
    ValueError
        If the formats differ, or whole files are fewer than parts.
    """
    first = extents[0]
    for extent in extents:
        if extent.format != first.format:
            raise ValueError(
                f"expected files of one format, got {first.path} ({first.format}) and "
                f"{extent.path} ({extent.format})"
            )
    ends = [0, *accumulate(extent.size for extent in extents)]
    if ends[-1] == 0:
        whole = [Piece(extent.path, extent.format) for extent in extents]
        return [whole, *([] for _ in range(n_parts - 1))]
    cuts = _cuts(extents, ends, n_parts)
    return [
        [piece for extent, begin in zip(extents, ends, strict=False)
         for piece in _pieces(extent, low - begin, high - begin)]
        for low, high in pairwise(cuts)
    ]  # fmt: skip


def _cuts(extents: Sequence[Extent], ends: list[int], n_parts: int) -> list[int]:
    """Return where the parts begin and the last one ends, in units from the first file on."""
    if all(extent.unit == "whole" for extent in extents):
        return _cuts_between(extents, ends, n_parts)
    share = ends[-1] / n_parts
    cuts = [0]
    for k in range(1, n_parts):
        ideal = ends[-1] * k // n_parts
        number = int(np.searchsorted(ends, ideal, side="right")) - 1
        extent, begin = extents[number], ends[number]
        near = _nearest((0, extent.size, *extent.borders), ideal - begin) + begin
        is_free = extent.unit != "whole" and abs(near - ideal) > _SLACK * share
        is_free |= extent.unit == "bytes"
        cuts.append(max(cuts[-1], ideal if is_free else near))
    return [*cuts, ends[-1]]


def _cuts_between(extents: Sequence[Extent], ends: list[int], n_parts: int) -> list[int]:
    """Return cuts between whole files, each part with one at least."""
    n_files = len(extents)
    if n_files < n_parts:
        raise ValueError(
            f"{extents[0].path}: a file of this kind ({_why_whole(extents[0])}) cannot be divided: "
            f"expected at least {n_parts} files, one for each rank, got {n_files}; "
            "snapml.io.convert makes a store, which can be"
        )
    numbers = [0]
    for k in range(1, n_parts):
        nearest = int(np.argmin([abs(end - ends[-1] * k / n_parts) for end in ends]))
        numbers.append(min(max(nearest, numbers[-1] + 1), n_files - (n_parts - k)))
    return [*(ends[number] for number in numbers), ends[-1]]


def _why_whole(extent: Extent) -> str:
    reasons = {"snap": "a snap file by columns", "arrow": "an Arrow stream"}
    return reasons.get(extent.format, "compressed text")


def _nearest(borders: Sequence[int], place: int) -> int:
    return min(borders, key=lambda border: abs(border - place))


def _pieces(extent: Extent, low: int, high: int) -> list[Piece]:
    """Return what a file has between two places, which may lie outside of it."""
    low, high = max(low, 0), min(high, extent.size)
    if low >= high:
        return []
    if (low, high) == (0, extent.size):
        return [Piece(extent.path, extent.format)]
    if extent.unit == "bytes":
        return [Piece(extent.path, extent.format, {"offset": low, "length": high - low})]
    return [Piece(extent.path, extent.format, {"rows": (low, high)})]


def _npy_rows(path: Path) -> int:
    try:
        shape = np.load(path, mmap_mode="r", allow_pickle=False).shape
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: expected an npy file of numbers: {error}") from error
    return int(shape[0]) if shape else 0
