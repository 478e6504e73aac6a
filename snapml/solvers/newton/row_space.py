"""Fewer rows than columns: the same problem in as many columns as there are rows.

With an L2 penalty, or none and the shortest answer wanted, w is a combination of the rows. In an
orthonormal basis of what the rows span the problem is dense, square and small, and ||w|| is what
it was (Hastie and Tibshirani, Efficient quadratic regularization for expression arrays, 2004;
docs/algorithms.md, section 12).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from snapml.data import Dataset, DenseMatrix
from snapml.problems import Intercept, Problem
from snapml.solvers.rows.cpu_rows import as_array

__all__ = ["RowSpace"]


class RowSpace:
    """An orthonormal basis of the rows, and the rows' coordinates in it.

    Parameters
    ----------
    problem : Problem
        Rows are centred where its intercept is free.
    dataset : Dataset
        Rows, labels and row weights.

    Attributes
    ----------
    dataset : Dataset
        The same labels and weights over the rows' coordinates, float64.
    """

    def __init__(self, problem: Problem, dataset: Dataset) -> None:
        self._rows = as_array(dataset)
        n_rows = self._rows.shape[0]
        wide = self._rows.astype(np.float64)
        is_centred = problem.intercept is Intercept.FREE
        mean = np.asarray(wide.mean(axis=0)).ravel()
        self._mean = mean if is_centred else np.zeros_like(mean)
        if isinstance(wide, np.ndarray):
            wide -= self._mean
            gram = wide @ wide.T
        else:  # sparse rows stay as they are: the products are centred
            gram = (wide @ wide.T).toarray()
            offset = np.asarray(wide @ self._mean).ravel()
            gram += float(self._mean @ self._mean) - offset[:, None] - offset
        values, vectors = eigh(gram, check_finite=False)
        kept = values > values[-1] * n_rows * np.finfo(np.float64).eps * 4.0
        self._vectors, self._lengths = vectors[:, kept], np.sqrt(values[kept])
        matrix = DenseMatrix(np.ascontiguousarray(self._vectors * self._lengths))
        labels = dataset.labels.astype(np.float64)
        weights = dataset.row_weights
        weights = None if weights is None else weights.astype(np.float64)
        self.dataset = replace(dataset, matrix=matrix, labels=labels, row_weights=weights)

    def coefficients(self, coef: np.ndarray) -> np.ndarray:
        """Return the coefficients of the columns that stand for those of the basis.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, rank + 1), float64
            In the basis, the last for the intercept's column.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            In the data's columns.
        """
        factors = (coef[:, :-1] / self._lengths) @ self._vectors.T
        joint = np.asarray((self._rows.T.astype(np.float64) @ factors.T).T)
        joint = joint - factors.sum(axis=1)[:, None] * self._mean
        bias = coef[:, -1] - joint @ self._mean
        return np.column_stack([joint, bias])
