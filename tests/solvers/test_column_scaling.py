"""Steps before a Hessian is made: where they are enough, and where they are given up."""

import numpy as np
import pytest

from snapml import LinearSVC, LogisticRegression, PoissonRegressor, Ridge
from snapml._validation import as_matrix
from snapml.data import Dataset
from snapml.problems import Intercept, Logistic, Penalty, Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import quasi_newton, sampled_curvature
from snapml.solvers.newton.column_scaling import ColumnScaling
from snapml.solvers.newton.descent import Descent
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.stopping import StoppingRule


def rows(n_rows=1500, n_columns=400, shared=0.0, dtype=np.float64, seed=0):
    """Return columns far from zero and of many scales, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns)) + shared * rng.standard_normal((n_rows, 1))
    z = X @ rng.standard_normal(n_columns) / np.sqrt(n_columns)
    scale = 10.0 ** rng.uniform(-2, 2, n_columns)
    y = (z + 0.3 * rng.logistic(size=n_rows) > 0).astype(int)
    return (scale * (X + 3.0)).astype(dtype), y


def engine_of(X, y, intercept=Intercept.FREE, l2=1.0, n_threads=1):
    problem = Problem(Logistic(), intercept, penalty=Penalty(0.0, l2))
    dataset = Dataset(as_matrix(X), np.where(y == 1, 1.0, -1.0).astype(X.dtype), None, 1.0)
    return CpuPrimalEngine(problem, dataset, n_threads=n_threads)


def solve(X, y, tol=1e-8, **parameters):
    rule = StoppingRule(tol=tol, max_iter=200)
    return quasi_newton.solve(engine_of(X, y, **parameters), SerialCommunicator(), rule)


@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_with_little_in_common_need_no_hessian(intercept, dtype, monkeypatch):
    X, y = rows(dtype=dtype)
    if intercept is not Intercept.FREE:  # without which means are what columns have in common
        X = X - X.mean(axis=0)
    with monkeypatch.context() as patch:
        patch.setattr(sampled_curvature.SampledCurvature, "_waits", lambda *_: False)
        expected = solve(X, y, 1e-12 if dtype == np.float64 else 1e-8, intercept=intercept)
    monkeypatch.setattr(
        sampled_curvature, "make_curvature", lambda *_: pytest.fail("a Hessian was made")
    )
    tol = 1e-8 if dtype == np.float64 else 1e-6
    found = solve(X, y, tol, intercept=intercept)
    assert found.has_converged
    assert found.description.startswith("quasi-Newton, curvature from its steps")
    assert found.n_iter <= 40
    distance = found.objective - expected.objective
    assert -1e-7 * expected.objective <= distance <= found.gap + 1e-7 * expected.objective


def test_a_first_step_that_shows_common_directions_ends_the_waiting(monkeypatch):
    X, y = rows(shared=3.0)
    seen, learn = [], ColumnScaling.learn

    def learned(self, descent):
        learn(self, descent)
        seen.append(self.share)

    monkeypatch.setattr(ColumnScaling, "learn", learned)
    found = solve(X, y)
    assert found.has_converged
    assert found.description.startswith("quasi-Newton, curvature from 1500 rows")
    assert len(seen) == 2
    assert seen[0] == 1.0
    assert seen[1] < 0.2


@pytest.mark.parametrize(
    ("parameters", "may_wait"),
    [
        ({}, True),
        ({"n_columns": 60}, False),
        ({"l2": 0.0}, False),
        ({"is_streamed": True}, False),
        ({"is_sparse": True}, False),
    ],
    ids=["dense", "few columns", "no penalty", "streamed", "sparse"],
)
def test_what_may_wait(parameters, may_wait):
    X, y = rows(n_columns=parameters.pop("n_columns", 400))
    engine = engine_of(X, y, l2=parameters.pop("l2", 1.0))
    if parameters:
        engine.__class__ = type("Other", (CpuPrimalEngine,), parameters)
    model = sampled_curvature.SampledCurvature(
        engine, SerialCommunicator(), 1e-6, uses_sample=False
    )
    assert model.may_wait is may_wait


class _OtherIsSparse(SerialCommunicator):
    """Beside a shard without rows, which cannot wait."""

    def allreduce_sum(self, values):
        return values + np.array([0.0, 1.0]) if np.shape(values) == (2,) else values


def test_all_shards_wait_or_none():
    engine = engine_of(*rows())
    for communicator, may_wait in ((SerialCommunicator(), True), (_OtherIsSparse(), False)):
        model = sampled_curvature.SampledCurvature(engine, communicator, 1e-6, uses_sample=False)
        assert model.may_wait is may_wait


def test_the_scaling_is_the_diagonal_of_centred_columns():
    X, y = rows(n_rows=300, n_columns=20)
    engine = engine_of(X, y, l2=0.5)
    descent = Descent(engine, SerialCommunicator(), np.zeros((1, 21)))
    descent.begin()
    scaling = ColumnScaling(engine, SerialCommunicator())
    scaling.learn(descent)
    rng = np.random.default_rng(0)
    gradient = rng.standard_normal((1, 21))
    # The Hessian of the columns x - mean and the intercept, whose products are left out.
    mean, variance = X.mean(axis=0), X.var(axis=0)
    h = 0.25 * len(X)
    slopes = gradient[0, :-1] - mean * gradient[0, -1]
    step = slopes / (h * variance + 0.5)
    expected = np.append(step, gradient[0, -1] / h - mean @ step)
    np.testing.assert_allclose(scaling.solve(gradient)[0], expected, rtol=1e-6)


def test_threads_and_sampled_rows_change_nothing_but_rounding():
    X, y = rows(n_rows=40_000, n_columns=300, dtype=np.float32)
    found = [solve(X, y, 1e-7, n_threads=n) for n in (1, 3, 3)]
    np.testing.assert_array_equal(found[1].coef, found[2].coef)
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-6)


@pytest.mark.parametrize("tol", [1e-4, 1e-10])
@pytest.mark.parametrize(
    "model",
    [LogisticRegression(C=10.0), LinearSVC(), PoissonRegressor(alpha=1e-3), Ridge()],
    ids=lambda model: type(model).__name__,
)
def test_estimators_are_certified_by_steps_alone(model, tol):
    X, y = rows(n_rows=3000, n_columns=600)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model.set_params(tol=tol, max_iter=500).fit(X, y)
    assert model.gap_ <= tol * model.objective_
    exact = type(model)(**{**model.get_params(), "tol": 1e-11, "max_iter": 1000}).fit(X, y)
    assert model.gap_ >= model.objective_ - exact.objective_ - 2e-11 * exact.objective_
