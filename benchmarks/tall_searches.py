"""`LogisticRegressionCV` of many rows and few columns, beside single fits and scikit-learn's.

All threads, default calls on problems of ``made_up_defaults``' kinds, one after the other; what 50
single fits take is five times what ten take on four fifths of the rows.

    python -m benchmarks.tall_searches

writes ``results/tall_searches.csv``; 6 minutes.
"""

from __future__ import annotations

import csv
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import linear_model

import snapml
from benchmarks.made_up_defaults import dense_rows, sparse_rows, targets

# Kinds, rows, columns, and entries of a sparse row.
_PROBLEMS = (
    ("gauss", 6_000, 40, 0),
    ("gauss", 20_000, 40, 0),
    ("gauss", 80_000, 40, 0),
    ("ar", 80_000, 40, 0),
    ("gauss", 20_000, 120, 0),
    ("binary", 80_000, 40, 0),
    ("one-hot", 20_000, 60, 10),
    ("one-hot", 80_000, 46, 23),
    ("counts", 80_000, 60, 10),
)


def _seconds(make: Any, X: Any, y: np.ndarray) -> tuple[float, Any]:
    began = time.perf_counter()
    model = make().fit(X, y)
    return time.perf_counter() - began, model


def main() -> None:
    """Write a row for each problem, of two and of several classes."""
    warnings.simplefilter("ignore")
    path = Path(__file__).parent / "results" / "tall_searches.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        columns = ["rows", "shape", "classes", "snapml_s", "single_fits_s", "sklearn_s"]
        columns += ["times_single_fits", "times_sklearn", "snapml_C", "sklearn_C"]
        table.writerow(columns)
        for kind, n_rows, n_columns, stored in _PROBLEMS:
            for name in ("LogisticRegression", "LogisticRegression, classes"):
                rng = np.random.default_rng(0)
                if stored:
                    X = sparse_rows(kind, rng, n_rows, n_columns, stored)
                else:
                    X = dense_rows(kind, rng, n_rows, n_columns)
                y = targets(name, rng, X)
                part = slice(n_rows // 5, None)
                ours, model = _seconds(snapml.LogisticRegressionCV, X, y)
                single = sum(
                    _seconds(lambda C=C: snapml.LogisticRegression(C=C), X[part], y[part])[0]
                    for C in np.logspace(-4, 4, 10)
                )
                theirs, peer = _seconds(linear_model.LogisticRegressionCV, X, y)
                row = [kind, f"{n_rows} x {n_columns}", len(np.unique(y)), f"{ours:.3f}"]
                row += [f"{5 * single:.3f}", f"{theirs:.3f}", f"{5 * single / ours:.2f}"]
                row += [f"{theirs / ours:.2f}", f"{model.C_[0]:.4g}", f"{peer.C_[0]:.4g}"]
                table.writerow(row)
                file.flush()
                print(*row, flush=True)


if __name__ == "__main__":
    main()
