"""The interior point method in one call: its answers, what its gap proves, and who looks on."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml import LinearSVC, QuantileRegressor
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import (
    EpsilonInsensitive,
    Hinge,
    Intercept,
    Logistic,
    Penalty,
    Problem,
    Quantile,
)
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import Control
from snapml.solvers.fit_settings import Settings
from snapml.solvers.interior_point import small_rows, working_rows
from snapml.solvers.plan import choice
from snapml.solvers.stopping import StoppingRule

LOSSES = (Quantile(0.5), Quantile(0.03), EpsilonInsensitive(0.0), EpsilonInsensitive(0.7), Hinge())
PENALTIES = (Penalty(0.05, 0.0), Penalty(0.0, 0.01), Penalty(0.02, 0.02))
RULE = StoppingRule(1e-6, 1000)
ALONE = SerialCommunicator()


def make(loss, n_rows=200, dtype=np.float64, *, is_sparse=False):
    """Return rows with weights and offsets, some without weight, and labels with outliers."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_rows, 9)) * np.logspace(-1, 1, 9) + 0.5
    if is_sparse:
        X *= rng.random(X.shape) < 0.1
    t = X @ rng.normal(size=9) + rng.standard_t(2, n_rows)
    y = np.where(t > np.median(t), 1.0, -1.0) if loss.labels == "sign" else t
    weights = rng.uniform(0.0, 2.0, n_rows) / n_rows
    weights[:10] = 0.0
    X = X.astype(dtype)
    rows = csr_matrix(X)
    thin = CompressedMatrix(rows.indptr, rows.indices, 9, rows.data, rows.dtype)
    offsets = rng.normal(size=n_rows)
    matrix = thin if is_sparse else DenseMatrix(X)
    return X, Dataset(matrix, y.astype(dtype), weights.astype(dtype), 1.0, offsets)


def solve(problem, dataset, rule=RULE):
    settings = Settings()
    assert small_rows.suits(problem, dataset, ALONE, rule, settings)
    return small_rows.solve(problem, dataset, ALONE, rule, settings)


def objective(problem, X, dataset, result):
    """Return the objective of a model, from the definition."""
    X, y = X.astype(np.float64), dataset.labels.astype(np.float64)
    w, z = result.coef.astype(np.float64), X @ result.coef + result.intercept + dataset.offsets
    if isinstance(problem.loss, Hinge):
        losses = np.maximum(0.0, 1.0 - y * z)
    elif isinstance(problem.loss, Quantile):
        q = problem.loss.quantile
        losses = np.maximum(q * (y - z), (q - 1.0) * (y - z))
    else:
        losses = np.maximum(0.0, abs(y - z) - problem.loss.epsilon)
    if problem.intercept is Intercept.PENALISED:
        w = np.append(w, result.intercept / problem.intercept_scaling)
    penalty = problem.penalty.l1 * abs(w).sum() + 0.5 * problem.penalty.l2 * w @ w
    return float(dataset.row_weights.astype(np.float64) @ losses) + penalty


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
def test_one_call_has_the_answer_of_the_method_for_many_rows(loss, intercept, penalty, is_sparse):
    X, dataset = make(loss, is_sparse=is_sparse)
    problem = Problem(loss, intercept, 2.0, penalty)
    quick = solve(problem, dataset)
    rule = StoppingRule(1e-9, 1000)
    exact = working_rows.solve(problem, dataset, ALONE, rule, n_threads=1)
    assert quick.has_converged
    assert 0.0 <= quick.gap <= 1e-6 * quick.objective
    assert quick.objective == pytest.approx(objective(problem, X, dataset, quick), rel=1e-12)
    assert abs(quick.objective - exact.objective) <= quick.gap + exact.gap
    np.testing.assert_allclose(quick.coef, exact.coef, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(quick.coef == 0.0, exact.coef == 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
def test_gap_of_float32_is_that_of_the_rounded_model(loss):
    X, dataset = make(loss, dtype=np.float32)
    problem = Problem(loss, Intercept.FREE, penalty=Penalty(0.0, 0.01))
    quick = solve(problem, dataset)
    assert quick.coef.dtype == np.float32
    found = objective(problem, X, dataset, quick)
    assert quick.objective == pytest.approx(found, rel=1e-7)
    wide = replace(
        dataset,
        matrix=DenseMatrix(X.astype(np.float64)),
        labels=dataset.labels.astype(np.float64),
        row_weights=dataset.row_weights.astype(np.float64),
    )
    exact = solve(problem, wide, StoppingRule(1e-10, 1000))
    assert quick.objective - quick.gap <= exact.objective * (1 + 1e-9)


@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-4])
@pytest.mark.parametrize("intercept", list(Intercept))
def test_bounds_are_below_the_optimum_however_early_a_fit_ends(intercept, tol):
    _, dataset = make(Hinge())
    problem = Problem(Hinge(), intercept, 2.0, Penalty(0.0, 0.01))
    best = solve(problem, dataset, StoppingRule(1e-11, 1000)).objective
    for n_looks in range(1, 16):
        control = Control(look=_look_until(n_looks))
        result = solve(problem, dataset, StoppingRule(tol, 1000, control=control))
        assert result.objective - result.gap <= best * (1 + 1e-10)
        assert result.objective >= best * (1 - 1e-10)


