"""Generalized linear models by glum's names: the same as the classes of their families."""

import re
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse import random as sparse_rows
from scipy.stats import norm
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


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_reference_fits_of_statsmodels_with_labels_come_out(link):
    expected = reference(f"aus_{link}")
    frame, _, _ = policies("aus_poisson")
    names = [each for each in expected["params"] if each != "Intercept"]
    model = GeneralizedLinearRegressor(family="binomial", link=link, tol=1e-16, max_iter=50)
    offset = None if link == "probit" else np.log(frame.Exposure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # beyond what rounding allows
        model.fit(design(frame, names), frame.ClaimOcc, offset=offset)
    exact = np.array([expected["params"][each] for each in names])
    np.testing.assert_allclose(model.coef_, exact, rtol=1e-6, atol=2e-8)
    # The proof needs a loss that bends no faster than it curves.
    assert model.existence_ == ("proved" if link == "logit" else "unknown")
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
        ({"family": "poisson", "link": "probit"}, "link: expected 'log' or 'auto'"),
        ({"family": "binomial", "link": "inverse"}, "link: expected one of"),
        ({"family": "binomial", "link": ["probit"]}, "link: expected one of"),
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


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_links_of_labels_meet_their_slope(link, l1_ratio, tmp_path):
    """Where the slope of the mean loss is that of the penalty, in plain NumPy."""
    alpha = 0.02
    model = GeneralizedLinearRegressor(
        family="binomial", link=link, alpha=alpha, l1_ratio=l1_ratio, tol=1e-12
    )
    model.fit(X, LABELS, WEIGHTS, offset=OFFSETS)
    means = model.predict(X, offset=OFFSETS)
    margins = X @ model.coef_ + model.intercept_ + OFFSETS
    steep = {
        "logit": lambda: np.ones(N),
        "probit": lambda: norm.pdf(margins) / (means * (1.0 - means)),
        "cloglog": lambda: np.exp(margins) / means,
    }[link]()
    slopes = X.T @ (WEIGHTS * (means - LABELS) * steep) / WEIGHTS.sum()
    smooth = slopes + alpha * (1.0 - l1_ratio) * model.coef_
    free = model.coef_ != 0.0
    signs = alpha * l1_ratio * np.sign(model.coef_)
    np.testing.assert_allclose(smooth[free], -signs[free], atol=1e-6)
    assert np.all(np.abs(smooth[~free]) <= alpha * l1_ratio)
    assert abs(np.sum(WEIGHTS * (means - LABELS) * steep)) < 1e-5 * WEIGHTS.sum()
    score = model.score(X, LABELS, offset=OFFSETS)
    assert 0.0 < score < 1.0
    model.save(tmp_path / "model")
    assert snapml.load(tmp_path / "model").score(X, LABELS, offset=OFFSETS) == score


@pytest.mark.parametrize("link", ["probit", "cloglog"])
def test_links_of_labels_take_sparse_float32_rows_and_far_columns(link):
    far = X * [1.0, 100.0, 0.01, 1.0, 1.0] + [0.0, 1e3, 0.0, 5.0, 0.0]
    options = dict(family="binomial", link=link, alpha=1e-3)
    dense = GeneralizedLinearRegressor(tol=1e-9, **options).fit(far, LABELS)
    sparse = GeneralizedLinearRegressor(tol=1e-9, **options).fit(csr_matrix(far), LABELS)
    narrow = GeneralizedLinearRegressor(**options).fit(far.astype(np.float32), LABELS)
    expected = dense.predict(far)
    np.testing.assert_allclose(sparse.predict(far), expected, atol=1e-5)
    np.testing.assert_allclose(narrow.predict(far.astype(np.float32)), expected, atol=2e-3)
    for model in (dense, sparse, narrow):
        assert model.gap_ <= model.tol * model.objective_


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_links_of_labels_stand_far_offsets(link):
    offsets = 1e3 * np.random.default_rng(2).normal(size=N)
    model = GeneralizedLinearRegressor(family="binomial", link=link, alpha=0.01)
    model.fit(X, LABELS, offset=offsets)
    assert np.isfinite(model.coef_).all()
    assert model.gap_ <= model.tol * model.objective_
    assert np.isfinite(model.predict(X, offset=offsets)).all()
    np.testing.assert_array_equal(model.predict(1e6 * X[:1], offset=1e5), [1.0])


@pytest.mark.parametrize("family", ["binomial", "normal"])
def test_sparse_rows_of_many_columns_are_solved(family):
    """By coordinate ascent, whose engines know a strength of 1."""
    rng = np.random.default_rng(1)
    rows = sparse_rows(400, 900, density=0.02, format="csr", random_state=rng)
    margins = np.asarray(rows.sum(axis=1)).ravel() - 9.0
    y = (margins > 0.0).astype(float) if family == "binomial" else margins
    model = GeneralizedLinearRegressor(family=family, alpha=0.01, tol=1e-9).fit(rows, y)
    means = model.predict(rows)
    slopes = rows.T @ (means - y) / len(y) + 0.01 * model.coef_
    np.testing.assert_allclose(slopes, 0.0, atol=1e-5)
    assert model.gap_ <= 1e-9 * model.objective_
    halves = 0.5 * (means - y) ** 2 if family == "normal" else -np.log(np.abs(1.0 - y - means))
    value = halves.mean() + 0.005 * model.coef_ @ model.coef_
    assert model.objective_ == pytest.approx(value, rel=1e-6)


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
