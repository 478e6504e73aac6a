"""Generalized linear models by glum's names: the same as the classes of their families."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import snapml
from snapml import (
    GammaRegressor,
    GeneralizedLinearRegressor,
    LogisticRegression,
    NegativeBinomialRegressor,
    PoissonRegressor,
    TweedieRegressor,
)
from snapml.statistics import inference

from .test_counts_and_amounts import design, policies, reference

RNG = np.random.default_rng(0)
N, P = 500, 5
X = RNG.normal(size=(N, P))
MARGINS = X[:, :3] @ [0.4, -0.3, 0.2] + 0.3
COUNTS = RNG.poisson(np.exp(MARGINS)).astype(float)
AMOUNTS = RNG.gamma(2.0, np.exp(MARGINS) / 2.0)
LABELS = (RNG.random(N) < 1.0 / (1.0 + np.exp(-MARGINS))).astype(float)
OFFSETS = RNG.normal(scale=0.3, size=N)
WEIGHTS = RNG.integers(1, 4, N).astype(float)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize(
    ("family", "same", "y"),
    [
        ("normal", TweedieRegressor(power=0), MARGINS + OFFSETS),
        ("gaussian", TweedieRegressor(power=0), MARGINS + OFFSETS),
        ("poisson", PoissonRegressor(), COUNTS),
        ("gamma", GammaRegressor(), AMOUNTS),
        ("tweedie", TweedieRegressor(power=1.5), AMOUNTS * (COUNTS > 0)),
        ("tweedie (1.7)", TweedieRegressor(power=1.7), AMOUNTS * (COUNTS > 0)),
        ("negative.binomial", NegativeBinomialRegressor(theta=1.0), COUNTS),
        ("negative.binomial(0.3)", NegativeBinomialRegressor(theta=0.3), COUNTS),
    ],
)
def test_every_family_is_its_class(family, same, y, l1_ratio):
    options = dict(alpha=0.05, l1_ratio=l1_ratio, tol=1e-9)
    model = GeneralizedLinearRegressor(family=family, **options)
    model.fit(X, y, WEIGHTS, offset=OFFSETS)
    expected = clone(same).set_params(**options).fit(X, y, WEIGHTS, offset=OFFSETS)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.intercept_ == expected.intercept_
    assert model.objective_ == expected.objective_
    assert model.score(X, y, offset=OFFSETS) == expected.score(X, y, offset=OFFSETS)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_binomial_is_logistic_regression_of_the_mean(tmp_path, l1_ratio):
    alpha = 0.01
    model = GeneralizedLinearRegressor(family="binomial", alpha=alpha, l1_ratio=l1_ratio, tol=1e-10)
    model.fit(X, LABELS, WEIGHTS, offset=OFFSETS)
    same = LogisticRegression(C=1.0 / (alpha * WEIGHTS.sum()), l1_ratio=l1_ratio, tol=1e-10)
    same.fit(X, LABELS, WEIGHTS, offset=OFFSETS)
    np.testing.assert_allclose(model.coef_, same.coef_[0], atol=1e-6)
    found = model.predict(X, offset=OFFSETS)
    expected = same.predict_proba(X, offset=OFFSETS)[:, 1]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    model.save(tmp_path / "model")
    again = snapml.load(tmp_path / "model").predict(X, offset=OFFSETS)
    np.testing.assert_array_equal(again, found)
    assert 0.0 < model.score(X, LABELS, offset=OFFSETS) < 1.0
    with pytest.raises(ValueError, match="exposure: expected none with the logit link"):
        model.predict(X, exposure=2.0)


def test_reference_fit_of_statsmodels_with_labels_comes_out():
    expected = reference("aus_logit")
    frame, _, _ = policies("aus_poisson")
    names = [each for each in expected["params"] if each != "Intercept"]
    model = GeneralizedLinearRegressor(family="binomial", tol=1e-16, max_iter=50)
    offset = np.log(frame.Exposure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # beyond what rounding allows
        model.fit(design(frame, names), frame.ClaimOcc, offset=offset)
    exact = np.array([expected["params"][each] for each in names])
    np.testing.assert_allclose(model.coef_, exact, rtol=1e-6, atol=2e-8)
    assert model.existence_ == "proved"
    found = inference(model, design(frame, names), frame.ClaimOcc, offset=offset)
    errors = np.array([expected["bse"][each] for each in ["Intercept", *names]])
    np.testing.assert_allclose(found.standard_errors, errors, rtol=1e-6)
    assert found.log_likelihood == pytest.approx(expected["llf"], rel=1e-9)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"family": "quasi"}, "family: expected one of"),
        ({"family": "tweedie (3)"}, "power: expected 0, or from 1 to 2, got 3"),
        ({"family": "tweedie (x)"}, "family: expected one of"),
        ({"family": "negative.binomial (0)"}, "theta: expected a number from"),
        ({"family": "poisson (2)"}, "family: expected one of"),
        ({"family": None}, "family: expected one of"),
        ({"family": "poisson", "link": "identity"}, "link: expected 'log' or 'auto'"),
        ({"family": "binomial", "link": "probit"}, "link: expected one of"),
        ({"family": "binomial"}, "y: expected 0 and 1, got"),
        ({"alpha": -1.0}, "alpha"),
    ],
)
def test_what_means_nothing_is_refused_and_leaves_nothing(parameters, says):
    model = GeneralizedLinearRegressor(**parameters)
    with pytest.raises(ValueError, match=re.escape(says)):
        model.fit(X, COUNTS)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_labels_of_one_kind_are_refused():
    for y in (np.zeros(N), np.ones(N)):
        with pytest.raises(ValueError, match="y: expected both 0 and 1, got"):
            GeneralizedLinearRegressor(family="binomial").fit(X, y)


def test_no_alpha_is_no_penalty():
    model = GeneralizedLinearRegressor(family="poisson", tol=1e-10).fit(X, COUNTS)
    expected = PoissonRegressor(alpha=0.0, tol=1e-10).fit(X, COUNTS)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.existence_ == "proved"


def test_agrees_with_glum():
    glum = pytest.importorskip("glum")
    for family in ("poisson", "gamma", "tweedie (1.5)", "binomial"):
        y = {"binomial": LABELS, "poisson": COUNTS}.get(family, AMOUNTS)
        options = dict(family=family, alpha=0.02, l1_ratio=0.3)
        theirs = glum.GeneralizedLinearRegressor(
            **options, link="auto" if family == "binomial" else "log", gradient_tol=1e-9
        )
        theirs.fit(X, y, sample_weight=WEIGHTS, offset=OFFSETS)
        model = GeneralizedLinearRegressor(**options, tol=1e-12, max_iter=1000)
        model.fit(X, y, WEIGHTS, offset=OFFSETS)
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-6)
