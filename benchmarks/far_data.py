"""Certificates of least squares on shifted and scaled data, held against exact arithmetic.

Each fit's objective is recomputed for the coefficients as they are stored: sums of squares of
centred columns in the longest floating-point type, the intercept's distance from its best value in
rational numbers. The minimum comes from elimination, or coordinate descent with a last elimination
on the support, in the longest type. A certificate is *low* if the distance is more than `gap_`, a
fit is *silent* if the distance is more than its tolerance without a warning; both must never
happen. A row is a fit:

    python -m benchmarks.far_data --fits 5000 --out benchmarks/results/far_data.csv
"""

from __future__ import annotations

import argparse
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import machine_facts, write_rows
from snapml import ElasticNet, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV

_Wide = np.longdouble
_MODELS = ("LinearRegression", "Ridge", "RidgeCV", "Lasso", "ElasticNet", "LassoCV")


def solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the solution of a positive semidefinite system, by elimination with pivots."""
    A, b = matrix.astype(_Wide), right.astype(_Wide)
    n = len(b)
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, pivot]], b[[k, pivot]] = A[[pivot, k]], b[[pivot, k]]
        if A[k, k] == 0:
            continue
        for i in range(k + 1, n):
            factor = A[i, k] / A[k, k]
            A[i, k:] -= factor * A[k, k:]
            b[i] -= factor * b[k]
    x = np.zeros(n, _Wide)
    for k in range(n - 1, -1, -1):
        x[k] = (b[k] - A[k, k + 1 :] @ x[k + 1 :]) / A[k, k] if A[k, k] else 0
    return x


class Exact:
    """The objective ``sum c (x.w + b - y)^2 / 2 + l1 ||w||_1 + l2 ||w||^2 / 2`` of some data."""

    def __init__(
        self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, has_intercept: bool
    ) -> None:
        self.given = X, y, weights, has_intercept
        self.weights = weights.astype(_Wide)
        wide_X, wide_y = X.astype(_Wide), y.astype(_Wide)
        total = self.weights.sum()
        self.X = wide_X - (self.weights @ wide_X / total if has_intercept else 0)
        self.y = wide_y - (self.weights @ wide_y / total if has_intercept else 0)

    def beside(self, w: np.ndarray, b: float) -> Any:
        """Return the distance of b from its best value for w, exactly until the end."""
        X, y, weights, _ = self.given
        shares = [Fraction(float(c)) for c in weights]
        exact_w = [Fraction(float(value)) for value in w]
        total = Fraction(0)
        for row, target, share in zip(X, y, shares, strict=True):
            margin = sum(
                (Fraction(float(x)) * v for x, v in zip(row, exact_w, strict=True)), Fraction(0)
            )
            total += share * (margin - Fraction(float(target)))
        return _Wide(float(total / sum(shares) + Fraction(float(b))))

    def value(self, w: np.ndarray, b: float, l1: float, l2: float) -> Any:
        """Return the objective of stored coefficients."""
        wide_w, total = w.astype(_Wide), self.weights.sum()
        residual = self.X @ wide_w - self.y
        squares = self.weights @ residual**2
        if self.given[3]:
            residual -= self.weights @ residual / total
            squares = self.weights @ residual**2 + total * self.beside(w, b) ** 2
        return squares / 2 + l1 * np.abs(wide_w).sum() + _Wide(l2) * (wide_w @ wide_w) / 2

    def minimum(self, l1: float, l2: float) -> Any:
        """Return the least objective."""
        scale = np.sqrt((self.X**2).mean(axis=0))
        scale[scale == 0] = 1
        A = self.X / scale
        G = (A * self.weights[:, None]).T @ A + np.diag(_Wide(l2) / scale**2)
        g = A.T @ (self.weights * self.y)
        u = solved(G, g) if l1 == 0 else _descended(G, g, _Wide(l1) / scale)
        residual, w = A @ u - self.y, u / scale
        squares = self.weights @ residual**2
        return squares / 2 + l1 * np.abs(w).sum() + _Wide(l2) * (w @ w) / 2


def _descended(G: np.ndarray, g: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the minimum of ``u.G.u / 2 - g.u + sum thresholds |u|``."""
    u = np.zeros(len(g), _Wide)
    for sweep in range(3000):
        before = u.copy()
        for j in np.flatnonzero(G.diagonal()):
            z = g[j] - G[j] @ u + G[j, j] * u[j]
            u[j] = np.sign(z) * max(abs(z) - thresholds[j], _Wide(0)) / G[j, j]
        if np.abs(u - before).max() <= 1e-18 * max(np.abs(u).max(), _Wide(1e-30)):
            break
        support = u != 0
        if sweep % 50 == 49 and support.any():
            right = g[support] - thresholds[support] * np.sign(u[support])
            found = solved(G[np.ix_(support, support)], right)
            if (np.sign(found) == np.sign(u[support])).all():
                u[support] = found
    return u


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, bool]:
    """Return rows, targets, sample weights and whether there is an intercept."""
    n_rows, n_features = int(rng.choice([10, 40, 300])), int(rng.choice([1, 3, 8]))
    X = rng.normal(size=(n_rows, n_features))
    y = X @ rng.normal(size=n_features) + rng.choice([0.01, 0.3, 3.0]) * rng.normal(size=n_rows)
    X = X * 10.0 ** rng.integers(-3, 4, n_features)
    X += rng.choice([0.0, 0.0, 1e2, 1e5, 1e8, 1e12]) * rng.normal(size=n_features)
    y = y * 10.0 ** rng.integers(-3, 4) + rng.choice([0.0, 0.0, 1e2, 1e5, 1e8, 1e11])
    dtype = str(rng.choice(["float64", "float64", "float32"]))
    weights = None if rng.random() < 0.6 else (rng.random(n_rows) + 0.1).astype(dtype)
    return X.astype(dtype), y.astype(dtype), weights, bool(rng.random() < 0.8)


