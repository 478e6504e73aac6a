"""Launches of adjoint.cu: X w and X^T beta in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.launch_shape import WARP
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices.device_matrix import DeviceMatrix, layout_macros
from snapml.kernels.matrices.layouts import DenseRows
from snapml.kernels.products.transposed import transposed_products
from snapml.kernels.sums.partial_sums import BLOCK, blocks_for

__all__ = ["ExactProducts", "program"]

# Bits of a word that a sum may fill; one more keeps the rounding of the addends, and one the sign.
_WORD_BITS = 61
_FINER = 2.0**-32  # the second word's unit, kFiner of adjoint.cu
_MOST_EXPONENT = 960  # per_unit, times all that it meets, stays a number


def program(real: np.dtype, index: np.dtype | None) -> Program:
    """Return adjoint.cu for types of entries and of indices; None where rows are dense."""
    return Program("adjoint", layout_macros(real, index))


class ExactProducts:
    """Products of one matrix with vectors, as the user gave it: without a mean.

    Parameters
    ----------
    device : Device
        Where the arrays are.
    matrix : DeviceMatrix
        Rows with legal indices.
    """

    def __init__(self, device: Device, matrix: DeviceMatrix) -> None:
        self._device = device
        self._matrix = matrix
        self._program = program(matrix.dtype, matrix.index_dtype)

    def margins(self, model: Any, bias: float, margins: Any) -> None:
        """Fill the margins with X w + bias.

        Parameters
        ----------
        model, bias, margins
            As for `sweep`.
        """
        grid = (blocks_for(self._matrix.shape[0], BLOCK // WARP),)
        args = (*self._matrix.arguments, model, np.float64(bias), margins)
        none = (None, np.float64(0), None)
        self._device.launch(Kernel(self._program, "exact_rows"), grid, (BLOCK,), (*args, *none))

    def sweep(self, model: Any, bias: float, margins: Any, beta: Any, reach: float) -> np.ndarray:
        """Fill the margins and return X^T beta.

        Parameters
        ----------
        model : array of the device of shape (n_columns,) or longer, the matrix's dtype
            w.
        bias : float
            Added to every margin.
        margins : array of the device of shape (n_rows,), float64
            Filled with X w + bias.
        beta : array of the device of shape (n_rows,), float64
            Factors of the rows.
        reach : float
            At least ``sum_i |beta_i| ||x_i||``: no entry of the product is larger.

        Returns
        -------
        ndarray of shape (n_columns,), float64
            On the host.
        """
        if self._matrix.is_dense:
            self.margins(model, bias, margins)
            return self.column_sums(beta)
        grid = (blocks_for(self._matrix.shape[0], BLOCK // WARP),)
        args = (*self._matrix.arguments, model, np.float64(bias), margins)
        kernel = Kernel(self._program, "exact_rows")
        words = self._device.xp.zeros((self._matrix.shape[1], 2), np.int64)
        exponent = 0 if reach <= 0.0 else _WORD_BITS - math.frexp(reach)[1]
        per_unit = math.ldexp(1.0, min(exponent, _MOST_EXPONENT))
        self._device.launch(kernel, grid, (BLOCK,), (*args, beta, np.float64(per_unit), words))
        high, low = self._device.to_host(words).T.astype(np.float64)
        product: np.ndarray = (high + low * _FINER) / per_unit
        return product

    def column_sums(self, beta: Any) -> np.ndarray:
        """Return X^T beta of dense rows, on the host in float64.

        Parameters
        ----------
        beta : array of the device of shape (n_rows,), float64
            Factors of the rows.
        """
        rows = self._matrix.rows
        if not isinstance(rows, DenseRows):
            raise TypeError(f"expected DenseRows, got {type(rows).__name__}")
        products = transposed_products(self._device, rows, beta[None, :], 0.0)
        return self._device.to_host(products)[0, :-1]
