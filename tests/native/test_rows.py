"""Views of the user's matrix: what they hold, what they find out, what they refuse."""

import gc
import weakref

import numpy as np
import pytest
from reference.data import make_rows, rounding

from snapml import _native
from snapml.problems import Squared

from .shards import CONSTANT, LAYOUTS, Shard, make_native_rows

FLOAT64 = np.dtype(np.float64)


@pytest.fixture
def pool():
    return _native.ThreadPool(1)


def compressed(pool, *, indptr=(0, 2, 3), indices=(0, 4, 1), values=(1.0, 2.0, 3.0), **options):
    """Return 2 x 5 rows, with one argument replaced by the test."""
    index = options.pop("index", np.int32)
    arguments = dict(
        indptr=np.array(indptr, dtype=index),
        indices=np.array(indices, dtype=index),
        values=None if values is None else np.array(values),
        constant=1.0,
        is_float64=True,
        n_cols=5,
    )
    return _native.Rows.compressed(pool, **(arguments | options))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_rows_report_shape_norms_and_facts(dtype, layout, n_threads):
    shard = Shard(Squared(), dtype, layout, n_threads)
    exact = (shard.descent_X[:, :-1] ** 2).sum(axis=1)
    is_finite, is_sorted, norm_sq_sum = shard.facts
    assert (shard.rows.n_rows, shard.rows.n_cols) == (77, 9)
    assert is_finite
    assert is_sorted
    assert norm_sq_sum == pytest.approx(exact.sum(), rel=77 * rounding(dtype))
    assert shard.rows.is_constant == (layout in CONSTANT)
    if shard.norms is not None:
        np.testing.assert_allclose(shard.norms, exact, rtol=4 * rounding(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_margins_equal_the_product(dtype, layout, n_threads):
    shard = Shard(Squared(), dtype, layout, n_threads)
    coef = np.linspace(-1, 1, 9).astype(dtype)
    out = np.full(77, np.nan)
    _native.margins(shard.pool, shard.rows, coef, 0.25, out)
    exact = shard.X[:, :-1] @ coef.astype(np.float64) + 0.25
    np.testing.assert_allclose(out, exact, rtol=0, atol=100 * rounding(FLOAT64))


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("layout", ["row-major", "column-major", "compressed-int64"])
def test_entry_that_is_not_finite_is_found(dtype, layout, entry, pool):
    X = make_rows(40, 6).astype(dtype)
    X[33, 5] = entry
    rows, _ = make_native_rows(X, layout, pool)
    assert _native.inspect_rows(pool, rows, None)[0] is False


def test_finite_entries_whose_squares_overflow_are_finite(dtype, pool):
    rows = _native.Rows.dense(np.full((3, 2), np.finfo(dtype).max))
    is_finite, _, norm_sq_sum = _native.inspect_rows(pool, rows, None)
    assert is_finite
    assert norm_sq_sum > float(np.finfo(dtype).max)


def test_unsorted_and_repeated_indices_are_told_apart(pool):
    unsorted = compressed(pool, indices=(4, 0, 1))
    repeated = compressed(pool, indices=(4, 4, 1))
    for rows, has_duplicates in ((unsorted, False), (repeated, True)):
        assert _native.inspect_rows(pool, rows, None)[1] is False
        assert rows.has_duplicates() is has_duplicates
    assert compressed(pool).has_duplicates() is False
    # The same column in two rows is not stored twice.
    assert compressed(pool, indices=(0, 1, 1)).has_duplicates() is False
    assert _native.Rows.dense(np.ones((2, 2))).has_duplicates() is False


def test_only_equal_values_make_rows_constant(pool):
    assert compressed(pool, values=(2.0, 2.0, 2.0)).is_constant
    assert compressed(pool, values=None).is_constant
    assert not compressed(pool, values=(2.0, 2.0, 2.5)).is_constant
    assert not compressed(pool, values=(np.nan, np.nan, np.nan)).is_constant


def test_rows_keep_their_arrays_alive(pool):
    X = np.ones((4, 3))
    indices = np.array([0, 1], dtype=np.int32)
    watched = [weakref.ref(X), weakref.ref(indices)]
    kept = [
        _native.Rows.dense(X),
        _native.Rows.compressed(pool, np.arange(3, dtype=np.int32), indices, None, 1.0, True, 2),
    ]
    del X, indices
    gc.collect()
    assert all(ref() is not None for ref in watched)
    del kept
    gc.collect()
    assert all(ref() is None for ref in watched)


def test_values_beyond_the_last_offset_are_not_read(pool):
    """SciPy leaves spare room behind the last entry of a matrix it has shrunk."""
    rows = compressed(pool, indptr=(0, 1, 2), values=(1.0, 2.0, np.nan))
    assert _native.inspect_rows(pool, rows, None) == (True, True, 5.0)


def test_empty_matrices_are_legal(pool):
    for rows in (
        _native.Rows.dense(np.empty((0, 3))),
        compressed(pool, indptr=(0,), indices=(), values=()),
        compressed(pool, indptr=(0, 0, 0), indices=(), values=None),
    ):
        assert _native.inspect_rows(pool, rows, None) == (True, True, 0.0)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(indices=(0, 5, 1)), r"\[0, 5\), got 5"),
        (dict(indices=(0, -1, 1)), r"\[0, 5\), got -1"),
        (dict(indptr=(1, 2, 3)), "start with 0, got 1"),
        (dict(indptr=(0, 3, 2)), "must not decrease"),
        (dict(indptr=(0, 2, 4)), "ends at 4, but only 3"),
        (dict(indptr=(0, -2, 3)), "must not decrease"),
        (dict(indptr=()), "at least 1 element"),
        (dict(values=(1.0, 2.0)), "expected 3 elements as indptr says, got 2"),
        (dict(is_float64=False), "values: .*float32"),
        (dict(values=(1, 2, 3)), "values: .*float64"),
        (dict(n_cols=0), r"\[0, 0\), got 0"),
        (dict(n_cols=-1), "-1"),
    ],
)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_broken_compressed_rows_are_refused(index, changed, message, n_threads):
    with pytest.raises(ValueError, match=message):
        compressed(_native.ThreadPool(n_threads), index=index, **changed)


