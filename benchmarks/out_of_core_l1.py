"""Reads that L1 penalties take on a store, beside those of the same rows in memory.

Run from the repository's root::

    python -m benchmarks.out_of_core_l1 --output benchmarks/results/out_of_core_l1.csv
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from benchmarks.real_data import REAL_SETS, binary_labels, load_real_set
from benchmarks.records import machine_facts
from snapml import Lasso, LinearSVC, LogisticRegression
from snapml.data import ChunkedDataset, ChunkWriter, make_click_log

_CHUNKS = 64
_SHARE = 4  # of the store's bytes that are allowed in memory, its inverse
_TOL = 1e-6
_COLUMNS = ("data", "model", "strength", "limit", "n_reads", "relative_gap", "objective", "support",
            "seconds", "solver")  # fmt: skip
_COSTS = (0.01, 0.1, 1.0, 10.0)
_SHARES_OF_LARGEST = (0.3, 0.1, 0.01, 0.001)  # alpha, of the least without coefficients


def data_sets() -> Iterator[tuple[str, Any, np.ndarray]]:
    """Return rows and labels of two classes; real sets only where their files are."""
    rng = np.random.default_rng(0)
    for name in ("a9a", "covtype_20k", "news20_comp"):
        try:
            X, labels = load_real_set(REAL_SETS[name], rng, 1.0)
        except FileNotFoundError as error:
            print(name, "skipped:", error)
            continue
        if name == "covtype_20k":
            X = ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-6)).astype(np.float32)
        yield name, X, binary_labels(REAL_SETS[name], labels)
    X = rng.normal(size=(50_000, 200)).astype(np.float32)
    X += rng.normal(size=(50_000, 1)).astype(np.float32)  # columns correlate by a half
    yield "dense 50k x 200", X, X[:, :20].sum(axis=1) + 5.0 * rng.normal(size=len(X)) > 0
    X = rng.normal(size=(5_000, 2000)).astype(np.float32)
    yield "dense 5k x 2000", X, X[:, :20].sum(axis=1) + 5.0 * rng.normal(size=len(X)) > 0
    X, y = make_click_log(200_000, 100_000)
    yield "click log 200k x 100k", X, y


def models(name: str, X: Any, y: np.ndarray) -> Iterator[tuple[str, float, Any]]:
    """Return models of penalties from strong to weak."""
    for cost in _COSTS:
        yield "logistic", cost, LogisticRegression(C=cost, l1_ratio=1.0, tol=_TOL)
        yield "squared hinge", cost, LinearSVC(C=cost, penalty="l1", tol=_TOL)
    centred = y - y.mean()
    largest = float(
        np.abs(X.T @ centred - np.asarray(X.mean(axis=0)).ravel() * centred.sum()).max()
    )
    for share in _SHARES_OF_LARGEST:
        yield "lasso", share, Lasso(alpha=share * largest / len(y), tol=_TOL)


def reads_of(model: Any) -> int:
    """Return how often a fit has read the data."""
    return int(np.max(model.n_iter_)) + 1


def measure(name: str, X: Any, y: np.ndarray, n_threads: int) -> Iterator[dict[str, Any]]:
    """Return one row a model and place."""
    y = y.astype(np.float64)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        entry = 8 if hasattr(X, "indptr") else 4
        n_stored = X.nnz if hasattr(X, "indptr") else X.size
        with ChunkWriter(path, chunk_bytes=max(1, entry * n_stored // _CHUNKS)) as writer:
            writer.append(X, y)
        n_bytes = ChunkedDataset.open(path).manifest.n_bytes
        for kind, strength, model in models(name, X, y):
            model.set_params(n_threads=n_threads, max_iter=300)
            limits = {"in memory": None, "quarter": n_bytes // _SHARE, "none": 0}
            for place, limit in limits.items():
                rows = X if limit is None else ChunkedDataset.open(path, memory_limit=limit)
                found = {"data": name, "model": kind, "strength": strength, "limit": place}
                started_s = time.perf_counter()
                fitted = clone(model)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    try:
                        fitted.fit(rows, y)
                    except MemoryError as error:
                        yield {**found, "solver": f"MemoryError: {error}"}
                        continue
                yield {
                    **found,
                    "n_reads": reads_of(fitted),
                    "relative_gap": fitted.gap_ / fitted.objective_,
                    "objective": fitted.objective_,
                    "support": int(np.count_nonzero(fitted.coef_)),
                    "seconds": time.perf_counter() - started_s,
                    "solver": fitted.solver_.split(",")[0],
                }


def main(arguments: list[str]) -> None:
    """Measure all data sets."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("out_of_core_l1.csv"))
    parser.add_argument("--only", default="", help="part of the names of data sets")
    parser.add_argument("--n-threads", type=int, default=1)
    options = parser.parse_args(arguments)
    names = [*_COLUMNS, *machine_facts()]
    with options.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        for name, X, y in data_sets():
            if options.only not in name:
                continue
            for row in measure(name, X, y, options.n_threads):
                print(*row.values(), flush=True)
                writer.writerow({**row, **machine_facts()})
                stream.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
