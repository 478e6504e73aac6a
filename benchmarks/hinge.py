"""The hinge on rows as they come, beside scikit-learn's LIBLINEAR.

Real sets, raw and scaled, and dense normal rows. Each library has its own end: ours a relative gap
of 1e-5, scikit-learn's its default tolerance and iterations. Both objectives are evaluated here in
float64, and set beside ours with its certificate. One thread; a row is a fit:

    python -m benchmarks.hinge --repeats 2 --out benchmarks/results/hinge.csv
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import svm

from benchmarks.real_data import REAL_SETS, binary_labels, load_real_set
from benchmarks.records import machine_facts, write_rows
from snapml import LinearSVC

_COSTS = {
    "mnist_t10k": (1e-4, 1e-2, 1.0),
    "mnist_t10k, 0 to 1": (1e-2, 1.0),
    "a9a": (1.0, 100.0),
    "w8a": (1.0,),
    "covtype_20k": (1e-4, 1.0),
    "credit_default": (1e-4, 1.0),
    "normal 20k x 500": (1.0,),
}


def data_sets() -> Iterator[tuple[str, Any, np.ndarray]]:
    """Return rows and labels of two classes; real sets only where their files are."""
    rng = np.random.default_rng(0)
    for name in ("mnist_t10k", "a9a", "w8a", "covtype_20k", "credit_default"):
        try:
            X, labels = load_real_set(REAL_SETS[name], rng, 1.0)
        except FileNotFoundError as error:
            print(name, "skipped:", error)
            continue
        y = binary_labels(REAL_SETS[name], labels)
        yield name, X, y
        if name == "mnist_t10k":
            yield f"{name}, 0 to 1", X / np.float32(X.max()), y
    X = rng.standard_normal((20_000, 500))
    yield "normal 20k x 500", X, X[:, :20].sum(axis=1) + 4.0 * rng.standard_normal(len(X)) > 0


def objective(model: Any, X: Any, y: np.ndarray) -> float:
    """Return ||w||^2 / 2 + b^2 / 2 + C times the sum of the rows' hinges, float64."""
    coef = np.asarray(model.coef_, np.float64).ravel()
    bias = float(np.ravel(model.intercept_)[0])
    margins = np.where(y, 1.0, -1.0) * (X @ coef + bias)
    return 0.5 * float(coef @ coef + bias**2) + model.C * float(
        np.maximum(0.0, 1.0 - margins).sum()
    )


def measure(library: str, cost: float, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Fit once; return the row."""
    if library == "snapml":
        model = LinearSVC(loss="hinge", C=cost, tol=1e-5, n_threads=1)
    else:
        model = svm.LinearSVC(loss="hinge", C=cost, random_state=0)
    load, began, cpu_began = os.getloadavg()[0], time.perf_counter(), time.process_time()
    model.fit(X, y)
    return {
        "seconds": round(time.perf_counter() - began, 4),
        "cpu_seconds": round(time.process_time() - cpu_began, 4),
        "objective": objective(model, X, y),
        "certified_relative_gap": model.gap_ / model.objective_ if library == "snapml" else "",
        "n_iter": int(np.max(model.n_iter_)),
        "solver": getattr(model, "solver_", ""),
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
        for cost in _COSTS[name]:
            for repeat in range(args.repeats):
                for library in ("snapml", "sklearn_liblinear"):
                    row = {"data": name, "C": cost, "repeat": repeat, "library": library}
                    row.update(measure(library, cost, X, y))
                    print({k: row[k] for k in list(row)[:9]}, flush=True)
                    if args.out is not None:
                        write_rows(args.out, [row])


if __name__ == "__main__":
    main()
