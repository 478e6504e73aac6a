"""Search over C, or alpha, of classifiers that share paths or Gram matrices, and of scikit-learn's.

Ten values and five folds of L1 logistic regression, of two classes and of more, and of ridge
classification. Each way runs in turn, `--repeats` times; a row is a search, or one fit at the value
that was chosen:

    python -m benchmarks.search_paths --repeats 2 --out benchmarks/results/search_paths.csv
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn import linear_model, model_selection
from sklearn.preprocessing import StandardScaler

from benchmarks.problems import make_problem
from benchmarks.records import machine_facts, write_rows
from snapml import LogisticRegression, RidgeClassifier
from snapml.model_selection import GridSearchCV

N_FOLDS = 5
GRIDS = {
    "L1": {"C": np.logspace(-2, 1.5, 10).tolist()},
    "ridge": {"alpha": np.logspace(-1, 5, 10).tolist()},
}
# scikit-learn's fastest: LIBLINEAR penalises the intercept, and has two classes only.
MODELS = {
    "L1": (
        LogisticRegression(l1_ratio=1.0, max_iter=1000),
        linear_model.LogisticRegression(l1_ratio=1.0, solver="liblinear", max_iter=1000),
    ),
    "L1, more classes": (
        LogisticRegression(l1_ratio=1.0, max_iter=1000),
        linear_model.LogisticRegression(l1_ratio=1.0, solver="saga", max_iter=1000),
    ),
    "ridge": (RidgeClassifier(), linear_model.RidgeClassifier()),
}
PROBLEMS = {
    "L1": ("a9a", "w8a", "text", "news20_comp", "dense_wide"),
    "L1, more classes": ("covtype_20k_multinomial",),
    "ridge": ("mnist_t10k_multinomial", "covtype_20k_multinomial"),
}


def measure(
    kind: str, way: str, X: Any, y: np.ndarray, grid: dict[str, list[float]], best: dict[str, float]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Run one search, or one fit at the best value; return its row and the value."""
    ours, theirs = MODELS[kind]
    load, began = os.getloadavg()[0], time.perf_counter()
    scores: list[float] = []
    if way == "fit":
        ours.__class__(**{**ours.get_params(), **best}).fit(X, y)
    else:
        search = {
            "shared": GridSearchCV(ours, grid, cv=N_FOLDS),
            "loop": model_selection.GridSearchCV(ours, grid, cv=N_FOLDS),
            "sklearn": model_selection.GridSearchCV(theirs, grid, cv=N_FOLDS, n_jobs=-1),
        }[way].fit(X, y)
        best, scores = search.best_params_, search.cv_results_["mean_test_score"].tolist()
    seconds = time.perf_counter() - began
    get_reusable_executor().shutdown(wait=True)  # workers that stay would slow the next way down
    row = {
        "way": way,
        "seconds": round(seconds, 4),
        "chosen": f"{next(iter(best.values())):.5g}",
        "mean_scores": " ".join(f"{score:.5f}" for score in scores),
        "load_average": round(load, 2),
        **machine_facts(),
    }
    return row, best


def main() -> None:
    """Run what the command line names, and append to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--problems", nargs="+", help="some of those of the kinds")
    parser.add_argument("--ways", nargs="+", default=["shared", "fit", "loop", "sklearn"])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in args.kinds:
        for name in PROBLEMS[kind]:
            if args.problems and name not in args.problems:
                continue
            problem = make_problem(name)
            X = StandardScaler().fit_transform(problem.X) if kind == "ridge" else problem.X
            for repeat in range(args.repeats):
                best: dict[str, float] = {}
                for way in args.ways:
                    grid = GRIDS["ridge" if kind == "ridge" else "L1"]
                    measured, best = measure(kind, way, X, problem.y, grid, best)
                    row = {"repeat": repeat, "kind": kind, "problem": name, **measured}
                    print({k: row[k] for k in list(row)[:7]}, flush=True)
                    if args.out is not None:
                        write_rows(args.out, [row])


if __name__ == "__main__":
    main()
