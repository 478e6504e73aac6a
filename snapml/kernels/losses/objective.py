"""Launches of objective.cu: sums over states and margins, and the penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.program import Kernel, Program, core_type, loss_macros
from snapml.kernels.sums.partial_sums import BLOCK, add_up, blocks_for

__all__ = ["RowSums", "program"]

# Rows that a block adds up, at least: few blocks leave few numbers to the host.
_ROWS_OF_BLOCK = 8 * BLOCK


def program(loss_name: str, real: np.dtype) -> Program:
    """Return objective.cu for a loss of the core and a type of labels."""
    macros = (("SNAPML_REAL", core_type(real)), *loss_macros(loss_name).items())
    return Program("objective", macros)


class RowSums:
    """Sums over the rows of one loss, in float64 and always in the same order.

    Parameters
    ----------
    device : Device
        Where the arrays are.
    loss_name : str
        The loss's struct in the core.
    labels : array of the device of shape (n_rows,)
        float32 or float64.
    row_weights : array of the device of shape (n_rows,) or None
        In the labels' dtype; None where all of them are `weight`.
    weight : float
        The common weight.
    offsets : array of the device of shape (n_rows,), float64, or None, default=None
        o_i of the dual's terms. Margins come with them.
    """

    def __init__(
        self,
        device: Device,
        loss_name: str,
        labels: Any,
        row_weights: Any,
        weight: float,
        offsets: Any = None,
    ) -> None:
        self._device = device
        self._labels = labels
        self._weights = (labels, row_weights, np.float64(weight))
        self._offsets = offsets
        self._program = program(loss_name, np.dtype(labels.dtype))

    def start_states(self) -> Any:
        """Return the states of beta = 0, on the device."""
        n_rows = len(self._labels)
        duals = self._device.xp.empty(n_rows, self._labels.dtype)
        kernel = Kernel(self._program, "start_states")
        grid = (blocks_for(n_rows, BLOCK),)
        self._device.launch(kernel, grid, (BLOCK,), (self._labels, np.int64(n_rows), duals))
        return duals

    def dual(
        self,
        duals: Any,
        positive_scale: float = 1.0,
        negative_scale: float = 1.0,
        beta: Any = None,
    ) -> tuple[float, float, float]:
        """Return the dual's loss terms and the sums of the positive and the negative beta.

        Parameters
        ----------
        duals : array of the device of shape (n_rows,)
            States.
        positive_scale, negative_scale : float
            Factors for the dual variables in the terms; the other two sums know none.
        beta : array of the device of shape (n_rows,), float64, or None
            Filled with the scaled dual variables.

        Returns
        -------
        terms, positive, negative : float
            ``-sum_i (c_i l*(-beta'_i / c_i) + o_i beta'_i)``, and what the plain beta_i add up to.
        """
        count = len(duals)
        scales = (np.float64(positive_scale), np.float64(negative_scale))
        return self._sums(
            "dual_sums",
            count,
            (*self._weights, self._offsets, duals, np.int64(count), *scales, beta),
        )

    def line_slope(self, kept: Any, duals: Any, step: float, offset: float) -> float:
        """Return how the dual's loss terms, less the multiplier's, rise along a line.

        Parameters
        ----------
        kept, duals : array of the device of shape (n_rows,)
            States at its two ends.
        step : float
            Where on it: 0 at `kept`, 1 at `duals`.
        offset : float
            The multiplier of the sum of beta.

        Returns
        -------
        float
            The derivative in `step` of
            ``sum_i (-c_i l*(-beta_i / c_i) - (o_i + offset) beta_i)``.
        """
        ends = (kept, duals, np.float64(step), np.float64(offset), np.int64(len(duals)))
        return self._sums("line_slope", len(duals), (*self._weights, self._offsets, *ends))[0]

    def go_to(self, kept: Any, duals: Any, step: float) -> None:
        """Move `duals` to `step` on the line from `kept`; arguments as of `line_slope`."""
        n_rows = len(duals)
        args = (self._labels, kept, np.float64(step), np.int64(n_rows), duals)
        grid = (blocks_for(n_rows, BLOCK),)
        self._device.launch(Kernel(self._program, "go_to"), grid, (BLOCK,), args)

    def loss(
        self, margins: Any, shift: float, gradients: Any = None, curvatures: Any = None
    ) -> tuple[float, float, float]:
        """Return ``sum_i c_i l(z_i + shift, y_i)`` and its first two derivatives in the shift.

        Parameters
        ----------
        margins : array of the device of shape (n_rows,), float64, or None
            z; None means that all are zero.
        shift : float
            Added to every margin.
        gradients, curvatures : array of the device of shape (n_rows,), float64, or None
            Filled with c_i l' and c_i l''.
        """
        count = len(self._labels)
        rows = (margins, np.float64(shift), gradients, curvatures, np.int64(count))
        return self._sums("loss_sums", count, (*self._weights, *rows))

    def gradient_terms(self, gradients: Any, scale: float) -> float:
        """Return the dual's loss terms at dual variables that come from the loss's gradient.

        Parameters
        ----------
        gradients : array of the device of shape (n_rows,), float64
            c_i l'.
        scale : float
            beta_i is -scale times that.

        Returns
        -------
        float
            ``-sum_i c_i l*(-beta_i / c_i)``.
        """
        count = len(self._labels)
        args = (*self._weights, gradients, np.float64(scale), np.int64(count))
        return self._sums("gradient_terms", count, args)[0]

    def penalty(self, vector: Any) -> tuple[float, float]:
        """Return R and R* of a float64 vector of the device."""
        value, conjugate, _ = self._sums(
            "penalty_sums", len(vector), (vector, np.int64(len(vector)))
        )
        return value, conjugate

    def _sums(self, name: str, count: int, args: tuple[Any, ...]) -> tuple[float, float, float]:
        n_blocks = blocks_for(count, _ROWS_OF_BLOCK)
        parts = self._device.xp.empty((n_blocks, 3), np.float64)
        self._device.launch(Kernel(self._program, name), (n_blocks,), (BLOCK,), (*args, parts))
        return add_up(self._device.to_host(parts))
