"""Time, accuracy and predictions of one decision tree, beside scikit-learn, LightGBM and XGBoost.

The rows are generated, of the size and kind of the Higgs data set: 28 columns of float32, some
informative, two classes that overlap. Every library grows one tree of the same depth without a
limit on leaves from the array that it is given; binning counts. LightGBM has a limit: where trees
may have more leaves, it gets as many as ours has. Libraries and numbers of threads take turns; one
whose fits have taken long is not asked again. ``bytes_beyond_rows`` is the peak memory of a fit of
ours in a fresh process. Run from the repository's root, on a machine with nothing else to do::

    python -m benchmarks.trees
    python -m benchmarks.trees --rows 500000 1000000 2000000 5000000 10000000 --depths 12 \
        --libraries snapml scikit-learn --most-exact-rows 10000000 \
        --output benchmarks/results/trees_by_rows.csv

Tables can be made in pieces, size by size or library by library, with ``--append``. With
``--replace`` fits of the same size, depth, library and threads that were there before go::

    python -m benchmarks.trees --libraries snapml "snapml best" --enough-seconds 30 --replace

``benchmarks.trees_by_rows`` prints the second table.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import time
from collections.abc import Callable
from importlib import metadata
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier as ExactTree
from threadpoolctl import threadpool_limits

from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from benchmarks.tree_memory import peak_beyond_rows
from snapml import DecisionTreeClassifier

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "trees.csv"
_SEED = 20
_N_COLUMNS = 28
_TEST_ROWS = 200_000
_WARM_UP_ROWS = 5000
# LightGBM refuses more leaves than this.
_MOST_LEAVES = 131_072


def higgs_like(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate rows whose classes depend on products, bends and sums of columns.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    seed : int
        Of the random numbers.

    Returns
    -------
    X : ndarray of shape (n_rows, 28), float32
        Normal entries, the last seven of them skewed.
    y : ndarray of shape (n_rows,), int64
        0 or 1.
    """
    rng = np.random.default_rng([_SEED, seed])
    X = rng.standard_normal((n_rows, _N_COLUMNS), dtype=np.float32)
    np.exp(X[:, 21:], out=X[:, 21:])
    margin = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * X[:, 3] ** 2
    margin += 0.3 * X[:, 6:12].sum(axis=1) - X[:, 4] * np.abs(X[:, 5]) + np.log(X[:, 21])
    y = (margin + rng.standard_normal(n_rows, dtype=np.float32) > 0.5).astype(np.int64)
    return X, y


def _ours(depth: int, n_threads: int, most_leaves: int | None) -> Any:
    return DecisionTreeClassifier(splitter="hist", max_depth=depth, n_threads=n_threads)


def _sorted(depth: int, n_threads: int, most_leaves: int | None) -> Any:
    return DecisionTreeClassifier(
        splitter="best", max_depth=depth, random_state=_SEED, n_threads=n_threads
    )


def _exact(depth: int, n_threads: int, most_leaves: int | None) -> Any:
    return ExactTree(max_depth=depth, random_state=_SEED)


def _lightgbm(depth: int, n_threads: int, most_leaves: int | None) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=1,
        learning_rate=1.0,
        max_depth=depth,
        num_leaves=most_leaves or 2**depth,
        min_child_samples=1,
        min_child_weight=0.0,
        max_bin=255,
        n_jobs=n_threads,
        verbose=-1,
    )


def _xgboost(depth: int, n_threads: int, most_leaves: int | None) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(
        n_estimators=1,
        learning_rate=1.0,
        max_depth=depth,
        tree_method="hist",
        max_bin=255,
        min_child_weight=0.0,
        reg_lambda=0.0,
        n_jobs=n_threads,
    )


# Name of the library -> its distribution, how to make its tree of a depth, on some threads, with
# at most so many leaves if the library needs a limit.
LIBRARIES: dict[str, tuple[str, Callable[[int, int, int | None], Any]]] = {
    "snapml": ("snapml-open", _ours),
    "snapml best": ("snapml-open", _sorted),
    "scikit-learn": ("scikit-learn", _exact),
    "lightgbm": ("lightgbm", _lightgbm),
    "xgboost": ("xgboost", _xgboost),
}


