"""Time the lasso of dense rows beside scikit-learn's: single fits, paths and LassoCV.

Made-up rows of 100 to 50,000 and 10 to 3,000 columns, independent or with 0.9 of their variance in
common, ten of which make the targets together with noise; penalties of 0.5, 0.1 and 0.01 of the one
that leaves no coefficient, a path of a hundred, and its choice by five folds. Default parameters,
one thread, by turns; of up to five calls the fastest, one where it takes more than a second. What
ours leaves is certified, as a share of the objective; what scikit-learn's fit leaves is its
objective above ours. ``python -m benchmarks.lasso_dense`` writes ``results/lasso_dense.csv``.
"""

import csv
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn.linear_model
from threadpoolctl import threadpool_limits

import snapml

SHAPES = [
    (100, 10), (442, 10), (1000, 20), (1000, 100), (1000, 400), (3000, 200), (3000, 400),
    (10_000, 50), (10_000, 200), (10_000, 400), (50_000, 20), (50_000, 100), (300, 600),
    (300, 2000), (2000, 3000),
]  # fmt: skip
SEARCHED = [(442, 10), (500, 200), (300, 600), (2000, 600), (200, 2000), (10_000, 100)]
STRENGTHS = (0.5, 0.1, 0.01)
COLUMNS = ["columns", "rows", "n_columns", "dtype", "what", "nonzero", "snapml_s", "sklearn_s"]
COLUMNS += ["times_faster", "certified_gap", "sklearn_above", "how"]


def make(n_rows, n_columns, shared, dtype):
    """Return rows, targets, and the penalty that leaves no coefficient."""
    rng = np.random.default_rng(1)
    X = np.sqrt(1.0 - shared) * rng.standard_normal((n_rows, n_columns))
    X += np.sqrt(shared) * rng.standard_normal((n_rows, 1))
    y = X[:, :10] @ rng.standard_normal(10) + 2.0 * rng.standard_normal(n_rows)
    largest = np.abs((X - X.mean(axis=0)).T @ (y - y.mean())).max() / n_rows
    return X.astype(dtype), y.astype(dtype), largest


def by_turns(*calls):
    """Return the fastest time of each call, and what it returned."""
    best = [(np.inf, None)] * len(calls)
    began = time.perf_counter()
    for number in range(5):
        if number and time.perf_counter() - began > 1.0:
            break
        for at, call in enumerate(calls):
            start = time.perf_counter()
            found = call()
            best[at] = min(best[at], (time.perf_counter() - start, found), key=lambda one: one[0])
    return best


def above(ours, theirs, X, y):
    """Return the objective of scikit-learn's model above ours, as a share."""
    values = []
    for model in (ours, theirs):
        coef = model.coef_.astype(np.float64)
        residuals = y.astype(np.float64) - X.astype(np.float64) @ coef
        residuals -= residuals.mean()
        values.append(residuals @ residuals / (2 * len(y)) + model.alpha * np.abs(coef).sum())
    return values[1] / values[0] - 1.0


def rows_of(kind, shape, dtype):
    """Yield the rows of the table of one data set."""
    X, y, largest = make(*shape, 0.9 if kind == "shared" else 0.0, dtype)
    begin = [kind, *shape, np.dtype(dtype).name]
    for strength in STRENGTHS:
        alpha = strength * largest
        (ours_s, ours), (theirs_s, theirs) = by_turns(
            lambda alpha=alpha: snapml.Lasso(alpha=alpha, n_threads=1).fit(X, y),
            lambda alpha=alpha: sklearn.linear_model.Lasso(alpha=alpha).fit(X, y),
        )
        gap = f"{ours.gap_ / ours.objective_:.1e}"
        faster = f"{theirs_s / ours_s:.2f}"
        yield [
            *begin, f"alpha {strength}", np.count_nonzero(ours.coef_), f"{ours_s:.4g}",
            f"{theirs_s:.4g}", faster, gap, f"{above(ours, theirs, X, y):.1e}", ours.solver_,
        ]  # fmt: skip
    if shape not in SEARCHED and shape != (1000, 100):
        return
    searches = {
        "path of 100": lambda library: library.lasso_path(X, y),
        "LassoCV": lambda library: library.LassoCV().fit(X, y),
    }
    for name, search in searches.items():
        (ours_s, _), (theirs_s, _) = by_turns(
            lambda search=search: search(snapml), lambda search=search: search(sklearn.linear_model)
        )
        faster = f"{theirs_s / ours_s:.2f}"
        yield [*begin, name, "", f"{ours_s:.4g}", f"{theirs_s:.4g}", faster, "", "", ""]


def main():
    """Write a row for each fit."""
    warnings.simplefilter("ignore")
    path = Path(__file__).parent / "results" / "lasso_dense.csv"
    shapes = list(dict.fromkeys(SHAPES + SEARCHED))
    with path.open("w", newline="") as file, threadpool_limits(1):
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for kind in ("independent", "shared"):
            for shape in shapes:
                for dtype in (np.float64, np.float32) if shape in SHAPES[:6] else (np.float64,):
                    for row in rows_of(kind, shape, dtype):
                        table.writerow(row)
                        file.flush()
                        print(*row[:-1], flush=True)


if __name__ == "__main__":
    main()
