"""Launches of losses.cu: what the losses say at known margins."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from snapml.kernels.device.device import Argument, Device
from snapml.kernels.device.launch_shape import WARP, filling_grid, types_of
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.losses.fused_pass import outputs_macros
from snapml.kernels.matrices.layouts import Targets, check_array
from snapml.kernels.sums.reduce import parts_sum

__all__ = ["MarginLosses", "program"]

_THREADS = 256


@functools.cache
def program(core_name: str, real: np.dtype) -> Program:
    """Return losses.cu for a loss and the type of labels and weights."""
    macros = types_of(real, np.dtype(np.float64)) | outputs_macros(core_name)
    return Program("losses", tuple(macros.items()))


class MarginLosses:
    """The losses of some rows as functions of their margins, of shape (n_outputs, n_rows).

    Parameters
    ----------
    device : Device
        Where everything is.
    core_name : str
        Name of the loss in the core headers.
    targets : Targets
        Labels and weights.
    n_rows : int
        How many rows these belong to.
    """

    def __init__(self, device: Device, core_name: str, targets: Targets, n_rows: int) -> None:
        self._device = device
        self._shape = targets.n_outputs, n_rows
        real = np.dtype(targets.labels.dtype)
        self._program = program(core_name, real)
        self._targets = targets.arguments(n_rows, real, is_softmax=core_name == "Softmax")

    def line_point(self, margins: Any, trial: Any, step: float) -> Any:
        """Return loss and slope between two points.

        Parameters
        ----------
        margins, trial : array, float64
            Margins of the points where `step` is 0 and 1.
        step : float
            Where to look.

        Returns
        -------
        array of shape (2,), float64
            The loss, and its derivative in the step.
        """
        self._check(margins, trial)
        return self._sums("line_point", 2, (margins, trial, np.float64(step)))

    def slopes(self, margins: Any) -> tuple[Any, Any]:
        """Return c_i l' and, as an array of one element, the loss.

        Parameters
        ----------
        margins : array, float64
            The point.

        Returns
        -------
        slopes : array, float64
            In the shape of the margins.
        loss : array of shape (1,), float64
            Summed over rows and outputs.
        """
        self._check(margins)
        out = self._device.xp.empty(self._shape, np.float64)
        return out, self._sums("slopes", 1, (margins, out))

    def curvatures(self, margins: Any) -> Any:
        """Return c_i l'' of separate outputs, the probabilities of the softmax.

        Parameters
        ----------
        margins : array, float64
            The point.

        Returns
        -------
        array, float64
            In the shape of the margins.
        """
        self._check(margins)
        out = self._device.xp.empty(self._shape, np.float64)
        self._launch("curvatures", (margins, out), 1)
        return out

    def multiply_by_curvature(self, margins: Any, directions: Any) -> None:
        """Replace directions in the margins by the losses' Hessian times them.

        Parameters
        ----------
        margins : array, float64
            The point.
        directions : array, float64
            Receives the products.
        """
        self._check(margins, directions)
        self._launch("curvature_products", (margins, directions), 2)

    def _check(self, *arrays: Any) -> None:
        for array in arrays:
            check_array("margins", array, (np.float64,), self._shape)

    def _sums(self, name: str, n_sums: int, args: tuple[Argument, ...]) -> Any:
        """Launch a kernel that leaves sums, and add these up."""
        xp = self._device.xp
        out = xp.empty(n_sums, np.float64)
        parts = self._launch(name, args, 1, n_sums)
        parts_sum(self._device, parts, out)
        return out

    def _launch(self, name: str, args: tuple[Argument, ...], n_arrays: int, n_sums: int = 0) -> Any:
        """Launch a kernel whose threads keep `n_arrays` numbers for each output."""
        device, (n_outputs, n_rows) = self._device, self._shape
        kernel = Kernel(self._program, name)
        n_threads = self._threads(n_arrays * n_outputs | 1)
        shared_bytes = 8 * n_threads * (n_arrays * n_outputs | 1)
        grid = filling_grid(device, kernel, -(-n_rows // n_threads), n_threads, shared_bytes)
        parts = device.xp.empty((grid[0], n_sums), np.float64)
        sizes = (np.int64(n_rows), np.int64(n_outputs))
        tail = (parts,) if n_sums else ()
        device.launch(kernel, grid, (n_threads,), (*self._targets, *sizes, *args, *tail),
                      shared_bytes)  # fmt: skip
        return parts

    def _threads(self, n_numbers: int) -> int:
        """Return as many threads as have room for their numbers in a block's shared memory."""
        most = self._device.shared_bytes_per_block // (8 * n_numbers)
        if most < WARP:
            raise ValueError(
                f"{self._shape[0]} outputs: the losses of a row need {8 * n_numbers} bytes of "
                f"shared memory a thread, {WARP} threads of this device have "
                f"{self._device.shared_bytes_per_block}"
            )
        return min(_THREADS, most // WARP * WARP)
