"""Reads of chunks: a file that changes never leads outside memory, and few rows cost few bytes."""

import os

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference.data import dense, make_rows
from scipy.sparse import csr_matrix

from snapml import _native
from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, CompressedMatrix
from snapml.data.compressed import CheckedMatrix
from snapml.data.store import chunk_reader
from snapml.data.store.chunk_format import ALIGNMENT
from snapml.solvers.rows.cpu_rows import native_rows


def make_store(path, X, chunk_bytes=2000):
    with ChunkWriter(path, chunk_bytes=chunk_bytes) as writer:
        writer.append(X, np.arange(X.shape[0]))
    return ChunkedDataset.open(path)


@pytest.fixture(scope="module", params=["dense", "sparse", "ones", "wide"])
def case(request, tmp_path_factory):
    """A store and its rows as an array."""
    X = make_rows(120, 5, density=0.5).astype(np.float32)
    given = X if request.param == "dense" else csr_matrix(X)
    if request.param in ("ones", "wide"):
        X = (X != 0).astype(np.float32)
        index = np.int64 if request.param == "wide" else np.int32
        given = CompressedMatrix(given.indptr.astype(index), given.indices.astype(index), 5)
    return make_store(tmp_path_factory.mktemp("chunks") / "store", given), X


def change_keeping_the_time(store, number, place, content):
    """Overwrite bytes of a chunk such that its size and time of change tell nothing."""
    path = store._reader._folder / store.manifest.chunks[number].file
    with path.open("r+b") as stream:
        stream.seek(place)
        stream.write(content)


@pytest.mark.parametrize("number", [5, 2**31 - 1, -1])
def test_index_outside_the_matrix_is_found_at_every_read(tmp_path, monkeypatch, number):
    store = make_store(tmp_path / "store", csr_matrix(np.eye(5)), chunk_bytes=10**6)
    store.matrix(0)
    monkeypatch.setattr(chunk_reader, "_identity", lambda stream: ())  # a change goes unnoticed
    store.matrix(0)
    change_keeping_the_time(store, 0, ALIGNMENT + 8, np.int32(number).tobytes())
    with pytest.raises(
        ValueError, match=rf"chunk-00000000: column indices .* \[0, 5\), got {number}"
    ):
        store.matrix(0)


@pytest.mark.parametrize("offset", [-3, 0, 5])
def test_offset_outside_the_entries_is_found_at_every_read(tmp_path, monkeypatch, offset):
    store = make_store(tmp_path / "store", csr_matrix(np.eye(5)), chunk_bytes=10**6)
    monkeypatch.setattr(chunk_reader, "_identity", lambda stream: ())
    store.matrix(0)
    change_keeping_the_time(store, 0, 3 * 4, np.int32(offset).tobytes())
    with pytest.raises(ValueError, match="expected offsets that rise from 0 to 5"):
        store.matrix(0)


def test_checksums_are_compared_again_once_a_file_was_written_to(tmp_path):
    store = make_store(tmp_path / "store", np.ones((5, 3)))
    store.matrix(0)
    path = tmp_path / "store" / store.manifest.chunks[0].file
    os.utime(path)  # another time, the same content
    store.matrix(0)
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="the checksum of values is wrong"):
        store.matrix(0)
    content[3] ^= 1
    path.write_bytes(content)
    store.matrix(0)


def test_checksums_are_not_computed_twice(tmp_path, monkeypatch):
    store = make_store(tmp_path / "store", np.ones((5, 3)))
    list(store.matrices())
    monkeypatch.delattr(chunk_reader, "zlib")
    list(store.matrices())


def test_rows_that_were_checked_are_not_checked_again(monkeypatch, case):
    store, _ = case
    matrix = store.matrix(0)
    if isinstance(matrix, CompressedMatrix):
        assert isinstance(matrix, CheckedMatrix)
        assert not matrix.indices.flags.writeable
        assert not matrix.indptr.flags.writeable
        illegal = CompressedMatrix(matrix.indptr, matrix.indices + 5, 5)
        with pytest.raises(ValueError, match="column indices must lie in"):
            native_rows(illegal, _native.ThreadPool(1))
    assert native_rows(matrix, _native.ThreadPool(1)).n_rows == matrix.shape[0]


@given(st.lists(st.integers(0, 119), max_size=30), st.booleans())
@example([119, 0, 0, 60, 61, 62], True)
@example([], True)
@example([5], False)
def test_few_rows_are_read_alone_and_are_the_same(case, rows, is_dear):
    store, X = case
    list(store.matrices())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_reader, "_SEEK_BYTES", 2**40 if is_dear else 0)
        taken = ChunkedMatrix(store, 0).take(np.array(rows, np.int64))
    np.testing.assert_array_equal(dense(taken), X[rows].reshape(-1, 5))


def test_few_rows_cost_few_bytes(case, monkeypatch):
    store, X = case
    list(store.matrices())
    monkeypatch.setattr(chunk_reader, "_SEEK_BYTES", 0)
    n_read, plain = [], chunk_reader._filled

    def filled(stream, memory):
        n_read.append(len(memory))
        return plain(stream, memory)

    monkeypatch.setattr(chunk_reader, "_filled", filled)
    np.testing.assert_array_equal(
        dense(store.rows(1, np.array([2, 3, 7]))), X[store.chunk_rows[1] :][[2, 3, 7]]
    )
    assert sum(n_read) <= 3 * (5 * 12 + 16)
    n_read.clear()
    ChunkedDataset.open(store._reader._folder).rows(1, np.array([2]))  # first the checksum
    assert sum(n_read) > 3 * (5 * 12 + 16)


def test_rows_read_alone_never_lead_outside(tmp_path, monkeypatch):
    store = make_store(tmp_path / "store", csr_matrix(np.eye(5)), chunk_bytes=10**6)
    monkeypatch.setattr(chunk_reader, "_identity", lambda stream: ())
    monkeypatch.setattr(chunk_reader, "_SEEK_BYTES", 0)
    store.matrix(0)
    change_keeping_the_time(store, 0, 3 * 4, np.int32(2**30).tobytes())
    for row in (2, 3):
        with pytest.raises(ValueError, match="expected offsets that rise from"):
            store.rows(0, np.array([row]))
    change_keeping_the_time(store, 0, ALIGNMENT, np.int32(-7).tobytes())
    with pytest.raises(ValueError, match="column indices must lie in"):
        store.rows(0, np.array([0]))
