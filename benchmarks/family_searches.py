"""Searches for the penalty of counts and amounts, beside glum's and scikit-learn's.

Twenty strengths in five folds, one thread, by turns; a row has the least time of a search::

    python -m benchmarks.family_searches --out benchmarks/results/family_searches.csv

glum's class follows strengths in each fold, too; scikit-learn's `GridSearchCV` has the grid that
snapml's class chose, and no L1 norm.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.linear_model
import sklearn.model_selection
from scipy.sparse import random_array
from threadpoolctl import threadpool_limits

from benchmarks.records import machine_facts, write_rows
from snapml import GammaRegressor, GeneralizedLinearRegressorCV, PoissonRegressor
from snapml.model_selection import GridSearchCV

SHAPES = ((500, 10), (5_000, 20), (50_000, 30), (200_000, 20), (5_000, 300))
SPARSE = (20_000, 500)
FAMILIES = {"poisson": PoissonRegressor, "gamma": GammaRegressor}
SEARCH = dict(n_alphas=20, min_alpha_ratio=1e-4, cv=5)


def problems(seed: int = 0) -> Iterator[tuple[str, str, Any, np.ndarray]]:
    """Yield shapes, families, rows and targets."""
    rng = np.random.default_rng(seed)
    for n_rows, n_columns in SHAPES:
        X = rng.standard_normal((n_rows, n_columns))
        yield from _targets(f"{n_rows} x {n_columns}", X, rng)
    density = 20 / SPARSE[1]
    X = random_array(SPARSE, density=density, format="csr", random_state=seed)
    yield from _targets(f"{SPARSE[0]} x {SPARSE[1]} sparse", X, rng)


def _targets(
    shape: str, X: Any, rng: np.random.Generator
) -> Iterator[tuple[str, str, Any, np.ndarray]]:
    """Yield both families of targets, whose means half of the columns change."""
    coef = rng.standard_normal(X.shape[1]) * (np.arange(X.shape[1]) % 2)
    margins = X @ coef
    margins *= 0.7 / margins.std()
    means = np.exp(margins)
    yield shape, "poisson", X, rng.poisson(means).astype(np.float64)
    yield shape, "gamma", X, rng.gamma(2.0, means / 2.0)


def searches(family: str, l1_ratio: float, alphas: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return what makes each search."""
    options = dict(family=family, l1_ratio=l1_ratio, **SEARCH)
    made: dict[str, Callable[[], Any]] = {
        "snapml": lambda: GeneralizedLinearRegressorCV(**options, n_threads=1),
        "snapml GridSearchCV": lambda: GridSearchCV(
            FAMILIES[family](l1_ratio=l1_ratio, n_threads=1), {"alpha": alphas}, cv=5
        ),
    }
    try:
        import glum
    except ImportError:
        print("glum is missing: its search is left out")
    else:
        made["glum"] = lambda: glum.GeneralizedLinearRegressorCV(**options)
    if l1_ratio == 0.0:
        theirs = getattr(sklearn.linear_model, FAMILIES[family].__name__)
        solver = "newton-cholesky"
        made["scikit-learn"] = lambda: sklearn.model_selection.GridSearchCV(
            theirs(solver=solver, max_iter=1000), {"alpha": alphas}, cv=5
        )
    return made


def main() -> None:
    """Run all searches by turns, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    facts, rows = machine_facts(), []
    for shape, family, X, y in problems():
        for l1_ratio in (0.0, 1.0):
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                first = GeneralizedLinearRegressorCV(family=family, l1_ratio=l1_ratio, **SEARCH)
                made = searches(family, l1_ratio, first.fit(X, y).alphas_)
                seconds: dict[str, list[float]] = {name: [] for name in made}
                for _ in range(given.repeats):
                    for name, make in made.items():
                        search = make()
                        began = time.perf_counter()
                        search.fit(X, y)
                        seconds[name].append(time.perf_counter() - began)
            ours = min(seconds["snapml"])
            for name, times in seconds.items():
                own = dict(shape=shape, family=family, l1_ratio=l1_ratio, search=name)
                own |= dict(seconds=min(times), times_snapml=min(times) / ours)
                print(*own.values(), flush=True)
                rows.append(own | facts)
    if given.out is not None:
        write_rows(given.out, rows)


if __name__ == "__main__":
    main()
