"""Launches of scaling.cu: rows in centred and scaled columns, and sums of columns."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.launch_shape import WARP, filling_grid, types_of
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices.layouts import check_array
from snapml.kernels.sums.reduce import parts_sum

__all__ = ["column_sums", "program", "scale_rows"]

_STRANDS = 8  # kStrands of scaling.cu
_THREADS = 256
# Rows of a strip, at least: shorter ones leave more to add up than they save.
_STRIP_ROWS = 256
_MOST_STRIPS = 65535  # what CUDA allows in the grid's second direction
_REALS = (np.float32, np.float64)


@functools.cache
def program(real: np.dtype, wide: np.dtype) -> Program:
    """Return scaling.cu for the types of entries and of scaled ones; sums are float64."""
    return Program("scaling", tuple(types_of(real, wide).items()))


def column_sums(device: Device, values: Any, centre: Any = None) -> Any:
    """Return sum_i x_ij, or sum_i (x_ij - centre_j)^2. Equal calls give equal bits.

    Parameters
    ----------
    device : Device
        Where the rows are.
    values : array of shape (n_rows, n_cols), float32 or float64
        The rows, one after the other.
    centre : array of shape (n_cols,), float64, or None, default=None
        None asks for the sums of the entries.

    Returns
    -------
    array of shape (n_cols,), float64
        The sums.
    """
    check_array("values", values, _REALS, (None, None))
    n_rows, n_cols = values.shape
    if centre is not None:
        check_array("centre", centre, (np.float64,), (n_cols,))
    out = device.xp.zeros(n_cols, np.float64)
    if n_cols == 0:
        return out
    real = np.dtype(values.dtype)
    kernel = Kernel(program(real, np.dtype(np.float64)), "column_sums")
    n_tiles = -(-n_cols // WARP)
    n_strips = max(1, min(-(-n_rows // _STRIP_ROWS), _MOST_STRIPS))
    (n_blocks,) = filling_grid(device, kernel, n_tiles * n_strips, WARP * _STRANDS)
    n_strips = max(1, min(n_strips, n_blocks // n_tiles))
    parts = device.xp.empty((n_strips, n_cols), np.float64)
    sizes = (np.int64(n_rows), np.int64(n_cols))
    device.launch(kernel, (n_tiles, n_strips), (WARP, _STRANDS), (values, *sizes, centre, parts))
    parts_sum(device, parts, out)
    return out


def scale_rows(
    device: Device,
    values: Any,
    mean: Any,
    scale: Any,
    weights: Any,
    bias_column: float,
    out: Any,
) -> None:
    """Write sqrt(weight) times rows in centred and scaled columns, and the intercept's column.

    Parameters
    ----------
    device : Device
        Where everything is.
    values : array of shape (n_rows, n_cols), float32 or float64
        The rows, one after the other.
    mean, scale : array of shape (n_cols,), float64
        Of the columns.
    weights : array of shape (n_rows,), float64, or None
        Not negative; None where all are 1.
    bias_column : float
        Value of the intercept's constant column.
    out : array of shape (n_rows, n_cols + 1), float32 or float64
        Receives ``sqrt(weights_i) ((x_ij - mean_j) / scale_j, bias_column)``; float64 where the
        entries are.
    """
    check_array("values", values, _REALS, (None, None))
    n_rows, n_cols = values.shape
    for name, array in (("mean", mean), ("scale", scale)):
        check_array(name, array, (np.float64,), (n_cols,))
    if weights is not None:
        check_array("weights", weights, (np.float64,), (n_rows,))
    check_array("out", out, _REALS, (n_rows, n_cols + 1))
    kernel = Kernel(program(np.dtype(values.dtype), np.dtype(out.dtype)), "scale_rows")
    grid = filling_grid(device, kernel, -(-n_rows * WARP // _THREADS), _THREADS)
    sizes = (np.int64(n_rows), np.int64(n_cols))
    columns = (mean, scale, weights, np.float64(bias_column))
    device.launch(kernel, grid, (_THREADS,), (values, *sizes, *columns, out))
