"""Rows of one layout as they come: in memory, and on the disk once they are asked to go there."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from snapml.data import ChunkedDataset, ChunkWriter, CompressedMatrix, DenseMatrix, Matrix
from snapml.data.growing_array import GrowingArray
from snapml.data.store.temporary_store import temporary_store_path
from snapml.distributed.spark.tasks.batches import RowBatch

__all__ = ["HeldRows"]

# Bytes that take longer to copy than to arrange.
_WORTH_JOINING = 1 << 26


class HeldRows:
    """Rows, labels, weights and offsets, each in one array that grows, or in a chunk store.

    Parameters
    ----------
    dtype : numpy dtype
        To keep entries in.
    is_shared : bool, default=False
        Whether `move_to` is to copy nothing.
    """

    def __init__(self, dtype: np.dtype, *, is_shared: bool = False) -> None:
        self._dtype, self._is_shared = dtype, is_shared
        self._arrays: dict[str, GrowingArray] = {}
        self._width = 0
        self._path: Path | None = None
        self._writer: ChunkWriter | None = None
        self._store: ChunkedDataset | None = None

    @property
    def store(self) -> ChunkedDataset | None:
        """Where the rows are, None in memory."""
        return self._store

    @property
    def n_bytes(self) -> int:
        """Bytes of memory that the rows take."""
        return sum(array.n_bytes for array in self._arrays.values())

    def append(self, batch: RowBatch, n_threads: int = 1) -> None:
        """Copy rows.

        Parameters
        ----------
        batch : RowBatch
            Of the layout and the columns of those before.
        n_threads : int, default=1
            Threads to use.
        """
        self._width = batch.X.shape[1]
        extend = partial(self._extend, n_threads=n_threads)
        if batch.offsets is not None:  # which stores have no place for
            extend("offsets", batch.offsets, np.float64)
        if self._writer is not None:
            self._write(self._writer, batch.X, batch.y, batch.weights)
            return
        extend("labels", batch.y, np.float64)
        if batch.weights is not None:
            extend("weights", batch.weights, np.float64)
        if not isinstance(batch.X, CompressedMatrix):
            extend("values", batch.X.reshape(-1), self._dtype)
            return
        n_before = len(self._array("indices"))
        if batch.X.values is not None and "values" not in self._arrays:
            extend("values", np.ones(n_before), self._dtype)
        extend("lengths", np.diff(batch.X.indptr), np.int32)
        extend("indices", batch.X.indices, np.int32)
        if "values" in self._arrays:
            ones = np.broadcast_to(np.float64(1.0), batch.X.n_stored)
            extend("values", ones if batch.X.values is None else batch.X.values, self._dtype)

    def spill(self, stack: ExitStack) -> None:
        """Write the rows to a store, and those that follow.

        Parameters
        ----------
        stack : ExitStack
            Its end finishes the store, which `finish` then opens.

        Raises
        ------
        OSError
            If the disk is full.
        """
        if self._writer is not None:
            return
        self._path = temporary_store_path()
        self._writer = stack.enter_context(ChunkWriter(self._path))
        for matrix in self.matrices():
            X = matrix.values if isinstance(matrix, DenseMatrix) else matrix
            self._write(self._writer, X, self.labels(), self.weights())
        self._arrays = {name: self._arrays[name] for name in {"offsets"} & self._arrays.keys()}

    def finish(self) -> None:
        """Make ready to be read, after the last row."""
        if self._path is not None:
            self._store, self._writer = ChunkedDataset.open(self._path), None

    def labels(self) -> np.ndarray:
        """Return the labels, float64."""
        found = self._array("labels") if self._store is None else self._store.labels()
        return np.empty(0) if found is None else found

    def weights(self) -> np.ndarray | None:
        """Return the weights, None without any."""
        if self._store is not None:
            return self._store.weights()
        return self._array("weights") if "weights" in self._arrays else None

    def offsets(self) -> np.ndarray | None:
        """Return the offsets, None without any."""
        return self._array("offsets") if "offsets" in self._arrays else None

    def move_to(self, folder: Path) -> None:
        """Have the rows where another process finds them with `moved`, and have none here.

        Shared rows stay in memory, which goes with this object if nobody has taken them by then.

        Parameters
        ----------
        folder : pathlib.Path
            Is made. The rows are in memory.

        Raises
        ------
        OSError
            If the disk is full.
        """
        folder.mkdir()
        for name, array in self._arrays.items():
            array.hand_over(folder, name)

    @classmethod
    def moved(cls, folder: Path, dtype: np.dtype, width: int) -> HeldRows:
        """Return the rows that another process has moved to a folder, which must stay.

        Parameters
        ----------
        folder : pathlib.Path
            As for `move_to`.
        dtype : numpy dtype
            Of the entries.
        width : int
            Number of columns.

        Returns
        -------
        HeldRows
            Over the memory of the other process, or its files; it cannot grow.
        """
        held = cls(dtype)
        held._width = width
        for path in folder.iterdir():
            held._arrays[path.stem] = GrowingArray.handed_over(path)
        return held

    def join(self, others: Sequence[HeldRows]) -> bool:
        """Add dense rows that other processes have moved, without a copy if that can be.

        The last rows of each, which do not fill pages, then follow those of all.

        Parameters
        ----------
        others : sequence of HeldRows
            As `moved` returns them; of use no more where they were added.

        Returns
        -------
        bool
            Whether they were.
        """
        parts = [self, *others]
        values = [part._arrays["values"] for part in parts if "values" in part._arrays]
        n_bytes = self._width * self._dtype.itemsize
        if not n_bytes or sum(part.n_bytes for part in others) < _WORTH_JOINING:
            return False
        if len(values) < len(parts) or not all(array.is_shared for array in values):
            return False
        unit = mmap.PAGESIZE // math.gcd(mmap.PAGESIZE, n_bytes)
        whole = [len(part.labels()) // unit * unit for part in parts]
        joined = {"values": GrowingArray.joined(values, [n * self._width for n in whole])}
        for name in self._arrays.keys() - {"values"}:
            found = [part._array(name) for part in parts]
            joined[name] = GrowingArray(np.dtype(np.float64))
            for each, n in zip(found, whole, strict=True):
                joined[name].append(each[:n])
            for each, n in zip(found, whole, strict=True):
                joined[name].append(each[n:])
        self._arrays = joined
        return True

    def release(self) -> None:
        """Free the memory of rows that were moved, here and in the other process."""
        for array in self._arrays.values():
            array.release()

    def let_go(self) -> None:
        """Drop the rows from memory; labels, weights and offsets stay."""
        for name in {"lengths", "indices", "values"} & self._arrays.keys():
            del self._arrays[name]

    def matrices(self) -> Iterator[Matrix]:
        """Return the rows one after the other.

        Yields
        ------
        Matrix
            All that are in memory, or a chunk of the store, in memory of its own.
        """
        if self._store is not None:
            for number in range(self._store.n_chunks):
                yield self._store.matrix(number)
        elif "indices" not in self._arrays:
            shape = len(self._array("labels")), self._width
            yield DenseMatrix(self._array("values").reshape(shape))
        else:
            lengths, indices = self._array("lengths"), self._array("indices")
            is_long = len(indices) > np.iinfo(np.int32).max
            indptr = np.zeros(len(lengths) + 1, np.int64 if is_long else np.int32)
            np.cumsum(lengths, out=indptr[1:])
            values = self._array("values") if "values" in self._arrays else None
            yield CompressedMatrix(indptr, indices, self._width, values, self._dtype)

    def _array(self, name: str) -> np.ndarray:
        return self._arrays[name].filled() if name in self._arrays else np.empty(0)

    def _extend(self, name: str, part: np.ndarray, dtype: Any, n_threads: int) -> None:
        if name not in self._arrays:
            self._arrays[name] = GrowingArray(np.dtype(dtype), is_shared=self._is_shared)
        self._arrays[name].append(part, n_threads)

    def _write(self, writer: ChunkWriter, X: Any, y: np.ndarray, weights: Any) -> None:
        if isinstance(X, CompressedMatrix):
            values = np.ones(X.n_stored) if X.values is None else X.values
            values = values.astype(self._dtype, copy=False)
            X = CompressedMatrix(X.indptr, X.indices, X.n_features, values)
        else:
            X = X.astype(self._dtype, copy=False)
        writer.append(X, y, weights, copy=False)
