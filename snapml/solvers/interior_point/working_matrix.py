"""Rows in centred and scaled columns for an interior point method, dense or as sparse as given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix
from snapml.solvers.dense_products import add_gram
from snapml.solvers.rows.cpu_rows import scaled_sparse_gram
from snapml.solvers.rows.scaled_rows import are_near, have_sparse_products

__all__ = ["Scaling", "WorkingMatrix", "squares"]

_BLOCK_ROWS = 4096


class WorkingMatrix(Protocol):
    """Rows A, of shape (n_rows, n_cols): the scaled columns and the intercept's."""

    shape: tuple[int, int]

    def product(self, point: np.ndarray) -> np.ndarray:
        """Return A point."""

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        """Return A^T vector."""

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return A^T diag(weights) A, for weights of at least 0."""

    def columns(self, places: np.ndarray) -> np.ndarray:
        """Return a few columns, dense."""


@dataclass(frozen=True)
class Scaling:
    """The columns (x - mean) / scale, and one of a constant for the intercept.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_features,), float64
        Of the columns.
    bias : float
        The constant; 0 where there is no intercept.
    """

    mean: np.ndarray
    scale: np.ndarray
    bias: float

    def rows(self, values: np.ndarray | csr_matrix, n_threads: int) -> WorkingMatrix:
        """Return rows in these columns.

        Parameters
        ----------
        values : ndarray or csr_matrix of shape (n_rows, n_features)
            The rows.
        n_threads : int
            Threads of products.

        Returns
        -------
        WorkingMatrix
            With float64 entries.
        """
        if not isinstance(values, csr_matrix):
            return _Dense(self, values, n_threads)
        is_thin = have_sparse_products(values.shape[0], values.shape[1], values.nnz)
        if is_thin and are_near(self.mean, self.scale):
            return _Sparse(self, values, n_threads)
        return _Dense(self, values.toarray(), n_threads)

    def sums(self, adjoint: np.ndarray, mass: float) -> np.ndarray:
        """Return sums over rows in these columns from those in the data's."""
        return np.append((adjoint - self.mean * mass) / self.scale, self.bias * mass)

    def model(self, point: np.ndarray) -> tuple[np.ndarray, float]:
        """Return coefficients and intercept in the data's columns."""
        coef = point[:-1] / self.scale
        return coef, self.bias * float(point[-1]) - float(coef @ self.mean)


class _Dense:
    """A float64 copy of the rows."""

    def __init__(self, scaling: Scaling, values: np.ndarray, n_threads: int) -> None:
        self._n_threads = n_threads
        self._rows = np.empty((len(values), len(scaling.mean) + 1))
        np.subtract(values, scaling.mean, out=self._rows[:, :-1])
        self._rows[:, :-1] /= scaling.scale
        self._rows[:, -1] = scaling.bias
        self.shape: tuple[int, int] = self._rows.shape

    def product(self, point: np.ndarray) -> np.ndarray:
        return np.asarray(self._rows @ point)

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        return np.asarray(self._rows.T @ vector)

    def gram(self, weights: np.ndarray) -> np.ndarray:
        half = self._rows * np.sqrt(weights)[:, None]
        gram = np.zeros((self.shape[1], self.shape[1]))
        add_gram(half, gram, self._n_threads)
        return gram

    def columns(self, places: np.ndarray) -> np.ndarray:
        return self._rows[:, places]


class _Sparse:
    """The rows as they are: means and scales go into what they are multiplied with."""

    def __init__(self, scaling: Scaling, values: csr_matrix, n_threads: int) -> None:
        self._scaling, self._n_threads = scaling, n_threads
        self._rows = values
        self.shape = (values.shape[0], values.shape[1] + 1)
        indptr, indices = values.indptr, values.indices
        self._matrix = CompressedMatrix(indptr, indices, values.shape[1], values.data)

    def product(self, point: np.ndarray) -> np.ndarray:
        coef, intercept = self._scaling.model(point)
        return np.asarray(self._rows @ coef) + intercept

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        return self._scaling.sums(np.asarray(self._rows.T @ vector), float(vector.sum()))

    def gram(self, weights: np.ndarray) -> np.ndarray:
        of = self._scaling
        return scaled_sparse_gram(
            self._matrix, weights, of.mean, of.scale, of.bias, self._n_threads
        )

    def columns(self, places: np.ndarray) -> np.ndarray:
        units = np.zeros((self.shape[1], len(places)))
        units[places, np.arange(len(places))] = 1.0
        return np.column_stack([self.product(unit) for unit in units.T])


def squares(values: np.ndarray | csr_matrix, mean: np.ndarray) -> np.ndarray:
    """Return the columns' sums of squared distances from a mean.

    Parameters
    ----------
    values : ndarray or csr_matrix of shape (n_rows, n_features)
        Rows.
    mean : ndarray of shape (n_features,), float64
        Of the columns.

    Returns
    -------
    ndarray of shape (n_features,), float64
        The sums.
    """
    n_features = len(mean)
    if isinstance(values, csr_matrix):
        apart = (values.data - mean[values.indices]) ** 2
        found = np.bincount(values.indices, apart, n_features)
        n_zeros = values.shape[0] - np.bincount(values.indices, minlength=n_features)
        return np.asarray(found + n_zeros * mean**2)
    sums = np.zeros(n_features)
    for first in range(0, len(values), _BLOCK_ROWS):
        sums += ((values[first : first + _BLOCK_ROWS] - mean) ** 2).sum(axis=0)
    return sums
