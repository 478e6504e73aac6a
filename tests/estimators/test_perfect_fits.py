"""Targets that a model meets exactly: the objective is 0, of which no share is anything."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import snapml
from snapml.solvers.interior_point import small_rows
from snapml.solvers.newton import small_newton

COUNTS = {
    "poisson": snapml.PoissonRegressor(),
    "poisson without a penalty": snapml.PoissonRegressor(alpha=0.0),
    "poisson, L1": snapml.PoissonRegressor(alpha=0.1, l1_ratio=1.0),
    "gamma": snapml.GammaRegressor(),
    "tweedie": snapml.TweedieRegressor(power=1.9),
    "negative binomial": snapml.NegativeBinomialRegressor(theta=2.0),
}
UNPENALISED = {
    "poisson": snapml.PoissonRegressor(alpha=0.0),
    "gamma": snapml.GammaRegressor(alpha=0.0),
    "tweedie": snapml.TweedieRegressor(power=1.5, alpha=0.0),
    "quantile": snapml.QuantileRegressor(alpha=0.0),
    "lower quantile": snapml.QuantileRegressor(quantile=0.1, alpha=0.0),
}


@pytest.fixture(params=["in one call", "by reads"])
def way(request, monkeypatch):
    """Both roads of a few rows, and that of many."""
    if request.param == "by reads":
        monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)
        monkeypatch.setattr(small_rows, "_MOST_ENTRIES", 0)


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        return estimator.fit(X, y)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [1.0, 3.0, 7.0, 100.0])
def test_a_constant_target_is_met_within_a_few_reads(name, value, dtype, way):
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(dtype)
    y = np.full(60, value)
    model = fit(COUNTS[name], X, y)
    assert model.n_iter_ < 30
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-4 if dtype == np.float32 else 1e-9)
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize("name", UNPENALISED)
@pytest.mark.parametrize("n", [5, 60, 333])
def test_a_target_without_noise_is_met_without_a_warning(name, n, way):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    margins = X @ np.array([0.5, -0.3, 0.2]) + 0.7
    is_real = "quantile" in name
    model = fit(UNPENALISED[name], X, margins if is_real else np.exp(margins))
    np.testing.assert_allclose(model.coef_, [0.5, -0.3, 0.2], atol=1e-9)
    np.testing.assert_allclose(model.intercept_, 0.7, atol=1e-9)
    assert model.gap_ <= 1e-13


@pytest.mark.parametrize("unit", [1e-19, 1e-6, 1.0, 1e9])
def test_what_is_rounding_follows_the_targets_unit(unit):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    noisy = np.exp(0.3 * X[:, 0]) * rng.gamma(20.0, 0.05, size=200)
    for estimator in (
        snapml.TweedieRegressor(power=1.5, alpha=0.0),
        snapml.GammaRegressor(alpha=0),
    ):
        reference = fit(estimator, X, noisy).coef_
        np.testing.assert_allclose(fit(estimator, X, unit * noisy).coef_, reference, rtol=1e-5)
    quantile = snapml.QuantileRegressor(alpha=0.0)
    reference = fit(quantile, X, noisy).coef_
    np.testing.assert_allclose(fit(quantile, X, unit * noisy).coef_, unit * reference, rtol=1e-5)
