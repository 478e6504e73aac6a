"""Models in files: every estimator comes back to the bit, and no damaged file gives a model."""

import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

import snapml
from snapml.statistics import inference
from tests.estimators.every import CLASSES

METHODS = ("predict", "decision_function", "predict_proba", "predict_log_proba")
SETTINGS = {
    "LogisticRegressionCV": {"cv": 3, "Cs": 3, "l1_ratios": (0.0,), "use_legacy_attributes": True},
    "LassoCV": {"cv": 3},
    "ElasticNetCV": {"cv": 3},
    "RidgeCV": {"store_cv_results": True},
}


def quiet_fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def rows(n_classes=3, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)).astype(dtype)
    return X, (X[:, :n_classes] + 0.3 * rng.normal(size=(60, n_classes))).argmax(axis=1)


def fitted(name, dtype=np.float64, **parameters):
    X, y = rows(dtype=dtype)
    model = CLASSES[name](**(SETTINGS.get(name, {}) | parameters))
    if is_classifier(model):
        return quiet_fit(model, X, np.array(["a", "bb", "ccc"])[y]), X
    return quiet_fit(model, X, X @ np.arange(5) + y), X


def same(one, other):
    """Return whether two values are of the same types and hold the same bits."""
    if issparse(one):
        return type(one) is type(other) and same(one.toarray(), other.toarray())
    if isinstance(one, dict):
        return list(map(str, one)) == list(map(str, other)) and all(
            same(one[key], other[key]) for key in one
        )
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        is_alike = one.dtype == other.dtype and one.shape == other.shape
        if one.dtype == object:
            return is_alike and one.tolist() == other.tolist()
        return is_alike and one.tobytes() == other.tobytes()
    return type(one) is type(other) and (one == other or (one != one and other != other))


def assert_same_model(one, other, X):
    assert type(one) is type(other)
    assert same(one.get_params(), other.get_params())
    stored = {name for name in vars(one) if name.endswith("_") and name != "history_"}
    assert stored - set(one.get_params()) <= set(vars(other))
    for name in stored:
        assert same(getattr(one, name), getattr(other, name)), name
    for method in METHODS:
        if hasattr(one, method):
            assert same(getattr(one, method)(X), getattr(other, method)(X)), method


def saved(model, folder):
    model.save(folder / "model")
    return snapml.load(folder / "model")


@pytest.mark.parametrize("name", CLASSES)
def test_every_estimator_comes_back_to_the_bit(tmp_path, name, dtype):
    model, X = fitted(name, dtype)
    loaded = saved(model, tmp_path)
    assert loaded.coef_.dtype == model.coef_.dtype
    assert_same_model(model, loaded, X)


@pytest.mark.parametrize("name", [name for name in CLASSES if is_classifier(CLASSES[name]())])
def test_sparse_coefficients_come_back_sparse(tmp_path, name):
    model, X = fitted(name)
    loaded = saved(model.sparsify(), tmp_path)
    assert issparse(loaded.coef_)
    assert_same_model(model, loaded, X)


@pytest.mark.parametrize("is_wide", [False, True])
def test_several_targets_and_labels_come_back(tmp_path, is_wide):
    X, y = rows()
    Y = np.column_stack([y, -y, y]).astype(float)[:, : 3 if is_wide else 1]
    for model in (snapml.Ridge(alpha=np.ones(Y.shape[1])), snapml.LinearRegression()):
        assert_same_model(model.fit(X, Y), saved(model, tmp_path), X)
    labels = snapml.RidgeClassifier().fit(X, np.eye(3, dtype=int)[y])
    assert labels.predict(X).shape == (60, 3)
    assert_same_model(labels, saved(labels, tmp_path), X)


