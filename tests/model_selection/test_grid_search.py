import numpy as np
import pytest
from scipy import sparse
from sklearn import model_selection
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression as TheirLogisticRegression
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError

from snapml import LinearSVC, LogisticRegression
from snapml.model_selection import GridSearchCV

EXACT = {"tol": 1e-13, "max_iter": 5000}
GRID = {"C": [1e-3, 0.1, 10.0]}


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X[:240], y[:240]


def search_twice(estimator, grid, X, y, fit_params=None, **settings):
    """The same search by scikit-learn, and by ours with shared fits that are exact."""
    fit_params = fit_params or {}
    theirs = model_selection.GridSearchCV(clone(estimator), grid, **settings)
    ours = GridSearchCV(estimator, grid, search_tol=1e-13, **settings)
    return theirs.fit(X, y, **fit_params), ours.fit(X, y, **fit_params)


def assert_same_results(theirs, ours):
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    for name, values in theirs.cv_results_.items():
        if "_test_" in name or "_train_" in name:
            np.testing.assert_allclose(ours.cv_results_[name], values, atol=1e-6, err_msg=name)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_index_ == theirs.best_index_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(**EXACT),
        LogisticRegression(**EXACT, fit_intercept=False),
        LogisticRegression(**EXACT, solver="liblinear", intercept_scaling=2.0),
        LinearSVC(loss="squared_hinge", **EXACT),
    ],
    ids=["logistic", "no intercept", "penalised intercept", "squared hinge"],
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_results_are_those_of_scikit_learns_search(data, estimator, is_sparse):
    X, y = data
    X = sparse.csr_matrix(X) if is_sparse else X
    theirs, ours = search_twice(
        estimator, GRID, X, y, scoring="roc_auc", return_train_score=True, cv=3
    )
    assert ours.n_shared_ == 9
    assert_same_results(theirs, ours)
    np.testing.assert_array_equal(ours.best_estimator_.coef_, theirs.best_estimator_.coef_)
    assert ours.best_estimator_.gap_ <= 1e-13 * ours.best_estimator_.objective_
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y) == theirs.score(X, y)


def test_several_metrics_and_a_callable_refit(data):
    settings = {
        "scoring": ["accuracy", "neg_log_loss"],
        "refit": lambda results: int(np.argmax(results["mean_test_neg_log_loss"])),
        "cv": 3,
    }
    X, y = data
    theirs = model_selection.GridSearchCV(LogisticRegression(**EXACT), GRID, **settings).fit(X, y)
    ours = GridSearchCV(LogisticRegression(**EXACT), GRID, search_tol=1e-13, **settings).fit(X, y)
    for name in ("mean_test_accuracy", "mean_test_neg_log_loss", "rank_test_accuracy"):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-6)
    assert ours.best_params_ == theirs.best_params_
    assert ours.multimetric_
    assert set(ours.scorer_) == set(theirs.scorer_)


def test_sample_weights_class_weights_and_groups_count_as_in_ordinary_fits(data):
    X, y = data
    rng = np.random.default_rng(0)
    fit_params = {
        "sample_weight": rng.integers(0, 3, len(y)).astype(float),
        "groups": rng.integers(0, 9, len(y)),
    }
    grid = {"C": [0.1, 10.0], "class_weight": [None, "balanced", {0: 1.0, 1: 4.0}]}
    estimator = LogisticRegression(**EXACT)
    theirs, ours = search_twice(
        estimator, grid, X, y, fit_params, scoring="neg_log_loss", cv=GroupKFold(3)
    )
    assert ours.n_shared_ == 18
    assert_same_results(theirs, ours)
    np.testing.assert_array_equal(ours.best_estimator_.coef_, theirs.best_estimator_.coef_)


def test_scorers_of_the_user_get_estimators_and_rows(data):
    X, y = data

    def largest(estimator, rows, labels):
        assert isinstance(estimator, LogisticRegression)
        assert estimator.predict(rows).shape == labels.shape
        return float(np.abs(estimator.coef_).max()) + rows[0, 0]

    theirs, ours = search_twice(LogisticRegression(**EXACT), GRID, X, y, scoring=largest, cv=3)
    assert ours.n_shared_ == 9
    assert_same_results(theirs, ours)


def weighted_accuracy(estimator, rows, labels, sample_weight=None):
    return np.average(estimator.predict(rows) == labels, weights=sample_weight)


