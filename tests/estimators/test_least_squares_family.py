"""LinearRegression, RidgeClassifier, RidgeCV and LogisticRegressionCV agree with scikit-learn."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn import linear_model

import snapml

from .conftest import binary_data, iris_data, regression_data


@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_linear_regression_is_scikit_learns(fit_intercept, n_targets, container):
    X, Y = regression_data()
    y = Y[:, 0] if n_targets == 1 else Y
    weights = np.random.default_rng(0).random(len(Y))
    model = snapml.LinearRegression(fit_intercept=fit_intercept).fit(container(X), y, weights)
    theirs = linear_model.LinearRegression(fit_intercept=fit_intercept).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, rtol=1e-8)
    assert model.gap_ <= 1e-12 * model.objective_
    if container is np.asarray:
        assert model.rank_ == theirs.rank_
        np.testing.assert_allclose(model.singular_, theirs.singular_, rtol=1e-8)


def test_positive_linear_regression_is_scikit_learns():
    X, Y = regression_data()
    model = snapml.LinearRegression(positive=True).fit(X, Y)
    theirs = linear_model.LinearRegression(positive=True).fit(X, Y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("make_data", [iris_data, lambda: binary_data("breast_cancer")])
def test_ridge_classifier_is_scikit_learns(make_data, class_weight):
    X, y = make_data()
    model = snapml.RidgeClassifier(class_weight=class_weight).fit(X, y)
    theirs = linear_model.RidgeClassifier(class_weight=class_weight).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-7, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), theirs.predict(X))


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
@pytest.mark.parametrize("alpha_per_target", [False, True])
def test_ridge_cv_is_scikit_learns(alpha_per_target, scoring):
    X, Y = regression_data()
    options = {
        "alphas": np.logspace(-2, 3, 6),
        "alpha_per_target": alpha_per_target,
        "scoring": scoring,
        "store_cv_results": True,
    }
    model = snapml.RidgeCV(**options).fit(X, Y)
    theirs = linear_model.RidgeCV(**options).fit(X, Y)
    np.testing.assert_array_equal(model.alpha_, theirs.alpha_)
    np.testing.assert_allclose(model.best_score_, theirs.best_score_, rtol=1e-9)
    np.testing.assert_allclose(model.cv_results_, theirs.cv_results_, rtol=1e-6)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-8)


def test_ridge_classifier_scores_two_classes_as_classes():
    X, y = binary_data("breast_cancer")
    alphas = [1e-3, 1.0, 1e6]
    model = snapml.RidgeClassifierCV(alphas=alphas, scoring="accuracy").fit(X, y)
    assert 0.9 < model.best_score_ < 1.0
    assert model.alpha_ < 1e6


@pytest.mark.parametrize("refit", [True, False])
def test_logistic_regression_cv_is_scikit_learns(refit):
    X, y = binary_data("breast_cancer")
    options = {
        "Cs": [0.01, 0.1, 1.0],
        "l1_ratios": (0,),
        "scoring": "neg_log_loss",
        "cv": 3,
        "refit": refit,
        "use_legacy_attributes": False,
        "max_iter": 10_000,
    }
    model = snapml.LogisticRegressionCV(tol=1e-11, **options).fit(X, y)
    theirs = linear_model.LogisticRegressionCV(tol=1e-10, **options).fit(X, y)
    assert model.C_ == theirs.C_
    assert model.n_iter_.shape == theirs.n_iter_.shape
    np.testing.assert_allclose(model.scores_, theirs.scores_, rtol=1e-5)
    np.testing.assert_allclose(model.coefs_paths_, theirs.coefs_paths_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("n_targets", "container", "is_direct"),
    [(4, np.asarray, True), (3, np.asarray, False), (4, csr_matrix, False)],
    ids=["many, dense", "few", "sparse"],
)
def test_many_dense_targets_share_linear_equations(n_targets, container, is_direct):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1700, 600)) * (rng.random((1700, 600)) < 0.99)
    Y = X[:, :n_targets] + rng.normal(size=(1700, n_targets))
    model = snapml.Ridge(alpha=10.0).fit(container(X), Y)
    theirs = linear_model.Ridge(alpha=10.0).fit(X, Y)
    assert (max(model.n_iter_) == 1 and "normal equations" in model.solver_) == is_direct
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)
    assert model.gap_ <= 1e-8 * model.objective_


@pytest.mark.parametrize("n_more", [0, 1, 5, 100])
def test_targets_without_noise_are_no_reason_to_warn(n_more):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n_columns = int(rng.integers(1, 10))
        X = rng.normal(size=(n_columns + 1 + n_more, n_columns))
        y = X @ rng.normal(size=n_columns) + 50.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = snapml.LinearRegression().fit(X, y)
        np.testing.assert_allclose(model.predict(X), y, rtol=1e-9)
