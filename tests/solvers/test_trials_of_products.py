"""Rows of many columns: products with the Hessian are tried before it is formed."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml._validation import as_matrix
from snapml.data import Dataset
from snapml.problems import (
    Intercept,
    Logistic,
    Penalty,
    Poisson,
    Problem,
    Softmax,
    Squared,
    SquaredHinge,
)
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.newton import quasi_newton, small_newton
from snapml.solvers.plan import choice, rules
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.stopping import StoppingRule

N_COLUMNS = 60


@pytest.fixture(autouse=True)
def sixty_columns_are_many(monkeypatch):
    monkeypatch.setattr(rules, "_MANY_DENSE", N_COLUMNS)
    monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)


def make_dataset(loss, *, is_stiff=False, n_rows=150):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n_rows, N_COLUMNS))
    if is_stiff:
        X = X @ (
            rng.standard_normal((N_COLUMNS, N_COLUMNS)) * 10.0 ** rng.uniform(-3, 2, N_COLUMNS)
        )
    z = X @ rng.standard_normal(N_COLUMNS)
    z /= z.std()
    y = {
        "Logistic": np.where(z + rng.standard_normal(n_rows) > 0.0, 1.0, -1.0),
        "SquaredHinge": np.where(z > 0.0, 1.0, -1.0),
        "Squared": z + rng.standard_normal(n_rows),
        "Poisson": rng.poisson(np.exp(z)).astype(float),
    }[type(loss).__name__]
    return Dataset(as_matrix(X), y, None, 1.0)


def solve(problem, dataset, rule):
    return choice.fit(problem, dataset, SerialCommunicator(), rule, Settings(solver="pqn"))


def alone(problem, dataset, rule, monkeypatch):
    """Return what is found without a trial."""
    monkeypatch.setattr(rules, "products_worth_a_trial", lambda *_: None)
    return solve(problem, dataset, rule)


@pytest.mark.parametrize("loss", [Logistic(), Poisson()], ids=lambda x: x.core_name)
@pytest.mark.parametrize("intercept", Intercept, ids=lambda k: k.value)
def test_easy_rows_need_no_factor(loss, intercept, monkeypatch):
    dataset, rule = make_dataset(loss), StoppingRule(tol=1e-9, max_iter=200)
    monkeypatch.setattr(rules, "_TRIAL_OF_FACTORS", 1e3)
    problem = Problem(loss, intercept, penalty=Penalty(0.0, 10.0))
    found = solve(problem, dataset, rule)
    assert found.description.startswith("Newton's method by conjugate gradients")
    assert found.has_converged
    other = alone(problem, dataset, rule, monkeypatch)
    assert abs(found.objective - other.objective) <= found.gap + other.gap
    assert found.gap <= 1e-9 * found.objective


@pytest.mark.parametrize("loss", [Logistic(), Poisson()], ids=lambda x: x.core_name)
def test_columns_that_are_alike_are_left_to_factors(loss, monkeypatch):
    dataset, rule = make_dataset(loss, is_stiff=True), StoppingRule(tol=1e-8, max_iter=300)
    problem = Problem(loss, Intercept.FREE, penalty=Penalty(0.0, 1e-3))
    found = solve(problem, dataset, rule)
    assert "by conjugate gradients: as asked for" in found.description
    assert found.has_converged
    epochs = [entry["epoch"] for entry in found.history]
    assert epochs == sorted(epochs)
    other = alone(problem, dataset, rule, monkeypatch)
    assert abs(found.objective - other.objective) <= found.gap + other.gap


@pytest.mark.parametrize(
    ("problem", "n_rows"),
    [
        (Problem(Logistic(), penalty=Penalty(0.0, 0.0)), 150),
        (Problem(SquaredHinge()), 150),
        (Problem(Squared()), 150),
        (Problem(Logistic()), 200),
    ],
    ids=["no penalty", "curvature jumps", "quadratic", "many rows"],
)
def test_others_are_not_tried(problem, n_rows):
    engine = CpuPrimalEngine(problem, make_dataset(problem.loss, n_rows=n_rows), n_threads=1)
    assert rules.products_worth_a_trial(engine, SerialCommunicator()) is None


def test_reads_of_both_count(monkeypatch):
    dataset = make_dataset(Logistic(), is_stiff=True)
    problem = Problem(Logistic(), Intercept.FREE, penalty=Penalty(0.0, 1e-3))
    found = solve(problem, dataset, StoppingRule(tol=1e-12, max_iter=4))
    assert found.n_iter <= 4
    assert not found.has_converged


def make_counts(loss, *, n_rows=400, n_columns=70):
    """Return counts beside indicators: nearly dependent columns of quite different lengths."""
    rng = np.random.default_rng(3)
    counts = np.exp(rng.normal(size=(n_rows, 1)) * 2.0 + 0.1 * rng.normal(size=(n_rows, 8)))
    X = np.zeros((n_rows, n_columns))
    X[:, :8] = counts * 10.0 ** rng.uniform(0, 4, 8)
    X[np.arange(n_rows), rng.integers(8, n_columns, n_rows)] = 1.0
    z = np.log(counts) @ rng.normal(size=8) + X[:, 8:] @ rng.normal(size=n_columns - 8)
    z = (z - z.mean()) / z.std()
    y = np.where(z + rng.logistic(size=n_rows) > 0.0, 1.0, -1.0)
    if loss.core_name == "Poisson":
        y = rng.poisson(np.exp(z)).astype(float)
    return Dataset(as_matrix(csr_matrix(X)), y, None, 1.0)


@pytest.fixture
def seventy_columns_may_be_factored(monkeypatch):
    """Let products be what the rows of seventy columns get, and one call what may follow."""
    for module in (small_newton, quasi_newton):
        monkeypatch.setattr(module, "HOT_COLUMNS", 16)


def fit_counts(loss, *, tol=1e-9, max_iter=300, intercept=Intercept.FREE):
    problem = Problem(loss, intercept, penalty=Penalty(0.0, 1e-3))
    rule = StoppingRule(tol=tol, max_iter=max_iter)
    ask = problem, make_counts(loss), SerialCommunicator(), rule, Settings(), Start()
    return choice._quasi_newton(*ask)


@pytest.mark.parametrize("intercept", Intercept, ids=lambda k: k.value)
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Poisson()], ids=lambda x: x.core_name)
def test_sparse_columns_that_are_alike_are_left_to_one_call(
    seventy_columns_may_be_factored, loss, intercept, monkeypatch
):
    found = fit_counts(loss, intercept=intercept)
    assert found.description.startswith("quasi-Newton in one call")
    assert "reads by conjugate gradients" in found.description
    assert found.has_converged
    assert found.gap <= 1e-9 * found.objective
    epochs = [entry["epoch"] for entry in found.history]
    assert epochs == sorted(epochs)
    monkeypatch.setattr(choice, "_may_be_finished", lambda *_: False)
    other = fit_counts(loss, tol=1e-6, max_iter=3_000, intercept=intercept)
    assert "one call" not in other.description
    assert found.objective - found.gap <= other.objective
    assert other.objective - other.gap <= found.objective


def test_what_one_call_does_not_solve_goes_on_by_products(
    seventy_columns_may_be_factored, monkeypatch
):
    monkeypatch.setattr(small_newton, "solve", lambda *_: None)
    found = fit_counts(Logistic(), tol=1e-6, max_iter=3_000)
    assert "one call" not in found.description
    assert found.has_converged


def test_others_are_not_left_to_one_call(seventy_columns_may_be_factored):
    problem = Problem(Logistic())
    assert small_newton.may_finish(problem, 400, 70)
    assert not small_newton.may_finish(problem, 400, 16)  # a block of the Hessian is all of it
    assert not small_newton.may_finish(problem, 100, 70)
    assert not small_newton.may_finish(problem, 10**6, 10**4)
    assert not small_newton.may_finish(Problem(Squared()), 400, 70)
    assert not small_newton.may_finish(Problem(Softmax(3)), 400, 70)
    assert not small_newton.may_finish(Problem(Logistic(), penalty=Penalty(0.0, 0.0)), 400, 70)
    assert not small_newton.may_finish(Problem(Logistic(), penalty=Penalty(1.0, 1.0)), 400, 70)


def labels_of_three(dataset):
    return Dataset(dataset.matrix, np.arange(len(dataset.labels)) % 3.0, None, 1.0)


@pytest.mark.parametrize("intercept", Intercept, ids=lambda k: k.value)
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=lambda x: x.core_name)
def test_products_with_wide_rows_are_tried_before_their_span(loss, intercept, monkeypatch):
    dataset, rule = make_dataset(Logistic(), n_rows=40), StoppingRule(tol=1e-9, max_iter=200)
    dataset = labels_of_three(dataset) if loss.is_joint else dataset
    problem = Problem(loss, intercept, penalty=Penalty(0.0, 10.0))
    monkeypatch.setattr(rules, "products_of_dense_factor", lambda *_: 1e3)
    found = solve(problem, dataset, rule)
    assert found.has_converged
    assert "span" not in found.description
    monkeypatch.setattr(rules, "products_of_dense_factor", lambda *_: 2.0)
    second = solve(problem, dataset, rule)
    assert second.has_converged
    assert "in the span of the rows: after" in second.description
    assert abs(found.objective - second.objective) <= found.gap + second.gap
    monkeypatch.setattr(rules, "products_before_span", lambda *_: None)
    other = solve(problem, dataset, rule)
    assert other.description.endswith("in the span of the rows: as asked for")
    assert abs(found.objective - other.objective) <= found.gap + other.gap


def test_rows_far_wider_are_taken_to_their_span_at_once():
    dataset = make_dataset(Logistic(), n_rows=15)
    assert rules.products_before_span(Problem(Logistic()), dataset) is None
