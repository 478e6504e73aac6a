"""Rows of Arrow batches, moments of columns, and layouts that tasks agree on; without Spark."""

import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from snapml.data import ChunkedMatrix, CompressedMatrix, DenseMatrix
from snapml.data.growing_array import can_share
from snapml.data.store.temporary_store import removing_temporary_stores
from snapml.distributed.spark.tasks import held_rows
from snapml.distributed.spark.tasks.batches import RowBatch, rows_of
from snapml.distributed.spark.tasks.column_moments import ColumnMoments
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.spark.tasks.request import FitRequest
from snapml.solvers.communicator import SerialCommunicator

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

SHARED = [False, *([True] if can_share() else [])]
REQUEST = FitRequest("logistic", "f", "l", weight_col="w")
VECTORS = pa.struct(
    {
        "type": pa.int8(),
        "size": pa.int32(),
        "indices": pa.list_(pa.int32()),
        "values": pa.list_(pa.float64()),
    }
)


def dense(values):
    return {"type": 1, "size": None, "indices": None, "values": values}


def sparse(size, indices, values):
    return {"type": 0, "size": size, "indices": indices, "values": values}


def batch(vectors, labels=None, weights=None, kind=VECTORS):
    n_rows = len(vectors)
    labels = [0.0] * n_rows if labels is None else labels
    weights = [1.0] * n_rows if weights is None else weights
    return pa.RecordBatch.from_arrays(
        [pa.array(vectors, kind), pa.array(labels, pa.float64()), pa.array(weights, pa.float64())],
        names=["features", "label", "weight"],
    )


def as_dense(X):
    if not isinstance(X, CompressedMatrix):
        return X
    values = np.ones(X.n_stored) if X.values is None else X.values
    return csr_matrix((values, X.indices, X.indptr), X.shape).toarray()


