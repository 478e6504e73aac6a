"""Searches over classifiers with L1 and elastic-net penalties: one path of C in each fold."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import model_selection
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from snapml import LinearSVC, LogisticRegression, RidgeClassifier
from snapml.model_selection import GridSearchCV
from snapml.searches.shared import paths as shared_paths
from snapml.searches.shared import regressions as shared_regressions

pytestmark = pytest.mark.pairwise

EXACT = {"tol": 1e-11, "max_iter": 2000}
CS = {"C": [0.15, 0.6, 4.0]}
MODELS = {
    "L1": (LogisticRegression(l1_ratio=1.0, **EXACT), CS),
    "L1, no intercept": (LogisticRegression(l1_ratio=1.0, fit_intercept=False, **EXACT), CS),
    "elastic net": (LogisticRegression(**EXACT), {**CS, "l1_ratio": [0.3, 0.9]}),
    "one against the rest": (LogisticRegression(l1_ratio=1.0, multi_class="ovr", **EXACT), CS),
    "liblinear's intercept": (
        LogisticRegression(
            l1_ratio=1.0, solver="liblinear", multi_class="ovr", intercept_scaling=2.0, **EXACT
        ),
        CS,
    ),
    "squared hinge": (LinearSVC(penalty="l1", **EXACT), CS),
    "ridge": (RidgeClassifier(tol=1e-13), {"alpha": [0.01, 1.0, 100.0], "fit_intercept": [True]}),
}


def make_data(n_classes, dtype=np.float64, *, is_sparse=False):
    X, y = load_breast_cancer(return_X_y=True) if n_classes == 2 else load_iris(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    rows = np.random.default_rng(1).permutation(len(y))[:140]
    X = X[rows, :8].astype(dtype)
    if is_sparse:
        X[np.abs(X) < 0.3] = 0.0
        X = sparse.csr_matrix(X)
    return X, np.array(["a", "b", "c"])[y[rows]]


def assert_same(found, expected, atol=1e-6):
    assert found.best_params_ == expected.best_params_
    for name, value in expected.cv_results_.items():
        if "score" in name and "time" not in name:
            np.testing.assert_allclose(found.cv_results_[name], value, atol=atol, err_msg=name)


def search_twice(model, grid, X, y, params=None, **options):
    """The same search by ours, all of whose fits are shared, and by scikit-learn's."""
    found = GridSearchCV(model, grid, **options).fit(X, y, **(params or {}))
    expected = model_selection.GridSearchCV(model, grid, **options).fit(X, y, **(params or {}))
    assert found.n_shared_ == len(found.cv_results_["params"]) * found.n_splits_
    return found, expected


def smooth_score(estimator, X, y, sample_weight=None):
    """A score that shows small differences of models, which accuracies hide."""
    margins = np.tanh(estimator.decision_function(X)).reshape(len(y), -1)
    return float(np.average(margins.mean(axis=1), weights=sample_weight))


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_single_fits(name, n_classes, is_sparse):
    (model, grid), (X, y) = MODELS[name], make_data(n_classes, is_sparse=is_sparse)
    weights = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    options = dict(cv=3, scoring=smooth_score, return_train_score=True)
    found, expected = search_twice(model, grid, X, y, {"sample_weight": weights}, **options)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.best_estimator_.coef_, expected.best_estimator_.coef_)
    assert_same(*search_twice(model, grid, X, y, cv=3))  # of margins kept


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "class_weight", ["balanced", {"a": 3.0, "b": 0.5}], ids=["balanced", "own"]
)
def test_class_weights_are_those_of_each_fold(name, n_classes, class_weight):
    (model, grid), (X, y) = MODELS[name], make_data(n_classes)
    model = model.__class__(**{**model.get_params(), "class_weight": class_weight})
    weights = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    folds = [(np.arange(0, 140, 2), np.arange(1, 140, 2)), (np.arange(90), np.arange(90, 140))]
    params = {"sample_weight": weights}
    assert_same(*search_twice(model, grid, X, y, params, cv=folds, scoring=smooth_score))


@pytest.mark.parametrize("name", MODELS)
def test_rows_that_a_fold_has_twice_count_twice(name):
    (model, grid), (X, y) = MODELS[name], make_data(3)
    train = np.concatenate([np.arange(80), np.arange(40)])
    folds = [(train, np.arange(80, 140))]
    assert_same(*search_twice(model, grid, X, y, cv=folds, scoring=smooth_score))


def test_models_are_on_the_original_labels_and_probabilities_come_from_margins():
    X, y = make_data(3)
    model, grid = MODELS["L1"]
    scoring = ["neg_log_loss", "roc_auc_ovr", "accuracy"]
    found, expected = search_twice(model, grid, X, y, cv=3, scoring=scoring, refit="accuracy")
    assert_same(found, expected)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize("name", MODELS)
def test_float32_has_the_same_scores_within_its_rounding(name):
    (model, grid), (X, y) = MODELS[name], make_data(2, np.float32)
    model = model.__class__(**{**model.get_params(), "tol": 1e-6})
    found, expected = search_twice(model, grid, X, y, cv=3, scoring=smooth_score)
    assert_same(found, expected, atol=2e-3)


