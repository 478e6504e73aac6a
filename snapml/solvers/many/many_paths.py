"""Where models of a path start: from those of smaller C, and some way on."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["ManyPaths"]

# Share of the way to the next model, were coefficients straight lines in log C, that its start
# goes: a bit less, as Newton's steps come back slowly from beyond it, where curvatures are small.
_SHARE = 0.9


class ManyPaths:
    """The last two models of each path along C, and starts of the next.

    Parameters
    ----------
    n_numbers : int
        Numbers of a model.
    n_paths : int
        Paths: one for each column of weights of the rows.
    dtype : dtype
        Of the numbers.
    """

    def __init__(self, n_numbers: int, n_paths: int, dtype: np.dtype) -> None:
        self._last = np.zeros((n_numbers, n_paths), dtype=dtype)
        self._moves = np.zeros_like(self._last)  # to the last from the one before
        self._factors = np.zeros(n_paths)  # C of the last; 0 without one
        self._spans = np.zeros(n_paths)  # of log C, of the moves; 0 without two

    def starts(self, paths: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return where models start, shape (n_numbers, n_models).

        Parameters
        ----------
        paths : ndarray of shape (n_models,), int
            Of the models.
        factors : ndarray of shape (n_models,)
            C of the models, in rising order. Of several on one path only the first goes on from
            the last: to the others it is too far.

        Returns
        -------
        ndarray of shape (n_numbers, n_models)
            Zeros on a path without models.
        """
        shares = np.zeros(len(paths), dtype=self._last.dtype)
        for at in np.unique(paths, return_index=True)[1]:
            span = self._spans[paths[at]]
            if span > 0.0:
                way = math.log(factors[at] / self._factors[paths[at]])
                shares[at] = _SHARE * min(1.0, max(0.0, way / span))
        starts: np.ndarray = self._last[:, paths] + shares * self._moves[:, paths]
        return starts

    def add(self, paths: np.ndarray, factors: np.ndarray, vectors: np.ndarray) -> None:
        """Take models in, those of one path in rising order of C.

        Parameters
        ----------
        paths : ndarray of shape (n_models,), int
            Of the models.
        factors : ndarray of shape (n_models,)
            C of the models.
        vectors : ndarray of shape (n_numbers, n_models)
            The models.
        """
        for k, path in enumerate(paths):
            before = self._factors[path]
            if before > 0.0 and factors[k] > before:
                self._spans[path] = math.log(factors[k] / before)
                self._moves[:, path] = vectors[:, k] - self._last[:, path]
            self._factors[path] = factors[k]
            self._last[:, path] = vectors[:, k]