def test_dense_and_sparse_vectors_of_one_batch_keep_their_labels():
    mixed = [
        dense([1.0, 0.0, 2.0]),
        sparse(3, [1], [3.0]),
        dense([0.0, 4.0, 0.0]),
        sparse(3, [], []),
    ]
    parts = list(rows_of(batch(mixed, [0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]), REQUEST))
    assert [type(part.X) for part in parts] == [np.ndarray, CompressedMatrix]
    np.testing.assert_array_equal(parts[0].X, [[1.0, 0.0, 2.0], [0.0, 4.0, 0.0]])
    np.testing.assert_array_equal(as_dense(parts[1].X), [[0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    assert [part.y.tolist() for part in parts] == [[0.0, 2.0], [1.0, 3.0]]
    assert [part.weights.tolist() for part in parts] == [[1.0, 3.0], [2.0, 4.0]]


def test_part_of_a_longer_batch_has_its_own_rows():
    whole = batch([sparse(4, [k], [1.0 + k]) for k in range(4)], [0.0, 1.0, 2.0, 3.0])
    (part,) = rows_of(whole.slice(1, 2), REQUEST)
    np.testing.assert_array_equal(as_dense(part.X), [[0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]])
    assert part.y.tolist() == [1.0, 2.0]


def test_arrays_and_columns_of_numbers_are_dense_rows():
    rows = [[1.0, 2.0], [3.0, 4.0]]
    (part,) = rows_of(batch(rows, kind=pa.list_(pa.float64())), REQUEST)
    np.testing.assert_array_equal(part.X, rows)
    columns = pa.RecordBatch.from_arrays(
        [pa.array([1.0, 3.0]), pa.array([2.0, 4.0]), pa.array([0.0, 1.0])],
        names=["features0", "features1", "label"],
    )
    (part,) = rows_of(columns, FitRequest("linear", ("a", "b"), "l"))
    np.testing.assert_array_equal(part.X, rows)
    assert part.weights is None


KINDS = {
    "none": [],
    "dense": [dense([1.0, 0.0, 2.0, *[0.0] * 5])] * 2,
    "ones": [sparse(8, [0, 2], [1.0, 1.0])] * 2,
    "values": [sparse(8, [1], [3.0])] * 2,
    "no entries": [sparse(8, [], [])] * 2,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("own", KINDS)
@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("is_shared", SHARED)
def test_rows_that_another_task_has_moved_are_as_those_that_have_come(
    own, other, dtype, is_shared, tmp_path
):
    def held(*kinds):
        batches = [batch(KINDS[kind], [0.0, 1.0], [1.0, 2.0]) for kind in kinds if KINDS[kind]]
        parts = (part for each in batches for part in rows_of(each, REQUEST))
        return LocalRows(parts, dtype, 10_000, is_shared=is_shared)

    moved, found, expected = held(other), held(own), held(own, other)
    moved.move_to(tmp_path / "rows")
    found.take_from([tmp_path / "rows"], 8)
    assert (moved.n_bytes, found.n_rows) == (0, expected.n_rows)
    np.testing.assert_array_equal(found.labels(), expected.labels())
    np.testing.assert_array_equal(found.weights(), expected.weights())
    X, Y = (rows.matrix(SerialCommunicator(), 8, None) for rows in (found, expected))
    assert (type(X), X.dtype) == (type(Y), dtype)
    X, Y = (each.values if isinstance(each, DenseMatrix) else as_dense(each) for each in (X, Y))
    np.testing.assert_array_equal(X, Y)


@pytest.mark.skipif(not can_share(), reason="no shared memory here")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 3, 512, 700])
@pytest.mark.parametrize("n_rows", [(1100, 2000, 513), (3, 600, 4), (0, 1024, 5), (1500, 1024)])
def test_dense_rows_of_tasks_are_joined_where_they_are(
    dtype, n_features, n_rows, tmp_path, monkeypatch
):
    monkeypatch.setattr(held_rows, "_WORTH_JOINING", 1)
    rng = np.random.default_rng(0)
    parts = []
    for n in n_rows:
        X, y = rng.normal(size=(n, n_features)).astype(dtype), rng.random(n)
        parts.append([(X, y, y + 1.0)] if n else [])
    tasks = [local_rows(part, 10**9, dtype, is_shared=True) for part in parts]
    folders = [tmp_path / str(k) for k in range(1, len(tasks))]
    for task, folder in zip(tasks[1:], folders, strict=True):
        task.move_to(folder)
    tasks[0].take_from(folders, n_features, 2)
    X = np.concatenate([X for part in parts for X, _, _ in part])
    y = np.concatenate([y for part in parts for _, y, _ in part])
    assert tasks[0].n_rows == len(y)
    np.testing.assert_array_equal(tasks[0].weights(), tasks[0].labels() + 1.0)
    found = np.argsort(tasks[0].labels())
    matrix = tasks[0].matrix(SerialCommunicator(), n_features, None)
    np.testing.assert_array_equal(matrix.values[found], X[np.argsort(y)])
    unit = 4096 // math.gcd(4096, n_features * X.itemsize)
    if n_rows[0] >= unit:  # its pages come first, as they were
        first = n_rows[0] // unit * unit
        np.testing.assert_array_equal(matrix.values[:first], X[:first])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            batch([dense([1.0]), None]),
            r"featuresCol='f': expected a vector in every row, got 1 null",
        ),
        (
            batch([dense([1.0]), dense([1.0, 2.0])]),
            r"'f': expected vectors of one size, got 2 in row 1",
        ),
        (batch([sparse(3, [0], [1.0]), sparse(4, [0], [1.0])]), "one size, got 4 in row 1"),
        (
            batch([dense([1.0]), dense([np.nan])]),
            r"'f': expected finite entries, got \[nan\] in row 1",
        ),
        (batch([sparse(2, [0], [np.inf])]), "'f': expected finite entries, got inf"),
        (batch([dense([1.0])], [None]), "labelCol='l': expected numbers, got 1 nulls"),
        (batch([dense([1.0])], [np.nan]), "labelCol='l': expected finite numbers, got nan"),
        (
            batch([dense([1.0])], weights=[-1.0]),
            r"weightCol='w': expected weights of at least 0, got -1",
        ),
        (batch([dense([1.0])], weights=[None]), "weightCol='w': expected numbers, got 1 nulls"),
        (batch([sparse(2, [5], [1.0])]), r"indices"),
        (batch([[1.0, None]], kind=pa.list_(pa.float64())), "got 1 nulls among entries"),
    ],
)
def test_bad_rows_are_refused_with_column_and_content(bad, message):
    with pytest.raises(ValueError, match=message):
        list(rows_of(bad, REQUEST))


