"""Models whose columns depend on each other: what only the penalty sees, and how it is lowered."""

import numpy as np
import pytest

from snapml import Lasso, LinearSVC, LogisticRegression
from snapml.problems import Bounds, Penalty
from snapml.solvers.flat_directions import slide
from snapml.solvers.newton import small_newton


def one_hot_rows(n_rows=600, sizes=(4, 7, 9), seed=0):
    """Rows with an entry of one in each group, and a constant column: two directions are flat."""
    rng = np.random.default_rng(seed)
    groups = []
    for size in sizes:
        share = np.exp(-0.2 * np.arange(size))
        groups.append(np.eye(size)[rng.choice(size, n_rows, p=share / share.sum())])
    X = np.hstack([*groups, np.ones((n_rows, 1))])
    return X, X @ rng.standard_normal(X.shape[1]) + 2.0 * rng.standard_normal(n_rows)


def start_of(X, y, seed=1):
    """Return coefficients with no zero among them, their Gram matrix and gradient."""
    coef = np.random.default_rng(seed).standard_normal(X.shape[1]) + 0.5
    return coef, X.T @ X, X.T @ (X @ coef - y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_group_slides_to_the_median_of_its_coefficients(dtype):
    X, y = one_hot_rows(sizes=(5,))
    coef, gram, gradient = start_of(X, y)
    margins, found = X @ coef, coef.copy()
    dependent, has_moved = slide(
        gram.astype(dtype), np.arange(6), Penalty(0.3, 0.0), found, gradient
    )
    # Along (1, 1, 1, 1, 1, -1) a change of t costs the sum of |w_j + t| and |w_last - t|.
    t = -np.sort(np.append(coef[:5], -coef[5]))[2:4]
    least = min(np.abs(coef + each * np.array([1, 1, 1, 1, 1, -1])).sum() for each in t)
    close = 1e-9 if dtype == np.float64 else 1e-4
    assert has_moved
    assert len(dependent) == 0
    np.testing.assert_allclose(np.abs(found).sum(), least, rtol=close)
    np.testing.assert_allclose(X @ found, margins, atol=close)
    np.testing.assert_allclose(gradient, X.T @ (X @ found - y), atol=len(X) * close)
    assert (found == 0.0).any()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["free", "positive", "bounds"])
def test_slides_lower_the_penalty_within_bounds_and_change_no_margin(kind, seed):
    X, y = one_hot_rows()
    coef, gram, gradient = start_of(X, y, seed)
    coef = np.abs(coef) if kind == "positive" else coef
    bounds = Bounds(coef - 0.2, coef + 0.3) if kind == "bounds" else None
    penalty = Penalty(0.3, 0.0, is_positive=kind == "positive", bounds=bounds)
    found = coef.copy()
    slide(gram, np.arange(len(coef)), penalty, found, gradient)
    np.testing.assert_allclose(X @ found, X @ coef, atol=1e-9)
    assert np.abs(found).sum() <= np.abs(coef).sum()
    if kind == "free":
        assert np.abs(found).sum() < np.abs(coef).sum()
    if kind == "positive":
        assert (found >= 0.0).all()
    if kind == "bounds":
        assert ((bounds.lower <= found) & (found <= bounds.upper)).all()


def test_independent_columns_stay_where_they_are():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 6)), rng.standard_normal(50)
    coef, gram, gradient = start_of(X, y)
    found = coef.copy()
    dependent, has_moved = slide(gram, np.arange(6), Penalty(0.3, 0.0), found, gradient)
    assert not has_moved
    assert len(dependent) == 0
    np.testing.assert_array_equal(found, coef)


def test_directions_that_are_not_quite_flat_are_not_followed_upwards():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((50, 1))
    X = np.hstack([base, base + 1e-3 * rng.standard_normal((50, 1))])  # flat in float32
    gram, penalty = (1e8 * X.T @ X).astype(np.float32), Penalty(0.3, 0.0)
    coef = np.array([1.0, -1.0])
    found, gradient = coef.copy(), np.zeros(2)
    dependent, has_moved = slide(gram, np.arange(2), penalty, found, gradient)
    assert not has_moved
    assert len(dependent) == 1
    np.testing.assert_array_equal(found, coef)
    np.testing.assert_array_equal(gradient, 0.0)


def test_of_equal_columns_all_but_one_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6))
    X = np.hstack([X, X[:, :2]])
    coef, gram = np.ones(8), X.T @ X
    dependent, has_moved = slide(gram, np.arange(8), Penalty(0.3, 0.0), coef, np.zeros(8))
    assert not has_moved  # equal signs: the penalty sees no difference
    assert sorted(dependent % 6) == [0, 1]


@pytest.mark.parametrize("way", ["in one call", "by working sets"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(penalty="l1", C=1e5),
        LogisticRegression(l1_ratio=1.0, C=1e3),
        Lasso(alpha=1e-7),
    ],
    ids=lambda model: type(model).__name__,
)
def test_weak_penalties_on_one_hot_columns_meet_their_tolerance(model, dtype, way, monkeypatch):
    if way == "by working sets":
        monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)
    X, y = one_hot_rows(n_rows=3000, sizes=(5, 8, 12, 15, 20, 30, 30), seed=4)
    target = y if isinstance(model, Lasso) else y > np.median(y)
    model.set_params(tol=1e-6).fit(X.astype(dtype), target)
    assert model.gap_ <= 1e-6 * model.objective_
    # Steps that jumps of the curvature make short are passes over rows in the cache.
    jumps = isinstance(model, LinearSVC) and way == "in one call"
    assert np.max(model.n_iter_) <= (64 if jumps else 16)
