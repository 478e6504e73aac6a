"""Reads of X that the quasi-Newton solver needs to a relative suboptimality.

The count is the solver's own (`n_iter_`): fused passes, and those over its sample as a share of X,
rounded up and charged before the first full one. It leaves out the reading of the rows that a
curvature is made from; a column of its own, `curvature_reads`, counts them, again as a share of X.
Counts do not depend on how busy the machine is. Run from the repository's root::

    python -m benchmarks.passes --scale 0.1
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.measure import TARGETS
from benchmarks.problems import (
    PROBLEM_SETS,
    RECIPES,
    Problem,
    ProblemUnavailableError,
    expand_names,
    make_variants,
)
from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from benchmarks.reference import find_reference
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Softmax, Squared, SquaredHinge
from snapml.problems import Problem as LossProblem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton.quasi_newton import solve
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.stopping import StoppingRule

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "passes.csv"
DEFAULT_PROBLEMS = ("dense", "dense_tall_squared_hinge", "dense_tall_ridge", "dense_500_ridge")
# What the solver is asked for, so that its history goes beyond the tightest target.
_TOL = 1e-8
_MOST_READS = 200


def main() -> int:
    """Count reads on every problem at every C.

    Returns
    -------
    int
        Exit status: 1 if the tightest target was not reached somewhere.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems",
        nargs="+",
        default=DEFAULT_PROBLEMS,
        choices=[*PROBLEM_SETS, *RECIPES],
        metavar="NAME",
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--C", type=float, nargs="+", default=[0.01, 1.0, 100.0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--reference-s", type=float, default=60.0)
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    prepare_output(arguments.output, arguments.overwrite)
    all_reached = True
    for name in expand_names(arguments.problems):
        try:
            for problem in make_variants(name, arguments.scale, arguments.C, ()):
                row = count(problem, arguments.threads, arguments.reference_s)
                all_reached &= row[f"reads_to_{min(TARGETS):g}"] is not None
                write_rows(arguments.output, [row])
        except ProblemUnavailableError as error:
            print(f"skip problem {name}: {error}")
    return 0 if all_reached else 1


def make_primal_engine(problem: Problem, n_threads: int) -> CpuPrimalEngine:
    """Return the CPU engine of the primal methods on a problem with an L2 penalty.

    Parameters
    ----------
    problem : Problem
        Of any smooth loss.
    n_threads : int
        Threads of the engine.

    Returns
    -------
    CpuPrimalEngine
        At zero.
    """
    losses = {"logistic": Logistic, "squared": Squared, "squared_hinge": SquaredHinge}
    X = problem.X
    matrix = (
        CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data)
        if problem.is_sparse
        else DenseMatrix(X)
    )
    if problem.loss == "multinomial":
        loss: Any = Softmax(problem.n_classes)
    else:
        loss = losses[problem.loss]()
    labels = problem.signed_labels.astype(np.float32)
    dataset = Dataset(matrix, labels, None, problem.C)
    return CpuPrimalEngine(LossProblem(loss, Intercept.NONE), dataset, n_threads=n_threads)


def count(problem: Problem, n_threads: int, reference_s: float) -> dict[str, Any]:
    """Solve once and look up in the history when each target was met.

    Parameters
    ----------
    problem : Problem
        What to solve.
    n_threads : int
        Threads.
    reference_s : float
        Limit of the reference, in seconds.

    Returns
    -------
    dict
        A row of the results file; a count is None where the target was not met.
    """
    engine = make_primal_engine(problem, n_threads)
    counter = _CurvatureCounter(engine)
    start = time.perf_counter()
    result = solve(engine, SerialCommunicator(), StoppingRule(_TOL, _MOST_READS))
    seconds = time.perf_counter() - start
    coef = np.reshape(result.coef, problem.coef_shape).astype(np.float64)
    with threadpool_limits(1):
        reference = find_reference(problem, coef, reference_s)
    optimum = min(result.objective, np.inf if reference is None else reference.objective)
    values = [entry["objective"] for entry in result.history]
    gaps = [entry["gap"] for entry in result.history]
    extra = result.n_iter - len(result.history)
    row: dict[str, Any] = {
        "problem": problem.name,
        "loss": problem.loss,
        "scale": problem.scale,
        "n_rows": problem.X.shape[0],
        "n_features": problem.X.shape[1],
        "C": problem.C,
        "threads": n_threads,
        "sample_reads": extra,
    }
    for target in TARGETS:
        row[f"reads_to_{target:g}"] = _first(
            [(value - optimum) / optimum <= target for value in values], extra
        )
    row["reads_to_certified_1e-06"] = _first(
        [gap <= 1e-6 * value for gap, value in zip(gaps, values, strict=True)], extra
    )
    row |= {
        "reads_in_all": result.n_iter,
        "curvature_reads": counter.n_rows / problem.X.shape[0],
        "relative_gap": result.gap / result.objective,
        "has_converged": result.has_converged,
        "seconds": seconds,
        "description": result.description,
    }
    reads = " / ".join(str(row[f"reads_to_{target:g}"]) for target in TARGETS)
    print(
        f"{problem.name:26s} C={problem.C:<6g} {reads} reads, certified 1e-6 after "
        f"{row['reads_to_certified_1e-06']}, of the sample {extra}, "
        f"for curvatures {row['curvature_reads']:.2f}; {seconds:.3g} s, "
        f"{result.description}"
    )
    return row | machine_facts()


class _CurvatureCounter:
    """Counts the rows whose curvature an engine, or a sample of it, is asked for."""

    def __init__(self, engine: CpuPrimalEngine) -> None:
        self.n_rows = 0
        self._watch(engine)
        take_sample = engine.sample

        def sample(n_rows: int) -> CpuPrimalEngine:
            taken = take_sample(n_rows)
            self._watch(taken)
            return taken

        engine.sample = sample  # type: ignore[method-assign]

    def _watch(self, engine: CpuPrimalEngine) -> None:
        evaluate = engine.curvatures

        def curvatures(rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
            self.n_rows += engine.n_rows if rows is None else len(rows)
            return evaluate(rows)

        engine.curvatures = curvatures  # type: ignore[method-assign]


def _first(is_met: list[bool], extra: int) -> int | None:
    """Return the number of the first true entry, counted from 1, plus the sample's reads."""
    return next((extra + number for number, met in enumerate(is_met, 1) if met), None)


if __name__ == "__main__":
    raise SystemExit(main())
