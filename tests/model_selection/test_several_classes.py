"""Searches over more than two classes: multinomial models, and one class against the rest."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import model_selection
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from snapml import LinearSVC, LogisticRegression, LogisticRegressionCV
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.model_selection import GridSearchCV

from .test_grid_search import assert_same_results, search_twice

EXACT = {"tol": 1e-12, "max_iter": 5000}
GRID = {"C": [1e-3, 0.1, 10.0]}
WEIGHTS = {"setosa": 0.5, "versicolor": 2.0, "virginica": 1.0}
ESTIMATORS = {
    "multinomial": LogisticRegression(**EXACT),
    "multinomial, no intercept": LogisticRegression(**EXACT, fit_intercept=False),
    "multinomial, balanced": LogisticRegression(**EXACT, class_weight="balanced"),
    "logistic ovr": LogisticRegression(**EXACT, multi_class="ovr", class_weight=WEIGHTS),
    "squared hinge": LinearSVC(**EXACT, loss="squared_hinge"),
    "squared hinge, weights": LinearSVC(**EXACT, loss="squared_hinge", class_weight=WEIGHTS),
    "squared hinge, balanced": LinearSVC(**EXACT, loss="squared_hinge", class_weight="balanced"),
}


@pytest.fixture(scope="module")
def data():
    bunch = load_iris()
    X = bunch.data - bunch.data.mean(axis=0)
    noise = np.random.default_rng(0).standard_normal(X.shape)  # so that minima differ
    return X + 0.4 * noise, bunch.target_names[bunch.target]


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_results_are_those_of_scikit_learns_search(data, name, is_sparse):
    X, y = data
    X = sparse.csr_matrix(X) if is_sparse else X
    scoring = ["accuracy", "f1_macro"]
    if name.startswith(("multinomial", "logistic")):
        scoring += ["neg_log_loss", "roc_auc_ovr"]
    theirs, ours = search_twice(
        ESTIMATORS[name], GRID, X, y, scoring=scoring, refit="accuracy", return_train_score=True
    )
    assert ours.n_shared_ == 15
    assert_same_results(theirs, ours)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_weights_of_rows_are_those_of_single_fits(data):
    X, y = data
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    for name in ("multinomial", "squared hinge, balanced"):
        theirs, ours = search_twice(
            ESTIMATORS[name], GRID, X, y, fit_params={"sample_weight": weights}, cv=3
        )
        assert ours.n_shared_ == 9
        assert_same_results(theirs, ours)


def test_multinomial_and_ovr_are_candidates_of_one_search(data):
    grid = {"multi_class": ["multinomial", "ovr"], "C": [0.1, 1.0]}
    theirs, ours = search_twice(LogisticRegression(**EXACT), grid, *data, scoring="neg_log_loss")
    assert ours.n_shared_ == 20
    assert_same_results(theirs, ours)


@pytest.mark.parametrize("name", ["multinomial", "logistic ovr", "squared hinge"])
def test_folds_that_lack_a_class_are_single_fits(data, name):
    X, y = data
    seen = np.flatnonzero(y != "setosa")
    rows = np.arange(len(y))
    folds = [(seen, rows), (rows[::2], rows[1::2])]
    theirs, ours = search_twice(ESTIMATORS[name], GRID, X, y, cv=folds)
    assert ours.n_shared_ == 3
    assert_same_results(theirs, ours)


@pytest.mark.parametrize("name", ["multinomial", "squared hinge"])
def test_the_last_step_of_a_pipeline_shares(data, name):
    pipeline = make_pipeline(StandardScaler(), ESTIMATORS[name])
    last = pipeline.steps[-1][0]
    grid = {f"{last}__C": GRID["C"]}
    theirs, ours = search_twice(pipeline, grid, *data)
    assert ours.n_shared_ == 15
    assert_same_results(theirs, ours)


@pytest.mark.parametrize("name", ["multinomial", "logistic ovr", "squared hinge, balanced"])
def test_a_store_shares_its_sweeps(data, name, tmp_path):
    X, y = data
    codes = np.unique(y, return_inverse=True)[1].astype(float)
    with ChunkWriter(tmp_path / "store", chunk_bytes=1000) as writer:
        writer.append(X, codes)
    estimator = clone(ESTIMATORS[name])
    if name == "logistic ovr":
        estimator.set_params(class_weight={0: 0.5, 1: 2.0, 2: 1.0})
    store = ChunkedDataset.open(tmp_path / "store", memory_limit=2000)
    stored = GridSearchCV(estimator, GRID, search_tol=1e-13).fit(store)
    expected = GridSearchCV(estimator, GRID, search_tol=1e-13).fit(X, codes)
    assert stored.n_shared_ == expected.n_shared_ == 15
    assert_same_results(expected, stored)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), LogisticRegression(multi_class="ovr"), LinearSVC()],
    ids=["multinomial", "ovr", "squared hinge"],
)
def test_the_default_tolerance_gives_the_scores_to_a_row(estimator, dtype):
    X, y = load_digits(return_X_y=True)
    X = X[:900] / 16.0
    grid = {"C": np.logspace(-3, 2, 6)}
    exact = GridSearchCV(estimator, grid, search_tol=1e-10, cv=3).fit(X, y[:900])
    search = GridSearchCV(estimator, grid, cv=3).fit(X.astype(dtype), y[:900])
    assert search.n_shared_ == 18
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, exact.cv_results_["mean_test_score"], atol=1.01 / 900)


def test_paths_of_coefficients_are_those_of_single_fits(data):
    X, y = data
    rows = np.arange(len(y))
    folds = [(np.setdiff1d(rows, rows[k::3]), rows[k::3]) for k in range(3)]
    for multi_class in ("multinomial", "ovr"):
        settings = {"multi_class": multi_class, "tol": 1e-12}
        shared = {"l1_ratios": (0,), "use_legacy_attributes": False, "scoring": "neg_log_loss"}
        model = LogisticRegressionCV(Cs=GRID["C"], cv=folds, **shared, **settings).fit(X, y)
        assert model.coefs_paths_.shape == (3, 1, 3, 3, X.shape[1] + 1)
        for fold, (train, _) in enumerate(folds):
            for at, C in enumerate(GRID["C"]):
                single = LogisticRegression(C=C, **settings).fit(X[train], y[train])
                found = model.coefs_paths_[fold, 0, at]
                np.testing.assert_allclose(found[:, :-1], single.coef_, atol=1e-5)
                # The softmax is blind to what all intercepts have in common.
                shift = (found[:, -1] - single.intercept_).mean()
                shift *= multi_class == "multinomial"
                np.testing.assert_allclose(found[:, -1] - shift, single.intercept_, atol=1e-5)


def test_models_of_more_numbers_than_there_is_room_for_are_single_fits(data, monkeypatch):
    monkeypatch.setattr("snapml.searches.shared.fits._MOST_NUMBERS", 400)
    monkeypatch.setattr("snapml.solvers.newton.small_newton._MOST_ENTRIES", 0)
    X, y = data
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}).fit(X, y)
    theirs = model_selection.GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}).fit(X, y)
    assert search.n_shared_ == 0
    assert_same_results(theirs, search)
