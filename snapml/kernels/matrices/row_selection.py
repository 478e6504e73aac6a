"""Copies of rows of a matrix in a device's memory: some of them, on the host, or by columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml.kernels.device.device import Device
from snapml.kernels.matrices.layouts import CompressedRows, DenseRows

__all__ = ["entries_of", "host_copy", "take_compressed", "take_rows", "transposed"]


def take_rows(
    device: Device, matrix: DenseRows | CompressedRows, rows: Any
) -> DenseRows | CompressedRows:
    """Return a copy of some rows.

    Parameters
    ----------
    device : Device
        Where the matrix is.
    matrix : DenseRows or CompressedRows
        Its rows.
    rows : array of the device of shape (n_taken,), int64
        Row numbers.

    Returns
    -------
    DenseRows or CompressedRows
        In the order asked for.
    """
    if isinstance(matrix, DenseRows):
        return DenseRows(device.xp.ascontiguousarray(matrix.values[rows]))
    return take_compressed(device, matrix, rows)


def take_compressed(device: Device, matrix: CompressedRows, rows: Any) -> CompressedRows:
    """Return a copy of some compressed rows, as `take_rows` does."""
    offsets, _, entries = entries_of(device, matrix, rows)
    values = None if matrix.values is None else matrix.values[entries]
    return CompressedRows(
        offsets.astype(matrix.indptr.dtype),
        matrix.indices[entries],
        values,
        matrix.n_cols,
        matrix.constant,
        matrix.dtype,
    )


def host_copy(device: Device, matrix: DenseRows | CompressedRows) -> np.ndarray | csr_matrix:
    """Return a copy of rows on the host.

    Parameters
    ----------
    device : Device
        Where the matrix is.
    matrix : DenseRows or CompressedRows
        Its rows.

    Returns
    -------
    ndarray or csr_matrix
        With values, also where the rows have a constant for them.
    """
    if isinstance(matrix, DenseRows):
        return device.to_host(matrix.values)
    indptr, indices = device.to_host(matrix.indptr), device.to_host(matrix.indices)
    if matrix.values is None:
        values = np.full(len(indices), matrix.constant, matrix.dtype)
    else:
        values = device.to_host(matrix.values)
    return csr_matrix((values, indices, indptr), shape=matrix.shape)


def entries_of(device: Device, matrix: CompressedRows, rows: Any) -> tuple[Any, Any, Any]:
    """Return where the entries of some rows are.

    Parameters
    ----------
    device : Device
        Where the matrix is.
    matrix : CompressedRows
        Its rows.
    rows : array of the device of shape (n_taken,), int64
        Row numbers.

    Returns
    -------
    offsets : array of shape (n_taken + 1,), int64
        Where each of the taken rows begins among their entries.
    row_of, entries : array of shape (offsets[-1],), int64
        Of each entry, its row among the taken ones, and its place in storage.
    """
    xp, indptr = device.xp, matrix.indptr
    begins = indptr[rows].astype(np.int64)
    offsets = xp.zeros(len(rows) + 1, np.int64)
    xp.cumsum(indptr[rows + 1].astype(np.int64) - begins, out=offsets[1:])
    places = xp.arange(int(offsets[-1]), dtype=np.int64)
    row_of = xp.searchsorted(offsets, places, side="right") - 1
    return offsets, row_of, begins[row_of] + places - offsets[row_of]


def transposed(device: Device, matrix: CompressedRows) -> CompressedRows:
    """Return a copy of compressed rows by columns, whose entries rise.

    Parameters
    ----------
    device : Device
        Where the matrix is.
    matrix : CompressedRows
        Its rows.

    Returns
    -------
    CompressedRows
        The columns, as rows of the transpose.
    """
    xp, n_rows, index = device.xp, matrix.shape[0], matrix.indptr.dtype
    order = xp.argsort(matrix.indices, kind="stable")
    indptr = xp.searchsorted(matrix.indices[order], xp.arange(matrix.n_cols + 1, dtype=index))
    row_of = xp.searchsorted(matrix.indptr, order.astype(index), side="right") - 1
    values = None if matrix.values is None else matrix.values[order]
    return CompressedRows(
        indptr.astype(index),
        row_of.astype(index),
        values,
        n_rows,
        matrix.constant,
        matrix.dtype,
    )
