"""Models of least squares with an L1 penalty by sums over the rows, for working sets to certify."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapml.data import CompressedMatrix, Dataset, Matrix
from snapml.problems import Intercept, Penalty, Problem
from snapml.solvers.least_squares.centered_rows import readable
from snapml.solvers.least_squares.normal_equations import RowSums
from snapml.solvers.result import FitResult, StartModel

__all__ = ["models", "near_means", "suits"]

# Columns whose products cost less than the steps that they save, and rows a column; and a share of
# the tolerance, so that the first read of the rows finds it met.
_MOST_COLUMNS, _ROWS_A_COLUMN, _FINER = 128, 4, 0.1
_SAMPLED_ROWS = 1000
_MOST_STORED = 0.3  # of the entries; of fewer, products over columns read less


def suits(problem: Problem, matrix: Matrix) -> bool:
    """Return whether products of all columns are a cheap way to a model.

    Parameters
    ----------
    problem : Problem
        What to solve, whatever the strengths of its penalty.
    matrix : Matrix
        The rows.

    Returns
    -------
    bool
        Whether loss, penalty and shape are such.
    """
    penalty = problem.penalty
    is_plain = problem.loss.is_quadratic and penalty.bounds is None
    if not is_plain or problem.intercept is Intercept.PENALISED:
        return False
    n_rows, n_columns = matrix.shape
    is_thin = isinstance(matrix, CompressedMatrix) and (
        matrix.n_stored < _MOST_STORED * n_rows * n_columns
    )
    if is_thin:
        return False
    return 0 < n_columns <= _MOST_COLUMNS and n_rows >= _ROWS_A_COLUMN * n_columns


def near_means(matrix: Matrix, y_mean: float) -> np.ndarray:
    """Return what sums over rows lose few digits about: the means of some of the rows.

    Parameters
    ----------
    matrix : DenseMatrix or CompressedMatrix
        Rows.
    y_mean : float
        Mean of the targets.

    Returns
    -------
    ndarray of shape (n_features + 1,), float64
        Of sparse rows zeros in place of means, which keep what is not stored.
    """
    origin = np.zeros(matrix.shape[1] + 1)
    if not isinstance(matrix, CompressedMatrix):
        step = max(1, matrix.shape[0] // _SAMPLED_ROWS)
        origin[:-1] = readable(matrix)[::step].mean(axis=0, dtype=np.float64)
    origin[-1] = y_mean
    return origin


def models(
    problem: Problem,
    penalties: Sequence[Penalty],
    dataset: Dataset,
    tol: float,
    start: FitResult | StartModel | None = None,
    n_threads: int | None = None,
) -> list[StartModel] | None:
    """Minimise with one penalty after the other on sums over the rows.

    Parameters
    ----------
    problem : Problem
        What `suits`.
    penalties : sequence of Penalty
        With l1 > 0, from strong to weak.
    dataset : Dataset
        Rows, labels and weights.
    tol : float
        Share of the objective that a duality gap may be.
    start : FitResult, StartModel or None, default=None
        Model to start from.
    n_threads : int or None, default=None
        Threads of the products.

    Returns
    -------
    list of StartModel or None
        One for each penalty; None where numbers overflow or a model was not found so.
    """
    has_intercept = problem.intercept is Intercept.FREE
    targets = dataset.labels.astype(np.float64)
    if dataset.offsets is not None:
        targets = targets - dataset.offsets
    origin = np.zeros(dataset.matrix.shape[1] + 1)
    if has_intercept:
        origin = near_means(dataset.matrix, float(targets.mean()))
    with np.errstate(over="ignore", invalid="ignore"):
        sums = RowSums.of_rows(dataset.matrix, targets, dataset.row_weights, origin, n_threads)
        if not sums.weight > 0.0:
            return None
        equations = sums.equations(has_intercept=has_intercept)
    if equations is None:
        return None
    total = sums.weight * (dataset.weight if dataset.row_weights is None else 1.0)
    shares = [Penalty(p.l1 / total, p.l2 / total, p.is_positive) for p in penalties]
    begin = None if start is None else np.asarray(start.coef, dtype=np.float64).ravel()
    found = equations.path(shares, _FINER * tol, begin)
    if not found.is_solved:
        return None
    intercepts = found.intercept + (origin[-1] if has_intercept else 0.0)
    return [StartModel(*model) for model in zip(found.coef, intercepts.tolist(), strict=True)]
