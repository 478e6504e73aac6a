"""Adapter of scikit-learn's LogisticRegression, LinearSVC, Ridge, Lasso and ElasticNet.

Objective
    ``LogisticRegression(C, l1_ratio)``, with two classes or more, and ``LinearSVC(C)`` minimise P
    as it stands (the squared hinge has no 1/2). ``Ridge(alpha)`` minimises
    ||y - Xw||^2 + alpha ||w||^2 = 2 alpha P, so alpha = 1/C. ``Lasso(alpha)`` and
    ``ElasticNet(alpha, l1_ratio)`` minimise ||y - Xw||^2 / (2n) + alpha R = alpha P with
    alpha = 1/(n C). The solver "liblinear", and LinearSVC, penalise the intercept: with an
    intercept they are left out.
Knobs
    lbfgs, newton-cg, newton-cholesky, saga, sparse_cg, lsqr: a ladder of ``max_iter`` with
    tol = 0 (1e-10 for sparse_cg, 1e-12 for lsqr), that is, stopped by an oracle at the best
    moment; this favours them over a solver that has to detect its own accuracy. liblinear,
    LinearSVC, Lasso and ElasticNet ("cd"; the tolerance bounds the duality gap over ||y||^2): a
    ladder of ``tol``, because their inner loops are not comparable per iteration. "cholesky" and
    "svd" have no knob.
Left out
    newton-cholesky and cholesky where the matrix they form has more than 2,500 columns; svd above
    5e10 multiplications; LIBLINEAR's dual solvers as `is_large_and_dense` says; sag,
    whose rate is saga's; saga on dense data with an L2 penalty, where the others are far ahead.
Time
    Wall clock of ``fit``. float32 input is kept by all but liblinear, which copies to float64;
    Lasso and ElasticNet copy to column order.
Threads
    ``n_jobs`` does not act on one problem; the harness limits BLAS and OpenMP threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from benchmarks.libraries import (
    Fit,
    Setting,
    is_large_and_dense,
    most_epochs,
    step_ladder,
    tolerance_ladder,
)
from benchmarks.problems import Problem

_LARGEST_GRAM = 2500
_LARGEST_SVD = 5e10
_QUASI_NEWTON_STEPS = 3000
_NEWTON_STEPS = 60
_EPOCHS = 2000


class Adapter:
    """Fits scikit-learn's estimators."""

    name = "sklearn"

    def version(self) -> str:
        """Version of scikit-learn."""
        return str(sklearn.__version__)

    def obstacle(self, problem: Problem) -> str:
        """LinearSVC penalises its intercept, so hinge problems need fit_intercept=False."""
        if problem.fit_intercept and problem.loss in ("hinge", "squared_hinge"):
            return "LinearSVC penalises the intercept"
        return ""

    def settings(self, problem: Problem) -> list[Setting]:
        """Ladders of the solvers that fit the problem's loss, penalty and width."""
        if problem.loss in ("logistic", "multinomial"):
            return self._logistic_settings(problem)
        if problem.loss == "squared":
            return self._regression_settings(problem)
        dual = tolerance_ladder("liblinear-dual", 1.0, 1e-8, most_epochs(problem))
        if problem.loss == "hinge":  # LIBLINEAR has no primal solver of it
            return dual
        primal = tolerance_ladder("liblinear-primal", 1.0, 1e-8, 1000)
        return primal if is_large_and_dense(problem) else dual + primal

    def _logistic_settings(self, problem: Problem) -> list[Setting]:
        is_binary = problem.loss == "logistic"
        saga = step_ladder("saga", _EPOCHS)
        liblinear = tolerance_ladder("liblinear", 1.0, 1e-8, 1000)
        if problem.l1_ratio:
            has_liblinear = problem.l1_ratio == 1.0 and not problem.fit_intercept
            return (liblinear if has_liblinear else []) + saga
        settings = step_ladder("lbfgs", _QUASI_NEWTON_STEPS)
        settings += step_ladder("newton-cg", _NEWTON_STEPS)
        if int(np.prod(problem.coef_shape)) <= _LARGEST_GRAM:
            settings += step_ladder("newton-cholesky", _NEWTON_STEPS)
        if is_binary and not problem.fit_intercept:
            settings += liblinear
        return settings + (saga if problem.is_sparse else [])

    def _regression_settings(self, problem: Problem) -> list[Setting]:
        if problem.l1_ratio:
            return tolerance_ladder("cd", 1.0, 1e-10, most_epochs(problem))
        settings = step_ladder("sparse_cg", _QUASI_NEWTON_STEPS, tol=1e-10)
        settings += step_ladder("lsqr", _QUASI_NEWTON_STEPS, tol=1e-12)
        if problem.X.shape[1] <= _LARGEST_GRAM and not problem.is_sparse:
            settings.append(Setting("cholesky", 0.0, 0))
            n_rows, n_features = problem.X.shape
            if n_rows * n_features**2 <= _LARGEST_SVD:
                settings.append(Setting("svd", 0.0, 0))
        return settings

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Fit one estimator; threads are limited by the harness."""
        model = make_model(problem, setting)
        model.fit(problem.X, problem.y)
        coef = np.reshape(model.coef_, problem.coef_shape).astype(np.float64)
        intercept = float(np.ravel(model.intercept_)[0]) if problem.fit_intercept else 0.0
        n_iter = model.n_iter_
        extra = {} if n_iter is None else {"n_iter": int(np.max(n_iter))}
        return Fit(coef, intercept, extra)

    def close(self) -> None:
        """Nothing to release."""


def make_model(problem: Problem, setting: Setting) -> Any:
    """Build the estimator of the problem's loss, its penalty and the setting's solver.

    Parameters
    ----------
    problem : Problem
        What to solve.
    setting : Setting
        How.

    Returns
    -------
    estimator
        Not fitted.
    """
    common: dict[str, Any] = {
        "fit_intercept": problem.fit_intercept,
        "random_state": problem.seed,
        "tol": setting.tol,
    }
    if problem.loss == "squared" and problem.l1_ratio:
        common |= {"alpha": problem.alpha, "max_iter": setting.max_iter}
        if problem.l1_ratio == 1.0:
            return Lasso(**common)
        return ElasticNet(l1_ratio=problem.l1_ratio, **common)
    if problem.loss == "squared":
        max_iter = setting.max_iter or None
        return Ridge(alpha=1.0 / problem.C, solver=setting.solver, max_iter=max_iter, **common)
    common |= {"C": problem.C, "max_iter": setting.max_iter}
    if problem.loss in ("logistic", "multinomial"):
        return LogisticRegression(solver=setting.solver, l1_ratio=problem.l1_ratio, **common)
    return LinearSVC(loss=problem.loss, dual=setting.solver == "liblinear-dual", **common)
