"""Adapter of IBM's Snap ML, run as a black box in an interpreter of its own.

Its import name is also `snapml`, so it cannot share a process with this project. The variable
``SNAPML_PEER_PYTHON`` names an interpreter of an environment that has it; without the variable
the adapter is skipped. The package is proprietary: it is only called, and its results go to a
file outside the repository (``run.py --private-output``), never into git.

Objective
    ``regularizer`` = lambda in sum_i l_i + lambda/2 ||w||^2, so lambda = 1/C and its optimum is
    P's. The squared hinge has no 1/2; the squared loss has one. An intercept would be an
    appended, penalised column (and the primal solver ignores it): problems with one are refused.
Knobs
    A ladder of ``max_iter`` with tol = 0 for the dual solver and, where there is one, the primal
    solver. Its ``tol`` is a relative change of the model between epochs, not an accuracy; an
    oracle that stops at the best epoch favours it.
Time
    Wall clock and process CPU time of ``fit`` alone, taken inside the worker; arrays are
    exchanged before and after. The input there is the same float32 csr or C-ordered array.
Threads
    ``n_jobs``; BLAS and OpenMP threads of the worker are limited to the same number.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.libraries import Fit, Setting, ladder
from benchmarks.problems import Problem, save_arrays

_PYTHON_VARIABLE = "SNAPML_PEER_PYTHON"
_EPOCHS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 80, 120, 200, 400, 800, 1600)
_ESTIMATORS = {
    "logistic": "LogisticRegression",
    "squared": "LinearRegression",
    "hinge": "SupportVectorMachine",
    "squared_hinge": "SupportVectorMachine",
}


class Adapter:
    """Talks to a worker process that stays alive over all fits."""

    name = "ibm_snapml"

    def __init__(self) -> None:
        python = os.environ.get(_PYTHON_VARIABLE)
        if not python:
            raise ImportError(f"{_PYTHON_VARIABLE} does not name an interpreter")
        self._directory = tempfile.TemporaryDirectory(prefix="snapml-peer-")
        self._loaded: Problem | None = None
        self._python = python
        # -I: neither this repository nor PYTHONPATH may shadow the peer's package.
        worker = Path(__file__).with_name("ibm_snapml_worker.py")
        self._process = subprocess.Popen(
            [python, "-I", str(worker), self._directory.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._ask({"command": "start"})
        except RuntimeError as error:
            self.close()
            raise ImportError(f"the peer's interpreter: {error}") from error

    def version(self) -> str:
        """Version of the installed distribution, as its package manager lists it."""
        listing = subprocess.run(
            [self._python, "-I", "-m", "pip", "list", "--format", "json"],
            capture_output=True,
            text=True,
            check=False,
        )
        packages = json.loads(listing.stdout) if listing.returncode == 0 else []
        versions = [package["version"] for package in packages if package["name"] == "snapml"]
        return str(versions[0]) if versions else "unknown"

    def supports(self, problem: Problem) -> bool:
        """Snap ML penalises the intercept."""
        return not problem.fit_intercept

    def settings(self, problem: Problem) -> list[Setting]:
        """Ladders of epochs: dual, and primal where the estimator has a primal solver."""
        solvers = ["dual"]
        if problem.loss in ("logistic", "squared"):
            solvers.append("primal")
        return [s for solver in solvers for s in ladder(solver, [(0.0, n) for n in _EPOCHS])]

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Send the data once per problem, then one fit; read the coefficients back."""
        if self._loaded is not problem:
            save_arrays(problem, Path(self._directory.name))
            self._ask({"command": "load"})
            self._loaded = problem
        parameters: dict[str, Any] = {
            "regularizer": 1.0 / problem.C,
            "fit_intercept": False,
            "tol": setting.tol,
            "max_iter": setting.max_iter,
            "n_jobs": n_threads,
        }
        if _ESTIMATORS[problem.loss] == "SupportVectorMachine":
            parameters["loss"] = problem.loss
        else:
            parameters["dual"] = setting.solver == "dual"
        estimator = _ESTIMATORS[problem.loss]
        extra = self._ask({"command": "fit", "estimator": estimator, "parameters": parameters})
        coef = np.load(Path(self._directory.name) / "coef.npy").astype(np.float64)
        return Fit(coef, 0.0, extra)

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send one line, wait for one line; a dead worker or an error raises RuntimeError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise RuntimeError("the worker process has ended") from error
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker process died in {message['command']!r}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def close(self) -> None:
        """End the worker and remove the exchanged files."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()
