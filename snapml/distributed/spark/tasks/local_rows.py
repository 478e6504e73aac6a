"""The rows of one task: held as they come, then laid out as all tasks need them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

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
from snapml.data.growing_array import by_blocks
from snapml.data.stacking import stacked
from snapml.data.store.temporary_store import temporary_store_path
from snapml.distributed.spark.tasks.batches import RowBatch
from snapml.distributed.spark.tasks.column_moments import ColumnMoments
from snapml.distributed.spark.tasks.held_rows import HeldRows
from snapml.solvers.communicator import Communicator

__all__ = ["LocalRows"]

_INDEX_BYTES = 4
_FOLDERS = {True: "sparse", False: "dense"}
# Entries that are scaled at once.
_BLOCK_ENTRIES = 1 << 20
# Sparse rows cost more an entry than dense ones, so they must save some memory.
_WORTH = 1.5


class LocalRows:
    """Rows, labels, weights and offsets of one task.

    Made inside of ``with removing_temporary_stores()``, which removes the rows from the disk.

    Parameters
    ----------
    batches : iterable of RowBatch
        The rows; all of them are read here.
    dtype : numpy dtype
        To keep entries in.
    memory_limit : int
        Bytes of rows in memory; more are written to the disk.
    name : str, default='features'
        Of the rows' column, for errors.
    is_shared : bool, default=False
        Whether another task can take the rows over without a copy; needs `can_share`.

    Raises
    ------
    ValueError
        If rows differ in size.
    OSError
        If the disk is full.
    """

    def __init__(
        self,
        batches: Iterable[RowBatch],
        dtype: np.dtype,
        memory_limit: int,
        name: str = "features",
        is_shared: bool = False,
    ) -> None:
        self.is_shared = is_shared
        self.dtype, self._limit, self._name = np.dtype(dtype), memory_limit, name
        self._own_limit = memory_limit
        self.n_features: int | None = None  # None without rows
        self._n_rows, self._n_stored = {True: 0, False: 0}, 0
        self._held: dict[bool, HeldRows] = {}
        with ExitStack() as stack:
            for batch in batches:
                self._see(batch)
                is_sparse = isinstance(batch.X, CompressedMatrix)
                self._of_layout(is_sparse).append(batch)
                if sum(held.n_bytes for held in self._held.values()) > memory_limit:
                    for held in self._held.values():
                        held.spill(stack)
        for held in self._held.values():
            held.finish()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self._n_rows.values())

    @property
    def n_bytes(self) -> int | None:
        """Bytes of memory that the rows take, None where some are on the disk."""
        if any(held.store is not None for held in self._held.values()):
            return None
        return sum(held.n_bytes for held in self._held.values())

    def move_to(self, folder: Path) -> None:
        """Have the rows where another task finds them with `take_from`, and have none here.

        Parameters
        ----------
        folder : pathlib.Path
            Is made. All rows are in memory; shared ones stay there until they are taken.

        Raises
        ------
        OSError
            If the disk is full.
        """
        folder.mkdir(parents=True)
        for is_sparse, held in self._held.items():
            held.move_to(folder / _FOLDERS[is_sparse])
        self._n_rows, self._n_stored = {True: 0, False: 0}, 0

    def take_from(self, folders: Sequence[Path], n_features: int, n_threads: int = 1) -> None:
        """Add the rows that other tasks have moved to folders, and what memory they had for them.

        Parameters
        ----------
        folders : sequence of pathlib.Path
            They are of use no more.
        n_features : int
            Number of columns of all.
        n_threads : int, default=1
            Threads to use.
        """
        for is_sparse, name in _FOLDERS.items():
            found = [folder / name for folder in folders if (folder / name).exists()]
            if found:
                moved = [HeldRows.moved(each, self.dtype, n_features) for each in found]
                self._take(is_sparse, moved, n_threads)
        self._limit += len(folders) * self._own_limit

    def label_range(self) -> tuple[float, float]:
        """Return the least and the largest label."""
        y = self.labels()
        if not len(y):
            return np.inf, -np.inf
        return float(y.min()), float(y.max())

    def labels(self) -> np.ndarray:
        """Return the labels, in the order of the rows of `matrix`."""
        return np.concatenate([np.empty(0), *[held.labels() for held in self._held.values()]])

    def weights(self) -> np.ndarray | None:
        """Return the weights in that order, None without any."""
        found = [held.weights() for held in self._held.values()]
        some = [weights for weights in found if weights is not None]
        return np.concatenate(some).astype(np.float64) if some else None

    def offsets(self) -> np.ndarray | None:
        """Return the offsets in that order, None without any."""
        found = [held.offsets() for held in self._held.values()]
        some = [offsets for offsets in found if offsets is not None]
        return np.concatenate(some) if some else None

    def label_moments(self) -> ColumnMoments:
        """Return the weighted moments of the labels."""
        moments = ColumnMoments(1)
        moments.add(self.labels()[:, None], self.weights())
        return moments

    def moments(self, n_features: int, n_threads: int = 1) -> ColumnMoments:
        """Return the weighted moments of the columns.

        Parameters
        ----------
        n_features : int
            Number of columns, which a task without rows has heard from others.
        n_threads : int, default=1
            Threads to use.
        """
        moments = ColumnMoments(n_features)
        for held in self._held.values():
            weights, first = held.weights(), 0
            for part in held.matrices():
                last = first + part.shape[0]
                own = None if weights is None else weights[first:last].astype(np.float64)
                moments.add(part.values if isinstance(part, DenseMatrix) else part, own, n_threads)
                first = last
        return moments

    def matrix(
        self,
        communicator: Communicator,
        n_features: int,
        scale: np.ndarray | None,
        n_threads: int = 1,
    ) -> Matrix:
        """Return the rows in the layout that suits those of all tasks; to be called once.

        Where any task has more than its memory limit, all stream from their disks.

        Parameters
        ----------
        communicator : Communicator
            The tasks.
        n_features : int
            Number of columns.
        scale : ndarray of shape (n_features,) or None
            Factors of the columns.
        n_threads : int, default=1
            Threads to use.

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
        if not all(communicator.exchange(n_bytes <= self._limit)):
            return ChunkedMatrix(self._store(is_sparse, n_features, scale, n_threads))
        found = list(self._laid_out(is_sparse, n_features, scale, n_threads))
        found = found or [_empty(is_sparse, n_features, self.dtype)]
        return found[0] if len(found) == 1 else stacked(found)

    def _store(
        self, is_sparse: bool, n_features: int, scale: np.ndarray | None, n_threads: int
    ) -> ChunkedDataset:
        """Return the rows on the disk: those that went there as they came, where they may stay.

        A store has rows: a task without any gets one without weight.
        """
        if self.n_rows == 0:
            self._held[False] = HeldRows(self.dtype)
            no_row = np.zeros((1, n_features)), np.ones(1), np.zeros(1), np.zeros(1)
            self._held[False].append(RowBatch(*no_row))  # 1 is a label of every loss
        if scale is None and [*self._held] == [is_sparse]:
            store = self._held[is_sparse].store
            if store is not None:
                return ChunkedDataset.open(store.folder, memory_limit=self._limit)
        path = temporary_store_path()
        with ChunkWriter(path, n_features=n_features if is_sparse else None) as writer:
            for part in self._laid_out(is_sparse, n_features, scale, n_threads):
                X = part.values if isinstance(part, DenseMatrix) else part
                writer.append(X, copy=False)
        return ChunkedDataset.open(path, memory_limit=self._limit)

    def _laid_out(
        self, is_sparse: bool, n_features: int, scale: np.ndarray | None, n_threads: int
    ) -> Iterator[Matrix]:
        """Return the rows in memory of their own, part after part; what was held is let go."""
        is_mixed = len(self._held) > 1
        for held in self._held.values():
            for part in held.matrices():
                found = _in_layout(part, is_sparse, n_features, has_values=is_mixed)
                yield found if scale is None else _scaled(found, scale, n_threads)
            held.let_go()

    def _of_layout(self, is_sparse: bool) -> HeldRows:
        if is_sparse not in self._held:
            self._held[is_sparse] = HeldRows(self.dtype, is_shared=self.is_shared)
        return self._held[is_sparse]

    def _take(self, is_sparse: bool, moved: list[HeldRows], n_threads: int) -> None:
        own = self._of_layout(is_sparse)
        for each in moved:
            self._see(_in_one(each))
        if is_sparse or not own.join(moved):
            for each in moved:
                own.append(_in_one(each), n_threads)
                each.release()  # before the next: rows are held twice one task at a time

    def _see(self, batch: RowBatch) -> None:
        X = batch.X
        if self.n_features is None:
            self.n_features = X.shape[1]
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"{self._name}: expected vectors of one size, got {self.n_features} and "
                f"{X.shape[1]} entries"
            )
        is_sparse = isinstance(X, CompressedMatrix)
        self._n_rows[is_sparse] += X.shape[0]
        self._n_stored += X.n_stored if is_sparse else int(np.count_nonzero(X))


