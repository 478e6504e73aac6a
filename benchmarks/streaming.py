"""Rate of a fused pass (margins, loss and gradient) against the machine's rate of reading X.

The plain read is the faster of two loops over the same float32 array, NumPy's sum and BLAS's inner
product with itself, each thread on its own contiguous part. The pass and the reads are timed in
turn. Run from the repository's root, on a machine with nothing else to do::

    python -m benchmarks.streaming
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.passes import make_primal_engine
from benchmarks.problems import RECIPES, Problem, make_problem
from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "streaming.csv"
DEFAULT_PROBLEMS = ("dense_500", "dense_2000", "higgs_like", "dense_tall")


def main() -> int:
    """Time passes and reads, write one row per measurement, print the shares.

    Returns
    -------
    int
        Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems", nargs="+", default=DEFAULT_PROBLEMS, choices=RECIPES, metavar="NAME"
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    prepare_output(arguments.output, arguments.overwrite)
    for name in arguments.problems:
        problem = make_problem(name, arguments.scale)
        if problem.is_sparse:
            print(f"skip {name}: sparse")
            continue
        for n_threads in arguments.threads:
            rows = measure(problem, n_threads, arguments.repeats)
            write_rows(arguments.output, rows)
            print(report(rows))
    return 0


def measure(problem: Problem, n_threads: int, n_repeats: int) -> list[dict[str, Any]]:
    """Time the pass and the plain reads in turn.

    Parameters
    ----------
    problem : Problem
        Dense.
    n_threads : int
        Threads of each.
    n_repeats : int
        Rounds.

    Returns
    -------
    list of dict
        One row per measurement.
    """
    engine = make_primal_engine(problem, n_threads)
    rng = np.random.default_rng(0)
    spread = 0.1 / max(1.0, float(np.abs(problem.X[:100]).max()))
    coef = spread * rng.standard_normal((engine.n_outputs, engine.n_features + 1))
    parts = np.array_split(problem.X.reshape(-1), n_threads)
    facts = machine_facts()
    rows = []
    with ThreadPoolExecutor(n_threads) as pool, threadpool_limits(1):
        actions: dict[str, Callable[[], object]] = {
            "fused pass": lambda: engine.fused_pass(coef),
            "read (sum)": lambda: list(pool.map(np.sum, parts)),
            "read (inner product)": lambda: list(pool.map(_squares, parts)),
        }
        for repeat in range(-1, n_repeats):
            for action, run in actions.items():
                load_average = round(os.getloadavg()[0], 2)
                start = time.perf_counter()
                run()
                seconds = time.perf_counter() - start
                if repeat < 0:  # pages, pools and code
                    continue
                rows.append(
                    {
                        "problem": problem.name,
                        "scale": problem.scale,
                        "n_rows": problem.X.shape[0],
                        "n_features": problem.X.shape[1],
                        "megabytes": problem.X.nbytes / 1e6,
                        "threads": n_threads,
                        "action": action,
                        "repeat": repeat,
                        "seconds": seconds,
                        "gigabytes_per_s": problem.X.nbytes / 1e9 / seconds,
                        "load_average": load_average,
                    }
                    | facts
                )
    return rows


def _squares(part: NDArray[np.float32]) -> float:
    """Return the sum of squares."""
    return float(part @ part)


def report(rows: list[dict[str, Any]]) -> str:
    """Medians, and the pass as a share of the faster read.

    Parameters
    ----------
    rows : list of dict
        What `measure` returned.

    Returns
    -------
    str
        One line.
    """
    rates = {
        action: median(row["gigabytes_per_s"] for row in rows if row["action"] == action)
        for action in dict.fromkeys(row["action"] for row in rows)
    }
    pass_rate = rates.pop("fused pass")
    fastest = max(rates, key=lambda action: rates[action])
    first = rows[0]
    return (
        f"{first['problem']} ({first['megabytes']:.0f} MB), {first['threads']} threads: fused pass "
        f"{pass_rate:.1f} GB/s, {fastest} {rates[fastest]:.1f} GB/s: "
        f"{pass_rate / rates[fastest]:.0%} of the streaming rate"
    )


if __name__ == "__main__":
    raise SystemExit(main())