def weighted_moments(X, weights):
    """Return mean and variance as Spark's Summarizer defines them, all rows at once."""
    total = weights.sum()
    mean = weights @ X / total
    free = total - weights @ weights / total
    return mean, weights @ np.square(X - mean) / free


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.booleans(), st.floats(-1e6, 1e6))
@example(0, 3, True, 1e6)
def test_moments_of_batches_are_those_of_all_rows(seed, n_batches, is_sparse, offset):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 4)) * (rng.random((30, 4)) < 0.5) + (0.0 if is_sparse else offset)
    weights = rng.random(30) * (rng.random(30) < 0.8)
    moments = ColumnMoments(4)
    for rows in np.array_split(np.arange(30), n_batches):
        part = csr_matrix(X[rows])
        compressed = CompressedMatrix(part.indptr, part.indices, 4, part.data)
        moments.add(compressed if is_sparse else X[rows], weights[rows])
    mean, variance = moments.agreed(SerialCommunicator())
    expected = weighted_moments(X, weights)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-8, atol=1e-14)


def local_rows(parts, limit=10**6, dtype=np.float64, is_shared=False):
    batches = (RowBatch(X, y, w) for X, y, w in parts)
    return LocalRows(batches, dtype, limit, is_shared=is_shared)


@pytest.mark.parametrize("density", [0.05, 0.9])
@pytest.mark.parametrize("limit", [10**6, 100])
def test_rows_of_both_layouts_become_the_smaller_one(density, limit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 20)) * (rng.random((60, 20)) < density)
    thin = csr_matrix(X[30:])
    compressed = CompressedMatrix(thin.indptr, thin.indices, 20, thin.data)
    y = X.sum(axis=1)
    scale = rng.random(20)
    with removing_temporary_stores():
        rows = local_rows([(X[:30], y[:30], None), (compressed, y[30:], None)], limit)
        matrix = rows.matrix(SerialCommunicator(), 20, scale)
        labels = rows.labels()
        if limit == 100:
            assert isinstance(matrix, ChunkedMatrix)
            assert matrix.is_sparse is (density < 0.5)
            matrix = matrix.take(np.arange(60))
        found = matrix.values if isinstance(matrix, DenseMatrix) else as_dense(matrix)
    assert isinstance(matrix, DenseMatrix) is (density > 0.5)
    by_label = np.argsort(labels)
    np.testing.assert_allclose(found[by_label], (X * scale)[np.argsort(y)])
    np.testing.assert_array_equal(np.sort(labels), np.sort(y))


def test_moments_of_wide_rows_hold_few_blocks_at_a_time(monkeypatch):
    # Blocks of four rows, whose results take as much as the rows: 5 MB wait to be merged, and two
    # threads need 4 MB each in float64. All results take 48 MB, which a slow merge meets.
    X = np.ones((300, 40_000), np.float32)
    merge, waits = ColumnMoments._merge, iter([0.5])

    def merge_late(*arguments):
        time.sleep(next(waits, 0.0))
        merge(*arguments)

    monkeypatch.setattr(ColumnMoments, "_merge", merge_late)
    tracemalloc.start()
    try:
        ColumnMoments(40_000).add(X, None, 2)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < X.nbytes / 2


