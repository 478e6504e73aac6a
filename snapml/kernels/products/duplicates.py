"""Compressed rows on a device without two entries in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.matrices.device_matrix import DeviceMatrix
from snapml.kernels.matrices.layouts import CompressedRows
from snapml.kernels.products.adjoint import ExactProducts

__all__ = ["summed_rows"]


def summed_rows(device: Device, matrix: CompressedRows) -> CompressedRows:
    """Return a copy in which entries of the same row and column are added up.

    Parameters
    ----------
    device : Device
        Where the matrix is.
    matrix : CompressedRows
        Rows with legal indices.

    Returns
    -------
    CompressedRows
        With rising indices in every row, and values; equal calls give equal bits.
    """
    xp, indptr = device.xp, matrix.indptr
    n_stored = len(matrix.indices)
    # Two stable sorts, since the number of a place in the whole matrix may exceed 64 bits.
    order = xp.argsort(matrix.indices, kind="stable")
    row_of = xp.searchsorted(indptr, order.astype(indptr.dtype), side="right") - 1
    order = order[xp.argsort(row_of, kind="stable")]
    columns = matrix.indices[order]
    row_of = xp.searchsorted(indptr, order.astype(indptr.dtype), side="right") - 1
    is_first = xp.full(n_stored, True)
    is_first[1:] = (columns[1:] != columns[:-1]) | (row_of[1:] != row_of[:-1])
    firsts = xp.flatnonzero(is_first)
    offsets = xp.searchsorted(row_of[firsts], xp.arange(matrix.shape[0] + 1, dtype=np.int64))
    return CompressedRows(
        offsets.astype(indptr.dtype),
        columns[firsts],
        _group_sums(device, matrix, order, firsts),
        matrix.n_cols,
    )


def _group_sums(device: Device, matrix: CompressedRows, order: Any, firsts: Any) -> Any:
    """Return the sums of neighbours in an order, each group from one of `firsts` to the next.

    A group is a row of a matrix of one column: its margin adds up in float64, in a fixed order.
    """
    xp, index = device.xp, matrix.indptr.dtype
    starts = xp.full(len(firsts) + 1, len(order), index)
    starts[:-1] = firsts.astype(index)
    values = None if matrix.values is None else matrix.values[order]
    groups = CompressedRows(
        starts, xp.zeros(len(order), index), values, 1, matrix.constant, matrix.dtype
    )
    sums = xp.empty(len(firsts), np.float64)
    ExactProducts(device, DeviceMatrix(groups)).margins(xp.full(1, 1.0, matrix.dtype), 0.0, sums)
    return sums.astype(matrix.dtype)