def accuracy_and_loss(estimator, rows, labels, sample_weight=None):
    margins = estimator.decision_function(rows)
    return {
        "accuracy": weighted_accuracy(estimator, rows, labels, sample_weight),
        "margin": np.average(np.where(labels, margins, -margins), weights=sample_weight),
    }


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scoring": weighted_accuracy},
        {"scoring": accuracy_and_loss, "refit": "accuracy"},
    ],
    ids=["the estimator's score", "callable", "callable of several"],
)
def test_sample_weights_count_in_every_kind_of_score(data, settings):
    X, y = data
    # Heavy where the models err: the scores without weights are others.
    wrong = LogisticRegression(C=0.1).fit(X, y).predict(X) != y
    weights = {"sample_weight": np.where(wrong, 20.0, 1.0)}
    theirs, ours = search_twice(LogisticRegression(**EXACT), GRID, X, y, weights, cv=3, **settings)
    assert ours.n_shared_ == 9
    assert_same_results(theirs, ours)


def test_scorers_without_weights_bring_scikit_learns_warning(data):
    X, y = data

    def plain(estimator, rows, labels):
        return estimator.score(rows, labels)

    search = GridSearchCV(LogisticRegression(), GRID, scoring=plain, cv=3)
    with pytest.warns(UserWarning, match="does not support sample_weight"):
        search.fit(X, y, sample_weight=np.ones(len(y)))
    assert search.n_shared_ == 9


@pytest.mark.parametrize("form", ["coo", "bsr", "csc", "lil"])
def test_sparse_rows_of_every_format_have_scores(data, form):
    X, y = data
    rows = sparse.csr_matrix(X[:, :8]).asformat(form)

    def first_entry(estimator, rows, labels):
        return float(rows[[0]].sum()) + estimator.score(rows, labels)

    theirs, ours = search_twice(
        LogisticRegression(**EXACT), GRID, rows, y, None, scoring=first_entry, cv=3
    )
    assert ours.n_shared_ == 9
    assert_same_results(theirs, ours)
    assert np.isfinite(ours.cv_results_["mean_test_score"]).all()


def test_splits_that_leave_rows_out_or_repeat_them(data):
    X, y = data
    rng = np.random.default_rng(1)
    bootstraps = [(rng.integers(0, 200, 200), np.arange(200, 240)) for _ in range(3)]
    for cv in (ShuffleSplit(3, train_size=0.5, random_state=0), bootstraps):
        theirs, ours = search_twice(
            LogisticRegression(**EXACT), GRID, X, y, scoring="neg_log_loss", cv=cv
        )
        assert ours.n_shared_ == 9
        assert_same_results(theirs, ours)


def test_candidates_that_cannot_share_are_fitted_one_by_one_beside_those_that_can(data):
    X, y = data
    grid = [{"C": [0.1, 1.0]}, {"C": [0.01], "solver": ["sdca"]}]
    estimator = LogisticRegression(**EXACT)
    theirs, ours = search_twice(estimator, grid, X, y, scoring="neg_log_loss", cv=3)
    assert ours.n_shared_ == 6
    assert_same_results(theirs, ours)


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (
            make_pipeline(StandardScaler(), TheirLogisticRegression()),
            {"logisticregression__C": [1.0]},
        ),
        (TheirLogisticRegression(), {"C": [1.0]}),
        (LogisticRegression(solver="pqn"), {"C": [1.0]}),
        (LinearSVC(loss="hinge"), {"C": [1.0]}),
    ],
    ids=["pipeline of another's", "another library's", "asked for a solver", "hinge"],
)
def test_what_cannot_be_shared_is_evaluated_as_always(data, estimator, grid):
    theirs, ours = search_twice(estimator, grid, *data, cv=3)
    assert ours.n_shared_ == 0
    assert_same_results(theirs, ours)


def test_folds_of_one_class_fail_as_in_ordinary_fits(data):
    X, y = data
    order = np.argsort(y, kind="stable")
    half = order[: np.sum(y == 0)]
    folds = [(half, order[-20:]), (order[::2], order[1::2])]
    settings = {"cv": folds, "error_score": -7.0, "scoring": "accuracy"}
    with pytest.warns(Warning, match="fits failed"):
        search = GridSearchCV(LogisticRegression(), GRID, **settings).fit(X, y)
    assert (search.cv_results_["split0_test_score"] == -7.0).all()
    assert (search.cv_results_["split1_test_score"] > 0.9).all()
    assert search.n_shared_ == 3


