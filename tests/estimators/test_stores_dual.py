"""Estimators on rows in files, by coordinate ascent and by continuation for the hinge."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array
from sklearn.base import clone

from snapml import LinearSVC, LogisticRegression, Ridge
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.solvers.plan import rules

pytestmark = pytest.mark.pairwise


def example(n_classes=2, *, n_rows=400, n_features=6, is_sparse=False, dtype=np.float64):
    rng = np.random.default_rng(0)
    if is_sparse:
        X = csr_matrix(random_array((n_rows, n_features), density=0.5, rng=rng))
    else:
        X = rng.normal(size=(n_rows, n_features))
    w = rng.normal(size=(n_features, n_classes)) / np.sqrt(n_features)
    y = (X @ w + 0.3 * rng.normal(size=(n_rows, n_classes))).argmax(axis=1)
    return X.astype(dtype), y


def stored(path, X, y, **options):
    n_bytes = X.nbytes if isinstance(X, np.ndarray) else 12 * X.nnz
    with ChunkWriter(path, chunk_bytes=n_bytes // 5) as writer:
        writer.append(X, y)
    store = ChunkedDataset.open(path, **options)
    assert store.n_chunks > 3
    return store


MODELS = {
    "hinge": (LinearSVC(loss="hinge", solver="sdca", C=0.1, tol=1e-4), 2),
    "hinge, one against the rest": (LinearSVC(loss="hinge", solver="sdca", C=0.1, tol=1e-3), 3),
    "hinge by continuation": (LinearSVC(loss="hinge", solver="pqn", C=0.1, tol=1e-4), 2),
    "hinge, chosen": (LinearSVC(loss="hinge", C=0.1, tol=1e-4), 2),
    "squared hinge": (LinearSVC(solver="sdca", C=0.1), 2),
    "logistic": (LogisticRegression(solver="sdca", C=0.1), 2),
    "logistic, one against the rest": (
        LogisticRegression(solver="sdca", C=0.1, multi_class="ovr"),
        3,
    ),
    "ridge": (Ridge(solver="sdca", alpha=10.0, tol=1e-6), 2),
}


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_model_is_that_of_the_rows_in_memory(tmp_path, name, is_sparse, dtype):
    model, n_classes = MODELS[name]
    X, y = example(n_classes, is_sparse=is_sparse, dtype=dtype)
    store = stored(tmp_path / "store", X, y, memory_limit=0)
    whole, streamed = clone(model).fit(X, y), clone(model).fit(store)
    assert streamed.coef_.shape == whole.coef_.shape
    assert streamed.coef_.dtype == dtype
    assert streamed.objective_ == pytest.approx(whole.objective_, rel=2 * model.tol)
    assert streamed.gap_ <= 1.01 * model.tol * streamed.objective_
    assert f"0 of {store.n_chunks} chunks in memory" in streamed.solver_
    is_ascent = model.get_params()["solver"] == "sdca"
    assert ("dual coordinate ascent" in streamed.solver_) == is_ascent
    np.testing.assert_array_equal(streamed.predict(store), streamed.predict(X))


def test_chosen_solver_is_that_of_rows_in_memory(tmp_path):
    """Many columns of short rows suit coordinate ascent, few columns do not."""
    X, y = example(n_rows=300, n_features=600, is_sparse=True)
    X /= 10
    store = stored(tmp_path / "wide", X, y)
    for model in (LogisticRegression(), LinearSVC(), LinearSVC(loss="hinge")):
        whole, streamed = clone(model).fit(X, y), clone(model).fit(store)
        for fitted in (whole, streamed):
            assert fitted.solver_.startswith("dual coordinate ascent")
        assert streamed.solver_.split(": ")[-1] == whole.solver_.split(": ")[-1]
    few = stored(tmp_path / "few", *example())
    assert LogisticRegression().fit(few).solver_.startswith("quasi-Newton")


def test_slow_coordinate_ascent_hands_over(tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "_TALL_PATIENCE", 0.5)
    monkeypatch.setattr(rules, "_FEW_COLUMNS", 5)
    X, y = example(n_rows=600, n_features=40, is_sparse=True)
    store = stored(tmp_path / "store", X, y, memory_limit=0)
    model = LogisticRegression(C=1.0, tol=1e-8).fit(store)
    assert "epochs of dual coordinate ascent" in model.solver_
    whole = LogisticRegression(C=1.0, tol=1e-8, solver="pqn").fit(X, y)
    assert model.objective_ == pytest.approx(whole.objective_, rel=1e-7)


def test_reads_that_choose_the_solver_are_few_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "_STIFFNESS_CHUNKS", 2)
    X, y = example(n_rows=1000, n_features=600, is_sparse=True)
    store = stored(tmp_path / "wide", X / 10, y, memory_limit=0)
    read = {"matrix": 0, "rows": 0}
    plain = {name: getattr(ChunkedDataset, name) for name in read}

    def counting(name):
        def call(*args):
            read[name] += 1
            return plain[name](*args)

        return call

    for name in read:
        monkeypatch.setattr(ChunkedDataset, name, counting(name))
    LogisticRegression(max_iter=0, tol=1e9).fit(store)
    # The choice reads rows of two chunks; the survey and the certificate read all.
    assert read == {"matrix": 2 * store.n_chunks, "rows": 2}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_start_takes_the_dual_states(tmp_path, n_classes):
    X, y = example(n_classes)
    store = stored(tmp_path / "store", X, y)
    model = LogisticRegression(solver="sdca", C=0.1, warm_start=True, multi_class="ovr")
    n_iter = np.max(model.fit(store).n_iter_)
    again = np.max(model.fit(store).n_iter_)
    assert again <= n_iter
    if n_classes == 2:
        assert again == 0


def test_no_penalty_is_refused(tmp_path):
    store = stored(tmp_path / "store", *example())
    with pytest.raises(ValueError, match="needs a penalty"):
        LogisticRegression(solver="sdca", C=np.inf).fit(store)
    with pytest.raises(ValueError, match=r"softmax.*multi_class='ovr'"):
        LogisticRegression(solver="sdca").fit(store, np.arange(400) % 3)
