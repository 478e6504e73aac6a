"""Peak memory that `fit` needs beyond its input, as a share of the input's bytes.

Every measurement runs in a fresh child process: it reads the arrays, fits a small slice (lazy
imports, thread pools), resets the kernel's high-water mark, fits, and reads the mark again. Run
from the repository's root::

    python -m benchmarks.memory --problems click_log dense_tall --scale 0.1
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import resource
import subprocess
import sys
import tempfile
import warnings
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.libraries import (
    ADAPTER_MODULES,
    UNPUBLISHED_LIBRARIES,
    Library,
    Setting,
    load_library,
)
from benchmarks.problems import (
    RECIPES,
    Problem,
    ProblemUnavailableError,
    load_arrays,
    make_problem,
    save_arrays,
)
from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "memory.csv"
# Deep enough for ten L-BFGS pairs (22 steps), loose enough to be quick.
_RUNG = 14
_PAGE_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def main() -> int:
    """Measure every library's solvers on every problem.

    Returns
    -------
    int
        Exit status: 1 if any child failed.
    """
    arguments = _parse_arguments()
    if arguments.child is not None:
        print(json.dumps(measure_here(json.loads(arguments.child))))
        return 0
    prepare_output(arguments.output, arguments.overwrite)
    n_failures = 0
    for name in arguments.problems:
        try:
            problem = make_problem(name, arguments.scale)
        except ProblemUnavailableError as error:
            print(f"skip problem {name}: {error}")
            continue
        n_failures += _measure_problem(problem, arguments)
    return 1 if n_failures else 0


def _parse_arguments() -> argparse.Namespace:
    """Define the command line."""
    publishable = [name for name in ADAPTER_MODULES if name not in UNPUBLISHED_LIBRARIES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems",
        nargs="+",
        default=["click_log", "dense_tall"],
        metavar="NAME",
        choices=RECIPES,
    )
    parser.add_argument("--libraries", nargs="+", default=publishable, choices=publishable)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure_problem(problem: Problem, arguments: argparse.Namespace) -> int:
    """Measure all solvers on one problem; return the number of failures."""
    n_failures = 0
    with tempfile.TemporaryDirectory() as directory:
        save_arrays(problem, Path(directory))
        for name in arguments.libraries:
            try:
                library = load_library(name)
            except ImportError as error:
                print(f"skip library {name}: {error}")
                continue
            for setting in _settings(library, problem):
                order = _order(problem, setting, name, directory, arguments.threads)
                n_failures += _measure_solver(problem, library, setting, order, arguments)
    return n_failures


def _settings(library: Library, problem: Problem) -> list[Setting]:
    """One setting per solver."""
    if library.obstacle(problem):
        return []
    ladders = [list(g) for _, g in groupby(library.settings(problem), key=lambda s: s.solver)]
    return [ladder[min(_RUNG, len(ladder) - 1)] for ladder in ladders]


def _order(
    problem: Problem, setting: Setting, library: str, directory: str, n_threads: int
) -> dict[str, Any]:
    """Write down what the child has to do, as JSON can carry it."""
    return {
        "directory": directory,
        "library": library,
        "setting": [setting.solver, setting.tol, setting.max_iter],
        "problem": [problem.name, problem.loss, problem.C, problem.fit_intercept, problem.scale],
        "l1_ratio": problem.l1_ratio,
        "n_threads": n_threads,
    }


def _measure_solver(
    problem: Problem,
    library: Library,
    setting: Setting,
    order: dict[str, Any],
    arguments: argparse.Namespace,
) -> int:
    """Run the children of one solver, write their rows, print the median."""
    rows = []
    for repeat in range(arguments.repeats):
        command = [sys.executable, "-m", "benchmarks.memory", "--child", json.dumps(order)]
        child = subprocess.run(
            command, cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=False
        )
        if child.returncode != 0:
            print(f"FAILED {library.name} {setting.solver}: {child.stderr.strip()[-500:]}")
            return 1
        measured = json.loads(child.stdout.splitlines()[-1])
        rows.append(_row(problem, library, setting, repeat, measured, arguments.threads))
    write_rows(arguments.output, rows)
    share = median(row["share_of_X"] for row in rows)
    print(f"{problem.name} {library.name} {setting.solver}: {share:.3f} of X")
    return 0


def _row(
    problem: Problem,
    library: Library,
    setting: Setting,
    repeat: int,
    measured: dict[str, Any],
    n_threads: int,
) -> dict[str, Any]:
    """One row of the results file."""
    return {
        "problem": problem.name,
        "loss": problem.loss,
        "layout": "csr" if problem.is_sparse else "C-ordered",
        "n_rows": problem.X.shape[0],
        "n_features": problem.X.shape[1],
        "n_nonzeros": problem.n_nonzeros,
        "scale": problem.scale,
        "library": library.name,
        "library_version": library.version(),
        "solver": setting.solver,
        "setting": setting.label,
        "threads": n_threads,
        "repeat": repeat,
        **measured,
        "share_of_X": measured["extra_bytes"] / measured["X_bytes"],
        **machine_facts(),
    }


def measure_here(order: dict[str, Any]) -> dict[str, Any]:
    """Fit in this (fresh) process and read the peak of resident memory.

    Parameters
    ----------
    order : dict
        What the parent wants.

    Returns
    -------
    dict
        ``X_bytes``, ``extra_bytes`` and ``method``, the kernel's counter that was read.
    """
    name, loss, C, fit_intercept, scale = order["problem"]
    X, y = load_arrays(Path(order["directory"]))
    problem = Problem(name, X, y, loss, C, fit_intercept, scale, l1_ratio=order["l1_ratio"])
    setting = Setting(*order["setting"])
    library = load_library(order["library"])
    warnings.simplefilter("ignore")
    both = np.unique(y, return_index=True)[1] if problem.is_classification else np.arange(2)
    small = problem.rows(np.union1d(np.arange(500), both))
    library.fit(small, setting, order["n_threads"])
    gc.collect()
    _return_free_memory()
    method, before = _reset_peak()
    library.fit(problem, setting, order["n_threads"])
    extra = _peak_bytes(method) - before
    return {"X_bytes": _count_bytes(X), "extra_bytes": max(extra, 0), "method": method}


def _count_bytes(X: Any) -> int:
    """Bytes of a matrix as stored."""
    if isinstance(X, np.ndarray):
        return X.nbytes
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def _return_free_memory() -> None:
    """Give freed heap pages back, or a fit could reuse them unseen (glibc only)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _reset_peak() -> tuple[str, int]:
    """Return the counter that can be used and its value before the fit."""
    try:
        _CLEAR_REFS.write_text("5")  # 5: set VmHWM to the current VmRSS
        return "VmHWM", _status_bytes("VmRSS")
    except OSError:
        # Cannot be reset: a peak below that of start-up stays hidden, so this may understate.
        return "ru_maxrss", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _peak_bytes(method: str) -> int:
    """Peak of resident memory since `_reset_peak`."""
    if method == "VmHWM":
        return _status_bytes("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status_bytes(field: str) -> int:
    """Read one counter of /proc/self/status."""
    for line in _PAGE_STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{field} is not in {_PAGE_STATUS}")


if __name__ == "__main__":
    raise SystemExit(main())
