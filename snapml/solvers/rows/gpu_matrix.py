"""From the host to a device: rows that kernels may trust."""

from __future__ import annotations

import logging

from snapml.data import CompressedMatrix, DenseMatrix, Matrix
from snapml.data.compressed import check_indices
from snapml.kernels import Device, ResidentMatrix
from snapml.kernels.matrices.device_matrix import DeviceMatrix
from snapml.kernels.matrices.layouts import CompressedRows, DenseRows
from snapml.kernels.matrices.row_checks import has_legal_indices, inspect_rows
from snapml.kernels.products.duplicates import summed_rows

__all__ = ["device_matrix", "upload_rows"]

_logger = logging.getLogger("snapml")


def upload_rows(device: Device, matrix: Matrix) -> DenseRows | CompressedRows:
    """Copy rows to a device, unless they are there, and check what kernels read without asking.

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
    if isinstance(matrix, ResidentMatrix):
        resident = matrix.rows
        if isinstance(resident, CompressedRows) and not has_legal_indices(
            device, DeviceMatrix(resident)
        ):
            check_indices(resident.indptr, resident.indices, resident.n_cols)
        return resident
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
        check_indices(matrix.indptr, matrix.indices[used], matrix.n_features)
    return rows


def device_matrix(device: Device, matrix: Matrix) -> DeviceMatrix:
    """Copy a matrix to a device, unless it is there.

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
    if copied.is_dense or inspect_rows(device, copied, None, 1.0).is_sorted:
        return copied
    assert isinstance(copied.rows, CompressedRows)  # the only other rows
    summed = summed_rows(device, copied.rows)
    if len(summed.indices) == len(copied.rows.indices):
        return copied
    del copied  # both would take twice the memory
    _logger.info("entries stored twice are added up in a copy of the matrix")
    return DeviceMatrix(summed)
