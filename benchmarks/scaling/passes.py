"""Passes and rounds to a certified gap, against the number of workers that share the rows.

Workers are threads of one process, each with neighbouring rows, that sum as ranks do; counts do
not depend on the machine or its load. The quasi-Newton method reads the rows once a pass,
coordinate ascent once a round. Run from the repository's root::

    python -m benchmarks.scaling.passes --output benchmarks/results/rank_passes.csv

Ways of putting the workers' steps together:

safe
    sigma' is the number of workers (CoCoA+); all go the whole way.
measured
    sigma' as the last rounds needed it; all go the whole way.
measured, searched
    The same, and the best step on the sum of the changes.
one, searched
    sigma' = 1, and the best step.
turns
    What `snapml` does: the safe factor, then twice 1, and the best step.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.real_data import REAL_SETS, binary_labels, load_real_set
from benchmarks.records import REPOSITORY_ROOT, prepare_output, write_rows
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Hinge, Intercept, Logistic, Loss, Problem, Squared, SquaredHinge
from snapml.solvers.communicator import Communicator
from snapml.solvers.dual_ascent import dual_coordinate_ascent
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.shard_merge import ShardMerge
from snapml.solvers.engine import Engine
from snapml.solvers.newton import quasi_newton
from snapml.solvers.plan.thread_shards import row_shards, solve_together
from snapml.solvers.result import FitResult
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.stopping import StoppingRule

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "rank_passes.csv"
WORKERS = (1, 2, 4, 8, 16, 32, 64)
LOSSES: dict[str, Loss] = {
    "logistic": Logistic(),
    "squared": Squared(),
    "hinge": Hinge(),
    "squared hinge": SquaredHinge(),
}
# Name of the set; C; losses; rows at most.
PROBLEMS: dict[str, tuple[float, tuple[str, ...], int]] = {
    "a9a": (0.01, ("logistic", "hinge"), 32_561),
    "covtype_20k": (0.01, ("logistic", "squared hinge"), 20_000),
    "news20_comp": (1.0, ("logistic", "hinge", "squared hinge"), 11_314),
    "random": (1.0, ("logistic", "squared", "hinge"), 20_000),
    "random, sorted": (1.0, ("logistic",), 20_000),
}
_MOST_PASSES = 100


class SafeMerge(ShardMerge):
    """The safe factor, and the whole step."""

    def _step(self, rise: float, pull: float, joint: float) -> float:
        return 1.0

    def _next_sigma(self) -> float:
        return self.sigma


class SearchedMerge(ShardMerge):
    """The factor as the last epochs needed it, and the best step."""

    def _next_sigma(self) -> float:
        wanted = float(np.clip(1.1 * self.needed, 1.0, self._communicator.size))
        return wanted if wanted > self.sigma else 0.9 * self.sigma + 0.1 * wanted


class MeasuredMerge(SearchedMerge):
    """The same factor, and the whole step."""

    def _step(self, rise: float, pull: float, joint: float) -> float:
        return 1.0


class OneMerge(ShardMerge):
    """No factor, and the best step."""

    def __init__(self, engine: Engine, communicator: Communicator) -> None:
        super().__init__(engine, communicator)
        self.sigma = 1.0

    def _next_sigma(self) -> float:
        return 1.0


WAYS: dict[str, type[ShardMerge]] = {
    "safe": SafeMerge,
    "measured": MeasuredMerge,
    "measured, searched": SearchedMerge,
    "one, searched": OneMerge,
    "turns": ShardMerge,
}


def main() -> int:
    """Count on every problem, for every number of workers.

    Returns
    -------
    int
        Exit status: 1 if the quasi-Newton method needed more than one pass more than alone.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--workers", nargs="+", type=int, default=WORKERS)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--most-rounds", type=int, default=300)
    parser.add_argument("--tols", nargs="+", type=float, default=[1e-3, 1e-6])
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    prepare_output(arguments.output, arguments.overwrite)
    grows = False
    for name in arguments.problems:
        cost, losses, _ = PROBLEMS[name]
        X, y = data(name)
        for loss in losses:
            whole = Dataset(matrix_of(X), y.astype(X.dtype), None, cost)
            facts = {"data": name, "rows": len(y), "columns": X.shape[1], "C": cost, "loss": loss}
            alone = None
            for row in count(LOSSES[loss], whole, arguments):
                if row["method"] == "quasi-Newton":
                    alone = row["reads"] if alone is None else alone
                    grows |= row["reads"] > alone + 1
                print(facts | row, flush=True)
                write_rows(arguments.output, [facts | row])
    return int(grows)


