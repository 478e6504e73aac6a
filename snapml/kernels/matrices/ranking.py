"""Launches of ranking.cu: columns numbered by how often they occur."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from snapml.kernels.device.device import Argument, Device
from snapml.kernels.device.launch_shape import filling_grid
from snapml.kernels.device.program import Kernel, Program, core_type
from snapml.kernels.matrices.layouts import CompressedRows

__all__ = ["ColumnFacts", "largest_magnitudes", "program", "rank_entries", "rank_type", "sums"]

_THREADS = 256


@functools.cache
def program(real: np.dtype, index: np.dtype, rank: np.dtype) -> Program:
    """Return ranking.cu for types of entries, of column indices and of ranks."""
    types = {"SNAPML_REAL": real, "SNAPML_INDEX": index, "SNAPML_RANK": rank}
    return Program("ranking", tuple((name, core_type(dtype)) for name, dtype in types.items()))


def rank_type(n_cols: int) -> np.dtype:
    """Return the narrowest type that numbers the columns."""
    return np.dtype(np.int32 if n_cols <= np.iinfo(np.int32).max else np.int64)


class ColumnFacts:
    """How many entries every column has, and the largest of them, of rows that come in parts.

    Parameters
    ----------
    device : Device
        Where the rows are.
    n_cols : int
        Number of columns.
    has_values : bool
        Whether entries have values.
    """

    def __init__(self, device: Device, n_cols: int, *, has_values: bool) -> None:
        self._device = device
        self.counts = device.xp.zeros(n_cols, np.int64)
        """Of shape (n_cols,), int64, on the device."""
        self._words = device.xp.zeros(n_cols if has_values else 0, np.int64)

    def see(self, rows: CompressedRows) -> None:
        """Take rows with legal indices into account."""
        n_stored = len(rows.indices)
        args = (rows.indices, rows.values, np.int64(n_stored), self.counts, self._words)
        _launch(self._device, _program_of(rows), "column_facts", n_stored, args)

    def largest(self) -> np.ndarray:
        """Return largest magnitudes, float64, on the host; infinity or NaN where an entry is."""
        return self._device.to_host(self._words).view(np.float64)


def rank_entries(
    device: Device,
    rows: CompressedRows,
    rank_of: Any,
    factors: Any,
    n_wrong: Any,
    *,
    may_overwrite: bool,
) -> tuple[Any, Any]:
    """Replace column indices by ranks, and scale the values.

    Parameters
    ----------
    device : Device
        Where the rows are.
    rows : CompressedRows
        Rows with legal offsets.
    rank_of : array of shape (n_cols,), int32 or int64
        Rank of each column.
    factors : array of shape (n_cols,), float64, or None
        What to multiply the values of each column by; None without values.
    n_wrong : array of shape (1,), int32
        Counts the entries whose column does not exist; they are given to another.
    may_overwrite : bool
        Whether to write into the memory of `rows` where the types allow.

    Returns
    -------
    ranks, values : array
        In the order of the entries; values are None where `rows` has none.
    """
    xp, n_stored = device.xp, len(rows.indices)
    is_fitting = rows.indices.dtype == rank_of.dtype
    ranks = rows.indices if may_overwrite and is_fitting else xp.empty(n_stored, rank_of.dtype)
    values = rows.values
    if values is not None and not may_overwrite:
        values = xp.empty(n_stored, rows.dtype)
    sizes = np.int64(n_stored), np.int64(rows.n_cols)
    args = (rows.indices, rows.values, *sizes, rank_of, factors, ranks, values, n_wrong)
    _launch(device, _program_of(rows), "rank_entries", n_stored, args)
    return ranks, values


def largest_magnitudes(device: Device, vectors: Any) -> Any:
    """Return the words of the largest magnitudes of vectors.

    Parameters
    ----------
    device : Device
        Where they are.
    vectors : array of shape (n_vectors, n_rows), float64
        The vectors.

    Returns
    -------
    array of shape (n_vectors,), int64
        The bits of float64 numbers; NaN counts as larger than infinity.
    """
    n_vectors, n_rows = vectors.shape
    largest = device.xp.zeros(n_vectors, np.int64)
    int32, float64 = np.dtype(np.int32), np.dtype(np.float64)
    args = (vectors, np.int64(n_rows), np.int64(n_vectors), largest)
    _launch(device, program(float64, int32, int32), "largest_magnitudes", n_rows, args)
    return largest


def sums(
    device: Device, words: Any, rank_of: Any, n_hot: int, scale: tuple[Argument, ...], out: Any
) -> None:
    """Turn sums in fixed point, by rank, into numbers by column.

    Parameters
    ----------
    device : Device
        Where they are.
    words : array of shape (n_vectors, n_cols), int64
        The sums.
    rank_of : array of shape (n_cols,), int32 or int64
        Rank of each column.
    n_hot : int
        The first ranks, which have a unit of their own.
    scale : tuple of Argument
        What gives the units: `largest_magnitudes`, and the bits of the counts of hot and of other
        columns.
    out : array of shape (n_vectors, at least n_cols), float64
        Receives the numbers; further columns are left alone.
    """
    n_vectors, n_cols = words.shape
    float64, rank = np.dtype(np.float64), np.dtype(rank_of.dtype)
    args = (words, np.int64(n_cols), rank_of, np.int64(n_vectors), np.int64(n_hot), *scale)
    tail = (np.int64(out.shape[1]), out)
    _launch(device, program(float64, rank, rank), "ranked_sums", n_cols, (*args, *tail))


def _program_of(rows: CompressedRows) -> Program:
    return program(rows.dtype, np.dtype(rows.indices.dtype), rank_type(rows.n_cols))


def _launch(
    device: Device, chosen: Program, name: str, count: int, args: tuple[Argument, ...]
) -> None:
    kernel = Kernel(chosen, name)
    grid = filling_grid(device, kernel, -(-count // _THREADS), _THREADS)
    device.launch(kernel, grid, (_THREADS,), args)
