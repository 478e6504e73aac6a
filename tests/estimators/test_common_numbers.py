"""Columns that have one number in most rows: a free intercept takes it, and the rest is sparse."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV

import snapml
from snapml.data import DenseMatrix
from snapml.data.sparse_form import common_numbers
from snapml.model_selection import GridSearchCV
from snapml.solvers.plan import common_numbers as plan

CLASSIFIERS = {
    "logistic": snapml.LogisticRegression(tol=1e-9),
    "L1": snapml.LogisticRegression(l1_ratio=1.0, tol=1e-9),
    "grid": GridSearchCV(snapml.LogisticRegression(tol=1e-9), {"C": [0.1, 1.0]}, cv=3),
}
REGRESSORS = {
    "Huber": snapml.HuberRegressor(alpha=0.1, tol=1e-9),
    "Poisson": snapml.PoissonRegressor(tol=1e-9),
    "quantile": snapml.QuantileRegressor(alpha=0.01, l1_ratio=0.0, tol=1e-9),
}


@pytest.fixture
def standardised():
    """Dummy variables of five columns of twenty levels, standardised, and targets."""
    rng = np.random.default_rng(0)
    levels = rng.integers(20, size=(400, 5)) + 20 * np.arange(5)
    X = np.zeros((400, 100))
    X[np.arange(400)[:, None], levels] = 1.0
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, X @ rng.normal(size=100) / 10.0 + rng.normal(size=400)


def margins(model, X):
    own = getattr(model, "best_estimator_", model)
    return X @ np.atleast_2d(own.coef_).T + np.ravel(own.intercept_)


def is_taken(X):
    return plan.common_of(DenseMatrix(X)) is not None


@pytest.mark.parametrize("name", CLASSIFIERS | REGRESSORS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_answers_are_those_of_whole_rows(name, order, standardised, monkeypatch):
    X, target = standardised
    X = np.asarray(X, order=order)
    assert is_taken(X)
    y = (target > 0).astype(int) if name in CLASSIFIERS else np.exp(0.3 * target)
    estimator = (CLASSIFIERS | REGRESSORS)[name]
    taken = margins(estimator.fit(X, y), X)
    monkeypatch.setattr(plan, "_LEAST_SIZE", X.size + 1)
    whole = margins(estimator.fit(X, y), X)
    np.testing.assert_allclose(taken, whole, atol=2e-3 * np.abs(whole).max())


def test_the_objective_is_that_of_the_rows(standardised):
    X, target = standardised
    y = (target > 0).astype(int)
    model = snapml.LogisticRegression(C=2.0).fit(X, y)
    z = margins(model, X)[:, 0] * (2 * y - 1)
    expected = np.logaddexp(0.0, -z).sum() + 0.25 * np.sum(model.coef_**2)
    assert np.sum(model.objective_) == pytest.approx(2.0 * expected, rel=1e-12)
    assert np.sum(model.gap_) <= 1e-6 * np.sum(model.objective_)


def test_several_classes_have_an_intercept_each(standardised, monkeypatch):
    X, target = standardised
    y = np.digitize(target, [-0.5, 0.5])
    taken = snapml.LogisticRegression(tol=1e-9).fit(X, y).predict_proba(X)
    monkeypatch.setattr(plan, "_LEAST_SIZE", X.size + 1)
    whole = snapml.LogisticRegression(tol=1e-9).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(taken, whole, atol=1e-4)


def test_a_fit_goes_on_from_the_last_one(standardised):
    X, target = standardised
    y = (target > 0).astype(int)
    model = snapml.LogisticRegression(warm_start=True).fit(X, y)
    before = margins(model, X)
    model.fit(X, y)
    assert np.max(model.n_iter_) <= 3
    np.testing.assert_allclose(margins(model, X), before, atol=1e-2)


def test_callbacks_see_models_of_the_rows_as_they_are(standardised):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    from tests.estimators.test_callbacks import Recorder

    X, target = standardised
    y = (target > 0).astype(int)
    seen = Recorder()
    final = margins(snapml.LogisticRegression(tol=1e-9).set_callbacks(seen).fit(X, y), X)
    last = margins(seen.models[-1], X)
    np.testing.assert_allclose(last, final, atol=1e-2 * np.abs(final).max())


def test_searches_score_as_single_fits_do(standardised):
    X, target = standardised
    y = (target > 0).astype(int)
    grid = {"C": [0.01, 0.1, 1.0]}
    ours = GridSearchCV(snapml.LogisticRegression(tol=1e-9), grid, cv=3).fit(X, y)
    single = SklearnGridSearchCV(snapml.LogisticRegression(tol=1e-9), grid, cv=3).fit(X, y)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(ours.cv_results_[name], single.cv_results_[name], atol=1e-12)


def test_what_is_not_common_stays(standardised):
    X, _ = standardised
    rng = np.random.default_rng(1)
    assert not is_taken(rng.normal(size=X.shape))
    assert not is_taken(X.astype(np.float32))
    assert not is_taken(X[:50])
    half = X.copy()
    half[:, :50] = rng.normal(size=(len(X), 50))
    assert not is_taken(half)


def test_columns_without_a_common_number_keep_theirs(standardised):
    X, _ = standardised
    X[:, 3] = np.random.default_rng(1).normal(size=len(X))
    numbers = common_numbers(X, 0.15)
    assert numbers[3] == 0.0
    assert np.count_nonzero(numbers) == X.shape[1] - 1
