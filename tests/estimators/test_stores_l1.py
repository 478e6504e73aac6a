"""L1 penalties and positive coefficients on rows in files: the model of the same rows in memory."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from snapml import ElasticNet, Lasso, LinearSVC, LogisticRegression, Ridge
from snapml.data import ChunkedDataset, ChunkWriter, CompressedMatrix

pytestmark = pytest.mark.pairwise


def example(n_classes=2, *, is_sparse=False, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30)) * (rng.random((400, 30)) < (0.5 if is_sparse else 1.0))
    y = (X[:, :n_classes] + 0.3 * rng.normal(size=(400, n_classes))).argmax(axis=1)
    X = X.astype(dtype)
    return (csr_matrix(X) if is_sparse else X), y


def stored(path, X, y=None, weights=None, **options):
    with ChunkWriter(path, chunk_bytes=6000) as writer:
        writer.append(X, y, weights)
    store = ChunkedDataset.open(path, **options)
    assert store.n_chunks > 3
    return store


MODELS = {
    "lasso": (Lasso(alpha=0.02), 2),
    "elastic net, positive": (ElasticNet(alpha=0.02, positive=True), 2),
    "logistic": (LogisticRegression(l1_ratio=1.0, C=0.5, tol=1e-8), 2),
    "elastic net, penalised intercept": (
        LogisticRegression(l1_ratio=0.5, C=5, solver="liblinear", tol=1e-8),
        2,
    ),
    "one against the rest": (
        LogisticRegression(l1_ratio=1.0, C=0.5, multi_class="ovr", tol=1e-8),
        3,
    ),
    "squared hinge": (LinearSVC(penalty="l1", C=0.1, tol=1e-8), 2),
    "squared hinge, class weights": (
        LinearSVC(penalty="l1", C=0.1, tol=1e-8, class_weight={0: 2.0, 1: 1.0, 2: 0.5}),
        3,
    ),
    "ridge, positive": (Ridge(positive=True), 2),
}


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("limit", [0, "1GB"])
@pytest.mark.parametrize("name", MODELS)
def test_model_is_that_of_the_rows_in_memory(tmp_path, name, limit, is_sparse, dtype):
    model, n_classes = MODELS[name]
    X, y = example(n_classes, is_sparse=is_sparse, dtype=dtype)
    store = stored(tmp_path / "store", X, y, memory_limit=limit)
    whole, streamed = clone(model).fit(X, y), clone(model).fit(store)
    assert streamed.coef_.dtype == dtype
    assert streamed.coef_.shape == whole.coef_.shape
    assert streamed.objective_ == pytest.approx(whole.objective_, rel=1e-7)
    np.testing.assert_array_equal(streamed.coef_ != 0, whole.coef_ != 0)
    n_reads = np.max(streamed.n_iter_) + 1
    assert n_reads <= (8 if limit else 24)
    assert ("packed columns" if limit else "Gram matrices") in streamed.solver_
    n_resident = store.n_chunks if limit else 0
    assert f"{n_resident} of {store.n_chunks} chunks in memory" in streamed.solver_


@pytest.mark.parametrize("limit", [0, "1GB"])
def test_weights_count(tmp_path, limit):
    X, y = example()
    weights = np.random.default_rng(1).random(400)
    store = stored(tmp_path / "store", X, y, weights, memory_limit=limit)
    for model in (LogisticRegression(l1_ratio=1.0, C=0.5, tol=1e-8), Lasso(alpha=0.05)):
        whole = clone(model).fit(X, y, weights)
        np.testing.assert_allclose(clone(model).fit(store).coef_, whole.coef_, atol=1e-4)


@pytest.mark.parametrize("limit", [0, "1GB"])
def test_rows_without_values(tmp_path, limit):
    rng = np.random.default_rng(0)
    indices = rng.permuted(np.tile(np.arange(60, dtype=np.int32), (500, 1)), axis=1)[:, :6]
    X = CompressedMatrix(np.arange(0, 3001, 6, dtype=np.int32), indices.ravel().copy(), 60)
    y = (indices < 20).sum(axis=1) > rng.integers(0, 6, 500)
    store = stored(tmp_path / "store", X, y, memory_limit=limit)
    model = LogisticRegression(l1_ratio=1.0, tol=1e-8)
    whole, streamed = clone(model).fit(X, y), clone(model).fit(store)
    assert streamed.objective_ == pytest.approx(whole.objective_, rel=1e-7)
    np.testing.assert_array_equal(streamed.coef_ != 0, whole.coef_ != 0)


@pytest.mark.parametrize("limit", [0, "1GB"])
def test_several_targets_and_warm_start(tmp_path, limit):
    X, _ = example()
    Y = X[:, :2] @ [[1.0, 0.5], [0.0, 2.0]] + np.random.default_rng(1).normal(size=(400, 2))
    store = stored(tmp_path / "store", X, memory_limit=limit)
    model = Lasso(alpha=0.05, warm_start=True).fit(store, Y)
    np.testing.assert_allclose(model.coef_, Lasso(alpha=0.05).fit(X, Y).coef_, atol=1e-6)
    assert model.fit(store, Y).n_iter_ == [1, 1]  # margins, and the certificate


def test_path_of_a_store_will_do(tmp_path):
    X, y = example()
    stored(tmp_path / "store", X, y)
    coef = Lasso(alpha=0.05).fit(X, y).coef_
    np.testing.assert_allclose(Lasso(alpha=0.05).fit(str(tmp_path / "store")).coef_, coef)


def test_no_more_reads_than_allowed(tmp_path):
    store = stored(tmp_path / "store", *example(), memory_limit=0)
    model = LogisticRegression(l1_ratio=1.0, C=50, tol=1e-12, max_iter=7)
    with pytest.warns(match="tol=1e-12 was not reached"):
        model.fit(store)
    assert model.n_iter_[0] <= 7
    assert len(model.history_) == model.n_iter_[0] + 1


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (LogisticRegression(l1_ratio=1.0), "multinomial loss on a store.*multi_class='ovr'.*load"),
        (Lasso(device_ids=[0]), r"device_ids=\[0\] on a store.*device_ids=None"),
        (Lasso(alpha=0, positive=True), "positive=True and alpha=0 on a store.*load"),
        (Ridge(alpha=0, positive=True), "positive=True and alpha=0 on a store.*load"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:alpha=0")
def test_what_is_refused_says_what_would_work(tmp_path, model, says):
    store = stored(tmp_path / "store", *example(3))
    with pytest.raises(NotImplementedError, match=says):
        model.fit(store)


def test_least_squares_without_a_penalty_are_those_of_rows_in_memory(tmp_path):
    X, y = example()
    found = Ridge(alpha=0).fit(stored(tmp_path / "store", X, y, memory_limit=0), y)
    expected = Ridge(alpha=0).fit(X, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-7)
    assert found.objective_ - found.gap_ <= expected.objective_ * (1.0 + 1e-12)


def test_damaged_chunk_leaves_no_model(tmp_path):
    store = stored(tmp_path / "store", *example(), memory_limit=0)
    chunk = sorted(tmp_path.glob("store/*"))[2]
    content = bytearray(chunk.read_bytes())
    content[100] ^= 1
    chunk.write_bytes(content)
    model = LogisticRegression(l1_ratio=1.0)
    with pytest.raises(ValueError, match="checksum"):
        model.fit(store)
    assert not hasattr(model, "coef_")
