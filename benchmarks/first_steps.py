"""Time fits of dense rows of 200 to 2,000 columns with and without steps before a Hessian.

Made-up columns: independent, correlated with their neighbours, with a variable in common, of 30
directions and noise, with heavy tails and many scales. Default fits, one thread, by turns: ours,
ours with a Hessian from the start (``hessian_s``), and scikit-learn's where the rows have at most
6,000,000 entries (3,000,000 with heavy tails); of up to five calls the fastest, one where it takes
more than a second.
``python -m benchmarks.first_steps`` writes ``results/first_steps.csv``.
"""

import csv
import warnings
from pathlib import Path

import numpy as np
import sklearn.linear_model
import sklearn.svm
from threadpoolctl import threadpool_limits

import snapml
from benchmarks.lasso_dense import by_turns
from snapml.solvers.newton import sampled_curvature

SHAPES = [(5000, 200), (10_000, 300), (10_000, 500), (4000, 800), (20_000, 400), (30_000, 784)]
KINDS = ("independent", "neighbours", "in common", "low rank", "heavy tails")
SLOWEST = (20_000, 2000)  # of independent columns alone
MOST_OF_PEER = {"heavy tails": 3_000_000}
MAKERS = {
    "LogisticRegression": (
        lambda: snapml.LogisticRegression(n_threads=1),
        sklearn.linear_model.LogisticRegression,
    ),
    "LogisticRegression, C=100": (
        lambda: snapml.LogisticRegression(C=100, n_threads=1),
        lambda: sklearn.linear_model.LogisticRegression(C=100),
    ),
    "LinearSVC": (lambda: snapml.LinearSVC(n_threads=1), sklearn.svm.LinearSVC),
    "PoissonRegressor": (
        lambda: snapml.PoissonRegressor(alpha=1e-3, n_threads=1),
        lambda: sklearn.linear_model.PoissonRegressor(alpha=1e-3),
    ),
}
COLUMNS = ["columns", "rows", "n_columns", "estimator", "snapml_s", "hessian_s", "sklearn_s"]
COLUMNS += ["times_hessian", "times_sklearn", "certified_gap", "reads", "how"]


def make(kind, n_rows, n_columns):
    """Return rows and a score of each with unit variance."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns))
    if kind == "neighbours":
        for j in range(1, n_columns):
            X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(1.0 - 0.9**2) * X[:, j]
    if kind == "in common":
        X += rng.standard_normal((n_rows, 1))
    if kind == "low rank":
        X = 0.3 * X + rng.standard_normal((n_rows, 30)) @ rng.standard_normal((30, n_columns))
    if kind == "heavy tails":
        X = rng.standard_t(2, X.shape) * 10.0 ** rng.uniform(-2, 2, n_columns)
    z = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.standard_normal(n_columns)
    return X, z / z.std(), rng


def with_hessian(make_ours, X, y):
    """Return a fit whose first step has a Hessian."""
    usual = sampled_curvature._WORTH_WAITING
    sampled_curvature._WORTH_WAITING = np.inf
    try:
        return make_ours().fit(X, y)
    finally:
        sampled_curvature._WORTH_WAITING = usual


def rows_of(kind, shape):
    """Yield the rows of the table of one data set."""
    X, z, rng = make(kind, *shape)
    labels = (3.0 * z + rng.logistic(size=len(z)) > 0).astype(int)
    counts = rng.poisson(np.exp(z))
    for name, (make_ours, make_theirs) in MAKERS.items():
        y = counts if name == "PoissonRegressor" else labels
        calls = [
            lambda m=make_ours, y=y: m().fit(X, y),
            lambda m=make_ours, y=y: with_hessian(m, X, y),
        ]
        if X.size <= MOST_OF_PEER.get(kind, 6_000_000):
            calls.append(lambda m=make_theirs, y=y: m().fit(X, y))
        (ours_s, ours), (hessian_s, _), *theirs = by_turns(*calls)
        sklearn_s = theirs[0][0] if theirs else None
        gap, reads = ours.gap_ / ours.objective_, np.max(ours.n_iter_)
        yield [
            kind, *shape, name, f"{ours_s:.4g}", f"{hessian_s:.4g}",
            f"{sklearn_s:.4g}" if sklearn_s else "", f"{hessian_s / ours_s:.2f}",
            f"{sklearn_s / ours_s:.2f}" if sklearn_s else "", f"{gap:.1e}", reads, ours.solver_,
        ]  # fmt: skip


def main():
    """Write a row for each fit."""
    warnings.simplefilter("ignore")
    path = Path(__file__).parent / "results" / "first_steps.csv"
    with path.open("w", newline="") as file, threadpool_limits(1):
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        data = [(kind, shape) for kind in KINDS for shape in SHAPES]
        for kind, shape in [*data, (KINDS[0], SLOWEST)]:
            for row in rows_of(kind, shape):
                table.writerow(row)
                file.flush()
                print(*row[:-1], flush=True)


if __name__ == "__main__":
    main()
