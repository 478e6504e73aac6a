"""Launches of row_checks.cu: refuse what a sweep must not see, and measure the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.launch_shape import WARP
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices.device_matrix import DeviceMatrix, layout_macros
from snapml.kernels.matrices.layouts import DenseRows
from snapml.kernels.sums.partial_sums import BLOCK, add_up, blocks_for

__all__ = ["RowFacts", "has_legal_indices", "inspect_rows", "program"]


@dataclass(frozen=True)
class RowFacts:
    """What one read of the rows tells.

    Attributes
    ----------
    norms_sq : array of the device of shape (n_rows,), the matrix's dtype
        Squared norms, of centred rows where the matrix has a mean.
    norm_sq_sum, weighted_norm_sq_sum, weight_sum : float
        Sums over the rows of the squared norms, of those times the weights, of the weights.
    is_finite : bool
        Whether all entries are numbers.
    is_sorted : bool
        Whether every row's indices strictly increase.
    """

    norms_sq: Any
    norm_sq_sum: float
    weighted_norm_sq_sum: float
    weight_sum: float
    is_finite: bool
    is_sorted: bool


def program(real: np.dtype, index: np.dtype | None) -> Program:
    """Return row_checks.cu for types of entries and of indices; None where rows are dense."""
    return Program("row_checks", layout_macros(real, index))


def has_legal_indices(device: Device, matrix: DeviceMatrix) -> bool:
    """Return whether offsets and column indices stay inside the arrays.

    Parameters
    ----------
    device : Device
        Where the matrix is.
    matrix : DeviceMatrix
        Its rows.

    Returns
    -------
    bool
        True for dense rows.
    """
    rows = matrix.rows
    if isinstance(rows, DenseRows):
        return True
    n_rows, n_columns = matrix.shape
    n_stored = len(rows.indices)
    checks_program = program(matrix.dtype, matrix.index_dtype)
    counts = device.xp.zeros(1, np.int32)
    checks = (
        ("check_offsets", n_rows + 1, (rows.indptr, np.int64(n_rows), np.int64(n_stored))),
        ("check_indices", n_stored, (rows.indices, np.int64(n_stored), np.int64(n_columns))),
    )
    for name, count, args in checks:
        grid = (blocks_for(count, BLOCK),)
        device.launch(Kernel(checks_program, name), grid, (BLOCK,), (*args, counts))
    return int(device.to_host(counts)[0]) == 0


def inspect_rows(device: Device, matrix: DeviceMatrix, row_weights: Any, weight: float) -> RowFacts:
    """Read all rows once.

    Parameters
    ----------
    device : Device
        Where the matrix is.
    matrix : DeviceMatrix
        Rows with legal indices.
    row_weights : array of the device or None
        One a row, in the matrix's dtype; None where all of them are `weight`.
    weight : float
        The common weight.

    Returns
    -------
    RowFacts
        Norms and sums.
    """
    n_rows = matrix.shape[0]
    grid = (blocks_for(n_rows, BLOCK // WARP),)
    norms_sq = device.xp.empty(n_rows, matrix.dtype)
    sums = device.xp.empty((grid[0] * (BLOCK // WARP), 3), np.float64)
    counts = device.xp.zeros(2, np.int32)
    device.launch(
        Kernel(program(matrix.dtype, matrix.index_dtype), "inspect_rows"),
        grid,
        (BLOCK,),
        (*matrix.arguments, row_weights, np.float64(weight), norms_sq, sums, counts),
    )
    not_finite, not_sorted = (int(count) for count in device.to_host(counts))
    norm_sq, weighted, total = add_up(device.to_host(sums))
    return RowFacts(norms_sq, norm_sq, weighted, total, not_finite == 0, not_sorted == 0)
