"""The Cholesky factor of a matrix of products with a penalty on its diagonal, and its inverse.

SciPy's LAPACK has threads of its own, which go on looking for work for a tenth of a second and slow
down those of NumPy's BLAS, and ours: small matrices are factored on one.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dtrtri

from snapml.solvers.dense_products import each_part
from snapml.solvers.threads import blas_threads_for

__all__ = ["RidgeFactor"]

# Parts of a triangle's columns, of which each is multiplied without the zeros below.
_PARTS, _LEAST_PART = 4, 256
_MOST_AT_ONCE = 4096  # rows that LAPACK gets


class RidgeFactor:
    """A factor of ``products + alpha I``.

    Parameters
    ----------
    products : ndarray of shape (size, size), float64
        Symmetric, positive semidefinite; copied.
    alpha : float
        Positive, and far above the rounding of the products.

    Raises
    ------
    LinAlgError
        If rounding has left no definite matrix.
    """

    def __init__(self, products: np.ndarray, alpha: float) -> None:
        matrix = products.copy()
        matrix.ravel()[:: len(matrix) + 1] += alpha
        self._upper: np.ndarray | None = None
        with blas_threads_for(len(matrix) ** 3 / 3):
            if not _factor(matrix):
                raise LinAlgError(f"a ridge of {alpha:g} is lost in rounding of the products")
        self._factor = matrix.T

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return the inverse times some columns.

        Parameters
        ----------
        right : ndarray of shape (size, k)
            Columns.

        Returns
        -------
        ndarray of shape (size, k)
            The products.
        """
        return np.asarray(dpotrs(self._factor, right, lower=True)[0])

    def square_lengths(self, rows: np.ndarray, n_threads: int) -> np.ndarray:
        """Return ``x^T (products + alpha I)^-1 x`` of dense rows; `solve` is over then.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, size), float64
            Rows.
        n_threads : int
            Threads of products.

        Returns
        -------
        ndarray of shape (n_rows,)
            One for each row.
        """
        upper, out = self._inverted(), np.zeros(len(rows))  # products are faster than solving
        width = max(_LEAST_PART, -(-len(upper) // _PARTS))

        def add(part: slice) -> None:
            for first in range(0, len(upper), width):
                columns = slice(first, first + width)
                along = rows[part, : columns.stop] @ upper[: columns.stop, columns]
                out[part] += np.einsum("ij,ij->i", along, along)

        each_part(add, len(rows), float(rows.size) * len(upper), n_threads)
        return out

    def inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of the inverse; `solve` is over then.

        Returns
        -------
        ndarray of shape (size,)
            Positive.
        """
        upper = self._inverted()
        return np.einsum("ij,ij->i", upper, upper)

    def upper_inverse(self) -> np.ndarray:
        """Return the inverse, which takes the place of the factor; `solve` is over then.

        Returns
        -------
        ndarray of shape (size, size)
            Of C order; its upper half is that of the inverse, the lower one is anything.
        """
        with blas_threads_for(2 * len(self._factor) ** 3 / 3):
            inverse, _ = dpotri(self._factor, lower=True, overwrite_c=True)
        del self._factor
        return np.asarray(inverse.T)

    def _inverted(self) -> np.ndarray:
        """Return the transpose of the factor's own inverse, which takes the place of the factor."""
        if self._upper is None:
            with blas_threads_for(len(self._factor) ** 3 / 3):
                self._upper = dtrtri(self._factor, lower=True, overwrite_c=True)[0].T
            del self._factor
        return self._upper


def _factor(matrix: np.ndarray) -> bool:
    """Make a symmetric matrix the upper factor U with U^T U, and zeros; say whether it is definite.

    In blocks of rows: OpenBLAS's own division among threads writes beyond its room, and ends the
    process, from 16,000 rows on two threads on (0.3.30, and NumPy's 0.3.31).
    """
    size = len(matrix)
    for first in range(0, size, _MOST_AT_ONCE):
        own, rest = slice(first, first + _MOST_AT_ONCE), slice(first + _MOST_AT_ONCE, size)
        # Symmetric, so that the transpose is what LAPACK takes without a copy of its own.
        factor, info = dpotrf(matrix[own, own].T, lower=True, overwrite_a=True)
        if info > 0:
            return False
        matrix[own, own] = factor.T
        matrix[rest, own] = 0.0
        beside = dtrsm(1.0, factor, matrix[own, rest].T, side=1, lower=True, trans_a=True).T
        matrix[own, rest] = beside
        for start in range(rest.start, size, _MOST_AT_ONCE):
            behind = beside[:, start - rest.start :]
            left = behind[:, :_MOST_AT_ONCE]
            matrix[start : start + _MOST_AT_ONCE, start:] -= left.T @ behind
    return True
