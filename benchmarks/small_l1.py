"""Time L1 fits in one call beside the same fits by working sets.

Made-up rows, dense and sparse, of independent and of tied columns, and the small real sets of
`DATA_DIRECTORY` where it is there; one thread, both to the default tolerance, by turns, the
fastest of each counting. ``python -m benchmarks.small_l1`` writes ``results/small_l1.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import snapml
from benchmarks.real_data import DATA_DIRECTORY
from benchmarks.real_defaults import data_sets
from snapml.solvers.newton import small_newton

REPEATS, LONG_S = 5, 0.4
DENSE = [(62, 2000), (100, 500), (200, 900), (500, 300), (1000, 100), (2000, 90), (1000, 350)]
SPARSE = [
    (500, 5000, 0.005),
    (2000, 1000, 0.02),
    (5000, 300, 0.08),
    (8000, 2000, 0.005),
    (20000, 80, 0.1),
    (3000, 20000, 0.001),
    (10000, 3000, 0.01),
]
REAL = ["agaricus", "mushrooms", "phishing", "pcmac", "relathe", "basehock"]


def made_rows():
    """Yield a name, rows and scores."""
    rng = np.random.default_rng(0)

    def positive(size):
        return rng.lognormal(size=size)

    for n, p in DENSE:
        for is_tied in (False, True):
            X = rng.normal(size=(n, p))
            if is_tied:  # groups of ten, and all with each other
                groups = np.repeat(rng.normal(size=(n, (p + 9) // 10)), 10, axis=1)[:, :p]
                X = X + 2.0 * (groups + rng.normal(size=(n, 1)))
            scores = X[:, :10] @ rng.normal(size=10)
            yield f"dense {n} x {p}{', tied' * is_tied}", X, scores / scores.std()
    for n, p, share in SPARSE:
        X = sp.random(n, p, share, format="csr", random_state=1, data_rvs=positive)
        scores = X @ (rng.normal(size=p) * (rng.random(p) < 0.05))
        yield f"sparse {n} x {p}, {X.nnz / n:.1f} a row", X, scores / scores.std()


def made_fits():
    """Yield a name of rows, one of a fit, how to make the model, rows and targets."""
    rng = np.random.default_rng(1)
    for name, X, scores in made_rows():
        labels = scores + 0.5 * rng.normal(size=len(scores)) > 0
        numbers = scores + 0.3 * rng.normal(size=len(scores))
        counts = rng.poisson(np.exp(np.clip(0.5 * scores, -3, 3)))
        most = np.abs(X.T @ (numbers - numbers.mean())).max() / len(scores)
        for C in (0.1, 1.0, 100.0):
            yield name, f"logistic, C={C:g}", logistic(C), X, labels
        svm = {"penalty": "l1", "dual": False}
        yield name, "squared hinge, C=1", lambda kw=svm: snapml.LinearSVC(**kw), X, labels
        for share in (0.3, 0.05, 0.005):
            yield name, f"lasso, {share:g} of the largest alpha", lasso(share * most), X, numbers
        poisson = {"alpha": 0.03, "l1_ratio": 1.0}
        yield name, "Poisson", lambda kw=poisson: snapml.PoissonRegressor(**kw), X, counts


def real_fits():
    """Yield the same of the real sets, with a free and a penalised intercept."""
    if not DATA_DIRECTORY.is_dir():
        print(f"no real sets: there is no folder {DATA_DIRECTORY.name}", file=sys.stderr)
        return
    for name, X, y in data_sets(REAL):
        for C in (0.1, 1.0, 10.0, 100.0):
            yield name, f"logistic, C={C:g}", logistic(C), X, y
            more = f"logistic, C={C:g}, penalised intercept"
            yield name, more, logistic(C, solver="liblinear"), X, y


def logistic(C, **more):
    """Return a maker of logistic regressions."""
    return lambda: snapml.LogisticRegression(l1_ratio=1.0, C=C, n_jobs=1, **more)


def lasso(alpha):
    """Return a maker of lassos."""
    return lambda: snapml.Lasso(alpha=alpha)


def seconds(make, X, y, most_entries):
    """Return how long a fit takes where so many entries are few, and the model."""
    small_newton._MOST_ENTRIES = most_entries
    began = time.perf_counter()
    model = make().fit(X, y)
    return time.perf_counter() - began, model


def compare(make, X, y):
    """Return the fastest fits both ways and the models."""
    usual = small_newton._MOST_ENTRIES
    times, models = ([], []), [None, None]
    try:
        while len(times[0]) < REPEATS and sum(map(sum, times)) < 2 * LONG_S:
            for way, most in enumerate((usual, 0)):
                taken, models[way] = seconds(make, X, y, most)
                times[way].append(taken)
    finally:
        small_newton._MOST_ENTRIES = usual
    return min(times[0]), min(times[1]), *models


def main():
    """Time all fits, and write the file."""
    warnings.simplefilter("ignore")
    out = Path(__file__).parent / "results" / "small_l1.csv"
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["data", "fit", "one_call_s", "working_sets_s", "times_faster", "gap", "solver"]
        )
        for fits in (made_fits(), real_fits()):
            for name, fit, make, X, y in fits:
                one, other, model, _ = compare(make, X, y)
                gap, solver = model.gap_ / abs(model.objective_), model.solver_.partition(",")[0]
                row = [name, fit, f"{one:.4g}", f"{other:.4g}", f"{other / one:.2f}"]
                writer.writerow([*row, f"{gap:.1e}", solver])
                print(*row, flush=True)


if __name__ == "__main__":
    main()
