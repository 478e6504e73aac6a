"""Timed fits: a search of every ladder, then interleaved rounds of what it found.

The optimum is known before the clock starts. In the search (repeat 0) every contender, that is a
library's solver, climbs its ladder in strides until a fit reaches the tightest target, and then
bisects for the loosest rung that reaches each target. It gives up after a fit above the budget,
or one that took many times what another contender needed in all. Contenders take turns, so that a
slow minute of a shared machine falls on all of them.

In the rounds that follow only the rungs found are fitted again, and of a library's solvers only
those that came near its best: what is reported is each library's quickest solver.
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
from benchmarks.reference import Reference

_WARM_UP_ROWS_PER_CLASS = 1000
# Accuracies are read down to 1e-6; a rung that moved P by less than this says "converged".
_STALLED = 1e-10
TARGETS = (1e-3, 1e-6)
_STRIDE = 6
# Fits this short are not worth giving up on.
_PATIENCE_S = 0.1
_OURS = "snapml"


@dataclass(frozen=True)
class Limits:
    """When a contender's search ends.

    Parameters
    ----------
    budget_s : float
        Seconds of a fit after which its contender climbs no further.
    give_up : float
        The same for a fit that took this many times the seconds in which another contender
        reached the tightest target. Not for this project's own solvers.
    near : float
        Solvers within this factor of their library's best are measured in all rounds.
    """

    budget_s: float = 3.0
    give_up: float = 6.0
    near: float = 1.6


@dataclass
class Contender:
    """One solver of one library on one problem, and what is known about its ladder.

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
    seconds: dict[int, float] = field(init=False, default_factory=dict)
    errors: dict[int, float] = field(init=False, default_factory=dict)
    is_climbing: bool = field(init=False, default=True)

    @property
    def is_ours(self) -> bool:
        """Whether the library is this project."""
        return self.library.name == _OURS

    def note(self, level: int, seconds: float, error: float) -> None:
        """Remember a fit of the search.

        Parameters
        ----------
        level : int
            Rung.
        seconds : float
            Time of the fit.
        error : float
            Relative suboptimality.
        """
        before = sorted(self.errors)[-2:]
        self.seconds[level], self.errors[level] = seconds, error
        if not self.is_climbing:
            return
        is_done = error <= min(TARGETS) or level == len(self.settings) - 1
        # A larger limit of iterations that changes nothing says so at once; a tolerance may lie
        # between two steps of a solver, but not three tolerances a factor of ten apart.
        n_equal = 1 if before and self.settings[before[-1]].tol == self.settings[level].tol else 2
        if len(before) >= n_equal:
            is_done |= all(abs(self.errors[k] - error) <= _STALLED for k in before[-n_equal:])
        self.is_climbing = not is_done

    def level_of(self, target: float) -> int | None:
        """Return the loosest rung known to reach a target.

        Parameters
        ----------
        target : float
            Relative suboptimality.

        Returns
        -------
        int or None
            None if none does.
        """
        return min((level for level, e in self.errors.items() if e <= target), default=None)

    def seconds_to(self, target: float) -> float:
        """Return the least seconds of a rung that reaches a target.

        Parameters
        ----------
        target : float
            Relative suboptimality.

        Returns
        -------
        float
            Infinite if none does.
        """
        return min((self.seconds[k] for k, e in self.errors.items() if e <= target), default=np.inf)

    def next_level(self, worth: Callable[[float], float]) -> int | None:
        """Return the rung to try next.

        Parameters
        ----------
        worth : callable
            For a target, the seconds beyond which this contender need not be looked at closer.

        Returns
        -------
        int or None
            None when the search is over.
        """
        if self.is_climbing:
            last = len(self.settings) - 1
            return min(max(self.errors, default=-1) + _STRIDE, last)
        for target in sorted(TARGETS):
            high = self.level_of(target)
            if high is None:
                continue
            low = max((level for level in self.errors if level < high), default=-1)
            if high - low > 1 and self.seconds.get(low, 0.0) <= worth(target):
                return (low + high) // 2
        return None


