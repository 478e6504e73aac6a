"""Adapter of scikit-learn's LogisticRegression, LinearSVC and Ridge.

Objective
    ``LogisticRegression(C)`` and ``LinearSVC(C)`` minimise P as it stands (the squared hinge
    has no 1/2). ``Ridge(alpha)`` minimises ||y - Xw||^2 + alpha ||w||^2 = 2 alpha P, so
    alpha = 1/C. The solver "liblinear", and LinearSVC, penalise the intercept: with an
    intercept they are left out.
Knobs
    lbfgs, newton-cg, newton-cholesky, sag, saga, sparse_cg: a ladder of ``max_iter`` with
    tol = 0 (1e-10 for sparse_cg), that is, stopped by an oracle at the best moment; this
    favours them over a solver that has to detect its own accuracy. liblinear and LinearSVC: a
    ladder of ``tol``, because their inner loops are not comparable per iteration. "cholesky" has
    no knob. newton-cholesky and cholesky form an n_features^2 matrix and are left out above
    2,500 columns.
Time
    Wall clock of ``fit``. float32 input is kept by all but liblinear, which copies to float64.
Threads
    ``n_jobs`` does not act on one binary problem; the harness limits BLAS and OpenMP threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from benchmarks.libraries import Fit, Setting, ladder, most_epochs
from benchmarks.problems import Problem

_LARGEST_GRAM = 2500
_QUASI_NEWTON_STEPS = (2, 5, 10, 15, 20, 30, 40, 60, 80, 120, 200, 300, 500, 1000, 2000)
_NEWTON_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50)
_EPOCHS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 500, 1000)
_LIBLINEAR_TOLERANCES = (0.3, 0.1, 0.03, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)


class Adapter:
    """Fits scikit-learn's estimators."""

    name = "sklearn"

    def version(self) -> str:
        """Version of scikit-learn."""
        return str(sklearn.__version__)

    def supports(self, problem: Problem) -> bool:
        """LinearSVC penalises its intercept, so hinge problems need fit_intercept=False."""
        return not (problem.fit_intercept and problem.loss in ("hinge", "squared_hinge"))

    def settings(self, problem: Problem) -> list[Setting]:
        """Ladders of the solvers that fit the problem's loss and width."""
        if problem.loss == "logistic":
            return self._logistic_settings(problem)
        if problem.loss == "squared":
            return self._ridge_settings(problem)
        dual = _tolerance_ladder("liblinear-dual", most_epochs(problem))
        # LIBLINEAR has no primal solver of the hinge.
        primal = _tolerance_ladder("liblinear-primal", 1000)
        return dual + (primal if problem.loss == "squared_hinge" else [])

    def _logistic_settings(self, problem: Problem) -> list[Setting]:
        settings = _step_ladder("lbfgs", _QUASI_NEWTON_STEPS)
        settings += _step_ladder("newton-cg", _NEWTON_STEPS)
        if problem.X.shape[1] <= _LARGEST_GRAM:
            settings += _step_ladder("newton-cholesky", _NEWTON_STEPS)
        if not problem.fit_intercept:
            settings += _tolerance_ladder("liblinear", 1000)
        return settings + _step_ladder("sag", _EPOCHS) + _step_ladder("saga", _EPOCHS)

    def _ridge_settings(self, problem: Problem) -> list[Setting]:
        settings = ladder("sparse_cg", [(1e-10, n) for n in _QUASI_NEWTON_STEPS])
        if problem.X.shape[1] <= _LARGEST_GRAM and not problem.is_sparse:
            settings += ladder("cholesky", [(0.0, 0)])
        return settings + _step_ladder("sag", _EPOCHS)

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Fit one estimator; threads are limited by the harness."""
        model = self._make_model(problem, setting)
        model.fit(problem.X, problem.y)
        coef = np.ravel(model.coef_).astype(np.float64)
        intercept = float(np.ravel(model.intercept_)[0]) if problem.fit_intercept else 0.0
        n_iter = model.n_iter_
        extra = {} if n_iter is None else {"n_iter": int(np.max(n_iter))}
        return Fit(coef, intercept, extra)

    def _make_model(self, problem: Problem, setting: Setting) -> Any:
        """Build the estimator of the problem's loss and the setting's solver."""
        common: dict[str, Any] = {
            "fit_intercept": problem.fit_intercept,
            "random_state": problem.seed,
        }
        if problem.loss == "squared":
            return Ridge(
                alpha=1.0 / problem.C,
                solver=setting.solver,
                tol=setting.tol,
                max_iter=setting.max_iter or None,
                **common,
            )
        common |= {"C": problem.C, "tol": setting.tol, "max_iter": setting.max_iter}
        if problem.loss == "logistic":
            return LogisticRegression(solver=setting.solver, **common)
        return LinearSVC(loss=problem.loss, dual=setting.solver == "liblinear-dual", **common)

    def close(self) -> None:
        """Nothing to release."""


def _step_ladder(solver: str, steps: tuple[int, ...]) -> list[Setting]:
    """Ladder of iteration limits without a tolerance."""
    return ladder(solver, [(0.0, n_steps) for n_steps in steps])


def _tolerance_ladder(solver: str, max_iter: int) -> list[Setting]:
    """Ladder of LIBLINEAR's tolerances."""
    return ladder(solver, [(tol, max_iter) for tol in _LIBLINEAR_TOLERANCES])
