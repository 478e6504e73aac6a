"""Time losses whose curvature jumps on tall sparse rows, beside scikit-learn's LIBLINEAR.

Families of made-up rows: columns equally frequent, or as words are; classes or targets with and
without noise; three strengths of the penalty. One thread, one library after the other on the same
data, the lesser of two fits. Objectives are compared, since the two stop by other rules.
``python -m benchmarks.tall_sparse`` writes ``results/tall_sparse.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.svm import LinearSVC as SklearnSVC
from sklearn.svm import LinearSVR as SklearnSVR

from snapml import LinearSVC, LinearSVR

REPEATS = 2
SHAPES = [(20_000, 1_000, 20), (20_000, 5_000, 20), (60_000, 10_000, 10)]
STRENGTHS = (1.0, 100.0, 10_000.0)
NOISES = (0.0, 0.3)
EPSILON = 0.1
CLASSES = {"classes": (LinearSVC, SklearnSVC), "targets": (LinearSVR, SklearnSVR)}


def make(kind, shape, noise, rng):
    """Return rows and the noisy sums of their columns' effects, centred."""
    n_rows, n_columns, n_entries = shape
    shares = np.ones(n_columns) if kind == "uniform" else 1.0 / np.arange(1, n_columns + 1)
    columns = rng.choice(n_columns, size=n_rows * n_entries, p=shares / shares.sum())
    ends = np.arange(0, n_rows * n_entries + 1, n_entries)
    X = sparse.csr_matrix((np.ones(len(columns)), columns, ends), (n_rows, n_columns))
    X.sum_duplicates()
    z = X @ rng.standard_normal(n_columns)
    z += noise * z.std() * rng.standard_normal(n_rows)
    return X, z - np.median(z)


def objective(model, task, X, y, C):
    """Return the sum that both libraries minimise."""
    coef, level = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    z = X @ coef + level
    excess = 1.0 - y * z if task == "classes" else abs(y - z) - EPSILON
    return C * float(np.sum(np.maximum(0.0, excess) ** 2)) + (coef @ coef + level**2) / 2


def fit(task, index, C, X, y):
    """Return a fitted model of a library, and its seconds."""
    parameters = {"C": C, **({"n_threads": 1} if index == 0 else {})}
    if task == "targets":
        parameters |= {"loss": "squared_epsilon_insensitive", "epsilon": EPSILON}
    seconds = np.inf
    for _ in range(REPEATS):
        begin = time.perf_counter()
        model = CLASSES[task][index](**parameters).fit(X, y)
        seconds = min(seconds, time.perf_counter() - begin)
    return model, seconds


def main():
    """Fit all, and write the table."""
    names = ["task", "columns", "n_rows", "n_columns", "n_entries", "noise", "C", "library"]
    rows = [[*names, "seconds", "objective", "gap", "reads"]]
    rng = np.random.default_rng(0)
    for kind in ("uniform", "words"):
        for shape in SHAPES:
            for noise in NOISES:
                X, z = make(kind, shape, noise, rng)
                for task in CLASSES:
                    y = np.where(z > 0.0, 1.0, -1.0) if task == "classes" else z
                    for C in STRENGTHS:
                        for index, library in enumerate(("snapml", "scikit-learn")):
                            with warnings.catch_warnings():
                                warnings.simplefilter("ignore")
                                model, seconds = fit(task, index, C, X, y)
                            value = objective(model, task, X, y, C)
                            gap = getattr(model, "gap_", np.nan)
                            case = [task, kind, *shape, noise, C, library]
                            rows.append(
                                [*case, f"{seconds:.4g}", value, f"{gap:.2g}", model.n_iter_]
                            )
    path = Path(__file__).parent / "results" / "tall_sparse.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
