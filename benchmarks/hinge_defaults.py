"""Time default fits of both hinges beside scikit-learn's, and beside fits whose rows never rest.

Made-up rows: few and many columns, dense, skewed, one-hot and text, classes that overlap and that
do not; C from 0.01 to 100. One thread; all by turns, the fastest of each counting. What
scikit-learn's fit leaves is its objective above ours, as a share; what ours leaves is certified.
``python -m benchmarks.hinge_defaults`` writes ``results/hinge_defaults.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import sklearn.svm

import snapml
from snapml.solvers.dual_ascent import cpu_engine

REPEATS, LONG_S = 5, 0.3
FEW_COLUMNS = [(200, 5), (1000, 60), (3000, 30), (10_000, 15), (5000, 100), (20_000, 50)]
MANY_COLUMNS = [(800, 400), (2000, 600)]
TEXT = [(1000, 5000, 50), (5000, 2000, 30), (3000, 20_000, 80), (20_000, 3000, 20)]
SCALES = {"overlapping": 0.7, "apart": 3.0}


def made_rows():
    """Yield a name, rows and labels."""
    rng = np.random.default_rng(0)
    for n, p in FEW_COLUMNS + MANY_COLUMNS:
        X = rng.normal(size=(n, p))
        scores = X @ rng.normal(size=p) / np.sqrt(p)
        for kind, scale in SCALES.items():
            yield f"dense {n} x {p}, {kind}", X, rng.random(n) < 1 / (1 + np.exp(-scale * scores))
        yield f"dense {n} x {p}, separable", X, scores > 0
        yield f"skewed {n} x {p}", X * np.exp(2 * rng.normal(size=(n, p))), scores > 0
        ones = (rng.random((n, p)) < min(0.3, 10 / p)).astype(np.float64)
        labels = ones @ rng.normal(size=p) + 0.5 * rng.normal(size=n) > 0
        yield f"one-hot {n} x {p}", sp.csr_matrix(ones), labels
    for n, p, entries in TEXT:
        X = sp.random(n, p, entries / p, "csr", random_state=1)
        X = sp.csr_matrix(sp.diags(1 / np.sqrt(X.multiply(X).sum(axis=1).A1 + 1e-9)) @ X)
        scores = 4 * (X @ rng.normal(size=p))
        yield f"text {n} x {p}", X, scores + rng.normal(size=n) > np.median(scores)


def objective(model, X, y, C, power):
    """Return the objective of a model, in float64."""
    coef, intercept = model.coef_.ravel(), float(np.ravel(model.intercept_)[0])
    slacks = np.maximum(0.0, 1.0 - np.where(y, 1.0, -1.0) * (X @ coef + intercept))
    return 0.5 * (coef @ coef + intercept**2) + C * np.sum(slacks**power)


def seconds(make, X, y, most_moving):
    """Return how long a fit takes where such a share of the rows may move, and the model."""
    usual, cpu_engine._MOST_MOVING = cpu_engine._MOST_MOVING, most_moving
    try:
        began = time.perf_counter()
        model = make().fit(X, y)
        return time.perf_counter() - began, model
    finally:
        cpu_engine._MOST_MOVING = usual


def compare(makers, X, y):
    """Return the fastest fit each way, and the models."""
    times, models = [[] for _ in makers], [None] * len(makers)
    while len(times[0]) < REPEATS and sum(map(sum, times)) < len(makers) * LONG_S:
        for way, (make, most_moving) in enumerate(makers):
            taken, models[way] = seconds(make, X, y, most_moving)
            times[way].append(taken)
    return [min(each) for each in times], models


def main():
    """Time all fits, and write the file."""
    warnings.simplefilter("ignore")
    usual = cpu_engine._MOST_MOVING
    out = Path(__file__).parent / "results" / "hinge_defaults.csv"
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        names = ["snapml_s", "never_rest_s", "sklearn_s", "rest_times_faster", "times_faster"]
        writer.writerow(["data", "loss", "C", *names, "certified_gap", "sklearn_above", "how"])
        for name, X, y in made_rows():
            for loss, power in (("hinge", 1), ("squared_hinge", 2)):
                for C in (0.01, 1.0, 100.0):
                    options = {"loss": loss, "C": C}

                    def ours(options=options):
                        return snapml.LinearSVC(**options, n_threads=1)

                    def theirs(options=options):
                        return sklearn.svm.LinearSVC(**options)

                    makers = [(ours, usual), (ours, 0.0), (theirs, usual)]
                    taken, models = compare(makers, X, y)
                    gap = models[0].gap_ / models[0].objective_
                    above = objective(models[2], X, y, C, power) / models[0].objective_ - 1.0
                    row = [name, loss, C, *(f"{each:.4g}" for each in taken)]
                    row += [f"{taken[1] / taken[0]:.2f}", f"{taken[2] / taken[0]:.2f}"]
                    writer.writerow([*row, f"{gap:.1e}", f"{above:.1e}", models[0].solver_])
                    print(*row, f"{above:.1e}", flush=True)


if __name__ == "__main__":
    main()
