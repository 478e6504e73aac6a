"""Huber's regression of few dense rows: model and scale by one Newton method, and its bound."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from snapml import HuberRegressor
from snapml.estimators.robust import huber, joint_newton
from snapml.estimators.robust.joint_newton import JointProblem, solve_jointly


def make(kind, seed=0, n_rows=400):
    """Return rows, targets with outliers, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    weights = np.ones(n_rows)
    if kind == "far":
        X = 1e4 + X * np.logspace(-3, 3, 6)
    if kind == "dependent":  # a column for each of four kinds, of which one is rare, and its double
        kinds = rng.choice(4, size=n_rows, p=[0.5, 0.3, 0.19, 0.01])
        X = np.column_stack([np.eye(4)[kinds], X, X[:, 0]])
    if kind == "weighted":
        weights = rng.choice([0.0, 0.3, 1.0, 5.0], size=n_rows)
    if kind == "constant":
        X[:, 2] = 7.0
    y = X @ rng.normal(size=X.shape[1]) + rng.standard_t(1.5, size=n_rows)
    y[::19] += 100.0
    if kind == "dependent":
        y[kinds == 3] += 1e4  # all rows of one column are far from any model
    return X, y, weights


KINDS = ["plain", "far", "dependent", "weighted", "constant"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of float32, apart
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parameters", [{}, {"alpha": 10.0}, {"epsilon": 1.2}, {"epsilon": 4.0},
                                        {"fit_intercept": False}], ids=str)  # fmt: skip
def test_model_is_that_of_one_scale_after_the_other(kind, parameters, dtype, monkeypatch):
    X, y, weights = make(kind)
    X, y = X.astype(dtype), y.astype(dtype)
    together = HuberRegressor(**parameters).fit(X, y, weights)
    assert "model and scale together" in together.solver_
    monkeypatch.setattr(huber, "_FEW_ENTRIES", 0)
    apart = HuberRegressor(**parameters).fit(X, y, weights)
    assert "scales" in apart.solver_
    assert together.gap_ <= (1e-9 if dtype == np.float64 else 1e-5) * together.objective_
    slack = 1e-12 * apart.objective_
    assert together.objective_ <= apart.objective_ + together.gap_ + slack
    assert apart.objective_ <= together.objective_ + apart.gap_ + slack
    assert together.scale_ == pytest.approx(apart.scale_, rel=1e-2)


def problem_of(kind, seed, alpha, epsilon, has_intercept):
    X, y, weights = make(kind, seed, 60)
    y = y - y.mean() if has_intercept else y
    return JointProblem(X, y, weights, epsilon, alpha, has_intercept)


@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 100),
    alpha=st.sampled_from([1e-6, 0.1, 1e3]),
    epsilon=st.sampled_from([1.0, 1.01, 1.35, 3.0]),
    has_intercept=st.booleans(),
    share=st.floats(0.0, 1.5),
)
@example(kind="plain", seed=0, alpha=0.1, epsilon=1.35, has_intercept=True, share=0.0)
@example(kind="plain", seed=0, alpha=0.1, epsilon=1.0, has_intercept=True, share=0.0)  # no room
@settings(max_examples=150)
def test_bounds_of_any_models_are_below_the_objectives_of_all(
    kind, seed, alpha, epsilon, has_intercept, share
):
    """A bound is of one model's residuals, and no other model has less."""
    problem = problem_of(kind, seed, alpha, epsilon, has_intercept)
    start = np.zeros(len(problem.ridge))
    found = solve_jointly(problem, start, 40, lambda *_: False)
    if found is None:
        return  # no scale is the best
    best = problem.joint(found.coef, found.intercept)
    points = [
        joint_newton._Point.at(problem, joint, problem.y - problem.Z @ joint)
        for joint in (start, best, share * best)
    ]
    slopes = [joint_newton._slopes(problem, point) for point in points if point.scale > 0.0]
    bounds = [found.bound, *(joint_newton._dual_value(problem, each) for each in slopes)]
    least = min(point.objective for point in points)
    assert max(bounds) <= least * (1.0 + 1e-12)


@pytest.mark.parametrize(("most_steps", "max_iter"), [(1, 100), (40, 1)])
def test_what_the_steps_do_not_solve_is_solved_scale_by_scale(monkeypatch, most_steps, max_iter):
    X, y, _ = make("plain")
    monkeypatch.setattr(huber, "_MOST_STEPS", most_steps)
    model = HuberRegressor(max_iter=max_iter).fit(X, y)
    assert "scales" in model.solver_
    assert model.gap_ <= 1e-5 * model.objective_
