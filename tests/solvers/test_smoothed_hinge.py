"""The hinge by continuation, on columns as they come."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml import LinearSVC
from snapml.problems import Hinge, Intercept
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent import cpu_engine
from snapml.solvers.interior_point import small_rows
from snapml.solvers.newton import quasi_newton, smoothed_hinge
from snapml.solvers.plan import rules
from snapml.solvers.rows.streaming_engine import primal_engine
from snapml.solvers.stopping import StoppingRule

from .cases import Case


@pytest.fixture(autouse=True)
def without_one_call(monkeypatch):
    """Take no rows for so few that all systems are one call."""
    monkeypatch.setattr(small_rows, "_MOST_ENTRIES", 0)


def make_visits(dtype, n_rows=4000):
    """Ages, incomes and counts: rows that are long, and margins that lie in clusters."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(3, n_rows)
    X = np.column_stack([rng.normal(40, 10, n_rows), rng.lognormal(10, 1, n_rows), counts])
    return X.astype(dtype), counts - 3 + rng.standard_normal(n_rows) > 0


def hinge_objective(X, y, C, model):
    margins = np.where(y, 1.0, -1.0) * (X.astype(np.float64) @ model.coef_[0] + model.intercept_)
    return C * np.maximum(0.0, 1.0 - margins).sum() + 0.5 * (
        np.sum(model.coef_**2.0) + model.intercept_[0] ** 2.0
    )


