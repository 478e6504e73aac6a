"""Fits on simulated hosts at two bandwidths, and what the model of model.py needs to predict them.

One rank on each host. Latency and bandwidth of the way between two hosts are measured by messages
there and back, not by the sums that are to be predicted; rates of computing come from a fit on one
rank, the number of sums and the cost of copying and adding from a fit on the first number of hosts
without a limit. Needs root; run from the repository's root, on a machine with nothing else to do::

    python -m benchmarks.scaling.limited_hosts
    python -m benchmarks.scaling.model
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from benchmarks.scaling import jobs
from benchmarks.scaling.hosts import SimulatedHosts, why_not
from benchmarks.scaling.model import rank_bytes

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "scaling_runs.csv"


def main() -> int:
    """Measure, write one row for each run, print times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=200_000)
    parser.add_argument("--passes", type=int, default=25)
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--mbit", type=float, nargs="+", default=[1000.0, 100.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    reason = why_not()
    if reason is not None:
        raise SystemExit(reason)
    prepare_output(arguments.output, arguments.overwrite)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the blocks that tidy up
    settings = {"solver": "pqn", "C": 0.01, "tol": 1e-9, "n_threads": 1}
    settings["max_iter"] = arguments.passes
    with tempfile.TemporaryDirectory() as folder:
        data = jobs.save_rows(Path(folder), arguments.rows, arguments.columns)
        task = {"folder": folder, "n_features": arguments.columns, "parameters": settings}
        alone = _alone(jobs.median_rank(jobs.run("timed_fit", task)))
        for n_hosts in arguments.hosts:
            with SimulatedHosts(n_hosts) as hosts:
                if "add_s_per_byte" not in alone:
                    alone |= _unlimited(hosts, n_hosts, task)
                for rate in arguments.mbit * arguments.repeats:
                    row = {"hosts": n_hosts, "mbit_per_s": rate, **_at_rate(hosts, rate, task)}
                    write_rows(arguments.output, [{**data, **row, **alone, **machine_facts()}])
                    names = ("hosts", "mbit_per_s", "bytes_per_s", "n_passes", "solve_s")
                    print({name: row[name] for name in names}, flush=True)
    return 0


def _alone(spent: dict[str, float]) -> dict[str, float]:
    """Return what one rank took, under names of their own."""
    vectors_s = spent["solve_cpu_s"] - spent["rows_cpu_s"] - spent["sums_cpu_s"]
    return {
        "one_rank_passes": spent["n_passes"],
        "one_rank_rows_s": spent["rows_cpu_s"],
        "one_rank_vectors_s": vectors_s,
    }


def _unlimited(hosts: SimulatedHosts, n_hosts: int, task: dict[str, Any]) -> dict[str, float]:
    """Return the sums of a fit, and CPU seconds for each byte that a rank sends in them.

    From the first number of hosts, which should not be more than the cores: ranks that wait for a
    core add to it.
    """
    spent = jobs.median_rank(jobs.run("timed_fit", task, hosts=hosts))
    n_bytes = spent["n_vectors"] * rank_bytes(n_hosts, task["n_features"] + 1)
    return {
        "vector_sums": spent["n_vectors"],
        "small_sums": spent["n_small_sums"],
        "add_s_per_byte": spent["sums_cpu_s"] / n_bytes,
    }


def _at_rate(hosts: SimulatedHosts, mbit_per_s: float, task: dict[str, Any]) -> dict[str, Any]:
    hosts.limit_rate(mbit_per_s)
    way = jobs.run("link", {"size": 2_000_000, "n_small": 50, "n_large": 3}, hosts=hosts)
    load, before = os.getloadavg()[0], hosts.bytes_sent()
    spent = jobs.median_rank(jobs.run("timed_fit", task, hosts=hosts))
    sent = [now - then for now, then in zip(hosts.bytes_sent(), before, strict=True)]
    return {**way, "wire_bytes": max(sent), **spent, "load_average": load}


if __name__ == "__main__":
    raise SystemExit(main())
