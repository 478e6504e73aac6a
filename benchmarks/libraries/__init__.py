"""Adapters: one file per library, each stating how the library's objective maps to ours.

An adapter is a class that obeys `Library`. `load_library` finds it by the name used on the
command line and imports its library only then, so a missing peer is a reason to skip it and
never an import error of the benchmark.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems import Problem

# name on the command line and in the results -> module of this package
ADAPTER_MODULES = {
    "snapml": "ours",
    "sklearn": "sklearn_linear_model",
    "liblinear": "liblinear_official",
    "ibm_snapml": "ibm_snapml",
}

# Proprietary: their results stay outside the repository.
UNPUBLISHED_LIBRARIES = frozenset({"ibm_snapml"})


@dataclass(frozen=True)
class Setting:
    """One rung of a ladder from loose to tight.

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
    coef : ndarray of shape (n_features,)
        float64 coefficients for class 1 (label +1).
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

    def supports(self, problem: Problem) -> bool:
        """Whether the library can minimise exactly this problem's objective."""
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
    4e10 visits of stored values, which is some minutes: far above any budget, and finite.

    Parameters
    ----------
    problem : Problem
        What to solve.

    Returns
    -------
    int
        Epochs, at most 100,000.
    """
    return min(100_000, max(100, int(4e10 / problem.n_nonzeros)))


def ladder(solver: str, rungs: list[tuple[float, int]]) -> list[Setting]:
    """Build a ladder of settings from (tol, max_iter) pairs.

    Parameters
    ----------
    solver : str
        The solver all rungs share.
    rungs : list of tuple
        (tol, max_iter), loose to tight.

    Returns
    -------
    list of Setting
        In the same order.
    """
    return [Setting(solver, tol, max_iter) for tol, max_iter in rungs]
