"""A library in an interpreter of its own, because it cannot share this one.

Data and coefficients go through files in a temporary folder, commands and replies through pipes;
the clock runs in the other process, around ``fit`` alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.libraries import Fit
from benchmarks.problems import Problem, save_arrays


class WorkerProcess:
    """A worker that stays alive over all fits.

    Parameters
    ----------
    variable : str
        Environment variable that names the interpreter.
    modules : list of str
        What the worker imports; estimators are looked up in this order.

    Raises
    ------
    ImportError
        If the variable is not set or the modules cannot be imported there.
    """

    def __init__(self, variable: str, modules: list[str]) -> None:
        python = os.environ.get(variable)
        if not python:
            raise ImportError(f"{variable} does not name an interpreter")
        self._directory = tempfile.TemporaryDirectory(prefix="snapml-peer-")
        self._loaded: tuple[Any, Any] = (None, None)
        self._python = python
        # -I: neither this repository nor PYTHONPATH may shadow the peer's package.
        worker = Path(__file__).with_name("worker.py")
        self._process = subprocess.Popen(
            [python, "-I", str(worker), self._directory.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._ask({"command": "start", "modules": modules})
        except RuntimeError as error:
            self.close()
            raise ImportError(f"the peer's interpreter: {error}") from error

    def version(self, distribution: str) -> str:
        """Version of an installed distribution, as its package manager lists it.

        Parameters
        ----------
        distribution : str
            Its name.

        Returns
        -------
        str
            The version, or "unknown".
        """
        listing = subprocess.run(
            [self._python, "-I", "-m", "pip", "list", "--format", "json"],
            capture_output=True,
            text=True,
            check=False,
        )
        packages = json.loads(listing.stdout) if listing.returncode == 0 else []
        versions = [item["version"] for item in packages if item["name"] == distribution]
        return str(versions[0]) if versions else "unknown"

    def fit(
        self, problem: Problem, estimator: str, parameters: dict[str, Any], n_threads: int
    ) -> Fit:
        """Send the data once, then one fit; read the coefficients back.

        Parameters
        ----------
        problem : Problem
            What to solve.
        estimator : str
            Name of the class.
        parameters : dict
            Of its constructor.
        n_threads : int
            Limit of BLAS and OpenMP threads.

        Returns
        -------
        Fit
            With the worker's clock.
        """
        X, y = self._loaded
        if X is not problem.X or y is not problem.y:
            save_arrays(problem, Path(self._directory.name))
            self._ask({"command": "load"})
            self._loaded = problem.X, problem.y
        extra = self._ask(
            {
                "command": "fit",
                "estimator": estimator,
                "parameters": parameters,
                "threads": n_threads,
            }
        )
        coef = np.load(Path(self._directory.name) / "coef.npy").astype(np.float64)
        return Fit(coef.reshape(problem.coef_shape), 0.0, extra)

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
