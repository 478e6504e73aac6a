"""Fewer rows than columns: the same problem in as many columns as there are rows.

With an L2 penalty, or none and the shortest answer wanted, w is a combination of the rows. In an
orthonormal basis of what the rows span the problem is dense, square and small, and ||w|| is what
it was (Hastie and Tibshirani, Efficient quadratic regularization for expression arrays, 2004;
docs/algorithms.md, section 12).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from snapml.data import Dataset, DenseMatrix, Matrix
from snapml.problems import Intercept, Problem
from snapml.solvers.control import Interim
from snapml.solvers.result import overflow_error
from snapml.solvers.rows.cpu_rows import as_array

__all__ = ["RowSpace", "is_far_wider"]

# By how much margins may be missed.
_MOST_MISSED = 1e-7
# Dense rows up to which the span is worth its basis, where there are so many times as many columns.
_MOST_ROWS, _LEAST_TIMES = 2000, 1.5
_COLUMNS_AT_ONCE = 4096  # that are made wide and centred


class _Eigenvectors:
    """The rows' coordinates along the eigenvectors of their products."""

    def __init__(self, gram: np.ndarray) -> None:
        values, vectors = eigh(gram, check_finite=False, driver="evd")
        kept = values > values[-1] * len(gram) * np.finfo(np.float64).eps * 4.0
        self._vectors, self._lengths = vectors[:, kept], np.sqrt(values[kept])

    @property
    def coordinates(self) -> np.ndarray:
        return self._vectors * self._lengths

    def of_margins(self, margins: np.ndarray) -> np.ndarray:
        """Return the coefficients, of shape (rank, n_outputs), that have margins."""
        return np.asarray(self._vectors.T @ margins) / self._lengths[:, None]

    def factors(self, coef: np.ndarray) -> np.ndarray:
        """Return what each row is taken times in the sum that has coefficients."""
        return np.asarray(self._vectors @ (coef / self._lengths[:, None]))


class _Triangle:
    """The same in the basis that Gram and Schmidt make of them, one row after the other.

    It takes a hundredth of the time, but what is added to the products' diagonal, for the centred
    rows are dependent, is missed by the margins.
    """

    def __init__(self, factor: np.ndarray) -> None:
        self.coordinates = factor

    def of_margins(self, margins: np.ndarray) -> np.ndarray:
        return np.asarray(
            solve_triangular(self.coordinates, margins, lower=True, check_finite=False)
        )

    def factors(self, coef: np.ndarray) -> np.ndarray:
        return np.asarray(
            solve_triangular(self.coordinates, coef, lower=True, trans="T", check_finite=False)
        )


