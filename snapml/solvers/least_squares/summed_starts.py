"""Models of least squares with an L1 penalty by sums over the rows, for working sets to certify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from snapml.data import CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.problems import Intercept, Penalty, Problem
from snapml.solvers.least_squares.centered_rows import readable
from snapml.solvers.least_squares.normal_equations import NormalEquations, RowSums
from snapml.solvers.result import FitResult, StartModel

__all__ = ["Summed", "models", "near_means", "suits", "summed"]

# Columns whose products cost less than the steps that they save, of dense rows twice as many, and
# of few such rows twice as many again; and rows a column. Fits one after the other share the
# products: those that are worth as much as the reads of so many columns, and how many at most.
_MOST_COLUMNS, _ROWS_A_COLUMN, _FEW_NUMBERS = 128, 4, 2_000_000
_COLUMNS_A_FIT, _MOST_SHARED = 32, 1024
_FINER = 0.1  # a share of the tolerance, so that the first read of the rows finds it met
_SAMPLED_ROWS = 1000
_MOST_STORED = 0.3  # of the entries; of fewer, products over columns read less


def suits(problem: Problem, matrix: Matrix, n_fits: int = 1) -> bool:
    """Return whether products of all columns are a cheap way to a model.

    Parameters
    ----------
    problem : Problem
        What to solve, whatever the strengths of its penalty.
    matrix : Matrix
        The rows.
    n_fits : int, default=1
        Penalties, one after the other.

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
    if n_fits > 1 and 0 < n_columns <= min(_COLUMNS_A_FIT * n_fits, _MOST_SHARED):
        return n_rows > 0
    most = _MOST_COLUMNS
    if isinstance(matrix, DenseMatrix):
        most *= 4 if n_rows * n_columns <= _FEW_NUMBERS else 2
    return 0 < n_columns <= most and n_rows >= _ROWS_A_COLUMN * n_columns


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


@dataclass(frozen=True)
class Summed:
    """The sums of a problem's rows, and what they stand for.

    Attributes
    ----------
    sums : RowSums
        About an origin near the means.
    equations : NormalEquations
        Of the mean of halves of squares.
    scale : float
        c_i of the problem for one of the sums.
    targets : ndarray of shape (n_rows,), float64
        Labels less offsets: what models without an offset are to predict.
    origin_target : float
        What was taken from the targets.
    """

    sums: RowSums
    equations: NormalEquations
    scale: float
    targets: np.ndarray
    origin_target: float

    @property
    def center(self) -> np.ndarray:
        """Means of columns and targets, or zeros where no intercept is fitted."""
        center = self.equations.center.copy()
        center[-1] += self.origin_target
        return center

    @property
    def squares(self) -> float:
        """Sum of the rows' squared norms, weighted."""
        origin, sums = self.sums.origin[:-1], self.sums.sums[:-1]
        about = np.trace(self.sums.products) - self.sums.products[-1, -1]
        return float(about + 2.0 * origin @ sums + self.sums.weight * origin @ origin)

    def intercept(self, coef: np.ndarray, residuals: float) -> float:
        """Return the best intercept of a model.

        Parameters
        ----------
        coef : ndarray of shape (n_features,)
            w.
        residuals : float
            Their weighted sum with the intercept of the means.

        Returns
        -------
        float
            b.
        """
        center = self.center
        own = float(center[-1] - coef.astype(np.float64) @ center[:-1])
        return own + residuals / self.sums.weight

    def shares(self, penalty: Penalty) -> Penalty:
        """Return the penalty beside the mean of the losses.

        Parameters
        ----------
        penalty : Penalty
            The problem's, beside their sum.

        Returns
        -------
        Penalty
            Of the same kind.
        """
        total = self.sums.weight * self.scale
        return Penalty(penalty.l1 / total, penalty.l2 / total, penalty.is_positive)


def summed(problem: Problem, dataset: Dataset, n_threads: int | None = None) -> Summed | None:
    """Read the rows once.

    Parameters
    ----------
    problem : Problem
        What `suits`.
    dataset : Dataset
        Rows, labels and weights.
    n_threads : int or None, default=None
        Threads of the products.

    Returns
    -------
    Summed or None
        None where numbers overflow, or no row has a weight.
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
    scale = dataset.weight if dataset.row_weights is None else 1.0
    return Summed(sums, equations, scale, targets, float(origin[-1]))


def models(
    summed: Summed,
    penalties: Sequence[Penalty],
    tol: float,
    start: FitResult | StartModel | None = None,
) -> list[StartModel] | None:
    """Minimise with one penalty after the other on sums over the rows.

    Parameters
    ----------
    summed : Summed
        Of the rows.
    penalties : sequence of Penalty
        With l1 > 0, from strong to weak.
    tol : float
        Share of the objective that a duality gap may be.
    start : FitResult, StartModel or None, default=None
        Model to start from.

    Returns
    -------
    list of StartModel or None
        One for each penalty; None where a model was not found so.
    """
    begin = None if start is None else np.asarray(start.coef, dtype=np.float64).ravel()
    shares = [summed.shares(each) for each in penalties]
    found = summed.equations.path(shares, _FINER * tol, begin)
    if not found.is_solved:
        return None
    intercepts = found.intercept + summed.origin_target
    return [StartModel(*model) for model in zip(found.coef, intercepts.tolist(), strict=True)]
