"""What a fit takes beside its rows, in a fresh process."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.tree._tree import NODE_DTYPE

from snapml import _native
from snapml.trees.histogram_tree import NODE_ARRAYS, empty_tree

BYTES_PER_ENTRY, BYTES_PER_ROW = 1.3, 16
# What scikit-learn's tree holds of a node with one value: the model, and no scratch.
TREE_BYTES_PER_NODE = NODE_DTYPE.itemsize + 8

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import snapml

kind, (n_rows, n_columns, max_depth) = sys.argv[1], map(int, sys.argv[2:5])
noise = float(sys.argv[5])
rng = np.random.default_rng(0)
X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
y = X[:, 0] + X[:, 1].astype(np.float64) + noise * rng.standard_normal(n_rows)
if kind == "DecisionTreeClassifier":
    y = (y > 0).astype(np.int64)
model = getattr(snapml, kind)(max_depth=max_depth, n_threads=2)
model.fit(X[:2000], y[:2000])

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])

Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
model.fit(X, y)
print(status("VmHWM") - before, model.tree_.node_count)
"""


def peak_and_nodes(kind, n_rows, n_columns, max_depth, noise):
    numbers = map(str, (n_rows, n_columns, max_depth, noise))
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), kind, *numbers]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return map(int, done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["DecisionTreeClassifier", "DecisionTreeRegressor"])
def test_a_fit_takes_little_more_than_a_byte_an_entry(kind):
    n_rows, n_columns = 1_000_000, 28
    peak, _ = peak_and_nodes(kind, n_rows, n_columns, max_depth=8, noise=0)
    allowed = BYTES_PER_ENTRY * n_rows * n_columns + BYTES_PER_ROW * n_rows
    assert n_rows * n_columns < peak < allowed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "n_nodes"), [("DecisionTreeClassifier", 50_000), ("DecisionTreeRegressor", 300_000)]
)
def test_the_nodes_of_a_deep_tree_fit_into_the_same_memory(kind, n_nodes):
    n_rows, n_columns = 1_000_000, 28
    peak, found = peak_and_nodes(kind, n_rows, n_columns, max_depth=20, noise=0.5)
    assert found > n_nodes
    allowed = BYTES_PER_ENTRY * n_rows * n_columns + BYTES_PER_ROW * n_rows
    assert peak < allowed + TREE_BYTES_PER_NODE * found
    assert peak < 1.1 * allowed


@pytest.mark.slow
def test_a_tree_of_two_nodes_a_row_takes_no_more_beside_itself():
    n_rows, n_columns = 500_000, 28
    kind = "DecisionTreeRegressor"
    peak, n_nodes = peak_and_nodes(kind, n_rows, n_columns, max_depth=1000, noise=0.5)
    assert n_nodes > 1.99 * n_rows
    allowed = BYTES_PER_ENTRY * n_rows * n_columns + BYTES_PER_ROW * n_rows
    assert peak < allowed + TREE_BYTES_PER_NODE * n_nodes


def test_nodes_are_written_once():
    pool = _native.ThreadPool(1)
    X, y = np.arange(6, dtype=np.float32)[:, None], np.repeat([0, 1], 3).astype(np.int32)
    binned = _native.bin_rows(pool, _native.Rows.dense(X), 255, None)
    rules = (2, "gini", 5, 2, 1, 0.0, 0.0, 2, 0, 0, 1 << 20, 1 << 20, None, None)
    grown = _native.grow_tree(pool, binned, y, None, *rules)
    tree = empty_tree(grown.n_nodes, 1, 2)
    arrays = {name: getattr(tree, name) for name in NODE_ARRAYS}
    with pytest.raises(ValueError, match="feature: expected a vector of 3 numbers"):
        _native.write_tree(pool, grown, y, None, **{**arrays, "feature": tree.feature[:2]})
    with pytest.raises(ValueError, match="6 elements"):
        _native.write_tree(pool, grown, y[:5], None, **arrays)
    depth, _ = _native.write_tree(pool, grown, y, None, **arrays)
    assert depth == 1
    assert tree.value[:, 0].tolist() == [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(ValueError, match="written before"):
        _native.write_tree(pool, grown, y, None, **arrays)
