"""Means and variances of columns, of rows that come in batches and lie on several tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.data import CompressedMatrix
from snapml.solvers.communicator import Communicator

__all__ = ["ColumnMoments"]

# Entries that are looked at together, and of sparse rows for each column.
_BLOCK_ENTRIES, _ENTRIES_PER_COLUMN = 1 << 20, 4


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

    def add(self, X: Any, weights: np.ndarray | None) -> None:
        """Take rows into account.

        Parameters
        ----------
        X : ndarray or CompressedMatrix of shape (n_rows, n_features)
            The rows.
        weights : ndarray of shape (n_rows,) or None
            Their weights; None weighs all 1.
        """
        is_sparse = isinstance(X, CompressedMatrix)
        n_rows, n_features = X.shape
        n_entries = X.n_stored if is_sparse else X.size
        # What a block costs in columns is little beside what it costs in entries.
        most = max(_BLOCK_ENTRIES, _ENTRIES_PER_COLUMN * n_features if is_sparse else 0)
        step = max(1, most * n_rows // max(1, n_entries))
        for first in range(0, n_rows, step):
            rows = slice(first, min(first + step, n_rows))
            own = np.ones(rows.stop - first) if weights is None else weights[rows]
            weight = float(own.sum())
            if weight > 0.0:
                found = _compressed(X, rows, own, weight) if is_sparse else _dense(X[rows], own)
                self._merge(weight, float(own @ own), *found)

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


def _dense(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = weights @ X / weights.sum()
    return mean, weights @ np.square(X - mean)


def _compressed(
    X: CompressedMatrix, rows: slice, weights: np.ndarray, weight: float
) -> tuple[np.ndarray, np.ndarray]:
    offsets = X.indptr[rows.start : rows.stop + 1]
    entries = slice(int(offsets[0]), int(offsets[-1]))
    indices = X.indices[entries].astype(np.intp)
    entry_weights = np.repeat(weights, np.diff(offsets))

    def sums(of: np.ndarray) -> np.ndarray:
        return np.bincount(indices, of, X.n_features)

    stored = sums(entry_weights)
    if X.values is None:
        mean = stored / weight
        squares = stored * np.square(1.0 - mean)
    else:
        values = X.values[entries]
        mean = sums(entry_weights * values) / weight
        squares = sums(entry_weights * np.square(values - mean[indices]))
    # What is not stored is zero: as far from the mean as the mean is from zero.
    return mean, squares + (weight - stored) * np.square(mean)