@pytest.mark.parametrize(
    "changed",
    [
        dict(indices=np.array([0.0, 4.0, 1.0])),
        dict(indices=np.array([0, 4, 1], dtype=np.uint32)),
        dict(indices=np.array([0, 4, 1], dtype=np.int16)),
        dict(indices=np.array([0, 9, 4, 9, 1, 9], dtype=np.int32)[::2]),
        dict(indptr=np.array([0, 9, 2, 9, 3, 9], dtype=np.int32)[::2]),
        dict(indptr=np.array([0, 2, 3], dtype=np.int64)),
        dict(values=np.array([1.0, 9.0, 2.0, 9.0, 3.0, 9.0])[::2]),
        dict(values=np.array([1, 2, 3])),
    ],
    ids=str,
)
def test_compressed_arrays_of_another_kind_are_refused(pool, changed):
    arguments = dict(
        indptr=np.array([0, 2, 3], dtype=np.int32),
        indices=np.array([0, 4, 1], dtype=np.int32),
        values=np.array([1.0, 2.0, 3.0]),
    )
    with pytest.raises(ValueError, match="expected"):
        _native.Rows.compressed(
            pool, **(arguments | changed), constant=1.0, is_float64=True, n_cols=5
        )


def test_message_about_a_wrong_index_type_names_the_type_it_wants(pool):
    indptr = np.array([0, 2, 3], dtype=np.int32)
    indices = np.array([0, 4, 1], dtype=np.int64)
    with pytest.raises(ValueError, match="indptr: expected a contiguous vector of int64"):
        _native.Rows.compressed(pool, indptr, indices, None, 1.0, True, 5)


@pytest.mark.parametrize(
    "values",
    [
        np.ones(3),
        np.ones((2, 2, 2)),
        np.ones((2, 2), dtype=np.float16),
        np.ones((2, 2), dtype=np.longdouble),
        np.ones((2, 2), dtype=np.int64),
        np.ones((2, 2), dtype=np.complex128),
        np.ones((2, 2), dtype=np.dtype(np.float64).newbyteorder()),
        np.zeros((2, 2), dtype=[("a", np.float64), ("b", np.int8)])["a"],
        np.array([["a", "b"]]),
        np.zeros(33, dtype=np.uint8)[1:].view(np.float64).reshape(2, 2),
        [[1.0, 2.0]],
        None,
    ],
    ids=[
        "vector",
        "cube",
        "float16",
        "longdouble",
        "integer",
        "complex",
        "swapped bytes",
        "strides of broken items",
        "text",
        "misaligned",
        "list",
        "None",
    ],
)
def test_dense_values_of_another_kind_are_refused(values):
    with pytest.raises((ValueError, TypeError)):
        _native.Rows.dense(values)


def test_centre_refuses_what_does_not_fit(dtype, pool):
    rows = _native.Rows.dense(np.ones((4, 3), dtype=dtype))
    for mean in (np.zeros(2, dtype), np.zeros(4, dtype), np.zeros(3, np.float16)):
        with pytest.raises(ValueError, match="mean"):
            rows.centre(mean)
    with pytest.raises(ValueError, match="expected dense rows"):
        compressed(pool).centre(np.zeros(5))
