"""Adapter of this project's own estimators.

Objective
    The estimators minimise P as written in `benchmarks.problems`: `C` and `l1_ratio` are C and
    rho, the squared hinge has no 1/2. ``Ridge(alpha)`` is C = 1/alpha after dividing by alpha;
    ``Lasso(alpha)`` and ``ElasticNet(alpha, l1_ratio)`` have the mean of (z - y)^2 / 2 and
    alpha R, so alpha = 1/(n C) and their objective is alpha P. The intercept is not penalised.
Knobs
    ``tol`` bounds the relative duality gap. The ladder lowers it from 1 to 1e-8; every run stops
    by its own certificate, whose cost is part of its time. ``max_iter`` is generous, so that a
    run that stalls shows as slow; the certificate it ends with is recorded.
Solvers
    "auto" is what the comparison with other libraries is about. `compare_own_solvers` adds
    ladders of the fixed solvers "sdca" and "pqn".
What is not there yet
    An estimator, a parameter or a solver's name that this version does not have is found out by
    a fit of a few rows, and the problem is skipped with the reason.
Time
    Wall clock of ``fit`` on the float32 csr or C-ordered array.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from importlib import metadata
from typing import Any

import numpy as np

import snapml
from benchmarks.libraries import Fit, Setting, tolerance_ladder
from benchmarks.problems import Problem

AUTO = "auto"
OWN_SOLVERS = ("sdca", "pqn")
# A fit cannot be interrupted: a run that stalls ends after so many visits of stored values.
_MOST_VISITS = 1e10


class Adapter:
    """Fits the project's estimators."""

    name = "snapml"

    def __init__(self) -> None:
        self.compare_own_solvers = False

    def version(self) -> str:
        """Version of the installed distribution, or of the module."""
        try:
            return metadata.version("snapml-open")
        except metadata.PackageNotFoundError:
            return str(getattr(snapml, "__version__", "unknown"))

    def obstacle(self, problem: Problem) -> str:
        """Say what this version does not have yet."""
        return _obstacle(problem.loss, problem.l1_ratio, AUTO)

    def settings(self, problem: Problem) -> list[Setting]:
        """One ladder of relative duality gaps for each solver."""
        solvers = [AUTO]
        if self.compare_own_solvers:
            solvers += [s for s in OWN_SOLVERS if not _obstacle(problem.loss, problem.l1_ratio, s)]
        limit = _most_epochs(problem)
        return [rung for s in solvers for rung in tolerance_ladder(s, 1.0, 1e-8, limit)]

    def reference_setting(self, problem: Problem) -> Setting:
        """Return the setting of the extra tight run that helps to find P*."""
        return Setting(AUTO, 1e-9, max(20, _most_epochs(problem) // 5))

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Fit and read the certificate."""
        model = _make_model(problem, setting, n_threads)
        model.fit(problem.X, problem.y)
        # Lasso and ElasticNet report their own objective, alpha P.
        unit = problem.C * problem.X.shape[0] if _is_mean(problem) else 1.0
        extra = {
            "gap": unit * float(model.gap_),
            "reported_objective": unit * float(model.objective_),
            "n_iter": int(np.max(model.n_iter_)),
            "detail": str(model.solver_),
        }
        coef = np.reshape(model.coef_, problem.coef_shape).astype(np.float64)
        intercept = float(np.ravel(model.intercept_)[0]) if problem.fit_intercept else 0.0
        return Fit(coef, intercept, extra)

    def close(self) -> None:
        """Nothing to release."""


def _most_epochs(problem: Problem) -> int:
    """Limit of epochs."""
    return min(100_000, max(100, int(_MOST_VISITS / problem.n_nonzeros)))


def _is_mean(problem: Problem) -> bool:
    """Whether the estimator's objective has the mean of the losses instead of C times their sum."""
    return problem.loss == "squared" and problem.l1_ratio > 0.0


def _make_model(problem: Problem, setting: Setting, n_threads: int) -> Any:
    """Build the estimator of the problem's loss and penalty."""
    common: dict[str, Any] = {
        "fit_intercept": problem.fit_intercept,
        "tol": setting.tol,
        "max_iter": setting.max_iter,
        "random_state": problem.seed,
        "n_threads": n_threads,
    }
    rho = problem.l1_ratio
    own: dict[str, Any]
    if problem.loss in ("logistic", "multinomial"):
        kind, own = "LogisticRegression", {"C": problem.C, "l1_ratio": rho}
    elif problem.loss == "squared" and rho == 0.0:
        kind, own = "Ridge", {"alpha": 1.0 / problem.C}
    elif problem.loss == "squared" and rho == 1.0:
        kind, own = "Lasso", {"alpha": problem.alpha}
    elif problem.loss == "squared":
        kind, own = "ElasticNet", {"alpha": problem.alpha, "l1_ratio": rho}
    else:
        kind, own = "LinearSVC", {"C": problem.C, "loss": problem.loss}
    estimator = getattr(snapml, kind, None)
    if estimator is None:
        raise NotImplementedError(f"snapml.{kind} does not exist in this version")
    names = set(estimator._get_param_names())
    arguments = {name: value for name, value in {**common, **own}.items() if name in names}
    # A class without a choice, or without "auto", runs what its default is.
    if "solver" in names and (setting.solver != AUTO or _knows_auto(kind)):
        arguments["solver"] = setting.solver
    elif setting.solver != AUTO:
        raise NotImplementedError(f"{kind} has no solver={setting.solver!r} in this version")
    return estimator(**arguments)


@lru_cache
def _knows_auto(kind: str) -> bool:
    """Whether the class takes solver="auto"."""
    model = getattr(snapml, kind)(solver=AUTO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1], dtype=np.int32))
    except (TypeError, ValueError, NotImplementedError):
        return False
    return True


@lru_cache
def _obstacle(loss: str, l1_ratio: float, solver: str) -> str:
    """Fit a few rows and return the reason why that cannot be done; empty if it can."""
    rng = np.random.default_rng(0)
    n_classes = 3 if loss == "multinomial" else 2
    y: Any = (np.arange(60) % n_classes).astype(np.int32)
    if loss == "squared":
        y = rng.standard_normal(60).astype(np.float32)
    X = rng.standard_normal((60, 4)).astype(np.float32)
    tiny = Problem("", X, y, loss, 1.0, False, 1.0, l1_ratio=l1_ratio)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = _make_model(tiny, Setting(solver, 1e-2, 100), 1).fit(X, y)
    except Exception as error:  # whatever it is, it is the reason
        return f"{type(error).__name__}: {error}"
    if np.size(model.coef_) != int(np.prod(tiny.coef_shape)):
        return f"coef_ has shape {np.shape(model.coef_)}, not one vector a class"
    return ""
