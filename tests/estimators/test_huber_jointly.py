"""Huber's regression of few dense rows: model and scale by one Newton method, and its bound."""

import warnings
from functools import partial
from itertools import repeat

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings
from scipy.sparse import csr_matrix
from sklearn.linear_model import HuberRegressor as SkHuberRegressor

from snapml import HuberRegressor
from snapml.estimators.robust import huber, joint_newton
from snapml.estimators.robust.concomitant_scale import Rows, dual_value
from snapml.estimators.robust.joint_newton import JointProblem, solve_jointly
from snapml.estimators.robust.least_absolute import bound_of_any_scale, solve_without_scale
from snapml.solvers.stopping import StoppingRule


def make(kind, seed=0, *, n_rows=400):
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


def problem_of(made, alpha, epsilon, has_intercept):
    X, y, weights = made
    y = y - y.mean() if has_intercept else y
    return JointProblem(X, y, weights, epsilon, alpha, has_intercept)


def objectives(problem, joints):
    """Return those of joint vectors, each with the best scale for it."""
    residuals = [problem.y - problem.Z @ joint for joint in joints]
    points = map(joint_newton._Point.at, repeat(problem), joints, residuals)
    return [point.objective for point in points]


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
    problem = problem_of(make(kind, seed, n_rows=60), alpha, epsilon, has_intercept)
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
    bounds = [found.bound, *(dual_value(problem, each) for each in slopes)]
    least = min(point.objective for point in points)
    assert max(bounds) <= least * (1.0 + 1e-12)


def make_met(kind, seed):
    """Return rows, targets of which a model meets so many that their scale is none, and weights."""
    rng = np.random.default_rng(seed)
    n_rows, n_columns = (300, 4) if kind == "claims" else (60, 45)
    X, weights = rng.normal(size=(n_rows, n_columns)) + 3.0, np.ones(n_rows)
    y = X @ rng.normal(size=n_columns) + rng.standard_t(2, size=n_rows)
    if kind == "claims":
        y = 1.0 * rng.poisson(0.1, size=n_rows)
    if kind == "weighted":
        weights = rng.choice([0.0, 0.5, 1.0, 3.0], size=n_rows, p=[0.05, 0.3, 0.35, 0.3])
    return X, y, weights


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
@pytest.mark.parametrize("kind", ["short", "weighted", "claims"])
@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_targets_that_a_model_meets_leave_no_scale(kind, has_intercept, seed):
    X, y, weights = make_met(kind, seed)
    model = HuberRegressor(fit_intercept=has_intercept, epsilon=1.2).fit(X, y, weights)
    if model.scale_ > 1e-6:  # none for some only
        assert "model and scale together" in model.solver_
        assert kind == "weighted"
        return
    assert "no scale is better than none" in model.solver_
    assert model.gap_ <= 1e-6 * model.objective_
    residuals = abs(y - model.predict(X))
    least = 2.4 * weights @ residuals + 1e-4 * model.coef_ @ model.coef_
    assert model.objective_ == pytest.approx(least, rel=1e-6)
    # No model that scikit-learn finds has less.
    theirs = SkHuberRegressor(fit_intercept=has_intercept, epsilon=1.2, max_iter=2_000)
    theirs.fit(X, y, weights)
    sizes = abs(y - theirs.predict(X)) / theirs.scale_
    losses = np.where(sizes < 1.2, sizes**2, 2.4 * sizes - 1.44)
    value = theirs.scale_ * weights @ (1.0 + losses) + 1e-4 * theirs.coef_ @ theirs.coef_
    assert model.objective_ - model.gap_ <= value


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("is_weighted", [True, False])
def test_equal_targets_of_many_rows_leave_no_scale(
    layout, has_intercept, is_weighted, dtype, monkeypatch
):
    monkeypatch.setattr(huber, "_FEW_ENTRIES", 0)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(2_000, 8)) * (rng.random((2_000, 8)) < 0.4)).astype(dtype)
    y = rng.poisson(0.2, size=2_000).astype(dtype)
    weights = rng.choice([0.0, 0.5, 3.0], size=2_000) if is_weighted else None
    rows = csr_matrix(X) if layout == "sparse" else X
    model = HuberRegressor(fit_intercept=has_intercept, alpha=0.1).fit(rows, y, weights)
    assert model.solver_.endswith("no scale is better than none")
    assert model.gap_ <= 1e-5 * model.objective_
    residuals = abs(y - model.predict(X)).astype(np.float64)
    least = 2.7 * (residuals.sum() if weights is None else weights @ residuals)
    least += 0.1 * float(np.square(model.coef_, dtype=np.float64).sum())
    assert model.objective_ == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_targets_that_are_not_equal_enough_are_not_taken_for_it(share, monkeypatch):
    monkeypatch.setattr(huber, "_FEW_ENTRIES", 0)
    X, y, _ = make("plain")
    y[: int(share * len(y))] = 0.0
    assert "scales" in HuberRegressor().fit(X, y).solver_