class RowSpace:
    """An orthonormal basis of the rows, and the rows' coordinates in it.

    Parameters
    ----------
    problem : Problem
        Rows are centred where its intercept is free.
    dataset : Dataset
        Rows, labels and row weights.

    Attributes
    ----------
    dataset : Dataset
        The same labels and weights over the rows' coordinates, float64.

    Raises
    ------
    ValueError
        If products of the rows overflow.
    """

    def __init__(self, problem: Problem, dataset: Dataset) -> None:
        self._rows = as_array(dataset)
        is_centred = problem.intercept is Intercept.FREE
        mean = np.asarray(self._rows.mean(axis=0, dtype=np.float64)).ravel()
        self._mean = mean if is_centred else np.zeros_like(mean)
        gram = self._gram()
        if not np.isfinite(gram).all():
            raise overflow_error(self._rows.dtype)
        self._basis = _basis_of(gram, _pull(problem, dataset))
        matrix = DenseMatrix(np.ascontiguousarray(self._basis.coordinates))
        labels = dataset.labels.astype(np.float64)
        weights = dataset.row_weights
        weights = None if weights is None else weights.astype(np.float64)
        self.dataset = replace(dataset, matrix=matrix, labels=labels, row_weights=weights)

    def _gram(self) -> np.ndarray:
        """Return the products of the centred rows."""
        n_rows, n_columns = self._rows.shape
        if not isinstance(self._rows, np.ndarray):  # rows stay sparse: the products are centred
            wide = self._rows.astype(np.float64)
            gram = np.asarray((wide @ wide.T).toarray())
            offset = np.asarray(wide @ self._mean).ravel()
            gram += float(self._mean @ self._mean) - offset[:, None] - offset
            return gram
        gram = np.zeros((n_rows, n_rows))
        for first in range(0, n_columns, _COLUMNS_AT_ONCE):
            columns = slice(first, first + _COLUMNS_AT_ONCE)
            part = self._rows[:, columns].astype(np.float64) - self._mean[columns]
            gram += part @ part.T
        return gram

    def in_basis(self, coef: np.ndarray) -> np.ndarray:
        """Return coefficients of the basis with the margins that those of the columns have.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features + 1), float64
            In the data's columns, the last for the intercept's column.

        Returns
        -------
        ndarray of shape (n_outputs, rank + 1), float64
            In the basis.
        """
        joint = coef[:, :-1]
        shift = joint @ self._mean
        margins = np.asarray(self._rows @ joint.T) - shift
        return np.column_stack([self._basis.of_margins(margins).T, coef[:, -1] + shift])

    def coefficients(self, coef: np.ndarray) -> np.ndarray:
        """Return the coefficients of the columns that stand for those of the basis.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, rank + 1), float64
            In the basis, the last for the intercept's column.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            In the data's columns.
        """
        factors = self._basis.factors(coef[:, :-1].T).T
        joint = np.asarray((self._rows.T.astype(np.float64) @ factors.T).T)
        joint = joint - factors.sum(axis=1)[:, None] * self._mean
        bias = coef[:, -1] - joint @ self._mean
        return np.column_stack([joint, bias])

    def in_columns(self, model: Interim, bias_column: float) -> Interim:
        """Return a model of the basis as one of the data's columns.

        Parameters
        ----------
        model : Interim
            In the basis.
        bias_column : float
            The intercept's constant column; 0 where there is none.

        Returns
        -------
        Interim
            With the same gap and objective.
        """
        point = np.column_stack([model.coef, model.intercept / (bias_column or 1.0)])
        joint = self.coefficients(point)
        return Interim.of_point(joint, bias_column, model.gap, model.objective)


def _basis_of(gram: np.ndarray, pull: float) -> _Eigenvectors | _Triangle:
    """Return the basis that is found soonest, of those that are exact enough."""
    jitter = len(gram) * np.finfo(np.float64).eps * float(gram.diagonal().max())
    if not 0.0 < jitter * pull <= _MOST_MISSED:
        return _Eigenvectors(gram)
    shifted = gram.copy()
    shifted[np.diag_indices_from(shifted)] += jitter
    try:
        return _Triangle(cholesky(shifted, lower=True, overwrite_a=True, check_finite=False))
    except LinAlgError:
        return _Eigenvectors(gram)


def _pull(problem: Problem, dataset: Dataset) -> float:
    """Return about how large a row's factor in w may be, infinite without a penalty.

    It is c_i times the loss's slope over l2; slopes are at most one, or about the label itself.
    """
    if problem.penalty.l2 <= 0.0:
        return math.inf
    weights = dataset.weight if dataset.row_weights is None else dataset.row_weights.max()
    slope = 1.0 if problem.loss.is_joint else max(1.0, float(np.abs(dataset.labels).max()))
    return float(weights) * slope / problem.penalty.l2


def is_far_wider(
    matrix: Matrix, most_rows: int | None = None, least_times: float | None = None
) -> bool:
    """Return whether rows are dense, in memory, and few beside their columns.

    Parameters
    ----------
    matrix : Matrix
        All rows.
    most_rows : int or None, default=None
        More are too many; None is 2,000.
    least_times : float or None, default=None
        Columns for each row, at least; None is 1.5.

    Returns
    -------
    bool
        Whether a basis of their span costs less than it saves, though they may be many.
    """
    n_rows, n_columns = matrix.shape
    most = _MOST_ROWS if most_rows is None else most_rows
    times = _LEAST_TIMES if least_times is None else least_times
    is_few = n_rows <= most and times * n_rows <= n_columns
    return isinstance(matrix, DenseMatrix) and is_few
