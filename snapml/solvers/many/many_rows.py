"""Products of one matrix with the vectors of many models, each of one read.

The number of models is a multiple of `PANEL`, or `HALF_PANEL`; see many_arrays.py for the shapes.
"""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.data import CompressedMatrix, DenseMatrix
from snapml.problems import Loss
from snapml.solvers.dense_products import add_blocks, add_gram, matmul
from snapml.solvers.many.many_arrays import HostArrays, ManyArrays
from snapml.solvers.many.many_softmax import HostSoftmaxLosses, curve
from snapml.solvers.rows.cpu_rows import native_rows
from snapml.solvers.threads import resolve_n_threads

__all__ = [
    "HALF_PANEL",
    "PANEL",
    "CompressedProducts",
    "DenseProducts",
    "HostLosses",
    "HostProducts",
]

PANEL = 16
"""Models that share a cache line, or two."""
HALF_PANEL = 8
"""Fewer: half of what sparse products of `PANEL` models move. BLAS gains little by it."""

# Dense rows that products take at a time. Sums of squares: enough for BLAS, little beside X. Those
# with vectors and back: so few that the second product finds them in the cache, yet enough that
# its result is seldom added up.
_BLOCK_ENTRIES = 8_000_000
_FEWEST_ROWS, _CACHED_ENTRIES = 256, 500_000


class HostProducts:
    """What all products on the host have in common (part of the protocol `ManyProducts`).

    Parameters
    ----------
    pool : ThreadPool
        Threads that work.
    """

    arrays: ManyArrays

    def __init__(self, pool: _native.ThreadPool) -> None:
        self.pool, self.n_threads, self.arrays = pool, pool.size, HostArrays(pool)

    def losses(
        self,
        loss: Loss,
        labels: np.ndarray,
        weights: np.ndarray,
        label_columns: np.ndarray,
        weight_columns: np.ndarray,
        factors: np.ndarray,
    ) -> HostLosses | HostSoftmaxLosses:
        """Return the losses of models; `ManyProducts.losses` has the parameters."""
        targets = _native.ManyTargets.make(labels, weights, label_columns, weight_columns, factors)
        if loss.is_joint:
            return HostSoftmaxLosses(loss.n_outputs, targets, len(factors), self.pool)
        return HostLosses(loss.core_name, targets, len(factors), self.pool)


