"""Adapter of this project's own estimators.

Objective
    The estimators minimise P as written in `benchmarks.problems`: `C` is C, the squared hinge
    has no 1/2, ``Ridge(alpha)`` is C = 1/alpha after dividing by alpha. The intercept is not
    penalised.
Knobs
    ``tol`` bounds the relative duality gap. The ladder lowers it from 1e-1 to 1e-8; every run
    stops by its own certificate, whose cost is part of its time. ``max_iter`` is generous, so
    that a run that stalls shows as slow; the certificate it ends with is recorded.
Time
    Wall clock of ``fit`` on the float32 csr or C-ordered array.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

import snapml
from benchmarks.libraries import Fit, Setting, ladder, most_epochs
from benchmarks.problems import Problem
from snapml import LinearSVC, LogisticRegression, Ridge

_TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)


class Adapter:
    """Fits the project's estimators; solver "auto" throughout."""

    name = "snapml"

    def version(self) -> str:
        """Version of the installed distribution, or of the module."""
        try:
            return metadata.version("snapml-open")
        except metadata.PackageNotFoundError:
            return str(getattr(snapml, "__version__", "unknown"))

    def supports(self, problem: Problem) -> bool:
        """All losses of the benchmark are supported, with and without intercept."""
        return True

    def settings(self, problem: Problem) -> list[Setting]:
        """One ladder of relative duality gaps."""
        return ladder("auto", [(tol, most_epochs(problem)) for tol in _TOLERANCES])

    def reference_setting(self, problem: Problem) -> Setting:
        """Return the setting of the extra tight run that helps to find P*."""
        return Setting("auto", 1e-9, most_epochs(problem))

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Fit and read the certificate."""
        model = self._make_model(problem, setting, n_threads)
        model.fit(problem.X, problem.y)
        extra = {
            "gap": float(model.gap_),
            "reported_objective": float(model.objective_),
            "n_iter": int(np.max(model.n_iter_)),
            "detail": str(model.solver_),
        }
        coef = np.ravel(model.coef_).astype(np.float64)
        intercept = float(np.ravel(model.intercept_)[0]) if problem.fit_intercept else 0.0
        return Fit(coef, intercept, extra)

    def _make_model(self, problem: Problem, setting: Setting, n_threads: int) -> Any:
        """Build the estimator of the problem's loss."""
        common: dict[str, Any] = {
            "fit_intercept": problem.fit_intercept,
            "tol": setting.tol,
            "max_iter": setting.max_iter,
            "random_state": problem.seed,
            "n_threads": n_threads,
        }
        if problem.loss == "logistic":
            return LogisticRegression(C=problem.C, **common)
        if problem.loss == "squared":
            return Ridge(alpha=1.0 / problem.C, **common)
        return LinearSVC(C=problem.C, loss=problem.loss, **common)

    def close(self) -> None:
        """Nothing to release."""
