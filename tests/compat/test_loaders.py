"""Loaders under the names of IBM Snap ML: what they return, and what they refuse."""

import gc
import inspect

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file

from snapml import LogisticRegression, compat
from snapml.data import ChunkedDataset

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(200, 4)), 3).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.float64)

SIGNATURES = {
    "load_from_svmlight_format": ["filename", "num_ft", "num_chunks"],
    "load_from_snap_format": ["filename", "num_chunks"],
    "load_svmlight_file": ["filename", "num_ft", "num_chunks"],
    "load_snap_file": ["filename", "num_chunks"],
    "read_from_snap_format": ["filename"],
    "dump_to_snap_format": ["X", "y", "filename", "col_major", "implicit_vals"],
    "write_to_snap_format": ["filename", "data", "with_implicit_vals"],
    "copy_as_gpu_cmatrix": ["in_cuDF"],
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    dump_svmlight_file(X.astype(np.float64), Y, str(tmp_path / "rows.svm"), zero_based=False)
    compat.dump_to_snap_format(csr_matrix(X), Y, tmp_path / "rows.snap")
    yield tmp_path
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_arguments_have_the_names_that_users_know():
    assert set(SIGNATURES) == set(compat.loaders.__all__)
    for name, expected in SIGNATURES.items():
        assert list(inspect.signature(getattr(compat, name)).parameters) == expected


@pytest.mark.parametrize("kind", ["svmlight", "snap"])
def test_partitions_train_and_predict_with_their_labels(files, kind):
    path = files / ("rows.svm" if kind == "svmlight" else "rows.snap")
    data = getattr(compat, f"load_from_{kind}_format")(str(path))
    assert isinstance(data, ChunkedDataset)
    assert data.dtype == np.float32
    model = LogisticRegression().fit(data)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    np.testing.assert_array_equal(model.predict(data), model.predict(csr_matrix(X)))


@pytest.mark.parametrize("kind", ["svmlight", "snap"])
def test_files_come_into_memory(files, kind):
    path = files / ("rows.svm" if kind == "svmlight" else "rows.snap")
    rows, y = getattr(compat, f"load_{kind}_file")(str(path))
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows.toarray(), X)
    np.testing.assert_array_equal(y, Y)


def test_number_of_columns_may_be_given(files):
    assert compat.load_svmlight_file(files / "rows.svm", 9)[0].shape == (200, 9)
    assert compat.load_from_svmlight_format(files / "rows.svm", num_ft=9).shape == (200, 9)


@pytest.mark.parametrize("col_major", [False, True])
def test_what_is_written_comes_back(files, col_major):
    compat.dump_to_snap_format(X, Y, files / "dense.snap", col_major=col_major)
    rows, y = compat.read_from_snap_format(files / "dense.snap")
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(y, Y)


def test_partitions_are_written_as_they_were(files):
    data = compat.load_from_snap_format(files / "rows.snap")
    compat.write_to_snap_format(files / "again.snap", data)
    assert (files / "again.snap").read_bytes() == (files / "rows.snap").read_bytes()
    compat.write_to_snap_format(files / "pair.snap", (csr_matrix(X), Y))
    assert (files / "pair.snap").read_bytes() == (files / "rows.snap").read_bytes()


def test_rows_of_equal_entries_need_no_values(files):
    ones = csr_matrix(np.eye(4, dtype=np.float32))
    compat.write_to_snap_format(files / "ones.snap", (ones, Y[:4]), with_implicit_vals=True)
    rows, _ = compat.load_snap_file(files / "ones.snap")
    np.testing.assert_array_equal(rows.toarray(), ones.toarray())


def test_what_is_not_offered_says_what_is(files):
    for name in ("load_from_snap_format", "load_from_svmlight_format", "load_snap_file"):
        with pytest.raises(NotImplementedError, match=r"num_chunks=4: expected None.*chunk_bytes"):
            getattr(compat, name)(files / "rows.snap", num_chunks=4)
    with pytest.raises(NotImplementedError, match="pass the ndarray itself to fit"):
        compat.copy_as_gpu_cmatrix(X)
    with pytest.raises(
        TypeError, match=r"expected a ChunkedDataset or a tuple \(X, y\), got ndarray"
    ):
        compat.write_to_snap_format(files / "out.snap", X)
    with pytest.raises(ValueError, match="expected labels"):
        compat.write_to_snap_format(files / "out.snap", (X, None))


def test_damaged_files_leave_nothing(files):
    (files / "rows.svm").write_text("1 0:1\n1 red\n")
    with pytest.raises(ValueError, match="line 2"):
        compat.load_from_svmlight_format(files / "rows.svm")
