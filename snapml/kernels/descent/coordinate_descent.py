"""Launches of coordinate_descent.cu: epochs of dual coordinate ascent, one launch each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.descent.dense_rounds import DenseRoundsShape, dense_rounds
from snapml.kernels.descent.dense_rounds import program as dense_program
from snapml.kernels.device.device import Argument, Device
from snapml.kernels.device.launch_shape import WARP
from snapml.kernels.device.program import Kernel, Program, loss_macros
from snapml.kernels.matrices.device_matrix import DeviceMatrix, layout_macros
from snapml.kernels.sums.partial_sums import BLOCK, add_up
from snapml.kernels.sums.shared_vector import FixedVector, FloatVector

__all__ = ["CoordinateDescent", "EpochSums", "Step", "program"]

# Rows of a block that does not wait for others: few, so that few rows in flight use all
# multiprocessors.
_WARPS = 4
# Warps of a block in rounds: many, for the meetings of the blocks cost by their number.
_MOST_WARPS = 16


def program(loss_name: str, real: np.dtype, index: np.dtype | None) -> Program:
    """Return coordinate_descent.cu for a loss and types of entries and of indices."""
    macros = (*layout_macros(real, index), *loss_macros(loss_name).items())
    return Program("coordinate_descent", macros)


@dataclass(frozen=True)
class Step:
    """What all steps of an epoch have in common.

    Attributes
    ----------
    tau : float
        Value of the intercept's column.
    offset : float
        Added to every margin.
    stiffness : float
        Factor on c_i ||x_i||^2.
    outer : float
        Factor on changes of the shared vector.
    """

    tau: float
    offset: float
    stiffness: float
    outer: float = 1.0


@dataclass(frozen=True)
class EpochSums:
    """Sums over the rows that an epoch visited, with d_i the change of beta_i.

    Attributes
    ----------
    gap : float
        The rows' gaps, each as it was visited.
    slope : float
        d_i times the margin that the step saw, without the offset.
    single : float
        d_i^2 ||x_i||^2, the intercept's column included.
    """

    gap: float
    slope: float
    single: float


class CoordinateDescent:
    """Epochs over the rows of one matrix.

    Parameters
    ----------
    device : Device
        Where the arrays are.
    matrix : DeviceMatrix
        Rows with legal indices.
    loss_name : str
        The loss's struct in the core.
    labels, norms_sq : array of the device of shape (n_rows,)
        Labels, and squared norms of the rows that the descent works on.
    row_weights : array of the device of shape (n_rows,) or None
        None where all of them are `weight`.
    weight : float
        The common weight.
    offsets : array of the device of shape (n_rows,), float64, or None, default=None
        Added to the rows' margins.
    """

    def __init__(
        self,
        device: Device,
        matrix: DeviceMatrix,
        loss_name: str,
        labels: Any,
        norms_sq: Any,
        row_weights: Any,
        weight: float,
        offsets: Any = None,
    ) -> None:
        self._device = device
        self._matrix = matrix
        self._real = matrix.dtype.type
        self._rows = (labels, row_weights, self._real(weight), offsets, norms_sq)
        self._program = program(loss_name, matrix.dtype, matrix.index_dtype)
        self._at_once = Kernel(self._program, "visit_at_once")
        self._in_rounds = Kernel(self._program, "visit_in_rounds", is_cooperative=True)
        self._dense_program = dense_program(loss_name, matrix.dtype)

    def capacity(self, *, at_once: bool = False) -> int:
        """Return how many rows the device can have in flight, in rounds or at once."""
        of_tiles = 0 if at_once or not self._matrix.is_dense else self._capacity_of_tiles()
        if of_tiles > 0:
            return of_tiles
        kernel, n_warps = (self._at_once, _WARPS) if at_once else (self._in_rounds, _MOST_WARPS)
        blocks = self._device.resident_blocks(kernel, n_warps * WARP, 0)
        return blocks * self._device.n_multiprocessors * n_warps

    def order(self, seed: int, epoch: int, block_rows: int) -> Any:
        """Return the rows in the order of an epoch; -1 where the last block is not full.

        Parameters
        ----------
        seed, epoch : int
            Equal ones give equal orders, here and on the CPU.
        block_rows : int
            Consecutive rows that are visited together, at most 16.
        """
        n_rows = self._matrix.shape[0]
        n_blocks = -(-n_rows // block_rows)
        order = self._device.xp.empty(n_blocks * block_rows, np.int64)
        args = (np.uint64(seed), np.uint64(epoch), np.int64(n_rows), np.int32(block_rows), order)
        grid = (max(1, -(-n_blocks // BLOCK)),)
        self._device.launch(Kernel(self._program, "visiting_order"), grid, (BLOCK,), args)
        return order

    def at_once(
        self, order: Any, rows_in_flight: int, step: Step, duals: Any, vector: FloatVector
    ) -> EpochSums:
        """Visit all rows, many at a time, none waiting for another.

        Parameters
        ----------
        order : array of the device, int64
            Rows, as `order` returns them.
        rows_in_flight : int
            Most rows at a time.
        step : Step
            Of all rows.
        duals : array of the device of shape (n_rows,)
            States; changed.
        vector : FloatVector
            The shared vector; changed.

        Returns
        -------
        EpochSums
            Of the rows as they were visited.
        """
        warps = min(_WARPS, rows_in_flight)
        grid = (max(1, rows_in_flight // warps),)
        sums = self._device.xp.zeros((3, grid[0] * warps), np.float64)
        args = (order, np.int64(len(order)), vector.entries, sums)
        all_args = (*self._matrix_and_shard(step, duals), *args)
        self._device.launch(self._at_once, grid, (warps * WARP,), all_args)
        return self._added(sums)

    def in_rounds(
        self, order: Any, rows_in_flight: int, step: Step, duals: Any, vector: FixedVector
    ) -> EpochSums:
        """Visit all rows, in rounds of which no row sees another's change.

        Parameters
        ----------
        order, rows_in_flight, step, duals, vector
            As for `at_once`.

        Returns
        -------
        EpochSums
            Of the rows as they were visited.
        """
        shape = self._shape_of_tiles(rows_in_flight)
        if shape is None:
            return self._in_two_reads(order, rows_in_flight, step, duals, vector)
        data = self._matrix_and_shard(step, duals)
        args = (shape, data, order, rows_in_flight, vector)
        return self._added(dense_rounds(self._device, self._dense_program, *args))

    def _in_two_reads(
        self, order: Any, rows_in_flight: int, step: Step, duals: Any, vector: FixedVector
    ) -> EpochSums:
        """Visit all rows in rounds that read them for the steps, and again for the changes."""
        device, n_multiprocessors = self._device, self._device.n_multiprocessors
        warps = min(_MOST_WARPS, -(-rows_in_flight // n_multiprocessors))
        n_resident = device.resident_blocks(self._in_rounds, warps * WARP, 0) * n_multiprocessors
        n_blocks = min(-(-rows_in_flight // warps), n_resident)
        sums = device.xp.zeros((3, rows_in_flight), np.float64)
        args = (
            *self._matrix_and_shard(step, duals),
            order,
            np.int64(len(order)),
            np.int64(rows_in_flight),
            vector.entries,
            np.float64(vector.unit),
            device.xp.empty(rows_in_flight, np.float64),
            sums,
            device.xp.zeros(1, np.uint64),
        )
        device.launch(self._in_rounds, (n_blocks,), (warps * WARP,), args)
        return self._added(sums)

    def _shape_of_tiles(self, n_slots: int) -> DenseRoundsShape | None:
        """Return how dense rows stay in shared memory during a round, or None if they cannot."""
        if not self._matrix.is_dense or n_slots > self._capacity_of_tiles():
            return None
        n_columns, itemsize = self._matrix.shape[1], self._matrix.dtype.itemsize
        return DenseRoundsShape.make(self._device, n_columns, itemsize, n_slots)

    def _capacity_of_tiles(self) -> int:
        n_columns, itemsize = self._matrix.shape[1], self._matrix.dtype.itemsize
        return DenseRoundsShape.capacity(self._device, n_columns, itemsize)

    def _matrix_and_shard(self, step: Step, duals: Any) -> tuple[Argument, ...]:
        """Return the kernels' parameters SNAPML_MATRIX and SNAPML_SHARD."""
        tau, stiffness = self._real(step.tau), self._real(step.stiffness)
        offset, outer = np.float64(step.offset), np.float64(step.outer)
        shard = (*self._rows, duals, tau, offset, stiffness, outer)
        return (*self._matrix.arguments, *shard)

    def _added(self, sums: Any) -> EpochSums:
        return EpochSums(*add_up(self._device.to_host(sums).T))
