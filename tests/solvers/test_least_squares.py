"""Least squares by every route against plain NumPy: normal equations, SVD, LSQR, non-negative."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import csr_matrix, issparse

from snapml.data import CompressedMatrix, DenseMatrix
from snapml.solvers.least_squares import centered_rows, few_columns, least_squares
from snapml.solvers.least_squares.centered_rows import CenteredRows
from snapml.solvers.least_squares.exact_sums import sum_with_products
from snapml.solvers.least_squares.least_squares import solve_least_squares
from snapml.solvers.least_squares.nonnegative import nonnegative_lower_bound


@pytest.fixture(autouse=True)
def large(monkeypatch):
    """Treat these rows as if they were many: small ones are one call, or made dense."""
    monkeypatch.setattr(few_columns, "MOST_COLUMNS", 0)
    monkeypatch.setattr(centered_rows, "_WIDE_AT_ONCE", 0)


def as_matrix(X, layout, dtype=np.float64):
    if layout == "csr":
        sparse = csr_matrix(X, dtype=dtype)
        return CompressedMatrix(sparse.indptr, sparse.indices, X.shape[1], sparse.data)
    return DenseMatrix(np.asarray(X, dtype=dtype, order=layout))


def example(n_rows, n_features, rank=None, seed=0):
    """Return rows away from the origin, three targets, and weights of which one is zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.7)
    if rank is not None:
        X = rng.normal(size=(n_rows, rank)) @ rng.normal(size=(rank, n_features))
    Y = X @ rng.normal(size=(n_features, 3)) + rng.normal(size=(n_rows, 3)) + 5.0
    weights = rng.random(n_rows) + 0.1
    weights[n_rows // 2] = 0.0
    return X + 0.5, Y, weights


def oracle(X, Y, weights, fit_intercept, alphas):
    """Return coefficients, intercepts and objectives by lstsq on stacked, centred data."""
    s = np.ones(len(X)) if weights is None else weights
    x_mean = s @ X / s.sum() if fit_intercept else np.zeros(X.shape[1])
    y_mean = s @ Y / s.sum() if fit_intercept else np.zeros(Y.shape[1])
    root = np.sqrt(s)[:, np.newaxis]
    coefs, objectives = [], []
    for target, alpha in enumerate(np.broadcast_to(alphas, Y.shape[1])):
        rows = np.vstack([root * (X - x_mean), np.sqrt(alpha) * np.eye(X.shape[1])])
        rhs = np.append(root[:, 0] * (Y - y_mean)[:, target], np.zeros(X.shape[1]))
        coef = np.linalg.lstsq(rows, rhs, rcond=1e-10)[0]
        coefs.append(coef)
        objectives.append(np.sum((rows @ coef - rhs) ** 2) / 2)
    coef = np.array(coefs)
    return coef, y_mean - coef @ x_mean, np.array(objectives)


@pytest.mark.parametrize("layout", ["C", "F", "csr"])
@pytest.mark.parametrize(
    "alphas", [0.0, 0.3, np.array([0.0, 1.0, 20.0]), np.array([2.0, 1.0, 1.0])]
)
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(60, 7), (7, 60), (30, 30)])
def test_every_shape_and_penalty_agrees_with_lstsq(
    shape, fit_intercept, is_weighted, alphas, layout
):
    X, Y, weights = example(*shape)
    weights = weights if is_weighted else None
    result = solve_least_squares(
        as_matrix(X, layout), Y, weights, fit_intercept, alphas=alphas, tol=1e-12
    )
    coef, intercept, objective = oracle(X, Y, weights, fit_intercept, alphas)
    np.testing.assert_allclose(result.coef, coef, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(result.intercept, intercept, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(result.objective, objective, rtol=1e-8, atol=1e-12)
    assert (result.gap <= 1e-12 * (objective + 1)).all()


@pytest.mark.parametrize("layout", ["C", "csr"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("shape", "rank"), [((60, 8), 3), ((8, 60), 3)])
def test_deficient_rank_gives_the_model_of_least_norm(shape, rank, fit_intercept, layout):
    X, Y, _ = example(*shape, rank=rank)
    result = solve_least_squares(as_matrix(X, layout), Y, None, fit_intercept)
    coef, _, _ = oracle(X, Y, None, fit_intercept, 0.0)
    np.testing.assert_allclose(result.coef, coef, rtol=1e-7, atol=1e-9)
    assert result.rank == rank + (not fit_intercept)
    is_wide = shape[0] < shape[1]
    side = "rows" if is_wide else "columns"
    assert result.description == f"eigenvectors of the {side}' products, refined"
    assert (result.gap <= 1e-12 * (result.objective + 1.0)).all()


@pytest.mark.parametrize("n_features", [7, 90])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_sparse_data_too_large_to_be_made_dense_agree(is_weighted, alpha, n_features, monkeypatch):
    X, Y, weights = example(60, n_features)
    weights = weights if is_weighted else None
    expected = solve_least_squares(as_matrix(X, "C"), Y, weights, True, alphas=alpha)
    monkeypatch.setattr(centered_rows, "_DENSE_ENTRIES", 0)
    for order in (4096, 1):
        monkeypatch.setattr(least_squares, "_MAX_FACTORED", order)
        result = solve_least_squares(as_matrix(X, "csr"), Y, weights, True, alphas=alpha, tol=1e-13)
        np.testing.assert_allclose(result.coef, expected.coef, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(result.intercept, expected.intercept, rtol=1e-6)
    assert result.description == "LSQR"


@pytest.mark.parametrize("layout", ["C", "csr"])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("shape", [(60, 7), (7, 20)])
def test_positive_models_agree_with_nnls(shape, alpha, layout):
    X, Y, weights = example(*shape)
    result = solve_least_squares(
        as_matrix(X, layout), Y, weights, True, alphas=alpha, is_positive=True
    )
    root = np.sqrt(weights)[:, np.newaxis]
    x_mean, y_mean = weights @ X / weights.sum(), weights @ Y / weights.sum()
    rows = np.vstack([root * (X - x_mean), np.sqrt(alpha) * np.eye(shape[1])])
    rhs = np.vstack([root * (Y - y_mean), np.zeros((shape[1], 3))])
    for target in range(3):
        expected = nnls(rows, rhs[:, target])[0]
        fitted = np.sum((rows @ result.coef[target] - rhs[:, target]) ** 2)
        best = np.sum((rows @ expected - rhs[:, target]) ** 2)
        assert fitted <= best * (1 + 1e-9) + 1e-12
    assert (result.coef >= 0).all()
    if alpha > 0:
        assert (result.gap <= 1e-9 * result.objective).all()


def test_badly_scaled_columns_lose_no_digits():
    X, Y, _ = example(200, 6)
    scale = 10.0 ** np.arange(-6, 12, 3)
    result = solve_least_squares(DenseMatrix(X * scale), Y, None, True)
    expected = solve_least_squares(DenseMatrix(X), Y, None, True)
    np.testing.assert_allclose(result.coef * scale, expected.coef, rtol=1e-8)


def test_float32_model_is_the_float64_model_rounded_and_its_gap_says_so():
    X, Y, _ = example(200, 6)
    rounded = X.astype(np.float32)
    result = solve_least_squares(DenseMatrix(rounded), Y, None, True)
    exact = solve_least_squares(DenseMatrix(rounded.astype(np.float64)), Y, None, True)
    assert result.coef.dtype == np.float32
    np.testing.assert_array_equal(result.coef, exact.coef.astype(np.float32))
    distance = result.objective - exact.objective
    np.testing.assert_allclose(result.gap, distance, rtol=0.1, atol=1e-13 * exact.objective.max())


@pytest.mark.parametrize("layout", ["C", "csr"])
def test_blocks_of_rows_give_what_the_whole_gives(layout, monkeypatch):
    X, Y, weights = example(1000, 5)
    matrix = as_matrix(X, layout)
    whole = solve_least_squares(matrix, Y, weights, True, alphas=1.0)
    monkeypatch.setattr(centered_rows, "_BLOCK_ENTRIES", 1)
    parts = solve_least_squares(matrix, Y, weights, True, alphas=1.0)
    np.testing.assert_allclose(parts.coef, whole.coef, rtol=1e-12)
    assert not issparse(parts.coef)


@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_bound_of_non_negative_least_squares_is_below_the_minimum_and_tight_at_it(
    seed, has_intercept
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 8))
    X = np.column_stack([X, 2 * X[:, 0], X[:, 1] + X[:, 2], np.ones(50)])
    y = X[:, :8] @ rng.normal(size=8) + rng.normal(size=50)
    rows = CenteredRows(DenseMatrix(X), None, has_intercept)
    target = rows.center(y.reshape(-1, 1))[0].ravel()
    A = rows.toarray()
    squares = np.sum(A**2, axis=0)
    best, residual_norm = nnls(A, target)
    least = residual_norm**2 / 2
    bound = nonnegative_lower_bound(rows, squares, target, target - A @ best)
    assert least - 1e-12 * (target @ target) <= bound <= least + 1e-12 * (target @ target)
    for size in (1e-9, 1e-4, 1e-1, 10.0):
        other = np.maximum(0, best + size * rng.normal(size=len(best)))
        bound = nonnegative_lower_bound(rows, squares, target, target - A @ other)
        assert bound <= least + 1e-12 * (target @ target)


def thin_rows(n_rows=400, n_columns=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.05)
    return X, X[:, :5].sum(axis=1) + rng.standard_normal(n_rows)


@pytest.mark.parametrize("is_wide", [False, True], ids=["tall", "wide"])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_thin_rows_are_multiplied_as_they_are(alpha, is_wide):
    X, y = thin_rows(*((40, 90) if is_wide else (400, 60)))
    weights = np.random.default_rng(1).random(len(y))
    rows = CenteredRows(as_matrix(X, "csr"), weights, True)
    assert rows.stays_sparse
    found, dense = (
        solve_least_squares(
            as_matrix(X, layout), y[:, None], weights, True, alphas=alpha, tol=1e-17
        )
        for layout in ("csr", "C")
    )
    np.testing.assert_allclose(found.coef, dense.coef, atol=1e-8)
    np.testing.assert_allclose(found.objective, dense.objective, rtol=1e-9, atol=1e-18)


def one_hot(n_rows, sizes, seed=0):
    """Return indicators of factors, which add up to one for each, and targets."""
    rng = np.random.default_rng(seed)
    X = np.hstack([np.eye(size)[rng.integers(0, size, n_rows)] for size in sizes])
    return X, X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(n_rows)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_dependent_columns_of_sparse_rows_get_the_model_of_least_norm(is_weighted, fit_intercept):
    X, y = one_hot(500, (30, 20, 10))
    weights = np.random.default_rng(1).random(500) + 0.1 if is_weighted else None
    found = solve_least_squares(as_matrix(X, "csr"), y[:, None], weights, fit_intercept)
    assert found.description == "LSQR, dependent columns"
    coef, intercept, objective = oracle(X, y[:, None], weights, fit_intercept, 0.0)
    np.testing.assert_allclose(found.coef, coef, atol=1e-9)
    np.testing.assert_allclose(found.intercept, intercept, atol=1e-9)
    assert 0.0 <= found.gap[0] <= 1e-12 * objective[0]
    assert found.objective[0] == pytest.approx(objective[0], rel=1e-12)


def test_certificate_of_dependent_columns_bounds_what_steps_have_left(monkeypatch):
    X, y = one_hot(500, (30, 20, 10))
    monkeypatch.setattr(least_squares, "_TINY", 1e-2)
    found = solve_least_squares(as_matrix(X, "csr"), y[:, None], None, True)
    *_, objective = oracle(X, y[:, None], None, True, 0.0)
    assert found.objective[0] - found.gap[0] <= objective[0] * (1.0 + 1e-12)
    assert found.gap[0] <= 2.1 * (found.objective[0] - objective[0])


def test_steps_that_are_too_many_are_left_to_factors(monkeypatch):
    monkeypatch.setattr(least_squares, "_FEW_STEPS", 2)
    X, y = one_hot(500, (30, 20, 10))
    tall = solve_least_squares(as_matrix(X, "csr"), y[:, None], None, True)
    assert tall.description == "eigenvectors of the columns' products, refined"
    np.testing.assert_allclose(tall.coef, oracle(X, y[:, None], None, True, 0.0)[0], atol=1e-8)
    X, y = one_hot(40, (100, 60))
    X[1] = X[0]  # dependent rows have no factor
    wide = solve_least_squares(as_matrix(X, "csr"), y[:, None], None, True)
    assert wide.description == "eigenvectors of the rows' products, refined"
    np.testing.assert_allclose(wide.coef, oracle(X, y[:, None], None, True, 0.0)[0], atol=1e-8)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_rows_that_steps_do_not_interpolate_are_by_a_factor(
    monkeypatch, is_weighted, fit_intercept
):
    monkeypatch.setattr(least_squares, "_FEW_STEPS", 2)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 90)) * (rng.random((50, 90)) < 0.2)
    Y, weights = rng.normal(size=(50, 2)) + 2.0, rng.random(50) + 0.1 if is_weighted else None
    found = solve_least_squares(as_matrix(X, "csr"), Y, weights, fit_intercept)
    name = "normal equations of the rows (Cholesky), which interpolates them"
    assert found.description == name
    coef, intercept, _ = oracle(X, Y, weights, fit_intercept, 0.0)
    np.testing.assert_allclose(found.coef, coef, atol=1e-9)
    np.testing.assert_allclose(found.intercept, intercept, atol=1e-9)
    assert (found.objective <= 1e-20 * np.sum(Y**2, axis=0)).all()


def test_small_sparse_rows_are_made_dense(monkeypatch):
    X, _ = thin_rows()
    assert CenteredRows(as_matrix(X, "csr"), None, True).stays_sparse
    monkeypatch.setattr(centered_rows, "_WIDE_AT_ONCE", X.size)
    assert not CenteredRows(as_matrix(X, "csr"), None, True).stays_sparse


def test_rows_of_no_clear_rank_are_decomposed():
    X, Y, _ = example(8, 60)
    X[1] = X[0] + 1e-6 * X[2]  # a singular value that squares cannot tell from zero
    found = solve_least_squares(as_matrix(X, "C"), Y, None, True, tol=1e-9)
    assert found.description == "singular value decomposition"
    assert found.rank == 7
    np.testing.assert_allclose(X @ found.coef.T + found.intercept, Y, atol=1e-6)


@pytest.mark.parametrize(("beside", "rank"), [(3e-6, 8), (1e-9, 7)])
def test_columns_of_no_clear_rank_are_decomposed(beside, rank):
    # Near `tol` their products cannot tell; below it the rows have a length where these are zero.
    X, Y, _ = example(60, 8)
    X[:, 1] = X[:, 0] + beside * np.random.default_rng(1).normal(size=60)
    found = solve_least_squares(as_matrix(X, "C"), Y, None, True, tol=1e-6)
    assert found.description == "singular value decomposition"
    assert found.rank == rank


def test_no_gap_is_more_than_the_objective(monkeypatch):
    monkeypatch.setattr(centered_rows, "_DENSE_ENTRIES", 0)
    monkeypatch.setattr(least_squares, "_MAX_FACTORED", 1)
    X, Y, _ = example(60, 7)
    found = solve_least_squares(as_matrix(X, "csr"), Y, None, True)
    assert found.description == "LSQR"
    np.testing.assert_array_equal(found.gap, found.objective)


def test_a_column_far_from_zero_is_centred_before_products():
    X, _ = thin_rows()
    X[:, 7] = 1e6 + X[:, 8]
    assert not CenteredRows(as_matrix(X, "csr"), None, True).stays_sparse


def test_many_dependent_rows_are_reduced_first():
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 5, size=(300, 2))
    X = np.hstack([np.eye(5)[levels[:, 0]], np.eye(5)[levels[:, 1]]])
    y = rng.standard_normal(300)
    found = solve_least_squares(as_matrix(X, "C"), y[:, None], None, True)
    centred = X - X.mean(axis=0)
    expected = np.linalg.pinv(centred) @ (y - y.mean())
    np.testing.assert_allclose(found.coef[0], expected, atol=1e-10)
    reduced, _ = CenteredRows(as_matrix(X, "C"), None, True).reduced(np.zeros((300, 1)))
    assert reduced.shape == (11, 10)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_that_are_few_are_solved_by_steps_along_them(dtype, is_weighted, fit_intercept):
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(50, 400)) * (rng.random((50, 400)) < 0.05)).astype(dtype)
    Y, weights = rng.normal(size=(50, 2)) + 2.0, rng.random(50) if is_weighted else None
    alphas, matrix = np.array([0.5, 3.0]), as_matrix(X, "csr", dtype)
    found = solve_least_squares(matrix, Y, weights, fit_intercept, alphas=alphas, tol=1e-6)
    assert found.description == "conjugate gradients along the rows"
    exact = solve_least_squares(matrix, Y, weights, fit_intercept, alphas=alphas, tol=0.0)
    assert exact.description == "normal equations of the rows (Cholesky), refined"
    assert (found.gap <= 1e-6 * found.objective).all()
    beside = found.objective - exact.objective
    assert (beside >= -exact.gap - 1e-12 * found.objective).all()
    assert (beside <= found.gap + 1e-12 * found.objective).all()
    np.testing.assert_allclose(found.coef, exact.coef, atol=2e-3)


def test_steps_along_rows_that_are_too_many_are_left_to_a_factor(monkeypatch):
    monkeypatch.setattr(least_squares, "_FEW_STEPS", 2)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 400)) * (rng.random((50, 400)) < 0.05)
    found = solve_least_squares(
        as_matrix(X, "csr"), rng.normal(size=(50, 1)), None, True, alphas=1e-3, tol=1e-8
    )
    assert found.description == "normal equations of the rows (Cholesky), refined"


@pytest.mark.parametrize("size", [3, 257, 5000])
def test_sums_of_products_that_cancel_keep_twice_the_digits(size):
    rng = np.random.default_rng(size)
    first = rng.normal(size=size) * 10.0 ** rng.integers(-8, 8, size)
    second = rng.normal(size=size) * (rng.random(size) < 0.7)
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    exact = sum(Fraction(a) * Fraction(b) for a, b in pairs)
    near = -float(exact)
    found = sum_with_products([near], first, second)
    assert abs(found - float(exact + Fraction(near))) <= 1e-30 * abs(near)
    first[-1], second[-1] = np.inf, 0.0
    assert np.isnan(sum_with_products([near], first, second))
