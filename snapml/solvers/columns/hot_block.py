"""The columns that most rows share, as one block of the quadratic model.

Frequent categories and words depend on each other through most of the rows, and the categories of
one field add up to a constant. Descent takes thousands of sweeps to sort that out; a few hundred
columns hold nearly all of it, and on their Gram matrix it costs next to nothing.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve

from snapml.solvers.columns.cpu_gram_model import descend_on_gram, factor_semidefinite
from snapml.solvers.quadratic_model import Model

__all__ = ["Columns", "HotBlock"]

_MOST_COLUMNS = 512
_GRAM_READS = 20.0  # of the columns, that the block's Gram matrix may cost
_ROUNDS = 6  # of descent and Newton steps on the block


class Columns(Protocol):
    """Columns of which a Gram matrix can be had."""

    def counts(self) -> np.ndarray:
        """Return how many entries each column stores."""

    def gram(self, kept: np.ndarray, model: Model) -> np.ndarray:
        """Return the model's Gram matrix of some of the columns, less a free intercept's share."""


class HotBlock:
    """The columns of largest curvature and their Gram matrix.

    Parameters
    ----------
    columns : Columns
        All columns of the model.
    model : Model
        The model.
    squares : ndarray of shape (n_columns,)
        Its curvature along each column.

    Attributes
    ----------
    numbers : ndarray
        Sorted places of the block's columns among all of the model's.
    others : ndarray
        Those of the other columns.
    """

    def __init__(self, columns: Columns, model: Model, squares: np.ndarray) -> None:
        order = np.argsort(-squares, kind="stable")[:_MOST_COLUMNS]
        own = np.append(columns.counts(), len(model.curvatures)).astype(np.float64)
        *counts, n_rows = model.total(own)
        # A row with k of the columns adds k^2 products; here as if all rows had as many.
        visits = np.cumsum(np.array(counts)[order]) ** 2 / n_rows
        order = order[visits <= _GRAM_READS * float(np.sum(counts))]
        self.numbers = np.sort(order[squares[order] > 0.0])
        self.others = np.setdiff1d(np.arange(len(squares)), self.numbers, assume_unique=True)
        is_empty = len(self.numbers) == 0
        self._gram = np.empty((0, 0)) if is_empty else columns.gram(self.numbers, model)
        self._penalty = model.penalty
        self._support = np.empty(0, dtype=np.int64)
        self._factor: tuple[np.ndarray, bool] | None = None
        self._root = np.empty(0)

    def minimise(self, found: np.ndarray, gradient: np.ndarray, enough: float) -> np.ndarray:
        """Return the block's coefficients at about its minimum, the other columns staying.

        Parameters
        ----------
        found, gradient : ndarray of shape (n_columns,)
            The model's coefficients, and its gradient there.
        enough : float
            Gap that may be left.

        Returns
        -------
        ndarray
            One coefficient per column of the block.
        """
        coef, slopes = found[self.numbers], gradient[self.numbers]
        descend_on_gram(self._gram, self._penalty, coef, slopes, enough, _ROUNDS)
        return coef

    def restrict(self, support: np.ndarray) -> np.ndarray:
        """Factor the block's share of a support.

        Parameters
        ----------
        support : ndarray
            Sorted places of columns.

        Returns
        -------
        ndarray
            Where in the support the block's columns are.
        """
        within = np.flatnonzero(np.isin(self.numbers, support, assume_unique=True))
        is_new = self._factor is None or not np.array_equal(within, self._support)
        if is_new and len(within):
            block = self._gram[np.ix_(within, within)].astype(np.float64)
            block[np.diag_indices_from(block)] += self._penalty.l2
            self._support = within
            self._factor, self._root = factor_semidefinite(block)
        return np.searchsorted(support, self.numbers[within])

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """Return the inverse of the block's share of the support times a vector.

        Parameters
        ----------
        vector : ndarray
            One number per column that `restrict` found.

        Returns
        -------
        ndarray
            In the same order.
        """
        if self._factor is None:
            raise RuntimeError("expected a support with columns of the block, got none")
        return np.asarray(
            self._root * cho_solve(self._factor, self._root * vector, check_finite=False)
        )
