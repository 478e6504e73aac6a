"""Trees in model files, as scikit-learn's estimators, and in what reads those."""

import json
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
import sklearn.tree
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import snapml
from snapml import DecisionTreeClassifier, DecisionTreeRegressor
from snapml.models.model_file import MAGIC


def grown(kind, **parameters):
    X, y = (load_iris if kind is DecisionTreeClassifier else load_diabetes)(return_X_y=True)
    if kind is DecisionTreeClassifier:
        y = np.array(["a", "bb", "ccc"])[y]
    X[::7, 0] = np.nan
    return kind(random_state=0, **parameters).fit(X, y), X, y


KINDS = pytest.mark.parametrize("kind", [DecisionTreeClassifier, DecisionTreeRegressor])


@KINDS
@pytest.mark.parametrize("splitter", ["auto", "hist", "random"])
def test_saved_tree_comes_back_to_the_bit(tmp_path, kind, splitter):
    model, X, _ = grown(kind, splitter=splitter, max_depth=4)
    model.save(tmp_path / "tree")
    loaded = snapml.load(tmp_path / "tree")
    assert type(loaded) is kind
    assert loaded.get_params() == model.get_params()
    assert {k for k in vars(loaded) if k.endswith("_")} == {k for k in vars(model) if k[-1] == "_"}
    own, other = (m.tree_.__getstate__() for m in (model, loaded))
    assert own["max_depth"] == other["max_depth"] == 4
    assert own["nodes"].tobytes() == other["nodes"].tobytes()
    assert own["values"].tobytes() == other["values"].tobytes()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert (loaded.decision_path(X) != model.decision_path(X)).nnz == 0


def test_several_outputs_come_back(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = DecisionTreeClassifier(max_depth=3).fit(X, np.column_stack([y, y > 0]))
    model.save(tmp_path / "tree")
    np.testing.assert_array_equal(snapml.load(tmp_path / "tree").predict(X), model.predict(X))


@KINDS
def test_scikit_learns_tree_shares_no_memory(kind):
    model, X, _ = grown(kind)
    theirs, expected = model.to_sklearn(), model.predict(X)
    theirs.tree_.value[:] = 0.0
    theirs.tree_.threshold[:] = -1e30
    np.testing.assert_array_equal(model.predict(X), expected)


def test_a_process_without_trees_loads_one(tmp_path):
    model, X, _ = grown(DecisionTreeRegressor)
    model.save(tmp_path / "tree")
    np.save(tmp_path / "X.npy", X)
    script = "import sys, numpy as np, snapml; f = sys.argv[1]; m = snapml.load(f + '/tree'); "
    script += "np.save(f + '/p.npy', m.predict(np.load(f + '/X.npy')))"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=100)
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), model.predict(X))


def with_node(path, name, node, value):
    """Write a number into a saved tree, and make its checksums right."""
    data = bytearray(path.read_bytes())
    start = struct.calcsize("<16sQI")
    magic, length, _ = struct.unpack_from("<16sQI", data)
    assert magic == MAGIC
    header = json.loads(data[start : start + length])
    fields = dict(header["attributes"]["tree_"]["dict"])
    at = start + length
    for number, layout in enumerate(header["arrays"]):
        at += -(at - start - length) % 64
        dtype = np.dtype(layout["dtype"])
        if number == fields[name]["array"]:
            data[at + node * dtype.itemsize : at + (node + 1) * dtype.itemsize] = np.array(
                value, dtype
            ).tobytes()
        at += dtype.itemsize * int(np.prod(layout["shape"]))
    header["crc32"] = zlib.crc32(data[start + length :])
    text = json.dumps(header, indent=1).encode()
    text += b" " * (-(start + len(text)) % 64)
    path.write_bytes(
        struct.pack("<16sQI", MAGIC, len(text), zlib.crc32(text)) + text + data[start + length :]
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left_child", 0),
        ("left_child", 10**6),
        ("right_child", 1),
        ("feature", 99),
        ("feature", -3),
    ],
)
def test_nodes_that_are_no_tree_are_refused(tmp_path, name, value):
    model, _, _ = grown(DecisionTreeClassifier)
    model.save(tmp_path / "tree")
    with_node(tmp_path / "tree", "threshold", 0, model.tree_.threshold[0])
    snapml.load(tmp_path / "tree")  # what the helper leaves alone is read
    with_node(tmp_path / "tree", name, 0, value)
    with pytest.raises(ValueError, match="expected nodes with two later ones"):
        snapml.load(tmp_path / "tree")


@KINDS
@pytest.mark.parametrize("splitter", ["hist", "best", "random"])
def test_scikit_learns_estimator_predicts_the_same(kind, splitter):
    model, X, _ = grown(kind, splitter=splitter, max_depth=5, max_bins=20)
    theirs = model.to_sklearn()
    assert type(theirs) is getattr(sklearn.tree, kind.__name__)
    check_is_fitted(theirs)
    np.testing.assert_array_equal(theirs.predict(X), model.predict(X))
    assert theirs.splitter == ("random" if splitter == "random" else "best")
    assert not hasattr(theirs, "builder_")
    with pytest.raises(NotFittedError):
        kind().to_sklearn()


@KINDS
def test_trees_of_scikit_learn_are_taken_over(tmp_path, kind):
    X, y = grown(kind)[1:]
    theirs = getattr(sklearn.tree, kind.__name__)(max_depth=4, random_state=0).fit(X, y)
    model = kind.from_sklearn(theirs)
    assert type(model) is kind
    assert model.max_depth == 4
    model.save(tmp_path / "tree")
    for each in (model, snapml.load(tmp_path / "tree"), snapml.from_json(model.to_json())):
        np.testing.assert_array_equal(each.predict(X), theirs.predict(X))
        assert each.get_params() == model.get_params()
    theirs.tree_.value[:] = 0.0
    assert model.tree_.value.any()
    with pytest.raises(NotFittedError):
        kind.from_sklearn(getattr(sklearn.tree, kind.__name__)())
    for other in (
        model,
        sklearn.tree.ExtraTreeRegressor().fit(np.nan_to_num(X), np.arange(len(X))),
    ):
        with pytest.raises(TypeError, match=rf"expected a sklearn\.tree\.{kind.__name__}"):
            kind.from_sklearn(other)


def test_onnx_predicts_the_same():
    convert = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model, X, _ = grown(DecisionTreeClassifier, splitter="hist", max_depth=4)
    X = np.nan_to_num(X).astype(np.float32)
    session = runtime.InferenceSession(convert.to_onnx(model.to_sklearn(), X).SerializeToString())
    found = session.run(None, {session.get_inputs()[0].name: X})[0]
    np.testing.assert_array_equal(found, model.predict(X))


def test_treelite_predicts_the_same():
    treelite = pytest.importorskip("treelite", reason="treelite is not installed")
    model, X, _ = grown(DecisionTreeRegressor, splitter="hist", max_depth=4)
    X = np.nan_to_num(X).astype(np.float32)
    # treelite reads scikit-learn's forests: here one of one tree.
    forest = RandomForestRegressor(n_estimators=1, max_depth=1).fit(X, model.predict(X))
    forest.estimators_ = [model.to_sklearn()]
    found = treelite.gtil.predict(treelite.sklearn.import_model(forest), X)
    np.testing.assert_allclose(found.ravel(), model.predict(X), rtol=1e-6)
