"""Products with the Hessian of several outputs, whose numbers lie side by side.

An entry of a compressed row then meets all outputs at once, a cache line of them at a time.
"""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.data import Dataset
from snapml.problems import Loss

__all__ = ["OutputPanels", "in_panels"]

_PANEL = 8  # outputs are padded to a multiple


def in_panels(n_outputs: int) -> int:
    """Return how many numbers a row of so many outputs takes in whole panels.

    Parameters
    ----------
    n_outputs : int
        Outputs, or classes.

    Returns
    -------
    int
        Their number, rounded up.
    """
    return -(-n_outputs // _PANEL) * _PANEL


class OutputPanels:
    """The outputs' curvatures at a point.

    Parameters
    ----------
    loss : Loss
        Of all outputs.
    dataset : Dataset
        With the rows' weights.
    curvatures : ndarray of shape (n_outputs, n_rows), float64
        c_i l''(z_i) of separate outputs, probabilities (without c_i) of the softmax.
    """

    def __init__(self, loss: Loss, dataset: Dataset, curvatures: np.ndarray) -> None:
        n_outputs, n_rows = curvatures.shape
        self._is_joint, self._n_outputs = loss.is_joint, n_outputs
        self._panels = np.zeros((n_rows, in_panels(n_outputs)))
        own = self._panels[:, :n_outputs]
        np.copyto(own, curvatures.T)
        if self._is_joint:
            weights = dataset.row_weights
            own *= dataset.weight if weights is None else weights[:, None]
        # Long arrays: new memory for each product would take as long as half of it.
        self._vectors = self._sums = self._moved = np.empty(0)

    def product(
        self,
        pool: _native.ThreadPool,
        rows: _native.Rows,
        direction: np.ndarray,
        bias_column: float,
    ) -> np.ndarray:
        """Return ``sum_i X_i^T l''(z_i) X_i direction`` by one read of compressed rows, or two.

        Parameters
        ----------
        pool : ThreadPool
            Threads that work.
        rows : Rows
            Compressed.
        direction : ndarray of shape (n_outputs, n_features + 1), float64
            In the coefficients.
        bias_column : float
            Value of the intercept's column.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            The product.
        """
        stride, n_outputs = self._panels.shape[1], self._n_outputs
        if not self._vectors.size:
            self._vectors = np.zeros((direction.shape[1], stride))
            self._sums = np.empty((pool.size, *self._vectors.shape))
            self._moved = np.empty_like(self._panels) if self._is_joint else self._moved
        vectors, sums, moved = self._vectors, self._sums, self._moved
        np.copyto(vectors[:, :n_outputs], direction.T)
        vectors[-1] *= bias_column
        if self._is_joint:
            _native.many_products(pool, rows, stride, vectors, moved)
            _native.many_softmax_curve(pool, 1, n_outputs, len(moved), self._panels, moved)
            _native.many_adjoints(pool, rows, stride, moved, False, sums)
        else:
            _native.many_hessians(pool, rows, stride, self._panels, vectors, sums)
        product = np.ascontiguousarray(sums[0, :, :n_outputs].T)
        product[:, -1] *= bias_column
        return product
