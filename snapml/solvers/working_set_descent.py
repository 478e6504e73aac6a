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
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from snapml.problems import Intercept, Problem
from snapml.solvers.certificate import certified_gap, minimise_shift
from snapml.solvers.communicator import Communicator
from snapml.solvers.cpu_formulas import penalty_conjugate, penalty_value
from snapml.solvers.engine import ColumnEngine, Movable, WorkingSet
from snapml.solvers.observer import Stage
from snapml.solvers.quadratic_model import Model, feasible_scale
from snapml.solvers.result import FitResult, StartModel, overflow_error
from snapml.solvers.stopping import Progress, StoppingRule
from snapml.solvers.threads import limit_blas_threads

__all__ = [
    "Ahead",
    "State",
    "check_solver",
    "descend",
    "improve",
    "improve_in_memory",
    "kept_model",
    "result_of",
    "run",
    "search_line",
    "solve",
    "solve_sequence",
    "take_whole_step",
]

_FIRST_COLUMNS = 100
_GROWTH = 2.0
_ALL_COLUMNS = 400  # so few are taken all at once
_SHARE_OF_ALL = 0.2  # of sparse columns: beyond it all are packed, once
_MOST_STEPS = 10  # of Newton's method on one working set
_INNER_SHARE = 0.1  # of the gap that a step on the working set may leave
_ARMIJO = 1e-4
_SMALL_GAIN = 1e-3  # of the objective
_TRUSTED_ERROR = 0.2  # of a model's promise: if more was wrong, the next is only roughly minimised
# Share of the largest curvature that the model's keeps at least, the less the closer to the
# minimum: columns all of whose rows are flat would run away.
_FIRST_DAMPING, _LEAST_DAMPING = 1e-2, 1e-7
_ROUNDING = 2.0**-46
_PATIENCE = 20  # reads without a gap smaller by a tenth
# After so many reads in a row that left most of a gap that is still so large a share of the
# objective, models are minimised further: descent alone crawls on data that are nearly separable.
_MANY_SLOW, _SLOW, _LARGE = 8, 0.7, 1e-2
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
            f"solver={solver!r} cannot minimise an L1 penalty or keep coefficients positive: "
            "expected solver='auto'"
        )


