"""The model of least norm that meets every target, with the multipliers that prove it the least."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from snapml.data import Matrix
from snapml.solvers.least_squares.centered_rows import CenteredRows, work_entries
from snapml.solvers.least_squares.ridge_factor import RidgeFactor
from snapml.solvers.rows.cpu_rows import check_rows
from snapml.solvers.threads import limit_blas_threads, resolve_n_threads

__all__ = ["MOST_ROWS", "Interpolation", "interpolate"]

MOST_ROWS = 4096
"""Whose matrix of products is factored."""
# Of the trace: what makes the products definite, and is refined away; of the targets' norm, what
# may be left of them; and after how many steps.
_RIDGE, _LEFT, _MOST_STEPS = 1e-13, 1e-12, 20


class Interpolation(NamedTuple):
    """A model that meets every target.

    Attributes
    ----------
    coef : ndarray of shape (n_features,), float64
        w, the columns times the duals.
    intercept : float
        b; 0 without one.
    duals : ndarray of shape (n_rows,), float64
        Multipliers of the rows, whose sum is 0 where there is an intercept.
    """

    coef: np.ndarray
    intercept: float
    duals: np.ndarray


def interpolate(
    matrix: Matrix, targets: np.ndarray, fit_intercept: bool, n_threads: int | None = None
) -> Interpolation | None:
    """Minimise the norm of the coefficients among models that meet every target.

    Parameters
    ----------
    matrix : DenseMatrix or CompressedMatrix
        The rows, at most `MOST_ROWS` and no more than columns.
    targets : ndarray of shape (n_rows,), float64
        y, finite.
    fit_intercept : bool
        Whether there is a b.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, one on small data.

    Returns
    -------
    Interpolation or None
        None where rounding leaves none: rows depend on each other.

    Raises
    ------
    NonFiniteError, ValueError
        If the matrix holds what no solver can work with.
    """
    check_rows(matrix, n_threads)
    n_threads = resolve_n_threads(n_threads, work_entries(matrix))
    with limit_blas_threads(n_threads):
        rows = CenteredRows(matrix, None, fit_intercept, n_threads=n_threads)
        centered, mean, rest = rows.center(targets[:, np.newaxis])
        duals = _multipliers(rows, centered, fit_intercept)
        if duals is None:
            return None
        coef = rows.transposed_dot(duals)[:, 0]
    level = float((mean + rest)[0] - (rows.mean + rows.mean_rest) @ coef)
    return Interpolation(coef, level if fit_intercept else 0.0, duals[:, 0])


def _multipliers(rows: CenteredRows, targets: np.ndarray, fit_intercept: bool) -> np.ndarray | None:
    """Return duals with which the rows' products meet the targets."""
    kernel = rows.kernel()
    average = float(np.trace(kernel)) / len(kernel)
    if not 0.0 < average < np.inf:
        return None
    if fit_intercept:
        kernel += average / len(kernel)  # centred rows have a sum of none
    try:
        factor = RidgeFactor(kernel, _RIDGE * average * len(kernel))
    except LinAlgError:
        return None
    duals, left = np.zeros_like(targets), targets
    for _ in range(_MOST_STEPS):
        duals += factor.solve(left)
        if fit_intercept:
            duals -= duals.mean()
        left = targets - rows.dot(rows.transposed_dot(duals))
        if np.linalg.norm(left) <= _LEFT * np.linalg.norm(targets):
            return duals
    return None
