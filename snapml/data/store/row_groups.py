"""The rows of a store in groups of pieces from everywhere, read while the last group is worked on.

A method that visits rows one by one wants them in random order, a disk in long runs. So a piece is
a run of neighbouring rows, and a group as many random pieces as fill a chunk's memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from snapml.data.compressed import CheckedMatrix, CompressedMatrix
from snapml.data.dataset import DenseMatrix, Matrix
from snapml.data.store.chunked_matrix import ChunkedMatrix

__all__ = ["RowGroups"]

# Pieces of a group. Neighbours may be alike: the more pieces, the better a group stands for all
# rows. Those of a chunk of 64 MiB are 256 KiB, still a long read.
_PIECES = 256
# One group is worked on while the next one is read.
_N_BUFFERS = 2


class RowGroups:
    """Reads all rows of a store once per call, in another order each time.

    Which rows come together depends on seed and store, not on what stays in memory: a chunk that
    does gives its pieces from there.

    Parameters
    ----------
    matrix : ChunkedMatrix
        The rows. It keeps fewer chunks: two groups, each of a chunk's size, take their memory.
    seed : int
        Of the orders.
    """

    def __init__(self, matrix: ChunkedMatrix, seed: int) -> None:
        self._matrix = matrix
        self._seed = seed
        chunks = matrix.manifest.chunks
        most_rows = max(chunk.n_rows for chunk in chunks)
        most_stored = max(chunk.n_stored for chunk in chunks)
        n_groups = -(-matrix.n_stored // max(1, most_stored))
        self._enough = -(-matrix.n_stored // max(1, n_groups))  # so that groups have about one size
        piece_rows = max(1, most_rows // _PIECES)
        self._pieces = [
            (number, first, min(first + piece_rows, chunk.n_rows))
            for number, chunk in enumerate(chunks)
            for first in range(0, chunk.n_rows, piece_rows)
        ]
        matrix.make_room(_N_BUFFERS * matrix.largest_chunk)
        self._buffers = [_Buffer(matrix, most_rows, most_stored) for _ in range(_N_BUFFERS)]

    def groups(self, epoch: int) -> Iterator[tuple[list[slice], Matrix]]:
        """Read all rows, in an order fixed by the seed and `epoch`.

        Parameters
        ----------
        epoch : int
            Number of the order.

        Yields
        ------
        rows : list of slice
            Of all rows of the store: which ones the group has, in its order.
        matrix : Matrix
            The rows, valid until the next step.
        """
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._pieces))
        waiting = deque(order.tolist())
        with ThreadPoolExecutor(1, "snapml-pieces") as reader:
            pending = reader.submit(self._fill, waiting, self._buffers[0])
            turn = 0
            while True:
                pieces, matrix = pending.result()
                if not pieces:
                    return
                turn = (turn + 1) % _N_BUFFERS
                pending = reader.submit(self._fill, waiting, self._buffers[turn])
                yield [self._rows_of(piece) for piece in pieces], matrix

    def _rows_of(self, piece: int) -> slice:
        number, first, last = self._pieces[piece]
        begin = self._matrix.rows_of(number).start
        return slice(begin + first, begin + last)

    def _fill(self, waiting: deque[int], buffer: _Buffer) -> tuple[list[int], Matrix]:
        """Move pieces from the queue to a buffer until it has enough."""
        buffer.clear()
        taken: list[int] = []
        while waiting and (not taken or buffer.n_stored < self._enough):
            if not buffer.add(self._matrix.run(*self._pieces[waiting[0]])):
                break
            taken.append(waiting.popleft())
        return taken, buffer.matrix()


class _Buffer:
    """Memory for a number of rows and entries, filled piece by piece."""

    def __init__(self, matrix: ChunkedMatrix, n_rows: int, n_stored: int) -> None:
        schema = matrix.manifest.schema
        self._n_features = matrix.shape[1]
        self._dtype = matrix.dtype
        self._indptr = self._indices = None
        if schema.is_sparse:
            self._indptr = np.zeros(n_rows + 1, schema.index_dtype)
            self._indices = np.empty(n_stored, schema.index_dtype)
        self._values = np.empty(n_stored, matrix.dtype) if schema.has_values else None
        self._most_rows, self._most_stored = n_rows, n_stored
        self.clear()

    def clear(self) -> None:
        """Forget the rows."""
        self.n_rows = self.n_stored = 0

    def add(self, rows: Matrix) -> bool:
        """Copy rows behind those that are there; return False, and do nothing, without room."""
        last, end = self.n_rows + rows.shape[0], self.n_stored + rows.n_stored
        if last > self._most_rows or end > self._most_stored:
            return False
        entries = slice(self.n_stored, end)
        if isinstance(rows, DenseMatrix):
            assert self._values is not None
            self._values[entries] = rows.values.reshape(-1)
        else:
            assert isinstance(rows, CompressedMatrix)
            assert self._indptr is not None
            assert self._indices is not None
            np.add(rows.indptr[1:], self.n_stored, out=self._indptr[self.n_rows + 1 : last + 1])
            self._indices[entries] = rows.indices
            if self._values is not None:
                self._values[entries] = rows.values
        self.n_rows, self.n_stored = last, end
        return True

    def matrix(self) -> Matrix:
        """Return the rows, over this memory."""
        values = None if self._values is None else self._values[: self.n_stored]
        if self._indptr is None or self._indices is None:
            assert values is not None
            return DenseMatrix(values.reshape(self.n_rows, self._n_features))
        indptr, indices = self._indptr[: self.n_rows + 1], self._indices[: self.n_stored]
        return CheckedMatrix(indptr, indices, self._n_features, values, self._dtype)