@dataclass
class Outcome:
    """What a problem's rounds produced.

    Parameters
    ----------
    records : list of FitRecord
        One per fit; ``relative_suboptimality`` is still missing.
    failures : list of str
        Contenders that raised, with the error.
    best_coef : ndarray of shape `Problem.coef_shape` or None
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
        coef : ndarray of shape `Problem.coef_shape`
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
        if not library.obstacle(problem)
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
    coef : ndarray of shape `Problem.coef_shape`
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


def reference_record(
    problem: Problem, reference: Reference, seconds: float, facts: dict[str, Any]
) -> FitRecord:
    """Return the harness's own optimum as a record.

    Parameters
    ----------
    problem : Problem
        What was solved.
    reference : Reference
        The optimum.
    seconds : float
        Time it took.
    facts : dict
        What `records.machine_facts` returned.

    Returns
    -------
    FitRecord
        Of the library "reference".
    """
    return FitRecord(
        **_describe(problem),
        library="reference",
        library_version="",
        solver=reference.method,
        setting="",
        level=0,
        threads=1,
        repeat=0,
        seconds=seconds,
        cpu_seconds=0.0,
        prepare_seconds=0.0,
        objective=reference.objective,
        relative_suboptimality=None,
        gap=reference.gap,
        reported_objective=None,
        n_iter=reference.n_iter,
        detail="",
        load_average=round(os.getloadavg()[0], 2),
        **facts,
    )


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
        "l1_ratio": problem.l1_ratio,
        "strength": problem.strength,
    }


def run_rounds(
    problem: Problem,
    contenders: list[Contender],
    optimum: float,
    n_repeats: int,
    limits: Limits,
    n_threads: int,
    facts: dict[str, Any],
    report: Callable[[str], None],
) -> Outcome:
    """Search the ladders, then measure what was found.

    Parameters
    ----------
    problem : Problem
        What to solve.
    contenders : list of Contender
        Who solves it.
    optimum : float
        P*, as far as it is known before.
    n_repeats : int
        Times each rung found is fitted, the search included.
    limits : Limits
        When to give up.
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

    def take_turn(contender: Contender, level: int, repeat: int) -> bool:
        name = f"{contender.library.name} {contender.solver} {contender.settings[level].label}"
        try:
            record, coef = measure_fit(problem, contender, level, repeat, n_threads, facts)
        except Exception as error:  # one peer's failure must not end the run
            outcome.failures.append(f"{problem.name}: {name}: {type(error).__name__}: {error}")
            report(f"  [{repeat}] {name}: FAILED {error}")
            return False
        outcome.add(record, coef)
        distance = (record.objective - optimum) / optimum
        report(f"  [{repeat}] {name}: {record.seconds:.4f} s  error {distance:.2e}")
        if repeat == 0:
            contender.note(level, record.seconds, distance)
        return True

    _search(contenders, limits, lambda contender, level: take_turn(contender, level, 0))
    for repeat in range(1, n_repeats):
        turns = _turns(contenders, limits.near)
        first = repeat % max(len(turns), 1)
        for contender, level in turns[first:] + turns[:first]:
            take_turn(contender, level, repeat)
    return outcome


def _search(
    contenders: list[Contender], limits: Limits, take_turn: Callable[[Contender, int], bool]
) -> None:
    """Let contenders climb and bisect in turn until nobody wants to go on."""
    tightest = min(TARGETS)
    open_ones = sorted(contenders, key=lambda c: not c.is_ours)
    while open_ones:
        for contender in list(open_ones):
            siblings = [c for c in contenders if c.library is contender.library]
            level = contender.next_level(_worth(contender, siblings, limits.near))
            if level is None or not take_turn(contender, level):
                contender.is_climbing = False
                open_ones.remove(contender)
                continue
            seconds = contender.seconds[level]
            best = min(c.seconds_to(tightest) for c in contenders)
            is_hopeless = seconds > max(_PATIENCE_S, limits.give_up * best)
            if seconds > limits.budget_s or (is_hopeless and not contender.is_ours):
                contender.is_climbing = False


def _worth(
    contender: Contender, siblings: list[Contender], near: float
) -> Callable[[float], float]:
    """Seconds to a target beyond which a solver cannot become its library's best."""
    if contender.is_ours:
        return lambda target: np.inf
    return lambda target: near * min(c.seconds_to(target) for c in siblings)


def _turns(contenders: list[Contender], near: float) -> list[tuple[Contender, int]]:
    """Pairs of contender and rung that are worth measuring again."""
    turns = []
    for contender in contenders:
        siblings = [c for c in contenders if c.library is contender.library]
        worth = _worth(contender, siblings, near)
        levels = {
            contender.level_of(target)
            for target in TARGETS
            if contender.seconds_to(target) <= worth(target)
        }
        turns += [(contender, level) for level in sorted(k for k in levels if k is not None)]
    return turns


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
