"""Models of resampled rows are those of weighted rows."""

import numpy as np
import pytest
import scipy.sparse

from snapml import Lasso, LinearSVC, LogisticRegression, Ridge
from snapml.statistics import bootstrap, inference
from snapml.statistics.resampling import _BATCH

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 4))
MARGINS = X @ [1.0, -0.5, 0.0, 2.0] + RNG.standard_normal(150)
CLASSES = np.digitize(MARGINS, [-1.0, 1.0])
EXACT = {"tol": 1e-12}
MODELS = {
    "logistic": (LogisticRegression(**EXACT), MARGINS > 0, True),
    "squared hinge": (LinearSVC(**EXACT), np.where(MARGINS > 0, "yes", "no"), True),
    "ridge": (Ridge(**EXACT), MARGINS, True),
    "lasso": (Lasso(alpha=0.1, **EXACT), MARGINS, True),
    "l1": (LogisticRegression(l1_ratio=1.0, **EXACT), MARGINS > 0, False),
    "three classes": (LogisticRegression(**EXACT), CLASSES, True),
}


@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_models_are_those_of_rows_weighted_by_their_draws(name, container):
    (model, y, is_shared), rows = MODELS[name], container(X)
    weights = RNG.integers(1, 3, len(X)).astype(float)
    found = bootstrap(model, rows, y, weights, n_resamples=3, random_state=5, tol=1e-14)
    draws = np.random.RandomState(5)
    for k in range(3):
        counts = np.bincount(draws.randint(len(X), size=len(X)), minlength=len(X))
        one = type(model)(**model.get_params()).fit(rows, y, counts * weights)
        expected = one.coef_ if name == "three classes" else np.ravel(one.coef_)
        np.testing.assert_allclose(found.coef[k], expected, atol=1e-5)
        np.testing.assert_allclose(found.intercept[k], np.squeeze(one.intercept_), atol=1e-5)
    assert found.n_shared == (3 if is_shared else 0)
    assert not hasattr(model, "coef_")


def test_more_resamples_than_go_side_by_side():
    n = _BATCH + 5
    found = bootstrap(LogisticRegression(), X, MARGINS > 0, n_resamples=n, random_state=1)
    again = bootstrap(LogisticRegression(), X, MARGINS > 0, n_resamples=n, random_state=1)
    assert found.coef.shape == (n, 4)
    assert found.intercept.shape == (n,)
    assert found.n_shared == n
    np.testing.assert_array_equal(found.coef, again.coef)
    lower, upper = found.interval(0.8)
    inside = ((found.coef >= lower) & (found.coef <= upper)).mean(axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=0.04)


def test_standard_errors_are_about_those_of_the_sandwich():
    y = MARGINS > 0
    found = bootstrap(LogisticRegression(C=np.inf), X, y, n_resamples=2, random_state=0)
    assert found.n_shared == 0  # without a penalty nothing bounds what a step leaves
    model = LogisticRegression(C=100.0, tol=1e-10)
    found = bootstrap(model, X, y, n_resamples=300, random_state=0)
    known = inference(model.fit(X, y), X, y, covariance="robust")
    np.testing.assert_allclose(found.standard_errors, known.standard_errors[1:], rtol=0.35)


def test_float32_models_are_float32():
    found = bootstrap(LogisticRegression(), X.astype(np.float32), MARGINS > 0, n_resamples=2)
    assert found.coef.dtype == np.float32
    assert found.standard_errors.dtype == np.float64


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_resamples": 1}, ValueError, "n_resamples == 1, must be >= 2"),
        ({"n_resamples": 2.5}, TypeError, "n_resamples must be an instance of int"),
        ({"tol": 0.0}, ValueError, "tol"),
        ({"sample_weight": [1.0]}, ValueError, "sample_weight"),
    ],
)
def test_bad_parameters_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        bootstrap(LogisticRegression(), X, MARGINS > 0, **options)


def test_other_estimators_rows_and_levels_are_refused():
    with pytest.raises(TypeError, match="expected a linear model of snapml, got str"):
        bootstrap("ridge", X, MARGINS)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        bootstrap(Ridge(), X, np.where(MARGINS > 2, np.nan, MARGINS))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        bootstrap(Ridge(), np.where(X > 2, np.nan, X), MARGINS)
    found = bootstrap(Ridge(), X, MARGINS, n_resamples=2)
    with pytest.raises(ValueError, match=r"level: expected a number between 0 and 1, got 1\.5"):
        found.interval(1.5)


def test_a_resample_of_one_class_says_so():
    y = np.zeros(20)
    y[0] = 1.0
    with pytest.raises(ValueError, match=r"without class 1\.0, which 1 of 20 rows are of"):
        bootstrap(LogisticRegression(), X[:20], y, n_resamples=50, random_state=0)
