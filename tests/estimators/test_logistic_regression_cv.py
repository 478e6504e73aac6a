"""LogisticRegressionCV against LogisticRegression: many classes, and shared fits of two."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from snapml import LogisticRegression, LogisticRegressionCV
from snapml.searches import logistic_paths as module

from .conftest import iris_data

PARAMETERS = {"l1_ratios": (0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}


@pytest.mark.parametrize("multi_class", ["auto", "multinomial", "ovr"])
def test_scores_and_models_are_those_of_single_fits(multi_class):
    X, y = iris_data()
    rows = np.arange(len(y))
    folds = [(rows[k::3], np.setdiff1d(rows, rows[k::3])) for k in range(3)]
    settings = {"multi_class": multi_class, "tol": 1e-10}
    model = LogisticRegressionCV(Cs=[0.1, 1.0], cv=folds, **settings, **PARAMETERS).fit(X, y)
    assert model.coefs_paths_.shape == (3, 1, 2, 3, X.shape[1] + 1)
    for fold, (train, test) in enumerate(folds):
        for at, C in enumerate([0.1, 1.0]):
            single = LogisticRegression(C=C, **settings).fit(X[train], y[train])
            score = -log_loss(y[test], single.predict_proba(X[test]))
            assert model.scores_[fold, 0, at] == pytest.approx(score, rel=1e-5)
    final = LogisticRegression(C=model.C_, **settings).fit(X, y)
    np.testing.assert_allclose(model.coef_, final.coef_, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), final.predict_proba(X), atol=1e-6)


def test_fold_without_a_class_gives_it_no_chance():
    X, y = iris_data()
    seen = np.flatnonzero(y != y[0])
    for multi_class in ("multinomial", "ovr"):
        model = LogisticRegressionCV(
            Cs=[1.0], cv=[(seen, np.arange(len(y)))], multi_class=multi_class, refit=False,
            **PARAMETERS,
        ).fit(X, y)  # fmt: skip
        single = LogisticRegression(multi_class=multi_class).fit(X[seen], y[seen])
        np.testing.assert_allclose(
            model.predict_proba(X)[:, model.classes_ != y[0]], single.predict_proba(X), atol=1e-6
        )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_paths_of_folds_that_share_x_are_those_of_folds_that_do_not(monkeypatch, is_sparse):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    X = csr_matrix(X) if is_sparse else X
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    settings = {"Cs": [1e-3, 0.1, 10.0], "l1_ratios": (0,), "cv": 3, "tol": 1e-12}
    settings |= {"scoring": "accuracy", "use_legacy_attributes": False, "max_iter": 5000}
    shared = LogisticRegressionCV(**settings, class_weight="balanced").fit(X, y, weights)
    calls = []
    monkeypatch.setattr(module, "can_share", lambda *_: calls.append(1))
    alone = LogisticRegressionCV(**settings, class_weight="balanced").fit(X, y, weights)
    assert calls
    np.testing.assert_allclose(shared.scores_, alone.scores_, atol=1e-12)
    # P is 1-strongly convex: sqrt(2 gap), with gaps of 1e-12 of objectives below 1e4.
    np.testing.assert_allclose(shared.coefs_paths_, alone.coefs_paths_, atol=2e-4)
    assert shared.C_ == alone.C_
    np.testing.assert_array_equal(shared.coef_, alone.coef_)


@pytest.mark.parametrize("data", [iris_data, lambda: load_breast_cancer(return_X_y=True)])
def test_folds_of_small_data_are_as_exact_as_ordinary_fits(data):
    X, y = data()
    X = (X - X.mean(0)) / X.std(0)
    settings = {"tol": 1e-4, "max_iter": 5000}  # with which all go on to rounding
    model = LogisticRegressionCV(Cs=[1e-3, 1.0, 1e3], cv=3, **settings, **PARAMETERS).fit(X, y)
    for fold, (train, _) in enumerate(StratifiedKFold(3).split(X, y)):
        for at, C in enumerate([1e-3, 1.0, 1e3]):
            coef = LogisticRegression(C=C, **settings).fit(X[train], y[train]).coef_
            found = model.coefs_paths_[fold, 0, at, ..., :-1]
            np.testing.assert_allclose(
                found.reshape(coef.shape), coef, atol=1e-6 * np.abs(coef).max()
            )


@pytest.mark.parametrize("ratios", [np.array([0.0, 0.5], np.float32), (0, np.float64(0.5))])
def test_ratios_may_be_numbers_of_any_type(ratios):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    options = PARAMETERS | {"Cs": [0.1, 1.0], "cv": 3, "solver": "saga", "max_iter": 1000}
    found = LogisticRegressionCV(**options | {"l1_ratios": ratios}).fit(X, y)
    expected = LogisticRegressionCV(**options | {"l1_ratios": (0.0, 0.5)}).fit(X, y)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.l1_ratios_.dtype == np.float64
    with pytest.raises(ValueError, match="numbers between 0 and 1"):
        LogisticRegressionCV(**options | {"l1_ratios": np.float32([0.5, 1.5])}).fit(X, y)
