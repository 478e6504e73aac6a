"""Searches over pipelines: scikit-learn's results, with transformers fitted once a fold."""

import numpy as np
import pytest
from sklearn import model_selection
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from snapml import LinearSVC, LogisticRegression
from snapml.model_selection import GridSearchCV

from .test_grid_search import EXACT, assert_same_results, search_twice

GRID = {"logisticregression__C": [1e-3, 0.1, 10.0]}


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:240], y[:240]


class CountedScaler(TransformerMixin, BaseEstimator):
    """Counts its fits; may refuse the rows."""

    fits = 0

    def __init__(self, factor=1.0, is_refusing=False):
        self.factor, self.is_refusing = factor, is_refusing

    def fit(self, X, y=None):
        type(self).fits += 1
        if self.is_refusing:
            raise ValueError("refused")
        self.scale_ = np.std(X, axis=0) / self.factor
        return self

    def transform(self, X):
        return X / self.scale_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_are_those_of_scikit_learns_search(data, dtype):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(**EXACT))
    scoring = ["accuracy", "neg_log_loss", "roc_auc"]
    settings = {"cv": 3, "scoring": scoring, "refit": "roc_auc", "return_train_score": True}
    if dtype == np.float32:
        theirs = model_selection.GridSearchCV(clone(pipeline), GRID, **settings).fit(X, y)
        ours = GridSearchCV(pipeline, GRID, search_tol=1e-4, **settings).fit(X.astype(dtype), y)
        name = "mean_test_neg_log_loss"
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=1e-2)
    else:
        theirs, ours = search_twice(pipeline, GRID, X, y, **settings)
        assert_same_results(theirs, ours)
    assert ours.n_shared_ == 9
    assert isinstance(ours.best_estimator_, Pipeline)
    assert ours.best_estimator_[-1].gap_ <= 1e-3
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_transformers_are_fitted_once_a_fold_and_setting(data):
    X, y = data
    CountedScaler.fits = 0
    pipeline = make_pipeline(CountedScaler(), LogisticRegression())
    grid = {**GRID, "countedscaler__factor": [1.0, 2.0]}
    search = GridSearchCV(pipeline, grid, cv=4, refit=False).fit(X, y)
    assert search.n_shared_ == 24
    assert CountedScaler.fits == 8


def test_settings_of_transformers_and_of_the_last_step_do_not_mix(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), PCA(), LogisticRegression(**EXACT))
    grid = {
        "pca__n_components": [2, 5],
        "pca__random_state": [0],
        "logisticregression__C": [0.1, 10.0],
        "logisticregression__class_weight": [None, "balanced"],
    }
    theirs, ours = search_twice(pipeline, grid, X, y, cv=3)
    assert_same_results(theirs, ours)
    assert ours.n_shared_ == 24


def test_long_arrays_among_parameters_are_told_apart(data):
    X, y = data
    shifts = [np.zeros(5000), np.r_[np.zeros(2500), 30.0, np.zeros(2499)]]

    def moved(X, by):
        return X * (1 + by.sum())

    steps = [
        StandardScaler(),
        FunctionTransformer(moved, kw_args={"by": shifts[0]}),
        LogisticRegression(**EXACT),
    ]
    grid = {"functiontransformer__kw_args": [{"by": one} for one in shifts]}
    settings = {"cv": 3, "scoring": "neg_log_loss"}
    theirs = model_selection.GridSearchCV(make_pipeline(*steps), grid, **settings).fit(X, y)
    ours = GridSearchCV(make_pipeline(*steps), grid, search_tol=1e-13, **settings).fit(X, y)
    for name in ("mean_test_score", "rank_test_score"):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-6)
    assert ours.n_shared_ == 6