def main() -> int:
    """Time every library at every depth and size, write one row per fit, print medians.

    Returns
    -------
    int
        Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--depths", type=int, nargs="+", default=[4, 8, 12, 16, 20])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=LIBRARIES)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--enough-seconds", type=float, default=10, help="longer fits together are not repeated"
    )
    parser.add_argument(
        "--most-exact-rows", type=int, default=2_000_000, help="scikit-learn is not given more"
    )
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--append", action="store_true", help="keep the rows that are there")
    parser.add_argument(
        "--replace", action="store_true", help="keep the rows that are there of other fits"
    )
    arguments = parser.parse_args()
    if arguments.replace:
        drop_rows(arguments)
    elif not arguments.append:
        prepare_output(arguments.output, arguments.overwrite)
    test = higgs_like(_TEST_ROWS, seed=1)
    for n_rows in arguments.rows:
        train = higgs_like(n_rows, seed=0)
        for depth in arguments.depths:
            rows = run(train, test, depth, arguments)
            write_rows(arguments.output, rows)
            if rows:
                print(report(rows), flush=True)
    return 0


def drop_rows(arguments: argparse.Namespace) -> None:
    """Take the fits that are to be made out of the table.

    Parameters
    ----------
    arguments : argparse.Namespace
        The command line.
    """
    fits = {
        (str(n_rows), str(depth), library, str(n_threads))
        for n_rows, depth, library, n_threads in product(
            arguments.rows, arguments.depths, arguments.libraries, arguments.threads
        )
    }
    with arguments.output.open(newline="") as stream:
        table = list(csv.DictReader(stream))
    kept = [
        row
        for row in table
        if (row["n_rows"], row["depth"], row["library"], row["threads"]) not in fits
    ]
    arguments.output.unlink()
    write_rows(arguments.output, kept)


def run(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    depth: int,
    arguments: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Let libraries take turns at one depth, each on all numbers of threads.

    Parameters
    ----------
    train, test : tuple of ndarray
        Rows and labels.
    depth : int
        Most levels below the root.
    arguments : argparse.Namespace
        The command line: libraries, threads, repeats, what is too slow.

    Returns
    -------
    list of dict
        One row per fit.
    """
    turns = _those_that_run(len(train[0]), arguments)
    limit = _leaf_limit(train, depth) if ("lightgbm", arguments.threads[0]) in turns else None
    beyond_rows = {}
    for name, n_threads in turns:
        small = train[0][:_WARM_UP_ROWS], train[1][:_WARM_UP_ROWS]
        measure(name, small, test, depth, n_threads, limit)
        if name == "snapml":
            beyond_rows[name, n_threads] = peak_beyond_rows(len(train[0]), depth, n_threads)
    rows: list[dict[str, Any]] = []
    spent = dict.fromkeys(turns, 0.0)
    for repeat in range(arguments.repeats):
        first = repeat % max(len(turns), 1)
        for turn in turns[first:] + turns[:first]:
            if spent[turn] > arguments.enough_seconds:
                continue
            row = measure(turn[0], train, test, depth, turn[1], limit)
            spent[turn] += row["seconds"]
            row["bytes_beyond_rows"] = beyond_rows.get(turn)
            rows.append({**row, "repeat": repeat, **machine_facts()})
    return rows


def _those_that_run(n_rows: int, arguments: argparse.Namespace) -> list[tuple[str, int]]:
    """Return libraries and threads; scikit-learn has one, and no time for too many rows."""
    turns = list(product(arguments.libraries, arguments.threads))
    left_out = {("scikit-learn", n_threads) for n_threads in arguments.threads[1:]}
    if n_rows > arguments.most_exact_rows:
        left_out.add(("scikit-learn", arguments.threads[0]))
        print(f"  scikit-learn left out: at most {arguments.most_exact_rows} rows are its")
    return [turn for turn in turns if turn not in left_out]


def _leaf_limit(train: tuple[np.ndarray, np.ndarray], depth: int) -> int | None:
    """Return the leaves that ours has where LightGBM does not take as many as a depth allows."""
    if 2**depth <= _MOST_LEAVES:
        return None
    n_leaves = _count_leaves(_ours(depth, 1, None).fit(*train))
    return min(n_leaves, _MOST_LEAVES)


def measure(
    name: str,
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    depth: int,
    n_threads: int,
    leaf_limit: int | None,
) -> dict[str, Any]:
    """Fit and predict once on a clock.

    Parameters
    ----------
    name : str
        Of `LIBRARIES`.
    train, test : tuple of ndarray
        Rows and labels.
    depth : int
        Most levels below the root.
    n_threads : int
        Of the library.
    leaf_limit : int or None
        Most leaves of a library that needs a limit.

    Returns
    -------
    dict
        Column name to value.
    """
    distribution, make = LIBRARIES[name]
    model = make(depth, n_threads, leaf_limit)
    gc.collect()
    load_average = os.getloadavg()[0]
    with threadpool_limits(n_threads):
        cpu_start, start = time.process_time(), time.perf_counter()
        model.fit(*train)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        start = time.perf_counter()
        predicted = model.predict(test[0])
        predict_seconds = time.perf_counter() - start
    return {
        "n_rows": len(train[0]),
        "n_columns": train[0].shape[1],
        "depth": depth,
        "library": name,
        "library_version": metadata.version(distribution),
        "threads": n_threads,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "leaf_limit": leaf_limit if name == "lightgbm" else None,
        "n_leaves": _count_leaves(model),
        "test_accuracy": accuracy_score(test[1], predicted),
        "predict_rows_per_s": len(predicted) / predict_seconds,
        "seed": _SEED,
        "load_average": load_average,
    }


def _count_leaves(model: Any) -> int:
    """Count the leaves of any of the libraries' trees."""
    if hasattr(model, "tree_"):
        return int(model.tree_.n_leaves)
    if hasattr(model, "booster_"):
        return int(model.booster_.dump_model()["tree_info"][0]["num_leaves"])
    return int((model.get_booster().trees_to_dataframe()["Feature"] == "Leaf").sum())


def report(rows: list[dict[str, Any]]) -> str:
    """Return medians of each library's rows, as a small table.

    Parameters
    ----------
    rows : list of dict
        Of one size and depth.

    Returns
    -------
    str
        One line per library and number of threads.
    """
    head = rows[0]
    lines = [f"{head['n_rows']} rows, depth {head['depth']}"]
    turns = sorted({(row["library"], row["threads"]) for row in rows})
    for name, n_threads in turns:
        own = [row for row in rows if (row["library"], row["threads"]) == (name, n_threads)]
        middle = {
            key: median(row[key] for row in own)
            for key in ("seconds", "cpu_seconds", "n_leaves", "predict_rows_per_s")
        }
        lines.append(
            f"  {name:13s} {n_threads} {middle['seconds']:8.3f} s  "
            f"cpu {middle['cpu_seconds']:8.3f} s  "
            f"leaves {middle['n_leaves']:8.0f}  accuracy {own[0]['test_accuracy']:.4f}  "
            f"predicts {middle['predict_rows_per_s'] / 1e6:6.2f} M rows/s"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
