"""Chunk stores: what is written comes back, and what is damaged or unfinished is refused."""

import json
import threading
import zlib

import numpy as np
import pytest
from reference.data import dense, make_rows
from scipy.sparse import csr_matrix

from snapml.data import ChunkedDataset, ChunkWriter, CompressedMatrix
from snapml.data.store import chunk_writer
from snapml.data.store.chunk_format import ALIGNMENT, MANIFEST


def example(*, is_sparse=True, dtype=np.float32, n_rows=100):
    X = make_rows(n_rows, 9, density=0.4 if is_sparse else 1.0).astype(dtype)
    return (csr_matrix(X) if is_sparse else X), np.arange(n_rows) % 3.0, np.arange(n_rows) + 1.0


def write(path, X, y=None, weights=None, *, batch=17, chunk_bytes=500, **options):
    with ChunkWriter(path, chunk_bytes=chunk_bytes, **options) as writer:
        for begin in range(0, X.shape[0], batch):
            rows = slice(begin, begin + batch)
            writer.append(
                X[rows], None if y is None else y[rows], None if weights is None else weights[rows]
            )
    return ChunkedDataset.open(path)


@pytest.mark.parametrize("chunk_bytes", [1, 500, 10**9])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_rows_come_back_in_their_order(tmp_path, is_sparse, dtype, chunk_bytes):
    X, y, weights = example(is_sparse=is_sparse, dtype=dtype)
    store = write(tmp_path / "store", X, y, weights, chunk_bytes=chunk_bytes)
    assert store.shape == X.shape
    assert store.dtype == dtype
    assert store.n_stored == (X.nnz if is_sparse else X.size)
    assert (store.n_chunks == 1) == (chunk_bytes == 10**9)
    rows = [dense(matrix).copy() for _, matrix in store.matrices()]
    np.testing.assert_array_equal(np.concatenate(rows), X.toarray() if is_sparse else X)
    np.testing.assert_array_equal(store.labels(), y)
    np.testing.assert_array_equal(store.weights(), weights.astype(dtype))
    assert store.weights().dtype == dtype
    assert store.manifest.classes == (0.0, 1.0, 2.0)
    sizes = np.diff(store.chunk_rows)
    assert [len(part) for part in rows] == sizes.tolist()


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_entries_that_are_all_one_are_not_stored(tmp_path, index):
    X = CompressedMatrix(np.array([0, 1, 3], index), np.array([0, 4, 1, 8], index), 10)
    with ChunkWriter(tmp_path / "store") as writer:
        writer.append(X)
    store = ChunkedDataset.open(tmp_path / "store")
    matrix = store.matrix(0)
    assert matrix.values is None
    assert matrix.indices.dtype == index
    np.testing.assert_array_equal(np.argwhere(dense(matrix)), [[0, 0], [1, 1], [1, 4]])
    assert store.labels() is None
    assert store.weights() is None
    assert store.manifest.classes is None


def test_arrays_begin_at_pages(tmp_path):
    X, y, _ = example()
    store = write(tmp_path / "store", X, y)
    matrix = store.matrix(1)
    path = tmp_path / "store" / store.manifest.chunks[1].file
    mapped = np.memmap(path, np.int32, offset=ALIGNMENT, shape=len(matrix.indices))
    np.testing.assert_array_equal(mapped, matrix.indices)


def test_batch_may_be_changed_after_it_was_given(tmp_path):
    X, _, _ = example(is_sparse=False, n_rows=4)
    with ChunkWriter(tmp_path / "store") as writer:
        buffer = X.copy()
        writer.append(buffer)
        buffer[:] = 0
    np.testing.assert_array_equal(ChunkedDataset.open(tmp_path / "store").matrix(0).values, X)


def test_chosen_chunks_are_read_in_the_order_asked_for(tmp_path):
    X, _, _ = example()
    store = write(tmp_path / "store", X)
    begins = store.chunk_rows
    for number, matrix in store.matrices([3, 0, 3]):
        rows = slice(begins[number], begins[number + 1])
        np.testing.assert_array_equal(dense(matrix), X[rows].toarray())
    assert list(store.matrices([])) == []


