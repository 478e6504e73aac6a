"""Columns packed out of the user's rows: a working set, ready to descend on."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
from scipy.sparse import csc_matrix

from snapml import _native
from snapml.data import Matrix
from snapml.solvers.columns.cpu_columns import CpuColumns

__all__ = ["DenseChunk", "SparseColumns", "dense_gram"]

_COLUMNS_TOGETHER = 512  # whose moments are taken in one go: copies stay small
# Columns up to which sums over single rows are quicker than products of blocks of rows: in float32,
# of rows that lie by columns, and of others.
_FEW_NARROW, _FEW_TALL, _MANY = 32, 64, 512
_BLOCK_BYTES = 1 << 22  # of rows packed for one matrix product: stays in the processor's cache


class DenseChunk:
    """Some columns of dense rows, side by side in memory or in the user's own matrix."""

    def __init__(self, engine: CpuColumns, columns: np.ndarray | None) -> None:
        self._pool = engine.pool
        self.n_rows = engine.n_rows
        self.dtype = engine.dtype
        self._is_tall = is_tall = engine.is_by_columns
        if columns is None:
            self.rows, self.n_cols = engine.rows, engine.n_features
            return
        self.n_cols = len(columns)
        order: Literal["F", "C"] = "F" if is_tall else "C"
        values = np.empty((engine.n_rows, self.n_cols), dtype=engine.dtype, order=order)
        out = values.T if is_tall else values
        if engine.n_rows:
            _native.pack_dense(engine.pool, engine.rows, columns, engine.tau, is_tall, out)
        self.rows = _native.Rows.dense(values)

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return the columns' sum weighted by `coef`."""
        out = np.empty(self.n_rows)
        _native.product(self._pool, self.rows, np.ascontiguousarray(coef), out)
        return out

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        """Return the columns' products with a vector."""
        out = np.empty((self._pool.size, self.n_cols))
        _native.adjoint_product(self._pool, self.rows, vector, out)
        return out[0]

    @property
    def has_quick_sums(self) -> bool:
        """Whether products in float64 are the quicker ones: BLAS has twice as many in float32."""
        most = _FEW_NARROW if self.dtype == np.float32 else _FEW_TALL if self._is_tall else _MANY
        return 0 < self.n_cols <= most and self.n_rows > 0

    def square(self, curvatures: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return sum_i h_i (x_i - mean) (x_i - mean)^T, of one read."""
        gram, rest = np.empty((self.n_cols, self.n_cols)), np.empty(self.n_cols)
        none = np.empty((0, self.n_rows))
        _native.row_sums(self._pool, self.rows, none, curvatures, mean, gram, rest)
        return gram

    def block(self, first: int, root: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return (x_i - mean) * root_i of some rows, in the data's dtype."""
        out = np.empty((len(root), self.n_cols), dtype=self.dtype)
        _native.weighted_block(_native.ThreadPool(1), self.rows, first, len(root), mean, root, out)
        return out


def dense_gram(
    old: list[DenseChunk],
    new: list[DenseChunk],
    curvatures: np.ndarray,
    means: list[np.ndarray],
    n_threads: int,
) -> np.ndarray:
    """Return the weighted, centred products of all columns with the new ones.

    Parameters
    ----------
    old, new : list of DenseChunk
        Columns; the result's rows belong to ``old + new``, its columns to ``new``.
    curvatures : ndarray of shape (n_rows,), float64
        h_i.
    means : list of ndarray
        What to subtract from the columns of each chunk of ``old + new``.
    n_threads : int
        Threads to use.

    Returns
    -------
    ndarray of shape (n_old + n_new, n_new), float64
        Products in the data's dtype, added up over blocks of rows in float64.
    """
    chunks = old + new
    if len(chunks) == 1 and chunks[0].has_quick_sums:
        return chunks[0].square(curvatures, means[0])
    root = np.sqrt(curvatures)
    width, n_rows = sum(chunk.n_cols for chunk in chunks), len(curvatures)
    count = max(256, 2 * width, _BLOCK_BYTES // (width * chunks[0].dtype.itemsize))
    firsts = range(0, n_rows, count)

    def add_up(firsts: range) -> np.ndarray:
        total = np.zeros((width, sum(chunk.n_cols for chunk in new)))
        for first in firsts:
            part = np.ascontiguousarray(root[first : first + count])
            blocks = [c.block(first, part, mean) for c, mean in zip(chunks, means, strict=True)]
            _add_products(total, blocks[: len(old)], blocks[len(old) :])
        return total

    # One thread for each share of the rows, and BLAS on one thread in each: its own threads would
    # meet after every block.
    shares = [firsts[k::n_threads] for k in range(max(1, min(n_threads, len(firsts))))]
    if len(shares) == 1:
        return add_up(shares[0])
    with ThreadPoolExecutor(len(shares)) as threads:
        totals = list(threads.map(add_up, shares))
    return functools.reduce(np.add, totals)


def _add_products(total: np.ndarray, old: list[np.ndarray], new: list[np.ndarray]) -> None:
    """Add the products of all blocks with the new ones."""
    fresh = new[0] if len(new) == 1 else np.hstack(new)
    at = 0
    for block in (*old, fresh):
        total[at : at + block.shape[1]] += block.T @ fresh
        at += block.shape[1]


class SparseColumns:
    """Some columns of compressed rows, compressed by columns."""

    def __init__(self, engine: CpuColumns, columns: np.ndarray) -> None:
        self._engine = engine
        self.columns = columns
        self.n_cols = len(columns)
        self._has_constant = bool(engine.tau) and columns[-1] == engine.n_features
        self._n_own = self.n_cols - int(self._has_constant)
        self._positions = np.full(engine.n_features, -1, dtype=np.int64)
        self._positions[columns[: self._n_own]] = np.arange(self._n_own)
        self._native: _native.Columns | None = None
        self._parts: tuple[np.ndarray, np.ndarray, np.ndarray | None, float] | None = None
        self.n_stored = 0
        self.counts = np.empty(0, dtype=np.int64)  # entries of each column, once they are packed

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return the columns' sum weighted by `coef`."""
        if self._native is None:  # one read of the rows costs less than to pack their columns
            full = np.zeros(self._engine.n_cols)
            full[self.columns] = coef
            return self._engine.product(full)
        out = np.zeros(self._engine.n_rows)
        _native.columns_product(self._native, coef, out)
        return out

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        """Return the columns' products with a vector."""
        if self._native is None:
            return self._engine.adjoint(vector)[self.columns]
        out = np.empty(self.n_cols)
        _native.columns_adjoint(self._engine.pool, self._native, vector, out)
        return out

    def gram(self, curvatures: np.ndarray) -> np.ndarray:
        """Return sum_i h_i x_i x_i^T."""
        engine, gram = self._engine, np.zeros((self.n_cols, self.n_cols))
        constant_at = self._n_own if self._has_constant else -1
        kept = (self._positions, self.n_cols, constant_at, engine.tau)
        _native.sparse_gram(engine.pool, engine.rows, *kept, curvatures, gram)
        gram += np.tril(gram, -1).T
        return gram

    def moments(self, curvatures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sum_i h_i x_ij and sum_i h_i x_ij^2 of every column, which are packed."""
        sums, squares = np.empty((2, self.n_cols))
        for first in range(0, self.n_cols, _COLUMNS_TOGETHER):
            last = min(first + _COLUMNS_TOGETHER, self.n_cols)
            own = self._csc(first, last)
            sums[first:last] = own.T @ curvatures
            own.data **= 2
            squares[first:last] = own.T @ curvatures
        return sums, squares

    def block(self, first: int, last: int) -> _native.Columns:
        """Return some of the columns, which are packed, in place."""
        indptr, indices, values, entry = self._block_parts(first, last)
        engine = self._engine
        is_wide = engine.dtype == np.float64
        return _native.Columns.sparse(
            engine.pool, indptr, indices, values, entry, is_wide, engine.n_rows
        )

    def block_gram(self, first: int, last: int, curvatures: np.ndarray) -> np.ndarray:
        """Return sum_i h_i x_i x_i^T of some of the columns, which are packed."""
        own = self._csc(first, last)
        weighted = own.copy()
        weighted.data *= curvatures[own.indices]
        return np.asarray((own.T @ weighted.tocsr()).toarray())

    def stored(self) -> csc_matrix:
        """Return the columns in the data's dtype."""
        _ = self.native  # they are packed
        indptr, indices, values, entry = self._block_parts(0, self.n_cols)
        data = np.full(len(indices), entry, self._engine.dtype) if values is None else values
        return csc_matrix((data, indices, indptr), shape=(self._engine.n_rows, self.n_cols))

    def _csc(self, first: int, last: int) -> csc_matrix:
        indptr, indices, values, entry = self._block_parts(first, last)
        data = np.full(len(indices), entry) if values is None else values.astype(np.float64)
        return csc_matrix((data, indices, indptr), shape=(self._engine.n_rows, last - first))

    def _block_parts(
        self, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, float]:
        assert self._parts is not None
        indptr, indices, values, entry = self._parts
        stored = slice(int(indptr[first]), int(indptr[last]))
        own = None if values is None else values[stored]
        return indptr[first : last + 1] - indptr[first], indices[stored], own, entry

    @property
    def native(self) -> _native.Columns:
        """The extension's view, packed when it is first asked for."""
        if self._native is None:
            self._native = self._pack()
        return self._native

    def _pack(self) -> _native.Columns:
        engine = self._engine
        counts = np.zeros((engine.n_threads, self.n_cols + 1), dtype=np.int64)
        _native.count_entries(engine.pool, engine.rows, self._positions, self.n_cols, counts)
        if self._has_constant:
            counts[0, -1] = engine.n_rows
        counts[:, 0] = 0
        self.counts = counts.sum(axis=0)[1:]
        indptr = np.append(0, np.cumsum(self.counts))
        self.n_stored = int(indptr[-1])
        offsets = np.append(0, indptr[:-1]) + np.vstack(
            [np.zeros_like(counts[:1]), counts[:-1].cumsum(axis=0)]
        )
        offsets[:, 0] = self.n_stored + np.arange(engine.n_threads)  # for what is left out
        n_slots = self.n_stored + engine.n_threads
        is_narrow = engine.n_rows <= np.iinfo(np.int32).max
        indices = np.zeros(n_slots, dtype=np.int32 if is_narrow else np.int64)
        is_constant = engine.rows.is_constant
        values = None if is_constant else np.zeros(n_slots, dtype=engine.dtype)
        kept = (self._positions, self.n_cols)
        _native.fill_columns(engine.pool, engine.rows, *kept, offsets, indices, values)
        entry = _constant_entry(engine.matrix) if is_constant else 1.0
        if self._has_constant:
            own = slice(int(indptr[-2]), int(indptr[-1]))
            indices[own] = np.arange(engine.n_rows)
            if values is None and entry != engine.tau:
                values = np.full(n_slots, entry, dtype=engine.dtype)
            if values is not None:
                values[own] = engine.tau
        self._parts = indptr, indices, values, entry
        is_wide = engine.dtype == np.float64
        return _native.Columns.sparse(
            engine.pool, indptr, indices, values, entry, is_wide, engine.n_rows
        )


def _constant_entry(matrix: Matrix) -> float:
    """Return what every stored entry equals."""
    values = matrix.values  # type: ignore[attr-defined]  # only compressed rows are constant
    return 1.0 if values is None or len(values) == 0 else float(values[0])
