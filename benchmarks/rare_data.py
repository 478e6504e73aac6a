"""Rare classes, rare columns, few weights and far columns, judged by an independent Newton method.

Each fit is compared with the least objective that damped Newton steps on all rows find in float64.
A fit is *silent* if it gave no warning and is further above the minimum than its tolerance and its
gap allow, and its certificate is *low* if the distance is more than `gap_`; both must never happen.
A row is a fit:

    python -m benchmarks.rare_data --fits 600 --out benchmarks/results/rare_data.csv
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.records import machine_facts, write_rows
from snapml import LinearSVC, LogisticRegression

_KINDS = ("rare class", "rare column", "few weights", "rare class and column", "far columns")


@dataclass(frozen=True)
class Sums:
    """The objective of two classes, in float64: logistic, or squared hinge; sums over all rows."""

    Z: np.ndarray  # with a column of ones
    signs: np.ndarray
    weights: np.ndarray
    ridge: np.ndarray
    is_logistic: bool

    def value(self, point: np.ndarray) -> float:
        """Return the objective."""
        margins = self.signs * (self.Z @ point)
        if self.is_logistic:
            losses = np.logaddexp(0.0, -margins)
        else:
            losses = np.maximum(0.0, 1.0 - margins) ** 2
        return float(self.weights @ losses + 0.5 * self.ridge @ point**2)

    def step(self, point: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the Newton step and its squared decrement."""
        margins = self.signs * (self.Z @ point)
        if self.is_logistic:
            p = 1.0 / (1.0 + np.exp(np.clip(margins, -700.0, 700.0)))
            slopes, curvatures = -p, p * (1.0 - p)
        else:
            slopes = -2.0 * np.maximum(0.0, 1.0 - margins)
            curvatures = 2.0 * (margins < 1.0)
        gradient = self.Z.T @ (self.weights * self.signs * slopes) + self.ridge * point
        hessian = (self.Z * (self.weights * curvatures)[:, None]).T @ self.Z + np.diag(self.ridge)
        root = np.sqrt(np.maximum(hessian.diagonal(), 1e-300))
        scaled = np.linalg.lstsq(hessian / root / root[:, None], gradient / root, rcond=1e-13)[0]
        return scaled / root, float(gradient @ (scaled / root))

    def minimum(self) -> float:
        """Return the least objective that damped Newton steps find."""
        point = np.zeros(self.Z.shape[1])
        value = self.value(point)
        for _ in range(300):
            step, decrement = self.step(point)
            length = 1.0
            if not decrement > 1e-13 * max(value, 1e-9):
                break
            while length > 1e-9:
                trial = self.value(point - length * step)
                if trial <= value - 1e-4 * length * decrement:
                    break
                length /= 2.0
            if length <= 1e-9:
                break
            point, value = point - length * step, trial
        return value


def draw(rng: np.random.Generator) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    """Return a kind of data, rows, labels 0 and 1, and weights."""
    kind = str(rng.choice(_KINDS))
    n_rows, n_features = int(rng.choice([3000, 8000, 20_000, 60_000])), int(rng.choice([3, 10, 30]))
    n_rare = int(rng.choice([2, 5, 10, 50]))
    X, weights = rng.normal(size=(n_rows, n_features)), np.ones(n_rows)
    margins = 2.0 * X[:, 0] + X[:, 1] + rng.logistic(size=n_rows)
    y = (margins > 0.0).astype(int)
    if "class" in kind:
        y = np.zeros(n_rows, int)
        y[np.argsort(-margins)[:n_rare]] = 1
        if rng.random() < 0.7:
            weights = np.where(y == 1, n_rows / 2 / n_rare, n_rows / 2 / (n_rows - n_rare))
    if "column" in kind and kind != "far columns":
        rows = rng.choice(n_rows, n_rare, replace=False)
        X[:, -1] = 0.0
        X[rows, -1] = rng.choice([1.0, 1e3, 1e-3])
        if kind == "rare column":
            y[rows] = rng.random(n_rare) < 0.7
    if kind == "few weights":
        weights = np.full(n_rows, rng.choice([0.0, 1e-3]))
        rows = rng.choice(n_rows, 4 * n_rare + 40, replace=False)
        weights[rows] = rng.choice([1.0, 100.0])
    if kind == "far columns":
        X[:, 1] += rng.choice([1e3, 1e5])
        X[:, 2] *= rng.choice([1e-4, 1e4])
    return kind, X, y, weights


def run(seed: int) -> dict[str, Any]:
    """Fit once and judge."""
    rng = np.random.default_rng(seed)
    kind, X, y, weights = draw(rng)
    is_logistic = bool(rng.random() < 0.6)
    cost = float(rng.choice([0.01, 1.0, 100.0, np.inf if is_logistic else 1000.0]))
    dtype, layout = str(rng.choice(["float64", "float32"])), str(rng.choice(["dense", "CSR"]))
    X = X.astype(dtype)
    model = LogisticRegression(C=cost) if is_logistic else LinearSVC(C=cost)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(csr_matrix(X) if layout == "CSR" else X, y, sample_weight=weights)
    seconds = time.perf_counter() - began
    is_free = np.isinf(cost)
    ridge = np.full(X.shape[1] + 1, 0.0 if is_free else 1.0)
    if is_logistic:
        ridge[-1] = 0.0  # LinearSVC penalises the intercept
    Z = np.column_stack([X.astype(np.float64), np.ones(len(X))])
    sums = Sums(
        Z, np.where(y > 0, 1.0, -1.0), weights * (1.0 if is_free else cost), ridge, is_logistic
    )
    least = sums.minimum()
    value = sums.value(np.append(model.coef_.ravel(), model.intercept_).astype(np.float64))
    gap, distance = float(np.max(model.gap_)), value - least
    # The two sums differ by their rounding.
    rounding = 1e-9 * abs(value) + 1e-10 * sums.weights.sum()
    return {
        "seed": seed,
        "data": kind,
        "n_rows": len(X),
        "n_features": X.shape[1],
        "model": type(model).__name__,
        "C": cost,
        "layout": layout,
        "dtype": dtype,
        "objective": value,
        "minimum": least,
        "gap": gap,
        "warned": bool(caught),
        "is_silent": not caught and distance > max(gap, model.tol * least) + rounding,
        "is_low": distance > gap + rounding,
        "n_reads": int(np.max(model.n_iter_)),
        "seconds": round(seconds, 4),
        **machine_facts(),
    }


def main() -> None:
    """Run all, print the bad ones and the counts, and append to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=600)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    rows = []
    for seed in range(args.fits):
        rows.append(run(seed))
        if rows[-1]["is_silent"] or rows[-1]["is_low"]:
            print(rows[-1], flush=True)
    if args.out is not None:
        write_rows(args.out, rows)
    counts = {name: sum(row[name] for row in rows) for name in ("is_silent", "is_low", "warned")}
    print(f"{len(rows)} fits: {counts}")


if __name__ == "__main__":
    main()
