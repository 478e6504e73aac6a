"""The Gram matrix of some columns, added up while a store is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapml import _native
from snapml.data import DenseMatrix, Matrix
from snapml.problems import Intercept
from snapml.solvers.quadratic_model import Model
from snapml.solvers.rows.cpu_rows import inspect, native_rows, without_duplicates

if TYPE_CHECKING:
    from snapml.solvers.columns.streamed_columns import StreamedColumns

__all__ = ["StreamedGram"]

_BLOCK_ENTRIES = 1 << 18  # of rows multiplied together: stay in the processor's cache


class StreamedGram:
    """sum_i h_i x_i x_i^T of some columns in float64, less a free intercept's share.

    Parameters
    ----------
    engine : StreamedColumns
        Where the rows come from.
    columns : ndarray
        Sorted numbers; the constant column's is the last.
    curvatures : ndarray of shape (n_rows,), float64
        h_i.

    Attributes
    ----------
    is_formed : bool
        Whether all rows were added.
    """

    def __init__(
        self, engine: StreamedColumns, columns: np.ndarray, curvatures: np.ndarray
    ) -> None:
        self.columns, self.curvatures = columns, curvatures
        self.is_formed = False
        self._pool, self._tau = engine.pool, engine.tau
        self._has_constant = bool(engine.tau) and int(columns[-1]) == engine.n_features
        self._own = columns[: len(columns) - int(self._has_constant)]
        self._is_free = engine.problem.intercept is Intercept.FREE
        self._total = np.zeros((len(columns), len(columns)))
        self._sums = np.zeros(len(columns))
        # Less about their means, the products of dense columns keep their digits.
        self._centre: np.ndarray | None = None
        self._positions = np.empty(0, np.int64)
        if engine.is_sparse:
            self._positions = np.full(engine.n_features, -1, dtype=np.int64)
            self._positions[self._own] = np.arange(len(self._own))

    def add(self, rows: slice, matrix: Matrix, native: _native.Rows) -> None:
        """Add the products of a chunk.

        Parameters
        ----------
        rows : slice
            Its rows.
        matrix : Matrix
            The chunk.
        native : Rows
            The extension's view of it.
        """
        h = self.curvatures[rows]
        if isinstance(matrix, DenseMatrix):
            self._add_dense(matrix.values, h)
            return
        summed = without_duplicates(matrix, native, inspect(native, self._pool))
        if summed is not None:
            native = native_rows(summed, self._pool)
        n_kept = len(self.columns)
        constant_at = n_kept - 1 if self._has_constant else -1
        kept = (self._positions, n_kept, constant_at, self._tau)
        _native.sparse_gram(self._pool, native, *kept, h, self._total)  # its lower triangle
        if self._is_free:
            sums = np.empty((self._pool.size, len(self._positions)))
            _native.adjoint_product(self._pool, native, h, sums)
            self._sums += sums[0][self._own]

    def _add_dense(self, values: np.ndarray, h: np.ndarray) -> None:
        step = max(1, _BLOCK_ENTRIES // max(1, len(self.columns)))
        root = np.sqrt(h)
        for first in range(0, len(h), step):
            part = slice(first, first + step)
            block = np.full((len(h[part]), len(self.columns)), self._tau)
            block[:, : len(self._own)] = values[part][:, self._own]
            if self._is_free:
                if self._centre is None:
                    self._centre = block.mean(axis=0)
                block -= self._centre
                self._sums += h[part] @ block
            block *= root[part, None]
            self._total += block.T @ block

    def sums(self, columns: np.ndarray) -> np.ndarray:
        """Return sum_i h_i x_i of some of the columns, where the intercept is free."""
        at = np.searchsorted(self.columns, columns)
        centre = 0.0 if self._centre is None else self._centre[at] * float(self.curvatures.sum())
        return self._sums[at] + centre

    def matrix(self, columns: np.ndarray, model: Model) -> np.ndarray:
        """Return the Gram matrix of some of the columns over the rows of all shards.

        Parameters
        ----------
        columns : ndarray
            Sorted numbers, all of them among this one's.
        model : Model
            Of these curvatures; knows the other shards.

        Returns
        -------
        ndarray of shape (n_taken, n_taken), float64
            Symmetric.
        """
        at = np.searchsorted(self.columns, columns)
        lower = np.tril(self._total[np.ix_(at, at)])
        gram = lower + np.tril(lower, -1).T
        if self._is_free:
            sums = self._sums[at]
            total = max(float(self.curvatures.sum()), np.finfo(np.float64).tiny)
            gram -= np.outer(sums, sums / total)
            if model.communicator.size > 1:
                # About the mean of all rows: shards have different ones.
                weight, own = float(self.curvatures.sum()), self.sums(columns)
                apart = own / total - model.total(own) / model.curvature_sum
                gram += weight * np.outer(apart, apart)
        return np.ascontiguousarray(model.total_square(gram))
