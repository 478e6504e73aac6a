"""Time Huber's and support vector regression beside scikit-learn's.

One thread, default settings on both sides, one library after the other on the same data, the least
of a few fits. Objectives are compared, since the libraries stop by other rules. ``python -m
benchmarks.robust`` writes ``results/robust.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import warnings
from pathlib import Path

import numpy as np
import sklearn.linear_model
import sklearn.svm

import snapml

REPEATS = 3
SHAPES = [(200, 5), (2_000, 20), (20_000, 20), (20_000, 200), (100_000, 50), (5_000, 1_000)]
CASES = [
    ("HuberRegressor", {"alpha": 1e-4}),
    ("HuberRegressor", {"alpha": 1.0}),
    *[
        ("LinearSVR", {"loss": loss, "epsilon": 0.1, "C": C})
        for loss in ("epsilon_insensitive", "squared_epsilon_insensitive")
        for C in (0.01, 1.0, 100.0)
    ],
]


def objective(name, model, parameters, X, y):
    """Return the sum that both libraries minimise."""
    level = float(np.sum(model.intercept_))
    residuals, coef = abs(y - X @ model.coef_ - level), model.coef_
    if name == "HuberRegressor":
        size, epsilon = residuals / model.scale_, 1.35
        losses = np.where(size < epsilon, size**2, 2.0 * epsilon * size - epsilon**2)
        return model.scale_ * float(np.sum(1.0 + losses)) + parameters["alpha"] * coef @ coef
    excess = np.maximum(0.0, residuals - parameters["epsilon"])
    losses = excess**2 if parameters["loss"].startswith("squared") else excess
    return parameters["C"] * float(np.sum(losses)) + (coef @ coef + level**2) / 2


def timed(make, X, y):
    """Return a model and the seconds of the fastest fit; one of more than 2 s is not repeated."""
    seconds = np.inf
    for _ in range(REPEATS):
        begin = time.perf_counter()
        model = make().fit(X, y)
        seconds = min(seconds, time.perf_counter() - begin)
        if seconds > 2.0:
            break
    return model, seconds


def main():
    """Fit all, and write the table."""
    rows = [["estimator", "parameters", "n_rows", "n_columns", "library", "seconds", "objective"]]
    rows[0] += ["gap"]
    theirs = {"HuberRegressor": sklearn.linear_model, "LinearSVR": sklearn.svm}
    for n_rows, n_columns in SHAPES:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n_rows, n_columns))
        y = X @ rng.standard_normal(n_columns) + rng.standard_t(2, n_rows)
        for name, parameters in CASES:
            peers = {
                "snapml": lambda n=name, p=parameters: getattr(snapml, n)(**p, n_threads=1),
                "scikit-learn": lambda n=name, p=parameters: getattr(theirs[n], n)(**p),
            }
            for library, make in peers.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model, seconds = timed(make, X, y)
                words = " ".join(f"{key}={value}" for key, value in parameters.items())
                value = objective(name, model, parameters, X, y)
                case = [name, words, n_rows, n_columns, library]
                gap = f"{getattr(model, 'gap_', np.nan):.2g}"
                rows.append([*case, f"{seconds:.4g}", float(value), gap])
    path = Path(__file__).parent / "results" / "robust.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
