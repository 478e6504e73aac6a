"""L1 models of one-hot columns with weak penalties, with and without slides along flat directions.

Real sets of categories, and made ones whose columns are whole groups. Fits with slides and without
take turns, on one thread; a row is a fit:

    python -m benchmarks.weak_l1 --repeats 3 --out benchmarks/results/weak_l1.csv
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.base import clone

from benchmarks.real_data import REAL_SETS, binary_labels, load_real_set
from benchmarks.records import machine_facts, write_rows
from snapml import Lasso, LinearSVC, LogisticRegression
from snapml.solvers.columns import cpu_gram_model

_COSTS = (1.0, 10.0, 100.0, 1000.0)
_SHARES = (1e-2, 1e-3, 1e-5)  # alpha, of the least without coefficients
_GROUPS = (2, 5, 8, 16, 7, 14, 6, 5, 40)


def data_sets() -> Iterator[tuple[str, Any, np.ndarray]]:
    """Return rows and labels of two classes; real sets only where their files are."""
    rng = np.random.default_rng(0)
    for name in ("a9a", "w8a"):
        try:
            X, labels = load_real_set(REAL_SETS[name], rng, 1.0)
        except FileNotFoundError as error:
            print(name, "skipped:", error)
            continue
        yield name, X, binary_labels(REAL_SETS[name], labels)
    groups = [np.eye(size)[_drawn(rng, size)] for size in _GROUPS]
    X = np.hstack([*groups, np.ones((20_000, 1))]).astype(np.float32)
    target = X @ rng.standard_normal(X.shape[1]) + 2.0 * rng.standard_normal(len(X))
    yield "nine groups", X, target > np.median(target)


def _drawn(rng: np.random.Generator, size: int) -> np.ndarray:
    share = np.exp(-0.2 * np.arange(size))
    return rng.choice(size, 20_000, p=share / share.sum())


def models(X: Any, y: np.ndarray) -> Iterator[tuple[str, float, Any]]:
    """Return models of penalties from strong to weak."""
    for cost in _COSTS:
        yield "logistic", cost, LogisticRegression(C=cost, l1_ratio=1.0)
        yield "squared hinge", cost, LinearSVC(C=cost, penalty="l1", max_iter=1000)
    largest = np.abs(X.T @ (y - y.mean())).max() / len(y)
    for share in _SHARES:
        yield "lasso", share, Lasso(alpha=share * float(largest))


def measure(model: Any, X: Any, y: np.ndarray, *, slides: bool) -> dict[str, Any]:
    """Fit once; return the row."""
    without = mock.patch.object(
        cpu_gram_model, "slide", lambda gram, support, *others: (support[:0], False)
    )
    load, began = os.getloadavg()[0], time.perf_counter()
    if slides:
        model.fit(X, y)
    else:
        with without:
            model.fit(X, y)
    return {
        "seconds": round(time.perf_counter() - began, 4),
        "slides": slides,
        "n_reads": int(np.max(model.n_iter_)),
        "relative_gap": model.gap_ / model.objective_,
        "objective": model.objective_,
        "load_average": round(load, 2),
        **machine_facts(),
    }


def main() -> None:
    """Run all, print, and append to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # fits that miss their tolerance are rows like all others
    for name, X, y in data_sets():
        for kind, strength, model in models(X, y):
            target = y.astype(X.dtype) if kind == "lasso" else y
            for repeat in range(args.repeats):
                for slides in (False, True):
                    fitted = clone(model).set_params(tol=1e-6, n_threads=1)
                    row = {"data": name, "model": kind, "strength": strength, "repeat": repeat}
                    row.update(measure(fitted, X, target, slides=slides))
                    print({k: row[k] for k in list(row)[:8]}, flush=True)
                    if args.out is not None:
                        write_rows(args.out, [row])


if __name__ == "__main__":
    main()
