"""X w and X^T beta in float64, against plain NumPy and to the same bits every time."""

import numpy as np
import pytest
from reference.data import make_rows, rounding

from snapml.kernels.products.adjoint import ExactProducts

from .descent_case import CONSTANT_ENTRY, LAYOUTS, make_device_matrix
from .emulator import EmulatedDevice

EPS = rounding(np.dtype(np.float64))


def make_case(layout, n_rows=45, n_features=40):
    X = make_rows(n_rows, n_features, density=1.0 if layout in ("dense", "centred") else 0.4)
    return np.where(X != 0, CONSTANT_ENTRY, 0.0) if layout == "constant" else X


def sweep(X, layout, model, beta, bias=0.0, dtype="float32", **device):
    matrix = make_device_matrix(X, layout, np.dtype(dtype))
    margins = np.empty(len(X))
    reach = float(np.abs(beta).sum() * np.linalg.norm(X, axis=1).max(initial=0.0))
    products = ExactProducts(EmulatedDevice(**device), matrix)
    adjoint = products.sweep(model.astype(dtype), bias, margins, beta, reach)
    return margins, adjoint


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_rows", [0, 1, 45, 600])
def test_products_are_those_of_the_rows_as_they_are(layout, n_rows):
    """Without the mean, and with more rows than a piece of a dense column has."""
    X = make_case(layout, n_rows, 40 if n_rows < 600 else 3)
    model = np.linspace(-1, 1, X.shape[1] + 1).astype(np.float32)
    beta = np.random.default_rng(0).normal(size=n_rows)
    margins, adjoint = sweep(X, layout, model, beta, bias=0.5)
    exact = X @ model[:-1].astype(np.float64) + 0.5
    np.testing.assert_allclose(margins, exact, atol=100 * EPS)
    bound = np.abs(X).T @ np.abs(beta)
    assert np.all(np.abs(adjoint - X.T @ beta) <= 10 * EPS * bound)


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_small_terms_survive_beside_large_ones(size):
    """A column of small betas keeps its digits though another row's is 2^40 times larger."""
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    beta = size * np.array([2.0**40, 1.0 + 2.0**-30, -0.25])
    _, adjoint = sweep(X, "int32", np.zeros(2), beta, dtype="float64")
    np.testing.assert_allclose(adjoint, X.T @ beta, rtol=4 * EPS)


@pytest.mark.parametrize("layout", ["dense", "int32"])
def test_products_have_the_same_bits_whatever_the_order_of_threads(layout):
    X = make_case(layout, 300, 5)
    beta = np.random.default_rng(0).normal(size=300) * np.geomspace(1e-9, 1e9, 300)
    found = {
        sweep(X, layout, np.ones(5), beta, **options)[1].tobytes()
        for options in (dict(n_workers=1), dict(n_workers=4, seed=3), dict(n_workers=3, seed=4))
    }
    assert len(found) == 1
