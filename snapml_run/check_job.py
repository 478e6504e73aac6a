"""What `snapml-run --check` runs on every rank: ``python -m mpi4py -m snapml_run.check_job``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

from snapml_run.check_report import Measured, Rank, faults, report
from snapml_run.gpus import find_gpus

# Numbers in a sum: one message, a few columns, a million.
_SIZES = (1, 1_000, 100_000, 1_000_000)
_LEAST_ROUNDS, _LEAST_S = 3, 0.1
_CLOCK_ROUNDS = 20


def main() -> int:
    """Compare the ranks; the first one prints.

    Returns
    -------
    int
        0 where the ranks are alike, 1 where something differs; the same on all.
    """
    counts = [int(count) for count in sys.argv[1].split(",")]
    is_bound, has_gpus = sys.argv[2] == "bound", sys.argv[3] != "0"
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.size != sum(counts):
        sys.stderr.write(
            f"snapml-run: expected {sum(counts)} ranks, got a job of {comm.size}: mpirun and "
            "the library of mpi4py belong to different MPIs\n"
        )
        return 1
    offset, doubt = _clock(comm)
    ranks = comm.gather(_rank(comm, MPI, offset, doubt))
    found = None
    if ranks is not None:
        found = faults(ranks, counts, is_bound=is_bound, has_gpus=has_gpus)
    found = comm.bcast(found)
    measured = [] if found else _sums(comm, MPI)
    if ranks is not None:
        print(report(ranks, measured), flush=True)
        for fault in found or []:
            sys.stderr.write(f"snapml-run: {fault}\n")
        sys.stderr.flush()
    comm.Barrier()
    MPI.Finalize()  # or mpi4py would abort the job, and perhaps what was printed
    return 1 if found else 0


def _rank(comm: Any, mpi: Any, offset: float, doubt: float) -> Rank:
    """Return what this rank is and has."""
    local = comm.Split_type(mpi.COMM_TYPE_SHARED)
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("snapml-open", "numpy", "scikit-learn", "mpi4py"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "none"
    library = mpi.Get_library_version().strip("\0")
    versions["MPI"] = " ".join(library.split("\n")[0].split(",")[0].split())
    gpus, trouble = find_gpus(os.environ)
    found = Rank(
        number=comm.rank,
        host=mpi.Get_processor_name(),
        local_rank=local.rank,
        n_local=local.size,
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        n_threads=os.environ.get("OMP_NUM_THREADS", "not set"),
        gpus=tuple(gpu.uuid or gpu.index for gpu in gpus),
        gpu_trouble=trouble,
        clock_s=offset,
        clock_doubt_s=doubt,
        versions=versions,
    )
    local.Free()
    return found


def _clock(comm: Any) -> tuple[float, float]:
    """Return how far this rank's clock is ahead of the first rank's, and half the quickest answer.

    The first rank asks one after the other, and takes the quickest answer of several.
    """
    found = (0.0, 0.0)
    for other in range(1, comm.size):
        if comm.rank == 0:
            answers = []
            for _ in range(_CLOCK_ROUNDS):
                asked = time.time()
                comm.send(None, other)
                there = comm.recv(source=other)
                answered = time.time()
                answers.append((answered - asked, there - (asked + answered) / 2.0))
            took, ahead = min(answers)
            comm.send((ahead, took / 2.0), other)
        elif comm.rank == other:
            for _ in range(_CLOCK_ROUNDS):
                comm.recv(source=0)
                comm.send(time.time(), 0)
            found = comm.recv(source=0)
    return found


def _sums(comm: Any, mpi: Any) -> list[Measured]:
    """Time sums over all ranks: those of snapml, in the order of ranks, and the MPI's own."""
    import numpy as np

    from snapml.distributed.mpi import MpiCommunicator

    shards = MpiCommunicator(comm)
    found = []
    for size in _SIZES:
        addend = np.full(size, float(comm.rank + 1))
        total = np.empty(size)

        def own(addend: Any = addend) -> Any:
            return shards.allreduce_sum(addend)

        def library(addend: Any = addend, total: Any = total) -> Any:
            comm.Allreduce(addend, total, op=mpi.SUM)
            return total

        expected = comm.size * (comm.size + 1) / 2.0
        if not (np.all(own() == expected) and np.all(library() == expected)):
            raise RuntimeError(f"a sum of {size} numbers over the ranks is wrong")
        found.append(Measured(size, _seconds(comm, own), _seconds(comm, library)))
    shards.close()
    return found


def _seconds(comm: Any, work: Callable[[], Any]) -> float:
    """Return how long the quickest of several rounds takes on the slowest rank."""
    best, rounds, began = float("inf"), 0, time.perf_counter()
    is_going = True
    while is_going:
        comm.Barrier()
        start = time.perf_counter()
        work()
        best = min(best, max(comm.allgather(time.perf_counter() - start)))
        rounds += 1
        is_going = rounds < _LEAST_ROUNDS or time.perf_counter() - began < _LEAST_S
        is_going = comm.bcast(is_going)
    return best


if __name__ == "__main__":
    sys.exit(main())
