"""Least squares of few dense columns in one call, against plain NumPy, and what it leaves."""

import _thread
import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from snapml import LinearRegression, Ridge, RidgeClassifier
from snapml.data import ChunkedMatrix, CompressedMatrix, DenseMatrix
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.least_squares import compiled_sums, few_columns
from snapml.solvers.least_squares.few_columns import solve_few_columns


class _TwoRanks(SerialCommunicator):
    size = 2


def laid_out(X, layout):
    """Return equal rows: side by side, by columns, with gaps, or from the last to the first."""
    if layout == "gaps":
        return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    if layout == "reversed":
        return np.ascontiguousarray(X[::-1])[::-1]
    return np.asarray(X, order=layout)


def problem(n_rows, n_columns, n_targets, dtype, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n_rows, n_columns)) * np.exp(rng.normal(size=n_columns)) + 2.0).astype(
        dtype
    )
    Y = X.astype(float) @ rng.normal(size=(n_columns, n_targets)) + rng.normal(
        size=(n_rows, n_targets)
    )
    weights = rng.random(n_rows) * (rng.random(n_rows) < 0.8) + 0.01
    return X, (Y + 5.0).astype(dtype), weights.astype(dtype)


def oracle(X, Y, weights, has_intercept, alphas):
    """Return models of float64 rows by lstsq on stacked, centred data."""
    s = np.ones(len(X)) if weights is None else weights.astype(float)
    X, Y = X.astype(float), Y.astype(float)
    x_mean = s @ X / s.sum() if has_intercept else np.zeros(X.shape[1])
    y_mean = s @ Y / s.sum() if has_intercept else np.zeros(Y.shape[1])
    root = np.sqrt(s)[:, np.newaxis]
    coefs = []
    for target, alpha in enumerate(alphas):
        rows = np.vstack([root * (X - x_mean), np.sqrt(alpha) * np.eye(X.shape[1])])
        rhs = np.append(root[:, 0] * (Y - y_mean)[:, target], np.zeros(X.shape[1]))
        coefs.append(np.linalg.lstsq(rows, rhs, rcond=None)[0])
    coef = np.array(coefs)
    return coef, y_mean - coef @ x_mean


def objective(X, Y, weights, coef, intercept, alphas):
    s = np.ones(len(X)) if weights is None else weights.astype(float)
    residual = Y.astype(float) - X.astype(float) @ coef.T.astype(float) - intercept.astype(float)
    return s @ residual**2 / 2 + alphas * np.sum(coef.astype(float) ** 2, axis=1) / 2


