"""Leave-one-out residuals against the models that were really fitted without the row."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, DenseMatrix
from snapml.solvers.least_squares import centered_rows, leave_one_out, ridge_factor
from snapml.solvers.least_squares.least_squares import solve_least_squares
from snapml.solvers.least_squares.leave_one_out import LeaveOneOut
from snapml.solvers.least_squares.ridge_factor import RidgeFactor

# Too many for a factor of each.
MANY = [10.0**k for k in range(-6, 14)]


def made_up(shape, is_weighted, layout):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=shape) + 1.0, rng.normal(size=(shape[0], 2)) + 3.0
    if layout == "thin":
        X *= rng.random(shape) < 0.15
    weights = np.append(rng.random(shape[0] - 1) + 0.5, 0.0) if is_weighted else None
    if layout == "dense":
        return X, Y, weights, DenseMatrix(X)
    rows = csr_matrix(X)
    return X, Y, weights, CompressedMatrix(rows.indptr, rows.indices, shape[1], rows.data)


def check(left_out, X, Y, weights, fit_intercept, alpha):
    """Compare with a fit for each row that is left out."""
    predictions = left_out.predictions(alpha)
    for row in range(len(X)):
        others = np.arange(len(X)) != row
        model = solve_least_squares(
            DenseMatrix(X[others]),
            Y[others],
            None if weights is None else weights[others],
            fit_intercept,
            alphas=alpha,
        )
        expected = X[row] @ model.coef.T + model.intercept
        np.testing.assert_allclose(predictions[row], expected, rtol=1e-6, atol=1e-6)
    roots = 1.0 if weights is None else np.sqrt(weights)[:, np.newaxis]
    np.testing.assert_allclose(left_out.residuals(alpha), roots * (Y - predictions), atol=1e-6)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("alphas", [[1e-6], [0.1], [10.0], MANY])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("shape", "by_svd"), [((30, 4), False), ((30, 4), True), ((8, 20), False), ((9, 9), False)]
)
def test_predictions_are_those_of_models_without_the_row(
    shape, by_svd, fit_intercept, is_weighted, alphas, layout
):
    X, Y, weights, matrix = made_up(shape, is_weighted, layout)
    left_out = LeaveOneOut(matrix, Y, weights, fit_intercept, alphas, by_svd=by_svd)
    check(left_out, X, Y, weights, fit_intercept, alphas[0])


@pytest.mark.parametrize("alphas", [[0.1], MANY])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test_thin_rows_stay_sparse(monkeypatch, shape, fit_intercept, is_weighted, alphas):
    monkeypatch.setattr(centered_rows, "_WIDE_AT_ONCE", 0)
    X, Y, weights, matrix = made_up(shape, is_weighted, "thin")
    left_out = LeaveOneOut(matrix, Y, weights, fit_intercept, alphas, n_threads=2)
    assert left_out.rows.stays_sparse
    check(left_out, X, Y, weights, fit_intercept, alphas[0])


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
@pytest.mark.parametrize("layout", ["dense", "thin"])
def test_tiny_penalties_are_not_lost_in_a_factor(shape, layout, monkeypatch):
    X, Y, _, matrix = made_up(shape, False, layout)
    factors = []
    monkeypatch.setattr(
        leave_one_out,
        "RidgeFactor",
        lambda *given: factors.append(given),  # must not be called
    )
    alpha = 1e-13 * float(np.sum(X**2))
    left_out = LeaveOneOut(matrix, Y, None, True, [alpha])
    assert np.isfinite(left_out.residuals(alpha)).all()
    assert not factors


def test_a_fit_takes_the_products_of_the_search(monkeypatch):
    _, Y, _, matrix = made_up((20, 60), False, "dense")
    left_out = LeaveOneOut(matrix, Y, None, True, [0.1])
    monkeypatch.setattr(left_out.rows, "toarray", None)
    found = solve_least_squares(matrix, Y, None, True, alphas=0.1, rows=left_out.rows)
    expected = solve_least_squares(matrix, Y, None, True, alphas=0.1)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-10)
    np.testing.assert_allclose(found.intercept, expected.intercept, rtol=1e-10)


@pytest.mark.parametrize("size", [1, 6, 7, 8, 14, 45])
def test_factors_in_blocks_are_those_of_the_whole(size, monkeypatch):
    monkeypatch.setattr(ridge_factor, "_MOST_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(size, 2 * size))
    products, right = rows @ rows.T, rng.normal(size=(size, 2))
    inverse = np.linalg.inv(products + 0.5 * np.eye(size))
    about = {"rtol": 1e-9, "atol": 1e-12}
    factor = RidgeFactor(products, 0.5)
    np.testing.assert_allclose(factor.solve(right), inverse @ right, **about)
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(inverse), **about)
    forms = factor.square_lengths(rows.T, 2)
    np.testing.assert_allclose(forms, np.diag(rows.T @ inverse @ rows), **about)
    upper = RidgeFactor(products, 0.5).upper_inverse()
    np.testing.assert_allclose(np.triu(upper), np.triu(inverse), **about)


def test_what_rounding_has_left_of_a_ridge_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="a ridge of 1e-20 is lost in rounding"):
        RidgeFactor(np.array([[1.0, 2.0], [2.0, 1.0]]), 1e-20)
