"""The extension's view of a matrix, and what needs no more than that."""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from snapml import _native
from snapml.data import CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.data.compressed import CheckedMatrix
from snapml.solvers.range_checks import NonFiniteError, check_range
from snapml.solvers.threads import resolve_n_threads

__all__ = [
    "RowFacts",
    "add_gram",
    "array_of",
    "as_array",
    "centred_sums",
    "check_rows",
    "checked_rows",
    "column_sums",
    "inspect",
    "margins",
    "native_rows",
    "scale_rows",
    "scaled_gram",
    "scaled_sparse_gram",
    "sparse_gram",
    "squared_norms",
    "without_duplicates",
]

_logger = logging.getLogger("snapml")


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
        isinstance(matrix, CheckedMatrix),
    )


class RowFacts(NamedTuple):
    """What one read of the rows shows."""

    is_sorted: bool
    norm_sq_sum: float


def inspect(
    rows: _native.Rows, pool: _native.ThreadPool, norms: np.ndarray | None = None
) -> RowFacts:
    """Read the rows once, and refuse entries that are not finite.

    Parameters
    ----------
    rows : Rows
        The rows.
    pool : ThreadPool
        Reads them.
    norms : ndarray of shape (n_rows,), the rows' dtype, or None
        Filled with the rows' squared norms.

    Returns
    -------
    RowFacts
        Whether every row's indices increase, and the sum of the squared norms.

    Raises
    ------
    NonFiniteError
        If an entry is NaN or infinite.
    """
    is_finite, is_sorted, norm_sq_sum = _native.inspect_rows(pool, rows, norms)
    if not is_finite:
        raise NonFiniteError("expected finite entries, got NaN or infinity")
    return RowFacts(bool(is_sorted), float(norm_sq_sum))


def squared_norms(matrix: Matrix) -> np.ndarray:
    """Return the squared norm of every row of a few.

    Parameters
    ----------
    matrix : Matrix
        The rows.

    Returns
    -------
    ndarray of shape (n_rows,), the rows' dtype

    Raises
    ------
    NonFiniteError
        If an entry is NaN or infinite.
    """
    pool = _native.ThreadPool(1)
    norms = np.empty(matrix.shape[0], dtype=matrix.dtype)
    inspect(native_rows(matrix, pool), pool, norms)
    return norms


def without_duplicates(matrix: Matrix, rows: _native.Rows, facts: RowFacts) -> Matrix | None:
    """Return a copy with entries stored twice added up; None where there are none.

    Parameters
    ----------
    matrix : Matrix
        The rows.
    rows : Rows
        The extension's view of them.
    facts : RowFacts
        Of `inspect`.

    Returns
    -------
    Matrix or None
        Sorted.
    """
    if facts.is_sorted or not rows.has_duplicates():
        return None
    assert isinstance(matrix, CompressedMatrix)  # dense rows are sorted
    _logger.info("entries stored twice are added up in a copy of the matrix")
    return matrix.summed()


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


def column_sums(
    matrix: CompressedMatrix, weights: np.ndarray, n_threads: int | None = None
) -> np.ndarray:
    """Return the weighted sums of the columns.

    Parameters
    ----------
    matrix : CompressedMatrix
        The rows.
    weights : ndarray of shape (n_rows,), float64
        One a row.
    n_threads : int or None, default=None
        Threads to use; None means all available.

    Returns
    -------
    ndarray of shape (n_features,), float64
        X^T weights.
    """
    pool = _native.ThreadPool(resolve_n_threads(n_threads, matrix.n_stored))
    out = np.empty((pool.size, matrix.n_features))
    _native.adjoint_product(pool, native_rows(matrix, pool), weights, out)
    return out[0]


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
    return array_of(dataset.matrix)


def array_of(matrix: Matrix) -> np.ndarray | csr_matrix:
    """Return a matrix as `as_array` does its dataset's."""
    if isinstance(matrix, DenseMatrix):
        return matrix.values
    if not isinstance(matrix, CompressedMatrix):
        raise TypeError(f"expected a DenseMatrix or CompressedMatrix, got {type(matrix).__name__}")
    values = matrix.values
    if values is None:
        values = np.ones(matrix.n_stored, dtype=matrix.dtype)
    return csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def check_rows(matrix: Matrix, n_threads: int | None = None) -> None:
    """Read a matrix once, and refuse what no solver can work with.

    Parameters
    ----------
    matrix : Matrix
        The rows.
    n_threads : int or None, default=None
        Threads to use; None means all available.

    Raises
    ------
    NonFiniteError
        If an entry is NaN or infinite.
    ValueError
        If offsets or indices point outside the matrix, or squares of its entries would overflow.
    """
    pool = _native.ThreadPool(resolve_n_threads(n_threads, matrix.n_stored))
    checked_rows(matrix, pool, None, None)