@pytest.mark.parametrize("layout", ["C", "F", "gaps", "reversed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(deadline=None, max_examples=15)
@given(
    n_rows=st.integers(1, 300),
    n_columns=st.integers(1, 40),
    alphas=st.lists(st.sampled_from([0.0, 0.5, 30.0]), min_size=1, max_size=4),
    is_weighted=st.booleans(),
    has_intercept=st.booleans(),
    n_threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 10),
)
@example(64, 8, [0.0, 1.0, 0.0], True, True, 3, 1)
@example(65, 9, [1.0], False, False, 1, 2)
def test_models_and_gaps_are_those_of_lstsq(
    layout, dtype, n_rows, n_columns, alphas, is_weighted, has_intercept, n_threads, seed
):
    n_rows = max(n_rows, n_columns + 2)
    X, Y, weights = problem(n_rows, n_columns, len(alphas), dtype, seed)
    weights, alphas = weights if is_weighted else None, np.array(alphas)
    matrix = DenseMatrix(laid_out(X, layout))
    found = solve_few_columns(matrix, Y, weights, has_intercept, alphas, None, n_threads)
    if found is None:  # a random matrix of as many rows as columns may be near to a singular one
        assert np.linalg.cond(X - X.mean(axis=0) * has_intercept) > 1e3
        return
    coef, intercept = oracle(X, Y, weights, has_intercept, alphas)
    tol = 20 * np.finfo(dtype).eps
    scale = np.linalg.norm(coef, axis=1, keepdims=True)
    assert found.coef.dtype == found.intercept.dtype == dtype
    assert np.all(np.abs(found.coef - coef) <= np.maximum(tol, 1e-9) * scale)
    if dtype == np.float64:
        np.testing.assert_allclose(found.intercept, intercept, rtol=1e-8, atol=1e-8 * scale.max())
    own = objective(X, Y, weights, found.coef, found.intercept, alphas)
    least = objective(X, Y, weights, coef, intercept, alphas)
    room = 1e-12 * objective(X, Y, weights, np.zeros_like(coef), np.zeros(len(coef)), alphas)
    np.testing.assert_allclose(found.objective, own, rtol=1e-9, atol=room.max())
    assert np.all(found.gap >= own - least - room)
    assert np.all(found.gap <= 2 * (own - least) + room)
    assert found.rank == n_columns
    assert (found.singular is None) == bool(alphas.any())


def test_singular_values_are_those_of_the_centred_rows():
    X, Y, _ = problem(50, 6, 1, np.float64)
    found = solve_few_columns(DenseMatrix(X), Y, None, True, np.zeros(1), None)
    np.testing.assert_allclose(found.singular, np.linalg.svd(X - X.mean(axis=0))[1], rtol=1e-10)


def test_threads_give_equal_bits_each_time_and_nearly_those_of_one():
    X, Y, weights = problem(5000, 13, 2, np.float64)
    fits = [
        solve_few_columns(DenseMatrix(X), Y, weights, True, np.ones(2), None, n).coef
        for n in (1, 4, 4)
    ]
    np.testing.assert_array_equal(fits[1], fits[2])
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-12)


@pytest.mark.parametrize("density", [1.0, 0.1], ids=["dense", "thin"])
def test_models_have_the_targets_in_turn(density):
    X, Y, weights = problem(400, 30, 2, np.float64)
    X *= np.random.default_rng(1).random(X.shape) < density
    matrix = DenseMatrix(X) if density == 1.0 else compressed(X)
    alphas = np.array([0.5, 0.5, 3.0, 3.0, 20.0, 20.0])
    found = solve_few_columns(matrix, Y, weights, True, alphas, None)
    alone = solve_few_columns(matrix, np.tile(Y, 3), weights, True, alphas, None)
    np.testing.assert_allclose(found.coef, alone.coef, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.intercept, alone.intercept, rtol=1e-10)
    np.testing.assert_allclose(found.objective, alone.objective, rtol=1e-10)


def test_intercept_of_targets_far_from_zero_is_rounded_once():
    X, Y, _ = problem(100, 3, 1, np.float64)
    found = solve_few_columns(DenseMatrix(X + 1e4), Y + 1e5, None, True, np.ones(1), None)
    exact = (Y + 1e5).mean() - np.longdouble(1) * (X + 1e4).mean(axis=0) @ found.coef[0]
    assert abs(found.intercept[0] - exact) <= 1e-15 * 1e5 * 3


def test_targets_that_are_interpolated_leave_rounding_alone():
    rng = np.random.default_rng(0)
    for _ in range(20):
        X = rng.normal(size=(4, 3))
        model = LinearRegression().fit(X, X @ [1.0, 2.0, 3.0] + 50.0)
        np.testing.assert_allclose(model.coef_, [1.0, 2.0, 3.0], rtol=1e-9)
        assert model.objective_ <= 1e-24


def test_weights_and_targets_may_have_gaps_between_them():
    X, Y, weights = problem(100, 5, 2, np.float64)
    wide = np.repeat(weights, 3)[::3], np.repeat(np.repeat(Y, 2, axis=0), 2, axis=1)[::2, ::2]
    found = solve_few_columns(DenseMatrix(X), wide[1], wide[0], True, np.ones(2), None)
    plain = solve_few_columns(DenseMatrix(X), Y, weights, True, np.ones(2), None)
    np.testing.assert_array_equal(found.coef, plain.coef)