@pytest.mark.parametrize("most", [0, 2**21])
@pytest.mark.parametrize("alpha", [1e-300, 1e-30, 1e300])
def test_penalties_at_the_ends_of_numbers_are_no_error(alpha, most, monkeypatch):
    monkeypatch.setattr(huber, "_FEW_ENTRIES", most)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 45)), 1.0 * rng.poisson(0.1, size=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HuberRegressor(alpha=alpha).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.scale_ > 0.0


@given(
    kind=st.sampled_from(["short", "weighted", "claims", "plain", "constant"]),
    seed=st.integers(0, 100),
    alpha=st.sampled_from([1e-4, 0.1, 30.0]),
    epsilon=st.sampled_from([1.0, 1.05, 1.35, 3.0]),
    has_intercept=st.booleans(),
    share=st.floats(0.0, 2.0),
)
@example(
    kind="claims", seed=0, alpha=0.1, epsilon=1.35, has_intercept=True, share=0.5
)  # a model that is not the best
@settings(max_examples=100)
def test_bound_of_any_scale_is_one_whatever_the_model(
    kind, seed, alpha, epsilon, has_intercept, share
):
    made = make_met if kind in ("short", "weighted", "claims") else partial(make, n_rows=60)
    problem = problem_of(made(kind, seed), alpha, epsilon, has_intercept)
    jointly = solve_jointly(problem, np.zeros(len(problem.ridge)), 60, lambda *_: False)
    coef = np.zeros(problem.X.shape[1]) if jointly is None else share * jointly.coef
    rows = Rows(problem.X, problem.y, problem.weights, epsilon, alpha, has_intercept)
    bound = bound_of_any_scale(rows, problem.y - problem.X @ coef, coef)
    points = [np.zeros(len(problem.ridge)), problem.joint(coef, 0.0)]
    if jointly is not None:
        points.append(problem.joint(jointly.coef, jointly.intercept))
    values = objectives(problem, points)
    assert bound <= min(values) * (1.0 + 1e-12)


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("level", [0.0, 3.0])
def test_targets_on_a_plane_are_certified(level):
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = HuberRegressor().fit(X, X @ [1.0, 2.0, 3.0] + level)
    assert model.coef_ == pytest.approx([1.0, 2.0, 3.0], abs=1e-4)
    assert model.gap_ <= 1e-9 * model.objective_
    assert model.scale_ <= 1e-12


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("has_intercept", [True, False])
def test_targets_of_nothing_need_no_model(dtype, has_intercept):
    X = np.random.default_rng(0).normal(size=(30, 3)).astype(dtype)
    model = HuberRegressor(fit_intercept=has_intercept).fit(X, np.zeros(30, dtype))
    assert not model.coef_.any()
    assert model.objective_ <= 1e-12


@given(
    kind=st.sampled_from(["short", "weighted", "claims", "plain", "far"]),
    seed=st.integers(0, 100),
    alpha=st.sampled_from([1e-4, 0.1, 30.0]),
    epsilon=st.sampled_from([1.0, 1.05, 1.35, 3.0]),
    has_intercept=st.booleans(),
)
@example(kind="short", seed=0, alpha=1e-4, epsilon=1.35, has_intercept=True)
@example(kind="plain", seed=0, alpha=0.1, epsilon=1.35, has_intercept=True)  # no scale is worse
@settings(max_examples=100)
def test_bound_without_scale_is_one_with_any(kind, seed, alpha, epsilon, has_intercept):
    made = make_met if kind in ("short", "weighted", "claims") else partial(make, n_rows=60)
    problem = problem_of(made(kind, seed), alpha, epsilon, has_intercept)
    found = solve_without_scale(problem, StoppingRule(tol=1e-5, max_iter=100))
    points = [np.zeros(len(problem.ridge))]
    jointly = solve_jointly(problem, points[0], 60, lambda *_: False)
    points += [problem.joint(each.coef, each.intercept) for each in (found, jointly) if each]
    values = objectives(problem, points)
    assert found is not None or kind == "far"
    if found is not None:
        assert found.bound <= min(values) * (1.0 + 1e-12)


def test_more_rows_than_columns_by_little_need_no_scales():
    """Hessians of the rows near a model lead astray, and parts of the parabola above f do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 80))
    y = X @ rng.normal(size=80) + rng.normal(size=150)
    model = HuberRegressor().fit(X, y)
    assert "model and scale together" in model.solver_
    assert model.gap_ <= 1e-9 * model.objective_


@pytest.mark.parametrize(("most_steps", "max_iter"), [(1, 100), (40, 1)])
def test_what_the_steps_do_not_solve_is_solved_scale_by_scale(monkeypatch, most_steps, max_iter):
    X, y, _ = make("plain")
    monkeypatch.setattr(huber, "_MOST_STEPS", most_steps)
    model = HuberRegressor(max_iter=max_iter).fit(X, y)
    assert "scales" in model.solver_
    assert model.gap_ <= 1e-5 * model.objective_
