"""Time default fits of few rows beside scikit-learn's default fits.

One thread, default settings on both sides: a certified gap here, scikit-learn's own stop there.
Fits are interleaved, and the median of each counts. ``python -m benchmarks.small_data`` writes
``results/small_data.csv``.
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
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import snapml

REPEATS, MOST_S = 25, 5.0  # fewer repeats where they would take longer in all
SHAPES = [(100, 5), (100, 50), (1_000, 10), (1_000, 100), (5_000, 20), (20_000, 9)]
MODELS = {
    "LogisticRegression": ({}, "two classes"),
    "LogisticRegression, 3 classes": ({}, "three classes"),
    "LogisticRegression, L1": ({"l1_ratio": 1.0, "solver": "liblinear"}, "two classes"),
    "LinearSVC": ({}, "two classes"),
    "LinearSVC, hinge": ({"loss": "hinge"}, "two classes"),
    "LinearSVR": ({}, "number"),
    "QuantileRegressor": ({"alpha": 0.01}, "number"),
    "Ridge": ({}, "number"),
    "Lasso": ({"alpha": 0.05}, "number"),
    "ElasticNet": ({"alpha": 0.05}, "number"),
    "LinearRegression": ({}, "number"),
    "HuberRegressor": ({}, "number"),
    "PoissonRegressor": ({}, "count"),
    "GammaRegressor": ({}, "amount"),
    "TweedieRegressor": ({"power": 1.5}, "amount with zeros"),
}


def targets(X, rng):
    """Return a target of each kind."""
    scores = X[:, :3] @ rng.normal(size=(3, 3)) + rng.logistic(size=(len(X), 3))
    return {
        "two classes": scores[:, 0] > 0,
        "three classes": scores.argmax(axis=1),
        "number": scores[:, 0],
        "count": (counts := rng.poisson(np.exp(0.3 * np.clip(scores[:, 0], -5, 5)))),
        "amount": (1.0 + counts) * rng.gamma(2.0, size=len(X)),
        "amount with zeros": counts * rng.gamma(2.0, size=len(X)),
    }


def data_sets():
    """Yield a name, rows and targets by kind."""
    for n_rows, n_columns in SHAPES:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n_rows, n_columns))
        yield f"{n_rows} x {n_columns}", X, targets(X, rng)
    for load, kind in (
        (load_breast_cancer, "two classes"),
        (load_iris, "three classes"),
        (load_wine, "three classes"),
        (load_diabetes, "number"),
    ):
        X, y = load(return_X_y=True)
        name = load.__name__.removeprefix("load_").replace("_", " ")
        yield f"{name}, scaled", StandardScaler().fit_transform(X), {kind: y}


def library_of(name):
    """Return scikit-learn's module of an estimator."""
    return sklearn.svm if name.startswith("LinearSV") else sklearn.linear_model


def median_s(fits):
    """Return the median seconds of each of several fits, interleaved."""
    seconds, end = [[] for _ in fits], time.perf_counter() + MOST_S
    for _ in range(REPEATS):
        if time.perf_counter() > end:
            break
        for fit, own in zip(fits, seconds, strict=True):
            begin = time.perf_counter()
            fit()
            own.append(time.perf_counter() - begin)
    return [float(np.median(own)) for own in seconds]


def main():
    """Fit all, and write the table."""
    header = ["data", "estimator", "snapml_s", "sklearn_s", "times_faster", "certified_gap"]
    rows = [[*header, "how"]]
    warnings.simplefilter("ignore")
    for data, X, by_kind in data_sets():
        for name, (parameters, kind) in MODELS.items():
            if kind not in by_kind:
                continue
            y, bare = by_kind[kind], name.partition(",")[0]
            own = {key: value for key, value in parameters.items() if key != "solver"}
            ours = getattr(snapml, bare)(**own, n_threads=1)
            theirs = getattr(library_of(bare), bare)(**parameters)
            ours_s, theirs_s = median_s([lambda m=m, X=X, y=y: m.fit(X, y) for m in (ours, theirs)])
            gap = float(np.sum(getattr(ours, "gap_", np.nan)))
            share = gap / max(abs(float(np.sum(ours.objective_))), 1e-300)
            rows.append([data, name, f"{ours_s:.3g}", f"{theirs_s:.3g}", f"{theirs_s / ours_s:.2f}",
                         f"{share:.1e}", ours.solver_])  # fmt: skip
            print(*rows[-1][:-1], flush=True)
    path = Path(__file__).parent / "results" / "small_data.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
