"""Folds of least squares with an L1 penalty, whose rows are read as sums of products."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from snapml.data import Matrix
from snapml.problems import Penalty
from snapml.searches.shared.fold_rows import take_rows
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import Interim
from snapml.solvers.least_squares.centered_rows import readable
from snapml.solvers.least_squares.normal_equations import MOST_COLUMNS, PathModels, RowSums
from snapml.solvers.least_squares.summed_starts import near_means
from snapml.solvers.stopping import StoppingRule

__all__ = ["SquareFolds", "mean_squared_errors"]

_BLOCK_ENTRIES = 1 << 18  # predictions and entries made at a time
_FITS_AT_ONCE = 10  # before anyone who looks on is asked
_COLUMNS_A_ROW = 16  # of more, sums of products take too long to make and to read


class SquareFolds:
    """Sums over the rows of folds: those of all rows, made once, without those left out.

    Parameters
    ----------
    matrix : DenseMatrix or CompressedMatrix
        All rows.
    y : ndarray of shape (n_rows,)
        Targets.
    weights : ndarray of shape (n_rows,) or None
        Sample weights.
    has_intercept : bool
        Whether b is fitted.
    n_threads : int or None
        Threads of the products.

    Attributes
    ----------
    center : float
        Mean of the targets, 0 without an intercept.
    """

    def __init__(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        *,
        has_intercept: bool,
        n_threads: int | None,
    ) -> None:
        self._matrix, self._y, self._weights = matrix, y, weights
        self._has_intercept, self._n_threads = has_intercept, n_threads
        self.center = float(y.mean(dtype=np.float64)) if has_intercept else 0.0
        self._origin: np.ndarray | None = None
        self._all: RowSums | None = None

    def path(
        self, train: np.ndarray, penalties: list[Penalty], rule: StoppingRule
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the models of a fold.

        Parameters
        ----------
        train : ndarray
            Numbers of its rows, or a mask.
        penalties : list of Penalty
            From strong to weak.
        rule : StoppingRule
            Tolerance, and who may end the path.

        Returns
        -------
        tuple of ndarray, or None
            Coefficients, and intercepts of targets less `center`, up to the fit whose end was the
            path's. None where rows are far fewer than columns, a penalty has no L1 norm, or numbers
            overflow: what is left to methods that read rows.
        """
        numbers = np.arange(len(self._y))[train]
        is_tall = self._matrix.shape[1] <= min(_COLUMNS_A_ROW * len(numbers), MOST_COLUMNS)
        has_norms = all(each.l1 > 0.0 for each in penalties)
        if not is_tall or not has_norms or rule.verbose > 0:
            return None
        sums = self._sums_over(numbers)
        if not sums.weight > 0.0:
            return None
        equations = sums.equations(has_intercept=self._has_intercept)
        if equations is None:
            return None
        coefs, intercepts = [np.empty((0, self._matrix.shape[1]))], [np.empty(0)]
        for first in range(0, len(penalties), _FITS_AT_ONCE):
            some = penalties[first : first + _FITS_AT_ONCE]
            start = coefs[-1][-1] if first > 0 else None
            found = equations.path(some, rule.tol, start)
            if not found.is_solved:
                return None
            n_shown = _count_shown(found, self.center, rule)
            coefs.append(found.coef[:n_shown])
            intercepts.append(found.intercept[:n_shown])
            if rule.control.reason:
                break
        return np.concatenate(coefs), np.concatenate(intercepts)

    def _sums_over(self, numbers: np.ndarray) -> RowSums:
        """Return those of all rows without the rest, unless the rest is more, or rows are twice."""
        if self._origin is None:
            self._origin = self._about()
        times = np.bincount(numbers, minlength=len(self._y))
        rest = np.flatnonzero(times == 0)
        if times.max() > 1 or len(rest) > len(numbers):
            return self._sums(numbers, self._origin)
        if self._all is None:
            self._all = RowSums.of_rows(
                self._matrix, self._y, self._weights, self._origin, self._n_threads
            )
        return self._all.without(self._sums(rest, self._origin))

    def _about(self) -> np.ndarray:
        if not self._has_intercept:
            return np.zeros(self._matrix.shape[1] + 1)
        return near_means(self._matrix, self.center)

    def _sums(self, rows: np.ndarray, origin: np.ndarray) -> RowSums:
        own = None if self._weights is None else self._weights[rows]
        matrix = take_rows(self._matrix, rows)
        return RowSums.of_rows(matrix, self._y[rows], own, origin, self._n_threads)


def _count_shown(found: PathModels, center: float, rule: StoppingRule) -> int:
    """Show models to whoever looks on; return how many there were when the path was ended."""
    communicator = SerialCommunicator()
    for number in range(len(found.coef)):
        coef, intercept = found.coef[number], found.intercept[number : number + 1] + center
        gap, objective = float(found.gap[number]), float(found.objective[number])
        model_of = partial(Interim, coef[np.newaxis], intercept, gap, objective)
        if rule.control.ends(communicator, model_of):
            return number + 1
    return len(found.coef)


def mean_squared_errors(
    matrix: Matrix,
    y: np.ndarray,
    weights: np.ndarray | None,
    coef: np.ndarray,
    intercept: np.ndarray,
) -> np.ndarray:
    """Return the errors of many models on some rows.

    Parameters
    ----------
    matrix : DenseMatrix or CompressedMatrix
        Rows.
    y : ndarray of shape (n_rows,)
        Targets.
    weights : ndarray of shape (n_rows,) or None
        Sample weights.
    coef : ndarray of shape (n_models, n_features)
        w of each.
    intercept : ndarray of shape (n_models,)
        b of each.

    Returns
    -------
    ndarray of shape (n_models,), float64
        Weighted means of squares.
    """
    rows: Any = readable(matrix)
    shares = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    columns = np.ascontiguousarray(coef.T, dtype=np.float64)
    squares = np.zeros(len(intercept))
    step = max(1, _BLOCK_ENTRIES // max(1, *columns.shape))
    for first in range(0, len(y), step):
        part = slice(first, first + step)
        found = np.asarray(rows[part].astype(np.float64) @ columns)
        found += intercept - y[part, np.newaxis]
        squares += shares[part] @ np.square(found, out=found)
    return np.asarray(squares / shares.sum())
