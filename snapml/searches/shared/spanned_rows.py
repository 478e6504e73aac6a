"""Folds of dense rows that are far fewer than their columns, in a basis of what all rows span."""

from __future__ import annotations

import numpy as np

from snapml.data import Dataset, Matrix
from snapml.problems import Intercept, Logistic, Penalty, Problem
from snapml.solvers.newton.row_space import RowSpace
from snapml.solvers.threads import limit_blas_threads, resolve_n_threads

__all__ = ["SpannedRows"]


class SpannedRows:
    """Rows in as many columns as there are rows, on which an L2 penalty is what it was.

    Parameters
    ----------
    matrix : DenseMatrix
        All rows, finite; worth it where `row_space.is_far_wider` says so.
    most_weight : float
        The largest weight of a row beside a penalty of one: C times its sample weight.
    has_intercept : bool
        Whether b is fitted, without a penalty.
    n_threads : int or None
        Threads of the products.

    Attributes
    ----------
    matrix : DenseMatrix of shape (n_rows, rank)
        The rows' coordinates, float64.
    """

    def __init__(
        self, matrix: Matrix, most_weight: float, *, has_intercept: bool, n_threads: int | None
    ) -> None:
        self._dtype, self._has_intercept = matrix.dtype, has_intercept
        intercept = Intercept.FREE if has_intercept else Intercept.NONE
        problem = Problem(Logistic(), intercept, 1.0, Penalty(0.0, 1.0))
        labels = np.ones(matrix.shape[0], dtype=matrix.dtype)
        with limit_blas_threads(resolve_n_threads(n_threads, matrix.n_stored)):
            self._space = RowSpace(problem, Dataset(matrix, labels, None, most_weight))
        self.matrix = self._space.dataset.matrix

    def in_columns(self, coefs: np.ndarray) -> np.ndarray:
        """Return models of the basis as models of the rows' own columns.

        Parameters
        ----------
        coefs : ndarray of shape (..., rank + 1)
            Without the last column where there is no intercept; NaN where there is no model.

        Returns
        -------
        ndarray of shape (..., n_features + 1)
            As the others, in the rows' dtype.
        """
        flat = coefs.reshape(-1, coefs.shape[-1])
        if not self._has_intercept:
            flat = np.column_stack([flat, np.zeros(len(flat))])
        found = self._space.coefficients(flat.astype(np.float64))
        kept = found if self._has_intercept else found[:, :-1]
        return kept.reshape(*coefs.shape[:-1], kept.shape[1]).astype(self._dtype)
