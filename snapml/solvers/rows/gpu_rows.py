"""Margins of rows that are in a GPU's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels import DenseRows, ResidentMatrix
from snapml.kernels.matrices.device_matrix import DeviceMatrix
from snapml.kernels.products.adjoint import ExactProducts
from snapml.kernels.products.rows import margins
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.rows.gpu_matrix import upload_rows

__all__ = ["device_margins"]


def device_margins(matrix: ResidentMatrix, coef: np.ndarray, intercept: np.ndarray) -> Any:
    """Return x_i.coef_k + intercept_k for every row and output, summed in float64.

    Parameters
    ----------
    matrix : ResidentMatrix
        The rows.
    coef : ndarray of shape (n_outputs, n_features)
        Coefficients, cast to the matrix's dtype.
    intercept : ndarray of shape (n_outputs,)
        Added to every product.

    Returns
    -------
    array of the device of shape (n_rows, n_outputs), float64
        The margins.

    Raises
    ------
    NonFiniteError
        If the matrix holds NaN or infinity.
    ValueError
        If indices or offsets lead outside the matrix.
    """
    device = matrix.device
    rounded = coef.astype(matrix.dtype)
    with device.use():
        rows = upload_rows(device, matrix)
        if isinstance(rows, DenseRows):
            joint = np.column_stack([rounded.astype(np.float64), np.asarray(intercept, np.float64)])
            found = margins(device, rows, device.to_device(joint), 1.0)
        else:
            products = ExactProducts(device, DeviceMatrix(rows))
            found = device.xp.empty((len(coef), matrix.shape[0]), np.float64)
            models = device.to_device(rounded)
            for k, bias in enumerate(intercept.tolist()):
                products.margins(models[k], bias, found[k])
        # An entry that is not finite makes all margins of its row such numbers: no second read.
        if not bool(device.xp.isfinite(found).all()) and not matrix.is_finite():
            raise NonFiniteError("expected finite entries, got NaN or infinity")
        return device.xp.ascontiguousarray(found.T)