def test_bad_numbers_are_left_to_the_estimator(data):
    X, y = data
    spoilt = X.copy()
    spoilt[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        GridSearchCV(LogisticRegression(), GRID, error_score="raise").fit(spoilt, y)


def test_a_negative_search_tol_is_refused(data):
    with pytest.raises(ValueError, match="search_tol"):
        GridSearchCV(LogisticRegression(), GRID, search_tol=-1.0).fit(*data)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_default_tolerance_gives_the_scores_to_a_thousandth(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 60))
    y = X @ rng.standard_normal(60) + 5.0 * rng.standard_normal(3000) > 0
    grid, settings = {"C": np.logspace(-5, 3, 7)}, {"scoring": "roc_auc", "cv": 3}
    exact = GridSearchCV(LogisticRegression(), grid, search_tol=1e-12, **settings).fit(X, y)
    search = GridSearchCV(LogisticRegression(), grid, **settings).fit(X.astype(dtype), y)
    found, expected = (s.cv_results_["mean_test_score"] for s in (search, exact))
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_times_of_shared_fits_are_reported(data):
    search = GridSearchCV(LogisticRegression(), GRID, cv=3).fit(*data)
    assert (search.cv_results_["mean_fit_time"] > 0.0).all()
    assert search.refit_time_ > 0.0


def test_searches_can_be_cloned_and_keep_the_users_estimator(data):
    search = GridSearchCV(LogisticRegression(tol=1e-4), GRID, search_tol=1e-5)
    copy = clone(search)
    assert copy.search_tol == 1e-5
    copy.fit(*data)
    assert type(copy.estimator) is LogisticRegression
    assert type(copy.best_estimator_) is LogisticRegression
    assert not hasattr(copy.estimator, "coef_")


def test_fits_with_a_limit_of_time_are_single_ones(data):
    search = GridSearchCV(LogisticRegression(max_time_s=100.0), GRID, cv=3).fit(*data)
    assert search.n_shared_ == 0


def test_a_bad_class_weight_spoils_its_own_candidate_only(data):
    X, y = data
    grid = {"C": [0.1, 1.0], "class_weight": [None, "fair", {0: "much"}]}
    settings = {"cv": 3, "error_score": -1.0}
    theirs = model_selection.GridSearchCV(LogisticRegression(**EXACT), grid, **settings)
    ours = GridSearchCV(LogisticRegression(**EXACT), grid, search_tol=1e-13, **settings)
    for search in (theirs, ours):
        with pytest.warns(Warning, match="fits failed"):
            search.fit(X, y)
    assert ours.n_shared_ == 6
    assert_same_results(theirs, ours)
    with pytest.raises(ValueError, match="class_weight"):
        GridSearchCV(LogisticRegression(), grid, cv=3, error_score="raise").fit(X, y)


def test_scorers_of_the_user_find_names_and_iterations(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])

    def named(estimator, rows, labels):
        assert estimator.feature_names_in_.tolist() == rows.columns.tolist()
        assert estimator.n_iter_.shape == (1,)
        assert estimator.n_iter_[0] > 0
        return estimator.score(rows, labels)

    settings = {"scoring": named, "cv": 3, "error_score": "raise"}
    search = GridSearchCV(LogisticRegression(), GRID, **settings).fit(frame, y)
    assert search.n_shared_ == 9


def test_fits_with_a_random_state_of_their_own_are_single_ones(data):
    estimator = LogisticRegression(random_state=np.random.RandomState(0))
    assert GridSearchCV(estimator, GRID, cv=3).fit(*data).n_shared_ == 0
    assert GridSearchCV(LogisticRegression(random_state=0), GRID, cv=3).fit(*data).n_shared_ == 9


@pytest.mark.parametrize(
    "bad", [{"n_jobs": "all"}, {"error_score": "ignore"}, {"refit": 3}, {"verbose": "much"}]
)
def test_bad_parameters_are_refused_in_the_name_of_the_search(data, bad):
    search = GridSearchCV(LogisticRegression(), GRID, **bad)
    with pytest.raises(
        InvalidParameterError, match=f"'{next(iter(bad))}' parameter of GridSearchCV"
    ):
        search.fit(*data)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("search_tol", [1e-2, 1e-8])
def test_columns_of_very_different_scales_do_not_end_fits_early(dtype, search_tol):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((600, 30))
    y = Z @ rng.standard_normal(30) + 2.0 * rng.standard_normal(600) > 0
    X = (Z * np.logspace(-2, 3, 30) + 100.0).astype(dtype)
    settings = {"scoring": "neg_log_loss", "cv": 3}
    grid = {"C": [1.0, 100.0]}
    search = GridSearchCV(LogisticRegression(), grid, search_tol=search_tol, **settings)
    exact = GridSearchCV(LogisticRegression(), grid, search_tol=0.0, **settings)
    found, expected = (s.fit(X, y).cv_results_["mean_test_score"] for s in (search, exact))
    np.testing.assert_allclose(found, expected, atol=1e-3)
