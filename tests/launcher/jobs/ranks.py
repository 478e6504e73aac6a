"""Says what each rank is, then does what its first argument says."""

import json
import os
import signal
import sys
import time
from pathlib import Path

from mpi4py import MPI  # noqa: TID253 - a job of MPI


def tell(comm):
    """Let the first rank print what all are."""
    own = {
        "rank": comm.rank,
        "size": comm.size,
        "arguments": sys.argv[1:],
        "cpus": sorted(os.sched_getaffinity(0)),
        "pid": os.getpid(),
        "environment": {
            name: os.environ.get(name)
            for name in ("OMP_NUM_THREADS", "SNAPML_TEST_STATED", "SNAPML_TEST_FOUND")
        },
    }
    found = comm.gather(own)
    if found is not None:
        print(json.dumps(found), flush=True)


def exits(comm):
    """End with a code on one rank; the others wait for it."""
    if comm.rank == 1:
        sys.exit(7)
    comm.Barrier()


def raises(comm):
    """Raise on one rank; the others wait for it."""
    if comm.rank == 1:
        raise ValueError("what rank 1 met")
    comm.Barrier()


def waits(comm):
    """Wait for signals; write each to a file of this rank."""
    path = Path(sys.argv[2]) / str(comm.rank)

    def note(number, _):
        path.with_suffix(".heard").write_text(signal.Signals(number).name)

    signal.signal(signal.SIGUSR1, note)
    path.write_text(str(os.getpid()))
    for _ in range(600):
        time.sleep(0.1)


if __name__ == "__main__":
    tell(MPI.COMM_WORLD)
    if sys.argv[1] in ("exits", "raises", "waits"):
        globals()[sys.argv[1]](MPI.COMM_WORLD)
