"""Search over alpha and folds: ours, our estimators in scikit-learn's search, and scikit-learn's.

Ten values of alpha and five folds. Each way runs in turn, `--repeats` times; a row is a search, or
one fit at the alpha that was chosen:

    python -m benchmarks.search_regressions --repeats 3 \
        --out benchmarks/results/search_regressions.csv
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn import linear_model, model_selection

from benchmarks.records import machine_facts, write_rows
from snapml import ElasticNet, Lasso, Ridge
from snapml.model_selection import GridSearchCV

N_FOLDS = 5
PROBLEMS = {
    # Rows, columns, columns that matter; and the estimators.
    "ridge, 200,000 x 100": (200_000, 100, 100, Ridge, linear_model.Ridge),
    "ridge, 20,000 x 1,000": (20_000, 1_000, 1_000, Ridge, linear_model.Ridge),
    "lasso, 50,000 x 300": (50_000, 300, 30, Lasso, linear_model.Lasso),
    "lasso, 2,000 x 2,000": (2_000, 2_000, 50, Lasso, linear_model.Lasso),
    "elastic net, 50,000 x 300": (50_000, 300, 30, ElasticNet, linear_model.ElasticNet),
}
WAYS: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "shared": lambda ours, _, grid: GridSearchCV(ours(), grid, cv=N_FOLDS),
    "loop": lambda ours, _, grid: model_selection.GridSearchCV(ours(), grid, cv=N_FOLDS),
    "sklearn": lambda _, theirs, grid: model_selection.GridSearchCV(
        theirs(), grid, cv=N_FOLDS, n_jobs=-1
    ),
}


def make_rows(n_rows: int, n_columns: int, n_relevant: int) -> tuple[np.ndarray, np.ndarray]:
    """Return correlated float64 rows with noisy targets."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((n_rows, 1))
    X = rng.standard_normal((n_rows, n_columns)) + 0.7 * common
    w = np.zeros(n_columns)
    w[:n_relevant] = rng.standard_normal(n_relevant)
    z = X @ w
    return X, z + z.std() * rng.standard_normal(n_rows)


def make_grid(X: np.ndarray, y: np.ndarray, *, is_ridge: bool) -> dict[str, list[float]]:
    """Return values of alpha: of ridge around the columns' sums of squares, else a path."""
    if is_ridge:
        return {"alpha": (np.logspace(-5, 1, 10) * len(y)).tolist()}
    largest = np.abs(X.T @ (y - y.mean())).max() / len(y)
    return {"alpha": (np.logspace(-2.5, -0.1, 10) * largest).tolist()}


def measure(name: str, way: str, X: np.ndarray, y: np.ndarray, best: float) -> dict[str, Any]:
    """Run one search, or one fit at the best alpha, and return its row."""
    *_, ours, theirs = PROBLEMS[name]
    grid = make_grid(X, y, is_ridge=ours is Ridge)
    load, began = os.getloadavg()[0], time.perf_counter()
    scores: list[float] = []
    if way == "fit":
        ours(alpha=best).fit(X, y)
    else:
        search = WAYS[way](ours, theirs, grid).fit(X, y)
        best, scores = search.best_params_["alpha"], search.cv_results_["mean_test_score"].tolist()
    seconds = time.perf_counter() - began
    get_reusable_executor().shutdown(wait=True)  # workers that stay would slow the next way down
    return {
        "problem": name,
        "way": way,
        "seconds": round(seconds, 4),
        "chosen_alpha": f"{best:.5g}",
        "mean_scores": " ".join(f"{score:.6f}" for score in scores),
        "load_average": round(load, 2),
        **machine_facts(),
    }


def main() -> None:
    """Run what the command line names, and append to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.problems:
        X, y = make_rows(*PROBLEMS[name][:3])
        for repeat in range(args.repeats):
            best = 1.0
            for way in ("shared", "fit", "loop", "sklearn"):
                row = {"repeat": repeat, **measure(name, way, X, y, best)}
                best = float(row["chosen_alpha"])
                print({k: row[k] for k in list(row)[:6]}, flush=True)
                if args.out is not None:
                    write_rows(args.out, [row])


if __name__ == "__main__":
    main()
