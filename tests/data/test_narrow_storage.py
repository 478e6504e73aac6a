"""Stores that keep dense rows in one or two bytes an entry: what is read is near what was given."""

import json
import zlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from snapml import LogisticRegression, estimate
from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, RowGroups
from snapml.data.narrow_rows import narrowed
from snapml.data.store import chunk_reader
from snapml.data.store.chunk_format import ALIGNMENT, MANIFEST

LARGEST = float(np.finfo(np.float32).max)
STORAGES = ["bfloat16", "uint8"]


def make_store(path, X, storage, y=None, **options):
    with ChunkWriter(path, storage=storage, **options) as writer:
        writer.append(X, y)
    return ChunkedDataset.open(path)


def bfloat16_of(X):
    """The nearest numbers with 8 binary digits, ties to even, in exact arithmetic."""
    fraction, exponent = np.frexp(X.astype(np.float64))
    digits = np.minimum(8, exponent + 133)  # below 2**-126 fewer are left, or none
    return np.ldexp(np.rint(np.ldexp(fraction, digits)), exponent - digits)


def most_error(X, storage):
    """What the documentation allows."""
    if storage == "bfloat16":
        return np.abs(X) * 2.0**-8 + 2.0**-134
    X = X.astype(np.float64)
    largest = np.abs(X).max(axis=0, initial=0)
    span = X.max(axis=0, initial=-np.inf) - X.min(axis=0, initial=np.inf)
    return np.broadcast_to(span / 510 * (1 + 2**-15) + largest * 2.0**-23 + 2.0**-140, X.shape)


def rounded(X, storage):
    rows = narrowed(np.ascontiguousarray(X, np.float32), storage)
    out = np.full(X.shape, np.nan, np.float32)
    rows.widen(out)
    return out


floats = st.floats(-(2.0**126), 2.0**126, width=32)


@given(arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 40)), elements=floats))
@example(np.zeros((3, 2), np.float32))
@example(np.array([[1e-45], [3e-45]], np.float32))
@example(np.array([[5e-42], [5e-41]], np.float32))
@example(np.array([[-1e38, 1.0], [1e38, 1.0]], np.float32))
@example(np.array([[1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8]], np.float32))
@pytest.mark.parametrize("storage", STORAGES)
def test_entries_change_no_more_than_documented(storage, X):
    out = rounded(X, storage)
    assert (np.abs(out.astype(np.float64) - X) <= most_error(X, storage)).all()
    if storage == "bfloat16":
        np.testing.assert_array_equal(out, bfloat16_of(X).astype(np.float32))


def test_uint8_means_an_offset_and_steps():
    X = np.random.default_rng(0).normal(size=(50, 70)).astype(np.float32)
    rows = narrowed(X, "uint8")
    exact = rows.offsets.astype(np.float64) + rows.scales.astype(np.float64) * rows.values
    out = np.empty_like(X)
    rows.widen(out)
    np.testing.assert_array_equal(out, exact.astype(np.float32))
    assert rows.values.min(axis=0).max() == 0
    assert rows.values.max(axis=0).min() == 255


@pytest.mark.parametrize("storage", STORAGES)
def test_what_is_rounded_already_is_kept(storage):
    X = rounded(np.random.default_rng(0).normal(size=(300, 3)), storage)
    tolerance = 0 if storage == "bfloat16" else 1e-6
    np.testing.assert_allclose(rounded(X, storage), X, rtol=tolerance, atol=tolerance)


def test_constants_are_exact_in_uint8():
    X = np.tile(np.array([0.1, -3e38, 1e-40, 0], np.float32), (5, 1))
    np.testing.assert_array_equal(rounded(X, "uint8"), X)


@pytest.mark.parametrize("storage", STORAGES)
def test_rows_come_back_rounded(tmp_path, storage, monkeypatch):
    monkeypatch.setattr(chunk_reader, "_PIECE_BYTES", 120)
    X = np.random.default_rng(0).normal(size=(300, 7)) * np.arange(1, 8)
    y = np.arange(300.0)
    store = make_store(tmp_path / "store", X, storage, y, chunk_bytes=2000)
    assert store.dtype == np.float32
    assert store.n_chunks > 3
    width = {"bfloat16": 2, "uint8": 1}[storage]
    buffer = np.empty(store.largest_chunk, np.uint8)
    for number, chunk in enumerate(store.manifest.chunks):
        rows = X[slice(*store.chunk_rows[number : number + 2])].astype(np.float32)
        expected = rounded(rows, storage)
        np.testing.assert_array_equal(store.matrix(number).values, expected)
        np.testing.assert_array_equal(store.matrix(number, buffer).values, expected)
        raw = store.raw(number)
        assert raw.values.nbytes == width * rows.size
        out = np.empty_like(rows)
        raw.widen(out)
        np.testing.assert_array_equal(out, expected)
        assert set(chunk.crc32) >= {"values", "labels"}
    np.testing.assert_array_equal(store.labels(), y)
    whole = store.load()[0]
    np.testing.assert_array_equal(
        ChunkedMatrix(store, 0).take(np.array([7, 0, 299, 8])).values, whole[[7, 0, 299, 8]]
    )
    monkeypatch.setattr(chunk_reader, "_SEEK_BYTES", 0)
    np.testing.assert_array_equal(
        ChunkedMatrix(store, 0).take(np.array([7, 0, 299, 8])).values, whole[[7, 0, 299, 8]]
    )


