"""Searches over rows in a store: the results are those over the same rows in memory."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from snapml import DecisionTreeClassifier, Lasso, LinearSVC, LogisticRegression, Ridge
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.model_selection import GridSearchCV
from snapml.searches.shared import fits as shared_fits

EXACT = {"tol": 1e-12, "max_iter": 5000}
GRID = {"C": [1e-2, 1.0]}


def write(path, X, y, weights=None):
    with ChunkWriter(path, chunk_bytes=4000) as writer:
        writer.append(X, y, weights)
    store = ChunkedDataset.open(path, memory_limit=0)
    assert store.n_chunks > 3
    return store


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X[:240], y[:240].astype(float)


def search_twice(estimator, grid, store, X, y, fit_params=None, **settings):
    """The same search over a store, and over its rows in memory."""
    stored, in_memory = (GridSearchCV(estimator, grid, search_tol=1e-13, **settings) for _ in "ab")
    return stored.fit(store, **(fit_params or {})), in_memory.fit(X, y, **(fit_params or {}))


def assert_same(stored, in_memory, atol=1e-7):
    for name, values in in_memory.cv_results_.items():
        if "_test_" in name or "_train_" in name:
            np.testing.assert_allclose(
                stored.cv_results_[name], values, rtol=1e-6, atol=atol, err_msg=name
            )
    assert stored.best_params_ == in_memory.best_params_
    found, expected = stored.best_estimator_.coef_, in_memory.best_estimator_.coef_
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("has_weights", [False, True], ids=["plain", "weights"])
def test_fits_share_the_reads_of_a_store(data, is_sparse, has_weights, tmp_path):
    X, y = data
    X = sparse.csr_matrix(X) if is_sparse else X
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if has_weights else None
    store = write(tmp_path / "store", X, y, weights)
    settings = {"scoring": ["roc_auc", "neg_log_loss"], "refit": "roc_auc", "cv": 3}
    stored = GridSearchCV(LogisticRegression(**EXACT), GRID, search_tol=1e-13, **settings)
    stored.fit(store)  # with the weights of the store
    in_memory = GridSearchCV(LogisticRegression(**EXACT), GRID, search_tol=1e-13, **settings)
    in_memory.fit(X, y, **({"sample_weight": weights} if has_weights else {}))
    assert stored.n_shared_ == in_memory.n_shared_ == 6
    assert_same(stored, in_memory)
    assert stored.best_estimator_.gap_ <= 1e-12 * stored.best_estimator_.objective_
    np.testing.assert_array_equal(stored.predict(store), in_memory.predict(X))


def test_training_scores_and_own_scores_of_a_store(data, tmp_path):
    X, y = data
    store = write(tmp_path / "store", X, y)
    both = search_twice(
        LogisticRegression(**EXACT), GRID, store, X, y, return_train_score=True, cv=KFold(3)
    )
    assert_same(*both)


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (LogisticRegression(l1_ratio=1.0, tol=1e-9, max_iter=5000), {"C": [0.1, 1.0]}),
        (LinearSVC(loss="hinge", tol=1e-9, max_iter=5000), {"C": [0.01, 0.1]}),
    ],
    ids=["l1", "hinge"],
)
def test_other_classifiers_get_weights_of_zero(data, estimator, grid, tmp_path):
    X, y = data
    store = write(tmp_path / "store", X, y)
    rng = np.random.default_rng(1)
    fit_params = {"sample_weight": rng.uniform(0.5, 2.0, len(y))}
    stored, in_memory = search_twice(
        estimator, grid, store, X, y, fit_params, cv=3, return_train_score=True
    )
    assert stored.n_shared_ == 0
    assert_same(stored, in_memory)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_folds_that_lack_a_class(class_weight, tmp_path):
    X, y = load_iris(return_X_y=True)
    store = write(tmp_path / "store", np.tile(X - X.mean(0), (3, 1)), np.tile(y, 3))
    X, y = store.load()
    order = np.argsort(y, kind="stable").reshape(3, -1)  # a class each
    parts = [np.concatenate([order[k], order[k - 1][:100]]) for k in range(3)]
    cv = [(part, order.ravel()[::7]) for part in parts]
    estimator = LogisticRegression(**EXACT, class_weight=class_weight)
    stored, in_memory = search_twice(estimator, GRID, store, X, y, cv=cv)
    assert stored.n_shared_ == 0
    assert_same(stored, in_memory)


@pytest.mark.parametrize("estimator", [LogisticRegression(), Ridge()], ids=["shared", "single"])
def test_chunks_in_memory_serve_all_fits(data, estimator, tmp_path, monkeypatch):
    X, y = data
    write(tmp_path / "store", X, y)
    store = ChunkedDataset.open(tmp_path / "store", memory_limit="1GB")
    reads, read = [], ChunkedDataset.matrix

    def counted(self, number, *args):
        reads.append(number)
        return read(self, number, *args)

    monkeypatch.setattr(ChunkedDataset, "matrix", counted)
    name = "C" if isinstance(estimator, LogisticRegression) else "alpha"
    GridSearchCV(estimator, {name: [0.1, 1.0]}, cv=3).fit(store)
    assert sorted(reads) == list(range(store.n_chunks))


@pytest.mark.parametrize("scoring", [None, make_scorer(mean_absolute_error)])
@pytest.mark.parametrize("estimator", [Ridge(), Lasso(tol=1e-10)], ids=["ridge", "lasso"])
def test_regressions_are_searched_over_a_store(estimator, scoring, tmp_path):
    X, y = load_diabetes(return_X_y=True)
    store = write(tmp_path / "store", X, y)
    grid = {"alpha": [0.01, 1.0]}
    stored, in_memory = search_twice(estimator, grid, store, X, y, scoring=scoring, cv=KFold(3))
    assert_same(stored, in_memory, atol=1e-5)


def test_files_are_searched_by_way_of_a_temporary_store(data, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    X, y = data
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"))
    search = GridSearchCV(LogisticRegression(), GRID, cv=3).fit(str(tmp_path / "rows.svm"))
    in_memory = GridSearchCV(LogisticRegression(), GRID, cv=3).fit(sparse.csr_matrix(X), y)
    assert search.n_shared_ == 6
    assert_same(search, in_memory, atol=1e-3)
    assert not list((tmp_path / "tmp").iterdir())


def test_names_of_a_files_columns_are_kept(data, tmp_path):
    X, y = data
    names = [f"f{k}" for k in range(X.shape[1])]
    table = np.column_stack([X, y])
    np.savetxt(
        tmp_path / "rows.csv", table, delimiter=",", header=",".join([*names, "y"]), comments=""
    )
    search = GridSearchCV(LogisticRegression(), GRID, cv=3).fit(str(tmp_path / "rows.csv"), "y")
    assert search.best_estimator_.feature_names_in_.tolist() == names
    assert search.feature_names_in_.tolist() == names


def test_models_go_by_fewer_where_rows_are_many(data, tmp_path, monkeypatch):
    X, y = data
    store = write(tmp_path / "store", X, y)
    sizes, solve = [], shared_fits.many_models.solve

    def counted(problem, matrix, targets, *args, **kwargs):
        sizes.append(len(targets.factors))
        return solve(problem, matrix, targets, *args, **kwargs)

    monkeypatch.setattr(shared_fits.many_models, "solve", counted)
    grid = {"C": np.logspace(-3, 1, 10)}
    GridSearchCV(LogisticRegression(), grid, cv=5).fit(store)
    assert sizes == [50]
    monkeypatch.setattr(shared_fits, "_MOST_NUMBERS", 20 * len(y))
    GridSearchCV(LogisticRegression(), grid, cv=5).fit(store)
    assert sizes[1:] == [15, 15, 15, 5]
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=20).fit(store)
    assert sizes[5:] == [16, 4, 16, 4]  # of one value of C no more side by side either


def test_time_runs_out_over_a_store(data, tmp_path):
    X, y = data
    store = write(tmp_path / "store", X, y)
    search = GridSearchCV(LogisticRegression(), GRID, cv=3, max_time_s=1e-9, error_score="raise")
    with pytest.raises(TimeoutError, match="max_time_s"):
        search.fit(store)


def test_what_needs_rows_in_memory_is_refused(data, tmp_path):
    X, y = data
    store = write(tmp_path / "store", X, y)
    for estimator in (
        DecisionTreeClassifier(),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ):
        with pytest.raises(TypeError, match="expected a linear model of snapml as the estimator"):
            GridSearchCV(estimator, {}).fit(store)
    scorer = GridSearchCV(LogisticRegression(), GRID, scoring=lambda model, X, y: 0.0)
    with pytest.raises(TypeError, match="which takes rows in memory"):
        scorer.fit(store)
    with pytest.raises(TypeError, match="expected sample_weight or groups, got offset"):
        GridSearchCV(LogisticRegression(), GRID).fit(store, offset=y)
    with pytest.raises(ValueError, match="y has 3 rows, X has 240"):
        GridSearchCV(LogisticRegression(), GRID).fit(store, [0.0, 1.0, 0.0])
    with ChunkWriter(tmp_path / "unlabelled") as writer:
        writer.append(X)
    with pytest.raises(ValueError, match="written without labels"):
        GridSearchCV(LogisticRegression(), GRID).fit(str(tmp_path / "unlabelled"))