def checked_rows(
    matrix: Matrix,
    pool: _native.ThreadPool,
    mean: np.ndarray | None,
    row_weights: np.ndarray | None,
) -> tuple[_native.Rows, np.ndarray | None, float]:
    """Return the extension's view of rows, refused where no solver can work with them.

    Parameters
    ----------
    matrix : Matrix
        The rows.
    pool : ThreadPool
        Threads that read them.
    mean : ndarray of shape (n_cols,), or None
        Subtracted from every row.
    row_weights : ndarray of shape (n_rows,), or None
        Weights of the rows.

    Returns
    -------
    rows : Rows
        With entries of one place added up.
    norms : ndarray of shape (n_rows,), or None
        Squared norms of the rows; None where they are implicit.
    norm_sq_sum : float
        Their weighted sum.
    """
    rows = native_rows(matrix, pool)
    if mean is not None:
        rows.centre(mean)
    needs_norms = not rows.is_constant or row_weights is not None
    norms = np.empty(matrix.shape[0], dtype=matrix.dtype) if needs_norms else None
    facts = inspect(rows, pool, norms)
    summed = without_duplicates(matrix, rows, facts)
    if summed is not None:
        return checked_rows(summed, pool, mean, row_weights)
    check_range(facts.norm_sq_sum, matrix.dtype)
    if row_weights is not None and norms is not None:
        return rows, norms, float((row_weights * norms).sum(dtype=np.float64))
    return rows, norms, facts.norm_sq_sum


def add_gram(
    rows: _native.Rows, pool: _native.ThreadPool, weights: np.ndarray, gram: np.ndarray
) -> None:
    """Add the lower triangle of sum_i weights_i (x_i, 1) (x_i, 1)^T of compressed rows.

    Parameters
    ----------
    rows : Rows
        Compressed ones.
    pool : ThreadPool
        Threads that read them.
    weights : ndarray of shape (n_rows,), float64
        One for each row.
    gram : ndarray of shape (n_cols + 1, n_cols + 1), float64
        Gets the sum added.
    """
    size = len(gram)
    all_columns, h = np.arange(size - 1), np.ascontiguousarray(weights)
    _native.sparse_gram(pool, rows, all_columns, size, size - 1, 1.0, h, gram)


def sparse_gram(matrix: CompressedMatrix, weights: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """Return sum_i s_i (x_i, 1) (x_i, 1)^T of sparse rows.

    Parameters
    ----------
    matrix : CompressedMatrix
        The rows.
    weights : ndarray of shape (n_rows,), float64
        s_i.
    n_threads : int, default=1
        Threads to use.

    Returns
    -------
    ndarray of shape (n_features + 1, n_features + 1), float64
        Both halves.
    """
    n_columns = matrix.shape[1]
    return scaled_sparse_gram(
        matrix, weights, np.zeros(n_columns), np.ones(n_columns), 1.0, n_threads
    )


def scaled_gram(
    rows: _native.Rows,
    pool: _native.ThreadPool,
    weights: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    bias: float,
) -> np.ndarray:
    """Return what `scaled_sparse_gram` does, of the extension's view of compressed rows."""
    gram = np.zeros((len(mean) + 1, len(mean) + 1))
    add_gram(rows, pool, weights, gram)
    _native.scale_gram(gram, mean, scale, bias)
    return gram


def scaled_sparse_gram(
    matrix: CompressedMatrix,
    weights: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    bias: float,
    n_threads: int,
) -> np.ndarray:
    """Return the weighted Gram matrix of sparse rows in centred and scaled columns.

    Parameters
    ----------
    matrix : CompressedMatrix
        The rows.
    weights : ndarray of shape (n_rows,), float64
        One for each row.
    mean, scale : ndarray of shape (n_features,), float64
        Of the columns.
    bias : float
        The intercept's column, which is the last.
    n_threads : int
        Threads to use.

    Returns
    -------
    ndarray of shape (n_features + 1, n_features + 1), float64
        Both halves.
    """
    pool = _native.ThreadPool(n_threads)
    return scaled_gram(native_rows(matrix, pool), pool, weights, mean, scale, bias)


def centred_sums(
    rows: _native.Rows, pool: _native.ThreadPool, n_cols: int, centre: np.ndarray | None
) -> np.ndarray:
    """Return sum_i x_ij, or sum_i (x_ij - centre_j)^2.

    Parameters
    ----------
    rows : Rows
        The rows.
    pool : ThreadPool
        Threads that read them.
    n_cols : int
        Columns.
    centre : ndarray of shape (n_cols,), float64, or None
        None asks for the sums of the entries.

    Returns
    -------
    ndarray of shape (n_cols,), float64
        Over all rows.
    """
    parts = np.empty((pool.size, 2, n_cols))
    _native.centred_sums(pool, rows, centre, parts)
    return parts[0, 0].copy()


def scale_rows(
    rows: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    weights: np.ndarray | None,
    bias: float,
    out: np.ndarray,
) -> None:
    """Write sqrt(weight) times rows in centred and scaled columns, and the intercept's.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features), float32 or float64
        Of any order.
    mean, scale : ndarray of shape (n_features,), float64
        Of the columns.
    weights : ndarray of shape (n_rows,), float64, or None
        Not negative; None where all are 1.
    bias : float
        Value of the intercept's constant column.
    out : ndarray of shape (n_rows, n_features + 1), the rows' dtype or float64
        Receives the rows.
    """
    view = _native.Rows.dense(rows)
    own = None if weights is None else np.ascontiguousarray(weights)
    _native.scale_rows(view, mean, scale, own, bias, out)
