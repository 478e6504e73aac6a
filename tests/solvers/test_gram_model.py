"""The quadratic model on a Gram matrix: minima, steps along kinks, and how much work they take."""

import numpy as np
import pytest

from snapml.problems import Bounds, Penalty
from snapml.solvers.columns import cpu_gram_model
from snapml.solvers.columns.cpu_gram_model import minimise_on_gram
from snapml.solvers.quadratic_model import Model, model_gap

N_ROWS = 60


def make_model(n_columns, penalty, dtype=np.float64, seed=0):
    """Return X, y and the model of least squares at coefficients of zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, n_columns)) + 0.7 * rng.standard_normal((N_ROWS, 1))
    X = X.astype(dtype).astype(np.float64)
    y = X[:, :8] @ rng.standard_normal(8) + 3.0 * rng.standard_normal(N_ROWS)
    curvatures = np.full(N_ROWS, 1.0 / N_ROWS)
    return X, y, Model(-X.T @ y / N_ROWS, -y / N_ROWS, curvatures, penalty)


def slopes_of(X, y, w, penalty):
    """The smooth part's gradient, written out."""
    return X.T @ (X @ w - y) / N_ROWS + penalty.l2 * w


def value_of(X, y, w, penalty):
    return np.sum((X @ w - y) ** 2) / (2.0 * N_ROWS) + (
        penalty.l1 * np.abs(w).sum() + 0.5 * penalty.l2 * w @ w
    )


def bounds_for(n_columns):
    return Bounds(np.full(n_columns, -0.2), np.linspace(0.05, 0.5, n_columns))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("has_bounds", [False, True], ids=["free", "bounds"])
@pytest.mark.parametrize("n_columns", [20, 150])
def test_minima_obey_the_optimality_conditions(n_columns, has_bounds, l2, dtype):
    bounds = bounds_for(n_columns) if has_bounds else None
    penalty = Penalty(0.05, l2, bounds=bounds)
    X, y, model = make_model(n_columns, penalty, dtype)
    gram = (X.T @ X / N_ROWS).astype(dtype)
    w = minimise_on_gram(gram, model, np.zeros(n_columns), 1e-12)
    slopes = slopes_of(X, y, w, penalty)
    atol = 1e-5 if dtype == np.float64 else 1e-3
    is_free = w != 0.0
    if has_bounds:
        assert (bounds.lower <= w).all()
        assert (w <= bounds.upper).all()
        is_free &= (w != bounds.lower) & (w != bounds.upper)
        pull = slopes + penalty.l1 * np.sign(w)
        assert (pull[w == bounds.upper] <= atol).all()
        assert (pull[w == bounds.lower] >= -atol).all()
    np.testing.assert_allclose(slopes[is_free], -penalty.l1 * np.sign(w[is_free]), atol=atol)
    assert (np.abs(slopes[w == 0.0]) <= penalty.l1 + atol).all()


@pytest.mark.parametrize("has_bounds", [False, True], ids=["free", "bounds"])
@pytest.mark.parametrize("seed", range(4))
def test_steps_end_at_the_first_minimum_while_coefficients_rest_on_the_way(seed, has_bounds):
    n_columns, rng = 12, np.random.default_rng(seed)
    bounds = bounds_for(n_columns) if has_bounds else None
    penalty = Penalty(0.3, 0.05, bounds=bounds)
    X, y, _ = make_model(n_columns, penalty, seed=seed)
    start = rng.uniform(0.01, 0.04, n_columns) * rng.choice([-1.0, 1.0], n_columns)
    start[3] = 0.0
    support = np.flatnonzero(start)
    gram = X.T @ X / N_ROWS
    gradient = X.T @ (X @ start - y) / N_ROWS
    pull = (slopes_of(X, y, start, penalty) + penalty.l1 * np.sign(start))[support]
    direction = -3.0 * pull + 0.02 * rng.standard_normal(len(support))
    direction *= -np.sign(direction @ pull)  # down
    low, high = np.where(start > 0.0, 0.0, -np.inf), np.where(start > 0.0, np.inf, 0.0)
    if has_bounds:
        low, high = np.maximum(low, bounds.lower), np.minimum(high, bounds.upper)

    def at(length):
        w = start.copy()
        w[support] = np.clip(start[support] + length * direction, low[support], high[support])
        return w

    lengths = np.linspace(0.0, 1.0, 20001)
    values = np.array([value_of(X, y, at(length), penalty) for length in lengths])
    rises = np.flatnonzero(np.diff(values) > 0.0)
    first = lengths[rises[0]] if len(rises) else 1.0
    found = start.copy()
    assert cpu_gram_model._follow(gram, support, direction, penalty, found, gradient)
    np.testing.assert_allclose(found, at(first), atol=2e-4 * np.abs(direction).max())
    rested = (found == 0.0).sum()
    if has_bounds:
        rested += ((found == bounds.lower) | (found == bounds.upper)).sum()
    assert rested > 1  # some came to rest beside the one that began there
    np.testing.assert_allclose(gradient, X.T @ (X @ found - y) / N_ROWS, atol=1e-10)


def test_directions_that_lead_up_are_not_taken():
    penalty = Penalty(0.3, 0.0)
    X, y, _ = make_model(8, penalty)
    found, support = np.full(8, 0.5), np.arange(8)
    gradient = slopes_of(X, y, found, penalty)
    before = found.copy()
    assert not cpu_gram_model._follow(
        X.T @ X / N_ROWS, support, gradient + 0.3, penalty, found, gradient
    )
    np.testing.assert_array_equal(found, before)


@pytest.mark.parametrize("n_columns", [100, 400])
def test_more_columns_than_rows_are_solved_in_the_rounds_that_there_are(n_columns):
    """Most coefficients of a Newton step change sign there: one a round takes too many rounds."""
    penalty, start = Penalty(2e-3, 0.0), np.zeros(n_columns)
    X, _, model = make_model(n_columns, penalty)
    gram = X.T @ X / N_ROWS
    w = minimise_on_gram(gram, model, start, 1e-9)
    gap = model_gap(model, model.residual_sq, start, w, model.slopes + gram @ w)
    assert gap <= 1e-9
