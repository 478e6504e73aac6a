"""What an engine on the host says of its arrays, and Gram matrices of some of its columns."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

__all__ = ["HostArrays", "column_grams"]


class HostArrays:
    """The part of `PrimalEngine` that says where arrays are: all of them on the host."""

    device: Any = None
    xp: Any = np
    vectors: Any = np

    def to_rows(self, array: np.ndarray) -> np.ndarray:
        """Return `array`: the rows are on the host."""
        return array

    def to_vectors(self, array: np.ndarray) -> np.ndarray:
        """Return `array`: the vectors are on the host."""
        return array

    def to_host(self, array: np.ndarray) -> np.ndarray:
        """Return `array`: it is on the host."""
        return array

    def fast_products(self) -> AbstractContextManager[None]:
        """Return a context that changes nothing."""
        return nullcontext()


def column_grams(
    rows: csr_matrix, columns: np.ndarray, weights: np.ndarray, bias: float
) -> np.ndarray:
    """Return weighted Gram matrices of some columns and the intercept's, one an output.

    Parameters
    ----------
    rows : csr_matrix of float64
        The rows.
    columns : ndarray of shape (n_taken,), int64
        Column numbers.
    weights : ndarray of shape (n_outputs, n_rows), float64
        Not negative.
    bias : float
        Value of the intercept's constant column.

    Returns
    -------
    ndarray of shape (n_outputs, n_taken + 1, n_taken + 1), float64
        The intercept's column is the last.
    """
    taken = rows[:, columns]
    grams = np.empty((len(weights), len(columns) + 1, len(columns) + 1))
    for gram, own in zip(grams, weights, strict=True):
        weighted = taken.multiply(own[:, None]).tocsr()
        gram[:-1, :-1] = (taken.T @ weighted).toarray()
        gram[-1, :-1] = bias * np.asarray(weighted.sum(axis=0)).ravel()
        gram[:-1, -1] = gram[-1, :-1]
        gram[-1, -1] = bias * bias * own.sum()
    return grams
