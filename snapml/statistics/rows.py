"""Rows in centred and scaled columns behind a column of ones, for sums in float64.

Standard errors are then as exact as the fit that they judge, whatever the columns' means and units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

__all__ = ["ConstantAndRows"]

_BLOCK_ENTRIES = 2**22
# Sparse rows are multiplied as such where no column's mean is so many times its scale that the
# difference would be lost in the rounding of the products.
_MOST_MEAN = 1e4
# A constant column differs from its mean by the rounding of the mean alone.
_CONSTANT = 1e-14


class ConstantAndRows:
    """Rows with a first column of ones where there is an intercept; sums are float64.

    Sums are those of the columns (x - mean) / scale, and `to_columns` leads back.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_columns)
        The rows.
    has_ones : bool
        Whether there is an intercept.
    is_centred : bool
        Whether means are subtracted; only where that changes nothing but a free intercept.
    """

    def __init__(self, X: Any, has_ones: bool, is_centred: bool) -> None:
        self._X, self._first = X, int(has_ones)
        self._is_sparse = scipy.sparse.issparse(X)
        self._mean, self._scale, self._is_constant = self._moments(has_ones and is_centred)

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def times(self, vector: np.ndarray) -> np.ndarray:
        """Return the product of the rows as they are with a vector."""
        product = self._X @ vector[self._first :]
        return product + vector[0] if self._first else product

    def transposed_times(self, vector: np.ndarray) -> np.ndarray:
        """Return the transposed centred and scaled rows times a vector."""
        if self._is_product_near:
            product = np.asarray(self._X.T @ vector).ravel() - self._mean * vector.sum()
            product /= self._scale
        else:
            product = np.zeros(self._X.shape[1])
            for rows, block in self._blocks():
                product += block.T @ vector[rows]
        return np.append(vector.sum(), product) if self._first else product

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return the weighted Gram matrix of the centred and scaled rows."""
        first = self._first
        n = self._X.shape[1]
        gram = np.zeros((n + first, n + first))
        if self._is_product_near:
            weighted = self._X.multiply(weights[:, None]).tocsr()
            products = (self._X.T.astype(np.float64) @ weighted).toarray()
            crossed = np.outer(self._mean, np.asarray(self._X.T @ weights).ravel())
            products -= crossed + crossed.T - weights.sum() * np.outer(self._mean, self._mean)
            gram[first:, first:] = products / np.outer(self._scale, self._scale)
        else:
            for rows, block in self._blocks():
                gram[first:, first:] += block.T @ (weights[rows, None] * block)
        if first:
            gram[0] = gram[:, 0] = self.transposed_times(weights)
        return gram

    @property
    def scales(self) -> np.ndarray:
        """What each column is divided by, 1 for the constant's."""
        return np.append(1.0, self._scale) if self._first else self._scale

    def to_columns(self, covariance: np.ndarray) -> np.ndarray:
        """Return the covariance of the coefficients of the columns as they are.

        Parameters
        ----------
        covariance : ndarray of shape (n_coefficients, n_coefficients)
            Of those of the centred and scaled columns.

        Returns
        -------
        ndarray of shape (n_coefficients, n_coefficients)
            The intercept gives up what the means take.
        """
        back = np.diag(1.0 / self.scales)
        if self._first:
            back[0, 1:] = -self._mean / self._scale
        return np.asarray(back @ covariance @ back.T)

    @property
    def _is_product_near(self) -> bool:
        is_near = bool(np.all(np.abs(self._mean) <= _MOST_MEAN * self._scale))
        return self._is_sparse and is_near

    def _slices(self) -> Iterator[slice]:
        step = max(1, _BLOCK_ENTRIES // max(1, self._X.shape[1]))
        for begin in range(0, len(self), step):
            yield slice(begin, begin + step)

    def _wide(self, rows: slice) -> np.ndarray:
        block = self._X[rows]
        dense = block.toarray() if self._is_sparse else np.asarray(block)
        return np.array(dense, dtype=np.float64)

    def _blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Return some rows after the other, centred and scaled."""
        for rows in self._slices():
            block = self._wide(rows)
            block -= self._mean
            block /= self._scale
            block[:, self._is_constant] = 0.0
            yield rows, block

    def _moments(self, is_centred: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return means (zero where nothing is centred), scales, and which columns are constant."""
        n_columns = self._X.shape[1]
        sums, squares = np.zeros(n_columns), np.zeros(n_columns)
        count = max(1, len(self))
        if is_centred:
            for rows in self._slices():
                sums += self._wide(rows).sum(axis=0)
        mean = sums / count
        for rows in self._slices():
            squares += ((self._wide(rows) - mean) ** 2).sum(axis=0)
        scale = np.sqrt(squares / count)
        is_constant = ~(scale > _CONSTANT * np.abs(mean))
        return mean, np.where(is_constant, 1.0, scale), is_constant
