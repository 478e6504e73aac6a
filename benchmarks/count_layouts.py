"""Counts on categories alone, and on sparse rows, beside glum and scikit-learn.

*Categories* is the portfolio of `counts` with its numbers cut into ten: seven entries a row, all of
them one. snapml gets their indices, glum a frame of categorical columns, scikit-learn the sparse
matrix. *Sparse* is 1,000,000 rows of 30 entries in 100,000 columns, where glum and scikit-learn
have L-BFGS alone: other methods form a Hessian of 80 GB. One thread, by turns, the least time of
several, to 1e-6 of the minimum or what each library calls converged::

    python -m benchmarks.count_layouts --out benchmarks/results/count_layouts.csv
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import sklearn.linear_model
from threadpoolctl import threadpool_limits

from benchmarks.counts import ALPHA, LEVELS, N_ROWS, half_deviance
from benchmarks.records import machine_facts, write_rows
from snapml import GammaRegressor, PoissonRegressor
from snapml.data import CompressedMatrix

BINS = 10
SPARSE_ROWS, SPARSE_COLUMNS, SPARSE_ENTRIES = 1_000_000, 100_000, 30
CLASSES = {"poisson": PoissonRegressor, "gamma": GammaRegressor}


class Problem(NamedTuple):
    """One problem as each library takes it."""

    layout: str
    family: str
    rows: dict[str, Any]
    y: np.ndarray
    weights: np.ndarray | None


def categories(seed: int = 0) -> Iterator[Problem]:
    """Yield claims and their amounts, by what policies have in common."""
    rng = np.random.default_rng(seed)
    codes = np.empty((N_ROWS, len(LEVELS) + 2), dtype=np.int32)
    margins = np.zeros(N_ROWS)
    for k, n_levels in enumerate((*LEVELS, BINS, BINS)):
        shares = rng.dirichlet(np.full(n_levels, 2.0))
        codes[:, k] = rng.choice(n_levels, size=N_ROWS, p=shares)
        margins += rng.normal(scale=0.3, size=n_levels)[codes[:, k]]
    exposure = rng.uniform(0.05, 1.0, N_ROWS)
    counts = rng.poisson(exposure * np.exp(margins - 2.3)).astype(np.float64)
    rows = _as_rows(codes, (*LEVELS, BINS, BINS))
    yield Problem("categories", "poisson", rows, counts / exposure, exposure)
    amounts = rng.gamma(1.5, 1000.0 * np.exp(0.5 * margins) / 1.5)
    yield Problem("categories", "gamma", rows, amounts, None)


def _as_rows(codes: np.ndarray, levels: tuple[int, ...]) -> dict[str, Any]:
    """Return rows of ones for each library."""
    firsts = np.cumsum((0, *levels[:-1])).astype(np.int32)
    indices = np.ascontiguousarray((codes + firsts).ravel())
    indptr = np.arange(0, indices.size + 1, codes.shape[1], dtype=np.int32)
    n_columns = int(sum(levels))
    matrix = scipy.sparse.csr_matrix(
        (np.ones(indices.size), indices, indptr), (len(codes), n_columns)
    )
    rows: dict[str, Any] = {
        "snapml": CompressedMatrix(indptr, indices, n_columns, dtype=np.float64),
        "scikit-learn": matrix,
    }
    try:
        import pandas as pd
    except ImportError:
        return rows
    columns = {
        f"c{k}": pd.Categorical.from_codes(codes[:, k], categories=range(n_levels))
        for k, n_levels in enumerate(levels)
    }
    return rows | {"glum": pd.DataFrame(columns)}


def sparse(seed: int = 0) -> Iterator[Problem]:
    """Yield counts of rows that leave most of many columns empty."""
    rng = np.random.default_rng(seed)
    size = SPARSE_ROWS * SPARSE_ENTRIES
    # Common columns and rare ones, as words are.
    indices = (SPARSE_COLUMNS * rng.random(size) ** 3).astype(np.int32)
    indptr = np.arange(0, size + 1, SPARSE_ENTRIES, dtype=np.int32)
    values = rng.exponential(size=size)
    X = scipy.sparse.csr_matrix((values, indices, indptr), (SPARSE_ROWS, SPARSE_COLUMNS))
    X.sum_duplicates()
    margins = X @ rng.normal(scale=0.1, size=SPARSE_COLUMNS)
    y = rng.poisson(np.exp(margins - 1.0)).astype(np.float64)
    yield Problem(
        "sparse", "poisson", dict.fromkeys(("snapml", "glum", "scikit-learn"), X), y, None
    )


def makers(problem: Problem, l1_ratio: float) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the libraries that have rows and a method, and how they make a model."""
    ours, is_wide = CLASSES[problem.family], problem.layout == "sparse"
    yield "snapml", lambda: ours(alpha=ALPHA, l1_ratio=l1_ratio, tol=1e-6, n_threads=1)
    if l1_ratio == 0.0:
        theirs = getattr(sklearn.linear_model, ours.__name__)
        solver = "lbfgs" if is_wide else "newton-cholesky"
        yield "scikit-learn", lambda: theirs(alpha=ALPHA, max_iter=1000, tol=1e-5, solver=solver)
    if "glum" not in problem.rows or (is_wide and l1_ratio > 0.0):
        return
    try:
        from glum import GeneralizedLinearRegressor
    except ImportError:
        return
    options = dict(family=problem.family, alpha=ALPHA, l1_ratio=l1_ratio, link="log")
    options |= dict(solver="lbfgs", max_iter=1000) if is_wide else {}
    yield "glum", lambda: GeneralizedLinearRegressor(**options, gradient_tol=1e-6)