def test_buffers_are_counted_as_wide_rows(tmp_path):
    store = make_store(tmp_path / "store", np.ones((100, 7)), "uint8", chunk_bytes=700)
    assert store.chunk_bytes == [4 * chunk.n_stored for chunk in store.manifest.chunks]
    assert sum(store.chunk_bytes) == 4 * 700
    assert ChunkedMatrix(store, 2800).n_resident == store.n_chunks
    assert ChunkedMatrix(store, 2799).n_resident < store.n_chunks


@pytest.mark.parametrize("storage", STORAGES)
def test_fit_is_that_of_the_rounded_rows(tmp_path, storage):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(float)
    store = make_store(tmp_path / "store", X, storage, y, chunk_bytes=2000)
    streamed = LogisticRegression(memory_limit=0, tol=1e-8).fit(store)
    whole = LogisticRegression(tol=1e-8).fit(store.load()[0], y)
    assert streamed.objective_ == pytest.approx(whole.objective_, rel=1e-6)
    assert streamed.gap_ <= 1e-6 * streamed.objective_
    np.testing.assert_array_equal(whole.predict(store), whole.predict(store.load()[0]))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_what_is_not_finite_is_refused_and_leaves_nothing(tmp_path, storage, bad):
    X = np.ones((4, 3))
    X[2, 1] = bad
    with pytest.raises(ValueError, match="values: expected finite numbers"):
        make_store(tmp_path / "store", X, storage)
    assert not (tmp_path / "store").exists()


def test_what_overflows_by_rounding_is_refused(tmp_path):
    X = np.array([[0, LARGEST], [1, 0]], np.float32)
    with pytest.raises(
        ValueError, match=r"numbers that stay finite when they are rounded, got .*e\+38"
    ):
        make_store(tmp_path / "store", X, "bfloat16")
    assert not (tmp_path / "store").exists()


def test_huge_ranges_fit_uint8(tmp_path):
    X = np.array([[0.99 * LARGEST], [-0.99 * LARGEST], [0]], np.float32)
    found = make_store(tmp_path / "store", X, "uint8").matrix(0).values
    assert (np.abs(found.astype(float) - X) <= most_error(X, "uint8")).all()


def test_sparse_rows_and_unknown_storages_are_refused(tmp_path):
    with pytest.raises(ValueError, match="storage='uint8': expected dense rows, got compressed"):
        make_store(tmp_path / "a", csr_matrix(np.eye(3)), "uint8")
    with pytest.raises(
        ValueError, match="storage: expected None, 'bfloat16' or 'uint8', got 'fp4'"
    ):
        ChunkWriter(tmp_path / "b", storage="fp4")
    store = make_store(tmp_path / "c", np.eye(3), None)
    with pytest.raises(ValueError, match="expected a store with narrow storage, got float64 entr"):
        store.raw(0)


def test_appending_keeps_the_storage(tmp_path):
    make_store(tmp_path / "store", np.eye(3), "uint8")
    make_store(tmp_path / "store", 5 * np.eye(3), None, append=True)
    store = ChunkedDataset.open(tmp_path / "store")
    np.testing.assert_array_equal(store.load()[0], np.vstack([np.eye(3), 5 * np.eye(3)]))
    with pytest.raises(ValueError, match="storage: expected 'uint8' as the store was written, got"):
        ChunkWriter(tmp_path / "store", storage="bfloat16", append=True)


@pytest.mark.parametrize("place", [0, ALIGNMENT, 2 * ALIGNMENT])
def test_flipped_bit_is_found(tmp_path, place):
    store = make_store(tmp_path / "store", np.arange(12.0).reshape(4, 3), "uint8")
    path = tmp_path / "store" / store.manifest.chunks[0].file
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"the checksum of (scales|offsets|values) is wrong"):
        store.matrix(0)
    with pytest.raises(ValueError, match=r"the checksum of (scales|offsets|values) is wrong"):
        store.raw(0)


def test_store_of_the_first_version_is_read(tmp_path):
    X = np.eye(3)
    make_store(tmp_path / "store", X, None)
    path = tmp_path / "store" / MANIFEST
    content = json.loads(path.read_text())
    del content["crc32"], content["schema"]["storage"]
    content["version"] = 1
    content["crc32"] = zlib.crc32(json.dumps(content, sort_keys=True).encode())
    path.write_text(json.dumps(content))
    np.testing.assert_array_equal(ChunkedDataset.open(tmp_path / "store").load()[0], X)


@pytest.mark.parametrize("storage", STORAGES)
def test_rounded_rows_count_as_what_they_take_in_memory(tmp_path, storage):
    X = np.random.default_rng(0).normal(size=(4000, 50)).astype(np.float32)
    store = make_store(tmp_path / "store", X, storage, chunk_bytes=100_000)
    limit = sum(store.chunk_bytes)
    assert limit >= X.nbytes
    assert store.manifest.n_bytes < 0.6 * limit
    columns = ChunkedMatrix(store, limit)
    assert columns.share_memory() == limit - 3 * store.largest_chunk
    assert columns.n_resident == 0
    rows = ChunkedMatrix(store, limit)
    RowGroups(rows, 0)
    room = limit - 5 * store.largest_chunk  # two groups, three that pass
    assert rows.n_resident <= max(0, room) // min(store.chunk_bytes)
    found = estimate(store, LogisticRegression(memory_limit=limit), y=np.arange(4000) % 2)
    assert found.resident_bytes == limit