def test_last_steps_may_differ(data):
    X, y = data
    pipeline = Pipeline([("scale", StandardScaler()), ("model", LogisticRegression(**EXACT))])
    svm = LinearSVC(loss="squared_hinge", **EXACT)
    hinge = LinearSVC(loss="hinge")
    grid = {"model": [LogisticRegression(**EXACT), svm, hinge], "model__C": [0.01, 1.0]}
    theirs, ours = search_twice(pipeline, grid, X, y, cv=3)
    assert ours.n_shared_ == 12  # all but the hinge's
    name = "mean_test_score"
    np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-6)


def test_rows_may_be_texts():
    texts = [
        "good fast film",
        "dull slow film",
        "fast and good",
        "slow and dull",
        "good",
        "dull",
    ] * 6
    y = np.array(["yes", "no"] * 18)
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(**EXACT))
    theirs, ours = search_twice(pipeline, GRID, texts, y, cv=3, scoring="neg_log_loss")
    assert_same_results(theirs, ours)
    assert ours.n_shared_ == 9
    assert ours.best_estimator_.predict(["good film"]) == ["yes"]


def test_frames_pass_through_transformers_that_return_frames(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    X = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(**EXACT))
    pipeline.set_output(transform="pandas")
    theirs, ours = search_twice(pipeline, GRID, X, y, cv=3)
    assert_same_results(theirs, ours)
    assert ours.n_shared_ == 9
    assert list(ours.feature_names_in_) == list(X.columns)


def test_weights_go_to_the_last_step(data):
    X, y = data
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(**EXACT))
    given = {"logisticregression__sample_weight": weights}
    theirs, ours = search_twice(
        pipeline, GRID, X, y, fit_params=given, cv=3, scoring="neg_log_loss"
    )
    assert_same_results(theirs, ours)
    assert ours.n_shared_ == 9


def test_scorers_of_users_get_fitted_pipelines(data):
    X, y = data
    seen = []

    def score(pipeline, rows, labels):
        seen.append(pipeline)
        return pipeline.score(rows, labels)

    pipeline = make_pipeline(StandardScaler(), LogisticRegression(**EXACT))
    theirs, ours = search_twice(pipeline, GRID, X, y, cv=3, scoring=score)
    assert_same_results(theirs, ours)
    assert all(isinstance(one, Pipeline) and one[0].n_features_in_ == 30 for one in seen)


def test_folds_need_not_cover_all_rows(data):
    X, y = data
    cv = ShuffleSplit(3, train_size=0.4, test_size=0.3, random_state=0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(**EXACT))
    theirs, ours = search_twice(pipeline, GRID, X, y, cv=cv, return_train_score=True)
    assert_same_results(theirs, ours)
    assert ours.n_shared_ == 9


def test_what_a_transformer_refuses_is_reported_as_by_scikit_learn(data):
    X, y = data
    pipeline = make_pipeline(CountedScaler(), LogisticRegression())
    grid = {**GRID, "countedscaler__is_refusing": [False, True]}
    search = GridSearchCV(pipeline, grid, cv=3, refit=False)
    with (
        pytest.warns(FitFailedWarning, match="9 fits failed"),
        pytest.warns(UserWarning, match="are non-finite"),
    ):
        search.fit(X, y)
    refused = search.cv_results_["param_countedscaler__is_refusing"].astype(bool)
    scores = search.cv_results_["mean_test_score"]
    assert np.isnan(scores[refused]).all()
    assert np.isfinite(scores[~refused]).all()
    with pytest.raises(ValueError, match="refused"):
        GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)


@pytest.mark.parametrize("step", ["passthrough", StandardScaler(with_mean=False)])
def test_steps_that_do_nothing_are_allowed(data, step):
    X, y = data
    X = (X - X.mean(0)) / X.std(0)
    pipeline = Pipeline([("scale", step), ("model", LogisticRegression(**EXACT))])
    theirs, ours = search_twice(pipeline, {"model__C": [0.1, 1.0]}, X, y, cv=3)
    assert_same_results(theirs, ours)
    assert ours.n_shared_ == 6
