"""Compressed rows over the caller's own arrays."""

import dataclasses

import numpy as np
import pytest
from reference.data import make_rows
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix
from snapml.solvers.rows.cpu_rows import margins

INDPTR = np.array([0, 2, 2, 5])
INDICES = np.array([3, 0, 1, 2, 1])
DENSE = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 2, 1, 0]])


def as_dense(matrix):
    """Return the matrix as the engine multiplies with it."""
    columns = np.eye(matrix.n_features, dtype=matrix.dtype)
    return np.column_stack([margins(matrix, column, 0.0) for column in columns])


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_arrays_of_one_index_type_are_kept_as_they_are(dtype, index):
    indptr, indices, values = INDPTR.astype(index), INDICES.astype(index), np.ones(5, dtype)
    matrix = CompressedMatrix(indptr, indices, 4, values)
    assert matrix.indptr is indptr
    assert matrix.indices is indices
    assert matrix.values is values
    assert (matrix.shape, matrix.n_stored, matrix.dtype) == ((3, 4), 5, dtype)


@pytest.mark.parametrize("types", [(np.int32, np.int64), (np.int64, np.int32)], ids=str)
def test_index_types_that_differ_become_the_wider(types):
    matrix = CompressedMatrix(INDPTR.astype(types[0]), INDICES.astype(types[1]), 4)
    assert matrix.indptr.dtype == matrix.indices.dtype == np.int64
    np.testing.assert_array_equal(as_dense(matrix), DENSE)


def test_type_of_the_values_is_the_type_to_compute_in(dtype):
    assert CompressedMatrix(INDPTR, INDICES, 4, np.ones(5, dtype)).dtype == dtype
    assert CompressedMatrix(INDPTR, INDICES, 4, dtype=dtype).dtype == dtype
    assert CompressedMatrix(INDPTR, INDICES, 4).dtype == np.float32


def test_missing_values_are_ones(dtype):
    without = CompressedMatrix(INDPTR, INDICES, 4, dtype=dtype)
    with_ones = CompressedMatrix(INDPTR, INDICES, 4, np.ones(5, dtype))
    np.testing.assert_array_equal(as_dense(without), DENSE)
    np.testing.assert_array_equal(as_dense(with_ones), DENSE)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(indptr=INDPTR.astype(float)), "indptr: expected .* got float64"),
        (dict(indices=INDICES.astype(np.uint32)), "indices: expected .* got uint32"),
        (dict(indptr=[0, 2, 2, 5]), "indptr: expected .* got list"),
        (dict(indices=None), "indices: expected .* got NoneType"),
        (dict(values=np.ones(5, np.int64)), "values: expected .* got int64"),
        (dict(values=np.ones(5, np.float16)), "values: expected .* got float16"),
        (dict(values=[1.0] * 5), "values: expected .* got list"),
        (dict(n_features=4.0), "n_features: expected an integer, got 4.0"),
        (dict(n_features=True), "n_features: expected an integer, got True"),
        (dict(dtype=np.int32), "expected dtype float32 or float64, got int32"),
        (dict(values=np.ones(5), dtype=np.float32), "values: expected dtype float32, got float64"),
    ],
)
def test_arrays_of_other_types_are_refused(changed, message):
    with pytest.raises(TypeError, match=message):
        CompressedMatrix(**(dict(indptr=INDPTR, indices=INDICES, n_features=4) | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(indptr=INDPTR[:0]), "indptr: expected at least 1 element, got 0"),
        (dict(indptr=INDPTR[None]), r"indptr: expected 1 dimension, got shape \(1, 4\)"),
        (dict(indices=INDICES[:, None]), r"indices: expected 1 dimension, got shape \(5, 1\)"),
        (dict(values=np.ones((5, 1))), r"values: expected 1 dimension, got shape \(5, 1\)"),
        (dict(n_features=-1), "n_features: expected at least 0, got -1"),
    ],
)
def test_arrays_of_other_shapes_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        CompressedMatrix(**(dict(indptr=INDPTR, indices=INDICES, n_features=4) | changed))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("has_values", [False, True])
def test_summed_adds_up_what_is_stored_twice(dtype, index, has_values):
    values = np.array([1, 2, 3, 4, 5], dtype) if has_values else None
    indptr, indices = INDPTR.astype(index), INDICES.astype(index)
    matrix = CompressedMatrix(indptr, indices, 4, values, dtype)
    summed = matrix.summed()
    np.testing.assert_array_equal(as_dense(summed), as_dense(matrix))
    assert summed.n_stored == 4
    assert summed.dtype == dtype
    assert summed.indices.dtype == summed.indptr.dtype == index
    for first, last in zip(summed.indptr[:-1], summed.indptr[1:], strict=True):
        assert np.all(np.diff(summed.indices[first:last]) > 0)
    # The caller's arrays are as they were.
    np.testing.assert_array_equal(indices, INDICES)
    np.testing.assert_array_equal(indptr, INDPTR)


def test_scipy_matrix_round_trips(dtype):
    X = make_rows(30, 7, density=0.3).astype(dtype)
    stored = csr_matrix(X)
    matrix = CompressedMatrix(stored.indptr, stored.indices, 7, stored.data)
    assert matrix.values is stored.data
    np.testing.assert_array_equal(as_dense(matrix), X)


def test_matrix_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CompressedMatrix(INDPTR, INDICES, 4).n_features = 5
