"""Launches of transposed.cu: X^T s for vectors s over the rows."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.launch_shape import WARP, filling_grid, types_of
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices.layouts import DenseRows, check_array
from snapml.kernels.products.ranked_rows import RankedRows, ranked_products
from snapml.kernels.sums.reduce import parts_sum, vector_sums

__all__ = ["program", "transposed_products"]

_STRANDS = 8  # kStrands of transposed.cu
# Rows of a strip, at least: shorter ones leave more to add up than they save.
_STRIP_ROWS = 256
_MOST_STRIPS = 65535  # what CUDA allows in the grid's second direction


@functools.cache
def program(real: np.dtype) -> Program:
    """Return transposed.cu for a type of entries; sums are float64."""
    return Program("transposed", tuple(types_of(real, np.dtype(np.float64)).items()))


def transposed_products(
    device: Device, matrix: DenseRows | RankedRows, vectors: Any, bias_column: float
) -> Any:
    """Return X^T s for several vectors s over the rows. Equal calls give equal bits.

    Parameters
    ----------
    device : Device
        Where the rows are.
    matrix : DenseRows or RankedRows
        The rows X.
    vectors : array of shape (n_vectors, n_rows), float64
        The vectors.
    bias_column : float
        Value of the intercept's constant column.

    Returns
    -------
    array of shape (n_vectors, n_cols + 1), float64
        The products, the intercept's column last.
    """
    n_rows, n_cols = matrix.shape
    check_array("vectors", vectors, (np.float64,), (None, n_rows))
    out = device.xp.zeros((vectors.shape[0], n_cols + 1), np.float64)
    out[:, n_cols] = bias_column * vector_sums(device, vectors)
    if n_cols == 0:
        return out
    if isinstance(matrix, DenseRows):
        out[:, :n_cols] = _dense(device, matrix, vectors)
    else:
        ranked_products(device, matrix, vectors, out)
    return out


def _dense(device: Device, matrix: DenseRows, vectors: Any) -> Any:
    n_rows, n_cols = matrix.shape
    n_vectors = vectors.shape[0]
    kernel = Kernel(program(matrix.dtype), "dense_products")
    n_tiles = max(1, -(-n_cols // WARP))
    n_strips = max(1, min(-(-n_rows // _STRIP_ROWS), _MOST_STRIPS))
    (n_blocks,) = filling_grid(device, kernel, n_tiles * n_strips, WARP * _STRANDS)
    n_strips = max(1, min(n_strips, n_blocks // n_tiles))
    parts = device.xp.empty((n_strips, n_vectors * n_cols), np.float64)
    sizes = (np.int64(n_rows), np.int64(n_cols), vectors, np.int64(n_vectors))
    device.launch(kernel, (n_tiles, n_strips), (WARP, _STRANDS), (matrix.values, *sizes, parts))
    out = device.xp.empty((n_vectors, n_cols), np.float64)
    parts_sum(device, parts, out)
    return out
