"""Search over C and folds: ours, ours as a loop of fits, and scikit-learn's over its own solvers.

Ten values of C and five folds on the text and the dense wide problem of `problems`. Each way runs
in turn, `--repeats` times. A row is a search, or one fit at the best C:

    python -m benchmarks.search --problems text dense_wide --grids wide narrow \
        --ways fit shared cv sklearn_liblinear --out benchmarks/results/search.csv
    python -m benchmarks.search --problems covtype_20k_multinomial mnist_t10k_multinomial \
        --standardise --grids narrow --ways fit shared shared_exact sklearn_lbfgs --best-C 1.0 \
        --out benchmarks/results/search_classes.csv
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn import model_selection
from sklearn.linear_model import LogisticRegression as TheirLogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.problems import Problem, make_problem
from benchmarks.records import machine_facts, write_rows
from snapml import LogisticRegression, LogisticRegressionCV
from snapml.model_selection import GridSearchCV

# That of `LogisticRegressionCV(Cs=10)`, and one about the best C of both problems.
GRIDS = {"wide": np.logspace(-4, 4, 10), "narrow": np.logspace(-3, 1.5, 10)}
N_FOLDS = 5


def _grid(Cs: np.ndarray) -> dict[str, list[float]]:
    return {"C": Cs.tolist()}


def _shared(problem: Problem, Cs: np.ndarray) -> Any:
    return GridSearchCV(LogisticRegression(max_iter=5000), _grid(Cs), cv=N_FOLDS)


def _exact(problem: Problem, Cs: np.ndarray) -> Any:
    model = LogisticRegression(max_iter=5000)
    return GridSearchCV(model, _grid(Cs), cv=N_FOLDS, search_tol=1e-6)


def _loop(problem: Problem, Cs: np.ndarray) -> Any:
    model = LogisticRegression(max_iter=5000)
    return model_selection.GridSearchCV(model, _grid(Cs), cv=N_FOLDS)


def _cv(problem: Problem, Cs: np.ndarray) -> Any:
    return LogisticRegressionCV(
        Cs=Cs,
        cv=N_FOLDS,
        l1_ratios=(0,),
        scoring="accuracy",
        use_legacy_attributes=False,
        max_iter=5000,
    )


def _theirs(solver: str) -> Callable[[Problem, np.ndarray], Any]:
    def make(problem: Problem, Cs: np.ndarray) -> Any:
        model = TheirLogisticRegression(solver=solver, max_iter=5000)
        return model_selection.GridSearchCV(model, _grid(Cs), cv=N_FOLDS, n_jobs=-1)

    return make


WAYS: dict[str, Callable[[Problem, np.ndarray], Any]] = {
    "shared": _shared,
    "shared_exact": _exact,
    "loop": _loop,
    "cv": _cv,
    "sklearn_liblinear": _theirs("liblinear"),
    "sklearn_lbfgs": _theirs("lbfgs"),
    "sklearn_newton-cholesky": _theirs("newton-cholesky"),
    "sklearn_newton-cg": _theirs("newton-cg"),
}


def _scores(search: Any) -> tuple[float, list[float]]:
    """Return the C that was chosen and the mean score of each."""
    if hasattr(search, "cv_results_"):
        return float(search.best_params_["C"]), search.cv_results_["mean_test_score"].tolist()
    return float(search.C_), search.scores_.mean(axis=(0, 1)).tolist()


def _standardised(problem: Problem) -> Problem:
    """Return the problem with columns of mean 0 and standard deviation 1, constant ones of 0."""
    X = StandardScaler().fit_transform(problem.X)
    return replace(problem, name=f"{problem.name}, standardised", X=X)


def measure(problem: Problem, grid: str, way: str, repeat: int, best_C: float) -> dict[str, Any]:
    """Run one search, or one fit at the best C, and return its row."""
    Cs = GRIDS[grid]
    load = os.getloadavg()[0]
    began, cpu_began = time.perf_counter(), time.process_time()
    if way == "fit":
        LogisticRegression(C=best_C, max_iter=5000).fit(problem.X, problem.y)
        chosen, scores = best_C, []
    else:
        chosen, scores = _scores(WAYS[way](problem, Cs).fit(problem.X, problem.y))
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    get_reusable_executor().shutdown(wait=True)  # workers that stay would slow the next way down
    return {
        "problem": problem.name,
        "n_rows": problem.X.shape[0],
        "n_features": problem.X.shape[1],
        "grid": grid,
        "way": way,
        "repeat": repeat,
        "seconds": round(seconds, 4),
        "cpu_seconds": round(cpu_seconds, 4),
        "chosen_C": f"{chosen:.4g}",
        "mean_scores": " ".join(f"{score:.5f}" for score in scores),
        "load_average": round(load, 2),
        **machine_facts(),
    }


def main() -> None:
    """Run what the command line names, and append to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=["text", "dense_wide"])
    parser.add_argument("--grids", nargs="+", choices=GRIDS, default=["wide"])
    parser.add_argument("--ways", nargs="+", choices=["fit", *WAYS], default=["fit", *WAYS])
    parser.add_argument("--standardise", action="store_true", help="of dense rows")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--best-C", type=float, default=2.783)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.problems:
        problem = make_problem(name)
        if args.standardise:
            problem = _standardised(problem)
        LogisticRegression().fit(problem.X, problem.y)  # pages and threads are warm
        for repeat in range(args.repeats):
            for grid in args.grids:
                for way in args.ways:
                    row = measure(problem, grid, way, repeat, args.best_C)
                    print({k: row[k] for k in list(row)[:11]}, flush=True)
                    if args.out is not None:
                        write_rows(args.out, [row])


if __name__ == "__main__":
    main()
