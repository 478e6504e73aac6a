"""Time the hinge and tubes of rows that can all be met, in single and in double precision.

Made-up rows, fewer than columns: the objective is next to nothing but the penalty, and rounding of
margins costs much beside it. One thread, by turns, the fastest of five counting.
``python -m benchmarks.hinge_precision`` writes ``results/hinge_precision.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import snapml

REPEATS = 5
SHAPES = [(60, 200), (200, 1000), (100, 3000), (500, 800), (1000, 3000)]


def made_rows():
    """Yield a name, rows in double precision and numbers to be met."""
    for n, p in SHAPES:
        rng = np.random.default_rng(n + p)
        X, y = rng.normal(size=(n, p)), rng.normal(size=n)
        yield f"normal {n} x {p}", X, y
        yield f"a third filled {n} x {p}", sp.csr_matrix(X * (rng.random((n, p)) < 0.3)), y
        X = sp.random(n, 10 * p, 50 / p / 10, "csr", random_state=1)
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        yield f"text {n} x {10 * p}", sp.csr_matrix(sp.diags(1 / (lengths + 1e-9)) @ X), y


def fits(X, y, C):
    """Yield a loss's name, a fit's maker and its targets."""
    yield "hinge", lambda: snapml.LinearSVC(loss="hinge", C=C, n_threads=1), y > 0
    yield "tube", lambda: snapml.LinearSVR(epsilon=0.1, C=C, n_threads=1), y


def fastest(make, rows, targets):
    """Return the seconds of the fastest fit to each rows, and the last models."""
    seconds, models = [np.inf] * len(rows), [None] * len(rows)
    for _ in range(REPEATS):
        for i, X in enumerate(rows):
            began = time.perf_counter()
            models[i] = make().fit(X, targets)
            seconds[i] = min(seconds[i], time.perf_counter() - began)
    return seconds, models


def main():
    """Time all fits, and write the file."""
    warnings.simplefilter("ignore")
    out = Path(__file__).parent / "results" / "hinge_precision.csv"
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        columns = ["float32_s", "float64_s", "float32_gap", "float64_gap", "float32_iter"]
        writer.writerow(["data", "loss", "C", *columns, "float64_iter", "float32_way"])
        for name, X, y in made_rows():
            for C in (0.01, 1.0, 100.0):
                for loss, make, targets in fits(X, y, C):
                    rows = X.astype(np.float32), X
                    seconds, models = fastest(make, rows, targets)
                    gaps = [f"{model.gap_ / model.objective_:.1e}" for model in models]
                    row = [name, loss, C, *(f"{each:.4g}" for each in seconds), *gaps]
                    row += [*(model.n_iter_ for model in models), models[0].solver_]
                    writer.writerow(row)
                    print(*row, flush=True)


if __name__ == "__main__":
    main()
