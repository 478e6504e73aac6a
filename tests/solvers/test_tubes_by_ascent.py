"""Tubes whose residuals are long beside what a row can do: coordinate ascent ends in few epochs."""

import numpy as np
import pytest

from snapml import LinearSVR, QuantileRegressor
from snapml.solvers.plan import rules


@pytest.fixture
def house_prices():
    """Standardised columns, and targets in the unit that they come in."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 60))
    return X, 1e5 * (2.0 + X[:, :5].sum(axis=1) + rng.standard_t(3, size=3000))


@pytest.mark.parametrize("epsilon", [0.0, 1e4])
def test_large_targets_take_few_epochs(house_prices, epsilon):
    model = LinearSVR(epsilon=epsilon).fit(*house_prices)
    assert "dual coordinate ascent" in model.solver_
    assert model.n_iter_ <= 5
    assert model.gap_ <= 1e-5 * model.objective_


def test_the_answer_is_that_of_the_interior_point_method(house_prices, monkeypatch):
    X, y = house_prices
    model = LinearSVR(tol=1e-9).fit(X, y)
    monkeypatch.setattr(rules, "_stiffness_of_tube", lambda n_features: 0.0)
    other = LinearSVR(tol=1e-9).fit(X, y)
    assert "interior point" in other.solver_
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-9)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-3 * abs(other.coef_).max())


def test_small_targets_go_by_systems(house_prices):
    X, y = house_prices
    assert "interior point" in LinearSVR().fit(X, y / 1e5).solver_


def test_a_free_intercept_takes_the_targets_mean(house_prices):
    """What is far away is not long: its residuals are those that are left."""
    X, y = house_prices
    far = QuantileRegressor(alpha=1e-3, l1_ratio=0.0).fit(X, y / 1e5 + 1e6)
    near = QuantileRegressor(alpha=1e-3, l1_ratio=0.0).fit(X, y / 1e5)
    assert far.solver_ == near.solver_
