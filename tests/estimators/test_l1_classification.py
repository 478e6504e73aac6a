"""L1 and elastic-net classifiers agree with scikit-learn's, on awkward data too."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.linear_model import LogisticRegression as Reference
from sklearn.svm import LinearSVC as ReferenceSVC

from snapml import LinearSVC, LogisticRegression


def data():
    return make_classification(n_samples=200, n_features=12, n_informative=5, random_state=0)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_logistic_regression_equals_saga(container, l1_ratio):
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    settings = {"C": 0.3, "l1_ratio": l1_ratio}
    ours = LogisticRegression(**settings, tol=1e-10, max_iter=1000).fit(container(X), y, weights)
    theirs = Reference(**settings, solver="saga", tol=1e-9, max_iter=100_000).fit(X, y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_softmax_equals_saga(container, l1_ratio):
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    settings = {"C": 0.5, "l1_ratio": l1_ratio, "fit_intercept": False}
    ours = LogisticRegression(**settings, tol=1e-9, max_iter=1000).fit(container(X), y)
    theirs = Reference(**settings, solver="saga", tol=1e-9, max_iter=100_000).fit(X, y)
    assert ours.gap_ <= 1e-9 * ours.objective_
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


def test_linear_svc_equals_liblinear():
    X, y = data()
    settings = {"penalty": "l1", "dual": False, "C": 0.1, "max_iter": 100_000}
    ours = LinearSVC(**settings, tol=1e-9).fit(X, y)
    theirs = ReferenceSVC(**settings, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


def test_raw_constant_and_duplicated_columns_are_certified():
    X, y = data()
    X = np.column_stack([X * np.logspace(-3, 3, X.shape[1]), np.full(len(y), 5.0), X[:, 0]])
    model = LogisticRegression(C=1.0, l1_ratio=1.0, tol=1e-8, max_iter=1000).fit(X, y)
    assert model.gap_ <= 1e-8 * model.objective_
    assert model.coef_[0, -2] == 0.0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_starts_along_C_end_where_cold_ones_do(n_classes):
    X, y = data() if n_classes == 2 else load_iris(return_X_y=True)
    settings = {"l1_ratio": 1.0, "tol": 1e-8, "max_iter": 1000}
    warm = LogisticRegression(warm_start=True, **settings)
    for C in (0.03, 0.1, 0.3):
        warm.set_params(C=C).fit(X, y)
        cold = LogisticRegression(C=C, **settings).fit(X, y)
        assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-8)


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("load", [load_iris, load_wine], ids=["iris", "wine"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0, 1e4])
def test_softmax_of_raw_columns_is_certified_within_the_default_reads(load, C):
    model = LogisticRegression(C=C, l1_ratio=1.0, tol=1e-8).fit(*load(return_X_y=True))
    assert model.gap_ <= 1e-8 * model.objective_
    assert model.n_iter_.max() <= 40