def test_names_of_columns_and_odd_parameters_come_back(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = rows(2)
    frame = pd.DataFrame(X, columns=["ä", "b c", 'd"', "e\n", "f"])
    model = snapml.LogisticRegression(
        C=np.inf, class_weight={0: 1, 1: np.float32(2.5)}, max_iter=np.int64(500), penalty=None
    )
    quiet_fit(model, frame, y)
    loaded = saved(model, tmp_path)
    assert np.inf == loaded.C
    assert loaded.class_weight == {0: 1, 1: 2.5}
    assert_same_model(model, loaded, frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b c", "ä", 'd"', "e\n", "f"]])


@pytest.mark.parametrize("labels", [[-1, 1], [False, True], ["no", "yes"], [0.0, 2.0]])
def test_classes_keep_their_type(tmp_path, labels):
    X, y = rows(2)
    for classes in (np.array(labels), np.array(labels, dtype=object)):
        if classes.dtype == object and not isinstance(labels[0], str):
            continue
        model = snapml.LogisticRegression().fit(X, classes[y])
        assert_same_model(model, saved(model, tmp_path), X)


def test_equal_fits_make_equal_files(tmp_path):
    for name in ("LogisticRegressionCV", "Ridge", "LinearSVC"):
        contents = []
        for number in range(2):
            fitted(name)[0].save(tmp_path / f"{name}{number}")
            contents.append((tmp_path / f"{name}{number}").read_bytes())
        assert contents[0] == contents[1]


def test_loaded_models_go_on_from_their_coefficients(tmp_path):
    X, y = rows(2)
    model = snapml.LogisticRegression(warm_start=True, C=10.0).fit(X, y)
    loaded = saved(model, tmp_path)
    assert loaded.fit(X, y).n_iter_[0] <= 1 < model.n_iter_[0]


def test_unfitted_models_are_refused(tmp_path):
    with pytest.raises(NotFittedError):
        snapml.Ridge().save(tmp_path / "model")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("LogisticRegression", {"random_state": np.random.RandomState(0)}),
        ("LogisticRegressionCV", {"scoring": lambda *_: 0.0}),
        ("LogisticRegressionCV", {"cv": KFold(3)}),
        ("Lasso", {"precompute": np.ones((1, 1), complex)}),
    ],
)
def test_parameters_that_are_no_data_are_refused_by_name(tmp_path, name, parameters):
    [parameter] = parameters
    model, _ = fitted(name)
    model.set_params(**parameters)
    with pytest.raises(TypeError, match=rf"{name}\.{parameter}: a model file holds"):
        model.save(tmp_path / "model")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coef_": [[1.0] * 5] * 3}, "coef_: expected a vector or a matrix, got list"),
        ({"coef_": np.ones((3, 5), int)}, "coef_: expected floating-point numbers, got int64"),
        ({"coef_": np.ones((3, 4))}, "coef_: expected 5 columns, got shape"),
        ({"intercept_": "none"}, "intercept_: expected"),
        ({"classes_": np.array(["a", "b"])}, "classes_: expected 3 labels"),
    ],
)
def test_what_could_not_be_loaded_is_not_written(tmp_path, change, message):
    model, _ = fitted("LogisticRegression")
    path = tmp_path / "m"
    model.save(path)
    before = path.read_bytes()
    vars(model).update(change)
    for write in (lambda: model.save(path), model.to_json):
        with pytest.raises(ValueError, match=f"LogisticRegression: .*{message}"):
            write()
    assert path.read_bytes() == before


def test_attributes_of_users_are_refused_by_name_without_advice_for_parameters(tmp_path):
    model, _ = fitted("Ridge")
    model.note_ = object()
    with pytest.raises(TypeError, match=r"Ridge.note_: .*, got object <.*>$"):
        model.save(tmp_path / "m")


def test_classes_of_others_are_refused(tmp_path):
    class Ridge(snapml.Ridge):
        pass

    with pytest.raises(TypeError, match=r"expected a model of .*ElasticNet, .* got one of Ridge"):
        Ridge().fit(*rows()).save(tmp_path / "model")


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    model, X = fitted("Ridge")
    model.save(tmp_path / "model")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        fitted("Lasso")[0].save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert_same_model(model, snapml.load(tmp_path / "model"), X)


def test_folders_and_missing_folders_are_no_place_for_a_model(tmp_path):
    model, _ = fitted("Ridge")
    with pytest.raises(IsADirectoryError, match="expected the name of a file"):
        model.save(tmp_path)
    with pytest.raises(FileNotFoundError) as missing:
        model.save(tmp_path / "none" / "model")
    assert missing.value.filename == str(tmp_path / "none" / "model")  # not that of a draft


