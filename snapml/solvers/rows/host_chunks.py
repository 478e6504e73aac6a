"""Rows of the host in chunks, each read into memory that is given, and cut into pieces there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.data import ChunkedMatrix, CompressedMatrix, DenseMatrix, Matrix
from snapml.kernels.device.chunk_stream import Piece
from snapml.kernels.products.ranked_rows import TEAM_ENTRIES

__all__ = ["HostChunks", "PieceSize"]

_ALIGNMENT = 64
_ENTRY_TYPES: dict[str, np.dtype] = {"bfloat16": np.dtype(np.uint16), "uint8": np.dtype(np.uint8)}


@dataclass(frozen=True)
class PieceSize:
    """Most rows, and most stored entries, of a piece.

    Attributes
    ----------
    n_rows, n_stored : int
        At least 1.
    """

    n_rows: int
    n_stored: int

    def halved(self) -> PieceSize:
        """Return half of both."""
        return PieceSize(max(1, self.n_rows // 2), max(1, self.n_stored // 2))


class HostChunks:
    """The chunks of a store, or neighbouring rows of a matrix in memory.

    Parameters
    ----------
    matrix : ChunkedMatrix, DenseMatrix or CompressedMatrix
        The rows.
    chunk_bytes : int
        About the size of a chunk of rows in memory; those of a store have theirs.
    """

    def __init__(self, matrix: Matrix, chunk_bytes: int) -> None:
        self._matrix = matrix
        self.shape, self.dtype = matrix.shape, matrix.dtype
        self.index_dtype: np.dtype | None = None
        self.has_values = True
        self.storage = matrix.storage if isinstance(matrix, ChunkedMatrix) else "plain"
        if isinstance(matrix, ChunkedMatrix):
            rows = [matrix.rows_of(number) for number in range(matrix.n_chunks)]
            self.bounds = np.array([0, *(part.stop for part in rows)], np.int64)
            stored = [matrix.n_stored_of(number) for number in range(matrix.n_chunks)]
            self.n_stored = np.array(stored, np.int64)
            self.index_dtype, self.has_values = matrix.index_dtype, matrix.has_values
            memory = matrix.largest_chunk
        else:
            if isinstance(matrix, CompressedMatrix):
                self.index_dtype, self.has_values = matrix.indices.dtype, matrix.values is not None
                _check_offsets(matrix)
            self._cut(matrix, chunk_bytes)
            size = PieceSize(int(np.diff(self.bounds).max()), int(self.n_stored.max()))
            memory = self.piece_bytes(size) + 4 * _ALIGNMENT
        self._long_at = -(-memory // _ALIGNMENT) * _ALIGNMENT
        most_long = int(self.n_stored.max(initial=0)) // TEAM_ENTRIES if self.is_sparse else 0
        self.memory_bytes = self._long_at + 8 * most_long

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return self.index_dtype is not None

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.n_stored)

    @property
    def largest(self) -> PieceSize:
        """Size of a piece that holds any chunk."""
        rows = np.diff(self.bounds)
        return PieceSize(
            max(1, int(rows.max(initial=1))), max(1, int(self.n_stored.max(initial=1)))
        )

    def buffers(self, size: PieceSize) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Return shape and type of the arrays that a piece of this size needs at most."""
        if self.index_dtype is None:
            entries = _ENTRY_TYPES.get(self.storage, self.dtype)
            shapes: list[tuple[tuple[int, ...], np.dtype]] = [
                ((size.n_rows, self.shape[1]), entries)
            ]
            if self.storage == "uint8":
                shapes += [((self.shape[1],), np.dtype(np.float32))] * 2
            return shapes
        lengths = [(size.n_rows + 1, self.index_dtype), (size.n_stored, self.index_dtype)]
        if self.has_values:
            lengths.append((size.n_stored, self.dtype))
        lengths.append((size.n_stored // TEAM_ENTRIES, np.dtype(np.int64)))
        return [((length,), dtype) for length, dtype in lengths]

    def piece_bytes(self, size: PieceSize) -> int:
        """Return the bytes of the arrays that a piece of this size needs at most."""
        shapes = self.buffers(size)
        if self.storage != "plain":  # and what it is widened to
            shapes.append(((size.n_rows, self.shape[1]), self.dtype))
        return sum(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize for shape, dtype in shapes)

    def read(self, number: int, memory: np.ndarray, size: PieceSize) -> list[Piece]:
        """Read a chunk, and cut it into pieces.

        Parameters
        ----------
        number : int
            Of the chunk.
        memory : ndarray of uint8
            At least `memory_bytes`.
        size : PieceSize
            Most that a piece may hold.

        Returns
        -------
        list of Piece
            Dense rows, with scales and offsets of the columns where they are rounded to uint8; or
            offsets, indices, values unless all of them are one, and the numbers, within the piece,
            of rows that whole blocks take. All over that memory.

        Raises
        ------
        ValueError
            If the chunk is damaged, or offsets lead outside the matrix.
        MemoryError
            If a row is longer than a piece.
        """
        if self.storage != "plain" and isinstance(self._matrix, ChunkedMatrix):
            narrow = self._matrix.read_narrow(number, memory)
            of_columns = () if narrow.scales is None else (narrow.scales, narrow.offsets)
            return self._dense_pieces(number, narrow.values, of_columns, size)
        matrix = self._chunk(number, memory)
        if isinstance(matrix, DenseMatrix):
            return self._dense_pieces(number, matrix.values, (), size)
        assert isinstance(matrix, CompressedMatrix)  # the only other rows
        return list(self._sparse_pieces(number, matrix, memory[self._long_at :], size))

    def _dense_pieces(
        self, number: int, values: np.ndarray, of_columns: tuple[Any, ...], size: PieceSize
    ) -> list[Piece]:
        first = int(self.bounds[number])
        return [
            Piece(slice(first + at, first + at + len(rows)), 0, (rows, *of_columns))
            for at in range(0, len(values), size.n_rows)
            if len(rows := values[at : at + size.n_rows])
        ]

    def _sparse_pieces(
        self, number: int, matrix: CompressedMatrix, long_memory: np.ndarray, size: PieceSize
    ) -> Any:
        lengths = np.diff(matrix.indptr)
        n_stored = len(matrix.indices)
        if len(lengths) and (lengths.min() < 0 or matrix.indptr[0] != 0):
            raise ValueError(f"chunk {number}: indptr must rise from 0, got others")
        if int(matrix.indptr[-1]) != n_stored:
            raise ValueError(f"chunk {number}: indptr must end at {n_stored}, got another number")
        found = np.flatnonzero(lengths > TEAM_ENTRIES)
        all_long = long_memory[: 8 * len(found)].view(np.int64)
        all_long[:] = found
        first, first_row = 0, int(self.bounds[number])
        while first < len(lengths):
            base = int(matrix.indptr[first])
            end = min(base + size.n_stored, n_stored)
            most = int(np.searchsorted(matrix.indptr, end, side="right")) - 1
            last = min(len(lengths), first + size.n_rows, most)
            if last <= first:
                raise MemoryError(
                    f"row {first_row + first} of {lengths[first]} entries is longer than the "
                    f"{size.n_stored} that the device has room for at once"
                )
            stored = slice(base, int(matrix.indptr[last]))
            arrays = [matrix.indptr[first : last + 1], matrix.indices[stored]]
            if matrix.values is not None:
                arrays.append(matrix.values[stored])
            ends = np.searchsorted(all_long, [first, last])
            long_rows = all_long[ends[0] : ends[1]]
            long_rows -= first
            rows = slice(first_row + first, first_row + last)
            yield Piece(rows, base, (*arrays, long_rows))
            first = last

    def _cut(self, matrix: Matrix, chunk_bytes: int) -> None:
        """Choose the chunks of rows in memory: of about equal size, and at least one row."""
        n_rows = matrix.shape[0]
        if isinstance(matrix, CompressedMatrix):
            offsets = matrix.indptr.astype(np.int64)
            itemsize = matrix.indices.itemsize
            of_entry = itemsize + (self.dtype.itemsize if self.has_values else 0)
            ends = np.arange(n_rows + 1) * itemsize + offsets * of_entry
        else:
            ends = np.arange(n_rows + 1) * (matrix.shape[1] * self.dtype.itemsize)
        n_chunks = max(1, -(-int(ends[-1]) // max(1, chunk_bytes)))
        wanted = np.linspace(0, ends[-1], n_chunks + 1)[1:-1]
        cuts = np.unique(np.searchsorted(ends, wanted, side="right") - 1)
        self.bounds = np.unique(np.concatenate(([0], cuts, [n_rows]))).astype(np.int64)
        if isinstance(matrix, CompressedMatrix):
            self.n_stored = np.diff(offsets[self.bounds])
        else:
            self.n_stored = np.diff(self.bounds) * matrix.shape[1]

    def _chunk(self, number: int, memory: np.ndarray) -> Matrix:
        """Return a chunk's rows over the given memory."""
        matrix = self._matrix
        if isinstance(matrix, ChunkedMatrix):
            return matrix.read(number, memory)
        first, last = self.bounds[number : number + 2].tolist()
        if isinstance(matrix, DenseMatrix):
            (rows,) = _copies([matrix.values[first:last]], memory)
            return DenseMatrix(rows)
        assert isinstance(matrix, CompressedMatrix)  # the only other rows
        base, end = int(matrix.indptr[first]), int(matrix.indptr[last])
        given = [matrix.indptr[first : last + 1], matrix.indices[base:end]]
        if matrix.values is not None:
            given.append(matrix.values[base:end])
        copies = _copies(given, memory)
        copies[0] -= base
        values = copies[2] if self.has_values else None
        return CompressedMatrix(copies[0], copies[1], matrix.n_features, values, matrix.dtype)


def _check_offsets(matrix: CompressedMatrix) -> None:
    """Refuse offsets by which no chunk could be cut."""
    indptr = matrix.indptr
    is_rising = indptr[0] == 0 and bool((indptr[1:] >= indptr[:-1]).all())
    if not is_rising or indptr[-1] > matrix.n_stored:
        matrix.check_indices()


def _copies(arrays: list[np.ndarray], memory: np.ndarray) -> list[np.ndarray]:
    """Return C-contiguous copies one after the other in the given memory."""
    copies, begin = [], 0
    for array in arrays:
        copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        copies.append(copy)
        begin += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    return copies