def test_rows_that_are_appended_show_in_a_store_opened_later(tmp_path):
    X, y, _ = example()
    path = tmp_path / "store"
    before = write(path, X, y)
    content = {p.name: p.read_bytes() for p in path.iterdir() if p.name != MANIFEST}
    (path / f"chunk-{before.n_chunks:08d}").write_bytes(b"left behind by a crash")
    after = write(path, X, y, append=True)
    assert before.shape == (100, 9)
    assert after.shape == (200, 9)
    assert len(list(before.matrices())) == before.n_chunks
    np.testing.assert_array_equal(after.labels(), np.tile(y, 2))
    assert {name: (path / name).read_bytes() for name in content} == content


def test_columns_grow_with_the_batches(tmp_path):
    with ChunkWriter(tmp_path / "a") as writer:
        writer.append(csr_matrix(np.eye(3)))
        writer.append(csr_matrix(np.eye(5)))
    assert ChunkedDataset.open(tmp_path / "a").shape == (8, 5)
    with ChunkWriter(tmp_path / "b", n_features=7) as writer:
        writer.append(csr_matrix(np.eye(3)))
    assert ChunkedDataset.open(tmp_path / "b").shape == (3, 7)


def test_many_labels_are_no_classes(tmp_path):
    store = write(tmp_path / "store", np.zeros((2000, 1)), np.arange(2000.0))
    assert store.manifest.classes is None


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ((np.ones((2, 4)), None), "expected 3 columns as in the other batches, got 4"),
        ((np.ones((2, 3), np.float32), None), "expected a batch as the others.*float64.*float32"),
        ((csr_matrix(np.ones((2, 3))), None), "expected a batch as the others.*is_sparse=False"),
        ((np.ones((2, 3)), [1, 2]), "has_labels=False.*has_labels=True"),
        ((np.full((2, 3), np.nan), None), "values: expected finite numbers, got NaN or infinity"),
        ((np.ones(3), None), "X: expected 2 dimensions"),
    ],
)
def test_batch_that_does_not_fit_is_refused_and_nothing_stays(tmp_path, second, says):
    path = tmp_path / "store"

    def write_both():
        with ChunkWriter(path, chunk_bytes=1) as writer:
            writer.append(np.ones((2, 3)))
            writer.append(*second)

    with pytest.raises(ValueError, match=says):
        write_both()
    assert not path.exists()


def test_labels_must_be_as_many_as_rows(tmp_path):
    with pytest.raises(ValueError, match=r"labels: expected shape \(2,\) .*, got \(3,\)"):
        ChunkWriter(tmp_path / "store").append(np.ones((2, 3)), [1, 2, 3])


def test_empty_store_and_used_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match="expected at least one batch of rows, got none"):
        ChunkWriter(tmp_path / "a").close()
    (tmp_path / "other").write_text("mine")
    with pytest.raises(FileExistsError, match="expected a new or empty folder, or append=True"):
        ChunkWriter(tmp_path)
    with pytest.raises(FileNotFoundError, match="expected the folder of a chunk store"):
        ChunkWriter(tmp_path / "missing", append=True)
    with pytest.raises(ValueError, match="chunk_bytes: expected at least 1, got 0"):
        ChunkWriter(tmp_path / "b", chunk_bytes=0)


def test_store_that_was_never_finished_is_refused(tmp_path):
    writer = ChunkWriter(tmp_path / "store", chunk_bytes=1)
    writer.append(np.ones((3, 3)))  # the last chunk is being written; those before it are there
    assert len(list((tmp_path / "store").iterdir())) > 0
    with pytest.raises(ValueError, match=r"no manifest\.json: the store was never finished"):
        ChunkedDataset.open(tmp_path / "store")


@pytest.mark.parametrize("is_new", [True, False])
def test_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, is_new):
    path = tmp_path / "store"
    if not is_new:
        write(path, np.ones((4, 3)))
    before = sorted(path.iterdir()) if path.exists() else None
    n_writes = 0

    def failing(stream, piece):
        nonlocal n_writes
        n_writes += 1
        if n_writes > 5:
            raise OSError(28, "No space left on device")
        stream.write(piece)

    monkeypatch.setattr(chunk_writer, "_write_all", failing)
    with pytest.raises(OSError, match="No space left"):
        write(path, np.ones((40, 3)), chunk_bytes=1, append=not is_new)
    assert (sorted(path.iterdir()) if path.exists() else None) == before


