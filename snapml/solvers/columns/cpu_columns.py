"""The CPU engine of primal methods: products with the matrix, and packed columns of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml import _native
from snapml.data import CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.problems import Intercept, Problem
from snapml.solvers.rows.cpu_rows import inspect, native_rows, without_duplicates
from snapml.solvers.rows.host_losses import HostLosses

__all__ = ["CpuColumns"]


class CpuColumns(HostLosses):
    """A shard of rows as primal methods see it: sums over rows, and columns to descend on.

    A penalised intercept is one more column, of constant value, behind the matrix's own.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        Rows, labels and row weights; used in place.
    n_threads : int or None, default=None
        Threads to use; None means all available.

    Raises
    ------
    NonFiniteError
        If the matrix holds NaN or infinity.
    ValueError
        If indices or offsets lead outside the matrix.
    """

    def __init__(self, problem: Problem, dataset: Dataset, *, n_threads: int | None = None) -> None:
        super().__init__(problem, dataset, n_threads)
        self.matrix, self.rows = _checked_rows(dataset.matrix, self.pool)
        self.dtype = self.matrix.dtype
        self.n_rows, self.n_features = self.matrix.shape
        self.n_stored = self.matrix.n_stored
        self._moments: tuple[np.ndarray, np.ndarray] | None = None
        self._hessian: tuple[np.ndarray, _native.Targets, np.ndarray] | None = None

    @property
    def has_equal_weights(self) -> bool:
        """Whether all rows weigh the same."""
        return self._weights is None

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return isinstance(self.matrix, CompressedMatrix)

    @property
    def is_by_columns(self) -> bool:
        """Whether the rows are dense and a column's entries lie side by side."""
        if not isinstance(self.matrix, DenseMatrix):
            return False
        values = self.matrix.values
        return values.strides[0] == values.itemsize != values.strides[1]

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return X coef, the constant column included, summed in float64.

        Parameters
        ----------
        coef : ndarray of shape (n_cols,), float64
            One number per column.

        Returns
        -------
        ndarray of shape (n_rows,), float64
            The margins without a free intercept.
        """
        out = np.empty(self.n_rows)
        _native.product(self.pool, self.rows, np.ascontiguousarray(coef[: self.n_features]), out)
        if self.tau:
            out += self.tau * coef[-1]
        return out

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        """Return X^T vector, the constant column included, summed in float64.

        Parameters
        ----------
        vector : ndarray of shape (n_rows,), float64
            One number per row.

        Returns
        -------
        ndarray of shape (n_cols,), float64
            One sum per column.

        Raises
        ------
        NonFiniteError
            If the matrix holds NaN or infinity.
        """
        out = np.empty((self.n_threads, self.n_features))
        _native.adjoint_product(self.pool, self.rows, vector, out)
        sums = out[0]
        if not np.isfinite(sums).all():
            inspect(self.rows, self.pool)
        return np.append(sums, self.tau * vector.sum()) if self.tau else sums

    def hessian_product(self, coef: np.ndarray, shift: float, curvatures: np.ndarray) -> np.ndarray:
        """Return X^T (h * (X coef + shift)) by one read of the rows.

        Parameters
        ----------
        coef : ndarray of shape (n_cols,), float64
            One number per column.
        shift : float
            What a free intercept adds to every row, else 0.
        curvatures : ndarray of shape (n_rows,), float64
            h, one number per row.

        Returns
        -------
        ndarray of shape (n_cols,), float64
            One number per column.
        """
        # The gradient of the squared loss of labels 0 that is weighted by h.
        if self._hessian is None or self._hessian[0] is not curvatures:
            zeros, weights = np.zeros(self.n_rows, self.dtype), curvatures.astype(self.dtype)
            bias = self.tau or float(self.problem.intercept is Intercept.FREE)
            targets = _native.Targets.make(zeros, weights, 1.0, 1, False, bias)
            self._hessian = curvatures, targets, np.empty((1, self.n_rows))
        _, targets, changes = self._hessian
        point = np.append(coef[: self.n_features], coef[-1] if self.tau else shift)
        out = np.empty((self.n_threads, self.n_features + 1))
        _native.fused_pass(self.pool, self.rows, "Squared", targets, point, False, changes, out)
        return out[0, : self.n_cols]

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sum_i c_i x_ij and sum_i c_i x_ij^2 of every column; read once, then kept.

        Returns
        -------
        sums, squares : ndarray of shape (n_cols,), float64
            Weighted by the row weights.
        """
        if self._moments is None:
            out = np.empty((self.n_threads, 2, self.n_features))
            _native.column_moments(self.pool, self.rows, self._weights, self._weight, out)
            sums, squares = out[0]
            if self.tau:
                total = self.total_weight
                sums = np.append(sums, self.tau * total)
                squares = np.append(squares, self.tau**2 * total)
            self._moments = sums, squares
        return self._moments

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns that row i holds, and its entries in float64.

        Parameters
        ----------
        i : int
            Number of the row.

        Returns
        -------
        columns, entries : ndarray
            Without the constant column.
        """
        matrix: Any = self.matrix
        if isinstance(matrix, DenseMatrix):
            return np.arange(self.n_features), matrix.values[i].astype(np.float64)
        stored = slice(int(matrix.indptr[i]), int(matrix.indptr[i + 1]))
        columns = matrix.indices[stored]
        values = np.ones(len(columns)) if matrix.values is None else matrix.values[stored]
        return columns, values.astype(np.float64)


def _checked_rows(matrix: Matrix, pool: _native.ThreadPool) -> tuple[Matrix, _native.Rows]:
    """Return the rows with entries stored twice added up; compressed ones are known finite."""
    rows = native_rows(matrix, pool)
    if isinstance(matrix, DenseMatrix):
        return matrix, rows  # the first product with them shows what is not finite
    facts = inspect(rows, pool)
    summed = without_duplicates(matrix, rows, facts)
    return (matrix, rows) if summed is None else _checked_rows(summed, pool)