@pytest.mark.parametrize("density", [1.0, 0.1], ids=["dense", "thin"])
def test_a_first_row_far_away_loses_no_digits(density):
    X, Y, weights = problem(300, 30, 2, np.float64)
    X *= np.random.default_rng(1).random(X.shape) < density
    X[0] *= 100.0
    Y[0] += 1e6
    matrix = DenseMatrix(X) if density == 1.0 else compressed(X)
    found = solve_few_columns(matrix, Y, weights, True, np.ones(2), None)
    coef, intercept = oracle(X, Y, weights, True, np.ones(2))
    np.testing.assert_allclose(found.coef, coef, rtol=1e-8, atol=1e-10 * np.abs(coef).max())
    np.testing.assert_allclose(found.intercept, intercept, rtol=1e-8)
    assert np.all(found.gap <= 1e-12 * found.objective)


def test_constant_columns_are_no_obstacle_with_a_penalty():
    X, Y, _ = problem(80, 4, 1, np.float64)
    X[:, 2] = 0.1
    found = solve_few_columns(DenseMatrix(X), Y, None, True, np.ones(1), None)
    assert found.coef[0, 2] == 0.0


OTHERS = {
    "columns that depend on each other": lambda X, Y: (np.hstack([X, X[:, :1]]), Y),
    "columns far from zero": lambda X, Y: (X + 1e9, Y),
    "targets far from zero": lambda X, Y: (X, Y + 1e12),
    "more columns than rows": lambda X, Y: (X[:3], Y[:3]),
    "an entry that is NaN": lambda X, Y: (np.where(X[5, 1] == X, np.nan, X), Y),
    "an infinite entry": lambda X, Y: (np.where(X[0, 0] == X, np.inf, X), Y),
    "many targets": lambda X, Y: (X, np.tile(Y, few_columns._MOST_TARGETS + 1)),
    "many models": lambda X, Y: (X, np.tile(Y, 8)),
    "many columns": lambda X, Y: (
        np.zeros((600, compiled_sums.MOST_COLUMNS + 1)),
        np.ones((600, 1)),
    ),
    "no columns": lambda X, Y: (X[:, :0], Y),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_it_cannot_solve_is_left_to_others(other):
    X, Y = OTHERS[other](*problem(90, 4, 1, np.float64)[:2])
    alphas = np.zeros(Y.shape[1] * (9 if other == "many models" else 1))
    assert solve_few_columns(DenseMatrix(X), Y, None, True, alphas, None) is None


def test_stores_and_ranks_are_left_to_others():
    X, Y, _ = problem(90, 4, 1, np.float64)
    assert solve_few_columns(object.__new__(ChunkedMatrix), Y, None, True, np.ones(1), None) is None
    assert solve_few_columns(DenseMatrix(X), Y, None, True, np.ones(1), _TwoRanks()) is None


def compressed(X, index_type=np.int32, *, has_values=True, seed=None):
    """Return a matrix's entries row by row, in any order where there is a seed."""
    sparse = csr_matrix(X)
    indices, values = sparse.indices.copy(), sparse.data.copy()
    if seed is not None:
        rng = np.random.default_rng(seed)
        for first, last in itertools.pairwise(sparse.indptr):
            order = first + rng.permutation(last - first)
            indices[first:last], values[first:last] = sparse.indices[order], sparse.data[order]
    offsets = sparse.indptr.astype(index_type)
    own = values if has_values else None
    return CompressedMatrix(offsets, indices.astype(index_type), X.shape[1], own)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("density", [0.05, 0.2, 0.8], ids=["thin", "between", "nearly dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("has_intercept", [False, True])
def test_sparse_rows_have_the_models_of_dense_ones(
    has_intercept, is_weighted, dtype, density, index_type
):
    X, Y, weights = problem(700, 40, 2, dtype)
    X *= np.random.default_rng(1).random(X.shape) < density
    weights, alphas = weights if is_weighted else None, np.array([1.0, 3.0])
    for n_threads in (1, 3):
        matrix = compressed(X, index_type, seed=5)
        found = solve_few_columns(matrix, Y, weights, has_intercept, alphas, None, n_threads)
        dense = solve_few_columns(DenseMatrix(X), Y, weights, has_intercept, alphas, None)
        tol = 1e-6 if dtype == np.float32 else 1e-11
        np.testing.assert_allclose(found.coef, dense.coef, atol=tol * np.abs(dense.coef).max())
        np.testing.assert_allclose(found.intercept, dense.intercept, rtol=10 * tol)
        np.testing.assert_allclose(found.objective, dense.objective, rtol=1e-9)
        assert np.all(found.gap <= 1e-9 * found.objective)
        assert found.singular is None


@pytest.mark.parametrize("density", [0.1, 0.8])
def test_entries_without_values_are_ones(density):
    X = (np.random.default_rng(2).random((300, 30)) < density).astype(np.float64)
    Y = X[:, :1] + np.random.default_rng(3).normal(size=(300, 1))
    implicit = solve_few_columns(compressed(X, has_values=False), Y, None, True, np.ones(1), None)
    dense = solve_few_columns(DenseMatrix(X), Y, None, True, np.ones(1), None)
    np.testing.assert_allclose(implicit.coef, dense.coef, rtol=1e-5)


def test_entries_of_one_place_add_up():
    X = np.random.default_rng(2).normal(size=(200, 30)) * (
        np.random.default_rng(4).random((200, 30)) < 0.1
    )
    once = compressed(X)
    twice = CompressedMatrix(
        2 * once.indptr, np.repeat(once.indices, 2), 30, np.repeat(once.values / 2, 2)
    )
    models = [
        solve_few_columns(each, X[:, :1] + 1.0, None, True, np.ones(1), None)
        for each in (once, twice)
    ]
    np.testing.assert_allclose(models[0].coef, models[1].coef, rtol=1e-10)


def test_thin_columns_that_are_almost_constant_are_left_to_others():
    X = np.random.default_rng(2).normal(size=(200, 30)) * (np.arange(200) % 30 == 0)[:, np.newaxis]
    X[:, 0] = 1.0 + 1e-3 * X[:, 1]
    assert solve_few_columns(compressed(X), X[:, 1:2], None, True, np.ones(1), None) is None


def test_squares_beyond_the_type_are_refused():
    X, Y, _ = problem(90, 4, 1, np.float32)
    with pytest.raises(ValueError, match="scale the columns"):
        solve_few_columns(DenseMatrix(X * np.float32(1e19)), Y, None, True, np.ones(1), None)


@pytest.mark.parametrize("estimator", [Ridge, RidgeClassifier])
def test_many_rows_of_few_columns_take_the_equations(estimator):
    X, Y, _ = problem(130_000, 8, 1, np.float64)
    y = Y[:, 0] if estimator is Ridge else Y[:, 0] > Y.mean()
    model = estimator().fit(X, y)
    assert "normal equations" in model.solver_
    assert np.all(model.n_iter_ == 1)
    assert model.gap_ <= 1e-12 * model.objective_
    other = estimator(solver="pqn", tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-6)


def test_many_rows_that_somebody_watches_are_read_again_and_again():
    X, Y, _ = problem(130_000, 8, 1, np.float64)
    model = Ridge(max_time_s=60.0).fit(X, Y[:, 0])
    assert "normal equations" not in model.solver_


def test_many_rows_of_dependent_columns_are_iterated():
    X, Y, _ = problem(130_000, 8, 1, np.float64)
    X[:, 1] = X[:, 0]
    model = Ridge(alpha=1e-7).fit(X, Y[:, 0])
    assert "normal equations" not in model.solver_


def solve_again_and_again(matrix, Y):
    for _ in range(100):
        solve_few_columns(matrix, Y, None, True, np.ones(1), None, 1)


def test_ctrl_c_ends_a_long_call():
    """A call that is asked to end returns no model: the interrupt is raised."""
    X = np.random.default_rng(0).normal(size=(200_000, 256))
    timer = threading.Timer(0.05, _thread.interrupt_main)
    began = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        solve_again_and_again(DenseMatrix(X), X[:, :1])
    assert time.perf_counter() - began < 5.0
