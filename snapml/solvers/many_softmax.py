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
        own = curvatures[:, :n_used].reshape(len(curvatures), self._n_models, -1)
        totals = own.sum(axis=2, keepdims=True)
        totals[totals == 0.0] = 1.0  # of weight zero, as are its probabilities
        out[:, :n_used] = (own * (1.0 - own / totals)).reshape(len(curvatures), -1)
        return out

    def mixing(self, curvatures: np.ndarray) -> np.ndarray:
        """Return the sums over rows of c (diag(p) - p p^T), shape (n_models, K, K), float64."""
        own = curvatures[:, : self._n_models * self._n_classes]
        own = own.reshape(len(curvatures), self._n_models, -1)
        totals = own.sum(axis=2, keepdims=True)
        totals[totals == 0.0] = 1.0
        rows = (own / np.sqrt(totals)).transpose(1, 0, 2)
        sums = -np.matmul(rows.transpose(0, 2, 1), rows).astype(np.float64)
        at = np.arange(self._n_classes)
        sums[:, at, at] += own.sum(axis=0, dtype=np.float64)
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
