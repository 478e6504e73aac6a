"""The hinge by continuation, on columns as they come."""

import math
from dataclasses import replace

import numpy as np
import pytest

from snapml import LinearSVC
from snapml.problems import Hinge, Intercept
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import quasi_newton, small_newton, smoothed_hinge
from snapml.solvers.plan import choice
from snapml.solvers.stopping import StoppingRule

from .cases import Case


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
    monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)  # whose stages are one call each
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
        result = smoothed_hinge.solve(
            case.problem, case.dataset(), SerialCommunicator(), StoppingRule(tol, 1000)
        )
        assert result.gap <= tol * result.objective
        best = case.optimum.objective
        assert result.objective - result.gap <= best * (1 + rounding)
        assert best * (1 - rounding) <= result.objective


@pytest.fixture
def impatient(monkeypatch):
    """Let coordinate ascent on many columns be left after a few epochs."""
    monkeypatch.setattr(choice, "_PATIENCE_A_COLUMN", 1e-3)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_stages_in_one_call_lead_where_steps_one_by_one_do(dtype, fit_intercept, monkeypatch):
    X, y = make_visits(dtype)
    model = LinearSVC(loss="hinge", C=0.01, fit_intercept=fit_intercept)
    quick = model.fit(X, y).coef_.copy(), model.objective_, model.gap_, model.n_iter_
    monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)
    model.fit(X, y)
    np.testing.assert_allclose(quick[0], model.coef_, rtol=1e-4, atol=1e-7)
    assert quick[1] == pytest.approx(model.objective_, rel=1e-7)
    assert quick[2] <= 1e-5 * quick[1]
    assert quick[3] == pytest.approx(model.n_iter_, rel=0.5)
