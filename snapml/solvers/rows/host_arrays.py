"""What engines on the host have in common, wherever they take their rows from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import Dataset
from snapml.problems import Problem
from snapml.solvers.dense_products import add_grams
from snapml.solvers.rows.cpu_rows import as_array, scale_rows
from snapml.solvers.rows.host_losses import HostLosses

__all__ = ["HostArrays", "column_grams"]


class HostArrays(ABC):
    """What `PrimalEngine` asks of rows on the host: where arrays are, and a few rows."""

    device: Any = None
    xp: Any = np
    vectors: Any = np
    problem: Problem
    dataset: Dataset
    n_rows: int
    bias_column: float
    n_threads: int
    seed: int

    def to_rows(self, array: np.ndarray) -> np.ndarray:
        """Return `array`: the rows are on the host."""
        return array

    def to_vectors(self, array: np.ndarray) -> np.ndarray:
        """Return `array`: the vectors are on the host."""
        return array

    def to_host(self, array: np.ndarray) -> np.ndarray:
        """Return `array`: it is on the host."""
        return array

    def losses_at(self, margins: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss at margins of separate outputs, and c_i l' in their shape."""
        slopes = np.empty_like(margins)
        outputs = [self.dataset] if self.dataset.labels.ndim == 1 else self.dataset.outputs()
        losses = [HostLosses(self.problem, each, self.n_threads) for each in outputs]
        sums = [each.loss_sums(margins[k], 0.0, slopes[k])[0] for k, each in enumerate(losses)]
        return float(sum(sums)), slopes

    def labels(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return y_i of some rows or of all; the last axis is theirs."""
        return self.dataset.labels if rows is None else self.dataset.labels[..., rows]

    def offsets(self, rows: np.ndarray | None = None) -> np.ndarray | None:
        """Return o_i of some rows or of all, float64. None where there are none."""
        given = self.dataset.offsets
        return given if given is None or rows is None else given[..., rows]

    @property
    def total_weight(self) -> float:
        """Sum of the rows' weights."""
        return self.dataset.total_weight

    def row_weights(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return c_i of some rows or of all, float64, broadcastable to (n_outputs, n_taken)."""
        rows = np.arange(self.n_rows) if rows is None else rows
        if self.dataset.row_weights is None:
            return np.full(len(rows), self.dataset.weight)
        return np.asarray(self.dataset.row_weights[..., rows], dtype=np.float64)

    def weighted_rows(self, rows: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the sums of a few rows times factors.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers.
        factors : ndarray of shape (n_outputs, n_taken), float64
            One factor for each row and output.

        Returns
        -------
        ndarray of shape (n_outputs, n_features), float64
            The sums.
        """
        taken = as_array(self.dataset.take(rows, 1.0))
        if isinstance(taken, np.ndarray):
            return factors @ taken.astype(np.float64, copy=False)
        return np.asarray((taken.T.astype(np.float64) @ factors.T).T)

    def column_sums(self, rows: Any, centre: np.ndarray | None = None) -> np.ndarray:
        """Return sum_i x_ij over some rows, or sum_i (x_ij - centre_j)^2, float64.

        Parameters
        ----------
        rows : slice or ndarray of int64
            Which.
        centre : ndarray of shape (n_features,), float64, or None, default=None
            None asks for the sums of the entries.

        Returns
        -------
        ndarray of shape (n_features,), float64
            The sums.
        """
        taken: np.ndarray = self.dense_rows(rows)
        if centre is None:
            return np.asarray(taken.sum(axis=0, dtype=np.float64))
        centred = taken - centre
        centred *= centred
        return np.asarray(centred.sum(axis=0))

    def scale_rows(
        self,
        rows: Any,
        mean: np.ndarray,
        scale: np.ndarray,
        weights: np.ndarray | None,
        out: np.ndarray,
    ) -> None:
        """Write sqrt(weight) times some rows in centred and scaled columns, and the intercept's.

        Parameters
        ----------
        rows : slice or ndarray of int64
            Which.
        mean, scale : ndarray of shape (n_features,), float64
            Of the columns.
        weights : ndarray of shape (n_taken,), float64, or None
            Not negative; None where all are 1.
        out : ndarray of shape (n_taken, n_features + 1), float32 or float64
            Receives the rows.
        """
        scale_rows(self.dense_rows(rows), mean, scale, weights, self.bias_column, out)

    @abstractmethod
    def dense_rows(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the rows of a slice or of an index array as a dense array."""

    def add_grams(
        self,
        parts: Sequence[Any],
        rows_of: Callable[[Any, np.ndarray], np.ndarray],
        room: np.ndarray,
        gram: np.ndarray,
    ) -> None:
        """Add rows^T rows of all parts to a matrix, with rows_of(part, room) of each."""
        add_grams(parts, rows_of, room, gram, self.n_threads)


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
