"""From the host to a device: rows that kernels may trust."""

from __future__ import annotations

import logging

import numpy as np

from snapml.data import CompressedMatrix, DenseMatrix, Matrix
from snapml.kernels import Device
from snapml.kernels.device_matrix import DeviceMatrix
from snapml.kernels.matrices import CompressedRows, DenseRows
from snapml.kernels.row_checks import has_legal_indices, inspect_rows

__all__ = ["device_matrix", "upload_rows"]

_logger = logging.getLogger("snapml")


def upload_rows(device: Device, matrix: Matrix) -> DenseRows | CompressedRows:
    """Copy rows to a device, and check what kernels read without asking.

    Parameters
    ----------
    device : Device
        Where to.
    matrix : Matrix
        The rows.

    Returns
    -------
    DenseRows or CompressedRows
        Row-major, or with legal indices and no entry behind the last row's.

    Raises
    ------
    ValueError
        If indices or offsets lead outside the matrix.
    """
    if isinstance(matrix, DenseMatrix):
        return DenseRows(device.to_device(matrix.values))
    if not isinstance(matrix, CompressedMatrix):
        raise TypeError(f"expected a DenseMatrix or CompressedMatrix, got {type(matrix).__name__}")
    used = slice(max(0, int(matrix.indptr[-1])))
    rows = CompressedRows(
        device.to_device(matrix.indptr),
        device.to_device(matrix.indices[used]),
        None if matrix.values is None else device.to_device(matrix.values[used]),
        matrix.n_features,
        1.0,
        matrix.dtype,
    )
    if not has_legal_indices(device, DeviceMatrix(rows)):
        _refuse_indices(matrix)
    return rows


def device_matrix(device: Device, matrix: Matrix) -> DeviceMatrix:
    """Copy a matrix to a device.

    Parameters
    ----------
    device : Device
        Where to.
    matrix : Matrix
        Its rows.

    Returns
    -------
    DeviceMatrix
        With legal indices, no column twice in a row, and rows in row-major order.

    Raises
    ------
    ValueError
        If indices or offsets lead outside the matrix.
    """
    copied = DeviceMatrix(upload_rows(device, matrix))
    if not isinstance(matrix, CompressedMatrix):
        return copied
    if inspect_rows(device, copied, None, 1.0).is_sorted:
        return copied
    summed = matrix.summed()
    if summed.n_stored == matrix.n_stored:
        return copied
    del copied  # both would take twice the memory
    _logger.info("entries stored twice are added up in a copy of the matrix")
    return DeviceMatrix(upload_rows(device, summed))


def _refuse_indices(matrix: CompressedMatrix) -> None:
    """Say where an offset or index leads outside the matrix, as the CPU's check does."""
    indptr, indices = matrix.indptr, matrix.indices
    if indptr[0] != 0:
        raise ValueError(f"indptr must start with 0, got {indptr[0]}")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if len(falls) > 0:
        i = falls[0]
        raise ValueError(
            f"indptr must not decrease, got {indptr[i]} then {indptr[i + 1]} at row {i}"
        )
    if indptr[-1] > len(indices):
        raise ValueError(f"indptr ends at {indptr[-1]}, but only {len(indices)} indices are stored")
    k = np.flatnonzero((indices < 0) | (indices >= matrix.n_features))[0]
    raise ValueError(
        f"column indices must lie in [0, {matrix.n_features}), got {indices[k]} at position {k}"
    )
