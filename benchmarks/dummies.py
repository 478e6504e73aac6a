"""Time fits of dense dummy variables with and without the look for zeros and for common numbers.

Columns of equal numbers of levels, whose shares differ, one column a level, and a few dense numbers
beside them, as they are and standardised; and normal numbers of which a share is not zero. Both
ways are interleaved on one core; the fastest of each counts.

``taskset -c 1 python -m benchmarks.dummies`` writes ``results/dummies.csv``.
"""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import snapml
from snapml.solvers.plan import common_numbers, light_rows

_REPEATS, _LONG_S, _NEVER = 3, 0.7, 1 << 62
_LEAST = light_rows._LEAST_SIZE
MODELS: dict[str, tuple[Any, str]] = {
    "LogisticRegression": (snapml.LogisticRegression(), "two"),
    "LogisticRegression, 3 classes": (snapml.LogisticRegression(), "three"),
    "LogisticRegression, L1": (snapml.LogisticRegression(l1_ratio=1.0), "two"),
    "LinearSVC": (snapml.LinearSVC(), "two"),
    "LinearSVC, hinge": (snapml.LinearSVC(loss="hinge"), "two"),
    "LinearSVR": (snapml.LinearSVR(), "amount"),
    "HuberRegressor": (snapml.HuberRegressor(), "amount"),
    "PoissonRegressor": (snapml.PoissonRegressor(), "count"),
    "Ridge": (snapml.Ridge(), "amount"),
    "Lasso": (snapml.Lasso(alpha=0.01), "amount"),
    "LogisticRegressionCV": (
        snapml.LogisticRegressionCV(Cs=6, cv=3, l1_ratios=(0,), scoring="accuracy"),
        "two",
    ),
}


def dummies(
    rng: np.random.Generator, n_rows: int, n_columns: int, n_levels: int, n_numbers: int
) -> np.ndarray:
    """Return dummy variables, and a few numbers, as dense rows."""
    X = np.zeros((n_rows, n_columns * n_levels + n_numbers))
    for column in range(n_columns):
        shares = rng.dirichlet(np.full(n_levels, 0.7))
        X[np.arange(n_rows), column * n_levels + rng.choice(n_levels, n_rows, p=shares)] = 1.0
    X[:, n_columns * n_levels :] = rng.lognormal(size=(n_rows, n_numbers))
    return X


def scattered(rng: np.random.Generator, n_rows: int, n_features: int, share: float) -> np.ndarray:
    """Return normal numbers, of which about a share is not zero."""
    X = rng.normal(size=(n_rows, n_features))
    X[rng.random(X.shape) > share] = 0.0
    return X


def problems(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Yield a name and rows."""
    for sizes in ((1000, 10, 10, 0), (20_000, 10, 20, 2), (5000, 10, 100, 2)):
        X = dummies(rng, *sizes)
        yield "dummies", X
        yield "standardised dummies", (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    for n_rows, n_features, share in (
        (1000, 300, 0.05),
        (20_000, 100, 0.1),
        (1000, 2000, 0.1),
        (3000, 1000, 0.05),
        (20_000, 100, 0.2),
    ):
        yield "scattered", scattered(rng, n_rows, n_features, share)


def targets(rng: np.random.Generator, X: np.ndarray) -> dict[str, np.ndarray]:
    """Return targets of each kind that some of the columns explain."""
    n_features = X.shape[1]
    coef = rng.normal(size=n_features) * (rng.random(n_features) < 0.3)
    t = X @ coef / max(1e-9, float(X.std()) * np.sqrt(0.3 * n_features))
    t = t + 0.5 * rng.normal(size=len(X))
    z = 0.5 * np.clip((t - t.mean()) / t.std(), -6, 6)
    return {
        "amount": t,
        "two": (t > np.median(t)).astype(int),
        "three": np.digitize(t, np.quantile(t, [0.3, 0.7])),
        "count": rng.poisson(np.exp(z)).astype(float),
    }


def fastest(estimator: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the least seconds of a fit of whole rows, and of one that looks for zeros."""
    seconds = [np.inf, np.inf]
    for repeat in range(_REPEATS):
        for way, least in enumerate((_NEVER, _LEAST)):
            if repeat and seconds[way] > _LONG_S:
                continue
            light_rows._LEAST_SIZE = common_numbers._LEAST_SIZE = least
            begin = time.perf_counter()
            estimator.fit(X, y)
            seconds[way] = min(seconds[way], time.perf_counter() - begin)
    light_rows._LEAST_SIZE = common_numbers._LEAST_SIZE = _LEAST
    return seconds


def main() -> None:
    """Fit all, and write the table."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    path = Path(__file__).parent / "results" / "dummies.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(
            ["rows", "shape", "share", "estimator", "whole_s", "entries_s", "times_faster"]
        )
        for name, X in problems(rng):
            known = targets(rng, X)
            share = np.count_nonzero(X) / X.size
            for title, (estimator, kind) in MODELS.items():
                if title == "LogisticRegressionCV" and X.size > 2_000_000:
                    continue  # whole rows take half a minute
                whole, entries = fastest(estimator, X, known[kind])
                shape, ratio = f"{X.shape[0]} x {X.shape[1]}", f"{whole / entries:.2f}"
                seconds = [f"{each:.4g}" for each in (whole, entries)]
                table.writerow([name, shape, f"{share:.3f}", title, *seconds, ratio])
                file.flush()


if __name__ == "__main__":
    main()
