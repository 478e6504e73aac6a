"""On several hosts: a model beside that of all rows, bytes of some sums, or sums without end."""

import json
import sys
import time

import numpy as np
from mpi4py import MPI  # noqa: TID253 - a job of MPI

import snapml
from snapml.distributed.mpi import LogisticRegression, MpiCommunicator


def model(comm):
    """Fit the rows of all ranks, and on rank 0 all rows at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(801, 300))
    y = (X[:, 0] + rng.normal(size=801) > 0.0).astype(int)
    rows = slice(comm.rank, None, comm.size)
    settings = {"C": 0.1, "tol": 1e-8, "n_threads": 1}
    fitted = LogisticRegression(comm=comm, **settings).fit(X[rows], y[rows])
    found = comm.gather((MPI.Get_processor_name(), fitted.coef_.tobytes()))
    if comm.rank == 0:
        whole = snapml.LogisticRegression(**settings).fit(X, y)
        return {
            "hosts": [name for name, _ in found],
            "is_same_on_all": len({coef for _, coef in found}) == 1,
            "distance": abs(fitted.objective_ - whole.objective_),
            "gap": fitted.gap_ + whole.gap_,
        }
    return None


def sums(comm, size, count):
    """Add arrays up; return how many bytes each rank says that it has sent, and the time."""
    shards = MpiCommunicator(comm)
    comm.Barrier()
    began = time.perf_counter()
    for _ in range(int(count)):
        total = shards.allreduce_sum(np.full(int(size), float(comm.rank)))
    is_right = bool((total == comm.size * (comm.size - 1) / 2).all())
    seconds = time.perf_counter() - began
    return {"sent": comm.gather(shards.n_sent), "is_right": is_right, "seconds": seconds}


def without_end(comm):
    """Add arrays up until the job is ended; say when it is under way."""
    shards = MpiCommunicator(comm)
    shards.allreduce_sum(np.ones(1000))
    if comm.rank == 0:
        print("under way", flush=True)
    while True:
        shards.allreduce_sum(np.ones(1000))
        time.sleep(0.02)


if __name__ == "__main__":
    result = globals()[sys.argv[1]](MPI.COMM_WORLD, *sys.argv[2:])
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(result), flush=True)
