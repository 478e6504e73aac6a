"""Products of rows, wherever they are, with several models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from snapml.data import Matrix
from snapml.kernels import ResidentMatrix
from snapml.solvers.many.gpu_many_rows import device_products
from snapml.solvers.many.many_arrays import ManyProducts
from snapml.solvers.many.many_chunks import many_products
from snapml.solvers.many.many_rows import PANEL
from snapml.solvers.plan import device_choice
from snapml.solvers.threads import limit_blas_threads

__all__ = ["adjoint_of", "margins_of", "models_at_a_time"]

_MOST_NUMBERS = 1 << 26  # rows times models


def models_at_a_time(n_rows: int) -> int:
    """Return of how many models margins have room: half a gigabyte in float64.

    Parameters
    ----------
    n_rows : int
        Rows of the matrix.

    Returns
    -------
    int
        A multiple of what one read serves.
    """
    return max(PANEL, _MOST_NUMBERS // max(1, n_rows) // PANEL * PANEL)


def margins_of(
    matrix: Matrix, coefs: np.ndarray, intercepts: np.ndarray, n_threads: int | None
) -> np.ndarray:
    """Return the margins of rows in several models.

    Parameters
    ----------
    matrix : Matrix
        Finite rows, wherever they are.
    coefs : ndarray of shape (n_models, n_features)
        w of each.
    intercepts : ndarray of shape (n_models,)
        b of each.
    n_threads : int or None
        Threads to use on the host.

    Returns
    -------
    ndarray of shape (n_rows, n_models), the matrix's dtype
        On the host.
    """
    n_models, n_features = coefs.shape
    with _products(matrix, n_threads) as products:
        vectors = np.zeros((n_features + 1, -(-n_models // PANEL) * PANEL), dtype=products.dtype)
        vectors[:-1, :n_models] = coefs.T
        vectors[-1, :n_models] = intercepts
        found = products.margins(products.arrays.given(vectors))
        return np.ascontiguousarray(products.arrays.to_host(found)[:, :n_models])


def adjoint_of(matrix: Matrix, vector: np.ndarray, n_threads: int | None) -> np.ndarray:
    """Return the columns' products with a number of each row.

    Parameters
    ----------
    matrix : Matrix
        Finite rows, wherever they are.
    vector : ndarray of shape (n_rows,)
        Numbers.
    n_threads : int or None
        Threads to use on the host.

    Returns
    -------
    ndarray of shape (n_features,), the matrix's dtype
        On the host.
    """
    with _products(matrix, n_threads) as products:
        scales = np.zeros((matrix.shape[0], PANEL), dtype=products.dtype)
        scales[:, 0] = vector
        found = products.adjoint(products.arrays.given(scales))
        return products.arrays.to_host(found)[:-1, 0].copy()


@contextmanager
def _products(matrix: Matrix, n_threads: int | None) -> Iterator[ManyProducts]:
    """Yield the products of rows where they are."""
    if isinstance(matrix, ResidentMatrix):
        with device_choice.clean_errors(matrix.device), matrix.device.use():
            yield device_products(matrix.device, matrix)
    else:
        with limit_blas_threads(1):
            yield many_products(matrix, n_threads)
