"""The extension's view of a matrix, and what needs no more than that."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from snapml import _native
from snapml.data import CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.solvers.threads import resolve_n_threads

__all__ = ["as_array", "margins", "native_rows"]


def native_rows(matrix: Matrix, pool: _native.ThreadPool) -> _native.Rows:
    """Return the extension's view of a matrix, offsets and indices checked.

    Parameters
    ----------
    matrix : Matrix
        The rows; must outlive the view's arrays no longer than the view does.
    pool : ThreadPool
        Checks the indices.

    Returns
    -------
    Rows
        Keeps the arrays alive.
    """
    if isinstance(matrix, DenseMatrix):
        return _native.Rows.dense(matrix.values)
    if not isinstance(matrix, CompressedMatrix):
        raise TypeError(f"expected a DenseMatrix or CompressedMatrix, got {type(matrix).__name__}")
    return _native.Rows.compressed(
        pool,
        matrix.indptr,
        matrix.indices,
        matrix.values,
        1.0,
        matrix.dtype == np.float64,
        matrix.n_features,
    )


def margins(
    matrix: Matrix, coef: np.ndarray, intercept: float, n_threads: int | None = None
) -> np.ndarray:
    """Return x_i.coef + intercept for every row, summed in float64.

    Parameters
    ----------
    matrix : Matrix
        The rows.
    coef : ndarray of shape (n_features,)
        Coefficients, cast to the matrix's dtype.
    intercept : float
        Added to every product.
    n_threads : int or None, default=None
        Threads to use; None means all available.

    Returns
    -------
    ndarray of shape (n_rows,), float64
        The margins.
    """
    pool = _native.ThreadPool(resolve_n_threads(n_threads, matrix.n_stored))
    out = np.empty(matrix.shape[0])
    coef = np.ascontiguousarray(coef, dtype=matrix.dtype)
    _native.margins(pool, native_rows(matrix, pool), coef, float(intercept), out)
    return out


def as_array(dataset: Dataset) -> np.ndarray | csr_matrix:
    """Return a dataset's rows as an ndarray or a SciPy CSR matrix, without copying.

    Parameters
    ----------
    dataset : Dataset
        The rows.

    Returns
    -------
    ndarray or csr_matrix of shape (n_rows, n_features)
        Over the same memory, but for implicit ones.
    """
    matrix = dataset.matrix
    if isinstance(matrix, DenseMatrix):
        return matrix.values
    if not isinstance(matrix, CompressedMatrix):
        raise TypeError(f"expected a DenseMatrix or CompressedMatrix, got {type(matrix).__name__}")
    values = matrix.values
    if values is None:
        values = np.ones(matrix.n_stored, dtype=matrix.dtype)
    return csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape)
