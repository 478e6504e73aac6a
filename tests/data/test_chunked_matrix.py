"""A store as a matrix: the limit decides what stays in memory, and nothing else changes."""

import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference.data import dense, make_rows
from scipy.sparse import csr_matrix

from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, CompressedMatrix


def make_store(path, X, chunk_bytes=400):
    with ChunkWriter(path, chunk_bytes=chunk_bytes) as writer:
        writer.append(X)
    return ChunkedDataset.open(path)


@pytest.fixture(scope="module", params=["dense", "sparse", "ones"])
def case(request, tmp_path_factory):
    """A store and its rows as an array."""
    X = make_rows(120, 5, density=0.5).astype(np.float32)
    given = X
    if request.param != "dense":
        given = csr_matrix(X)
    if request.param == "ones":
        X = (X != 0).astype(np.float32)
        given = CompressedMatrix(given.indptr, given.indices, 5)
    return make_store(tmp_path_factory.mktemp("chunks") / "store", given), X


def limits(store):
    """Limits at which none, some and all chunks stay."""
    return 0, store.manifest.n_bytes - 1, store.manifest.n_bytes


def test_all_rows_come_in_their_order_again_and_again(case):
    store, X = case
    residents = []
    for limit in limits(store):
        matrix = ChunkedMatrix(store, limit)
        residents.append(matrix.n_resident)
        for _ in range(3):
            parts = [(matrix.rows_of(k), dense(part).copy()) for k, part in matrix.chunks()]
            np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), X)
            assert all((X[rows] == part).all() for rows, part in parts)
    assert residents[0] == 0 < residents[1] < residents[2] == store.n_chunks


def test_resident_chunks_are_read_once(case, monkeypatch):
    store, _ = case
    read, plain = [], ChunkedDataset.matrix
    monkeypatch.setattr(
        ChunkedDataset, "matrix", lambda *args: (read.append(args[1]), plain(*args))[1]
    )
    for limit in limits(store):
        matrix = ChunkedMatrix(store, limit)
        read.clear()
        for _ in range(3):
            list(matrix.chunks())
        assert len(read) == 3 * store.n_chunks - 2 * matrix.n_resident
        assert set(read) == set(range(store.n_chunks))


@given(st.lists(st.integers(0, 119), max_size=30), st.integers(0, 2), st.booleans())
@example([119, 0, 0, 60], 1, True)
def test_taken_rows_come_in_the_order_asked_for(case, rows, which, was_read):
    store, X = case
    matrix = ChunkedMatrix(store, limits(store)[which])
    if was_read:
        list(matrix.chunks())
    taken = matrix.take(np.array(rows, np.int64))
    assert taken.dtype == X.dtype
    np.testing.assert_array_equal(dense(taken), X[rows].reshape(-1, 5))


def test_chunks_are_read_while_the_caller_works(case, monkeypatch):
    store, _ = case
    is_read = [threading.Event() for _ in range(store.n_chunks)]
    plain = ChunkedDataset.matrix

    def matrix(self, number, buffer=None):
        found = plain(self, number, buffer)
        is_read[number].set()
        return found

    monkeypatch.setattr(ChunkedDataset, "matrix", matrix)
    for number, _ in ChunkedMatrix(store, 0).chunks():
        for following in is_read[number : number + 3]:
            assert following.wait(timeout=10)


def test_error_of_the_reader_reaches_the_caller_and_leaves_no_thread(case, monkeypatch):
    store, _ = case
    n_threads = threading.active_count()
    plain = ChunkedDataset.matrix

    def failing(self, number, buffer=None):
        if number == 2:
            raise OSError("the disk is on fire")
        return plain(self, number, buffer)

    monkeypatch.setattr(ChunkedDataset, "matrix", failing)
    with pytest.raises(OSError, match="on fire"):
        list(ChunkedMatrix(store, 0).chunks())
    assert threading.active_count() == n_threads


def test_memory_stays_within_the_limit(tmp_path):
    store = make_store(tmp_path / "store", np.ones((20_000, 50)), chunk_bytes=2**18)
    for limit in (2**20, 4 * 2**20):
        tracemalloc.start()
        matrix = ChunkedMatrix(store, limit)
        for _ in range(2):
            for _ in matrix.chunks():
                pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert matrix.n_resident < store.n_chunks
        assert peak <= 1.2 * limit