def damaged(path, name, change):
    content = bytearray((path / name).read_bytes())
    (path / name).write_bytes(change(content))


@pytest.fixture
def path(tmp_path):
    X, y, weights = example()
    write(tmp_path / "store", X, y, weights)
    return tmp_path / "store"


@pytest.mark.parametrize("place", [0, ALIGNMENT + 3, 2 * ALIGNMENT + 1])
def test_flipped_bit_is_found_at_the_first_read(path, place):
    store = ChunkedDataset.open(path)

    def flip(content):
        content[place] ^= 1
        return content

    damaged(path, "chunk-00000001", flip)
    store.matrix(0)
    with pytest.raises(ValueError, match=r"chunk-00000001: the checksum of .* is wrong"):
        store.matrix(1)
    with pytest.raises(ValueError, match=r"chunk-00000001: the checksum of .* is wrong"):
        list(store.matrices())
    store.labels()


def test_chunks_cut_short_missing_or_swapped_are_found(path):
    store = ChunkedDataset.open(path)
    whole = (path / "chunk-00000000").read_bytes()
    damaged(path, "chunk-00000000", lambda content: content[:ALIGNMENT])
    with pytest.raises(ValueError, match=r"chunk-00000000: expected .* bytes, got 4096"):
        ChunkedDataset.open(path)
    with pytest.raises(ValueError, match=r"chunk-00000000: expected .* of indices, got 0: .* cut"):
        store.matrix(0)
    (path / "chunk-00000000").unlink()
    with pytest.raises(ValueError, match=r"chunk-00000000: the manifest lists this chunk, but"):
        ChunkedDataset.open(path)
    other = (path / "chunk-00000001").read_bytes()
    (path / "chunk-00000000").write_bytes(other)
    (path / "chunk-00000001").write_bytes(whole)
    with pytest.raises(ValueError, match="is damaged"):
        ChunkedDataset.open(path).matrix(0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m.update(version=4), "expected at most version 3, got 4: a newer snapml"),
        (lambda m: m.update(format="zarr"), "expected format 'snapml chunk store', got 'zarr'"),
        (lambda m: m.update(n_features=10), "the checksum is wrong: the manifest is damaged"),
        (lambda m: m.pop("format"), "expected the manifest of a chunk store"),
        (lambda m: m["chunks"].pop(), "the checksum is wrong"),
    ],
)
def test_manifest_that_was_changed_is_refused(path, change, says):
    manifest = json.loads((path / MANIFEST).read_text())
    change(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=says):
        ChunkedDataset.open(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"format": 1, "version": "x"}', "\0\xff"])
def test_garbage_in_place_of_a_manifest_is_refused(path, text):
    (path / MANIFEST).write_text(text)
    with pytest.raises(ValueError, match="expected the manifest of a chunk store"):
        ChunkedDataset.open(path)


def test_next_chunk_is_read_while_the_last_is_worked_on(path, monkeypatch):
    store = ChunkedDataset.open(path)
    readers, second_is_read = [], threading.Event()
    plain = ChunkedDataset.matrix

    def matrix(self, number, buffer=None):
        found = plain(self, number, buffer)
        readers.append(threading.get_ident())
        if number == 1:
            second_is_read.set()
        return found

    monkeypatch.setattr(ChunkedDataset, "matrix", matrix)
    for number, _ in store.matrices():
        if number == 0:
            assert second_is_read.wait(timeout=10)
    assert threading.get_ident() not in readers


def test_reader_that_stops_early_leaves_no_thread(path):
    n_threads = threading.active_count()
    for _ in ChunkedDataset.open(path).matrices():
        break
    assert threading.active_count() == n_threads


def test_checksums_are_those_of_zlib(path):
    store = ChunkedDataset.open(path)
    assert store.manifest.chunks[0].crc32["labels"] == zlib.crc32(
        store.labels()[: store.chunk_rows[1]].tobytes()
    )
