"""Speed of the CPU engine's epoch on the click log, in nanoseconds per non-zero.

Timed in turn, several times: rows one by one in random order or in random blocks of 16; the
values stored, or left out because all of them are one; one thread or two. All of them run the
same compiled sweep, so that a ratio shows what one choice is worth. Run from the repository's
root::

    python -m benchmarks.epoch_speed --scale 0.1
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.problems import RECIPES, Problem, ProblemUnavailableError, make_problem
from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic
from snapml.problems import Problem as LossProblem
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "epoch_speed.csv"


@dataclass(frozen=True)
class Variant:
    """A row order, a way to store the matrix, and a number of threads."""

    name: str
    block_rows: int  # 1: every row on its own, plain random order
    has_values: bool  # False: all ones, found out by the engine
    n_threads: int


VARIANTS = (
    Variant("plain: single rows, stored values", 1, True, 1),
    Variant("single rows, no values", 1, False, 1),
    Variant("blocks of 16, stored values", 16, True, 1),
    Variant("blocks of 16, no values", 16, False, 1),
    Variant("blocks of 16, no values, 2 threads", 16, False, 2),
)


def time_epochs(problem: Problem, variant: Variant, n_epochs: int) -> list[float]:
    """Run epochs of dual coordinate ascent from nothing and time each.

    Building the engine, row norms and the like stay outside the clock; the permutation of each
    epoch and, with two threads, the merges stay inside.

    Parameters
    ----------
    problem : Problem
        Sparse logistic problem, float32 csr.
    variant : Variant
        Rows per random block (1: plain random order) and threads.
    n_epochs : int
        Epochs to run.

    Returns
    -------
    list of float
        Wall-clock seconds of each epoch, in order.
    """
    if variant.has_values:
        X = problem.X.copy()
        X.data[0] = np.nextafter(X.data[0], 2)  # no longer all equal, so all of them are read
        problem = replace(problem, X=X)
    engine = make_engine(problem, variant.n_threads)
    engine.block_rows = variant.block_rows
    seconds = []
    for epoch in range(n_epochs):
        start = time.perf_counter()
        engine.dual_epoch(epoch)
        seconds.append(time.perf_counter() - start)
    return seconds


def make_engine(
    problem: Problem, n_threads: int, *, column_scale: float = 1.0, is_centred: bool = True
) -> CpuEngine:
    """Return the CPU engine on a logistic problem.

    Parameters
    ----------
    problem : Problem
        Data, C, and whether there is an intercept.
    n_threads : int
        Threads of the engine.
    column_scale : float, default=1.0
        Factor on the length of a free intercept's column.
    is_centred : bool, default=True
        Whether dense columns are centred where there is a free intercept.

    Returns
    -------
    CpuEngine
        At beta = 0.
    """
    X = problem.X
    matrix = (
        CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data)
        if problem.is_sparse
        else DenseMatrix(X)
    )
    labels = problem.signed_labels.astype(np.float32)
    kind = Intercept.FREE if problem.fit_intercept else Intercept.NONE
    dataset = Dataset(matrix, labels, None, problem.C)
    return CpuEngine(
        LossProblem(Logistic(), kind),
        dataset,
        n_threads=n_threads,
        column_scale=column_scale,
        is_centred=is_centred,
    )


def main() -> int:
    """Measure, write one row per epoch, print medians and ratios.

    Returns
    -------
    int
        Exit status.
    """
    arguments = _parse_arguments()
    prepare_output(arguments.output, arguments.overwrite)
    try:
        problem = make_problem(arguments.problem, arguments.scale)
    except ProblemUnavailableError as error:
        raise SystemExit(f"{arguments.problem}: {error}") from error
    print(f"{problem.name}: {problem.X.shape}, {problem.n_nonzeros} non-zeros")
    time_epochs(problem.rows(slice(0, 1000)), VARIANTS[-1], 1)  # threads and code pages, untimed
    rows = measure(problem, arguments.repeats, arguments.epochs)
    write_rows(arguments.output, rows)
    print(report(rows))
    return 0


def _parse_arguments() -> argparse.Namespace:
    """Define the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="click_log", choices=RECIPES, metavar="NAME")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=4, help="epochs of each run")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    return parser.parse_args()


def measure(problem: Problem, n_repeats: int, n_epochs: int) -> list[dict[str, Any]]:
    """Time all variants in turn, `n_repeats` times.

    Parameters
    ----------
    problem : Problem
        The click log.
    n_repeats : int
        Rounds; every round runs each variant once.
    n_epochs : int
        Epochs of each run.

    Returns
    -------
    list of dict
        One row per epoch.
    """
    facts = machine_facts()
    rows = []
    for repeat in range(n_repeats):
        for variant in VARIANTS:
            load_average = round(os.getloadavg()[0], 2)
            for epoch, seconds in enumerate(time_epochs(problem, variant, n_epochs)):
                rows.append(
                    {
                        "problem": problem.name,
                        "scale": problem.scale,
                        "n_rows": problem.X.shape[0],
                        "n_features": problem.X.shape[1],
                        "n_nonzeros": problem.n_nonzeros,
                        "variant": variant.name,
                        "block_rows": variant.block_rows,
                        "has_values": variant.has_values,
                        "threads": variant.n_threads,
                        "repeat": repeat,
                        "epoch": epoch,
                        "seconds": seconds,
                        "ns_per_nonzero": 1e9 * seconds / problem.n_nonzeros,
                        "load_average": load_average,
                    }
                    | facts
                )
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    """Medians over all epochs but each run's first, and ratios to the first variant.

    The first epoch is set apart: it touches the duals' pages for the first time and solves
    every coordinate from a cold start. It is in the CSV and in its own column here.

    Parameters
    ----------
    rows : list of dict
        What `measure` returned.

    Returns
    -------
    str
        A Markdown table.
    """
    lines = [
        "| variant | ns/nz, first epoch | ns/nz, later epochs | share of plain | speed-up |",
        "|---|---|---|---|---|",
    ]
    baseline = _median_ns(rows, VARIANTS[0].name, is_first=False)
    for variant in VARIANTS:
        first = _median_ns(rows, variant.name, is_first=True)
        later = _median_ns(rows, variant.name, is_first=False)
        share, gain = later / baseline, baseline / later
        lines.append(f"| {variant.name} | {first:.2f} | {later:.2f} | {share:.3f} | {gain:.2f} |")
    return "\n".join(lines)


def _median_ns(rows: list[dict[str, Any]], variant: str, is_first: bool) -> float:
    """Median nanoseconds per non-zero of a variant's first, or later, epochs."""
    values = [
        row["ns_per_nonzero"]
        for row in rows
        if row["variant"] == variant and (row["epoch"] == 0) == is_first
    ]
    return median(values) if values else float("nan")


if __name__ == "__main__":
    raise SystemExit(main())
