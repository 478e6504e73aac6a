"""A finished chunk store, read chunk by chunk while the last one is being worked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from snapml.data.dataset import DenseMatrix, Matrix
from snapml.data.memory_limit import resolve_memory_limit
from snapml.data.narrow_rows import NarrowRows
from snapml.data.stacking import stacked
from snapml.data.store.chunk_format import Manifest, memory_bytes, read_manifest
from snapml.data.store.chunk_reader import ChunkReader

__all__ = ["ChunkedDataset"]


class ChunkedDataset:
    """Rows, labels and weights in a folder, of any number and size.

    `open` makes one; it holds no file open and no rows in memory.

    Parameters
    ----------
    folder : pathlib.Path
        The store.
    manifest : Manifest
        What it holds.
    memory_limit : int, float, str or 'auto'
        What fits may keep of the rows in memory, as for `open`.
    """

    def __init__(self, folder: Path, manifest: Manifest, memory_limit: Any = "auto") -> None:
        self.memory_limit = resolve_memory_limit(memory_limit)
        self.manifest = manifest
        self._folder = folder
        self._reader = ChunkReader(folder, manifest)

    @classmethod
    def open(cls, path: Any, *, memory_limit: Any = "auto") -> ChunkedDataset:
        """Open a store.

        Parameters
        ----------
        path : str or path-like
            Its folder.
        memory_limit : int, float, str or 'auto', default='auto'
            What a fit may keep of the rows in memory: bytes, text such as "40MB" or "2GiB", or half
            of what is available now. Labels, weights and margins come on top, and at least three
            chunks are there, five in coordinate ascent.

        Returns
        -------
        ChunkedDataset
            As the store is now; rows that are appended later do not show.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        ValueError
            If it is not a finished store, of a newer version, damaged, or lacks chunks.
        """
        folder = Path(path)
        return cls(folder, read_manifest(folder), memory_limit)

    def part(self, first: int, last: int) -> ChunkedDataset:
        """Return some neighbouring chunks.

        Parameters
        ----------
        first, last : int
            The first one, and the one behind the last.

        Returns
        -------
        ChunkedDataset
            Of the same files.
        """
        manifest = replace(self.manifest, chunks=self.manifest.chunks[first:last])
        return ChunkedDataset(self._folder, manifest, self.memory_limit)

    def widened(self, n_features: int) -> ChunkedDataset:
        """Return the same sparse rows with more columns, which are empty.

        Parameters
        ----------
        n_features : int
            Number of columns; not fewer than there are.

        Returns
        -------
        ChunkedDataset
            Of the same files.
        """
        manifest = replace(self.manifest, n_features=n_features)
        return ChunkedDataset(self._folder, manifest, self.memory_limit)

    def share(self, rank: int, size: int) -> tuple[ChunkedDataset, slice]:
        """Return the chunks of one of several readers, which share them evenly.

        Parameters
        ----------
        rank, size : int
            Number of the reader from 0, and how many there are.

        Returns
        -------
        store : ChunkedDataset
            Neighbouring chunks.
        rows : slice
            Which of all rows they hold.

        Raises
        ------
        ValueError
            If there are fewer chunks than readers.
        """
        if self.n_chunks < size:
            raise ValueError(
                f"the store has {self.n_chunks} chunks: expected at least {size}, one for each "
                "reader; write it with a smaller chunk_bytes"
            )
        first, last = (self.n_chunks * k // size for k in (rank, rank + 1))
        rows = slice(int(self.chunk_rows[first]), int(self.chunk_rows[last]))
        return self.part(first, last), rows

    def __repr__(self) -> str:
        schema, (n_rows, n_features) = self.manifest.schema, self.shape
        layout = "sparse" if schema.is_sparse else "dense"
        parts = [f"{n_rows:,} rows x {n_features:,} columns, {layout} {schema.dtype}"]
        classes = self.manifest.label_names or self.manifest.classes
        if schema.has_labels:
            parts.append("labels" if classes is None else f"{len(classes)} distinct labels")
        if schema.has_weights:
            parts.append("weights")
        parts.append(f"{self.n_chunks} chunk{'s' * (self.n_chunks != 1)}")
        return f"<{type(self).__name__} {str(self._folder)!r}: {', '.join(parts)}>"

    @property
    def folder(self) -> Path:
        """Where the store is."""
        return self._folder

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.manifest.n_rows, self.manifest.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, where what was written had them."""
        return self.manifest.feature_names

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return np.dtype(self.manifest.schema.dtype)

    @property
    def n_stored(self) -> int:
        """Entries that one sweep reads."""
        return self.manifest.n_stored

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.manifest.chunks)

    @property
    def chunk_rows(self) -> np.ndarray:
        """First row of each chunk, and the number of all rows; int64."""
        sizes = [chunk.n_rows for chunk in self.manifest.chunks]
        return np.cumsum([0, *sizes], dtype=np.int64)

    def labels(self) -> np.ndarray | None:
        """Return the labels of all rows; None without any.

        Returns
        -------
        ndarray of shape (n_rows,), or None
            float64, or text or bool where they were given so.
        """
        if not self.manifest.schema.has_labels:
            return None
        labels, names = self._reader.column("labels"), self.manifest.label_names
        if names is None:
            return labels
        is_known = (labels >= 0) & (labels < len(names)) & (labels == np.floor(labels))
        if not is_known.all():
            raise ValueError(
                f"{self._folder}: expected labels that number its {len(names)} names, got "
                f"{labels[~is_known][0]}: the store is damaged"
            )
        return np.array(names)[labels.astype(np.intp)]

    def weights(self) -> np.ndarray | None:
        """Return the weights of all rows, of the entries' type; None without any."""
        return self._reader.column("weights") if self.manifest.schema.has_weights else None

    def matrix(self, number: int, buffer: np.ndarray | None = None) -> Matrix:
        """Read the rows of a chunk.

        Parameters
        ----------
        number : int
            Of the chunk, from 0.
        buffer : ndarray of uint8 or None, default=None
            Memory to read into, at least of `largest_chunk` bytes; None allocates the chunk's.

        Returns
        -------
        Matrix
            Over the buffer's memory.

        Raises
        ------
        ValueError
            If the chunk has changed since it was written. Checksums are compared at the first read,
            and again when the file is another or has been written to; that indices lie within the
            matrix is checked at every read.
        """
        return self._reader.matrix(number, buffer)

    def raw(self, number: int, buffer: np.ndarray | None = None) -> NarrowRows:
        """Read the rows of a chunk as narrow storage keeps them.

        Parameters
        ----------
        number : int
            Of the chunk, from 0.
        buffer : ndarray of uint8 or None, default=None
            Memory to read into, at least of the chunk's `n_bytes` in the manifest; None allocates
            it.

        Returns
        -------
        NarrowRows
            Over the buffer's memory; `matrix` has what the entries mean.

        Raises
        ------
        ValueError
            If the chunk has changed since it was written, or the entries are not narrow.
        """
        if self.manifest.schema.storage == "plain":
            raise ValueError(f"expected a store with narrow storage, got {self.dtype} entries")
        return self._reader.raw(number, buffer)

    def rows(self, number: int, rows: np.ndarray) -> Matrix:
        """Return a copy of some rows of a chunk, without a read of the others where they are few.

        Parameters
        ----------
        number : int
            Of the chunk, from 0.
        rows : ndarray of shape (n_taken,), int64
            Numbers of rows within the chunk, not decreasing.

        Returns
        -------
        Matrix
            The rows.

        Raises
        ------
        ValueError
            If the chunk has changed since it was written.
        """
        return self._reader.rows(number, rows)

    def run(self, number: int, first: int, last: int) -> Matrix:
        """Read neighbouring rows of a chunk, and no others once its checksums are known.

        Parameters
        ----------
        number : int
            Of the chunk, from 0.
        first, last : int
            The rows from `first` to before `last` of the chunk.

        Returns
        -------
        Matrix
            In memory of its own.

        Raises
        ------
        ValueError
            If the chunk has changed since it was written.
        """
        return self._reader.run(number, first, last)

    def load(self) -> tuple[Any, np.ndarray | None]:
        """Read everything into memory.

        Returns
        -------
        X : ndarray or CompressedMatrix of shape (n_rows, n_features)
            All rows, as estimators take them.
        y : ndarray of shape (n_rows,), float64, or None
            Labels.
        """
        matrix = stacked([self.matrix(number) for number in range(self.n_chunks)])
        return (matrix.values if isinstance(matrix, DenseMatrix) else matrix), self.labels()

    @property
    def largest_chunk(self) -> int:
        """Bytes that the largest chunk takes in memory."""
        return max(self.chunk_bytes, default=0)

    @property
    def chunk_bytes(self) -> list[int]:
        """Bytes that each chunk takes in memory; of narrow storage, those of the float32 rows."""
        schema = self.manifest.schema
        return [memory_bytes(schema, chunk) for chunk in self.manifest.chunks]

    def matrices(self, numbers: Iterable[int] | None = None) -> Iterator[tuple[int, Matrix]]:
        """Read chunk after chunk, each while the caller works on the one before.

        Parameters
        ----------
        numbers : iterable of int or None, default=None
            Which chunks; None means all.

        Yields
        ------
        number : int
            Of the chunk.
        matrix : Matrix
            Its rows, valid until the next step: two buffers serve all chunks.
        """
        wanted = list(range(self.n_chunks) if numbers is None else numbers)
        if not wanted:
            return
        buffers = [np.empty(self.largest_chunk, np.uint8) for _ in range(2)]
        with ThreadPoolExecutor(1, "snapml-chunks") as ahead:
            try:
                pending = ahead.submit(self.matrix, wanted[0], buffers[0])
                for turn, number in enumerate(wanted, start=1):
                    matrix = pending.result()
                    if turn < len(wanted):
                        pending = ahead.submit(self.matrix, wanted[turn], buffers[turn % 2])
                    yield number, matrix
            finally:  # of reads that nobody waits for
                ahead.shutdown(wait=False, cancel_futures=True)