def _look_until(last):
    seen = []

    def look(model_of):
        seen.append(model_of())
        return len(seen) >= last

    return look


def test_every_step_is_shown_and_a_fit_ends_where_it_is_told(caplog):
    _, dataset = make(Hinge())
    problem = Problem(Hinge(), Intercept.PENALISED, 1.0, Penalty(0.0, 0.01))
    with caplog.at_level(logging.INFO, "snapml"):
        whole = solve(problem, dataset, StoppingRule(1e-8, 1000, verbose=1))
    assert caplog.text.count("certified gap") >= 1
    seen = []

    def look(model_of):
        seen.append(model_of().coef[0])
        return len(seen) >= 5

    ended = solve(problem, dataset, StoppingRule(1e-8, 1000, control=Control(look=look)))
    assert len(seen) == len(ended.history) == 5
    assert not ended.has_converged
    assert whole.gap < ended.gap < np.inf
    assert ended.n_iter < whole.n_iter
    np.testing.assert_array_equal(ended.coef, seen[-1])
    epochs = [entry["epoch"] for entry in whole.history]
    assert epochs == sorted(epochs)
    assert np.isfinite(whole.history[-1]["gap"])


def test_what_is_no_small_problem_of_its_kind_is_left_to_others():
    _, dataset = make(Hinge())
    penalty = Penalty(0.0, 1.0)

    def is_small(problem, rows=200):
        return small_rows.is_small(problem, dataset.matrix.take(np.arange(rows)))

    hinge = Problem(Hinge(), Intercept.FREE, penalty=penalty)
    assert is_small(hinge)
    assert is_small(hinge, rows=8)  # few columns may be more than the rows
    assert not is_small(replace(hinge, penalty=Penalty(0.0, 0.0)))
    assert not is_small(replace(hinge, loss=Logistic()))
    assert not is_small(replace(hinge, penalty=Penalty(1.0, 0.0, is_positive=True)))


def test_a_tolerance_that_rounding_forbids_is_left_to_others():
    _, dataset = make(Hinge(), dtype=np.float32)
    problem = Problem(Hinge(), Intercept.FREE, penalty=Penalty(0.0, 0.01))
    assert solve(problem, dataset, StoppingRule(1e-13, 1000)) is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_refused(value):
    X, dataset = make(Hinge())
    X[7, 2] = value
    problem = Problem(Hinge(), Intercept.FREE, penalty=Penalty(0.0, 0.01))
    broken = replace(dataset, matrix=DenseMatrix(X))
    assert solve(problem, broken) is None
    with pytest.raises(ValueError, match=r"NaN|finite"):
        choice.fit(problem, broken, ALONE, RULE, Settings())


def test_default_fits_of_few_rows_are_one_call():
    X, dataset = make(Hinge())
    y = dataset.labels
    for model in (LinearSVC(loss="hinge"), QuantileRegressor(alpha=0.01)):
        assert "in one call" in model.fit(X, y).solver_
        assert model.gap_ <= model.tol * model.objective_


def test_rows_in_units_far_apart_and_equal_columns_are_certified():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [1e-6, 1.0, 1e6, 1.0] + [0.0, 1e3, 0.0, 0.0]
    X = np.column_stack([X, X[:, 1], np.ones(300), np.zeros(300)])
    y = rng.normal(size=300) + X[:, 3] > 0
    for C in (1e-3, 1.0, 1e3):
        model = LinearSVC(loss="hinge", C=C).fit(X, y)
        assert model.gap_ <= model.tol * model.objective_


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
def test_dual_variables_are_those_that_make_the_model(loss):
    X, dataset = make(loss)
    problem = Problem(loss, Intercept.PENALISED, 1.0, Penalty(0.0, 0.01))
    result = solve(problem, dataset, StoppingRule(1e-10, 1000))
    beta = result.duals * (dataset.labels if loss.labels == "sign" else 1.0)
    made = X.T @ (dataset.row_weights * beta) / 0.01
    np.testing.assert_allclose(made, result.coef, rtol=1e-4, atol=1e-5)
    assert (result.duals[:10] == 0.0).all()  # rows without weight
