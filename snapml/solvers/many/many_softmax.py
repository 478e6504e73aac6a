"""Losses of many multinomial models on the host, and the curvature's part of their Hessians."""

from __future__ import annotations

import numpy as np

from snapml import _native

__all__ = ["HostSoftmaxLosses", "curve"]


class HostSoftmaxLosses:
    """The losses of many multinomial models (protocol `ManyLosses`).

    Margins have the columns of a model's classes side by side; columns behind the last model's are
    left out, and zero in what is returned. Curvatures are weights times probabilities.

    Parameters
    ----------
    n_classes : int
        Classes of every model.
    targets : ManyTargets
        Class numbers and weights.
    n_models : int
        Number of models.
    pool : ThreadPool
        Threads that work.
    """

    def __init__(
        self, n_classes: int, targets: _native.ManyTargets, n_models: int, pool: _native.ThreadPool
    ) -> None:
        self._n_classes, self._n_models = n_classes, n_models
        self._targets, self._pool = targets, pool

    def tangents(self, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the models' losses, and the slopes and probabilities times the rows' weights."""
        slopes, curvatures = np.empty_like(margins), np.empty_like(margins)
        losses = np.empty(self._n_models)
        _native.many_softmax_losses(
            self._pool,
            self._targets,
            self._n_classes,
            margins,
            None,
            None,
            slopes,
            curvatures,
            losses,
        )
        return losses, slopes, curvatures

    def ahead(self, margins: np.ndarray, moves: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the models' losses at margins + steps * moves."""
        losses = np.empty(self._n_models)
        _native.many_softmax_losses(
            self._pool, self._targets, self._n_classes, margins, moves, steps, None, None, losses
        )
        return losses

    def diagonals(self, curvatures: np.ndarray) -> np.ndarray:
        """Return the diagonals c p_k (1 - p_k) of the curvatures, from q = c p."""
        out = np.zeros_like(curvatures)
        n_used = self._n_models * self._n_classes
        own, used = (
            array[:, :n_used].reshape(len(curvatures), self._n_models, -1)
            for array in (curvatures, out)
        )
        totals = own.sum(axis=2, keepdims=True)
        totals[totals == 0.0] = 1.0  # of weight zero, as are its probabilities
        np.divide(own, totals, out=used)
        np.subtract(1.0, used, out=used)
        used *= own
        return out

    def mixing(self, curvatures: np.ndarray) -> np.ndarray:
        """Return the sums over rows of c (diag(p) - p p^T), shape (n_models, K, K), float64."""
        sums = np.empty((self._n_models, self._n_classes, self._n_classes))
        for m in range(self._n_models):  # one after the other: their rows take memory
            own = curvatures[:, m * self._n_classes : (m + 1) * self._n_classes]
            totals = own.sum(axis=1, keepdims=True)
            totals[totals == 0.0] = 1.0
            rows = own / np.sqrt(totals)
            sums[m] = np.diag(own.sum(axis=0, dtype=np.float64)) - rows.T @ rows
        return sums


def curve(
    pool: _native.ThreadPool, curvatures: np.ndarray, moved: np.ndarray, n_classes: int
) -> None:
    """Replace the margins' directions by their products with the curvature of the softmax.

    Parameters
    ----------
    pool : ThreadPool
        Threads that work.
    curvatures : ndarray of shape (n_rows, n_columns), C-contiguous
        Those of `HostSoftmaxLosses`.
    moved : ndarray of shape (n_rows, n_columns), C-contiguous
        The directions.
    n_classes : int
        Classes of every model; columns behind the last whole model become zero.
    """
    n_rows, n_columns = moved.shape
    _native.many_softmax_curve(pool, n_columns // n_classes, n_classes, n_rows, curvatures, moved)
