"""L1 and elastic net: Newton steps on a growing set of columns, certified by reads of all of them.

Every read of the data gives the slopes of all columns, hence a duality gap, and shows which columns
the model still lacks. In between, the penalised quadratic model of the loss is minimised on the
columns of the working set only (docs/algorithms.md, section 13). Working sets as in celer (Massias,
Gramfort, Salmon 2018) and skglm (Bertrand et al. 2022); the model as in newGLMNET (Yuan, Ho, Lin
2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from snapml.problems import Problem
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.engine import ColumnEngine
from snapml.solvers.observer import Stage
from snapml.solvers.result import FitResult, StartModel, overflow_error
from snapml.solvers.stopping import Progress, StoppingRule
from snapml.solvers.threads import limit_blas_threads
from snapml.solvers.working_sets.working_set_choice import chosen_columns
from snapml.solvers.working_sets.working_set_state import MANY_SLOW, State
from snapml.solvers.working_sets.working_set_steps import improve

__all__ = [
    "check_solver",
    "descend",
    "improve_in_memory",
    "kept_model",
    "result_of",
    "run",
    "solve",
    "solve_sequence",
]

_INNER_SHARE = 0.1  # of the gap that a step on the working set may leave
# Share of the objective that a gap below the rounding of the sums may be; and what squares of
# rounding are of that rounding.
_UNRESOLVED, _SQUARED_ROUNDING = 1e-4, 2.0**-40
_PATIENCE = 20  # reads without a gap smaller by a tenth
# After many reads in a row that left so much of a gap that is still so large a share of the
# objective, models are minimised further: descent alone crawls on data that are nearly separable.
_SLOW, _LARGE = 0.7, 1e-2
# Entries that a fit may read in all before it counts as work, and the relative gap it then goes to.
_FREE_VISITS = 1_000_000
_FINEST = 1e-14


def check_solver(solver: str) -> None:
    """Refuse a name that asks for another solver.

    Parameters
    ----------
    solver : str
        'auto', or what the user asked for.

    Raises
    ------
    ValueError
        If it is not 'auto'.
    """
    if solver != "auto":
        raise ValueError(
            f"solver={solver!r} cannot minimise an L1 penalty or keep coefficients positive "
            "or within bounds: expected solver='auto'"
        )


def solve_sequence(
    engine: ColumnEngine,
    problems: list[Problem],
    communicator: Communicator,
    rule: StoppingRule,
    start: FitResult | StartModel | None = None,
    starts: list[StartModel] | None = None,
) -> list[FitResult]:
    """Solve problems that differ in the penalty, each from the last one's model.

    Parameters
    ----------
    engine : ColumnEngine
        Shard of the data.
    problems : list of Problem
        From strong penalties to weak ones, for speed.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Bounds of each fit.
    start : FitResult, StartModel or None, default=None
        Model to start from.
    starts : list of StartModel or None, default=None
        One for each problem where there are better ones than the last model.

    Returns
    -------
    list of FitResult
        One per problem, up to the one whose fit the rule's control has ended.

    Raises
    ------
    ValueError
        If a number overflows.
    """
    results = []
    for number, problem in enumerate(problems):
        engine.problem = problem
        begin = start if starts is None else starts[number]
        start = solve(engine, communicator, rule, begin)
        if not math.isfinite(start.objective):
            raise overflow_error(engine.dtype)
        results.append(start)
        if rule.control.reason:
            break
    return results


def solve(
    engine: ColumnEngine,
    communicator: Communicator,
    rule: StoppingRule,
    start: FitResult | StartModel | None = None,
) -> FitResult:
    """Minimise until the certified gap meets the rule or its reads of the data are used up.

    Parameters
    ----------
    engine : ColumnEngine
        Shard of the data.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads of the data.
    start : FitResult, StartModel or None, default=None
        Another fit to start from: its ``coef`` and ``intercept``.

    Returns
    -------
    FitResult
        The model with its certificate.
    """
    # Matrix products stay on the thread of the fit's own that asks for them.
    with limit_blas_threads(1), np.errstate(over="ignore", invalid="ignore"):
        return _solve(engine, communicator, rule, start)


def _solve(
    engine: ColumnEngine,
    communicator: Communicator,
    rule: StoppingRule,
    start: FitResult | StartModel | None,
) -> FitResult:
    stage = rule.observer.stage(f"working sets, {engine.n_cols}")
    if stage.result is not None:
        return stage.result
    state = State(engine, communicator, kept_model(stage, start))
    progress = Progress(rule, first_epoch=0, stage=stage)
    has_converged = run(state, progress, improve_in_memory)
    state.round_off()
    description = f"working-set descent, {engine.description}"
    return stage.finish(result_of(state, progress, has_converged, description))


def improve_in_memory(state: State, target: float) -> bool:
    """Take steps on the columns that promise most; return whether any lowered the objective."""
    return improve(state, state.engine.working_set(chosen_columns(state)), target)


def run(
    state: State,
    progress: Progress,
    step: Callable[[State, float], bool],
    *,
    reads_each: int = 1,
    free_visits: float = _FREE_VISITS,
) -> bool:
    """Alternate reads of the data with steps until the rule is met or its reads are used up.

    Parameters
    ----------
    state : State
        Where to begin.
    progress : Progress
        Gets one entry a read.
    step : callable
        Improves the state until its gap on columns of its choice is about the target that it
        gets; returns whether the objective fell.
    reads_each : int, default=1
        Reads that a step and the certificate after it take at most.
    free_visits : float
        Entries that may be read before reads count as work.

    Returns
    -------
    bool
        Whether the certified gap meets the rule.
    """
    rule = progress.rule
    share, stalled, least = _INNER_SHARE, 0, math.inf
    has_converged = False
    if progress.stage.state is not None:
        begun = progress.stage.state["progress"]
        progress.resume(begun, len(begun["history"]) - 1)  # the last read is made once more
    while True:
        gap_before = state.gap
        state.read()
        progress.see_epoch(state.gap)
        progress.see_certificate(state.gap, state.objective)
        has_converged |= progress.is_met or state.gap <= state.resolution
        if rule.control.ends(state.communicator, partial(_interim, state)):
            break
        if has_converged and not _is_worth_polishing(state, gap_before, progress, free_visits):
            break
        if len(progress.history) + reads_each - 1 > rule.max_iter:
            break
        if state.gap < 0.9 * least:
            stalled, least = 0, state.gap
        else:
            stalled += 1
        if stalled > _PATIENCE:
            break
        state.was_slow = not state.gap < 0.2 * gap_before
        is_slow = state.gap > max(_SLOW * gap_before, _LARGE * abs(state.objective))
        state.n_slow = state.n_slow + 1 if is_slow else 0
        if state.n_slow >= MANY_SLOW:  # the models know more than they were asked for
            share = max(1e-6, 0.1 * share)
        target = max(share * state.gap, 0.3 * rule.tol * abs(state.objective))
        target = max(0.1 * state.gap, state.resolution) if has_converged else target
        progress.stage.offer(state.communicator, partial(_kept_state, state, progress))
        if not step(state, target):
            stalled += _PATIENCE // 4
            share = max(1e-6, 0.1 * share)
    return has_converged and (progress.is_met or _is_resolved(state))


def _is_resolved(state: State) -> bool:
    """Return whether a gap below the rounding of the sums leaves the objective known.

    Of targets far from zero without an intercept it may be all of the objective, which is not to
    be passed over in silence; where the rows are interpolated, all of that is rounding.
    """
    interpolated = _SQUARED_ROUNDING * state.resolution
    return state.gap <= _UNRESOLVED * abs(state.objective) or state.objective <= interpolated


def kept_model(stage: Stage, start: FitResult | StartModel | None) -> FitResult | StartModel | None:
    """Return the model that a stage goes on from.

    Parameters
    ----------
    stage : Stage
        Which may have a state.
    start : FitResult, StartModel or None
        Where it begins if not.

    Returns
    -------
    FitResult, StartModel or None
        Where to begin.
    """
    kept = stage.state
    return start if kept is None else StartModel(kept["coef"], kept["intercept"])


def _interim(state: State) -> Interim:
    """Return the model for those who look on."""
    coef = np.array(state.coef[: state.engine.n_features], dtype=np.float64)
    return Interim(coef[None], np.array([state.intercept]), state.gap, state.objective)


def _kept_state(state: State, progress: Progress) -> dict[str, Any]:
    return {
        "coef": state.coef[: state.engine.n_features],
        "intercept": float(state.intercept),
        "progress": progress.state(),
    }


def result_of(state: State, progress: Progress, has_converged: bool, description: str) -> FitResult:
    """Return the state's model.

    Parameters
    ----------
    state : State
        Whose gap is certified.
    progress : Progress
        With one entry a read.
    has_converged : bool
        Whether the rule was met.
    description : str
        What was run.

    Returns
    -------
    FitResult
        The model with its certificate.
    """
    return FitResult(
        coef=state.model_coef(),
        intercept=state.intercept,
        duals=None,
        offset=0.0,
        n_iter=len(progress.history) - 1,
        has_converged=has_converged,
        gap=state.gap,
        objective=state.objective,
        history=progress.history,
        mean_stiffness=0.0,
        description=description,
    )


def _is_worth_polishing(
    state: State, gap_before: float, progress: Progress, free_visits: float
) -> bool:
    """Return whether a small problem that has met its tolerance still gains much, for nothing."""
    n_read = float(state.total(np.array([float(state.engine.n_stored)]))[0])
    is_free = n_read * (len(progress.history) + 1) <= free_visits
    can_gain = state.gap > max(state.resolution, _FINEST * abs(state.objective))
    return is_free and can_gain and state.gap < 0.5 * gap_before


def descend(state: State, target: float) -> None:
    """Read the data and improve on a working set, until the gap is `target` or after two reads.

    Parameters
    ----------
    state : State
        What to improve.
    target : float
        Gap that is small enough.
    """
    engine = state.engine
    for _ in range(2):
        state.read()
        if state.gap <= target:
            return
        columns = engine.working_set(chosen_columns(state))
        if not improve(state, columns, max(target, _INNER_SHARE * state.gap)):
            return
