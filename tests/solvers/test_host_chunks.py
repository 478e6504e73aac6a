"""Chunks of rows on the host, cut into pieces: put together, they are the matrix."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, CompressedMatrix, DenseMatrix
from snapml.kernels.products.ranked_rows import TEAM_ENTRIES
from snapml.solvers.rows.host_chunks import HostChunks, PieceSize


def sparse(index=np.int32, *, has_values=True, n_rows=40):
    """Rows of all lengths: none at all, and more than a block's threads."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 30, n_rows)
    lengths[[0, 7, 8]] = 0
    lengths[[3, 20, 31, n_rows - 1]] = TEAM_ENTRIES + np.array([1, 0, 2, 1])
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(index)
    indices = rng.integers(0, 5000, indptr[-1]).astype(index)
    values = rng.normal(size=len(indices)) if has_values else None
    return CompressedMatrix(indptr, indices, 5000, values, np.float64)


def dense():
    return DenseMatrix(np.asfortranarray(np.random.default_rng(0).normal(size=(40, 7))))


MATRICES = {
    "dense": dense(),
    "int32": sparse(),
    "int64": sparse(np.int64),
    "ones": sparse(has_values=False),
}


def in_store(folder, matrix):
    with ChunkWriter(folder, chunk_bytes=9000) as writer:
        writer.append(matrix.values if isinstance(matrix, DenseMatrix) else matrix)
    return ChunkedMatrix(ChunkedDataset.open(folder), 0)


def as_rows(matrix):
    if isinstance(matrix, DenseMatrix):
        return matrix.values
    values = np.ones(matrix.n_stored) if matrix.values is None else matrix.values
    return csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape).toarray()


def rows_of(chunks, piece):
    """Return a piece as a dense array, as a device makes it of the arrays that it gets."""
    if not chunks.is_sparse:
        return piece.arrays[0]
    indptr, indices, *values, _ = piece.arrays
    values = values[0] if values else np.ones(len(indices))
    shape = (len(indptr) - 1, chunks.shape[1])
    return csr_matrix((values, indices, indptr - piece.base), shape=shape).toarray()


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "in a store"])
@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("name", MATRICES)
def test_pieces_are_the_rows(tmp_path, name, parts, is_stored):
    matrix = MATRICES[name]
    source = in_store(tmp_path / "store", matrix) if is_stored else matrix
    chunks = HostChunks(source, 9000)
    assert (chunks.n_chunks > 1) == (name != "dense")
    largest = chunks.largest
    n_stored = max(TEAM_ENTRIES + 2, largest.n_stored // parts)
    size = PieceSize(max(1, largest.n_rows // parts), n_stored)
    memory = np.empty(chunks.memory_bytes, np.uint8)
    taken, n_pieces = [], 0
    for number in range(chunks.n_chunks):
        for piece in chunks.read(number, memory, size):
            n_pieces += 1
            assert piece.rows.start == sum(map(len, taken))
            for array, (shape, dtype) in zip(piece.arrays, chunks.buffers(size), strict=True):
                assert np.shares_memory(array, memory) or not array.size
                assert array.flags.c_contiguous
                assert array.dtype == dtype
                assert len(array) <= shape[0]
            rows = rows_of(chunks, piece)
            taken.append(rows.copy())
            assert len(rows) == piece.rows.stop - piece.rows.start
            if chunks.is_sparse:
                is_long = np.diff(piece.arrays[0]) > TEAM_ENTRIES
                np.testing.assert_array_equal(piece.arrays[-1], np.flatnonzero(is_long))
    np.testing.assert_array_equal(np.concatenate(taken), as_rows(matrix))
    assert n_pieces >= chunks.n_chunks + (parts > 1)


def test_row_longer_than_a_piece_is_refused_by_its_number():
    chunks = HostChunks(sparse(), 9000)
    memory = np.empty(chunks.memory_bytes, np.uint8)
    first = int(np.searchsorted(chunks.bounds, 3, side="right")) - 1
    with pytest.raises(MemoryError, match=r"row 3 of \d+ entries is longer than the 1000"):
        chunks.read(first, memory, PieceSize(40, 1000))


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_offsets_that_lead_outside_are_refused(wrong):
    matrix = sparse()
    matrix.indptr[5] = wrong
    with pytest.raises(ValueError, match="indptr must not decrease"):
        HostChunks(matrix, 9000)


def test_offsets_that_change_after_the_first_look_are_refused():
    matrix = sparse()
    chunks = HostChunks(matrix, 9000)
    matrix.indptr[1] = matrix.indptr[2] + 1
    memory = np.empty(chunks.memory_bytes, np.uint8)
    with pytest.raises(ValueError, match="chunk 0: indptr must rise"):
        chunks.read(0, memory, chunks.largest)
