"""Rows of one layout as they come: in memory, and on the disk once they are asked to go there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from snapml.data import ChunkedDataset, ChunkWriter, CompressedMatrix, DenseMatrix, Matrix
from snapml.data.temporary_store import temporary_store_path
from snapml.distributed.spark.batches import RowBatch

__all__ = ["HeldRows"]

# Reserved beyond what is needed: few moves, and little memory that stays empty.
_GROWTH = 1.25


class HeldRows:
    """Rows, labels and weights, each in one array that grows, or in a chunk store.

    Parameters
    ----------
    dtype : numpy dtype
        To keep entries in.
    """

    def __init__(self, dtype: np.dtype) -> None:
        self._dtype = dtype
        self._arrays: dict[str, _GrowingArray] = {}
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

    def append(self, batch: RowBatch) -> None:
        """Copy rows.

        Parameters
        ----------
        batch : RowBatch
            Of the layout and the columns of those before.
        """
        self._width = batch.X.shape[1]
        if self._writer is not None:
            self._write(self._writer, batch.X, batch.y, batch.weights)
            return
        self._extend("labels", batch.y, np.float64)
        if batch.weights is not None:
            self._extend("weights", batch.weights, np.float64)
        if not isinstance(batch.X, CompressedMatrix):
            self._extend("values", batch.X.reshape(-1), self._dtype)
            return
        n_before = len(self._array("indices"))
        if batch.X.values is not None and "values" not in self._arrays:
            self._extend("values", np.ones(n_before), self._dtype)
        self._extend("lengths", np.diff(batch.X.indptr), np.int32)
        self._extend("indices", batch.X.indices, np.int32)
        if "values" in self._arrays:
            ones = np.broadcast_to(np.float64(1.0), batch.X.n_stored)
            self._extend("values", ones if batch.X.values is None else batch.X.values, self._dtype)

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
        self._arrays = {}

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

    def move_to(self, folder: Path) -> None:
        """Write the rows to a folder, from where another process reads them, and drop them here.

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
        for name in list(self._arrays):
            np.save(folder / f"{name}.npy", self._arrays.pop(name).filled())

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
            Over the files; it cannot grow.
        """
        held = cls(dtype)
        held._width = width
        for path in folder.glob("*.npy"):
            held._arrays[path.stem] = _GrowingArray.over(np.load(path, mmap_mode="r"))
        return held

    def let_go(self) -> None:
        """Drop the rows from memory; labels and weights stay."""
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

    def _extend(self, name: str, part: np.ndarray, dtype: Any) -> None:
        if name not in self._arrays:
            self._arrays[name] = _GrowingArray(np.dtype(dtype))
        self._arrays[name].append(part)

    def _write(self, writer: ChunkWriter, X: Any, y: np.ndarray, weights: Any) -> None:
        if isinstance(X, CompressedMatrix):
            values = np.ones(X.n_stored) if X.values is None else X.values
            values = values.astype(self._dtype, copy=False)
            X = CompressedMatrix(X.indptr, X.indices, X.n_features, values)
        else:
            X = X.astype(self._dtype, copy=False)
        writer.append(X, y, weights, copy=False)


class _GrowingArray:
    """A vector whose memory is moved by the system where it grows, not copied."""

    def __init__(self, dtype: np.dtype) -> None:
        self._memory, self._size = np.empty(0, dtype), 0

    @classmethod
    def over(cls, memory: np.ndarray) -> _GrowingArray:
        array = cls(memory.dtype)
        array._memory, array._size = memory, len(memory)
        return array

    @property
    def n_bytes(self) -> int:
        return self._memory.nbytes

    def append(self, part: np.ndarray) -> None:
        size = self._size + len(part)
        if size > len(self._memory):
            self._memory.resize(int(_GROWTH * size), refcheck=False)
        self._memory[self._size : size] = part
        self._size = size

    def filled(self) -> np.ndarray:
        return self._memory[: self._size]
