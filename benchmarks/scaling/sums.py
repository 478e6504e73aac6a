"""Sums of arrays over ranks: flat by parts, by nodes, and MPI's own Allreduce, timed in turn.

The ranks' hosts are the nodes, or, with ``--per-node``, as many neighbouring ranks each as it says:
then bytes are those of such nodes, and times those of the machine that all of them share. Run from
the repository's root::

    mpirun -n 4 python -m mpi4py -m benchmarks.scaling.sums --per-node 2

The rows hold the times of the slowest rank, and bytes that the busiest one sends in each sum.
``ratio`` is the median over rounds of a way's time over Allreduce's in the same round.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from snapml.distributed.mpi import MpiCommunicator

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "scaling_sums.csv"
WAYS = ("allreduce", "flat", "by node")


def main() -> None:
    """Time sums of several lengths; rank 0 writes and prints a row for each way."""
    from mpi4py import MPI

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--per-node", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--append", action="store_true")
    arguments = parser.parse_args()
    comm = MPI.COMM_WORLD
    if comm.rank == 0 and not arguments.append:
        prepare_output(arguments.output, arguments.overwrite)
    node = None if arguments.per_node is None else comm.rank // arguments.per_node
    for count in arguments.counts:
        rows = measure(comm, node, count, arguments.rounds)
        if comm.rank == 0:
            write_rows(arguments.output, rows)
            for row in rows:
                print(
                    "{n_ranks} ranks, {n_nodes} nodes, {count} numbers, {way}:".format(**row),
                    end="",
                )
                print(" {seconds:.2e} s, {ratio:.2f} of Allreduce,".format(**row), end="")
                print(" {bytes_within} + {bytes_across} bytes".format(**row), flush=True)


def measure(comm: Any, node: int | None, count: int, n_rounds: int) -> list[dict[str, Any]]:
    """Time all ways in turn.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks.
    node : int or None
        Number of the node that this rank counts as.
    count : int
        Numbers of the array.
    n_rounds : int
        How often.

    Returns
    -------
    list of dict
        One row a way.
    """
    flat = MpiCommunicator(comm, node=node, by_node=False)
    by_node = MpiCommunicator(comm, node=node, by_node=True)
    addend, total = np.random.default_rng(comm.rank).normal(size=count), np.empty(count)
    sums: dict[str, Callable[[], object]] = {
        "allreduce": partial(comm.Allreduce, addend, total),
        "flat": partial(flat.allreduce_sum, addend),
        "by node": partial(by_node.allreduce_sum, addend),
    }
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(n_rounds + 2):
        for way in WAYS:
            spent = _slowest(comm, sums[way])
            if turn >= 2:  # the first ones allocate and connect
                seconds[way].append(spent)
    sent = {"allreduce": (None, None)}
    for way, ranks in (("flat", flat), ("by node", by_node)):
        per_sum = [ranks.traffic.within // (n_rounds + 2), ranks.traffic.across // (n_rounds + 2)]
        sent[way] = tuple(max(column) for column in zip(*comm.allgather(per_sum), strict=True))
    n_nodes = flat.nodes.n_nodes
    flat.close()
    by_node.close()
    return [
        {
            "n_ranks": comm.size,
            "n_nodes": n_nodes,
            "are_real_nodes": node is None,
            "count": count,
            "way": way,
            "rounds": n_rounds,
            "seconds": median(seconds[way]),
            "least_seconds": min(seconds[way]),
            "ratio": median(np.divide(seconds[way], seconds["allreduce"]).tolist()),
            "bytes_within": sent[way][0],
            "bytes_across": sent[way][1],
            "mpi": _library(),
            "load_average": os.getloadavg()[0],
            **machine_facts(),
        }
        for way in WAYS
    ]


def _slowest(comm: Any, add: Callable[[], object]) -> float:
    """Return the seconds from when all are there until the last one has its sum."""
    comm.Barrier()
    began = time.perf_counter()
    add()
    return float(max(comm.allgather(time.perf_counter() - began)))


def _library() -> str:
    from mpi4py import MPI

    return MPI.Get_library_version().split(",")[0].splitlines()[0].strip()


if __name__ == "__main__":
    main()
