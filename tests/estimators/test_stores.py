"""Estimators on rows in files: the model of rows in memory, predictions, and what is refused."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from snapml import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.model_selection import GridSearchCV

pytestmark = pytest.mark.pairwise


def example(n_classes=2, *, is_sparse=False, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)) * (rng.random((400, 6)) < (0.5 if is_sparse else 1.0))
    y = (X[:, :n_classes] + 0.3 * rng.normal(size=(400, n_classes))).argmax(axis=1)
    X = X.astype(dtype)
    return (csr_matrix(X) if is_sparse else X), y


def stored(path, X, y=None, weights=None, **options):
    with ChunkWriter(path, chunk_bytes=2000) as writer:
        writer.append(X, y, weights)
    store = ChunkedDataset.open(path, **options)
    assert store.n_chunks > 3
    return store


MODELS = {
    "logistic": (LogisticRegression(), 2),
    "unpenalised": (LogisticRegression(C=np.inf), 2),
    "multinomial": (LogisticRegression(), 3),
    "one against the rest": (LogisticRegression(multi_class="ovr"), 3),
    "squared hinge": (LinearSVC(), 2),
    "ridge": (Ridge(tol=1e-8), 2),
    "ridge classifier": (RidgeClassifier(tol=1e-8, class_weight="balanced"), 3),
}


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("limit", [0, "1GB"])
@pytest.mark.parametrize("name", MODELS)
def test_model_is_that_of_the_rows_in_memory(tmp_path, name, limit, is_sparse, dtype):
    model, n_classes = MODELS[name]
    X, y = example(n_classes, is_sparse=is_sparse, dtype=dtype)
    store = stored(tmp_path / "store", X, y, memory_limit=limit)
    tolerance = 1e-6 if dtype == np.float64 else 1e-4
    whole = clone(model).fit(X, y)
    streamed = clone(model).fit(store)
    assert streamed.coef_.shape == whole.coef_.shape
    assert streamed.coef_.dtype == dtype
    assert streamed.objective_ == pytest.approx(whole.objective_, rel=tolerance)
    assert f"{store.n_chunks if limit else 0} of {store.n_chunks} chunks" in streamed.solver_
    assert streamed.n_features_in_ == 6
    assert type(streamed.predict(store)) is np.ndarray
    np.testing.assert_array_equal(streamed.predict(store), streamed.predict(X))
    assert streamed.score(store, y) == streamed.score(X, y)


def test_probabilities_of_a_store(tmp_path):
    X, y = example(3)
    store = stored(tmp_path / "store", X, y)
    model = LogisticRegression().fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(store), model.predict_proba(X))
    np.testing.assert_array_equal(model.decision_function(store), model.decision_function(X))


def test_path_of_a_store_will_do(tmp_path):
    X, y = example()
    stored(tmp_path / "store", X, y)
    model = LogisticRegression().fit(tmp_path / "store")
    np.testing.assert_array_equal(model.predict(str(tmp_path / "store")), model.predict(X))


def test_path_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected rows, or a file or folder .*, got '.*none'"):
        LogisticRegression().fit(tmp_path / "none", [0, 1])


def test_weights_of_the_store_count_unless_others_are_given(tmp_path):
    X, y = example()
    weights = np.random.default_rng(1).random(400)
    store = stored(tmp_path / "store", X, y, weights)
    whole = LogisticRegression(tol=1e-9)
    own = clone(whole).fit(store)
    np.testing.assert_allclose(own.coef_, clone(whole).fit(X, y, weights).coef_, rtol=1e-4)
    other = clone(whole).fit(store, sample_weight=np.ones(400))
    np.testing.assert_allclose(other.coef_, clone(whole).fit(X, y).coef_, rtol=1e-4)


def test_targets_beside_the_store(tmp_path):
    X, y = example()
    store = stored(tmp_path / "store", X)
    names = np.array(["no", "yes"])[y]
    model = LogisticRegression().fit(store, names)
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(model.predict(store), model.predict(X))
    with pytest.raises(ValueError, match="the store was written without labels"):
        LogisticRegression().fit(store)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LogisticRegression().fit(store, names[:-1])


def test_warm_start_goes_on(tmp_path):
    store = stored(tmp_path / "store", *example())
    model = LogisticRegression(warm_start=True, tol=1e-6).fit(store)
    n_iter = model.n_iter_[0]
    assert model.fit(store).n_iter_[0] < n_iter


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            LinearSVC(loss="hinge", solver="sdca", device_ids=[0]),
            r"device_ids=\[0\] on a store.*solver='auto'.*device_ids=None",
        ),
        (Lasso(device_ids=[0]), r"device_ids=\[0\] on a store.*device_ids=None"),
        (LinearRegression(), "LinearRegression trains on rows in memory"),
        (RidgeCV(), "RidgeCV trains on rows in memory"),
    ],
    ids=str,
)
def test_what_is_not_solved_on_a_store_says_what_would_work(tmp_path, model, says):
    store = stored(tmp_path / "store", *example())
    with pytest.raises(NotImplementedError, match=says):
        clone(model).fit(store, store.labels())
    X, y = store.load()
    if getattr(model, "device_ids", None) is None:
        clone(model).fit(X, y)


MEMORY_ONLY = [
    DecisionTreeClassifier(),
    DecisionTreeRegressor(),
    ElasticNetCV(),
    LassoCV(),
    LinearRegression(),
    RidgeClassifierCV(),
    RidgeCV(),
]


@pytest.mark.parametrize("model", MEMORY_ONLY, ids=lambda model: type(model).__name__)
def test_estimators_that_need_rows_in_memory_say_so_without_labels_too(tmp_path, model):
    store = stored(tmp_path / "store", *example())
    says = f"X is a store, and {type(model).__name__} trains on rows in memory"
    with pytest.raises(NotImplementedError, match=says):
        clone(model).fit(store)
    with pytest.raises(NotImplementedError, match=says):
        clone(model).fit(store, store.labels())
    clone(model).fit(*store.load())


def test_search_over_a_store_refuses_such_an_estimator_at_once(tmp_path):
    store = stored(tmp_path / "store", *example())
    search = GridSearchCV(LinearRegression(), {"fit_intercept": [True, False]})
    with pytest.raises(NotImplementedError, match="LinearRegression trains on rows in memory"):
        search.fit(store)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (example(), "400 rows x 6 columns, dense float64, 2 distinct labels, "),
        (
            example(is_sparse=True, dtype=np.float32),
            "400 rows x 6 columns, sparse float32, 2 distinct labels, ",
        ),
        ((example()[0],), "dense float64, "),
        ((example()[0], np.arange(400.0) / 7, np.ones(400)), "400 distinct labels, weights, "),
    ],
)
def test_repr_says_what_a_store_holds(tmp_path, rows, says):
    store = stored(tmp_path / "store", *rows)
    assert repr(store).startswith(f"<ChunkedDataset '{tmp_path / 'store'}': 400 rows")
    assert repr(store).endswith(f"{says}{store.n_chunks} chunks>")


def test_other_number_of_columns_is_refused_in_predict(tmp_path):
    X, y = example()
    store = stored(tmp_path / "store", X[:, :5])
    with pytest.raises(ValueError, match="X has 5 features, but LogisticRegression is expecting 6"):
        LogisticRegression().fit(X, y).predict(store)


def test_limit_of_the_estimator_goes_before_that_of_the_store(tmp_path):
    store = stored(tmp_path / "store", *example(), memory_limit="1GB")
    assert f"{store.n_chunks} of {store.n_chunks} chunks" in LogisticRegression().fit(store).solver_
    limited = LogisticRegression(memory_limit=0).fit(store)
    assert f"0 of {store.n_chunks} chunks" in limited.solver_


@pytest.mark.parametrize("model", [LogisticRegression(), LinearSVC(), Ridge(), Lasso()])
def test_bad_limit_is_named(model):
    X, y = example()
    with pytest.raises(ValueError, match=r"memory_limit: expected 'auto', bytes.*got '4 parsecs'"):
        model.set_params(memory_limit="4 parsecs").fit(X, y)
