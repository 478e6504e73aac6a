"""Launches of dense_pass.cu: margins, loss and gradient in one read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.device import Device
from snapml.kernels.launch_shape import WARP, filling_grid, types_of
from snapml.kernels.matrices import DenseRows, Targets, check_array
from snapml.kernels.program import Kernel, Program
from snapml.kernels.reduce import parts_sum

__all__ = [
    "DensePassShape",
    "dense_pass",
    "dense_program",
    "outputs_type",
]

_THREADS = 256
_MAX_THREADS = 512  # kMaxThreads of dense_pass.cu
# Columns of a row and rows of a tile in one thread: 16 numbers leave enough registers for the rest.
TILE_COLUMNS, TILE_ROWS = 8, 2


def outputs_type(core_name: str) -> str:
    """Return the struct of outputs.cuh for a loss of losses.hpp or softmax.hpp."""
    return "SoftmaxOutputs" if core_name == "Softmax" else f"SeparateOutputs<{core_name}>"


def dense_program(core_name: str, real: np.dtype, wide: np.dtype) -> Program:
    """Return dense_pass.cu for a loss, and types of entries and sums."""
    macros = {
        **types_of(real, wide),
        "SNAPML_OUTPUTS": outputs_type(core_name),
        "SNAPML_COLUMNS": str(TILE_COLUMNS),
        "SNAPML_TILE_ROWS": str(TILE_ROWS),
    }
    return Program("dense_pass", tuple(macros.items()))


@dataclass(frozen=True)
class DensePassShape:
    """How a dense pass divides its rows among threads.

    Attributes
    ----------
    team_lanes : int
        Threads that share a row.
    n_threads : int
        Threads of a block: whole teams, whole warps.
    shared_bytes : int
        Shared memory of a block.
    """

    team_lanes: int
    n_threads: int
    shared_bytes: int

    @property
    def block_rows(self) -> int:
        """Rows that a block reads at once."""
        return self.n_threads // self.team_lanes * TILE_ROWS

    @classmethod
    def make(cls, n_cols: int, n_outputs: int) -> DensePassShape | None:
        """Return the shape for a row of this length, or None where a row needs too many threads."""
        lanes = -(-max(1, n_cols) // TILE_COLUMNS)
        # Teams of shuffling lanes are powers of two; larger ones are whole warps.
        lanes = 1 << (lanes - 1).bit_length() if lanes <= WARP else -(-lanes // WARP) * WARP
        if lanes > _MAX_THREADS:
            return None
        n_teams, n_warps = max(1, _THREADS // lanes), -(-lanes // WARP)
        n_rows = n_teams * TILE_ROWS
        # As in struct Shared. `partial` also serves the last sum over the block's warps.
        gradients = n_teams * n_outputs * (n_cols + 1)
        partial, slopes = n_rows * n_outputs * n_warps, n_rows * (n_outputs | 1)
        return cls(lanes, n_teams * lanes, 8 * (gradients + partial + slopes))

    @classmethod
    def fits(cls, device: Device, n_cols: int, n_outputs: int) -> bool:
        """Return whether `dense_pass` takes rows of this length."""
        shape = cls.make(n_cols, n_outputs)
        return shape is not None and shape.shared_bytes <= device.shared_bytes_per_block


def dense_pass(
    device: Device,
    matrix: DenseRows,
    core_name: str,
    targets: Targets,
    coef: Any,
    bias_column: float,
    margins: Any,
) -> Any:
    """Read dense rows once: margins, loss and gradient. Equal calls give equal bits.

    Parameters
    ----------
    device : Device
        Where everything is.
    matrix : DenseRows
        The rows.
    core_name : str
        Name of the loss in the core headers.
    targets : Targets
        Labels and weights.
    coef : array of shape (n_outputs, n_cols + 1), float32 or float64
        Coefficients, the intercept's last. Its type is that of the products within a row and
        within a few neighbouring rows; everything else is float64.
    bias_column : float
        Value of the intercept's constant column; 0 without an intercept.
    margins : array of shape (n_outputs, n_rows), float64
        Receives the margins.

    Returns
    -------
    array of n_outputs * (n_cols + 1) + 1 elements, float64
        The gradient, row by row, and the loss.

    Raises
    ------
    ValueError
        If a row and its outputs do not fit a block: `margins` of rows.py and a matrix product read
        the rows twice instead.
    """
    n_rows, n_cols = matrix.shape
    shape = DensePassShape.make(n_cols, targets.n_outputs)
    if shape is None or shape.shared_bytes > device.shared_bytes_per_block:
        needs = "too many threads" if shape is None else f"{shape.shared_bytes} bytes"
        raise ValueError(
            f"a pass over {n_cols} columns with {targets.n_outputs} outputs needs {needs} of a "
            f"block, which has {_MAX_THREADS} threads and {device.shared_bytes_per_block} bytes"
        )
    _check_point(matrix, targets, coef, margins)
    program = dense_program(core_name, matrix.dtype, np.dtype(coef.dtype))
    kernel = Kernel(program, "dense_pass")
    n_blocks = -(-n_rows // shape.block_rows)
    grid = filling_grid(device, kernel, n_blocks, shape.n_threads, shape.shared_bytes)
    parts = device.xp.empty((grid[0], targets.n_outputs * (n_cols + 1) + 1), np.float64)
    labels = targets.arguments(n_rows, matrix.dtype, is_softmax=core_name == "Softmax")
    sizes = (np.int64(targets.n_outputs), np.float64(bias_column), np.int64(shape.team_lanes))
    args = (matrix.values, np.int64(n_rows), np.int64(n_cols), *labels, coef, *sizes)
    device.launch(kernel, grid, (shape.n_threads,), (*args, margins, parts), shape.shared_bytes)
    out = device.xp.empty(parts.shape[1], np.float64)
    parts_sum(device, parts, out)
    return out


def _check_point(matrix: DenseRows, targets: Targets, coef: Any, margins: Any) -> None:
    n_rows, n_cols = matrix.shape
    check_array("coef", coef, (np.float32, np.float64), (targets.n_outputs, n_cols + 1))
    check_array("margins", margins, (np.float64,), (targets.n_outputs, n_rows))
