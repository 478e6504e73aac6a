"""Timed fits in interleaved rounds.

For each repeat, for each rung of the ladders, every contender (a library's solver) fits once:
a slow minute of a shared machine then falls on all of them, not on one. The order rotates with
the repeat.
"""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.libraries import Library, Setting
from benchmarks.objective import primal_objective
from benchmarks.problems import Problem
from benchmarks.records import FitRecord

_WARM_UP_ROWS_PER_CLASS = 1000
# Accuracies are read down to 1e-6; a rung that moved P by less than this says "converged".
_STALLED = 1e-10


@dataclass
class Contender:
    """One solver of one library on one problem, and how far up its ladder it may go.

    Parameters
    ----------
    library : Library
        The adapter.
    solver : str
        The solver's name.
    settings : list of Setting
        Its ladder.
    version : str
        The library's version.
    """

    library: Library
    solver: str
    settings: list[Setting]
    version: str
    n_open_levels: int = field(init=False)
    last: FitRecord | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Open the whole ladder."""
        self.n_open_levels = len(self.settings)


@dataclass
class Outcome:
    """What a problem's rounds produced.

    Parameters
    ----------
    records : list of FitRecord
        One per fit; ``relative_suboptimality`` is still missing.
    failures : list of str
        Contenders that raised, with the error.
    best_coef : ndarray of shape (n_features,) or None
        Coefficients of the least objective seen.
    best_objective : float
        That objective.
    """

    records: list[FitRecord] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    best_coef: NDArray[np.float64] | None = None
    best_objective: float = np.inf

    def add(self, record: FitRecord, coef: NDArray[np.float64]) -> None:
        """Keep a record, and the coefficients if they are the best so far.

        Parameters
        ----------
        record : FitRecord
            The measured fit.
        coef : ndarray of shape (n_features,)
            Its coefficients.
        """
        self.records.append(record)
        if record.objective < self.best_objective:
            self.best_objective, self.best_coef = record.objective, coef


def find_contenders(
    problem: Problem, libraries: list[Library], versions: dict[str, str]
) -> list[Contender]:
    """List the solvers that apply to a problem.

    Parameters
    ----------
    problem : Problem
        What to solve.
    libraries : list of Library
        Adapters.
    versions : dict
        Library name to version.

    Returns
    -------
    list of Contender
        One per library and solver.
    """
    return [
        Contender(library, solver, list(settings), versions[library.name])
        for library in libraries
        if library.supports(problem)
        for solver, settings in groupby(library.settings(problem), key=lambda s: s.solver)
    ]


def warm_up(problem: Problem, contenders: list[Contender], n_threads: int) -> list[str]:
    """Let every contender fit a few rows once: lazy imports, thread pools, compiled kernels.

    A contender that fails is taken off the list.

    Parameters
    ----------
    problem : Problem
        The full problem.
    contenders : list of Contender
        Changed in place.
    n_threads : int
        Threads of the later fits.

    Returns
    -------
    list of str
        Failures.
    """
    classes = np.unique(problem.y) if problem.is_classification else [None]
    chosen = [
        np.flatnonzero(problem.y == label if label is not None else np.ones(problem.y.size, bool))
        for label in classes
    ]
    slice_rows = np.sort(np.concatenate([rows[:_WARM_UP_ROWS_PER_CLASS] for rows in chosen]))
    small = problem.rows(slice_rows)
    failures = []
    for contender in list(contenders):
        try:
            measure_fit(small, contender, 0, -1, n_threads, {})
        except Exception as error:  # one peer's failure must not end the run
            failures.append(f"{contender.library.name} {contender.solver} (warm-up): {error}")
            contenders.remove(contender)
    # Without the modules loaded by now, collecting before every fit takes no time.
    gc.freeze()
    return failures


def measure_fit(
    problem: Problem,
    contender: Contender,
    level: int,
    repeat: int,
    n_threads: int,
    facts: dict[str, Any],
) -> tuple[FitRecord, NDArray[np.float64]]:
    """Fit once on a clock and judge the result.

    Parameters
    ----------
    problem : Problem
        What to solve.
    contender : Contender
        Who solves it.
    level : int
        Rung of the contender's ladder.
    repeat : int
        Number of the round.
    n_threads : int
        Threads for the library, BLAS and OpenMP.
    facts : dict
        What `records.machine_facts` returned.

    Returns
    -------
    record : FitRecord
        Without relative suboptimality.
    coef : ndarray of shape (n_features,)
        The coefficients found.
    """
    setting = contender.settings[level]
    gc.collect()
    load_average = os.getloadavg()[0]
    with warnings.catch_warnings(), threadpool_limits(n_threads):
        # Loose rungs stop early on purpose: each would warn that it did.
        warnings.simplefilter("ignore")
        cpu_start, start = time.process_time(), time.perf_counter()
        coef, intercept, extra = contender.library.fit(problem, setting, n_threads)
        seconds = time.perf_counter() - start
        cpu_seconds = time.process_time() - cpu_start
    if not np.all(np.isfinite(coef)):
        raise ArithmeticError(f"{setting.label}: coefficients are not finite")
    record = FitRecord(
        **_describe(problem),
        library=contender.library.name,
        library_version=contender.version,
        solver=contender.solver,
        setting=setting.label,
        level=level,
        threads=n_threads,
        repeat=repeat,
        seconds=float(extra.get("seconds", seconds)),
        cpu_seconds=float(extra.get("cpu_seconds", cpu_seconds)),
        prepare_seconds=float(extra.get("prepare_seconds", 0.0)),
        objective=primal_objective(problem, coef, intercept),
        relative_suboptimality=None,
        gap=extra.get("gap"),
        reported_objective=extra.get("reported_objective"),
        n_iter=extra.get("n_iter"),
        detail=str(extra.get("detail", "")),
        load_average=round(load_average, 2),
        **(facts or {"versions": "", "cpu_model": "", "cores": 0, "date": ""}),
    )
    return record, coef


def _describe(problem: Problem) -> dict[str, Any]:
    """Columns that say what was solved."""
    return {
        "problem": problem.name,
        "loss": problem.loss,
        "C": problem.C,
        "fit_intercept": problem.fit_intercept,
        "n_rows": problem.X.shape[0],
        "n_features": problem.X.shape[1],
        "n_nonzeros": problem.n_nonzeros,
        "scale": problem.scale,
        "seed": problem.seed,
    }


def run_rounds(
    problem: Problem,
    contenders: list[Contender],
    n_repeats: int,
    budget_s: float,
    n_threads: int,
    facts: dict[str, Any],
    report: Callable[[str], None],
) -> Outcome:
    """Run all rounds of a problem.

    A contender stops climbing its ladder after a fit that took longer than the budget, and
    after a rung whose larger limit of iterations changed nothing; in later rounds it also skips
    the rung that told so.

    Parameters
    ----------
    problem : Problem
        What to solve.
    contenders : list of Contender
        Who solves it.
    n_repeats : int
        Rounds.
    budget_s : float
        Seconds a fit may take before its contender stops climbing.
    n_threads : int
        Threads for the libraries.
    facts : dict
        What `records.machine_facts` returned.
    report : callable
        Receives one line per fit.

    Returns
    -------
    Outcome
        Records, failures and the best point.
    """
    outcome = Outcome()
    n_levels = max((len(c.settings) for c in contenders), default=0)
    for repeat in range(n_repeats):
        first = repeat % max(len(contenders), 1)
        order = contenders[first:] + contenders[:first]
        for level in range(n_levels):
            for contender in (c for c in order if level < c.n_open_levels):
                line = _take_turn(problem, contender, level, repeat, n_threads, facts, outcome)
                report(line)
                _limit_ladder(contender, level, budget_s)
    return outcome


def _take_turn(
    problem: Problem,
    contender: Contender,
    level: int,
    repeat: int,
    n_threads: int,
    facts: dict[str, Any],
    outcome: Outcome,
) -> str:
    """Fit once, file the record or the failure, and return a line for the log."""
    name = f"{contender.library.name} {contender.solver} {contender.settings[level].label}"
    contender.last, previous = None, contender.last
    try:
        record, coef = measure_fit(problem, contender, level, repeat, n_threads, facts)
    except Exception as error:  # one peer's failure must not end the run
        contender.n_open_levels = 0
        outcome.failures.append(f"{problem.name}: {name}: {type(error).__name__}: {error}")
        return f"  [{repeat}] {name}: FAILED {error}"
    outcome.add(record, coef)
    contender.last = record
    if previous is not None and _has_stalled(previous, record, contender):
        contender.n_open_levels = level
    return f"  [{repeat}] {name}: {record.seconds:.4f} s  P = {record.objective:.10g}"


def _has_stalled(previous: FitRecord, record: FitRecord, contender: Contender) -> bool:
    """Whether raising nothing but the limit of iterations left the objective where it was."""
    if (previous.repeat, previous.level) != (record.repeat, record.level - 1):
        return False
    settings = contender.settings
    same_tol = settings[previous.level].tol == settings[record.level].tol
    return same_tol and abs(previous.objective - record.objective) <= _STALLED * record.objective


def _limit_ladder(contender: Contender, level: int, budget_s: float) -> None:
    """Close the rungs above one that went over the budget."""
    if contender.last is not None and contender.last.seconds > budget_s:
        contender.n_open_levels = min(contender.n_open_levels, level)


def fill_suboptimality(records: list[FitRecord]) -> float:
    """Set every record's relative suboptimality against the least objective among them.

    Parameters
    ----------
    records : list of FitRecord
        All records of one problem, reference runs included; changed in place.

    Returns
    -------
    float
        The least objective, P*.
    """
    optimum = min(record.objective for record in records)
    for record in records:
        record.relative_suboptimality = (record.objective - optimum) / optimum
    return optimum


def as_row(record: FitRecord) -> dict[str, Any]:
    """Return a record as a row of the results file.

    Parameters
    ----------
    record : FitRecord
        The record.

    Returns
    -------
    dict
        Column name to value.
    """
    return asdict(record)