def run(problem: Problem, l1_ratio: float, repeats: int) -> list[dict[str, Any]]:
    """Fit by turns and return the rows of one problem."""
    y, weights = problem.y, problem.weights
    share = np.full(len(y), 1.0 / len(y)) if weights is None else weights / weights.sum()

    def objective(model: Any) -> float:
        w = np.asarray(model.coef_, dtype=np.float64)
        means = np.exp(problem.rows["scikit-learn"] @ w + float(model.intercept_))
        penalty = l1_ratio * np.abs(w).sum() + (1.0 - l1_ratio) / 2 * w @ w
        return float(share @ half_deviance(problem.family, y, means) + ALPHA * penalty)

    seconds: dict[str, list[float]] = {}
    ends: dict[str, float] = {}
    for _ in range(repeats):
        for name, make in makers(problem, l1_ratio):
            began = time.perf_counter()
            model = make().fit(problem.rows[name], y, sample_weight=weights)
            seconds.setdefault(name, []).append(time.perf_counter() - began)
            ends[name] = objective(model)
    exact = CLASSES[problem.family](alpha=ALPHA, l1_ratio=l1_ratio, tol=1e-10, max_iter=1000)
    least = min(objective(exact.fit(problem.rows["snapml"], y, weights)), *ends.values())
    return [
        {
            "layout": problem.layout,
            "family": problem.family,
            "l1_ratio": l1_ratio,
            "library": name,
            "seconds": min(times),
            "times_snapml": min(times) / min(seconds["snapml"]),
            "relative_distance": (ends[name] - least) / least,
            "repeats": len(times),
            **machine_facts(),
        }
        for name, times in seconds.items()
    ]


def main() -> None:
    """Run all problems, print and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--layouts", nargs="+", default=["categories", "sparse"])
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    made, rows = {"categories": categories, "sparse": sparse}, []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers that stop early: their distance says so
        for layout in args.layouts:
            for problem in made[layout]():
                for l1_ratio in (0.0, 1.0):
                    found = run(problem, l1_ratio, args.repeats)
                    rows += found
                    for row in found:
                        print(*list(row.values())[:7], flush=True)
    if args.out is not None:
        write_rows(args.out, rows)


if __name__ == "__main__":
    main()
