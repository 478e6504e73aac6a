"""Bytes of a pass over ranks against the least there can be, and the time outside rows and sums.

One fit on the click log for each number of ranks. A pass must send 2 (p - 1) / p times a gradient
from each of p ranks. ``overhead_share`` is this rank's CPU time in the solver outside work on rows
and sums, against that and the work on rows: Python, and the solver's arithmetic on vectors as long
as a gradient, which all ranks repeat. ``small_sum_share`` compares the clock of all sums that are
shorter than a gradient with that of the whole. Ranks beyond the cores wait for each other: then
only CPU times mean something. Run from the repository's root, on a machine with nothing else to
do::

    python -m benchmarks.scaling.rank_overhead
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from benchmarks.scaling import jobs

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "rank_overhead.csv"


def main() -> int:
    """Fit, write one row for each run, print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--columns", type=int, default=200_000)
    parser.add_argument("--C", type=float, default=0.01)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    prepare_output(arguments.output, arguments.overwrite)
    settings = {"solver": "pqn", "C": arguments.C, "tol": 1e-6, "n_threads": 1, "max_iter": 200}
    for n_rows in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            data = jobs.save_rows(Path(folder), n_rows, arguments.columns)
            task = {"folder": folder, "n_features": arguments.columns, "parameters": settings}
            for repeat in range(arguments.repeats):
                for n_ranks in arguments.ranks:
                    load = os.getloadavg()[0]
                    found = jobs.run("timed_fit", task, n_ranks=n_ranks)
                    spent = jobs.median_rank(found)
                    row = {**data, "C": arguments.C, "ranks": n_ranks, "repeat": repeat}
                    row |= shares(spent, n_ranks, data["n_features"] + 1) | spent
                    row |= {"relative_gap": found["relative_gap"], "load_average": load}
                    write_rows(arguments.output, [{**row, **machine_facts()}])
                    names = ("n_rows", "ranks", "n_passes", "bytes_over_least", "overhead_share")
                    print({name: row[name] for name in (*names, "small_sum_share")}, flush=True)
    return 0


def shares(spent: dict[str, float], n_ranks: int, size: int) -> dict[str, float]:
    """Return bytes against the least, and what is neither work on rows nor a sum.

    Parameters
    ----------
    spent : dict
        Of a rank, see `Spent`.
    n_ranks : int
        How many there were.
    size : int
        Numbers in a gradient.
    """
    least = spent["n_passes"] * 2 * (n_ranks - 1) / n_ranks * 8 * size
    other = spent["solve_cpu_s"] - spent["rows_cpu_s"] - spent["sums_cpu_s"]
    return {
        "least_bytes": least,
        "bytes_over_least": spent["n_sent"] / least if least else 1.0,
        "overhead_share": other / (spent["rows_cpu_s"] + other),
        "small_sum_share": spent["small_sums_s"] / spent["solve_s"],
    }


if __name__ == "__main__":
    raise SystemExit(main())
