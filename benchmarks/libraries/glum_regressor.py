"""Adapter of glum's GeneralizedLinearRegressor.

Objective
    deviance / (2n) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2). The deviance of the
    binomial family is twice the sum of the logistic losses, that of the normal family the sum of
    (z - y)^2: the objective is alpha P with alpha = 1/(n C).
Knobs
    A ladder of ``gradient_tol``, glum's bound on the largest component of the (sub)gradient of
    its objective.
Solvers
    "irls-ls" (iterated least squares) and "lbfgs" without, "irls-cd" with an L1 norm. The
    iterated solvers form a matrix of n_features^2 and are left out above 2,500 columns.
Time
    Wall clock of a float64 copy and ``fit``, which converts to its own matrix type. In float32
    glum 3.4 stops short of 1e-3 (relative suboptimality 3e-3 on ``text`` at a hundredth of its
    size, by both solvers), so it gets what it can work with; ``prepare_seconds`` is the copy.
Threads
    OpenMP, limited by the harness.
"""

from __future__ import annotations

import time
from importlib import metadata

import numpy as np
from glum import GeneralizedLinearRegressor

from benchmarks.libraries import Fit, Setting, tolerance_ladder
from benchmarks.problems import Problem

_LARGEST_GRAM = 2500
# A fit cannot be interrupted; its own limit of inner iterations is 100,000.
_MAX_ITER = 300
_MAX_INNER_ITER = 2000
_FAMILIES = {"logistic": "binomial", "squared": "normal"}


class Adapter:
    """Fits glum's regressor."""

    name = "glum"

    def version(self) -> str:
        """Version of glum."""
        return metadata.version("glum")

    def obstacle(self, problem: Problem) -> str:
        """Generalised linear models only: no hinge, one output."""
        if problem.loss not in _FAMILIES:
            return f"no {problem.loss} loss"
        if problem.l1_ratio and problem.X.shape[1] > _LARGEST_GRAM:
            return f"more than {_LARGEST_GRAM} columns"
        return ""

    def settings(self, problem: Problem) -> list[Setting]:
        """One ladder of gradient tolerances for each solver."""
        if problem.l1_ratio:
            return _ladder("irls-cd")
        is_narrow = problem.X.shape[1] <= _LARGEST_GRAM
        return (_ladder("irls-ls") if is_narrow else []) + _ladder("lbfgs")

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Fit; threads are limited by the harness."""
        model = GeneralizedLinearRegressor(
            family=_FAMILIES[problem.loss],
            alpha=problem.alpha,
            l1_ratio=problem.l1_ratio,
            fit_intercept=problem.fit_intercept,
            solver=setting.solver,
            gradient_tol=setting.tol,
            max_iter=setting.max_iter,
            max_inner_iter=_MAX_INNER_ITER,
        )
        start = time.perf_counter()
        X, y = problem.X.astype(np.float64), problem.y.astype(np.float64)
        prepare_seconds = time.perf_counter() - start
        model.fit(X, y)
        coef = np.asarray(model.coef_, dtype=np.float64)
        extra = {"n_iter": int(model.n_iter_), "prepare_seconds": prepare_seconds}
        return Fit(coef, float(model.intercept_), extra)

    def close(self) -> None:
        """Nothing to release."""


def _ladder(solver: str) -> list[Setting]:
    """Tolerances of a solver."""
    return tolerance_ladder(solver, 1e-2, 1e-9, _MAX_ITER)
