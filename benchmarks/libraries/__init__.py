"""Adapters: one file per library, each stating how the library's objective maps to ours.

An adapter is a class that obeys `Library`. `load_library` finds it by the name used on the
command line and imports its library only then, so a missing peer is a reason to skip it and
never an import error of the benchmark.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems import Problem

# name on the command line and in the results -> module of this package
ADAPTER_MODULES = {
    "snapml": "ours",
    "sklearn": "sklearn_linear_model",
    "sklearnex": "sklearn_intelex",
    "liblinear": "liblinear_official",
    "glum": "glum_regressor",
    "skglm": "skglm_estimators",
    "celer": "celer_estimators",
    "ibm_snapml": "ibm_snapml",
}

# Proprietary: their results stay outside the repository.
UNPUBLISHED_LIBRARIES = frozenset({"ibm_snapml"})


@dataclass(frozen=True)
class Setting:
    """One rung of a ladder from loose to tight.

    Ladders are fine, some 20 rungs a factor of ten: `measure` searches them by bisection.

    Parameters
    ----------
    solver : str
        The library's name for its algorithm.
    tol : float
        The library's own stopping tolerance; 0 means that only `max_iter` stops it.
    max_iter : int
        The library's own limit of iterations; 0 where it has none.
    """

    solver: str
    tol: float
    max_iter: int

    @property
    def label(self) -> str:
        """Text for the results file."""
        limit = f" max_iter={self.max_iter}" if self.max_iter else ""
        return f"tol={self.tol:g}{limit}"


class Fit(NamedTuple):
    """What a fit hands back to the harness.

    Parameters
    ----------
    coef : ndarray of shape `Problem.coef_shape`
        float64 coefficients for class 1 (label +1), or a row for each class.
    intercept : float
        Intercept; 0 without one.
    extra : dict
        Any of: ``gap`` (certified P - P* <= gap), ``reported_objective``, ``n_iter``,
        ``detail`` (text), ``prepare_seconds`` (share of the time spent on converting the
        input), and, from a process of its own, ``seconds`` and ``cpu_seconds``, which then
        replace the harness's clock.
    """

    coef: NDArray[np.float64]
    intercept: float
    extra: dict[str, Any]


class Library(Protocol):
    """What the harness asks of an adapter."""

    name: str

    def version(self) -> str:
        """Version of the library."""
        ...

    def obstacle(self, problem: Problem) -> str:
        """Why the library cannot minimise exactly this problem's objective; empty if it can."""
        ...

    def settings(self, problem: Problem) -> list[Setting]:
        """Ladders of all solvers that apply, each from loose to tight."""
        ...

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Solve once, from nothing."""
        ...

    def close(self) -> None:
        """Release processes and files."""
        ...


def load_library(name: str) -> Library:
    """Import an adapter and its library.

    Parameters
    ----------
    name : str
        Key of `ADAPTER_MODULES`.

    Returns
    -------
    Library
        A new adapter.

    Raises
    ------
    ImportError
        If the library is not installed, or (IBM's) not configured.
    """
    module = importlib.import_module(f".{ADAPTER_MODULES[name]}", __package__)
    return cast(Library, module.Adapter())


def most_epochs(problem: Problem) -> int:
    """Limit of epochs for a solver that stops by its own tolerance.

    A fit cannot be interrupted, so a solver that stalls short of its tolerance is stopped after
    5e9 visits of stored values, which take longer than the budget of a fit.

    Parameters
    ----------
    problem : Problem
        What to solve.

    Returns
    -------
    int
        Epochs, at most 20,000.
    """
    return min(20_000, max(50, int(5e9 / problem.n_nonzeros)))


def is_large_and_dense(problem: Problem) -> bool:
    """Whether LIBLINEAR's dual solvers are left out where there is a primal one.

    On dense rows each of their fits would take half a minute, and the primal ones are ahead.

    Parameters
    ----------
    problem : Problem
        What to solve.

    Returns
    -------
    bool
        True for more than 2e7 values without a zero pattern.
    """
    return not problem.is_sparse and problem.n_nonzeros > 2e7


def step_ladder(solver: str, tightest: int, tol: float = 0.0) -> list[Setting]:
    """Build a ladder of limits of iterations, neighbours at most a factor of 1.2 apart.

    Parameters
    ----------
    solver : str
        The solver all rungs share.
    tightest : int
        The last limit.
    tol : float, default=0.0
        The tolerance all rungs share.

    Returns
    -------
    list of Setting
        Loose to tight.
    """
    limits = [1]
    while limits[-1] < tightest:
        limits.append(min(max(limits[-1] + 1, int(1.2 * limits[-1])), tightest))
    return [Setting(solver, tol, limit) for limit in limits]


def tolerance_ladder(
    solver: str, loosest: float, tightest: float, max_iter: int = 0
) -> list[Setting]:
    """Build a ladder of tolerances, six to a factor of ten.

    Parameters
    ----------
    solver : str
        The solver all rungs share.
    loosest, tightest : float
        First and last tolerance.
    max_iter : int, default=0
        The limit of iterations all rungs share.

    Returns
    -------
    list of Setting
        Loose to tight.
    """
    n_rungs = 1 + max(1, round(6 * math.log10(loosest / tightest)))
    tolerances = np.geomspace(loosest, tightest, n_rungs)
    return [Setting(solver, float(f"{tol:.3g}"), max_iter) for tol in tolerances]