@pytest.mark.parametrize("C", [1e-4, 0.01, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_rows_are_certified(dtype, C):
    X, y = make_visits(dtype)
    model = LinearSVC(loss="hinge", C=C).fit(X, y)
    assert "smoothed" in model.solver_
    assert 0.0 <= model.gap_ <= model.tol * model.objective_
    assert model.objective_ == pytest.approx(hinge_objective(X, y, C, model), rel=1e-5)
    assert model.objective_ < 0.8 * C * len(y)  # of zeros: C times the rows


def make_pixels(n_rows=1500, n_features=600):
    """Large numbers that are alike in all rows, more columns than a few, labels with noise."""
    rng = np.random.default_rng(0)
    shades = rng.uniform(0, 100, (5, n_features))
    noise = rng.uniform(-50, 50, (n_rows, n_features))
    X = np.clip(rng.uniform(0, 1, (n_rows, 5)) @ shades + noise, 0.0, 255.0)
    return X, X @ rng.standard_normal(n_features) + 400 * rng.standard_normal(n_rows) > 0


def watch_stages(monkeypatch, change=None):
    """Return the list to which every stage adds its width; `change` makes other results of them."""
    widths, solve = [], quasi_newton.solve

    def watched(engine, *args, **kwargs):
        widths.append(math.sqrt(engine.problem.penalty.l2))  # in the stage's units
        result = solve(engine, *args, **kwargs)
        return result if change is None else change(len(widths), result)

    monkeypatch.setattr(quasi_newton, "solve", watched)
    return widths


def test_a_stuck_stage_begins_anew_as_wide_as_the_last(monkeypatch):
    def spoil(number, result):
        lost = {"has_converged": False, "gap": result.objective, "coef": 0.0 * result.coef}
        return replace(result, **lost) if number == 4 else result

    X, y = make_visits(np.float64)
    widths = watch_stages(monkeypatch, spoil)
    model = LinearSVC(loss="hinge", C=0.01).fit(X, y)
    assert widths[4] == widths[2] > widths[3]
    assert widths[5] == 0.5 * widths[4]
    assert model.gap_ <= model.tol * model.objective_


def test_stages_that_all_get_stuck_come_to_an_end(monkeypatch):
    X, y = make_visits(np.float64)
    widths = watch_stages(
        monkeypatch, lambda _, result: replace(result, has_converged=False, gap=result.objective)
    )
    with pytest.warns(UserWarning, match="was not reached"):
        LinearSVC(loss="hinge", C=0.01, tol=1e-12).fit(X, y)
    assert len(widths) == 5


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_corners_around_dual_points_need_not_become_narrow(monkeypatch, C):
    X, y = make_visits(np.float64)
    widths = watch_stages(monkeypatch)
    model = LinearSVC(loss="hinge", C=C, tol=1e-9).fit(X, y)
    assert model.gap_ <= 1e-9 * model.objective_
    assert widths[-1] > 1e-6  # around zero the gap is as large as the width
    assert model.n_iter_ <= 100


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("intercept", list(Intercept))
def test_lower_bounds_are_below_the_optimum(dtype, intercept):
    case = Case(Hinge(), intercept, dtype, scale=3.0, offset=1.0)
    rounding = 1e-5 if dtype == "float32" else 1e-9
    for tol in (0.3, 0.1, 0.01, 1e-3, 1e-4):
        engine = primal_engine(case.problem, case.dataset())
        result = smoothed_hinge.solve(engine, SerialCommunicator(), StoppingRule(tol, 1000))
        assert result.gap <= tol * result.objective
        best = case.optimum.objective
        assert result.objective - result.gap <= best * (1 + rounding)
        assert best * (1 - rounding) <= result.objective


@pytest.fixture
def impatient(monkeypatch):
    """Let coordinate ascent on many columns be left after a few epochs."""
    monkeypatch.setattr(rules, "_PATIENCE_A_COLUMN", 1e-3)


@pytest.mark.parametrize("C", [1e-4, 1.0])
@pytest.mark.usefixtures("impatient")
def test_long_rows_of_many_columns_are_handed_over(C):
    X, y = make_pixels()
    model = LinearSVC(loss="hinge", C=C).fit(X, y)
    assert model.gap_ <= model.tol * model.objective_
    assert "smoothed" in model.solver_
    assert "epochs of dual coordinate ascent" in model.solver_


def test_short_rows_of_many_columns_stay_with_coordinate_ascent():
    X, y = make_pixels()
    model = LinearSVC(loss="hinge", C=0.01).fit(X / 2000.0, y)
    assert model.gap_ <= model.tol * model.objective_
    assert model.solver_.startswith("dual coordinate ascent")


@pytest.mark.parametrize(("C", "width"), [(0.3, 0.25), (1e4, 16.0)])
@pytest.mark.usefixtures("impatient")
def test_a_hand_over_goes_on_from_dual_points_that_are_worth_it(monkeypatch, C, width):
    X, y = make_pixels()
    widths = watch_stages(monkeypatch)
    model = LinearSVC(loss="hinge", C=C).fit(X / 2000.0, y)
    assert widths[0] == width
    assert model.gap_ <= model.tol * model.objective_


@pytest.mark.parametrize("solver", ["auto", "pqn", "sdca"])
def test_no_threads_are_refused_on_few_rows_too(solver):
    X, y = make_visits(np.float64, 100)
    with pytest.raises(ValueError, match="n_threads: expected None or an integer other than 0"):
        LinearSVC(loss="hinge", solver=solver, n_threads=0).fit(X, y)


@pytest.mark.parametrize("solver", ["auto", "pqn", "sdca"])
def test_several_classes_are_solved_one_after_the_other(solver):
    X, counts = make_visits(np.float64, 400)
    y = np.digitize(X[:, 2] + counts, [2, 4])
    model = LinearSVC(loss="hinge", C=1e-3, solver=solver, max_iter=20_000).fit(X / 50, y)
    expected = sum(
        LinearSVC(loss="hinge", C=1e-3).fit(X / 50, y == label).objective_ for label in range(3)
    )
    assert model.objective_ == pytest.approx(expected, rel=3e-5)


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_rows_at_rest_save_epochs_and_change_nothing_else(loss, is_sparse, monkeypatch):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1500, 40)) * (rng.random((1500, 40)) < 0.3)
    y = X @ rng.normal(size=40) + 0.3 * rng.normal(size=1500) > 0
    rows = csr_matrix(X) if is_sparse else X
    model = LinearSVC(loss=loss, solver="sdca", max_iter=5000, n_threads=1, tol=1e-6)
    epochs, objectives = [], []
    for most_moving in (0.8, 0.0):
        monkeypatch.setattr(cpu_engine, "_MOST_MOVING", most_moving)
        model.fit(rows, y)
        epochs.append(model.n_iter_)
        objectives.append(model.objective_)
        assert model.gap_ <= 1e-6 * model.objective_
    assert 2 * epochs[0] < epochs[1]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)
