"""From files and streams of every kind to a store: the same rows, labels and weights."""

import gzip
import lzma

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file

from snapml.data import ChunkedDataset, ChunkWriter, CompressedMatrix
from snapml.io import ClickLogEncoder, convert, dump_snap, read_batches

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)).astype(np.float32)
Y = RNG.integers(0, 2, 300).astype(np.float64)
W = RNG.random(300).astype(np.float32)
NAMES = [f"c{k}" for k in range(5)]


def dense(rows):
    if isinstance(rows, CompressedMatrix):
        values = np.ones(rows.n_stored) if rows.values is None else rows.values
        rows = csr_matrix((values, rows.indices, rows.indptr), rows.shape)
    return rows.toarray() if hasattr(rows, "toarray") else rows


def assert_same(store, *, has_weights=False, rows=X):
    found, y = store.load()
    np.testing.assert_array_equal(dense(found), rows)
    np.testing.assert_array_equal(y, Y)
    assert (store.weights() is not None) == has_weights
    if has_weights:
        np.testing.assert_array_equal(store.weights(), W)


def write_svmlight(path, opener=open):
    with opener(path, "wb") as stream:
        dump_svmlight_file(X.astype(np.float64), Y, stream)


FILES = {
    "rows.svm": write_svmlight,
    "rows.libsvm.gz": lambda path: write_svmlight(path, gzip.open),
    "rows.txt.xz": lambda path: write_svmlight(path, lzma.open),
    "rows.snap": lambda path: dump_snap(X, Y, path),
    "sparse.snap": lambda path: dump_snap(csr_matrix(X), Y, path),
    "columns.snap": lambda path: dump_snap(csr_matrix(X), Y, path, by_column=True),
}


@pytest.mark.parametrize("name", FILES)
def test_files_with_labels(tmp_path, name):
    FILES[name](tmp_path / name)
    calls = []
    store = convert(
        str(tmp_path / name), tmp_path / "store", progress=lambda *call: calls.append(call)
    )
    assert_same(store)
    assert store.dtype == np.float32
    done, totals = np.transpose(calls)
    assert (np.diff(done) >= 0).all()
    assert done[-1] == totals[0] >= (tmp_path / name).stat().st_size
    assert len(set(totals)) == 1


@pytest.mark.parametrize("batch_bytes", [1, 1000, 10**9])
@pytest.mark.parametrize("kind", ["dense", "sparse", "implicit"])
def test_snap_files_come_in_parts(tmp_path, kind, batch_bytes):
    from snapml.io import load_snap, snap_batches

    path, rows = tmp_path / "rows.snap", X
    if kind != "dense":
        rows = csr_matrix(X * (RNG.random(X.shape) < 0.5))
    if kind == "implicit":
        lengths = np.diff(rows.indptr)
        rows.data[:] = 1 / np.sqrt(np.repeat(lengths, lengths))
    dump_snap(rows, Y, path, implicit_values=kind == "implicit")
    parts = list(snap_batches(path, batch_bytes=batch_bytes))
    assert len(parts) == 1 if batch_bytes == 10**9 else len(parts) > 5
    whole, y = load_snap(path)
    np.testing.assert_array_equal(np.vstack([dense(part) for part, _ in parts]), dense(whole))
    np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), y)


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_with_columns_by_number(tmp_path, order):
    whole = np.asarray(np.column_stack([W, X, Y]), order=order)
    np.save(tmp_path / "rows.npy", whole)
    store = convert(tmp_path / "rows.npy", tmp_path / "store", label=-1, weight=0)
    assert_same(store, has_weights=True)


def test_source_type_is_kept_if_asked_for(tmp_path):
    np.save(tmp_path / "rows.npy", X.astype(np.float64))
    store = convert(tmp_path / "rows.npy", tmp_path / "store", dtype=None)
    assert store.dtype == np.float64


def test_click_log(tmp_path):
    (tmp_path / "log.tsv").write_bytes(b"1\t3\tred\n0\t\tblue\n" * 40)
    options = {"format": "clicklog", "n_features": 100, "n_numbers": 1, "n_categories": 1}
    store = convert(tmp_path / "log.tsv", tmp_path / "store", **options)
    rows, y = store.load()
    [(expected, labels)] = ClickLogEncoder(100, n_numbers=1, n_categories=1).batches(
        tmp_path / "log.tsv"
    )
    np.testing.assert_array_equal(dense(rows), dense(expected))
    np.testing.assert_array_equal(y, labels)
    assert store.manifest.schema.has_values is False


def test_another_store_with_chunks_of_another_size(tmp_path):
    with ChunkWriter(tmp_path / "old", chunk_bytes=1000) as writer:
        writer.append(X, Y, W)
    store = convert(tmp_path / "old", tmp_path / "new", chunk_bytes=5000)
    assert store.n_chunks < ChunkedDataset.open(tmp_path / "old").n_chunks
    assert_same(store, has_weights=True)
    again = convert(store, tmp_path / "again", dtype="float64")
    assert again.dtype == np.float64


@pytest.mark.parametrize("is_sparse", [False, True])
def test_iterators_of_batches(tmp_path, is_sparse):
    rows = csr_matrix(X) if is_sparse else X
    parts = ((rows[k : k + 70], Y[k : k + 70], W[k : k + 70]) for k in range(0, 300, 70))
    assert_same(convert(parts, tmp_path / "store"), has_weights=True)


def test_append_keeps_the_types_of_the_store(tmp_path):
    convert(iter([(X[:100].astype(np.float64), Y[:100])]), tmp_path / "store", dtype=None)
    np.save(tmp_path / "rest.npy", np.column_stack([X, Y])[100:].astype(np.float32))
    store = convert(tmp_path / "rest.npy", tmp_path / "store", label=5, append=True)
    assert store.dtype == np.float64
    assert_same(store)


def test_parquet_file_and_folder(tmp_path):
    pa, pq = pytest.importorskip("pyarrow", reason="reads Parquet"), __import__("pyarrow.parquet")
    table = pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": Y, "w": W})
    pq.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=70)
    where = {"label": "y", "weight": "w"}
    assert_same(convert(tmp_path / "rows.parquet", tmp_path / "a", **where), has_weights=True)
    (tmp_path / "parts").mkdir()
    for k in range(3):
        part = table.slice(100 * k, 100)
        pq.parquet.write_table(part, tmp_path / "parts" / f"part-{k}.parquet")
    assert_same(convert(tmp_path / "parts", tmp_path / "b", **where), has_weights=True)
    store = convert(tmp_path / "parts", tmp_path / "c", label="y", columns=["c4", "c0"])
    assert_same(store, rows=X[:, [4, 0]])


def test_batches_of_a_source_have_its_own_type(tmp_path):
    write_svmlight(tmp_path / "rows.svm")
    [(rows, y, weights)] = read_batches(tmp_path / "rows.svm")
    assert rows.dtype == np.float64
    assert weights is None
    np.testing.assert_array_equal(y, Y)
