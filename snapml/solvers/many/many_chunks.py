"""Products of rows in a store with the vectors of many models, each of one sweep over the store."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from snapml import _native
from snapml.data import ChunkedMatrix, CompressedMatrix, DenseMatrix, Matrix
from snapml.solvers.many.many_arrays import ManyProducts
from snapml.solvers.many.many_rows import (
    HALF_PANEL,
    PANEL,
    CompressedProducts,
    DenseProducts,
    HostProducts,
)
from snapml.solvers.many.many_softmax import curve
from snapml.solvers.rows.cpu_rows import native_rows
from snapml.solvers.threads import resolve_n_threads

__all__ = ["ChunkedProducts", "many_products"]


class ChunkedProducts(HostProducts):
    """Products with rows that are read chunk by chunk (protocol `ManyProducts`).

    Chunks are read ahead of the work on them, and those that the matrix keeps once. Numbers of
    rows, such as margins, are in memory.

    Parameters
    ----------
    matrix : ChunkedMatrix
        The rows.
    n_threads : int or None, default=None
        Threads to use; None means all available. One more reads ahead.
    """

    def __init__(self, matrix: ChunkedMatrix, n_threads: int | None = None) -> None:
        self.shape, self.dtype = matrix.shape, matrix.dtype
        self.is_dense = not matrix.is_sparse
        self.fewest = PANEL if self.is_dense else HALF_PANEL
        super().__init__(_native.ThreadPool(resolve_n_threads(n_threads, matrix.n_stored)))
        self._matrix = matrix

    def margins(self, vectors: np.ndarray) -> np.ndarray:
        """Return X vectors, shape (n_rows, n_models)."""
        n_models = vectors.shape[1]
        out = np.empty((self.shape[0], n_models), dtype=vectors.dtype)
        for rows, chunk in self._chunks():
            if isinstance(chunk, DenseProducts):
                out[rows] = chunk.margins(vectors)
            else:
                _native.many_products(self.pool, chunk, n_models, vectors, out[rows])
        return out

    def adjoint(self, scales: np.ndarray, *, squares_entries: bool = False) -> np.ndarray:
        """Return X^T scales, or (X * X)^T scales; shape (n_features + 1, n_models)."""
        n_models = scales.shape[1]
        out = self._sums(n_models, scales.dtype)
        for rows, chunk in self._chunks():
            own = scales[rows]
            if isinstance(chunk, DenseProducts):
                out[0] += chunk.adjoint(own, squares_entries=squares_entries)
            else:
                _native.many_adjoints(self.pool, chunk, n_models, own, squares_entries, out, True)
        return self._total(out)

    def hessian(
        self, curvatures: np.ndarray, vectors: np.ndarray, n_outputs: int = 1
    ) -> np.ndarray:
        """Return X^T (curvatures * (X vectors)); `ManyProducts.hessian` has the parameters."""
        n_models = vectors.shape[1]
        out = self._sums(n_models, vectors.dtype)
        for rows, chunk in self._chunks():
            own = curvatures[rows]
            if isinstance(chunk, DenseProducts):
                out[0] += chunk.hessian(own, vectors, n_outputs)
            elif n_outputs > 1:
                moved = np.empty((len(own), n_models), dtype=vectors.dtype)
                _native.many_products(self.pool, chunk, n_models, vectors, moved)
                curve(self.pool, own, moved, n_outputs)
                _native.many_adjoints(self.pool, chunk, n_models, moved, False, out, True)
            else:
                _native.many_hessians(self.pool, chunk, n_models, own, vectors, out, True)
        return self._total(out)

    def row_squares(self) -> np.ndarray:
        """Return the squared lengths of dense rows, shape (n_rows,)."""
        return np.concatenate([chunk.row_squares() for _, chunk in self._dense_chunks()])

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return X^T diag(weights) X of dense rows, the constant column last."""
        size = self.shape[1] + 1
        out = np.zeros((size, size), dtype=self.dtype)
        for rows, chunk in self._dense_chunks():
            out += chunk.gram(weights[rows])
        return out

    def _dense_chunks(self) -> Iterator[tuple[slice, DenseProducts]]:
        for rows, chunk in self._chunks():
            assert isinstance(chunk, DenseProducts)
            yield rows, chunk

    def _chunks(self) -> Iterator[tuple[slice, DenseProducts | _native.Rows]]:
        """Return where each chunk's rows are and what takes products with them."""
        for number, matrix in self._matrix.chunks():
            rows = self._matrix.rows_of(number)
            if isinstance(matrix, DenseMatrix):
                yield rows, DenseProducts(matrix, pool=self.pool)
            else:
                yield rows, native_rows(matrix, self.pool)

    def _sums(self, n_models: int, dtype: np.dtype) -> np.ndarray:
        """Return what chunks add to: of compressed ones each thread has its own."""
        n_parts = 1 if self.is_dense else self.pool.size
        return np.zeros((n_parts, self.shape[1] + 1, n_models), dtype=dtype)

    @staticmethod
    def _total(sums: np.ndarray) -> np.ndarray:
        total: np.ndarray = sums[0]
        for own in sums[1:]:
            total += own
        return total


def many_products(matrix: Matrix, n_threads: int | None = None) -> ManyProducts:
    """Return the products for a matrix.

    Parameters
    ----------
    matrix : DenseMatrix, CompressedMatrix or ChunkedMatrix
        The rows.
    n_threads : int or None, default=None
        Threads to use; None means all available.

    Returns
    -------
    ManyProducts
        Over the matrix's memory.

    Raises
    ------
    TypeError
        If the rows are elsewhere.
    """
    if isinstance(matrix, ChunkedMatrix):
        return ChunkedProducts(matrix, n_threads)
    if isinstance(matrix, DenseMatrix):
        return DenseProducts(matrix, n_threads)
    if isinstance(matrix, CompressedMatrix):
        return CompressedProducts(matrix, n_threads)
    raise TypeError(f"matrix: expected rows of the host, got {type(matrix).__name__}")
