"""Launches of column_descent.cu: sweeps over the columns of a quadratic model, in rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.device.device import Argument, Device
from snapml.kernels.device.launch_shape import WARP, filling_grid
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices.device_matrix import DeviceMatrix, layout_macros
from snapml.kernels.matrices.layouts import CompressedRows, DenseRows
from snapml.kernels.sums.shared_vector import FixedVector

__all__ = ["ColumnRounds", "Quadratic", "RoundSums", "program"]

_THREADS = 256
_PIECE_ENTRIES = 2048  # kPieceEntries of column_descent.cu


def program(real: np.dtype, index: np.dtype | None) -> Program:
    """Return column_descent.cu for types of entries and of indices; None where dense."""
    return Program("column_descent", layout_macros(real, index))


@dataclass(frozen=True)
class Quadratic:
    """slopes.x + sum_i h_i u_i^2 / 2 + l1 ||coef + x||_1 + l2 ||coef + x||^2 / 2 with u = X x.

    Attributes
    ----------
    slopes, squares : array of the device of shape (n_columns,), float64
        Slopes at x = 0, and ``sum_i h_i x_ij^2``, less a free intercept's share.
    curvatures : array of the device of shape (n_rows,), float64
        h_i.
    sums : array of the device of shape (n_columns,), float64, or None
        ``sum_i h_i x_ij`` where a free intercept takes its best value after every step.
    total : float
        ``sum_i h_i``, used with `sums`.
    l1, l2 : float
        Of the penalty.
    is_positive : bool
        Whether negative coefficients are forbidden.
    """

    slopes: Any
    squares: Any
    curvatures: Any
    sums: Any
    total: float
    l1: float
    l2: float
    is_positive: bool


@dataclass(frozen=True)
class RoundSums:
    """Sums over the columns that a sweep visited, with d_j the step of column j.

    Attributes
    ----------
    slope : float
        d_j times the slope that the step saw.
    single : float
        d_j^2 times the curvature along the column.
    """

    slope: float
    single: float


class ColumnRounds:
    """Sweeps over the columns of one matrix.

    Parameters
    ----------
    device : Device
        Where the arrays are.
    columns : DenseRows or CompressedRows
        The columns as rows of the transpose, in the order in which they are visited.

    Attributes
    ----------
    lengths : ndarray of shape (n_columns,), int64
        Entries of each column.
    dtype : numpy.dtype
        Type of the entries.
    """

    def __init__(self, device: Device, columns: DenseRows | CompressedRows) -> None:
        self._device = device
        self._matrix = DeviceMatrix(columns)
        self.dtype = self._matrix.dtype
        self._program = program(self._matrix.dtype, self._matrix.index_dtype)
        n_columns, n_rows = self._matrix.shape
        if isinstance(columns, DenseRows):
            lengths = np.full(n_columns, n_rows, np.int64)
        else:
            offsets: np.ndarray = device.to_host(columns.indptr).astype(np.int64)
            lengths = offsets[1:] - offsets[:-1]
        self.lengths = lengths
        self._first_piece = np.append(0, np.cumsum(-(-lengths // _PIECE_ENTRIES)))
        self._offsets = device.to_device(self._first_piece)
        column_of = np.repeat(np.arange(n_columns, dtype=np.int64), np.diff(self._first_piece))
        self._column_of = device.to_device(column_of)

    def capacity(self) -> int:
        """Return how many warps the device can have in flight."""
        kernel = Kernel(self._program, "piece_slopes")
        blocks = self._device.resident_blocks(kernel, _THREADS, 0)
        return blocks * self._device.n_multiprocessors * (_THREADS // WARP)

    def sweep(
        self,
        model: Quadratic,
        coef: Any,
        change: FixedVector,
        *,
        columns_at_once: int,
        damping: float,
        resting: Any = None,
    ) -> RoundSums:
        """Visit all columns once.

        Parameters
        ----------
        model : Quadratic
            What to descend on.
        coef : array of the device of shape (n_columns,), float64
            Coefficients; changed.
        change : FixedVector
            h_i u_i, and behind them their mean; changed.
        columns_at_once : int
            Columns that step from the same h_i u_i.
        damping : float
            Factor on the curvature of a step.
        resting : array of the device of shape (n_columns,), uint8, or None, default=None
            Not 0 for columns that stay.

        Returns
        -------
        RoundSums
            Of the columns as they were visited.
        """
        xp, (n_columns, n_rows) = self._device.xp, self._matrix.shape
        steps = xp.empty(columns_at_once, np.float64)
        totals = xp.zeros((columns_at_once, 2), np.float64)
        words, unit = change.entries, np.float64(change.unit)
        pull = n_rows / model.total if model.sums is not None else 0.0
        quadratic = (model.slopes, model.squares, model.sums, np.float64(pull))
        penalty = (np.float64(model.l1), np.float64(model.l2), np.int32(model.is_positive))
        rest = (words[n_rows:], unit, *penalty, np.float64(damping), coef, steps, totals)
        for begin in range(0, n_columns, columns_at_once):
            end = min(begin + columns_at_once, n_columns)
            first, last = (int(self._first_piece[j]) for j in (begin, end))
            pieces = (self._offsets, self._column_of, np.int64(first), np.int64(last - first))
            parts = xp.empty(max(1, last - first), np.float64)
            columns = (self._offsets, np.int64(begin), np.int64(end - begin), parts, resting)
            self._over_pieces("piece_slopes", last - first, pieces, resting, words, unit, parts)
            grid = (-(-(end - begin) // _THREADS),)
            kernel = Kernel(self._program, "column_steps")
            self._device.launch(kernel, grid, (_THREADS,), (*columns, *quadratic, *rest))
            updates = (np.int64(begin), steps, model.curvatures, model.sums, words, unit)
            self._over_pieces("piece_updates", last - first, pieces, *updates)
        found = self._device.to_host(totals)
        if not np.isfinite(found).all():
            return RoundSums(math.nan, math.nan)
        return RoundSums(*(math.fsum(column) for column in found.T))

    def _over_pieces(
        self, name: str, n_pieces: int, pieces: tuple[Argument, ...], *args: Argument
    ) -> None:
        """Launch a warp for each piece; columns without entries have none."""
        if n_pieces == 0:
            return
        kernel = Kernel(self._program, name)
        grid = filling_grid(self._device, kernel, -(-n_pieces // (_THREADS // WARP)), _THREADS)
        self._device.launch(kernel, grid, (_THREADS,), (*self._matrix.arguments, *pieces, *args))