def content_of(name="LogisticRegression"):
    with tempfile.TemporaryDirectory() as folder:
        fitted(name)[0].save(Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()


CONTENT = content_of()


@contextlib.contextmanager
def naming(path):
    """Let errors through that name the file, and no others."""
    try:
        yield
    except ValueError as error:
        if str(path) not in str(error):
            raise AssertionError(f"{path} is not named by: {error}") from error
        raise


def loaded_from(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        path.write_bytes(content)
        with naming(path):
            return snapml.load(path)


@given(flips=st.dictionaries(st.integers(0, len(CONTENT) - 1), st.integers(1, 255), min_size=1))
@example(flips={0: 1})
@example(flips={16: 1})
@example(flips={24: 128})
@example(flips={len(CONTENT) - 1: 1})
@settings(max_examples=200, deadline=None)
def test_flipped_bits_never_give_a_model(flips):
    damaged = bytearray(CONTENT)
    for place, bits in flips.items():
        damaged[place] ^= bits
    with pytest.raises(ValueError, match="damaged"):
        loaded_from(bytes(damaged))


@given(length=st.integers(0, len(CONTENT) - 1))
@example(length=0)
@example(length=20)
@example(length=len(CONTENT) - 1)
@settings(max_examples=100, deadline=None)
def test_files_that_are_cut_short_never_give_a_model(length):
    with pytest.raises(ValueError, match=r"damaged|cut short|another kind"):
        loaded_from(CONTENT[:length])


def test_more_bytes_than_written_are_damage():
    with pytest.raises(ValueError, match="damaged"):
        loaded_from(CONTENT + b"\0")


def test_a_line_end_behind_a_file_is_no_damage_since_writers_of_text_leave_one():
    assert loaded_from(CONTENT + b"\n").coef_.tolist() == loaded_from(CONTENT).coef_.tolist()
    for content in (CONTENT + b"\n\n", CONTENT[:-1] + b"\n", CONTENT[:-2] + b"\n"):
        with pytest.raises(ValueError, match="damaged"):
            loaded_from(content)


def with_header(**changes):
    """Return a file whose header was changed by someone who knows about checksums."""
    length = struct.unpack_from("<Q", CONTENT, 16)[0]
    header = json.loads(CONTENT[28 : 28 + length]) | changes
    text = json.dumps({k: v for k, v in header.items() if v is not None}).encode()
    prefix = struct.pack("<16sQI", CONTENT[:16], len(text), zlib.crc32(text))
    return prefix + text + CONTENT[28 + length :]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "at most version 1 of the format, got 2"),
        ({"format": "another"}, "expected format 'snapml model', got 'another'"),
        ({"class": "os.system"}, "a model of class 'os.system'"),
        ({"class": "LinearEstimator"}, "a model of class 'LinearEstimator'"),
        ({"class": None}, "a model of class None"),
        ({"class": ["Ridge"]}, r"a model of class \['Ridge'\]"),
        ({"format": None}, "expected the header of a model"),
        ({"n_bytes": None}, "does not say how long"),
        ({"n_bytes": -1}, "does not say how long"),
        ({"parameters": {"no_such": 1}}, "malformed.*no_such"),
        ({"parameters": {"C": {"callable": 1}}}, "malformed.*unknown kind 'callable'"),
        ({"parameters": 3}, "malformed"),
        ({"attributes": {"predict": 3}}, "malformed.*'predict' is no attribute"),
        ({"attributes": {"__class__": 3}}, "malformed.*'__class__' is no attribute"),
        ({"attributes": {"coef_": {"array": 99}}}, "malformed"),
        ({"attributes": {"coef_": {"csr": [[1, 1], [0, 0, 0]]}}}, "malformed"),
        ({"arrays": [{"dtype": "|O", "shape": [4]}]}, "malformed.*impossible array"),
        ({"arrays": [{"dtype": "<f8", "shape": [2**62]}]}, "malformed.*arrays of"),
        ({"arrays": [{"dtype": "<f8", "shape": [-1, -1]}]}, "malformed.*impossible array"),
        ({"arrays": [{"dtype": "nonsense", "shape": []}]}, "malformed"),
        ({"arrays": 1}, "malformed"),
    ],
)
def test_headers_that_nobody_wrote_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        loaded_from(with_header(**changes))


