"""Peak memory that the fit of a histogram tree needs beyond its rows, in a fresh process.

``benchmarks.trees`` asks for one size, depth and number of threads; as a program it writes a table
of both trees, down to leaves of one row, beside what the project allows itself: 1.3 bytes for each
entry, 16 for each row, and the tree that is returned::

    python -m benchmarks.tree_memory
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "tree_memory.csv"
BYTES_PER_ENTRY, BYTES_PER_ROW = 1.3, 16
_UNLIMITED = 1000
_WARM_UP_ROWS = 5000
_STATUS = Path("/proc/self/status")


def main() -> int:
    """Write the table, or print one measurement where it is asked for.

    Returns
    -------
    int
        Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--depths", type=int, nargs="+", default=[8, 12, 16, 20, _UNLIMITED])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kinds", nargs="+", choices=("classes", "numbers"))
    parser.add_argument("--one", action="store_true", help="measure here, the first of each")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    kinds = arguments.kinds or ["classes", "numbers"]
    if arguments.one:
        print(
            json.dumps(measure(kinds[0], arguments.rows, arguments.depths[0], arguments.threads[0]))
        )
        return 0
    prepare_output(arguments.output, arguments.overwrite)
    for kind, depth, n_threads in product(kinds, arguments.depths, arguments.threads):
        row = measured_apart(kind, arguments.rows, depth, n_threads)
        write_rows(arguments.output, [{**row, **machine_facts()}])
        beside = row["bytes_beyond_rows"] - row["tree_bytes"]
        print(
            f"{kind} depth {depth} threads {n_threads}: {row['n_nodes']} nodes, "
            f"{row['bytes_beyond_rows'] / 1e6:.1f} MB, without the tree {beside / 1e6:.1f} MB of "
            f"{row['allowed_bytes'] / 1e6:.1f}",
            flush=True,
        )
    return 0


def measure(kind: str, n_rows: int, depth: int, n_threads: int) -> dict[str, Any]:
    """Generate rows, fit, and look at the peak.

    Parameters
    ----------
    kind : {"classes", "numbers"}
        Of targets.
    n_rows, depth, n_threads : int
        Of the fit.

    Returns
    -------
    dict
        Column name to value.
    """
    # Which imports this module.
    from benchmarks.trees import higgs_like
    from snapml import DecisionTreeClassifier, DecisionTreeRegressor

    X, y = higgs_like(n_rows, seed=0)
    Tree = DecisionTreeClassifier if kind == "classes" else DecisionTreeRegressor
    if kind == "numbers":
        y = X[:, 0] + X[:, 1] + np.random.default_rng(0).normal(scale=0.5, size=n_rows)
    model = Tree(splitter="hist", max_depth=depth, n_threads=n_threads)
    model.fit(X[:_WARM_UP_ROWS], y[:_WARM_UP_ROWS])
    Path("/proc/self/clear_refs").write_text("5")
    before = _bytes_of("VmRSS")
    model.fit(X, y)
    peak = _bytes_of("VmHWM") - before
    n_nodes = int(model.tree_.node_count)
    nodes = model.tree_.__getstate__()["nodes"]
    return {
        "n_rows": n_rows,
        "n_columns": X.shape[1],
        "kind": kind,
        "depth": depth,
        "threads": n_threads,
        "n_nodes": n_nodes,
        "bytes_beyond_rows": peak,
        "tree_bytes": n_nodes * nodes.itemsize + model.tree_.value.nbytes,
        "allowed_bytes": int(BYTES_PER_ENTRY * X.size + BYTES_PER_ROW * n_rows),
    }


def _bytes_of(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def measured_apart(kind: str, n_rows: int, depth: int, n_threads: int) -> dict[str, Any]:
    """Measure in another process.

    Parameters
    ----------
    kind : {"classes", "numbers"}
        Of targets.
    n_rows, depth, n_threads : int
        Of the fit.

    Returns
    -------
    dict
        Column name to value.
    """
    numbers = {"--rows": n_rows, "--depths": depth, "--threads": n_threads}
    command = [sys.executable, "-m", "benchmarks.tree_memory", "--one", "--kinds", kind]
    command += [str(word) for pair in numbers.items() for word in pair]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, cwd=REPOSITORY_ROOT
    )
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def peak_beyond_rows(n_rows: int, depth: int, n_threads: int) -> int:
    """Return the peak of a fit of classes, measured in another process.

    Parameters
    ----------
    n_rows, depth, n_threads : int
        Of the fit.

    Returns
    -------
    int
        Bytes that the peak of resident memory was above what there was before the fit.
    """
    return int(measured_apart("classes", n_rows, depth, n_threads)["bytes_beyond_rows"])


if __name__ == "__main__":
    raise SystemExit(main())
