"""The quasi-Newton method against exact optima, alone and on several shards."""

import warnings
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings
from reference.softmax import softmax_objective, softmax_optimum

from snapml import LinearSVC, LogisticRegression
from snapml.data import Dataset, DenseMatrix
from snapml.problems import (
    Huber,
    Intercept,
    Logistic,
    Poisson,
    Problem,
    Softmax,
    Squared,
    SquaredHinge,
)
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import quasi_newton
from snapml.solvers.newton.primal_certificate import lower_bound
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .simulated import solve_shards

pytestmark = pytest.mark.pairwise

LOSSES = [Logistic(), Squared(), SquaredHinge(), Huber(), Poisson()]
SERIAL = SerialCommunicator()


def engine_of(case, rows=slice(None)):
    return CpuPrimalEngine(case.problem, case.dataset(rows))


def assert_certified(case, result, tol):
    missing = case.suboptimality(result)
    rounding = 1e-13 * case.optimum.objective
    assert result.has_converged
    assert missing <= result.gap + rounding
    assert result.gap <= 2 * tol * result.objective


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_fit_is_within_its_certified_gap(loss, intercept, is_sparse, dtype):
    case = Case(loss, intercept, dtype.name, is_sparse=is_sparse)
    tol = 1e-9 if dtype == np.float64 else 1e-6
    result = quasi_newton.solve(engine_of(case), SERIAL, StoppingRule(tol, 100))
    assert_certified(case, result, tol)


@pytest.mark.parametrize("cuts", [(30,), (1, 2), (7, 59)], ids=str)
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_shards_hold_one_model_within_its_certified_gap(loss, intercept, cuts):
    case = Case(loss, intercept)
    bounds = [0, *cuts, case.n_rows]
    parts = [slice(*bound) for bound in pairwise(bounds)]
    engines = [lambda rows=rows: engine_of(case, rows) for rows in parts]
    results = solve_shards(engines, StoppingRule(1e-8, 100), quasi_newton.solve)
    for result in results:
        assert_certified(case, result, 1e-8)
        assert result.coef.tobytes() == results[0].coef.tobytes()
        assert result.n_iter == results[0].n_iter


def test_sampled_shards_of_very_different_sizes_agree():
    case = Case(Logistic(), Intercept.FREE, n_rows=6000)
    engines = [lambda rows=rows: engine_of(case, rows) for rows in (slice(1), slice(1, 6000))]
    results = solve_shards(engines, StoppingRule(1e-8, 100), quasi_newton.solve)
    assert_certified(case, results[0], 1e-8)
    assert results[0].coef.tobytes() == results[1].coef.tobytes()


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-3, 1.0, 30.0]))
@example(seed=0, size=1.0)
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_lower_bound_is_never_above_the_optimum(loss, intercept, seed, size):
    case = Case(loss, intercept)
    engine = engine_of(case)
    coef = size * np.random.default_rng(seed).normal(size=(1, 6))
    value, gradient, _ = engine.fused_pass(coef)
    engine.accept()
    optimum = case.optimum.objective
    rounding = 1e-12 * (optimum + value + np.sum(coef**2))
    assert lower_bound(engine, SERIAL, coef, value, gradient) <= optimum + rounding


def test_bound_stays_finite_where_every_row_is_nearly_certain():
    X, y = np.tile(np.eye(4), (20, 1)), np.tile(np.arange(4.0), 20)
    problem = Problem(Softmax(4), Intercept.FREE)
    engine = CpuPrimalEngine(problem, Dataset(DenseMatrix(X), y, None, 1e5), n_threads=1)
    # Each class is mistaken for the next one, a little, and for the others next to never.
    coef = np.zeros((4, 5))
    coef[:, :4] = 30.0 * np.eye(4) + 15.0 * np.roll(np.eye(4), 1, axis=0)
    coef[0, 4] = 0.3
    loss, gradient, _ = engine.fused_pass(coef)
    engine.accept()
    assert np.abs(gradient[:, -1]).max() > 0.1
    bound = lower_bound(engine, SerialCommunicator(), coef, loss, gradient)
    optimum = softmax_optimum(X, y.astype(int), 1e5, has_intercept=True)
    assert np.isfinite(bound)
    assert bound <= optimum


@pytest.mark.parametrize("kind", [Intercept.NONE, Intercept.FREE], ids=lambda kind: kind.value)
def test_softmax_is_within_its_certified_gap(kind):
    rng = np.random.default_rng(0)
    X, c = rng.normal(size=(80, 4)), 2.0
    y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(80, 3))).argmax(axis=1)
    dataset = Dataset(DenseMatrix(X), y.astype(np.float64), None, c)
    engine = CpuPrimalEngine(Problem(Softmax(3), kind), dataset)
    best = softmax_optimum(X, y, c, has_intercept=kind is Intercept.FREE)
    for max_iter in (1, 3, 100):
        result = quasi_newton.solve(engine, SERIAL, StoppingRule(1e-9, max_iter))
        objective = softmax_objective(result.coef, result.intercept, X, y, c)
        assert result.objective == pytest.approx(objective, rel=1e-12)
        assert -1e-12 * best <= objective - best <= result.gap + 1e-12 * best
    assert result.gap <= 1e-9 * result.objective


@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC])
@pytest.mark.parametrize("scale", [1e6, 1e9, 1e12])
def test_objective_of_a_rounded_model_is_evaluated_where_a_column_is_large(make, scale):
    """A bound on what the rounding costs, by the largest curvature, says nothing there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    y = (X @ rng.normal(size=6) + rng.normal(size=60) > 0).astype(int)
    X[:, 4] *= scale
    X = X.astype(np.float32)
    model = make(max_iter=100).fit(X, y)
    margins = (2 * y - 1) * (X.astype(float) @ model.coef_[0].astype(float) + model.intercept_)
    losses = np.logaddexp(0, -margins)
    if make is LinearSVC:
        losses = np.maximum(0, 1 - margins) ** 2
    penalised = np.sum(model.coef_.astype(float) ** 2)
    penalised += float(model.intercept_[0]) ** 2 if make is LinearSVC else 0.0
    assert model.objective_ == pytest.approx(losses.sum() + penalised / 2, rel=1e-5)
    assert 0 <= model.gap_ <= model.tol * model.objective_


def test_model_whose_gradient_is_zero_is_the_answer_without_a_penalty():
    """Not a single step is taken, and no curvature made that could estimate the gap."""
    X, y = np.full((60, 2), 3.0), np.arange(60) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticRegression(C=np.inf).fit(X, y)
    assert model.gap_ <= 1e-12 * model.objective_
    np.testing.assert_array_equal(model.coef_, 0)
