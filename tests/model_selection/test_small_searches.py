"""Searches on rows that stay in a cache: a path in one call, and the models of single fits."""

import numpy as np
import pytest
import sklearn.model_selection
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.preprocessing import StandardScaler

from snapml import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
)
from snapml.model_selection import GridSearchCV
from snapml.searches.shared import square_folds
from snapml.solvers.least_squares import summed_fits, working_columns
from snapml.solvers.newton import small_groups, small_newton
from snapml.solvers.working_sets import working_set_descent

NEW = {"l1_ratios": (0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}


def scaled(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
@pytest.mark.parametrize("intercept", [True, False])
def test_models_of_a_logistic_search_are_those_of_single_fits(load, intercept):
    X, y = scaled(load)
    Cs = [0.01, 1.0, 100.0]
    settings = {"tol": 1e-10, "fit_intercept": intercept}
    search = LogisticRegressionCV(Cs=Cs, cv=3, **settings, **NEW).fit(X, y)
    folds = sklearn.model_selection.StratifiedKFold(3).split(X, y)
    for number, (train, _) in enumerate(folds):
        for at, C in enumerate(Cs):
            single = LogisticRegression(C=C, **settings).fit(X[train], y[train])
            found = search.coefs_paths_[number, 0, at][:, : X.shape[1]]
            np.testing.assert_allclose(found, single.coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), LogisticRegression(class_weight="balanced"), LinearSVC(), Lasso(),
     ElasticNet(l1_ratio=0.3)],
    ids=repr,
)  # fmt: skip
def test_searches_score_as_loops_do(estimator):
    is_number = isinstance(estimator, Lasso | ElasticNet)
    X, y = scaled(load_diabetes if is_number else load_breast_cancer)
    grid = {"alpha" if is_number else "C": np.logspace(-2, 1, 5)}
    ours = GridSearchCV(estimator, grid, cv=4).fit(X, y)
    loop = sklearn.model_selection.GridSearchCV(estimator, grid, cv=4).fit(X, y)
    assert ours.n_shared_ == 20
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], loop.cv_results_["mean_test_score"], atol=1e-5
    )


@pytest.mark.parametrize("search", [LassoCV(), ElasticNetCV(l1_ratio=[0.2, 0.9])], ids=repr)
def test_paths_are_those_of_working_sets(search, monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    search.fit(X, y)
    assert "in one call" in search.solver_
    chosen, table = search.alpha_, search.mse_path_
    monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)
    search.fit(X, y)
    assert search.alpha_ == chosen
    np.testing.assert_allclose(search.mse_path_, table, rtol=1e-4)


def test_path_that_one_call_does_not_solve_is_followed_by_working_sets(monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    table, real = LassoCV().fit(X, y).mse_path_, small_groups.solve_path
    n_paths = []

    def fails(*args):
        found = real(*args)
        found.has_converged[3] = False
        n_paths.append(len(found.coef))
        return found

    monkeypatch.setattr(small_groups, "solve_path", fails)
    monkeypatch.setattr(square_folds.SquareFolds, "path", lambda *args: None)
    monkeypatch.setattr(summed_fits, "suits", lambda *args: False)
    monkeypatch.setattr(working_columns, "suits", lambda *args: False)
    np.testing.assert_allclose(LassoCV().fit(X, y).mse_path_, table, rtol=1e-4)
    assert n_paths == [100] * 5


def test_paths_take_no_working_sets(monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    monkeypatch.setattr(
        working_set_descent, "solve_sequence", lambda *args: pytest.fail("a working set")
    )
    assert LassoCV().fit(X, y).alpha_ > 0.0


def test_weights_of_rows_count_in_paths_too():
    X, y = load_diabetes(return_X_y=True)
    weights = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    search = LassoCV(cv=3, tol=1e-10).fit(X, y, sample_weight=weights)
    single = Lasso(alpha=search.alpha_, tol=1e-10).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(search.coef_, single.coef_, rtol=1e-6)


def test_float32_rows_give_float32_models():
    X, y = scaled(load_breast_cancer)
    search = LogisticRegressionCV(Cs=4, **NEW).fit(X.astype(np.float32), y)
    assert search.coefs_paths_.dtype == np.float32
    assert search.gap_ <= 1e-4 * search.objective_