def test_unchanged_header_with_new_checksum_is_read():
    """The files of the test above are refused for their changes only."""
    assert loaded_from(with_header()).classes_.tolist() == ["a", "bb", "ccc"]


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"1 1:0.5\n", b"snapml model\n\x1a\n"])
def test_other_files_are_no_models(content):
    with pytest.raises(ValueError, match="expected a model file of snapml"):
        loaded_from(content)


def test_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        snapml.load(tmp_path / "none")


def test_arrays_are_aligned_and_little_endian(tmp_path):
    model, _ = fitted("LogisticRegression")
    model.save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    begin = 28 + struct.unpack_from("<Q", content, 16)[0]
    header = json.loads(content[28:begin])
    assert begin % 64 == 0
    for number, layout in enumerate(header["arrays"]):
        begin += -begin % 64
        found = np.frombuffer(content, layout["dtype"], np.prod(layout["shape"]), begin)
        if header["attributes"]["coef_"] == {"array": number}:
            np.testing.assert_array_equal(found.reshape(layout["shape"]), model.coef_)
            assert layout["dtype"] == "<f8"
            return
        begin += found.nbytes
    raise AssertionError("no coefficients")


def test_large_coefficients_are_not_copied(tmp_path):
    model, _ = fitted("Ridge")
    model.coef_ = np.random.default_rng(0).normal(size=4_000_000)
    model.n_features_in_ = len(model.coef_)
    tracemalloc.start()
    model.save(tmp_path / "model")
    assert tracemalloc.get_traced_memory()[1] < 4e6
    loaded = snapml.load(tmp_path / "model")
    assert tracemalloc.get_traced_memory()[1] < 1.1 * model.coef_.nbytes
    tracemalloc.stop()
    np.testing.assert_array_equal(loaded.coef_, model.coef_)


def test_another_process_predicts_the_same(tmp_path):
    model, X = fitted("LogisticRegression")
    model.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", X)
    script = (
        "import sys, numpy as np, snapml; folder = sys.argv[1]; "
        "X = np.load(folder + '/X.npy'); "
        "np.save(folder + '/p.npy', snapml.load(folder + '/model').predict_proba(X))"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=100)
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), model.predict_proba(X))


def test_every_exported_estimator_can_be_loaded():
    with pytest.raises(TypeError) as error:
        BaseEstimatorOfAnother().fit().save()
    for name in CLASSES:
        assert f"{name}" in str(error.value)


class BaseEstimatorOfAnother(BaseEstimator):
    def fit(self):
        self.coef_ = np.ones(1)
        return self

    def save(self):
        from snapml.models.model_file import save_model

        save_model(self, "nowhere")


@pytest.mark.parametrize("way", ["file", "json"])
def test_models_say_which_parameters_their_fit_had(way, tmp_path):
    def back(model):
        if way == "json":
            return snapml.from_json(model.to_json())
        model.save(tmp_path / "model")
        return snapml.load(tmp_path / "model")

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    model = snapml.LogisticRegression(C=2.0, tol=1e-10).fit(X, y)
    assert "fitted_with" not in json.loads(model.to_json())
    inference(back(model), X, y)
    model.set_params(C=3.0, class_weight={0: 1.0, 1: 2.0}, verbose=0)
    held = json.loads(model.to_json())
    assert held["fitted_with"] == {"C": 2.0, "class_weight": None}
    again = back(model)
    assert again.C == 3.0
    # Parameters that were changed before the file are noticed as those changed behind it.
    again.set_params(class_weight=None)
    with pytest.raises(ValueError, match=r"got C=3\.0 after a fit with C=2\.0"):
        inference(again, X, y)
    inference(again.set_params(C=2.0), X, y)
    held["fitted_with"] = {"tol": 1.0}
    with pytest.raises(ValueError, match="'tol' is no parameter of the objective"):
        snapml.from_json(json.dumps(held))
    held["fitted_with"] = [2.0]
    with pytest.raises(ValueError, match="malformed"):
        snapml.from_json(json.dumps(held))
