"""Least squares of few columns, in one call of the extension.

The same equations as those of `snapml.solvers.least_squares.least_squares`, solved where their
rows are read: of small data every step in NumPy takes longer than its arithmetic.
"""

from __future__ import annotations

import numpy as np

from snapml.data import CompressedMatrix, DenseMatrix, Matrix
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.least_squares import compiled_sums
from snapml.solvers.least_squares.compiled_sums import MOST_COLUMNS
from snapml.solvers.least_squares.result import BY_COLUMNS, LeastSquaresResult, singular_values
from snapml.solvers.range_checks import check_range
from snapml.solvers.threads import resolve_n_threads

__all__ = ["solve_few_columns"]

# Of which products one by one are as fast as all together.
_MOST_TARGETS, _MOST_MODELS = 16, 64


def solve_few_columns(
    matrix: Matrix,
    targets: np.ndarray,
    row_weights: np.ndarray | None,
    fit_intercept: bool,
    alphas: np.ndarray,
    communicator: Communicator | None,
    n_threads: int | None = None,
) -> LeastSquaresResult | None:
    """Solve the normal equations of the columns where these are few and well conditioned.

    Parameters
    ----------
    matrix : Matrix
        The rows, not checked yet.
    targets : ndarray of shape (n_rows, n_targets)
        y, finite.
    row_weights : ndarray of shape (n_rows,) or None
        s_i; None means that all are one.
    fit_intercept : bool
        Whether there is an unpenalised b.
    alphas : ndarray of shape (n_models,), float64
        Strengths of the penalty, at least zero; model k is of target ``k % n_targets``.
    communicator : Communicator or None
        The other shards of the rows.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, one on small data.

    Returns
    -------
    LeastSquaresResult or None
        None where other ways are faster, or needed: columns or entries are many, columns depend on
        each other or are far from zero, entries are not finite.

    Raises
    ------
    ValueError
        If squares of the entries overflow in the matrix's dtype.
    """
    if not isinstance(matrix, DenseMatrix | CompressedMatrix):
        return None
    if not (communicator is None or communicator.size == 1):
        return None
    n_rows, n_features = matrix.shape
    if not 0 < n_features <= min(n_rows, MOST_COLUMNS):
        return None
    if targets.shape[1] > _MOST_TARGETS or len(alphas) > _MOST_MODELS:
        return None
    found = compiled_sums.solved(
        matrix,
        targets,
        row_weights,
        fit_intercept,
        alphas,
        resolve_n_threads(n_threads, matrix.n_stored),
        wants_gram=not alphas.any() and isinstance(matrix, DenseMatrix),
    )
    if found is None:
        return None
    check_range(found.squares, matrix.dtype)
    pairs = zip(found.objective, found.bound, strict=True)
    result = LeastSquaresResult(
        found.coef.astype(matrix.dtype, copy=False),
        found.intercept.astype(matrix.dtype),
        n_features,
        None if found.gram is None else singular_values(found.gram),
        np.array([certified_gap(objective, objective - bound) for objective, bound in pairs]),
        found.objective,
        BY_COLUMNS,
    )
    if not fit_intercept:
        return result
    return result.with_intercepts(found.beside, found.sums, found.total_weight)
