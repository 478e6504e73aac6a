"""Launches of columns.cu: products of compressed columns with vectors, in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.device import Device
from snapml.kernels.launch_shape import WARP, filling_grid, types_of
from snapml.kernels.matrices import CompressedRows, check_array
from snapml.kernels.program import Kernel, Program

__all__ = ["ColumnPieces", "column_products", "program"]

_THREADS = 256
# Entries that one warp adds up: a column with one of every row then keeps all warps busy.
_PIECE_ENTRIES = 2048


def program(real: np.dtype, wide: np.dtype, index: np.dtype) -> Program:
    """Return columns.cu for entries, vectors and indices of these types."""
    return Program("columns", tuple(types_of(real, wide, index).items()))


@dataclass(frozen=True)
class ColumnPieces:
    """Compressed columns, cut into pieces of bounded length.

    Attributes
    ----------
    columns : CompressedRows
        The columns, as rows of the transpose; its ``n_cols`` is the number of rows.
    offsets : array of shape (n_columns + 1,), int64
        First piece of each column.
    begins, ends : array of shape (n_pieces,), int64
        Entries of each piece.
    """

    columns: CompressedRows
    offsets: Any
    begins: Any
    ends: Any

    @classmethod
    def make(cls, device: Device, columns: CompressedRows) -> ColumnPieces:
        """Cut columns, on the device."""
        xp = device.xp
        indptr = columns.indptr.astype(np.int64)
        counts = -(-xp.diff(indptr) // _PIECE_ENTRIES)
        offsets = xp.zeros(len(indptr), np.int64)
        xp.cumsum(counts, out=offsets[1:])
        n_pieces = int(offsets[-1])
        pieces = xp.arange(n_pieces, dtype=np.int64)
        column_of = xp.searchsorted(offsets, pieces, side="right") - 1
        begins = indptr[column_of] + (pieces - offsets[column_of]) * _PIECE_ENTRIES
        ends = xp.minimum(begins + _PIECE_ENTRIES, indptr[column_of + 1])
        return cls(columns, offsets, begins, ends)


def column_products(device: Device, pieces: ColumnPieces, vectors: Any, out: Any) -> None:
    """Multiply every column with every vector.

    Parameters
    ----------
    device : Device
        Where the columns are.
    pieces : ColumnPieces
        The columns.
    vectors : array of shape (n_vectors, n_rows), float32 or float64
        Products are rounded to its type, and added in float64.
    out : array of shape (n_vectors, at least n_columns), float64
        Receives the products; further columns are left alone.
    """
    columns = pieces.columns
    n_columns, n_rows = columns.shape
    check_array("vectors", vectors, (np.float32, np.float64), (None, n_rows))
    check_array("out", out, (np.float64,), (vectors.shape[0], None))
    if out.shape[1] < n_columns:
        raise ValueError(f"out: expected at least {n_columns} columns, got {out.shape[1]}")
    n_vectors, n_pieces = vectors.shape[0], len(pieces.begins)
    types = (columns.dtype, np.dtype(vectors.dtype), np.dtype(columns.indptr.dtype))
    sums = device.xp.empty((n_vectors, n_pieces), np.float64)
    kernel = Kernel(program(*types), "piece_products")
    args = (pieces.begins, pieces.ends, np.int64(n_pieces), columns.indices, columns.values)
    sizes = (np.float64(columns.constant), np.int64(n_rows), vectors, np.int64(n_vectors))
    grid = filling_grid(device, kernel, -(-n_pieces // (_THREADS // WARP)), _THREADS)
    device.launch(kernel, grid, (_THREADS,), (*args, *sizes, sums))
    kernel = Kernel(program(*types), "pieces_sum")
    counts = (np.int64(n_columns), np.int64(n_pieces), sums, np.int64(n_vectors))
    grid = filling_grid(device, kernel, -(-n_columns // _THREADS), _THREADS)
    device.launch(kernel, grid, (_THREADS,), (pieces.offsets, *counts, np.int64(out.shape[1]), out))
