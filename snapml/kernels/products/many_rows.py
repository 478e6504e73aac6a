"""Launches of many_rows.cu: products of compressed rows with the vectors of many models."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.launch_shape import filling_grid
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices.device_matrix import DeviceMatrix, layout_macros
from snapml.kernels.matrices.layouts import CompressedRows, check_array
from snapml.kernels.sums.reduce import parts_sum

__all__ = ["PANEL", "ManyRows", "program"]

PANEL = 16  # kPanel of many_rows.cu and many_losses.cu
_THREADS = 256
_TEAMS = _THREADS // PANEL
_PIECES = 16  # kPieces of many_rows.cu
# Entries of a row that one team takes: 4096 reads one after the other are some 0.4 ms.
_MOST_ENTRIES = 4096


def program(real: np.dtype, index: np.dtype) -> Program:
    """Return many_rows.cu for types of entries and of indices."""
    return Program("many_rows", layout_macros(real, index))


class ManyRows:
    """Compressed rows that are multiplied with vectors of many models.

    Parameters
    ----------
    device : Device
        Where everything is.
    rows : CompressedRows
        With legal indices.
    most_entries : int, default=4096
        Longer rows are shared by several blocks, which changes the rounding and the time.
    """

    def __init__(
        self, device: Device, rows: CompressedRows, most_entries: int = _MOST_ENTRIES
    ) -> None:
        self._device, self._matrix = device, DeviceMatrix(rows)
        self._program = program(rows.dtype, np.dtype(rows.indices.dtype))
        self._most_entries = most_entries
        self._long = device.xp.flatnonzero(device.xp.diff(rows.indptr) > most_entries)

    def product(self, vectors: Any, *, is_squared: bool = False) -> Any:
        """Return X V, or (X * X) V. Equal calls give equal bits.

        Parameters
        ----------
        vectors : array of shape (n_cols, n_models), the rows' dtype
            V; n_models is a multiple of `PANEL`.
        is_squared : bool, default=False
            Whether to square the entries.

        Returns
        -------
        array of shape (n_rows, n_models), the rows' dtype
            Summed in float64.
        """
        device, matrix = self._device, self._matrix
        n_rows, n_cols = matrix.shape
        check_array("vectors", vectors, (matrix.dtype.type,), (n_cols, None))
        n_models = vectors.shape[1]
        if n_models % PANEL:
            raise ValueError(f"expected a multiple of {PANEL} models, got {n_models}")
        out = device.xp.empty((n_rows, n_models), matrix.dtype)
        kernel = Kernel(self._program, "short_rows")
        n_units = -(-n_rows * (n_models // PANEL) // _TEAMS)
        grid = filling_grid(device, kernel, n_units, _THREADS)
        args = (*matrix.arguments, vectors, np.int64(n_models), np.int64(is_squared))
        device.launch(kernel, grid, (_THREADS,), (*args, np.int64(self._most_entries), out))
        if len(self._long):
            self._add_long_rows(args, n_models, out)
        return out

    def _add_long_rows(self, args: tuple[Any, ...], n_models: int, out: Any) -> None:
        device, n_long = self._device, len(self._long)
        kernel, shared_bytes = Kernel(self._program, "long_rows"), 8 * _THREADS
        n_units = _PIECES * n_long * (n_models // PANEL)
        grid = filling_grid(device, kernel, n_units, _THREADS, shared_bytes)
        parts = device.xp.empty((_PIECES, n_long * n_models), np.float64)
        args = (*args, self._long, np.int64(n_long), parts)
        device.launch(kernel, grid, (_THREADS,), args, shared_bytes)
        sums = device.xp.empty((n_long, n_models), np.float64)
        parts_sum(device, parts, sums)
        out[self._long] = sums.astype(out.dtype)