@pytest.mark.parametrize("kind", ["dense", "sparse", "ones"])
def test_threads_scale_columns_and_find_their_moments_as_one_does(kind):
    rng = np.random.default_rng(0)
    n_rows, n_features = 20_000, 150  # several blocks of entries
    X = rng.normal(size=(n_rows, n_features))
    if kind != "dense":
        X *= rng.random(X.shape) < 0.5
    X = (X != 0.0).astype(float) if kind == "ones" else X
    thin = csr_matrix(X)
    values = None if kind == "ones" else thin.data
    part = X if kind == "dense" else CompressedMatrix(thin.indptr, thin.indices, 150, values, float)
    scale, weights = rng.random(n_features), rng.random(n_rows)
    for n_threads in (1, 3):
        rows = local_rows([(part, np.zeros(n_rows), weights)], 10**9)
        moments = rows.moments(n_features, n_threads)
        mean, variance = moments.agreed(SerialCommunicator())
        expected = weighted_moments(X, weights)
        np.testing.assert_allclose(mean, expected[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(variance, expected[1], rtol=1e-10)
        matrix = rows.matrix(SerialCommunicator(), n_features, scale, n_threads)
        found = matrix.values if isinstance(matrix, DenseMatrix) else as_dense(matrix)
        np.testing.assert_array_equal(found, X * scale)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["dense", "sparse", "ones"])), max_size=9
    ),
    st.sampled_from([1, 3000, 10**6]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@example([(4, "ones"), (5, "sparse"), (3, "ones")], 10**6, True, 0)
@example([(4, "ones"), (5, "ones")], 10**6, False, 0)
@example([(9, "ones"), (9, "ones"), (5, "sparse")], 3000, True, 0)
@example([(4, "ones"), (5, "sparse"), (3, "dense")], 1, True, 0)
def test_rows_are_those_of_the_batches_in_memory_or_not(kinds, limit, is_scaled, seed):
    rng = np.random.default_rng(seed)
    parts, wide, y, first = [], [np.empty((0, 40))], [np.empty(0)], 0
    for n_rows, kind in kinds:
        X = rng.normal(size=(n_rows, 40)) * (rng.random((n_rows, 40)) < 0.2)
        thin = csr_matrix(X != 0.0 if kind == "ones" else X).astype(float)
        values = None if kind == "ones" else thin.data
        rows = CompressedMatrix(thin.indptr, thin.indices, 40, values, np.float64)
        labels = np.arange(first, first + n_rows, dtype=float)
        parts.append((X if kind == "dense" else rows, labels, labels + 1.0))
        wide.append(thin.toarray())
        y.append(labels)
        first += n_rows
    X, y = np.concatenate(wide), np.concatenate(y)
    scale = rng.random(40) if is_scaled else None
    with removing_temporary_stores():
        rows = local_rows(parts, limit)
        mean = rows.moments(40).mean
        matrix = rows.matrix(SerialCommunicator(), 40, scale)
        order = np.argsort(rows.labels())
        found = matrix.take(order) if len(y) else matrix
        np.testing.assert_array_equal(rows.labels()[order], y)
        if len(y):
            np.testing.assert_array_equal(rows.weights()[order], y + 1.0)
            np.testing.assert_allclose(mean, (y + 1.0) @ X / (y + 1.0).sum(), atol=1e-14)
    expected = X if scale is None else X * scale
    found = found.values if isinstance(found, DenseMatrix) else as_dense(found)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_rows_without_columns_are_as_many():
    (part,) = rows_of(batch([dense([]), dense([])]), REQUEST)
    with removing_temporary_stores():
        rows = local_rows([(part.X, part.y, part.weights)])
        assert rows.matrix(SerialCommunicator(), 0, None).shape == (2, 0)


def test_task_without_rows_has_an_empty_matrix():
    with removing_temporary_stores():
        rows = local_rows([])
        assert rows.n_features is None
        assert rows.matrix(SerialCommunicator(), 7, None).shape == (0, 7)


class BesideFullTask(SerialCommunicator):
    """The other task has more rows than its memory takes."""

    def exchange(self, value):
        return [value, False]


def test_task_without_rows_beside_one_that_streams_has_a_row_without_weight():
    with removing_temporary_stores():
        rows = local_rows([])
        matrix = rows.matrix(BesideFullTask(), 7, np.ones(7))
        assert isinstance(matrix, ChunkedMatrix)
        assert matrix.shape == (1, 7)
        assert rows.labels().tolist() == [1.0]
        assert rows.weights().tolist() == rows.offsets().tolist() == [0.0]


def test_batches_of_other_sizes_are_refused():
    with removing_temporary_stores(), pytest.raises(ValueError, match="got 2 and 3 entries"):
        local_rows([(np.ones((1, 2)), np.ones(1), None), (np.ones((1, 3)), np.ones(1), None)])
