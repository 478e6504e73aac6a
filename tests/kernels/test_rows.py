"""Norms and margins against plain NumPy, in every layout."""

import numpy as np
import pytest
from reference.data import rounding

from snapml.kernels.products import rows

from .layouts import LAYOUTS, SHAPES, make_matrix


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norms_are_those_of_the_rows(device, shape, dtype):
    matrix, X = make_matrix("dense", dtype, *shape)
    found = rows.row_norms_sq(device, matrix)
    np.testing.assert_allclose(found, (X**2).sum(axis=1), rtol=100 * rounding(np.float64))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_margins_are_rows_times_coefficients(device, layout, shape, dtype):
    matrix, X = make_matrix(layout, dtype, *shape)
    coef = np.random.default_rng(0).normal(size=(3, shape[1] + 1)).astype(dtype)
    found = rows.margins(device, matrix, coef, 0.5)
    exact = coef[:, :-1].astype(float) @ X.T + 0.5 * coef[:, -1:].astype(float)
    np.testing.assert_allclose(found, exact, atol=100 * rounding(dtype))


def test_wrong_arrays_are_refused_with_what_was_expected(device):
    matrix, _ = make_matrix("dense", np.dtype(np.float32), 4, 3)
    with pytest.raises(ValueError, match=r"coef: expected shape \(None, 4\), got \(1, 3\)"):
        rows.margins(device, matrix, np.zeros((1, 3)), 0.0)
    with pytest.raises(TypeError, match="coef: expected float32 or float64, got int64"):
        rows.margins(device, matrix, np.zeros((1, 4), np.int64), 0.0)
    with pytest.raises(ValueError, match="coef: expected C order"):
        rows.margins(device, matrix, np.zeros((4, 2)).T, 0.0)
