"""Launches of dense_pass.cu: margins, loss and gradient in one read."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.launch_shape import WARP, filling_grid, types_of
from snapml.kernels.device.program import Kernel, Program, loss_macros
from snapml.kernels.matrices.layouts import DenseRows, Targets, check_array
from snapml.kernels.sums.reduce import parts_sum

__all__ = [
    "DensePassShape",
    "dense_pass",
    "dense_program",
    "outputs_macros",
]

_THREADS = 256
_MAX_THREADS = 512  # kMaxThreads of dense_pass.cu
# Most columns of a thread, and bytes of one of them in a tile: 32 kB for 256 threads, of which
# two blocks of a multiprocessor have 64 kB on the way, three times what hides the latency.
MOST_COLUMNS = 8
_COLUMN_BYTES = 16


def outputs_macros(core_name: str) -> dict[str, str]:
    """Return the macros of outputs.cuh for a loss of losses.hpp or softmax.hpp."""
    if core_name == "Softmax":
        return {"SNAPML_OUTPUTS": "SoftmaxOutputs", "SNAPML_LOSS_PARAMETER": ""}
    macros = loss_macros(core_name)
    return macros | {"SNAPML_OUTPUTS": f"SeparateOutputs<{macros.pop('SNAPML_LOSS')}>"}


@functools.cache
def dense_program(
    core_name: str, real: np.dtype, wide: np.dtype, columns: int = MOST_COLUMNS
) -> Program:
    """Return dense_pass.cu for a loss, types of entries and sums, and columns of a thread."""
    macros = {
        **types_of(real, wide),
        **outputs_macros(core_name),
        "SNAPML_COLUMNS": str(columns),
        "SNAPML_TEAM_ROWS": str(_COLUMN_BYTES // real.itemsize),
    }
    return Program("dense_pass", tuple(macros.items()))


@dataclass(frozen=True)
class DensePassShape:
    """How a dense pass divides its rows among threads.

    Attributes
    ----------
    team_lanes : int
        Threads that share a row.
    columns : int
        Columns of each of them.
    team_rows : int
        Rows of a tile for each team.
    n_threads : int
        Threads of a block: whole teams, whole warps.
    shared_bytes : int
        Shared memory of a block.
    """

    team_lanes: int
    columns: int
    team_rows: int
    n_threads: int
    shared_bytes: int

    @property
    def tile_rows(self) -> int:
        """Rows that a block works on at once."""
        return self.n_threads // self.team_lanes * self.team_rows

    @classmethod
    @functools.cache  # every pass asks
    def make(
        cls, n_cols: int, n_outputs: int, itemsize: int, most_bytes: int
    ) -> DensePassShape | None:
        """Return the shape for rows of this length, or None where they need too many threads.

        Parameters
        ----------
        n_cols, n_outputs : int
            Columns, and margins of a row.
        itemsize : int
            Bytes of an entry.
        most_bytes : int
            Shared memory that a block may have. The largest tile is taken of which two blocks share
            it, else of which it holds one, else the smallest, which it does not hold.
        """
        lanes = -(-max(1, n_cols) // MOST_COLUMNS)
        # Teams of shuffling lanes are powers of two; larger ones are whole warps.
        lanes = 1 << (lanes - 1).bit_length() if lanes <= WARP else -(-lanes // WARP) * WARP
        if lanes > _MAX_THREADS:
            return None
        columns = -(-max(1, n_cols) // lanes)
        most_teams = max(1, _THREADS // lanes)
        least_teams = min(most_teams, max(1, WARP // lanes))  # whole warps
        shapes = [
            cls(
                lanes,
                columns,
                team_rows,
                n_teams * lanes,
                _shared_bytes(n_cols, n_outputs, itemsize, lanes, n_teams, team_rows),
            )
            for n_teams in _halves(most_teams, least_teams)
            for team_rows in _halves(_COLUMN_BYTES // itemsize, 1)
        ]
        for limit in (most_bytes // 2, most_bytes):
            for shape in shapes:
                if shape.shared_bytes <= limit:
                    return shape
        return shapes[-1]

    @classmethod
    def fits(cls, device: Device, n_cols: int, n_outputs: int, itemsize: int) -> bool:
        """Return whether `dense_pass` takes such rows."""
        most_bytes = device.shared_bytes_per_block
        shape = cls.make(n_cols, n_outputs, itemsize, most_bytes)
        return shape is not None and shape.shared_bytes <= most_bytes


def _halves(most: int, least: int) -> list[int]:
    """Return `most`, half of it, and so on, down to `least`."""
    found = [most]
    while found[-1] // 2 >= least:
        found.append(found[-1] // 2)
    return found


def _shared_bytes(
    n_cols: int, n_outputs: int, itemsize: int, lanes: int, n_teams: int, team_rows: int
) -> int:
    """Return the bytes of struct Shared in dense_pass.cu."""
    n_rows, n_warps = n_teams * team_rows, -(-lanes // WARP)
    tile_bytes = n_rows * (n_cols + 2 * n_outputs) * itemsize
    # `partial` also serves the last sum over the block's warps.
    gradients = n_teams * n_outputs * (n_cols + 1)
    partial = max(n_rows * n_outputs * n_warps, n_teams * lanes // WARP)
    slopes = n_rows * (n_outputs | 1)
    return 2 * (-(-tile_bytes // 16) * 16) + 8 * (gradients + partial + slopes)


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
    most_bytes = device.shared_bytes_per_block
    shape = DensePassShape.make(n_cols, targets.n_outputs, matrix.dtype.itemsize, most_bytes)
    if shape is None or shape.shared_bytes > most_bytes:
        needs = "too many threads" if shape is None else f"{shape.shared_bytes} bytes"
        raise ValueError(
            f"a pass over {n_cols} columns with {targets.n_outputs} outputs needs {needs} of a "
            f"block, which has {_MAX_THREADS} threads and {most_bytes} bytes"
        )
    _check_point(matrix, targets, coef, margins)
    program = dense_program(core_name, matrix.dtype, np.dtype(coef.dtype), shape.columns)
    kernel = Kernel(program, "dense_pass")
    n_blocks = -(-n_rows // shape.tile_rows)
    grid = filling_grid(device, kernel, n_blocks, shape.n_threads, shape.shared_bytes)
    parts = device.xp.empty((grid[0], targets.n_outputs * (n_cols + 1) + 1), np.float64)
    labels = targets.arguments(n_rows, matrix.dtype, is_softmax=core_name == "Softmax")
    team = (np.int64(shape.team_lanes), np.int64(shape.team_rows))
    sizes = (np.int64(targets.n_outputs), np.float64(bias_column), *team)
    labels += targets.offset_arguments(n_rows)
    args = (matrix.values, np.int64(n_rows), np.int64(n_cols), *labels, coef, *sizes)
    device.launch(kernel, grid, (shape.n_threads,), (*args, margins, parts), shape.shared_bytes)
    out = device.xp.empty(parts.shape[1], np.float64)
    parts_sum(device, parts, out)
    return out


def _check_point(matrix: DenseRows, targets: Targets, coef: Any, margins: Any) -> None:
    n_rows, n_cols = matrix.shape
    check_array("coef", coef, (np.float32, np.float64), (targets.n_outputs, n_cols + 1))
    check_array("margins", margins, (np.float64,), (targets.n_outputs, n_rows))