class CompressedProducts(HostProducts):
    """Products with compressed rows, by the compiled extension (protocol `ManyProducts`).

    Parameters
    ----------
    matrix : CompressedMatrix
        The rows.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    """

    is_dense, fewest = False, HALF_PANEL

    def __init__(self, matrix: CompressedMatrix, n_threads: int | None = None) -> None:
        self.shape, self.dtype = matrix.shape, matrix.dtype
        super().__init__(_native.ThreadPool(resolve_n_threads(n_threads, matrix.n_stored)))
        self._rows = native_rows(matrix, self.pool)

    def margins(self, vectors: np.ndarray) -> np.ndarray:
        """Return X vectors, shape (n_rows, n_models)."""
        n_models = vectors.shape[1]
        out = np.empty((self.shape[0], n_models), dtype=vectors.dtype)
        _native.many_products(self.pool, self._rows, n_models, vectors, out)
        return out

    def adjoint(self, scales: np.ndarray, *, squares_entries: bool = False) -> np.ndarray:
        """Return X^T scales, or (X * X)^T scales; shape (n_features + 1, n_models)."""
        n_models = scales.shape[1]
        out = self._scratch(n_models, scales.dtype)
        _native.many_adjoints(self.pool, self._rows, n_models, scales, squares_entries, out)
        return out[0]

    def hessian(
        self, curvatures: np.ndarray, vectors: np.ndarray, n_outputs: int = 1
    ) -> np.ndarray:
        """Return X^T (curvatures * (X vectors)); `ManyProducts.hessian` has the parameters."""
        if n_outputs > 1:
            moved = self.margins(vectors)
            curve(self.pool, curvatures, moved, n_outputs)
            return self.adjoint(moved)
        n_models = vectors.shape[1]
        out = self._scratch(n_models, vectors.dtype)
        _native.many_hessians(self.pool, self._rows, n_models, curvatures, vectors, out)
        return out[0]

    def row_squares(self) -> np.ndarray:
        """Dense rows alone have them."""
        raise TypeError("expected dense rows, got compressed ones")

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Dense rows alone have one."""
        raise TypeError("expected dense rows, got compressed ones")

    def _scratch(self, n_models: int, dtype: np.dtype) -> np.ndarray:
        """Return an array for each thread; the first becomes the sum."""
        return np.empty((self.pool.size, self.shape[1] + 1, n_models), dtype=dtype)


class DenseProducts(HostProducts):
    """Products with dense rows, by BLAS (protocol `ManyProducts`).

    Parameters
    ----------
    matrix : DenseMatrix
        The rows.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    pool : ThreadPool, default=None
        These threads, where there are some already.
    """

    is_dense, fewest = True, PANEL

    def __init__(
        self,
        matrix: DenseMatrix,
        n_threads: int | None = None,
        pool: _native.ThreadPool | None = None,
    ) -> None:
        self.shape, self.dtype = matrix.shape, matrix.dtype
        if pool is None:
            pool = _native.ThreadPool(resolve_n_threads(n_threads, matrix.n_stored))
        super().__init__(pool)
        self._values = matrix.values

    def margins(self, vectors: np.ndarray) -> np.ndarray:
        """Return X vectors, shape (n_rows, n_models)."""
        found: np.ndarray = matmul(self._values, vectors[:-1], self.n_threads)
        found += vectors[-1]
        return found

    def adjoint(self, scales: np.ndarray, *, squares_entries: bool = False) -> np.ndarray:
        """Return X^T scales, or (X * X)^T scales; shape (n_features + 1, n_models)."""
        out = np.zeros((self.shape[1] + 1, scales.shape[1]), dtype=scales.dtype)
        scales.sum(axis=0, out=out[-1])
        if not squares_entries:
            matmul(self._values.T, scales, self.n_threads, out=out[:-1])
            return out
        for rows in self._blocks():
            block = self._values[rows]
            out[:-1] += (block * block).T @ scales[rows]
        return out

    def hessian(
        self, curvatures: np.ndarray, vectors: np.ndarray, n_outputs: int = 1
    ) -> np.ndarray:
        """Return X^T (curvatures * (X vectors)); `ManyProducts.hessian` has the parameters."""
        step = max(_FEWEST_ROWS, _CACHED_ENTRIES // max(1, self.shape[1]))

        def add(rows: slice, out: np.ndarray) -> None:
            block = self._values[rows]
            moved = block @ vectors[:-1]
            moved += vectors[-1]
            if n_outputs > 1:
                curve(self.pool, curvatures[rows], moved, n_outputs)
            else:
                moved *= curvatures[rows]
            out[:-1] += block.T @ moved
            out[-1] += moved.sum(axis=0)

        # The pool works on one block at a time.
        n_threads = 1 if n_outputs > 1 else self.n_threads
        n_operations = 4.0 * self._values.size * vectors.shape[1]
        return add_blocks(add, self._blocks(step), np.zeros_like(vectors), n_operations, n_threads)

    def row_squares(self) -> np.ndarray:
        """Return the squared lengths of the rows, shape (n_rows,)."""
        found: np.ndarray = np.einsum("ij,ij->i", self._values, self._values)
        return found

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return X^T diag(weights) X, the constant column last, for weights of at least 0."""
        size = self.shape[1] + 1
        out = np.zeros((size, size), dtype=self.dtype)
        roots = np.sqrt(weights)[:, None]
        for rows in self._blocks():
            block = self._values[rows] * roots[rows]
            add_gram(block, out[:-1, :-1], self.n_threads)
            out[-1, :-1] += roots[rows, 0] @ block
        out[:-1, -1] = out[-1, :-1]
        out[-1, -1] = weights.sum()
        return out

    def _blocks(self, step: int = 0) -> list[slice]:
        n_rows, n_features = self.shape
        step = step or max(64, _BLOCK_ENTRIES // max(1, n_features))
        return [slice(first, first + step) for first in range(0, n_rows, step)]


class HostLosses:
    """The losses of many models (protocol `ManyLosses`).

    Parameters
    ----------
    loss : str
        Name of the loss in the core.
    targets : ManyTargets
        Labels and weights.
    n_models : int
        Number of models.
    pool : ThreadPool
        Threads that work.
    """

    def __init__(
        self, loss: str, targets: _native.ManyTargets, n_models: int, pool: _native.ThreadPool
    ) -> None:
        self._loss, self._pool, self._n_models = loss, pool, n_models
        self._targets = targets

    def tangents(self, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the models' losses, and each row's slope and curvature times its weight."""
        slopes, curvatures = np.empty_like(margins), np.empty_like(margins)
        losses = np.empty(self._n_models)
        _native.many_losses(
            self._pool, self._loss, self._targets, margins, None, None, slopes, curvatures, losses
        )
        return losses, slopes, curvatures

    def diagonals(self, curvatures: np.ndarray) -> np.ndarray:
        """Return the curvatures, of one output each."""
        return curvatures

    def mixing(self, curvatures: np.ndarray) -> None:
        """Return None: models have one output."""

    def ahead(self, margins: np.ndarray, moves: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the models' losses at margins + steps * moves."""
        losses = np.empty(self._n_models)
        _native.many_losses(
            self._pool, self._loss, self._targets, margins, moves, steps, None, None, losses
        )
        return losses
