"""Fits and predictions on files and streams: the model of the rows in memory, nothing left."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

from snapml import (
    Lasso,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from snapml.data import CompressedMatrix
from snapml.io import dump_snap

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
Y = (X[:, 0] + 0.3 * RNG.normal(size=400) > 0).astype(np.float64)
W = RNG.random(400)
NAMES = [f"c{k}" for k in range(6)]
MODELS = [
    LogisticRegression(tol=1e-8),
    LinearSVC(tol=1e-8),
    Ridge(tol=1e-8),
    RidgeClassifier(tol=1e-8),
    Lasso(alpha=0.01),
]


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Return the temporary folder, which must be empty at the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def table(pa):
    return pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": Y})


def batches(*parts):
    return (
        tuple(p[k : k + 90] for p in parts) if len(parts) > 1 else parts[0][k : k + 90]
        for k in range(0, 400, 90)
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("kind", ["svmlight", "npy", "iterator", "labels beside"])
def test_model_is_that_of_the_rows_in_memory(tmp_path, model, kind):
    whole = clone(model).fit(X, Y)
    path = tmp_path / "rows.svm"
    if kind == "svmlight":
        dump_svmlight_file(X, Y, str(path))
        fitted, again = clone(model).fit(path), path
    elif kind == "npy":
        path = tmp_path / "rows.npy"
        np.save(path, np.column_stack([X, Y]))
        fitted = clone(model).fit(path, -1)
        np.save(path, X)
        again = path
    elif kind == "iterator":
        fitted, again = clone(model).fit(batches(X, Y)), batches(X)
    else:
        fitted, again = clone(model).fit(batches(X), Y), batches(X, Y)
    np.testing.assert_allclose(fitted.coef_, whole.coef_, rtol=1e-4, atol=1e-6)
    assert fitted.coef_.dtype == np.float64
    np.testing.assert_allclose(fitted.predict(again), fitted.predict(X), rtol=1e-12)


def test_weights_of_batches_count():
    whole = LogisticRegression(tol=1e-9).fit(X, Y, W)
    fitted = LogisticRegression(tol=1e-9).fit(batches(X, Y, W))
    np.testing.assert_allclose(fitted.coef_, whole.coef_, rtol=1e-4)


def test_snap_files_train_in_their_own_type(tmp_path):
    dump_snap(csr_matrix(X), Y, tmp_path / "rows.snap")
    model = LogisticRegression().fit(tmp_path / "rows.snap")
    assert model.coef_.dtype == np.float32
    rows = model.predict_proba(tmp_path / "rows.snap")
    np.testing.assert_allclose(rows, model.predict_proba(X.astype(np.float32)), rtol=1e-5)


def test_columns_are_known_by_name(tmp_path):
    pa, pq = pytest.importorskip("pyarrow", reason="reads Parquet"), __import__("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    pq.parquet.write_table(table(pa), path, row_group_size=90)
    model = LogisticRegression().fit(path, "y")
    assert model.feature_names_in_.tolist() == NAMES
    expected = LogisticRegression().fit(table(pa).drop_columns("y"), Y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-3, atol=1e-4)
    # The columns of a file may have any order, and there may be more of them.
    pq.parquet.write_table(table(pa).select([*NAMES[::-1], "y"]), path)
    np.testing.assert_array_equal(model.predict(path), model.predict(table(pa).select(NAMES)))
    pq.parquet.write_table(table(pa).select(NAMES[1:]), path)
    with pytest.raises(ValueError, match=r"rows.parquet: columns='c0': expected the name"):
        model.predict(path)


def test_arrow_streams_are_read_once():
    pa = pytest.importorskip("pyarrow", reason="makes Arrow streams")
    stream = table(pa).to_reader(max_chunksize=90)
    model = LogisticRegression().fit(stream, "y")
    proba = model.predict_proba(table(pa).to_reader(max_chunksize=90))
    np.testing.assert_array_equal(proba, model.predict_proba(table(pa).select(NAMES)))


def test_limit_bounds_the_chunks(temporary):
    rows = np.tile(X, (300, 1))
    labels = np.tile(Y, 300)
    model = LogisticRegression(memory_limit="1MB").fit(iter([(rows, labels)]))
    stays, all_chunks = model.solver_.split(" chunks")[0].split()[-3::2]
    assert int(stays) < int(all_chunks) > 10


def failing(error):
    yield X[:90], Y[:90]
    raise error


@pytest.mark.parametrize("error", [OSError("gone"), KeyboardInterrupt("stop")], ids=repr)
def test_source_that_raises_half_way_leaves_nothing(error):
    model = LogisticRegression()
    with pytest.raises(type(error), match=str(error)):
        model.fit(failing(error))
    assert not hasattr(model, "coef_")
    model.fit(X, Y)
    with pytest.raises(type(error), match=str(error)):
        model.predict(failing(error))


def test_fit_that_fails_leaves_nothing():
    with pytest.raises(ValueError, match="only one class"):
        LogisticRegression().fit(batches(X, np.ones(400)))


def test_rows_without_labels_are_refused():
    with pytest.raises(ValueError, match="y: expected targets, since these rows come without"):
        LogisticRegression().fit(batches(X))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (lambda: iter([]), "expected at least one row"),
        (lambda: iter([(X, Y), (X[:, :5], Y)]), "batch 1: expected .*6.* got .*5"),
        (lambda: iter([(X, Y), X]), "batch 1: expected .*True.* got .*False"),
        (lambda: iter([(np.full((2, 2), np.nan), [0, 1])]), "batch 0 .*finite.*row 0.*column 0"),
        (lambda: iter([([[1, 2], [3]], [0, 1])]), "batch 0: expected rows of numbers"),
        (lambda: iter([(X, Y[:-1])]), r"batch 0 .*labels: expected shape \(400,\)"),
        (lambda: iter([(X, Y, W, W)]), "batch 0: expected X, .* got a tuple of 4"),
    ],
)
def test_bad_batches_are_named(source, says):
    with pytest.raises((ValueError, TypeError), match=says):
        LogisticRegression().fit(source())


def test_predictions_name_the_bad_batch():
    model = LogisticRegression().fit(X, Y)
    with pytest.raises(ValueError, match="batch 1: X has 5 features, but LogisticRegression"):
        model.predict(iter([csr_matrix(X), csr_matrix(X[:, :5])]))
    with pytest.raises(ValueError, match=r"batch 0: Input X contains NaN"):
        model.predict(iter([np.full((1, 6), np.nan)]))
    with pytest.raises(ValueError, match="expected at least one row"):
        model.predict(iter([]))


def test_batches_of_compressed_rows_without_values():
    rows = CompressedMatrix(np.arange(401), RNG.integers(0, 6, 400), 6)
    ones = csr_matrix((np.ones(400, np.float32), rows.indices, rows.indptr), shape=(400, 6))
    model = LogisticRegression(tol=1e-6).fit(iter([(rows, Y)]))
    expected = LogisticRegression(tol=1e-6).fit(ones, Y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-2, atol=1e-3)
    np.testing.assert_array_equal(model.predict(iter([rows])), model.predict(ones))


@pytest.mark.parametrize(
    "model", [LinearRegression(), RidgeCV()], ids=lambda model: type(model).__name__
)
def test_estimators_of_rows_in_memory_refuse_sources(tmp_path, model):
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(NotImplementedError, match=r"rows.npy.*trains on rows in memory.*load"):
        clone(model).fit(tmp_path / "rows.npy", Y)


def test_full_disk_is_told_before_anything_is_written(tmp_path, monkeypatch):
    np.save(tmp_path / "rows.npy", np.column_stack([X, Y]))
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 22_399})())
    with pytest.raises(OSError, match=r"take 22400 bytes in a temporary store, but 22399 are free"):
        LogisticRegression().fit(tmp_path / "rows.npy", 6)
