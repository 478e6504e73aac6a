"""Launches of rows.cu: squared norms of rows, and margins."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels.device import Argument, Device
from snapml.kernels.launch_shape import WARP, filling_grid, types_of
from snapml.kernels.matrices import CompressedRows, DenseRows, check_array
from snapml.kernels.program import Kernel, Program

__all__ = ["margins", "program", "row_norms_sq"]

_THREADS = 256


def program(real: np.dtype, wide: np.dtype, index: np.dtype) -> Program:
    """Return rows.cu for entries, sums and indices of these types."""
    return Program("rows", tuple(types_of(real, wide, index).items()))


def row_norms_sq(device: Device, matrix: DenseRows | CompressedRows) -> Any:
    """Return ||x_i||^2 of every row, in float64.

    Parameters
    ----------
    device : Device
        Where the rows are.
    matrix : DenseRows or CompressedRows
        The rows.

    Returns
    -------
    array of shape (n_rows,), float64
        The squared norms.
    """
    out = device.xp.empty(matrix.shape[0], np.float64)
    _launch(device, matrix, np.dtype(np.float64), "row_norms", (out,))
    return out


def margins(
    device: Device, matrix: DenseRows | CompressedRows, coef: Any, bias_column: float
) -> Any:
    """Return the margins of every row and output.

    Parameters
    ----------
    device : Device
        Where the rows are.
    matrix : DenseRows or CompressedRows
        The rows.
    coef : array of shape (n_outputs, n_cols + 1), float32 or float64
        Coefficients, the intercept's last. Products within a row are added in its type.
    bias_column : float
        Value of the intercept's constant column; 0 without an intercept.

    Returns
    -------
    array of shape (n_outputs, n_rows), float64
        ``x_i.w_k + bias_column * coef[k, -1]``.
    """
    n_rows, n_cols = matrix.shape
    check_array("coef", coef, (np.float32, np.float64), (None, n_cols + 1))
    out = device.xp.empty((coef.shape[0], n_rows), np.float64)
    args = (coef, np.int64(coef.shape[0]), np.float64(bias_column), out)
    _launch(device, matrix, np.dtype(coef.dtype), "margins", args)
    return out


def _launch(
    device: Device,
    matrix: DenseRows | CompressedRows,
    wide: np.dtype,
    what: str,
    args: tuple[Argument, ...],
) -> None:
    n_rows, n_cols = matrix.shape
    if isinstance(matrix, DenseRows):
        kernel = Kernel(program(matrix.dtype, wide, np.dtype(np.int32)), f"dense_{what}")
        first: tuple[Argument, ...] = (matrix.values, np.int64(n_rows), np.int64(n_cols))
    else:
        index = np.dtype(matrix.indptr.dtype)
        kernel = Kernel(program(matrix.dtype, wide, index), f"compressed_{what}")
        first = matrix.arguments
    n_blocks = -(-n_rows // (_THREADS // WARP))
    grid = filling_grid(device, kernel, n_blocks, _THREADS)
    device.launch(kernel, grid, (_THREADS,), (*first, *args))