@pytest.mark.parametrize("name", MODELS)
def test_a_pipeline_ends_in_one(name):
    (model, grid), (X, y) = MODELS[name], make_data(3)
    pipeline = make_pipeline(StandardScaler(), model)
    names = {f"{type(model).__name__.lower()}__{key}": value for key, value in grid.items()}
    assert_same(*search_twice(pipeline, names, X, y, cv=3, scoring=smooth_score))


def test_a_fold_solves_one_path_of_each_mixture(monkeypatch):
    X, y = make_data(2)
    solved = []
    whole = shared_paths.choice.fit_sequence

    def counted(problem, penalties, dataset, *args, **options):
        solved.append((len(penalties), dataset.matrix.shape[0]))
        assert penalties == sorted(penalties, key=lambda one: -one.l1)
        return whole(problem, penalties, dataset, *args, **options)

    monkeypatch.setattr(shared_paths.choice, "fit_sequence", counted)
    grid = {"C": [4.0, 0.02, 0.3], "l1_ratio": [0.5, 1.0]}
    folds = [(np.arange(100), np.arange(100, 140)), (np.arange(50, 140), np.arange(50))]
    GridSearchCV(LogisticRegression(), grid, cv=folds).fit(X, y)
    assert sorted(solved[:4]) == [(3, 90), (3, 90), (3, 100), (3, 100)]


def test_ridge_reads_a_fold_once_for_all_classes_and_alphas(monkeypatch):
    X, y = make_data(3)
    solved = []
    whole = shared_regressions.solve_few_columns

    def counted(matrix, targets, weights, has_intercept, alphas, *args):
        solved.append(len(alphas))
        return whole(matrix, targets, weights, has_intercept, alphas, *args)

    monkeypatch.setattr(shared_regressions, "solve_few_columns", counted)
    grid = {"alpha": [0.1, 1.0, 10.0, 100.0]}
    whole_search = GridSearchCV(RidgeClassifier(), grid, cv=3).fit(X, y)
    assert solved == [12] * 3
    # Where there is not memory for all, a few at a time, to the same scores.
    monkeypatch.setattr(shared_regressions, "_MOST_TARGETS", 140 * 3 * 2)
    parted = GridSearchCV(RidgeClassifier(), grid, cv=3).fit(X, y)
    assert solved[3:] == [6] * 6
    assert_same(parted, whole_search, atol=1e-12)


def test_paths_that_do_not_end_warn_as_ordinary_fits_do():
    X, y = make_data(2)
    model = LogisticRegression(l1_ratio=1.0, max_iter=1, tol=1e-14)
    with pytest.warns(ConvergenceWarning, match="after 1 reads of the data"):
        found = GridSearchCV(model, {"C": [1.0]}, cv=3).fit(X, y)
    assert found.n_shared_ == 3


@pytest.mark.parametrize("name", MODELS)
def test_folds_without_a_class_are_fitted_alone(name):
    (model, grid), (X, y) = MODELS[name], make_data(3)
    seen = np.flatnonzero(y != "c")
    folds = [(seen, np.arange(140)), (np.arange(0, 140, 2), np.arange(140))]
    found = GridSearchCV(model, grid, cv=folds).fit(X, y)
    expected = model_selection.GridSearchCV(model, grid, cv=folds).fit(X, y)
    assert found.n_shared_ == len(found.cv_results_["params"])
    assert_same(found, expected)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LogisticRegression(l1_ratio=1.0, class_weight={"a": -1.0}), "class_weight: expected"),
        (RidgeClassifier(class_weight={"a": -1.0}), "Negative values"),
        (RidgeClassifier(class_weight="even"), "class_weight"),
    ],
    ids=str,
)
def test_class_weights_that_are_none_are_refused_by_name(model, message):
    with pytest.raises(ValueError, match=message):
        GridSearchCV(model, {"fit_intercept": [True]}, error_score="raise").fit(*make_data(2))


def test_several_labels_are_fitted_one_by_one():
    X, y = make_data(3)
    Y = np.column_stack([y == "a", y == "b"]).astype(int)
    found = GridSearchCV(RidgeClassifier(), {"alpha": [1.0, 10.0]}, cv=3).fit(X, Y)
    assert found.n_shared_ == 0
    assert found.best_estimator_.coef_.shape == (2, X.shape[1])


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_many_rows_of_few_columns_follow_paths_to_the_scores_of_single_fits(
    n_classes, is_sparse, monkeypatch
):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(12_000, 40)) * (rng.random((12_000, 40)) < (0.7 if is_sparse else 1.0))
    y = (X[:, :n_classes] + rng.gumbel(size=(12_000, n_classes))).argmax(axis=1)
    X, grid = sparse.csr_matrix(X) if is_sparse else X, {"C": np.logspace(-4, 4, 6)}
    monkeypatch.setattr(shared_paths.small_newton, "_MOST_ENTRIES", 0)
    followed = []
    solve = shared_paths.choice.fit
    monkeypatch.setattr(
        shared_paths.choice, "fit", lambda *given: followed.append(given) or solve(*given)
    )
    ours = GridSearchCV(LogisticRegression(), grid, cv=3).fit(X, y)
    assert ours.n_shared_ == 18
    started = [given for given in followed if len(given) == 6 and given[5] is not None]
    assert len(started) >= 15  # each but a fold's first from the one before
    exact = LogisticRegression(tol=1e-11)
    expected = model_selection.GridSearchCV(exact, grid, cv=3).fit(X, y)
    assert_same(ours, expected, atol=1e-12)
