"""Some columns of rows that arrive in chunks, copied into one matrix."""

from __future__ import annotations

import numpy as np

from snapml.data import ChunkedMatrix, CompressedMatrix, DenseMatrix, Matrix

__all__ = ["ColumnPacker", "packed_bytes"]

# Rows are packed, and descent packs what it works on once more, by columns.
_COPIES = 2
_BLOCK_ENTRIES = 1 << 20  # of a chunk looked at together: temporaries stay small


def packed_bytes(matrix: ChunkedMatrix, counts: np.ndarray) -> np.ndarray:
    """Return what columns take once they are packed.

    Parameters
    ----------
    matrix : ChunkedMatrix
        Where they come from.
    counts : ndarray
        Entries of each.

    Returns
    -------
    ndarray of float64
        Bytes, with the copy that descent makes.
    """
    index = 4 if matrix.is_sparse else 0
    return _COPIES * (index + matrix.dtype.itemsize) * counts.astype(np.float64)


class ColumnPacker:
    """Copies some columns of a matrix chunk by chunk.

    Parameters
    ----------
    matrix : ChunkedMatrix
        The rows.
    columns : ndarray
        Sorted numbers.
    n_stored : int
        Entries that they hold.
    """

    def __init__(self, matrix: ChunkedMatrix, columns: np.ndarray, n_stored: int) -> None:
        n_rows, n_features = matrix.shape
        self._columns, self._dtype = columns, matrix.dtype
        self._at = 0
        if not matrix.is_sparse:
            self._values: np.ndarray | None = np.empty((n_rows, len(columns)), matrix.dtype)
            return
        index = np.int32 if n_stored <= np.iinfo(np.int32).max else np.int64
        self._indptr = np.zeros(n_rows + 1, index)
        self._indices = np.empty(n_stored, index)
        self._values = None
        self._n_stored = n_stored
        self._places = np.full(n_features, -1, np.int32)
        self._places[columns] = np.arange(len(columns), dtype=np.int32)

    def add(self, rows: slice, matrix: Matrix) -> None:
        """Copy the columns of a chunk.

        Parameters
        ----------
        rows : slice
            Its rows; chunks come in their order.
        matrix : Matrix
            The chunk.
        """
        if isinstance(matrix, DenseMatrix):
            assert self._values is not None
            np.take(matrix.values, self._columns, axis=1, out=self._values[rows])
            return
        assert isinstance(matrix, CompressedMatrix)
        if matrix.values is not None and self._values is None:
            self._values = np.empty(self._n_stored, self._dtype)
        first, counts = 0, np.empty(len(matrix.indptr) - 1, np.int64)
        while first < len(counts):
            begin = int(matrix.indptr[first])
            last = int(np.searchsorted(matrix.indptr, begin + _BLOCK_ENTRIES, side="right")) - 1
            last = min(len(counts), max(first + 1, last))
            counts[first:last] = self._add_rows(matrix, first, last)
            first = last
        ends = self._indptr[rows.start] + np.cumsum(counts)
        self._indptr[rows.start + 1 : rows.stop + 1] = ends

    def _add_rows(self, matrix: CompressedMatrix, first: int, last: int) -> np.ndarray:
        """Copy entries of some rows; return how many each of them has."""
        offsets = matrix.indptr[first : last + 1].astype(np.int64)
        stored = slice(int(offsets[0]), int(offsets[-1]))
        places = self._places[matrix.indices[stored]]
        is_kept = places >= 0
        end = self._at + int(np.count_nonzero(is_kept))
        self._indices[self._at : end] = places[is_kept]
        if self._values is not None and matrix.values is not None:
            self._values[self._at : end] = matrix.values[stored][is_kept]
        self._at = end
        before = np.append(0, np.cumsum(is_kept))
        return np.diff(before[offsets - offsets[0]])

    def matrix(self) -> Matrix:
        """Return the packed rows, once all chunks were added."""
        if self._values is not None and self._values.ndim == 2:
            return DenseMatrix(self._values)
        return CompressedMatrix(
            self._indptr, self._indices, len(self._columns), self._values, self._dtype
        )
