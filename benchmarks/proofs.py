"""How far the bound of second order is above the truth, on random fits without a penalty.

A row is a point of a fit: what `snapml.solvers.newton.second_order` proves of its objective beside
its distance from a minimum that Newton's method finds in 80-bit arithmetic::

    python -m benchmarks.proofs --out benchmarks/results/proofs.csv
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import machine_facts, write_rows
from snapml.data import Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Loss, Penalty, Poisson, Problem, Tweedie
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton.curvature import DenseCurvature
from snapml.solvers.newton.second_order import prove
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine

FAMILIES: dict[str, Loss] = {
    "binomial": Logistic(),
    "poisson": Poisson(),
    "gamma": Poisson(),  # of a count of 1 at the opposite margin
    "tweedie 1.5": Tweedie(1.5),
}
SHAPES = ((100, 3), (1000, 9), (4000, 9), (2000, 40))
# Of Newton's steps from zero: each is a point.
MOST_STEPS = 12


class Terms:
    """A loss and its derivatives in 80 bits, where NumPy has them."""

    def __init__(self, family: str, A: np.ndarray, y: np.ndarray, offsets: np.ndarray) -> None:
        self._family = family
        self._A, self._y = A.astype(np.longdouble), y.astype(np.longdouble)
        self._offsets = offsets.astype(np.longdouble)

    def at(self, coef: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return the objective, its gradient and, in float64, its Hessian."""
        z, y = self._A @ coef + self._offsets, self._y
        if self._family == "binomial":
            p = 1 / (1 + np.exp(y * z))
            value, slope, curvature = np.logaddexp(0, -y * z), -y * p, p * (1 - p)
        elif self._family == "tweedie 1.5":
            up, down = np.exp(z / 2), y * np.exp(-z / 2)
            value, slope, curvature = 2 * up + 2 * down - 4 * np.sqrt(y), up - down, (up + down) / 2
        else:
            mean, some = np.exp(z), np.where(y > 0, y, 1)
            value = mean - y * z + y * np.log(some) - y
            slope, curvature = mean - y, mean
        hessian = (self._A.T * curvature) @ self._A
        return value.sum(), slope @ self._A, hessian.astype(np.float64)

    def path(self) -> tuple[list[np.ndarray], Any]:
        """Return the points of Newton's method from zero, and the minimum."""
        coef = np.zeros(self._A.shape[1], np.longdouble)
        value, gradient, hessian = self.at(coef)
        points = [coef]
        for _ in range(100):
            step, size = np.linalg.solve(hessian, gradient.astype(np.float64)), 1.0
            while size > 1e-9 and not self.at(coef - size * step)[0] < value:
                size /= 2.0
            if size <= 1e-9:
                break
            coef = coef - size * step
            value, gradient, hessian = self.at(coef)
            points.append(coef)
        return points, value


def problems(n_seeds: int) -> Iterator[tuple[str, int, tuple[int, int], Any]]:
    """Yield families, seeds and shapes with rows, labels and offsets; one column is skewed."""
    for family in FAMILIES:
        for shape in SHAPES:
            for seed in range(n_seeds):
                rng = np.random.default_rng(seed)
                X = rng.normal(size=shape)
                X[:, 0] = np.exp(X[:, 0])
                z = X @ rng.normal(scale=0.3 / np.sqrt(shape[1]), size=shape[1]) + 0.2
                offsets = np.zeros(len(z))
                if family == "binomial":
                    y = np.where(rng.random(len(z)) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
                elif family == "gamma":
                    amounts = rng.gamma(2.0, np.exp(z) / 2.0)
                    y, offsets, X = np.ones(len(z)), np.log(amounts), -X
                elif family == "poisson":
                    y = rng.poisson(np.exp(z)).astype(float)
                else:
                    counts = rng.poisson(np.exp(z))
                    y = rng.gamma(np.maximum(counts, 1)) * (counts > 0)
                yield family, seed, shape, (X, y, offsets)


def rows_of(family: str, seed: int, data: Any) -> Iterator[dict[str, Any]]:
    """Yield what is proved at each point, beside the truth."""
    X, y, offsets = data
    A = np.column_stack([X, -np.ones(len(y)) if family == "gamma" else np.ones(len(y))])
    points, least = Terms(family, A, y, offsets).path()
    problem = Problem(FAMILIES[family], Intercept.FREE, 1.0, Penalty(l1=0.0, l2=0.0))
    dataset = Dataset(DenseMatrix(X), y, None, 1.0, offsets=offsets)
    engine, shards = CpuPrimalEngine(problem, dataset, n_threads=1), SerialCommunicator()
    for number, exact in enumerate(points[: MOST_STEPS + 1]):
        point = exact.astype(np.float64)
        at_point = Terms(family, A, y, offsets).at(point.astype(np.longdouble))[0]
        distance = float(at_point - least)
        if distance <= 1e-13 * float(least):  # of which float64 sees nothing
            continue
        coef = point[None].copy()
        coef[0, -1] *= -1.0 if family == "gamma" else 1.0
        _, gradient, _ = engine.fused_pass(coef)
        engine.accept()
        proof = prove(engine, shards, DenseCurvature(engine, shards), gradient)
        yield {
            "family": family,
            "n_rows": len(y),
            "n_columns": X.shape[1],
            "seed": seed,
            "step": number,
            "relative_distance": distance / float(least),
            "ratio": "" if proof is None else proof.gap / distance,
            "is_proved": proof is not None,
        }


def main() -> None:
    """Run all problems, print how tight the bounds are and write every point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for family, seed, _, data in problems(args.seeds):
        rows += [{**row, **machine_facts()} for row in rows_of(family, seed, data)]
    for family in FAMILIES:
        own = [row for row in rows if row["family"] == family]
        ratios = np.array([row["ratio"] for row in own if row["is_proved"]])
        print(
            f"{family}: {len(own)} points, {len(ratios)} proved, bound over truth: least "
            f"{ratios.min():.6f}, median {np.median(ratios):.3f}, largest {ratios.max():.3f}"
        )
    if args.out is not None:
        write_rows(args.out, rows)


if __name__ == "__main__":
    main()
