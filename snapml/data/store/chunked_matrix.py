"""The rows of a store as a matrix: some chunks stay in memory, the others are read each time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from snapml.data.compressed import CheckedMatrix, CompressedMatrix
from snapml.data.dataset import DenseMatrix, Matrix
from snapml.data.narrow_rows import NarrowRows
from snapml.data.stacking import stacked
from snapml.data.store.chunk_format import Manifest, array_types
from snapml.data.store.chunked_dataset import ChunkedDataset

__all__ = ["ChunkedMatrix"]

# Buffers that chunks pass through: one is worked on, one is full, one is being read into.
_BUFFERS = 3


class ChunkedMatrix:
    """Rows of a store, as many of which stay in memory as a limit allows.

    Parameters
    ----------
    store : ChunkedDataset
        The rows.
    memory_limit : int or None, default=None
        Bytes for rows; None takes the store's limit. Three of the largest chunks are buffers; at
        least those are used.
    """

    def __init__(self, store: ChunkedDataset, memory_limit: int | None = None) -> None:
        self._store = store
        self._limit = store.memory_limit if memory_limit is None else memory_limit
        self._begins = store.chunk_rows
        self._resident: dict[int, Matrix | None] = dict.fromkeys(_kept(store, self._limit))
        self._free: list[np.ndarray] = []

    def weights(self) -> np.ndarray | None:
        """Return the weights that the store has for its rows; None without any."""
        return self._store.weights()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._store.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return self._store.dtype

    @property
    def n_stored(self) -> int:
        """Entries that one sweep reads."""
        return self._store.n_stored

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return self._store.manifest.schema.is_sparse

    @property
    def n_resident(self) -> int:
        """Number of chunks that stay in memory once they were read."""
        return len(self._resident)

    @property
    def can_be_loaded(self) -> bool:
        """Whether all rows have room in one piece, beside the chunks that it is made of."""
        return 2 * sum(self._store.chunk_bytes) <= self._limit

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return self._store.n_chunks

    def share_memory(self) -> int:
        """Keep all chunks if they take less than half of the memory, else none, from now on.

        Returns
        -------
        int
            Bytes that are left to the caller, at least those of the largest chunk.
        """
        n_bytes = sum(self._store.chunk_bytes)
        if n_bytes > self._limit // 2:
            self._resident, n_bytes = {}, _BUFFERS * self._store.largest_chunk
        return max(self._limit - n_bytes, self._store.largest_chunk)

    @property
    def index_dtype(self) -> np.dtype | None:
        """Type of offsets and indices; None of dense rows."""
        return array_types(self._store.manifest.schema).get("indices")

    @property
    def has_values(self) -> bool:
        """Whether entries are stored, and not only where they are."""
        return "values" in array_types(self._store.manifest.schema)

    @property
    def largest_chunk(self) -> int:
        """Bytes that the largest chunk takes, in memory or in its file."""
        files = (chunk.n_bytes for chunk in self._store.manifest.chunks)
        return max(self._store.largest_chunk, *files, 0)

    def n_stored_of(self, number: int) -> int:
        """Return the entries of a chunk.

        Parameters
        ----------
        number : int
            Of the chunk.

        Returns
        -------
        int
            How many.
        """
        return self._store.manifest.chunks[number].n_stored

    @property
    def storage(self) -> str:
        """'plain', or how dense rows are rounded: 'bfloat16' or 'uint8'."""
        return self._store.manifest.schema.storage

    def read_narrow(self, number: int, memory: np.ndarray) -> NarrowRows:
        """Read a chunk of rounded rows as it is stored; several threads may.

        Parameters
        ----------
        number : int
            Of the chunk.
        memory : ndarray of uint8
            At least `largest_chunk` bytes.

        Returns
        -------
        NarrowRows
            Over that memory.
        """
        return self._store.raw(number, memory)

    def read(self, number: int, memory: np.ndarray) -> Matrix:
        """Read a chunk into the caller's memory; several threads may.

        Parameters
        ----------
        number : int
            Of the chunk.
        memory : ndarray of uint8
            At least `largest_chunk` bytes.

        Returns
        -------
        Matrix
            Over that memory.
        """
        return self._store.matrix(number, memory)

    def split(self, n_parts: int) -> list[ChunkedMatrix]:
        """Return neighbouring chunks in parts of about equal size, none of which stays in memory.

        Parameters
        ----------
        n_parts : int
            How many; fewer if there are fewer chunks.

        Returns
        -------
        list of ChunkedMatrix
            In the order of the rows.
        """
        chunks = self._store.manifest.chunks
        ends = np.cumsum([chunk.n_bytes for chunk in chunks])
        wanted = [ends[-1] * k // n_parts for k in range(1, n_parts)]
        cuts = np.unique([0, *(np.searchsorted(ends, wanted) + 1), len(chunks)])
        return [
            ChunkedMatrix(self._store.part(int(first), int(last)), 0)
            for first, last in pairwise(cuts)
        ]

    def chunk_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of the chunks that rows lie in.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers.

        Returns
        -------
        ndarray of shape (n_taken,), int64
            Numbers of chunks.
        """
        return np.searchsorted(self._begins, rows, side="right") - 1

    def rows_of(self, number: int) -> slice:
        """Return the rows of a chunk.

        Parameters
        ----------
        number : int
            Of the chunk.

        Returns
        -------
        slice
            Of the rows of the matrix.
        """
        return slice(int(self._begins[number]), int(self._begins[number + 1]))

    def chunks(self) -> Iterator[tuple[int, Matrix]]:
        """Return all chunks in their order, read ahead while the caller works.

        Yields
        ------
        number : int
            Of the chunk.
        matrix : Matrix
            Its rows, valid until the next step.
        """
        numbers = range(self._store.n_chunks)
        to_read = [k for k in numbers if self._resident.get(k) is None]
        # Kept from pass to pass: fresh memory costs a page fault for every 4 KB.
        free, self._free = self._free, []
        n_passing = sum(number not in self._resident for number in to_read)
        for _ in range(min(_BUFFERS, n_passing) - len(free)):
            free.append(np.empty(self._store.largest_chunk, np.uint8))
        pending: dict[int, tuple[Future[Matrix], np.ndarray | None]] = {}
        with ThreadPoolExecutor(1, "snapml-chunks") as reader:

            def read_ahead() -> None:
                while to_read and len(pending) < _BUFFERS:
                    number = to_read[0]
                    buffer = None  # what stays gets memory of its own
                    if number not in self._resident:
                        if not free:
                            break
                        buffer = free.pop()
                    pending[number] = reader.submit(self._store.matrix, number, buffer), buffer
                    del to_read[0]

            try:
                for number in numbers:
                    read_ahead()
                    if number not in pending:
                        kept = self._resident[number]
                        if kept is not None:
                            yield number, kept
                        continue
                    future, buffer = pending.pop(number)
                    matrix = future.result()
                    if buffer is None:
                        self._resident[number] = matrix
                    yield number, matrix
                    if buffer is not None:
                        free.append(buffer)
            finally:  # of a pass that is given up
                reader.shutdown(wait=False, cancel_futures=True)
        self._free = free if self.n_resident < self._store.n_chunks else []

    @property
    def manifest(self) -> Manifest:
        """What the store holds."""
        return self._store.manifest

    def make_room(self, n_bytes: int) -> None:
        """Keep fewer chunks, so that others of the limit's bytes are free for something else.

        Parameters
        ----------
        n_bytes : int
            How many, in place of what an earlier call asked for.
        """
        kept = _kept(self._store, max(0, self._limit - n_bytes))
        self._resident = {number: self._resident.get(number) for number in kept}

    def run(self, number: int, first: int, last: int) -> Matrix:
        """Return neighbouring rows of a chunk: over one in memory, else read.

        Parameters
        ----------
        number : int
            Of the chunk.
        first, last : int
            The rows from `first` to before `last` of the chunk.

        Returns
        -------
        Matrix
            The rows.
        """
        matrix = self._resident.get(number)
        if matrix is None:
            return self._store.run(number, first, last)
        if isinstance(matrix, DenseMatrix):
            return DenseMatrix(matrix.values[first:last])
        assert isinstance(matrix, CompressedMatrix)
        indptr = matrix.indptr[first : last + 1]
        part = slice(int(indptr[0]), int(indptr[-1]))
        values = None if matrix.values is None else matrix.values[part]
        return CheckedMatrix(
            indptr - indptr[0], matrix.indices[part], matrix.n_features, values, matrix.dtype
        )

    def take(self, rows: np.ndarray) -> Matrix:
        """Return a copy of some rows in memory.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers.

        Returns
        -------
        Matrix
            The rows in the order asked for.
        """
        order = np.argsort(rows, kind="stable")
        chunk_of = self.chunk_of(rows[order])
        wanted = np.unique(chunk_of)
        parts = []
        for number in wanted:
            kept = self._resident.get(number)
            within = rows[order[chunk_of == number]] - self._begins[number]
            parts.append(self._store.rows(number, within) if kept is None else kept.take(within))
        if not parts:  # no rows: none of any chunk
            return self._store.matrix(0).take(rows)
        taken = stacked(parts)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return taken if (back[1:] > back[:-1]).all() else taken.take(back)


def _kept(store: ChunkedDataset, memory_limit: int) -> list[int]:
    """Return the numbers of the chunks that stay in memory, spread over all.

    The others are read while those are worked on.
    """
    sizes = np.array(store.chunk_bytes, np.int64)
    if sizes.sum() <= memory_limit:
        return list(range(len(sizes)))
    room = memory_limit - _BUFFERS * store.largest_chunk
    n_kept = int(np.searchsorted(np.cumsum(np.sort(sizes)[::-1]), room, side="right"))
    return np.unique(np.arange(n_kept) * len(sizes) // max(1, n_kept)).tolist()
