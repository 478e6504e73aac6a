"""Searches over regressions: all penalties of a fold share their work."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import model_selection
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from snapml import ElasticNet, Lasso, LinearRegression, Ridge
from snapml.model_selection import GridSearchCV
from snapml.searches.shared import regressions as shared_regressions

ALPHAS = {"alpha": np.logspace(-3, 2, 6)}
EXACT = {"tol": 1e-12}
MODELS = {
    "ridge": (Ridge(**EXACT), {**ALPHAS, "fit_intercept": [True, False]}),
    "lasso": (Lasso(**EXACT), {"alpha": np.logspace(-4, 0, 5)}),
    "elastic net": (
        ElasticNet(**EXACT),
        {"alpha": np.logspace(-4, 0, 4), "l1_ratio": [0.2, 0.9], "positive": [False, True]},
    ),
}


def make_data(dtype=np.float64, n_rows=120, n_features=9, *, is_sparse=False):
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(n_rows, n_features)) + 0.5).astype(dtype)
    X[rng.random(X.shape) < 0.3] = 0.0
    y = X @ rng.normal(size=n_features) + rng.normal(size=n_rows) + 4.0
    return (sparse.csr_matrix(X) if is_sparse else X), y


def assert_same(found, expected, atol=1e-6):
    assert found.best_params_ == expected.best_params_
    for name, value in expected.cv_results_.items():
        if "score" in name and "time" not in name:
            np.testing.assert_allclose(found.cv_results_[name], value, atol=atol, err_msg=name)


def theirs(model, grid, **options):
    return model_selection.GridSearchCV(model, grid, **options)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_single_fits(name, is_sparse):
    (model, grid), (X, y) = MODELS[name], make_data(is_sparse=is_sparse)
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    options = dict(cv=4, scoring=["r2", "neg_mean_absolute_error"], refit="r2")
    options["return_train_score"] = True
    found = GridSearchCV(model, grid, **options).fit(X, y, sample_weight=weights)
    expected = theirs(model, grid, **options).fit(X, y, sample_weight=weights)
    assert found.n_shared_ == 4 * len(found.cv_results_["params"])
    assert_same(found, expected)
    np.testing.assert_array_equal(found.best_estimator_.coef_, expected.best_estimator_.coef_)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize("name", MODELS)
def test_float32_has_the_same_scores_within_its_rounding(name):
    (model, grid), (X, y) = MODELS[name], make_data(np.float32)
    model = model.__class__(tol=1e-5)
    found = GridSearchCV(model, grid, cv=3).fit(X, y)
    expected = theirs(model, grid, cv=3).fit(X, y)
    assert found.n_shared_ > 0
    assert_same(found, expected, atol=1e-4)


def test_ridge_of_fewer_rows_than_columns():
    X, y = make_data(n_rows=30, n_features=80)
    assert_same(
        GridSearchCV(Ridge(**EXACT), ALPHAS, cv=3).fit(X, y),
        theirs(Ridge(**EXACT), ALPHAS, cv=3).fit(X, y),
    )


def test_rows_that_a_fold_has_twice_count_twice():
    X, y = make_data()
    train = np.concatenate([np.arange(60), np.arange(30)])
    folds = [(train, np.arange(60, 120))]
    for model, grid in MODELS.values():
        found = GridSearchCV(model, grid, cv=folds).fit(X, y)
        assert found.n_shared_ == len(found.cv_results_["params"])
        assert_same(found, theirs(model, grid, cv=folds).fit(X, y))


def test_a_pipeline_ends_in_a_regression():
    X, y = make_data()
    for last in (Ridge(**EXACT), Lasso(**EXACT)):
        name = f"{type(last).__name__.lower()}__alpha"
        pipeline, grid = make_pipeline(StandardScaler(), last), {name: [0.01, 0.1, 1.0]}
        found = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
        assert found.n_shared_ == 9
        assert_same(found, theirs(pipeline, grid, cv=3).fit(X, y))


def test_ridge_reads_a_fold_once_for_all_alphas(monkeypatch):
    X, y = make_data()
    solved = []
    whole = shared_regressions.solve_few_columns

    def counted(matrix, targets, weights, has_intercept, alphas, *args):
        solved.append(len(alphas))
        return whole(matrix, targets, weights, has_intercept, alphas, *args)

    monkeypatch.setattr(shared_regressions, "solve_few_columns", counted)
    found = GridSearchCV(Ridge(), ALPHAS, cv=4).fit(X, y)
    assert solved == [6] * 4
    monkeypatch.setattr(shared_regressions, "solve_few_columns", lambda *args: None)
    other = GridSearchCV(Ridge(), ALPHAS, cv=4).fit(X, y)
    for name in ("mean_test_score", "split0_test_score"):
        np.testing.assert_allclose(found.cv_results_[name], other.cv_results_[name], rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (Ridge(positive=True), ALPHAS),
        (Ridge(solver="pqn"), ALPHAS),
        (Ridge(), {"alpha": [0.0, 0.0]}),
        (Ridge(max_time_s=60), ALPHAS),
        (Lasso(warm_start=True), ALPHAS),
        (Lasso(precompute=True), ALPHAS),
        (LinearRegression(), {"fit_intercept": [True, False]}),
    ],
    ids=str,
)
def test_what_is_fitted_one_by_one(model, grid):
    X, y = make_data()
    found = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert found.n_shared_ == 0
    assert_same(found, theirs(model, grid, cv=3).fit(X, y))


def test_several_targets_are_fitted_one_by_one():
    X, y = make_data()
    found = GridSearchCV(Ridge(), ALPHAS, cv=3).fit(X, np.column_stack([y, -y]))
    assert found.n_shared_ == 0
    assert found.best_estimator_.coef_.shape == (2, 9)


def test_bad_candidates_fail_by_name_beside_good_ones():
    X, y = make_data()
    with (
        pytest.warns(FitFailedWarning, match="alpha: expected finite numbers >= 0, got -1.0"),
        pytest.warns(UserWarning, match="are non-finite"),
    ):
        found = GridSearchCV(Ridge(), {"alpha": [1.0, -1.0]}, cv=3).fit(X, y)
    assert found.n_shared_ == 3
    assert np.isnan(found.cv_results_["mean_test_score"][1])


def test_targets_that_are_no_numbers_are_refused():
    X, y = make_data()
    y[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        GridSearchCV(Ridge(), ALPHAS, cv=3, error_score="raise").fit(X, y)


def test_paths_that_do_not_end_are_fitted_alone():
    X, y = make_data(n_features=60)  # so many that reads of rows, not sums over them, find a model
    with pytest.warns(ConvergenceWarning, match="after 1 reads of the data"):
        found = GridSearchCV(Lasso(max_iter=1, tol=1e-14), {"alpha": [1e-4]}, cv=3).fit(X, y)
    assert found.n_shared_ < 3
