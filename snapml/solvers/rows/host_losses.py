"""Sums over rows whose labels and margins are in this process's memory, wherever the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml import _native
from snapml.data import Dataset
from snapml.problems import Intercept, Problem
from snapml.solvers.threads import resolve_n_threads

__all__ = ["HostLosses"]


class HostLosses:
    """Loss, its derivatives and its dual's terms, for column engines of the host.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        Labels and row weights; of the rows only number and size are used.
    n_threads : int or None
        Threads to use; None means all available.
    """

    def __init__(self, problem: Problem, dataset: Dataset, n_threads: int | None) -> None:
        self.problem = problem
        self.xp: Any = np
        self.n_threads = resolve_n_threads(n_threads, dataset.matrix.n_stored)
        self.pool = _native.ThreadPool(self.n_threads)
        self.n_rows, self.n_features = dataset.matrix.shape
        is_penalised = problem.intercept is Intercept.PENALISED
        self.tau = problem.intercept_scaling if is_penalised else 0.0
        self.n_cols = self.n_features + int(is_penalised)
        self._dataset = dataset
        self._labels, self._weights = dataset.labels, dataset.row_weights
        self._weight = dataset.weight
        self.offsets = dataset.offsets

    @property
    def description(self) -> str:
        """How many threads work, for `FitResult.description`."""
        return "1 thread" if self.n_threads == 1 else f"{self.n_threads} threads"

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return self._dataset.total_weight

    def loss_sums(
        self,
        margins: np.ndarray,
        shift: float,
        gradients: np.ndarray | None = None,
        curvatures: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the loss and its first two derivatives in the shift.

        Parameters
        ----------
        margins : ndarray of shape (n_rows,), float64
            The margins.
        shift : float
            Added to all of them.
        gradients, curvatures : ndarray of shape (n_rows,), float64, or None
            Filled with c_i l' and c_i l''.

        Returns
        -------
        ndarray of shape (3,), float64
            Sums over the rows of this shard.
        """
        return self._loss_over(slice(None), margins, shift, gradients, curvatures)

    def weights_of(self, rows: slice) -> tuple[np.ndarray | None, float]:
        """Return the row weights of some rows, or None and what is common to all."""
        return (None if self._weights is None else self._weights[rows]), self._weight

    def _loss_over(
        self,
        rows: slice,
        margins: np.ndarray,
        shift: float,
        gradients: np.ndarray | None,
        curvatures: np.ndarray | None,
    ) -> np.ndarray:
        """Return what `loss_sums` does for some rows, whose margins are given."""
        return np.array(
            _native.loss_derivatives(
                self.pool,
                self.problem.loss.core_name,
                self._labels[rows],
                *self.weights_of(rows),
                margins,
                shift,
                gradients,
                curvatures,
            )
        )

    def dual_terms(self, gradients: np.ndarray, scale: float) -> float:
        """Return the dual's loss terms at beta_i = -scale * gradients_i.

        Parameters
        ----------
        gradients : ndarray of shape (n_rows,), float64
            c_i l'(z_i).
        scale : float
            At most 1.

        Returns
        -------
        float
            ``-sum_i c_i l*(-beta_i / c_i)``.
        """
        name = self.problem.loss.core_name
        rows = (self._labels, self._weights, self._weight)
        return float(_native.dual_terms(self.pool, name, *rows, gradients, scale))
