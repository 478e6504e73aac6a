"""Poisson, Gamma and Tweedie regression beside scikit-learn and glum, on a made-up portfolio.

A row is a fit: the least time of several, which took turns, one thread each, and how far its
objective ends above the least that any of them, or a last fit to 1e-12, has found::

    python -m benchmarks.counts --out benchmarks/results/counts.csv
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
import sklearn.linear_model
from threadpoolctl import threadpool_limits

from benchmarks.records import machine_facts, write_rows
from snapml import GammaRegressor, PoissonRegressor, TweedieRegressor

N_ROWS, ALPHA = 678_013, 1e-4
POWER = 1.5
CLASSES = {"poisson": PoissonRegressor, "gamma": GammaRegressor, "tweedie": TweedieRegressor}
# Levels of the factors; with the two numbers 60 columns.
LEVELS = (6, 11, 22, 13, 12)


def make_portfolio(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows (dense, float64), counts, amounts and exposures."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(N_ROWS, 2))
    blocks, margins = [numbers], 0.2 * numbers[:, 0] - 0.1 * numbers[:, 1]
    for n_levels in LEVELS:
        shares = rng.dirichlet(np.full(n_levels, 2.0))
        level = rng.choice(n_levels, size=N_ROWS, p=shares)
        margins = margins + rng.normal(scale=0.3, size=n_levels)[level]
        blocks.append((level[:, None] == np.arange(1, n_levels)).astype(np.float64))
    X = np.hstack(blocks)
    X = np.hstack([X, rng.normal(size=(N_ROWS, 60 - X.shape[1]))]) if X.shape[1] < 60 else X
    exposure = rng.uniform(0.05, 1.0, N_ROWS)
    counts = rng.poisson(exposure * np.exp(margins - 2.3)).astype(np.float64)
    amounts = rng.gamma(1.5, 1000.0 * np.exp(0.5 * margins) / 1.5)
    return X, counts, amounts, exposure


def half_deviance(family: str, y: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return half the unit deviance of each row."""
    if family == "poisson":
        return np.asarray(scipy.special.kl_div(y, means))
    if family == "tweedie":
        return 2.0 * (np.sqrt(means) - np.sqrt(y)) ** 2 / np.sqrt(means)
    return y / means - np.log(y / means) - 1.0


def makers(family: str, l1_ratio: float) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the libraries and how they make a model that is as exact as asked for."""
    ours = CLASSES[family]
    more = {"power": POWER} if family == "tweedie" else {}
    yield "snapml", lambda: ours(alpha=ALPHA, l1_ratio=l1_ratio, tol=1e-6, n_threads=1, **more)
    if l1_ratio == 0.0:
        theirs = getattr(sklearn.linear_model, ours.__name__)
        common = {"alpha": ALPHA, "max_iter": 1000, **more}
        yield (
            "scikit-learn newton-cholesky",
            lambda: theirs(solver="newton-cholesky", tol=1e-5, **common),
        )
        yield "scikit-learn lbfgs", lambda: theirs(solver="lbfgs", tol=1e-5, **common)
    try:
        from glum import GeneralizedLinearRegressor
    except ImportError:
        return
    name = f"tweedie ({POWER})" if family == "tweedie" else family
    yield (
        "glum",
        lambda: GeneralizedLinearRegressor(
            family=name, alpha=ALPHA, l1_ratio=l1_ratio, link="log", gradient_tol=1e-6
        ),
    )


def run(family: str, l1_ratio: float, data: Any, repeats: int) -> list[dict[str, Any]]:
    """Fit by turns and return the rows of one problem."""
    X, counts, amounts, exposure = data
    y, weights = {
        "poisson": (counts / exposure, exposure),
        "tweedie": (counts * amounts / exposure, exposure),
        "gamma": (amounts, None),
    }[family]
    share = np.full(len(y), 1.0 / len(y)) if weights is None else weights / weights.sum()

    def objective(model: Any) -> float:
        w = np.asarray(model.coef_, dtype=np.float64)
        means = np.exp(X @ w + float(model.intercept_))
        penalty = l1_ratio * np.abs(w).sum() + (1.0 - l1_ratio) / 2 * w @ w
        return float(share @ half_deviance(family, y, means) + ALPHA * penalty)

    seconds: dict[str, list[float]] = {}
    ends: dict[str, float] = {}
    for _ in range(repeats):
        for name, make in makers(family, l1_ratio):
            began = time.perf_counter()
            model = make().fit(X, y, sample_weight=weights)
            seconds.setdefault(name, []).append(time.perf_counter() - began)
            ends[name] = objective(model)
    exact = next(make for name, make in makers(family, l1_ratio) if name == "snapml")()
    least = min(objective(exact.set_params(tol=1e-12).fit(X, y, weights)), *ends.values())
    return [
        {
            "family": family,
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
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    data, rows = make_portfolio(), []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers that stop early: their distance says so
        for family in CLASSES:
            for l1_ratio in (0.0, 1.0):
                rows += run(family, l1_ratio, data, args.repeats)
                for row in rows[-4:]:
                    print(*list(row.values())[:6], flush=True)
    if args.out is not None:
        write_rows(args.out, rows)


if __name__ == "__main__":
    main()
