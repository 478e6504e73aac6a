"""What a fit takes beside its rows, in a fresh process."""

import subprocess
import sys
import textwrap

import pytest

BYTES_PER_ENTRY, BYTES_PER_ROW = 1.3, 16

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
def test_the_nodes_of_a_deep_tree_fit_into_the_same_memory():
    n_rows, n_columns = 1_000_000, 28
    kind = "DecisionTreeClassifier"
    peak, n_nodes = peak_and_nodes(kind, n_rows, n_columns, max_depth=20, noise=0.5)
    assert n_nodes > 50_000
    assert peak < BYTES_PER_ENTRY * n_rows * n_columns + BYTES_PER_ROW * n_rows
