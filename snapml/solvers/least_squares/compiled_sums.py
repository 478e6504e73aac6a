"""Least squares of few columns, and sums over rows, in one call of the extension each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapml import _native
from snapml.data import CompressedMatrix, Dataset, Matrix
from snapml.problems import Penalty
from snapml.solvers.rows.cpu_rows import native_rows

__all__ = ["MOST_COLUMNS", "Equations", "certified", "row_forms", "row_sums", "solved"]

MOST_COLUMNS = 512
"""Of so many the extension's own products are as fast as those of BLAS."""


def row_sums(
    matrix: Matrix,
    targets: np.ndarray,
    weights: np.ndarray | None,
    origin: np.ndarray,
    n_threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of products of columns and targets with each other, and of them.

    Parameters
    ----------
    matrix : DenseMatrix or CompressedMatrix
        Of at least one row.
    targets : ndarray of shape (n_rows, n_targets)
        Columns beside those of the rows; maybe none.
    weights : ndarray of shape (n_rows,), float64, or None
        c_i; None means that all are one.
    origin : ndarray of shape (n_features + n_targets,), float64
        What is taken from rows and targets.
    n_threads : int
        Threads to use.

    Returns
    -------
    products : ndarray of shape (n_features + n_targets, n_features + n_targets), float64
        Sums of c_i v_i v_i^T, v_i a row with its targets, less the origin.
    sums : ndarray of shape (n_features + n_targets,), float64
        Sums of c_i v_i.
    """
    size, pool = len(origin), _native.ThreadPool(n_threads)
    products, sums = np.empty((size, size)), np.empty(size)
    columns = np.ascontiguousarray(targets.T, dtype=np.float64)
    _native.row_sums(pool, native_rows(matrix, pool), columns, weights, origin, products, sums)
    return products, sums


def row_forms(matrix: CompressedMatrix, upper: np.ndarray, n_threads: int) -> np.ndarray:
    """Return the quadratic form ``x^T M x`` of a symmetric matrix at every row.

    Parameters
    ----------
    matrix : CompressedMatrix
        Rows.
    upper : ndarray of shape (n_features, n_features), float64
        M, of whose halves the upper one is read.
    n_threads : int
        Threads to use.

    Returns
    -------
    ndarray of shape (n_rows,)
        One for each row.
    """
    pool, out = _native.ThreadPool(n_threads), np.empty(matrix.shape[0])
    _native.row_forms(pool, native_rows(matrix, pool), upper, out)
    return out


class Equations(NamedTuple):
    """Models that the normal equations of centred columns have.

    Attributes
    ----------
    coef : ndarray of shape (n_models, n_features), float64
        w, rounded to the dtype of the rows.
    objective, bound : ndarray of shape (n_models,), float64
        P for the means' intercept, and what that can be above its minimum.
    intercept, beside : ndarray of shape (n_models,), float64
        b, rounded to the dtype of the rows, and by how much.
    sums : ndarray of shape (n_models,), float64
        Of the residuals, weighted.
    gram : ndarray of shape (n_features, n_features), float64, or None
        Of the centred columns, where it was asked for.
    squares, total_weight : float
        Sum of the rows' squared norms, and of the weights.
    """

    coef: np.ndarray
    objective: np.ndarray
    bound: np.ndarray
    intercept: np.ndarray
    beside: np.ndarray
    sums: np.ndarray
    gram: np.ndarray | None
    squares: float
    total_weight: float


def solved(
    matrix: Matrix,
    targets: np.ndarray,
    weights: np.ndarray | None,
    fit_intercept: bool,
    alphas: np.ndarray,
    n_threads: int,
    *,
    wants_gram: bool,
) -> Equations | None:
    """Solve the normal equations, refined on the residual.

    Parameters
    ----------
    matrix : DenseMatrix or CompressedMatrix
        Of at least as many rows as columns.
    targets : ndarray of shape (n_rows, n_targets)
        y, finite.
    weights : ndarray of shape (n_rows,) or None
        s_i; None means that all are one.
    fit_intercept : bool
        Whether there is an unpenalised b.
    alphas : ndarray of shape (n_models,), float64
        Strengths of the penalty, at least zero; model k is of target ``k % n_targets``.
    n_threads : int
        Threads to use.
    wants_gram : bool
        Whether to return the columns' products.

    Returns
    -------
    Equations or None
        None where columns depend on each other or are far from zero, or an entry is not finite.
    """
    pool, n_features = _native.ThreadPool(n_threads), matrix.shape[1]
    coef, facts = np.empty((len(alphas), n_features)), np.empty((len(alphas), 5))
    gram = np.empty((n_features, n_features)) if wants_gram else None
    is_solved, squares, total_weight = _native.least_squares(
        pool,
        native_rows(matrix, pool),
        np.ascontiguousarray(targets.T, dtype=np.float64),
        None if weights is None else np.ascontiguousarray(weights, dtype=np.float64),
        fit_intercept,
        alphas,
        coef,
        facts,
        gram,
    )
    if not is_solved:
        return None
    objective, bound, intercept, beside, sums = facts.T
    return Equations(coef, objective, bound, intercept, beside, sums, gram, squares, total_weight)


def certified(
    dataset: Dataset,
    targets: np.ndarray,
    center: np.ndarray,
    fit_intercept: bool,
    points: np.ndarray,
    penalties: list[Penalty],
    n_threads: int,
) -> np.ndarray:
    """Read rows once for the certificates of some models.

    Parameters
    ----------
    dataset : Dataset
        Rows and weights; the c_i of rows without weights are one here.
    targets : ndarray of shape (n_rows,), float64
        Labels less offsets.
    center : ndarray of shape (n_features + 1,), float64
        The means of columns and targets with an intercept, else zeros.
    fit_intercept : bool
        Whether there is an unpenalised b, for which each model's best is taken.
    points : ndarray of shape (n_models, n_features), float64
        Coefficients.
    penalties : list of Penalty
        One for each, beside sums with these c_i.
    n_threads : int
        Threads to use.

    Returns
    -------
    ndarray of shape (n_models, 3), float64
        P, a lower bound of its minimum, and the sum of the residuals about the center.
    """
    matrix, facts = dataset.matrix, np.empty((len(points), 3))
    pool, weights = _native.ThreadPool(n_threads), dataset.row_weights
    _native.certify_squares(
        pool,
        native_rows(matrix, pool),
        targets,
        None if weights is None else np.ascontiguousarray(weights, dtype=np.float64),
        center,
        fit_intercept,
        points,
        np.array([each.l1 for each in penalties]),
        np.array([each.l2 for each in penalties]),
        penalties[0].is_positive,
        facts,
    )
    return facts
