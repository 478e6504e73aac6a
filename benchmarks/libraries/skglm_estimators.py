"""Adapter of skglm's estimators.

Objective
    ``Lasso(alpha)``, ``ElasticNet(alpha, l1_ratio)`` and
    ``SparseLogisticRegression(alpha, l1_ratio)`` minimise the mean of (z - y)^2 / 2, or of the
    logistic loss, plus alpha R: alpha P with alpha = 1/(n C). ``LinearSVC(C)`` minimises the
    hinge's P by its dual.
Knobs
    A ladder of ``tol``, skglm's bound on the violation of optimality, from 1e-1 to 1e-8. Below,
    in float32, it is not met, and on ``dense_wide_lasso`` the solver wanders off.
Time
    Wall clock of ``fit``. Its functions are compiled during the warm-up. float32 dense data are
    copied to column order; logistic regression works in float64.
Threads
    One.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np
from skglm import ElasticNet, Lasso, SparseLogisticRegression
from skglm.estimators import LinearSVC

from benchmarks.libraries import Fit, Setting, most_epochs, tolerance_ladder
from benchmarks.problems import Problem


class Adapter:
    """Fits skglm's estimators."""

    name = "skglm"

    def version(self) -> str:
        """Version of skglm."""
        return metadata.version("skglm")

    def obstacle(self, problem: Problem) -> str:
        """Ask for an L1 norm in the penalty, or the hinge."""
        if problem.fit_intercept:
            return "not mapped: intercept"
        if problem.loss == "hinge" or (
            problem.l1_ratio and problem.loss in ("logistic", "squared")
        ):
            return ""
        return f"no estimator for {problem.loss} with l1_ratio={problem.l1_ratio:g}"

    def settings(self, problem: Problem) -> list[Setting]:
        """One ladder of tolerances."""
        solver = "prox-newton" if problem.loss == "logistic" else "anderson-cd"
        return tolerance_ladder(solver, 1e-1, 1e-8, 200)

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Fit on one thread."""
        model = _make_model(problem, setting)
        model.fit(problem.X, problem.y)
        coef = np.ravel(model.coef_).astype(np.float64)
        return Fit(coef, 0.0, {"n_iter": int(np.max(model.n_iter_))})

    def close(self) -> None:
        """Nothing to release."""


def _make_model(problem: Problem, setting: Setting) -> Any:
    """Build the estimator of the problem's loss and penalty."""
    # Its own limit of 50,000 epochs a subproblem would be hours where a tolerance is not met.
    common: dict[str, Any] = {
        "tol": setting.tol,
        "max_iter": setting.max_iter,
        "max_epochs": most_epochs(problem),
    }
    if problem.loss == "hinge":
        return LinearSVC(C=problem.C, **common)
    common |= {"alpha": problem.alpha, "fit_intercept": False}
    if problem.loss == "squared" and problem.l1_ratio == 1.0:
        return Lasso(**common)
    kind = ElasticNet if problem.loss == "squared" else SparseLogisticRegression
    return kind(l1_ratio=problem.l1_ratio, **common)
