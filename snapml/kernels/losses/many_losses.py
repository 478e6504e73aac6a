"""Launches of many_losses.cu: the losses of many models at known margins."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.launch_shape import filling_grid, types_of
from snapml.kernels.device.program import Kernel, Program, loss_macros
from snapml.kernels.matrices.layouts import check_array
from snapml.kernels.products.many_rows import PANEL
from snapml.kernels.sums.reduce import parts_sum

__all__ = ["ManyMarginLosses", "program"]

_THREADS = 256


def program(core_name: str, real: np.dtype) -> Program:
    """Return many_losses.cu for a loss and the type of everything in memory."""
    macros = types_of(real, np.dtype(np.float64)) | loss_macros(core_name)
    return Program("many_losses", tuple(macros.items()))


class ManyMarginLosses:
    """The losses of many models as functions of their margins, in float64 (`ManyLosses`).

    Parameters
    ----------
    device : Device
        Where everything is.
    core_name : str
        Name of the loss in the core.
    labels, weights : array of shape (n_rows, n_columns), the margins' dtype
        Tables that models share.
    label_columns, weight_columns : ndarray of shape (n_models,), int32
        Which columns are a model's.
    factors : ndarray of shape (n_models,), the margins' dtype
        Of its weights.
    """

    def __init__(
        self,
        device: Device,
        core_name: str,
        labels: Any,
        weights: Any,
        label_columns: np.ndarray,
        weight_columns: np.ndarray,
        factors: np.ndarray,
    ) -> None:
        n_rows, n_models = labels.shape[0], len(factors)
        real = np.dtype(labels.dtype)
        _check_columns(label_columns, labels.shape[1], n_models)
        _check_columns(weight_columns, weights.shape[1], n_models)
        check_array("weights", weights, (real.type,), (n_rows, None))
        self._device, self._shape, self._real = device, (n_rows, n_models), real
        self._kernel = Kernel(program(core_name, real), "many_losses")
        self._targets = (
            labels,
            np.int64(labels.shape[1]),
            weights,
            np.int64(weights.shape[1]),
            device.to_device(label_columns),
            device.to_device(weight_columns),
            device.to_device(factors.astype(real)),
        )

    def tangents(self, margins: Any) -> tuple[np.ndarray, Any, Any]:
        """Return the models' losses, and each row's slope and curvature times its weight."""
        slopes, curvatures = (self._device.xp.empty_like(margins) for _ in range(2))
        return self._losses(margins, None, None, slopes, curvatures), slopes, curvatures

    def diagonals(self, curvatures: Any) -> Any:
        """Return the curvatures, of one output each."""
        return curvatures

    def mixing(self, curvatures: Any) -> None:
        """Return None: models have one output."""

    def ahead(self, margins: Any, moves: Any, steps: Any) -> np.ndarray:
        """Return the models' losses at margins + steps * moves."""
        check_array("moves", moves, (self._real.type,), self._shape)
        check_array("steps", steps, (self._real.type,), self._shape[1:])
        return self._losses(margins, moves, steps, None, None)

    def _losses(self, margins: Any, *others: Any) -> np.ndarray:
        device, (n_rows, n_models) = self._device, self._shape
        check_array("margins", margins, (self._real.type,), self._shape)
        n_panels, n_teams, shared_bytes = n_models // PANEL, _THREADS // PANEL, 8 * _THREADS
        n_units = -(-n_rows // n_teams) * n_panels
        (n_blocks,) = filling_grid(device, self._kernel, n_units, _THREADS, shared_bytes)
        n_blocks = -(-n_blocks // n_panels)
        parts = device.xp.empty((n_blocks, n_models), np.float64)
        sizes = np.int64(n_rows), np.int64(n_models)
        args = (*self._targets, *sizes, margins, *others, parts)
        device.launch(self._kernel, (n_blocks, n_panels), (_THREADS,), args, shared_bytes)
        found = device.xp.empty(n_models, np.float64)
        parts_sum(device, parts, found)
        return device.to_host(found)


def _check_columns(columns: np.ndarray, n_columns: int, n_models: int) -> None:
    if columns.dtype != np.int32 or len(columns) != n_models or n_models % PANEL:
        raise ValueError(
            f"expected int32 columns of a multiple of {PANEL} models, got {columns.dtype} of "
            f"{len(columns)} for {n_models}"
        )
    if n_models and not (columns.min() >= 0 and columns.max() < n_columns):
        raise ValueError(f"columns of a table of {n_columns}: got {columns.min()}, {columns.max()}")
