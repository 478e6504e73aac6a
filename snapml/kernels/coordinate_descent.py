"""Launches of coordinate_descent.cu: epochs of dual coordinate ascent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.device import Argument, Device
from snapml.kernels.device_matrix import DeviceMatrix, layout_macros
from snapml.kernels.launch_shape import WARP
from snapml.kernels.partial_sums import BLOCK, add_up
from snapml.kernels.program import Kernel, Program
from snapml.kernels.shared_vector import FixedVector, FloatVector

__all__ = ["LOSSES", "CoordinateDescent", "EpochSums", "Step", "program"]

LOSSES = ("Hinge", "Logistic", "Squared", "SquaredHinge")
"""Losses of the core that have a coordinate step."""

# Rows of a block: few, so that few rows in flight use all multiprocessors.
_WARPS = 4
# Slots of a block of the dense round_updates: kTeam times kRowsEach.
_TEAM, _SLOTS_OF_TEAM = 8, 32


def program(loss_name: str, real: np.dtype, index: np.dtype | None) -> Program:
    """Return coordinate_descent.cu for a loss and types of entries and of indices."""
    macros = (*layout_macros(real, index), ("SNAPML_LOSS", f"snapml::{loss_name}"))
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
    ) -> None:
        self._device = device
        self._matrix = matrix
        self._real = matrix.dtype.type
        self._rows = (labels, row_weights, self._real(weight), norms_sq)
        self._program = program(loss_name, matrix.dtype, matrix.index_dtype)

    def capacity(self) -> int:
        """Return how many rows the device can have in flight."""
        kernel = Kernel(self._program, "visit_rows")
        blocks = self._device.resident_blocks(kernel, _WARPS * WARP, 0)
        return blocks * self._device.n_multiprocessors * _WARPS

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
        self._launch("visit_rows", grid, (warps * WARP,), (*self._shard(step, duals), *args))
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
        warps = min(_WARPS, rows_in_flight)
        grid, block = (-(-rows_in_flight // warps),), (warps * WARP,)
        update_grid, update_block = self._update_shape(rows_in_flight, grid, block)
        scales = self._device.xp.empty(rows_in_flight, np.float64)
        sums = self._device.xp.zeros((3, rows_in_flight), np.float64)
        n_slots, n_positions, unit = (
            np.int64(rows_in_flight),
            np.int64(len(order)),
            np.float64(vector.unit),
        )
        shard, tau = self._shard(step, duals), self._real(step.tau)
        for position in range(0, len(order), rows_in_flight):
            first = np.int64(position)
            slots = (first, n_slots)
            steps = (order, n_positions, *slots, vector.entries, unit, scales, sums)
            self._launch("round_steps", grid, block, (*shard, *steps))
            updates = (order, *slots, scales, tau, vector.entries, unit)
            self._launch("round_updates", update_grid, update_block, updates)
        return self._added(sums)

    def _update_shape(
        self, n_slots: int, grid: tuple[int, ...], block: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if not self._matrix.is_dense:
            return grid, block
        n_columns = self._matrix.shape[1] + 1
        return (-(-n_columns // WARP), -(-n_slots // _SLOTS_OF_TEAM)), (WARP, _TEAM)

    def _launch(
        self,
        name: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Argument, ...],
    ) -> None:
        kernel = Kernel(self._program, name)
        self._device.launch(kernel, grid, block, (*self._matrix.arguments, *args))

    def _shard(self, step: Step, duals: Any) -> tuple[Argument, ...]:
        """Return the kernels' parameters SNAPML_SHARD."""
        tau, offset, stiffness = (self._real(x) for x in (step.tau, step.offset, step.stiffness))
        return (*self._rows, duals, tau, offset, stiffness, np.float64(step.outer))

    def _added(self, sums: Any) -> EpochSums:
        return EpochSums(*add_up(self._device.to_host(sums).T))
