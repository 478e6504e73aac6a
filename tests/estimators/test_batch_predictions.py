"""Predictions batch by batch: those of all rows at once, from any source, in bounded memory."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix
from sklearn.exceptions import NotFittedError

from snapml import (
    DecisionTreeClassifier,
    LinearSVC,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    predict_batches,
    write_predictions,
)
from snapml.data import ChunkedDataset, ChunkWriter, CompressedMatrix

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def rows(n_classes=3, n_rows=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5)) * (rng.random((n_rows, 5)) < 0.7)
    return X, (X[:, :n_classes] + 0.3 * rng.normal(size=(n_rows, n_classes))).argmax(axis=1)


def stored(path, X, y=None, weights=None):
    with ChunkWriter(path, chunk_bytes=2000) as writer:
        writer.append(X, y, weights)
    return path


def svmlight(path, X, y):
    lines = (
        f"{label} " + " ".join(f"{k + 1}:{float(v)!r}" for k, v in enumerate(row) if v)
        for row, label in zip(X, y, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def npy(path, X):
    np.save(path, X)
    return path


def in_batches(X, y=None):
    for begin in range(0, len(X), 33):
        part = slice(begin, begin + 33)
        yield X[part] if y is None else (X[part], y[part])


SOURCES = {
    "array": lambda X, y, _: X,
    "fortran": lambda X, y, _: np.asfortranarray(X),
    "list": lambda X, y, _: X.tolist(),
    "csr": lambda X, y, _: csr_matrix(X),
    "csc": lambda X, y, _: csc_matrix(X),
    "compressed": lambda X, y, _: CompressedMatrix(
        *(lambda c: (c.indptr, c.indices, c.shape[1], c.data))(csr_matrix(X))
    ),
    "store": lambda X, y, p: ChunkedDataset.open(stored(p / "store", X, y)),
    "path of a store": lambda X, y, p: str(stored(p / "store", csr_matrix(X), y)),
    "svmlight": lambda X, y, p: svmlight(p / "rows.svm", X, y),
    "npy": lambda X, y, p: npy(p / "rows.npy", X),
    "iterator": lambda X, y, _: in_batches(X),
    "iterator of pairs": lambda X, y, _: in_batches(X, y),
}


@pytest.mark.parametrize("batch_rows", [None, 1, 7, 1000])
@pytest.mark.parametrize("name", SOURCES)
def test_batches_are_the_predictions_in_order(tmp_path, name, batch_rows):
    X, y = rows()
    model = LogisticRegression().fit(X, y)
    for method in METHODS:
        source = SOURCES[name](X, y, tmp_path / method)
        found = list(predict_batches(model, source, method, batch_rows=batch_rows))
        expected = getattr(model, method)(X)
        assert batch_rows is None or max(map(len, found)) <= batch_rows
        assert len(found) > 1 or batch_rows in (None, 1000)
        if method == "predict":
            np.testing.assert_array_equal(np.concatenate(found), expected)
        else:
            np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-12, atol=1e-14)


@pytest.fixture(autouse=True)
def _folders(tmp_path):
    for method in METHODS:
        (tmp_path / method).mkdir()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_are_cut_into_batches_with_their_names(library):
    frames = pytest.importorskip(library)
    X, y = rows()
    named = {f"column {k}": X[:, k] for k in range(5)}
    frame = frames.table(named) if library == "pyarrow" else frames.DataFrame(named)
    model = LogisticRegression().fit(frame, y)
    found = list(predict_batches(model, frame, "predict_proba", batch_rows=30))
    assert len(found) == 7
    np.testing.assert_allclose(np.concatenate(found), model.predict_proba(frame), rtol=1e-12)


def test_columns_of_parquet_go_by_their_names(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = Ridge().fit(frame, y)
    frame[list("bacde")].assign(y=y).to_parquet(tmp_path / "rows.parquet")
    found = np.concatenate(list(predict_batches(model, tmp_path / "rows.parquet", label="y")))
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-12)
    assert hasattr(model, "feature_names_in_")
    frame[list("bcde")].to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"other\.parquet.*'a'"):
        predict_batches(model, tmp_path / "other.parquet")


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".txt", ".parquet", ".pq"])
@pytest.mark.parametrize("method", METHODS)
def test_files_hold_the_predictions(tmp_path, suffix, method, dtype):
    X, y = rows()
    X = X.astype(dtype)
    model = LogisticRegression().fit(X, y)
    path = tmp_path / f"out{suffix}"
    assert write_predictions(model, X, path, method, batch_rows=37) == 200
    expected = getattr(model, method)(X)
    if suffix == ".npy":
        found = np.load(path)
        assert found.dtype == expected.dtype
    elif suffix in (".csv", ".txt"):
        with path.open() as stream:
            lines = list(csv.reader(stream, delimiter="," if suffix == ".csv" else " "))
        if suffix == ".csv":
            names = lines.pop(0)
            assert names == (["prediction"] if method == "predict" else ["0", "1", "2"])
        found = np.array(lines, dtype).reshape(expected.shape)
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(path)
        found = np.column_stack([c.to_numpy() for c in table.columns]).reshape(expected.shape)
        assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == [path.name]


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_text_labels_are_written(tmp_path, suffix):
    X, y = rows()
    labels = np.array(["yes, no", "b", 'c"'])[y]
    model = LinearSVC().fit(X, labels)
    write_predictions(model, X, tmp_path / f"out{suffix}", batch_rows=50)
    if suffix == ".npy":
        found = np.load(tmp_path / "out.npy")
    elif suffix == ".csv":
        with (tmp_path / "out.csv").open() as stream:
            found = [line[0] for line in csv.reader(stream)][1:]
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        found = parquet.read_table(tmp_path / "out.parquet").column(0).to_pylist()
    assert list(found) == model.predict(X).tolist()


def first_line(path):
    return path.read_text().split("\n")[0]


def test_columns_of_several_targets_and_labels(tmp_path):
    X, y = rows()
    write_predictions(Ridge().fit(X, np.eye(3)[y]), X, tmp_path / "targets.csv")
    assert first_line(tmp_path / "targets.csv") == "prediction_0,prediction_1,prediction_2"
    labels = RidgeClassifier().fit(X, np.eye(3, dtype=int)[y])
    write_predictions(labels, X, tmp_path / "labels.csv")
    found = np.loadtxt(tmp_path / "labels.csv", delimiter=",", skiprows=1, dtype=int)
    np.testing.assert_array_equal(found, labels.predict(X))
    write_predictions(labels, X, tmp_path / "decisions.csv", "decision_function")
    assert first_line(tmp_path / "decisions.csv") == "decision_0,decision_1,decision_2"


def test_trees_are_written_with_a_column_for_each_output(tmp_path):
    X, y = rows()
    both = DecisionTreeClassifier(splitter="best").fit(X, np.column_stack([y, y > 0]))
    write_predictions(both, in_batches(X), tmp_path / "p.csv", batch_rows=7)
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "prediction_0,prediction_1"
    np.testing.assert_array_equal(
        np.array([r.split(",") for r in lines[1:]], float), both.predict(X)
    )
    with pytest.raises(ValueError, match="of 2 outputs, got 'predict_proba', which has an array"):
        predict_batches(both, X, "predict_proba")
    one = DecisionTreeClassifier().fit(X, y)
    found = np.concatenate(list(predict_batches(one, in_batches(X), "predict_proba")))
    np.testing.assert_array_equal(found, one.predict_proba(X))


def test_failure_leaves_no_file_and_an_old_one_as_it_was(tmp_path):
    X, y = rows()
    model = Ridge().fit(X, y)
    (tmp_path / "out.npy").write_bytes(b"old")

    def failing():
        yield X
        raise OSError("no more")

    for name in ("out.npy", "out.csv", "out.parquet"):
        with pytest.raises(OSError, match="no more"):
            write_predictions(model, failing(), tmp_path / name)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["out.npy"]
    assert (tmp_path / "out.npy").read_bytes() == b"old"


def test_bad_calls_are_refused_before_the_source_is_read(tmp_path):
    X, y = rows()
    model = LinearSVC().fit(X, y)

    def untouched():
        raise AssertionError("was read")
        yield

    with pytest.raises(ValueError, match=r"expected one of \['predict', 'decision_function'\]"):
        predict_batches(model, untouched(), "predict_proba")
    with pytest.raises(ValueError, match="of LinearSVC, got 'fit'"):
        predict_batches(model, untouched(), "fit")
    with pytest.raises(NotFittedError):
        predict_batches(LinearSVC(), untouched())
    with pytest.raises(ValueError, match=r"batch_rows: expected an integer >= 1, got 0"):
        predict_batches(model, untouched(), batch_rows=0)
    with pytest.raises(ValueError, match=r"expected a name that ends in .npy"):
        write_predictions(model, untouched(), tmp_path / "out.bin")
    with pytest.raises(TypeError, match="options of files for rows in memory"):
        predict_batches(model, X, label="y")
    with pytest.raises(FileNotFoundError):
        predict_batches(model, tmp_path / "none.svm")
    with pytest.raises(ValueError, match="at least one batch"):
        write_predictions(model, iter(()), tmp_path / "out.npy")
    with pytest.raises(ValueError, match="features"):
        list(predict_batches(model, X[:, :3]))
    objects = LinearSVC().fit(X, np.array(["a", "b", "c"], object)[y])
    with pytest.raises(ValueError, match=r"Python objects have no .npy format"):
        write_predictions(objects, X, tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()


def test_memory_stays_far_below_the_store(tmp_path):
    """Measured as the growth of a child's peak: 160 MB of rows and 8 MB of probabilities."""
    rng = np.random.default_rng(0)
    with ChunkWriter(tmp_path / "store", chunk_bytes=4_000_000) as writer:
        for _ in range(10):
            X = rng.normal(size=(50_000, 40))
            writer.append(X, X[:, 0] > 0)
    LogisticRegression().fit(X, X[:, 0] + rng.normal(size=len(X)) > 0).save(tmp_path / "model")
    script = """
import re, sys, snapml
# Not ru_maxrss, which a child process takes over from its parent.
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
folder = sys.argv[1]
model = snapml.load(folder + "/model")
model.predict_proba([[0.0] * 40])
snapml.write_predictions(model, folder + "/model-rows.npy", folder + "/warm.npy", "predict_proba")
before = peak()
n_rows = snapml.write_predictions(model, folder + "/store", folder + "/p.npy", "predict_proba")
print(n_rows, peak() - before)
"""
    np.save(tmp_path / "model-rows.npy", X[:10])
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    n_rows, grown = map(int, run.stdout.split())
    assert n_rows == 500_000
    assert np.load(tmp_path / "p.npy", mmap_mode="r").shape == (500_000, 2)
    assert grown < 40e6
