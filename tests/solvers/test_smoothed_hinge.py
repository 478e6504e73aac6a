"""The hinge by continuation, on columns as they come."""

import numpy as np
import pytest

from snapml import LinearSVC
from snapml.solvers import quasi_newton


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


def test_a_stage_without_a_step_begins_anew_nearer_to_the_last(monkeypatch):
    X, y = make_visits(np.float64)
    widths, solve = [], quasi_newton.solve

    def watched(engine, *args, **kwargs):
        widths.append(float(np.abs(engine.labels(np.arange(1))).max()))
        return solve(engine, *args, **kwargs)

    monkeypatch.setattr(quasi_newton, "solve", watched)
    model = LinearSVC(loss="hinge", C=0.01).fit(X, y)
    ratios = np.array(widths[1:]) / widths[:-1]
    assert (np.abs(ratios[:3] - 0.1) < 1e-12).all()
    assert (ratios > 1.0).any()  # one went back, by less than it came
    assert widths[-1] == pytest.approx(min(widths))
    assert model.gap_ <= model.tol * model.objective_
