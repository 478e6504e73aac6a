"""Adapter of IBM's Snap ML, run as a black box in an interpreter of its own.

Its import name is also `snapml`, so it cannot share a process with this project. The variable
``SNAPML_PEER_PYTHON`` names an interpreter of an environment that has it; without the variable
the adapter is skipped. The package is proprietary: it is only called, and its results go to a
file outside the repository (``run.py --private-output``), never into git.

Objective
    ``regularizer`` = lambda in sum_i l_i + lambda/2 ||w||^2, or, with penalty "l1" (primal solver
    only), in sum_i l_i + lambda ||w||_1; so lambda = 1/C and its optimum is P's. The squared
    hinge has no 1/2; the squared loss has one. There is no elastic net, and several classes are
    one against the rest. An intercept would be an appended, penalised column (and the primal
    solver ignores it): problems with one are refused.
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

from typing import Any

from benchmarks.libraries import Fit, Setting, step_ladder
from benchmarks.libraries.worker_process import WorkerProcess
from benchmarks.problems import Problem

_MOST_EPOCHS = 20_000
_ESTIMATORS = {
    "logistic": "LogisticRegression",
    "squared": "LinearRegression",
    "hinge": "SupportVectorMachine",
    "squared_hinge": "SupportVectorMachine",
}


class Adapter:
    """Has a worker process fit IBM's estimators."""

    name = "ibm_snapml"

    def __init__(self) -> None:
        self._worker = WorkerProcess("SNAPML_PEER_PYTHON", ["snapml"])

    def version(self) -> str:
        """Version of the installed distribution."""
        return self._worker.version("snapml")

    def obstacle(self, problem: Problem) -> str:
        """Snap ML penalises the intercept, and has neither elastic net nor softmax."""
        if problem.fit_intercept:
            return "the intercept is penalised"
        if problem.loss not in _ESTIMATORS:
            return f"no {problem.loss} loss"
        if problem.l1_ratio not in (0.0, 1.0):
            return "no elastic net"
        return ""

    def settings(self, problem: Problem) -> list[Setting]:
        """Ladders of epochs: dual, and primal where the estimator has a primal solver."""
        solvers = [] if problem.l1_ratio else ["dual"]
        if problem.loss in ("logistic", "squared"):
            solvers.append("primal")
        return [rung for solver in solvers for rung in step_ladder(solver, _MOST_EPOCHS)]

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Fit in the worker."""
        parameters: dict[str, Any] = {
            "regularizer": 1.0 / problem.C,
            "fit_intercept": False,
            "tol": setting.tol,
            "max_iter": setting.max_iter,
            "n_jobs": n_threads,
        }
        estimator = _ESTIMATORS[problem.loss]
        if estimator == "SupportVectorMachine":
            parameters["loss"] = problem.loss
        else:
            parameters["dual"] = setting.solver == "dual"
            parameters["penalty"] = "l1" if problem.l1_ratio else "l2"
        return self._worker.fit(problem, estimator, parameters, n_threads)

    def close(self) -> None:
        """End the worker."""
        self._worker.close()
