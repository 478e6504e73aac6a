"""Means and variances of columns, of rows that come in batches and lie on several tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from typing import Any

import numpy as np

from snapml.data import CompressedMatrix
from snapml.solvers.communicator import Communicator
from snapml.solvers.rows.cpu_rows import column_sums
from snapml.solvers.threads import limit_blas_threads

__all__ = ["ColumnMoments"]

# Entries that are looked at together, by layout: dense ones stay in a core's cache between mean and
# squares. What a block costs in columns is little beside what it costs in entries.
_SPARSE_ENTRIES, _DENSE_ENTRIES, _ENTRIES_PER_COLUMN = 1 << 20, 1 << 17, 4


class ColumnMoments:
    """Weighted means, and squares about them, which keep their digits where means are large.

    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", COMPSTAT 1982.

    Parameters
    ----------
    n_features : int
        Number of columns.
    """

    def __init__(self, n_features: int) -> None:
        self.mean, self._squares = np.zeros(n_features), np.zeros(n_features)
        self.weight, self._weight_squares = 0.0, 0.0

    def add(self, X: Any, weights: np.ndarray | None, n_threads: int = 1) -> None:
        """Take rows into account.

        Parameters
        ----------
        X : ndarray or CompressedMatrix of shape (n_rows, n_features)
            The rows.
        weights : ndarray of shape (n_rows,) or None
            Their weights; None weighs all 1.
        n_threads : int, default=1
            Threads to use.
        """

        def of_block(rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            own = np.ones(rows.stop - rows.start) if weights is None else weights[rows]
            if not own.any():
                return own, np.zeros(X.shape[1]), np.zeros(X.shape[1])
            if isinstance(X, CompressedMatrix):
                return own, *_compressed(_rows_of(X, rows), own, n_threads)
            return own, *_dense(X[rows], own)

        blocks = iter(_blocks(X))
        with ExitStack() as stack:
            over: Callable[..., Iterator[Any]] = map
            if n_threads > 1 and not isinstance(X, CompressedMatrix):
                stack.enter_context(limit_blas_threads(1))
                over = stack.enter_context(ThreadPoolExecutor(n_threads)).map
            # A block of wide rows has results as large as itself: few wait to be merged.
            while some := list(islice(blocks, 4 * n_threads)):
                for own, mean, squares in over(of_block, some):  # in the order of rows
                    if own.any():
                        self._merge(float(own.sum()), float(own @ own), mean, squares)

    def agreed(
        self, communicator: Communicator, *, is_unbiased: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances over the rows of all tasks.

        Parameters
        ----------
        communicator : Communicator
            The tasks.
        is_unbiased : bool, default=True
            Whether variances are those of Spark's Summarizer, unbiased where all weights are 1,
            or the mean squares of its normal equations.

        Returns
        -------
        mean, variance : ndarray of shape (n_features,)
            Of the columns.
        """
        own = np.concatenate([self.weight * self.mean, [self.weight, self._weight_squares]])
        *sums, weight, weight_squares = communicator.allreduce_sum(own)
        mean = np.array(sums) / weight
        about = communicator.allreduce_sum(
            self._squares + self.weight * np.square(self.mean - mean)
        )
        n_free = weight - weight_squares / weight if is_unbiased else weight
        return mean, about / n_free if n_free > 0.0 else np.zeros_like(about)

    def _merge(
        self, weight: float, weight_squares: float, mean: np.ndarray, squares: np.ndarray
    ) -> None:
        total = self.weight + weight
        apart = mean - self.mean
        self._squares += squares + np.square(apart) * (self.weight * weight / total)
        self.mean += apart * (weight / total)
        self.weight, self._weight_squares = total, self._weight_squares + weight_squares


def _blocks(X: Any) -> list[slice]:
    n_rows, n_features = X.shape
    is_sparse = isinstance(X, CompressedMatrix)
    most = max(_SPARSE_ENTRIES if is_sparse else _DENSE_ENTRIES, _ENTRIES_PER_COLUMN * n_features)
    n_entries = X.n_stored if is_sparse else X.size
    step = max(1, most * n_rows // max(1, n_entries))
    if is_sparse and X.values is None:  # counts need no memory for entries
        step = max(1, n_rows)
    return [slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step)]


def _dense(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = weights @ X / weights.sum()
    return mean, weights @ np.square(X - mean)


def _compressed(
    X: CompressedMatrix, weights: np.ndarray, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    def sums(values: np.ndarray | None) -> np.ndarray:
        entries = CompressedMatrix(X.indptr, X.indices, X.n_features, values)
        return column_sums(entries, weights, n_threads)

    weight, stored = weights.sum(), sums(None)
    if X.values is None:
        mean = stored / weight
        squares = stored * np.square(1.0 - mean)
    else:
        mean = sums(X.values) / weight
        squares = sums(np.square(X.values - mean[X.indices]))
    # What is not stored is zero: as far from the mean as the mean is from zero.
    return mean, squares + (weight - stored) * np.square(mean)


def _rows_of(X: CompressedMatrix, rows: slice) -> CompressedMatrix:
    offsets = X.indptr[rows.start : rows.stop + 1]
    entries = slice(int(offsets[0]), int(offsets[-1]))
    values = None if X.values is None else X.values[entries]
    indices = X.indices[entries]
    return CompressedMatrix(offsets - offsets[0], indices, X.n_features, values, X.dtype)
