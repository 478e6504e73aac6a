"""Adapter of scikit-learn-intelex (oneDAL), run in an interpreter of its own.

It is Apache-2.0 and its results may be published. It brings a scikit-learn, oneDAL and TBB of
its own versions, so it lives in another environment, which ``SNAPML_INTELEX_PYTHON`` names.

Objective
    As scikit-learn's (`sklearn_linear_model`): ``LogisticRegression(C)`` is P, ``Ridge(alpha)``
    has alpha = 1/C, ``Lasso`` and ``ElasticNet`` have alpha = 1/(n C).
Knobs
    lbfgs, newton-cg: a ladder of ``max_iter`` with tol = 0. Ridge has no knob (the normal
    equations). Lasso and ElasticNet: a ladder of ``tol``.
Solvers
    Only what oneDAL accelerates, which is dense data of two classes or more; for anything else
    the package falls back on scikit-learn's code, which is measured by that adapter.
Time
    Wall clock and process CPU time of ``fit`` alone, inside the worker.
Threads
    ``n_jobs``; BLAS and OpenMP are limited to the same number.
"""

from __future__ import annotations

from typing import Any

from benchmarks.libraries import Fit, Setting, most_epochs, step_ladder, tolerance_ladder
from benchmarks.libraries.worker_process import WorkerProcess
from benchmarks.problems import Problem

_LARGEST_GRAM = 2500


class Adapter:
    """Has a worker process fit the accelerated estimators."""

    name = "sklearnex"

    def __init__(self) -> None:
        # Lasso and ElasticNet are in the older of the two interfaces to oneDAL.
        modules = ["sklearnex.linear_model", "daal4py.sklearn.linear_model"]
        self._worker = WorkerProcess("SNAPML_INTELEX_PYTHON", modules)

    def version(self) -> str:
        """Version of the installed distribution."""
        return self._worker.version("scikit-learn-intelex")

    def obstacle(self, problem: Problem) -> str:
        """Name what oneDAL does not accelerate."""
        if problem.fit_intercept:
            return "the worker returns no intercept"
        if problem.is_sparse:
            return "sparse input falls back on scikit-learn"
        if problem.loss in ("hinge", "squared_hinge"):
            return "no linear support vector machine"
        if problem.loss != "squared" and problem.l1_ratio:
            return "no logistic regression with an L1 norm"
        return ""

    def settings(self, problem: Problem) -> list[Setting]:
        """Ladders of the accelerated solvers."""
        if problem.loss != "squared":
            settings = step_ladder("lbfgs", 3000)
            return settings + (step_ladder("newton-cg", 60) if problem.loss == "logistic" else [])
        if problem.l1_ratio:
            return tolerance_ladder("cd", 1.0, 1e-10, most_epochs(problem))
        return [Setting("normal equations", 0.0, 0)]

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Fit in the worker."""
        parameters: dict[str, Any] = {"fit_intercept": False, "tol": setting.tol}
        if problem.loss != "squared":
            estimator = "LogisticRegression"
            parameters |= {
                "C": problem.C,
                "solver": setting.solver,
                "max_iter": setting.max_iter,
                "n_jobs": n_threads,
            }
        elif problem.l1_ratio == 0.0:
            estimator = "Ridge"
            parameters = {"fit_intercept": False, "alpha": 1.0 / problem.C, "n_jobs": n_threads}
        else:
            estimator = "Lasso" if problem.l1_ratio == 1.0 else "ElasticNet"
            parameters |= {"alpha": problem.alpha, "max_iter": setting.max_iter}
            if estimator == "ElasticNet":
                parameters["l1_ratio"] = problem.l1_ratio
        return self._worker.fit(problem, estimator, parameters, n_threads)

    def close(self) -> None:
        """End the worker."""
        self._worker.close()
