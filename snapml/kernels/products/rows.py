"""Launches of rows.cu: squared norms of rows, and margins."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from snapml.kernels.device.device import Argument, Device
from snapml.kernels.device.launch_shape import WARP, filling_grid, types_of
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices.layouts import DenseRows, check_array
from snapml.kernels.products.ranked_rows import RankedRows, ranked_margins

__all__ = ["margins", "program", "row_norms_sq"]

_THREADS = 256


@functools.cache
def program(real: np.dtype, wide: np.dtype) -> Program:
    """Return rows.cu for types of entries and of sums."""
    return Program("rows", tuple(types_of(real, wide).items()))


def row_norms_sq(device: Device, matrix: DenseRows) -> Any:
    """Return ||x_i||^2 of every dense row, in float64.

    Parameters
    ----------
    device : Device
        Where the rows are.
    matrix : DenseRows
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
    device: Device,
    matrix: DenseRows | RankedRows,
    coef: Any,
    bias_column: float,
    out: Any = None,
) -> Any:
    """Return the margins of every row and output.

    Parameters
    ----------
    device : Device
        Where the rows are.
    matrix : DenseRows or RankedRows
        The rows.
    coef : array of shape (n_outputs, n_cols + 1), float32 or float64
        Coefficients, the intercept's last. Products within a row are added in its type.
    bias_column : float
        Value of the intercept's constant column; 0 without an intercept.
    out : array of shape (n_outputs, n_rows), float64, or None, default=None
        Receives the margins; None allocates it.

    Returns
    -------
    array of shape (n_outputs, n_rows), float64
        ``x_i.w_k + bias_column * coef[k, -1]``.
    """
    if isinstance(matrix, RankedRows):
        return ranked_margins(device, matrix, coef, bias_column, out)
    n_rows, n_cols = matrix.shape
    check_array("coef", coef, (np.float32, np.float64), (None, n_cols + 1))
    out = device.xp.empty((coef.shape[0], n_rows), np.float64) if out is None else out
    check_array("out", out, (np.float64,), (coef.shape[0], n_rows))
    args = (coef, np.int64(coef.shape[0]), np.float64(bias_column), out)
    _launch(device, matrix, np.dtype(coef.dtype), "margins", args)
    return out


def _launch(
    device: Device, matrix: DenseRows, wide: np.dtype, what: str, args: tuple[Argument, ...]
) -> None:
    n_rows, n_cols = matrix.shape
    kernel = Kernel(program(matrix.dtype, wide), f"dense_{what}")
    grid = filling_grid(device, kernel, -(-n_rows // (_THREADS // WARP)), _THREADS)
    first = (matrix.values, np.int64(n_rows), np.int64(n_cols))
    device.launch(kernel, grid, (_THREADS,), (*first, *args))
