"""The rows of one task: stored on its disk as they come, then laid out as all tasks need them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import (
    ChunkedDataset,
    ChunkedMatrix,
    ChunkWriter,
    CompressedMatrix,
    DenseMatrix,
    Matrix,
)
from snapml.data.stacking import stacked
from snapml.data.temporary_store import temporary_store_path
from snapml.distributed.spark.batches import RowBatch
from snapml.distributed.spark.column_moments import ColumnMoments
from snapml.solvers.communicator import Communicator

__all__ = ["LocalRows"]

_INDEX_BYTES = 4
# Sparse rows cost more an entry than dense ones, so they must save some memory.
_WORTH = 1.5


class LocalRows:
    """Rows, labels and weights of one task, and the moments of their columns.

    Made inside of ``with removing_temporary_stores()``, which removes the rows from the disk.

    Parameters
    ----------
    batches : iterable of RowBatch
        The rows; all of them are read here.
    dtype : numpy dtype
        To keep entries in.
    name : str, default='features'
        Of the rows' column, for errors.

    Raises
    ------
    ValueError
        If rows differ in size.
    OSError
        If the disk is full.
    """

    def __init__(
        self, batches: Iterable[RowBatch], dtype: np.dtype, name: str = "features"
    ) -> None:
        self.dtype, self._name = np.dtype(dtype), name
        self.moments: ColumnMoments | None = None
        self.label_moments = ColumnMoments(1)
        self._n_rows, self._n_stored = {True: 0, False: 0}, 0
        self._stores = self._written(batches)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self._n_rows.values())

    @property
    def n_features(self) -> int | None:
        """Number of columns, None without rows."""
        return None if self.moments is None else len(self.moments.mean)

    def label_range(self) -> tuple[float, float]:
        """Return the least and the largest label."""
        y = self.labels()
        if not len(y):
            return np.inf, -np.inf
        return float(y.min()), float(y.max())

    def labels(self) -> np.ndarray:
        """Return the labels, in the order of the rows of `matrix`."""
        found = [store.labels() for store in self._stores.values()]
        return np.concatenate([np.empty(0), *[y for y in found if y is not None]])

    def weights(self) -> np.ndarray | None:
        """Return the weights in that order, None without any."""
        found = [store.weights() for store in self._stores.values()]
        some = [weights for weights in found if weights is not None]
        return np.concatenate(some).astype(np.float64) if some else None

    def matrix(
        self,
        communicator: Communicator,
        n_features: int,
        scale: np.ndarray | None,
        memory_limit: int | None,
    ) -> Matrix:
        """Return the rows in the layout that suits those of all tasks.

        Parameters
        ----------
        communicator : Communicator
            The tasks.
        n_features : int
            Number of columns.
        scale : ndarray of shape (n_features,) or None
            Factors of the columns.
        memory_limit : int or None
            Bytes of rows in memory; where any task has more, all stream from their disks.

        Returns
        -------
        Matrix
            In memory, or a `ChunkedMatrix`.
        """
        own = np.array([self._n_rows[True], self._n_rows[False], self._n_stored], np.float64)
        n_sparse, n_dense, n_stored = communicator.allreduce_sum(own).tolist()
        item = self.dtype.itemsize
        sparse_bytes = n_stored * (item + _INDEX_BYTES)
        dense_bytes = (n_sparse + n_dense) * n_features * item
        is_sparse = n_sparse > 0 and sparse_bytes * _WORTH < dense_bytes
        n_bytes = self._n_stored * (item + _INDEX_BYTES)
        if not is_sparse:
            n_bytes = self.n_rows * n_features * item
        has_room = memory_limit is None or n_bytes <= memory_limit
        parts = self._laid_out(is_sparse, n_features, scale)
        if all(communicator.exchange(has_room)):
            return stacked([_empty(is_sparse, n_features, self.dtype), *parts])
        return self._streamed(parts, n_features, memory_limit, is_sparse)

    def _streamed(
        self, parts: Iterable[Matrix], n_features: int, limit: int | None, is_sparse: bool
    ) -> Matrix:
        if self.n_rows == 0:
            raise ValueError("memoryLimit: expected rows on every task; use fewer numWorkers")
        path = temporary_store_path()
        with ChunkWriter(path, n_features=n_features if is_sparse else None) as writer:
            for part in parts:
                writer.append(part.values if isinstance(part, DenseMatrix) else part)
        return ChunkedMatrix(ChunkedDataset.open(path, memory_limit=limit or "auto"))

    def _laid_out(
        self, is_sparse: bool, n_features: int, scale: np.ndarray | None
    ) -> Iterable[Matrix]:
        """Return chunk after chunk in memory of its own."""
        for store in self._stores.values():
            for number in range(store.n_chunks):
                part = _in_layout(store.matrix(number), is_sparse, n_features)
                yield part if scale is None else _scaled(part, scale)

    def _written(self, batches: Iterable[RowBatch]) -> dict[bool, ChunkedDataset]:
        """Write dense rows and sparse rows to a store each."""
        writers: dict[bool, tuple[ChunkWriter, Path]] = {}
        with ExitStack() as stack:
            for batch in batches:
                self._see(batch)
                is_sparse = isinstance(batch.X, CompressedMatrix)
                if is_sparse not in writers:
                    path = temporary_store_path()
                    writers[is_sparse] = stack.enter_context(ChunkWriter(path)), path
                X = _as_type(batch.X, self.dtype)
                writers[is_sparse][0].append(X, batch.y, batch.weights)
        return {key: ChunkedDataset.open(path) for key, (_, path) in writers.items()}

    def _see(self, batch: RowBatch) -> None:
        X = batch.X
        if self.moments is None:
            self.moments = ColumnMoments(X.shape[1])
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"{self._name}: expected vectors of one size, got {self.n_features} and "
                f"{X.shape[1]} entries"
            )
        is_sparse = isinstance(X, CompressedMatrix)
        self.moments.add(X, batch.weights)
        self.label_moments.add(batch.y[:, None], batch.weights)
        self._n_rows[is_sparse] += X.shape[0]
        self._n_stored += X.n_stored if is_sparse else int(np.count_nonzero(X))


def _as_type(X: Any, dtype: np.dtype) -> Any:
    if not isinstance(X, CompressedMatrix):
        return X.astype(dtype, copy=False)
    narrow = np.int32 if X.n_features <= np.iinfo(np.int32).max else np.int64
    values = None if X.values is None else X.values.astype(dtype)
    indptr, indices = X.indptr.astype(narrow), X.indices.astype(narrow)
    return CompressedMatrix(indptr, indices, X.n_features, values, dtype)


def _in_layout(part: Matrix, is_sparse: bool, n_features: int) -> Matrix:
    if isinstance(part, DenseMatrix) and is_sparse:
        rows = csr_matrix(part.values)
        return CompressedMatrix(rows.indptr, rows.indices, n_features, rows.data)
    if isinstance(part, CompressedMatrix) and not is_sparse:
        values = np.ones(part.n_stored, part.dtype) if part.values is None else part.values
        shape = (part.shape[0], n_features)
        return DenseMatrix(csr_matrix((values, part.indices, part.indptr), shape).toarray())
    if isinstance(part, CompressedMatrix):
        return CompressedMatrix(part.indptr, part.indices, n_features, part.values, part.dtype)
    return part


def _scaled(part: Matrix, scale: np.ndarray) -> Matrix:
    factors = scale.astype(part.dtype)
    if isinstance(part, DenseMatrix):
        return DenseMatrix(part.values * factors)
    if not isinstance(part, CompressedMatrix):
        raise TypeError(f"expected rows in memory, got {type(part).__name__}")
    values = factors[part.indices]
    if part.values is not None:
        values *= part.values
    return CompressedMatrix(part.indptr, part.indices, part.n_features, values)


def _empty(is_sparse: bool, n_features: int, dtype: np.dtype) -> Matrix:
    if not is_sparse:
        return DenseMatrix(np.empty((0, n_features), dtype))
    none = np.empty(0, np.int32)
    return CompressedMatrix(np.zeros(1, np.int32), none, n_features, np.empty(0, dtype))