def data(name: str) -> tuple[Any, np.ndarray]:
    """Return rows in float32 and labels -1 and +1, or any for least squares."""
    most = PROBLEMS[name][2]
    rng = np.random.default_rng(0)
    if not name.startswith("random"):
        X, labels = load_real_set(REAL_SETS[name], rng, 1.0)
        X, labels = X[:most], labels[:most]
        if not sparse.issparse(X):
            X = ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-6)).astype(np.float32)
        return X, 2.0 * binary_labels(REAL_SETS[name], labels) - 1.0
    X = (rng.normal(size=(most, 60)) / np.sqrt(60)).astype(np.float32)
    margins = X @ rng.normal(size=60) + 0.3 * rng.normal(size=most)
    if name.endswith("sorted"):
        order = np.argsort(margins, kind="stable")
        X, margins = X[order], margins[order]
    return X, np.sign(margins)


def matrix_of(X: Any) -> CompressedMatrix | DenseMatrix:
    """Return the library's view of the rows."""
    if not sparse.issparse(X):
        return DenseMatrix(np.ascontiguousarray(X))
    return CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data)


def count(loss: Loss, whole: Dataset, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Return the reads of both methods, for every number of workers and both gaps."""
    problem = Problem(loss, Intercept.FREE if loss.is_smooth else Intercept.PENALISED)
    for n_workers in arguments.workers:
        for tol in arguments.tols:
            if loss.is_smooth and tol == min(arguments.tols):
                found = quasi_newton_reads(problem, whole, n_workers, tol)
                yield row_of("quasi-Newton", "", n_workers, tol, found)
            for way in arguments.ways if n_workers > 1 else arguments.ways[-1:]:
                rule = StoppingRule(tol, arguments.most_rounds)
                found = coordinate_ascent_rounds(problem, whole, n_workers, rule, WAYS[way])
                yield row_of("coordinate ascent", way, n_workers, tol, found)


def row_of(method: str, way: str, n_workers: int, tol: float, result: FitResult) -> dict[str, Any]:
    """Return a row of the results file; `reads` are those until the end, converged or not."""
    return {
        "method": method,
        "way": way,
        "workers": n_workers,
        "tol": tol,
        "reads": result.n_iter,
        "has_converged": result.has_converged,
        "relative_gap": float(f"{result.gap / abs(result.objective):.3g}"),
    }


def quasi_newton_reads(problem: Problem, whole: Dataset, n_workers: int, tol: float) -> FitResult:
    """Return the model of the quasi-Newton method."""

    def solve(shard: Dataset, communicator: Communicator) -> FitResult:
        engine = CpuPrimalEngine(problem, shard, n_threads=1)
        return quasi_newton.solve(engine, communicator, StoppingRule(tol, _MOST_PASSES))

    return together(solve, whole, n_workers)


def coordinate_ascent_rounds(
    problem: Problem,
    whole: Dataset,
    n_workers: int,
    rule: StoppingRule,
    way: type[ShardMerge],
) -> FitResult:
    """Return the model of coordinate ascent; small data go on to rounding level for nobody."""

    def solve(shard: Dataset, communicator: Communicator) -> FitResult:
        engine = CpuEngine(problem, shard, n_threads=1, seed=communicator.rank)
        engine.free_visits = 0
        return dual_coordinate_ascent.solve(engine, communicator, rule)

    plain = dual_coordinate_ascent.ShardMerge
    dual_coordinate_ascent.ShardMerge = way  # type: ignore[misc]
    try:
        return together(solve, whole, n_workers)
    finally:
        dual_coordinate_ascent.ShardMerge = plain  # type: ignore[misc]


def together(
    solve: Callable[[Dataset, Communicator], FitResult], whole: Dataset, n_workers: int
) -> FitResult:
    """Return the model of all workers, which is one."""
    shards = row_shards(whole, n_workers)
    return solve_together([partial(solve, shard) for shard in shards])[0]


if __name__ == "__main__":
    threading.stack_size(1 << 20)  # 64 threads need no more
    raise SystemExit(main())
