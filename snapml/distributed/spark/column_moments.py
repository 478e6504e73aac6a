"""Means and variances of columns, of rows that come in batches and lie on several tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.data import CompressedMatrix
from snapml.solvers.communicator import Communicator

__all__ = ["ColumnMoments"]


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
        weights = np.ones(X.shape[0]) if weights is None else weights
        weight = float(weights.sum())
        if weight == 0.0:
            return
        find = _compressed if isinstance(X, CompressedMatrix) else _dense
        self._merge(weight, float(weights @ weights), *find(X, weights, weight))

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


def _dense(X: np.ndarray, weights: np.ndarray, weight: float) -> tuple[np.ndarray, np.ndarray]:
    mean = weights @ X / weight
    return mean, weights @ np.square(X - mean)


def _compressed(
    X: CompressedMatrix, weights: np.ndarray, weight: float
) -> tuple[np.ndarray, np.ndarray]:
    entry_weights = np.repeat(weights, np.diff(X.indptr))
    values = np.ones(len(X.indices)) if X.values is None else X.values

    def sums(of: np.ndarray) -> np.ndarray:
        return np.bincount(X.indices, of, X.n_features)

    mean = sums(entry_weights * values) / weight
    squares = sums(entry_weights * np.square(values - mean[X.indices]))
    # What is not stored is zero: as far from the mean as the mean is from zero.
    return mean, squares + (weight - sums(entry_weights)) * np.square(mean)
