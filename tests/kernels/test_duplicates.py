"""Entries stored twice, added up on the device."""

import numpy as np
import pytest
from reference.data import rounding
from scipy.sparse import csr_matrix

from snapml.kernels.matrices.layouts import CompressedRows
from snapml.kernels.products.duplicates import summed_rows

from .emulator.strict_arrays import DeviceArray, StrictDevice


def stored_at_random(n_rows, n_columns, n_stored, index):
    """Return offsets and columns: every row in any order, with columns repeated."""
    rng = np.random.default_rng(5)
    row_of = np.sort(rng.integers(n_rows, size=n_stored))
    indptr = np.searchsorted(row_of, np.arange(n_rows + 1)).astype(index)
    return indptr, rng.integers(n_columns, size=n_stored).astype(index)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("has_values", [True, False])
def test_sums_are_scipys(index, has_values, dtype):
    indptr, indices = stored_at_random(40, 9, 300, index)
    values = np.random.default_rng(6).normal(size=300).astype(dtype)
    stored = values if has_values else np.full(300, 0.5, dtype)
    parts = (stored.astype(np.float64), indices, indptr)
    expected = csr_matrix(parts, shape=(40, 9), copy=True)
    expected.sum_duplicates()
    arrays = [DeviceArray(indptr), DeviceArray(indices)]
    matrix = CompressedRows(*arrays, DeviceArray(values) if has_values else None, 9, 0.5, dtype)
    found = summed_rows(StrictDevice(), matrix)
    np.testing.assert_array_equal(found.indptr._data, expected.indptr)
    np.testing.assert_array_equal(found.indices._data, expected.indices)
    tolerance = 10 * rounding(np.dtype(dtype))
    np.testing.assert_allclose(found.values._data, expected.data, rtol=tolerance, atol=tolerance)
    assert found.dtype == dtype
    assert found.indptr.dtype == found.indices.dtype == index


def test_rows_without_entries_stay_empty():
    indptr, indices = np.array([0, 0, 3, 3, 3], np.int32), np.array([2, 2, 0], np.int32)
    values = DeviceArray(np.array([1.0, 2.0, 4.0]))
    matrix = CompressedRows(DeviceArray(indptr), DeviceArray(indices), values, 3)
    found = summed_rows(StrictDevice(), matrix)
    np.testing.assert_array_equal(found.indptr._data, [0, 0, 2, 2, 2])
    np.testing.assert_array_equal(found.indices._data, [0, 2])
    np.testing.assert_array_equal(found.values._data, [4.0, 3.0])
