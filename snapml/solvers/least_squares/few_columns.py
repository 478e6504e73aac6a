"""Least squares of few dense columns, in one call of the extension.

The same equations as those of `snapml.solvers.least_squares.least_squares`, solved where their
rows are read: of small data every step in NumPy takes longer than its arithmetic.
"""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.data import DenseMatrix, Matrix
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.least_squares.result import BY_COLUMNS, LeastSquaresResult, singular_values
from snapml.solvers.range_checks import check_range
from snapml.solvers.rows.cpu_rows import native_rows
from snapml.solvers.threads import resolve_n_threads

__all__ = ["solve_few_columns"]

# Columns and targets up to which the extension's own products are as fast as those of BLAS.
_MOST_COLUMNS, _MOST_TARGETS = 512, 16


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
    alphas : ndarray of shape (n_targets,), float64
        Strength of the penalty, at least zero.
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
    n_rows, n_features = matrix.shape
    n_targets = len(alphas)
    if not isinstance(matrix, DenseMatrix) or not (communicator is None or communicator.size == 1):
        return None
    if not 0 < n_features <= min(n_rows, _MOST_COLUMNS) or n_targets > _MOST_TARGETS:
        return None
    coef, facts = np.empty((n_targets, n_features)), np.empty((n_targets, 5))
    gram = None if alphas.any() else np.empty((n_features, n_features))
    pool = _native.ThreadPool(resolve_n_threads(n_threads, matrix.n_stored))
    is_solved, squares, total_weight = _native.least_squares(
        pool,
        native_rows(matrix, pool),
        np.ascontiguousarray(targets.T, dtype=np.float64),
        None if row_weights is None else row_weights.astype(np.float64, copy=False),
        fit_intercept,
        alphas,
        coef,
        facts,
        gram,
    )
    if not is_solved:
        return None
    check_range(squares, matrix.dtype)
    objective, bound, intercept, beside, sums = facts.T
    result = LeastSquaresResult(
        coef.astype(matrix.dtype, copy=False),
        intercept.astype(matrix.dtype),
        n_features,
        None if gram is None else singular_values(gram),
        np.array([certified_gap(p, p - b) for p, b in zip(objective, bound, strict=True)]),
        objective,
        BY_COLUMNS,
    )
    return result.with_intercepts(beside, sums, total_weight) if fit_intercept else result
