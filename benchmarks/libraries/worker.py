"""Worker of the adapters in other environments: runs there and imports nothing of ours.

Reads one JSON object a line on standard input and answers one a line on what was standard
output when it started:

* ``{"command": "start", "modules": [names]}`` imports the library;
* ``{"command": "load"}`` reads ``X.npz`` or ``X.npy`` and ``y.npy`` from the exchange folder;
* ``{"command": "fit", "estimator": name, "parameters": {...}, "threads": n}`` times ``fit`` of a
  class of the first module that has it, and writes ``coef.npy``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits


class Worker:
    """Holds the data between fits.

    Parameters
    ----------
    directory : pathlib.Path
        The exchange folder.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.modules: list[Any] = []
        self.X: Any = None
        self.y: Any = None

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command.

        Parameters
        ----------
        message : dict
            The decoded line.

        Returns
        -------
        dict
            The reply; has the key ``error`` if the command failed.
        """
        try:
            if message["command"] == "start":
                self.modules = [importlib.import_module(name) for name in message["modules"]]
                return {}
            if message["command"] == "load":
                return self._load()
            return self._fit(message["estimator"], message["parameters"], message["threads"])
        except Exception as error:  # every failure is reported to the harness
            return {"error": f"{type(error).__name__}: {error}"}

    def _load(self) -> dict[str, Any]:
        self.X = None  # release the last problem before reading the next
        if (self.directory / "X.npz").is_file():
            self.X = sparse.load_npz(self.directory / "X.npz")
        else:
            self.X = np.load(self.directory / "X.npy")
        self.y = np.load(self.directory / "y.npy")
        return {}

    def _fit(self, estimator: str, parameters: dict[str, Any], n_threads: int) -> dict[str, Any]:
        module = next(module for module in self.modules if hasattr(module, estimator))
        model = getattr(module, estimator)(**parameters)
        with threadpool_limits(n_threads):  # as the harness does for the others
            cpu_start, start = time.process_time(), time.perf_counter()
            model.fit(self.X, self.y)
            seconds = time.perf_counter() - start
            cpu_seconds = time.process_time() - cpu_start
        np.save(self.directory / "coef.npy", model.coef_)
        reply = {"seconds": seconds, "cpu_seconds": cpu_seconds}
        n_iter = getattr(model, "n_iter_", None)
        if n_iter is not None:
            reply["n_iter"] = int(np.max(n_iter))
        return reply


def main() -> None:
    """Answer commands until standard input ends."""
    # The library writes notices to file descriptor 1; they must not mix with the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    worker = Worker(Path(sys.argv[1]))
    for line in sys.stdin:
        replies.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