def make(name: str, alpha: float, has_intercept: bool, rng: np.random.Generator) -> Any:
    """Return an estimator."""
    own: dict[str, Any] = {"fit_intercept": has_intercept}
    if name == "LinearRegression":
        return LinearRegression(**own)
    if name == "Ridge":
        return Ridge(alpha, solver=str(rng.choice(["auto", "auto", "pqn", "sdca"])), **own)
    if name == "RidgeCV":
        return RidgeCV(alphas=(alpha, 10.0 * alpha), **own)
    if name == "LassoCV":
        return LassoCV(cv=2, alphas=5, **own)
    return (Lasso if name == "Lasso" else ElasticNet)(alpha, **own)


def strengths(model: Any) -> tuple[float, float, float]:
    """Return l1, l2, and what the model's objective is divided by."""
    name = type(model).__name__
    alpha = float(getattr(model, "alpha_", getattr(model, "alpha", 0.0)))
    if name.startswith("Ridge"):
        return 0.0, alpha, alpha
    if name == "LinearRegression":
        return 0.0, 0.0, 1.0
    share = 1.0 if name.startswith("Lasso") else model.l1_ratio
    return alpha * share, alpha * (1.0 - share), 1.0


def run(seed: int) -> dict[str, Any]:
    """Fit once and judge."""
    rng = np.random.default_rng(seed)
    X, y, sample_weight, has_intercept = draw(rng)
    model = make(str(rng.choice(_MODELS)), float(10.0 ** rng.integers(-4, 3)), has_intercept, rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sample_weight=sample_weight)
    weights = np.ones(len(y)) if sample_weight is None else sample_weight.astype(np.float64)
    if type(model).__name__.startswith(("Lasso", "Elastic")):
        shares = weights if sample_weight is None else sample_weight  # in their type, as in fit
        shares = (shares / shares.sum(dtype=np.float64)).astype(shares.dtype)
        weights = shares.astype(np.float64)
    exact = Exact(X, y, weights, has_intercept)
    l1, l2, divisor = strengths(model)
    value = exact.value(model.coef_, float(model.intercept_), l1, l2) / divisor
    distance = float(value - exact.minimum(l1, l2) / divisor)
    gap, eps = float(model.gap_), float(np.finfo(X.dtype).eps)
    tol = max(float(getattr(model, "tol", 1e-6)), 8.0 * eps)
    squares = float(0.5 * (exact.weights @ exact.y**2)) / divisor
    allowed = max(tol * float(value), (8.0 * eps) ** 2 * squares)
    # What the reference's own sums are rounded by.
    terms = float(np.abs(exact.y).max()) * np.sqrt(2.0 * abs(float(value * divisor)))
    rounding = 1e-14 * abs(float(value)) + 1e-19 * terms / divisor
    return {
        "seed": seed,
        "model": type(model).__name__,
        "n_rows": len(y),
        "n_features": X.shape[1],
        "dtype": X.dtype.name,
        "fit_intercept": has_intercept,
        "largest_column_mean": float(np.abs(X.mean(axis=0, dtype=np.float64)).max()),
        "target_mean": float(np.mean(y, dtype=np.float64)),
        "objective": float(value),
        "distance": distance,
        "gap": gap,
        "warned": bool(caught),
        "is_low": distance > gap * (1.0 + 1e-3) + rounding,
        "is_silent": not caught and distance > allowed + rounding,
        **machine_facts(),
    }


def main() -> None:
    """Run all, print the bad ones and the counts, and append to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    rows = []
    for seed in range(args.fits):
        rows.append(run(seed))
        if rows[-1]["is_silent"] or rows[-1]["is_low"]:
            print(list(rows[-1].items())[:14], flush=True)
    if args.out is not None:
        write_rows(args.out, rows)
    counts = {name: int(sum(r[name] for r in rows)) for name in ("is_silent", "is_low", "warned")}
    print(f"{len(rows)} fits: {counts}")


if __name__ == "__main__":
    main()
