"""Rows with a first column of ones, for sums in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

__all__ = ["ConstantAndRows"]

_BLOCK_ENTRIES = 2**22


class ConstantAndRows:
    """Rows with a first column of ones where there is an intercept; sums are float64."""

    def __init__(self, X: Any, has_ones: bool) -> None:
        self._X, self._first = X, int(has_ones)
        self._is_sparse = scipy.sparse.issparse(X)

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def times(self, vector: np.ndarray) -> np.ndarray:
        """Return the product with a vector."""
        product = self._X @ vector[self._first :]
        return product + vector[0] if self._first else product

    def transposed_times(self, vector: np.ndarray) -> np.ndarray:
        """Return the transposed rows times a vector."""
        product = np.asarray(self._X.T @ vector).ravel()
        return np.append(vector.sum(), product) if self._first else product

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return the weighted Gram matrix."""
        first, X = self._first, self._X
        n = X.shape[1]
        gram = np.zeros((n + first, n + first))
        if self._is_sparse:
            scaled = X.multiply(weights[:, None]).tocsr()
            gram[first:, first:] = (X.T.astype(np.float64) @ scaled).toarray()
        else:
            step = max(1, _BLOCK_ENTRIES // max(1, n))
            for begin in range(0, len(self), step):
                block = X[begin : begin + step].astype(np.float64)
                gram[first:, first:] += block.T @ (weights[begin : begin + step, None] * block)
        if first:
            gram[0] = gram[:, 0] = self.transposed_times(weights)
        return gram
