"""Time one model a group: `fit_many` beside loops over scikit-learn and over snapml.

One thread, default settings; fits are interleaved, and the median of five rounds counts.
``python -m benchmarks.many_fits`` writes ``results/many_fits.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
from pathlib import Path

import numpy as np
import sklearn.linear_model

import snapml

ROUNDS = 5
SHAPES = [(1_000, 200, 10), (5_000, 40, 4), (200, 1_000, 20)]


def make_groups(n_groups, n_rows, n_columns):
    """Return rows with another model in each group, and their groups."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_groups * n_rows, n_columns))
    groups = np.repeat(np.arange(n_groups), n_rows)
    own = rng.normal(size=(n_groups, n_columns))
    y = (X * own[groups]).sum(axis=1) + rng.logistic(size=len(X)) > 0
    return X, y, groups


def loop(model, X, y, n_rows):
    """Fit a model to one group after the other."""
    for first in range(0, len(X), n_rows):
        rows = slice(first, first + n_rows)
        model.fit(X[rows], y[rows])


def timed(call):
    """Return the seconds of a call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main():
    """Time all, and write the table."""
    rows = [["groups", "rows", "columns", "fit_many_s", "snapml_loop_s", "sklearn_loop_s",
             "times_sklearn", "largest_relative_gap"]]  # fmt: skip
    for n_groups, n_rows, n_columns in SHAPES:
        X, y, groups = make_groups(n_groups, n_rows, n_columns)
        ours = snapml.LogisticRegression(n_threads=1)
        theirs = sklearn.linear_model.LogisticRegression()
        calls = [
            lambda X=X, y=y, groups=groups, m=ours: snapml.fit_many(m, X, y, groups),
            lambda X=X, y=y, n=n_rows, m=ours: loop(m, X, y, n),
            lambda X=X, y=y, n=n_rows, m=theirs: loop(m, X, y, n),
        ]
        seconds = np.median([[timed(call) for call in calls] for _ in range(ROUNDS)], axis=0)
        models = snapml.fit_many(ours, X, y, groups)
        gap = float((models.gap_ / models.objective_).max())
        rows.append([n_groups, n_rows, n_columns, *(f"{s:.3g}" for s in seconds),
                     f"{seconds[2] / seconds[0]:.1f}", f"{gap:.1e}"])  # fmt: skip
        print(*rows[-1], flush=True)
    path = Path(__file__).parent / "results" / "many_fits.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