def _in_one(held: HeldRows) -> RowBatch:
    """Return rows in memory as a batch."""
    (part,) = held.matrices()
    X = part.values if isinstance(part, DenseMatrix) else part
    return RowBatch(X, held.labels(), held.weights(), held.offsets())


def _in_layout(part: Matrix, is_sparse: bool, n_features: int, *, has_values: bool) -> Matrix:
    if isinstance(part, DenseMatrix) and is_sparse:
        rows = csr_matrix(part.values)
        return CompressedMatrix(rows.indptr, rows.indices, n_features, rows.data)
    if not isinstance(part, CompressedMatrix):
        return part
    values = part.values
    if values is None and (has_values or not is_sparse):
        values = np.ones(part.n_stored, part.dtype)
    if is_sparse:
        return CompressedMatrix(part.indptr, part.indices, n_features, values, part.dtype)
    shape = (part.shape[0], n_features)
    return DenseMatrix(csr_matrix((values, part.indices, part.indptr), shape).toarray())


def _scaled(part: Matrix, scale: np.ndarray, n_threads: int) -> Matrix:
    """Multiply the columns, in place where there are entries."""
    factors = scale.astype(part.dtype)
    if isinstance(part, DenseMatrix):
        rows = part.values

        def multiply(block: slice) -> None:
            np.multiply(rows[block], factors, out=rows[block])

        by_blocks(multiply, len(rows), max(1, _BLOCK_ENTRIES // max(1, len(factors))), n_threads)
        return part
    if not isinstance(part, CompressedMatrix):
        raise TypeError(f"expected rows in memory, got {type(part).__name__}")
    indices, kept = part.indices, part.values
    values = np.empty(part.n_stored, part.dtype) if kept is None else kept

    def scale_block(block: slice) -> None:
        if kept is None:  # with mode='raise' NumPy would fill another array first
            np.take(factors, indices[block], out=values[block], mode="clip")
        else:
            values[block] *= np.take(factors, indices[block])

    by_blocks(scale_block, part.n_stored, _BLOCK_ENTRIES, n_threads)
    return CompressedMatrix(part.indptr, indices, part.n_features, values)


def _empty(is_sparse: bool, n_features: int, dtype: np.dtype) -> Matrix:
    if not is_sparse:
        return DenseMatrix(np.empty((0, n_features), dtype))
    none = np.empty(0, np.int32)
    return CompressedMatrix(np.zeros(1, np.int32), none, n_features, np.empty(0, dtype))
