"""Adapter of celer's Lasso, ElasticNet and LogisticRegression.

Objective
    ``Lasso(alpha)`` and ``ElasticNet(alpha, l1_ratio)`` minimise ||y - Xw||^2 / (2n) + alpha R,
    which is alpha P with alpha = 1/(n C). ``LogisticRegression(C, penalty="l1")`` minimises
    sum l + ||w||_1 / C, which is P / C.
Knobs
    A ladder of ``tol``, celer's bound on the duality gap relative to ||y||^2 (to n log 2 for the
    logistic loss).
Time
    Wall clock of ``fit``. Dense data are copied to column order. Its logistic regression takes
    float64 only, so it gets a float64 copy, in column order, made inside the clock;
    ``prepare_seconds`` says how much that is.
Threads
    One.
"""

from __future__ import annotations

import time
from importlib import metadata
from typing import Any

import numpy as np
from celer import ElasticNet, Lasso, LogisticRegression
from scipy import sparse

from benchmarks.libraries import Fit, Setting, most_epochs, tolerance_ladder
from benchmarks.problems import Problem


class Adapter:
    """Fits celer's estimators."""

    name = "celer"

    def version(self) -> str:
        """Version of celer."""
        return metadata.version("celer")

    def obstacle(self, problem: Problem) -> str:
        """Ask for an L1 norm in the penalty; for the logistic loss nothing but it."""
        if problem.fit_intercept:
            return "not mapped: intercept"
        is_logistic_l1 = problem.loss == "logistic" and problem.l1_ratio == 1.0
        if is_logistic_l1 or (problem.loss == "squared" and problem.l1_ratio):
            return ""
        return f"no estimator for {problem.loss} with l1_ratio={problem.l1_ratio:g}"

    def settings(self, problem: Problem) -> list[Setting]:
        """One ladder of tolerances."""
        return tolerance_ladder("celer", 1e-1, 1e-10, 100)

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Fit on one thread."""
        start = time.perf_counter()
        X: Any = problem.X
        y: Any = problem.y
        if problem.loss == "logistic":
            X = X.astype(np.float64) if sparse.issparse(X) else np.asfortranarray(X, np.float64)
        prepare_seconds = time.perf_counter() - start
        model = _make_model(problem, setting)
        model.fit(X, y)
        coef = np.ravel(model.coef_).astype(np.float64)
        extra: dict[str, Any] = {"prepare_seconds": prepare_seconds}
        if hasattr(model, "n_iter_"):  # not the logistic regression
            extra["n_iter"] = int(np.max(model.n_iter_))
        return Fit(coef, 0.0, extra)

    def close(self) -> None:
        """Nothing to release."""


def _make_model(problem: Problem, setting: Setting) -> Any:
    """Build the estimator of the problem's loss and penalty."""
    common: dict[str, Any] = {
        "tol": setting.tol,
        "max_iter": setting.max_iter,
        # Its own limit of 50,000 a subproblem would be hours where a tolerance is not met.
        "max_epochs": most_epochs(problem),
        "fit_intercept": False,
    }
    if problem.loss == "logistic":
        return LogisticRegression(C=problem.C, penalty="l1", **common)
    if problem.l1_ratio == 1.0:
        return Lasso(alpha=problem.alpha, **common)
    return ElasticNet(alpha=problem.alpha, l1_ratio=problem.l1_ratio, **common)