def solve_sequence(
    engine: ColumnEngine,
    problems: list[Problem],
    communicator: Communicator,
    rule: StoppingRule,
    start: FitResult | StartModel | None = None,
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

    Returns
    -------
    list of FitResult
        One per problem.

    Raises
    ------
    ValueError
        If a number overflows.
    """
    results = []
    for problem in problems:
        engine.problem = problem
        start = solve(engine, communicator, rule, start)
        if not math.isfinite(start.objective):
            raise overflow_error(engine.dtype)
        results.append(start)
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
    return improve(state, state.engine.working_set(_choose(state)), target)


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
        if state.n_slow >= _MANY_SLOW:  # the models know more than they were asked for
            share = max(1e-6, 0.1 * share)
        target = max(share * state.gap, 0.3 * rule.tol * abs(state.objective))
        target = 0.1 * state.gap if has_converged else target
        progress.stage.offer(state.communicator, partial(_kept_state, state, progress))
        if not step(state, target):
            stalled += _PATIENCE // 4
            share = max(1e-6, 0.1 * share)
    return has_converged


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


class State:
    """The model, its margins, the loss's derivatives there, and the best bound so far.

    Vectors over the rows are the engine's, and stay where it keeps them.
    """

    def __init__(
        self, engine: ColumnEngine, communicator: Communicator, start: FitResult | StartModel | None
    ) -> None:
        self.engine = engine
        self.communicator = communicator
        self.problem = engine.problem
        self.coef = np.zeros(engine.n_cols)
        self.shift = 0.0
        if start is not None:
            self.coef[: engine.n_features] = start.coef
            if self.problem.intercept is Intercept.PENALISED:
                self.coef[-1] = float(start.intercept) / engine.tau
            elif self.problem.intercept is Intercept.FREE:
                self.shift = float(start.intercept)
        has_coef = bool(self.coef.any())
        self.margins = engine.product(self.coef) if has_coef else self._zeros()
        self.gradients, self.curvatures = self._zeros(), self._zeros()
        self.slopes = np.empty(0)
        self.damping = 0.0
        self.was_slow = False
        self.n_slow = 0  # reads in a row that left most of a large gap
        self.is_trusted = False
        self.last_gain = math.inf
        self.caution = 1.0  # share of the usual damping, the less the better models keep promises
        self.loss = math.nan
        self.gap = math.inf
        self.objective = math.inf
        self._lower_bound = -math.inf
        self._bounds: Any = None
        self._offset: Any = None
        self.shift = self.best_shift(self.margins, self.shift)
        self.refresh()
        # Gaps below the rounding of the labels' share of the sums cannot be told from zero.
        empty_loss = self.total(engine.loss_sums(self._zeros(), 0.0))[0]
        self.resolution = 2.0**-50 * float(empty_loss)

    def _zeros(self) -> Any:
        return self.engine.xp.zeros(self.engine.n_rows, np.float64)

    def restart(self, coef: np.ndarray, margins: Any, shift: float, offset: Any) -> None:
        """Go on with other margins: those of `coef`, and a fixed part of each row's.

        Parameters
        ----------
        coef : ndarray of shape (n_cols,)
            The coefficients.
        margins : array of shape (n_rows,)
            X coef and the fixed parts.
        shift : float
            Guess of the best free intercept.
        offset : array of shape (n_rows,)
            The fixed parts.
        """
        self.coef, self.margins, self._offset = coef.copy(), margins, offset
        self._lower_bound = -math.inf
        self.shift = self.best_shift(margins, shift)
        self.refresh()

    @property
    def intercept(self) -> float:
        """b: free or penalised, 0 without one."""
        if self.problem.intercept is Intercept.PENALISED:
            return self.engine.tau * float(self.coef[-1])
        return self.shift

    def model_coef(self) -> np.ndarray:
        """Return w in the data's dtype."""
        return self.coef[: self.engine.n_features].astype(self.engine.dtype)

    def round_off(self) -> None:
        """Certify the model that the data's type can hold: it is the one that is returned."""
        rounded = self.coef.astype(self.engine.dtype).astype(np.float64)
        if not np.array_equal(rounded, self.coef):
            self.coef, self.margins = rounded, self.engine.product(rounded)
            self.refresh()
            self.gap = certified_gap(self.objective, self._lower_bound)

    def total(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over the shards."""
        return self.communicator.allreduce_sum(array)

    def best_shift(self, margins: Any, guess: float) -> float:
        """Return the best free intercept for given margins, 0 where there is none."""
        if self.problem.intercept is not Intercept.FREE:
            return 0.0
        # No nested function: it would keep the margins beyond a fit that fails.
        return minimise_shift(partial(self._shift_slope, margins), guess)

    def _shift_slope(self, margins: Any, shift: float) -> tuple[float, float]:
        _, first, second = self.total(self.engine.loss_sums(margins, shift))
        return float(first), float(second)

    def loss_at(self, margins: Any, shift: float) -> float:
        """Return the loss."""
        return float(self.total(self.engine.loss_sums(margins, shift))[0])

    def refresh(self) -> None:
        """Take the loss's derivatives at the present margins."""
        sums = self.engine.loss_sums(self.margins, self.shift, self.gradients, self.curvatures)
        self.loss = float(self.total(sums)[0])
        self.objective = self.loss + penalty_value(self.problem.penalty, self.coef)

    def learn(self, gain: float, promise: float) -> None:
        """Compare what a step has gained with what its model promised.

        Parameters
        ----------
        gain : float
            By how much the objective fell.
        promise : float
            By how much the model did.
        """
        noise = _ROUNDING * abs(self.objective)
        is_true = abs(gain - promise) <= _TRUSTED_ERROR * promise + noise
        is_small = gain <= _SMALL_GAIN * abs(self.objective)
        self.is_trusted = (is_true and is_small) or self.n_slow >= _MANY_SLOW
        self.last_gain = gain
        if is_true:
            self.caution *= 0.25
        elif gain < 0.5 * promise or math.isinf(promise):  # of a step that had to be shorter
            self.caution = min(1.0, 4.0 * self.caution)

    def damped_curvatures(self) -> Any:
        """Return h_i and a share of their bound, more of it the shorter the last steps had to be.

        Where few rows are curved at all, the model alone promises far too much.
        """
        added = self.added_curvatures()
        return self.curvatures if added is None else self.curvatures + added

    def added_curvatures(self) -> Any:
        """Return what `damped_curvatures` adds; None for nothing."""
        if not self.problem.loss.is_classification:
            return None
        relative = self.gap / abs(self.objective) if self.objective else 1.0
        gain = self.last_gain / abs(self.objective) if self.objective else 1.0
        damping = max(self.damping, self.caution * min(_FIRST_DAMPING, 0.1 * relative, gain))
        if damping < _LEAST_DAMPING:
            return None
        if self._bounds is None:  # classification losses are most curved at a margin of zero
            self._bounds = self._zeros()
            self.engine.loss_sums(self._zeros(), 0.0, None, self._bounds)
        return damping * self._bounds

    def read(self) -> None:
        """Read the data once: slopes of all columns, and with them a lower bound."""
        self.slopes = self.total(self.engine.adjoint(self.gradients))
        bound = self.bound(self.slopes, self.coef)
        self._lower_bound = max(self._lower_bound, bound)
        self.gap = certified_gap(self.objective, self._lower_bound)

    def bound(self, slopes: np.ndarray, coef: np.ndarray) -> float:
        """Return the dual objective at beta = -gradients, scaled to where it is finite."""
        penalty = self.problem.penalty
        point = -slopes
        gradients = self.gradients
        if self.problem.intercept is Intercept.FREE and len(slopes) == self.engine.n_cols:
            gradients, point = self._balanced(point)
        scales = {feasible_scale(penalty, point)}
        if penalty.l2:
            largest = float(np.max(point if penalty.is_positive else np.abs(point), initial=0.0))
            if 0.0 < penalty.l1 < largest:
                scales.add(penalty.l1 / largest)
        best = -math.inf
        for scale in scales:
            terms = float(self.total(np.array([self.engine.dual_terms(gradients, scale)]))[0])
            conjugate = penalty_conjugate(penalty, scale * point) if penalty.l2 else 0.0
            if self._offset is not None:
                fixed = np.array([float(gradients @ self._offset)])
                terms += scale * float(self.total(fixed)[0])
            best = max(best, terms - conjugate)
        return best

    def _balanced(self, point: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return gradients that add up to zero, as a free intercept's dual must, and X^T beta.

        At the best intercept they miss it by rounding only; one row with room for that takes it.
        """
        mass = float(self.gradients.sum())
        if mass == 0.0 or self.communicator.size > 1:
            return self.gradients, point
        room = abs(self.gradients)
        if self.problem.loss.is_classification:
            room = self.engine.xp.minimum(room, self.curvatures)
        row = int(room.argmax())
        gradients = self.gradients.copy()
        gradients[row] -= mass
        columns, entries = self.engine.row(row)
        point = point.copy()
        np.add.at(point, columns, mass * entries)
        return gradients, point


@dataclass(frozen=True)
class Ahead:
    """A point at which an engine has read the data.

    Attributes
    ----------
    coef : ndarray of shape (n_cols,), float64
        Its coefficients.
    shift : float
        Its free intercept.
    margins : array of shape (n_rows,), float64
        X coef.
    loss : float
        Over the rows of the engine.
    slopes : ndarray of shape (n_cols,), float64
        X^T of the loss's derivatives.
    """

    coef: np.ndarray
    shift: float
    margins: Any
    loss: float
    slopes: np.ndarray


def _next_damping(damping: float, length: float) -> float:
    """Return the damping of the next step: less after a full one, more after a short one."""
    if length == 1.0:
        return 0.0 if damping < 1e-6 else 0.1 * damping
    return max(1e-4, damping) / length


def _choose(state: State) -> np.ndarray:
    """Return the columns to work on: the support and those whose slopes promise most."""
    engine, penalty, n = state.engine, state.problem.penalty, state.engine.n_cols
    support = np.flatnonzero(state.coef)
    if engine.is_sparse:
        return _choose_sparse(state, support)
    count = int(max(_FIRST_COLUMNS, _GROWTH * len(support)))
    if count >= n or (2 * count >= n and n <= _ALL_COLUMNS):
        return np.arange(n)
    sums, squares = engine.moments()
    if state.problem.intercept is Intercept.FREE:
        squares = squares - sums**2 / engine.total_weight
    point = -state.slopes
    size = point if penalty.is_positive else np.abs(point)
    excess = size - penalty.l1
    with np.errstate(divide="ignore", invalid="ignore"):
        score = excess / np.sqrt(np.maximum(squares, 0.0))
    score[~np.isfinite(score)] = -np.inf
    score[support] = np.inf
    n_violators = int((excess > 0.0).sum())
    count = min(count, len(support) + max(2 * n_violators, 10), n)
    top = np.argpartition(-score, count - 1)[:count]
    return np.sort(np.union1d(top, support))


def _choose_sparse(state: State, support: np.ndarray) -> np.ndarray:
    """Return the support and all columns that violate optimality: a sweep costs about a read."""
    penalty, n = state.problem.penalty, state.engine.n_cols
    point = -state.slopes
    size = point if penalty.is_positive else np.abs(point)
    columns = np.union1d(support, np.flatnonzero(size > penalty.l1))
    is_most = len(columns) > _SHARE_OF_ALL * n or n <= _ALL_COLUMNS
    return np.arange(n) if is_most else columns


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
        columns = engine.working_set(_choose(state))
        if not improve(state, columns, max(target, _INNER_SHARE * state.gap)):
            return


def improve(state: State, columns: WorkingSet, target: float) -> bool:
    """Take Newton steps on a working set.

    Parameters
    ----------
    state : State
        What to improve, after a read of the data.
    columns : WorkingSet
        The columns that may move.
    target : float
        Gap on them that is small enough.

    Returns
    -------
    bool
        Whether any step lowered the objective.
    """
    chosen, penalty = columns.columns, state.problem.penalty
    is_quadratic = not state.problem.loss.is_classification
    slopes, has_moved = state.slopes[chosen], False
    for step in range(_MOST_STEPS):
        coef = state.coef[chosen]
        curvatures = state.damped_curvatures()
        model = Model(
            slopes, state.gradients, curvatures, penalty, state.was_slow, state.is_trusted
        )
        found = columns.minimise(model, coef, 0.5 * target)
        if not search_line(state, columns, model, found):
            break
        has_moved = True
        if is_quadratic or columns.is_most_of_data or step + 1 == _MOST_STEPS:
            break
        slopes = state.total(columns.adjoint(state.gradients))
        bound = state.bound(slopes, state.coef[chosen])
        if state.objective - bound <= target:
            break
    return has_moved


def search_line(state: State, columns: Movable, model: Model, found: np.ndarray) -> bool:
    """Move towards the minimum of a model as far as lowers the objective enough.

    Parameters
    ----------
    state : State
        What to move.
    columns : Movable
        The columns of the model; read once.
    model : Model
        The loss at the state.
    found : ndarray
        The model's minimum, one coefficient a column.

    Returns
    -------
    bool
        Whether it moved.
    """
    chosen, penalty, slopes = columns.columns, state.problem.penalty, model.slopes
    coef = state.coef[chosen]
    rest = penalty_value(penalty, state.coef) - penalty_value(penalty, coef)
    length = 1.0
    for _ in range(30):
        trial = coef + length * (found - coef)
        step = trial - coef
        if not step.any():
            return False
        if length == 1.0:
            change = columns.product(step)
        margins = state.margins + length * change
        shift = state.best_shift(margins, state.shift)
        penalised = penalty_value(penalty, trial) + rest
        objective = state.loss_at(margins, shift) + penalised
        promise = (
            float(slopes @ step) + penalty_value(penalty, trial) - penalty_value(penalty, coef)
        )
        # Below the rounding of the sums nothing can be seen of a gain, nor of a loss.
        noise = _ROUNDING * abs(state.objective)
        if objective <= state.objective + max(_ARMIJO * promise, -noise) + noise:
            damping = _next_damping(state.damping, length)
            if state.problem.loss.is_classification:  # else the model is exact
                state.was_slow |= damping != state.damping
                state.damping = damping
            curved = (
                0.5 * model.curved(change + (shift - state.shift)) if length == 1.0 else math.inf
            )
            state.learn(state.objective - objective, -promise - curved)
            state.coef[chosen] = trial
            state.margins, state.shift = margins, shift
            state.refresh()
            return True
        length *= 0.5
    if state.problem.loss.is_classification:  # the model was flat where the loss is not
        state.caution, state.damping = 1.0, max(1e-3, 10.0 * state.damping)
    return False


def take_whole_step(state: State, model: Model, chosen: np.ndarray, ahead: Ahead) -> bool:
    """Take a step to where the data were read already, if that lowers the objective enough.

    Parameters
    ----------
    state : State
        What to move.
    model : Model
        The loss at the state.
    chosen : ndarray
        The columns of the model.
    ahead : Ahead
        The point.

    Returns
    -------
    bool
        Whether it was taken; if not, `search_line` may find a shorter step.
    """
    penalty = state.problem.penalty
    step = (ahead.coef - state.coef)[chosen]
    fallen = penalty_value(penalty, ahead.coef) - penalty_value(penalty, state.coef)
    promise, noise = float(model.slopes @ step) + fallen, _ROUNDING * abs(state.objective)
    objective = float(state.total(np.array([ahead.loss]))[0]) + penalty_value(penalty, ahead.coef)
    if not objective <= state.objective + max(_ARMIJO * promise, -noise) + noise:
        return False
    state.damping = _next_damping(state.damping, 1.0)
    curved = 0.5 * model.curved(ahead.margins - state.margins + (ahead.shift - state.shift))
    state.learn(state.objective - objective, -promise - curved)
    state.coef, state.margins, state.shift = ahead.coef, ahead.margins, ahead.shift
    state.refresh()
    return True
