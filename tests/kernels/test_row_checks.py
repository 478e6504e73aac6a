"""What is refused before a sweep, and what is measured of the rows."""

import numpy as np
import pytest
from reference.data import make_weights, rounding

from snapml.kernels.matrices.device_matrix import DeviceMatrix
from snapml.kernels.matrices.layouts import CompressedRows
from snapml.kernels.matrices.row_checks import has_legal_indices, inspect_rows

from .descent_case import LAYOUTS, make_device_matrix
from .emulator import EmulatedDevice
from .test_adjoint import make_case


def compressed(indptr, indices, n_columns=3):
    index = np.array(indices, np.int32)
    rows = CompressedRows(np.array(indptr, np.int32), index, np.ones(len(index)), n_columns)
    return DeviceMatrix(rows)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_weighted", [True, False])
def test_norms_and_sums_are_those_of_the_rows_that_the_descent_sees(layout, is_weighted):
    X = make_case(layout)
    matrix = make_device_matrix(X, layout, np.dtype(np.float64))
    seen = X if matrix.mean is None else X - matrix.mean
    c = make_weights(len(X)) if is_weighted else np.full(len(X), 0.5)
    facts = inspect_rows(EmulatedDevice(), matrix, c if is_weighted else None, 0.5)
    squares = (seen**2).sum(axis=1)
    tolerance = 100 * rounding(np.dtype(np.float64))
    np.testing.assert_allclose(facts.norms_sq, squares, rtol=tolerance)
    found = facts.norm_sq_sum, facts.weighted_norm_sq_sum, facts.weight_sum
    np.testing.assert_allclose(found, [squares.sum(), c @ squares, c.sum()], rtol=tolerance)
    assert facts.is_finite
    assert facts.is_sorted


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("layout", ["dense", "int32"])
def test_entry_that_is_not_a_number_is_seen(layout, wrong):
    X = make_case(layout)
    X[17, 33] = wrong
    matrix = make_device_matrix(X, layout, np.dtype(np.float32))
    assert not inspect_rows(EmulatedDevice(), matrix, None, 1.0).is_finite


@pytest.mark.parametrize(
    ("indices", "is_sorted"), [([0, 2, 1], True), ([2, 0, 1], False), ([1, 1, 0], False)]
)
def test_indices_in_order_are_told_from_others(indices, is_sorted):
    facts = inspect_rows(EmulatedDevice(), compressed([0, 2, 3], indices), None, 1.0)
    assert facts.is_sorted is is_sorted


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([1, 2, 3], [0, 1, 2]),
        ([0, 3, 2], [0, 1, 2]),
        ([0, 2, 4], [0, 1, 2]),
        ([0, -1, 3], [0, 1, 2]),
        ([0, 2, 3], [0, 3, 2]),
        ([0, 2, 3], [0, 1, -1]),
    ],
)
def test_indices_outside_the_matrix_are_seen(indptr, indices):
    assert has_legal_indices(EmulatedDevice(), compressed([0, 2, 3], [0, 1, 2]))
    assert not has_legal_indices(EmulatedDevice(), compressed(indptr, indices))
