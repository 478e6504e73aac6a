"""Newton steps on one working set: minima of models, and how far to go towards them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snapml.problems import Intercept
from snapml.solvers.columns.streamed_columns import Ahead
from snapml.solvers.cpu_formulas import penalty_value
from snapml.solvers.engine import Movable, WorkingSet
from snapml.solvers.quadratic_model import Model
from snapml.solvers.working_sets.working_set_state import ROUNDING, State

__all__ = ["improve", "search_line", "take_whole_step"]

_MOST_STEPS = 10  # of Newton's method on one working set
_ARMIJO = 1e-4


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
    chosen = columns.columns
    penalty = state.problem.penalty.on(chosen)
    is_quadratic = state.problem.loss.is_quadratic
    slopes, has_moved = state.slopes[chosen], False
    for step in range(_MOST_STEPS):
        coef = state.coef[chosen]
        curvatures = state.damped_curvatures()
        model = Model(
            slopes,
            state.gradients,
            curvatures,
            penalty,
            state.was_slow,
            state.is_trusted,
            state.communicator,
        )
        found = columns.minimise(model, coef, 0.5 * target)
        if not search_line(state, columns, model, found):
            break
        has_moved = True
        if is_quadratic or step + 1 == _MOST_STEPS or state.is_on_any(columns.is_most_of_data):
            break
        slopes = state.total(columns.adjoint(state.gradients))
        bound = state.bound(slopes, penalty)
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
    chosen, penalty, slopes = columns.columns, model.penalty, model.slopes
    coef = state.coef[chosen]
    rest = penalty_value(state.problem.penalty, state.coef) - penalty_value(penalty, coef)
    length = 1.0
    for _ in range(30):
        trial = coef + length * (found - coef)
        if penalty.bounds is not None:
            trial = penalty.bounds.nearest(trial)  # rounding may have led out of them
        step = trial - coef
        if not step.any():
            return False
        if length == 1.0:
            change = columns.product(step)
            moved = _moved_intercept(state, model, change)
        margins = state.margins + length * change
        shift, loss = state.best_at(margins, state.shift + length * moved)
        objective = loss + penalty_value(penalty, trial) + rest
        promise = (
            float(slopes @ step) + penalty_value(penalty, trial) - penalty_value(penalty, coef)
        )
        # Below the rounding of the sums nothing can be seen of a gain, nor of a loss.
        noise = ROUNDING * abs(state.objective)
        if objective <= state.objective + max(_ARMIJO * promise, -noise) + noise:
            damping = _next_damping(state.damping, length)
            if not state.problem.loss.is_quadratic:  # else the model is exact
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
    if not state.problem.loss.is_quadratic:  # the model was flat where the loss is not
        state.caution, state.damping = 1.0, max(1e-3, 10.0 * state.damping)
    return False


def _moved_intercept(state: State, model: Model, change: Any) -> float:
    """Return how far the model's intercept goes as the others change the margins.

    Columns far from zero move it so far that a search from where it was would take many steps.
    """
    if state.problem.intercept is not Intercept.FREE:
        return 0.0
    moved = model.mean_of(change)
    return -moved if math.isfinite(moved) else 0.0


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
    promise, noise = float(model.slopes @ step) + fallen, ROUNDING * abs(state.objective)
    objective = float(state.total(np.array([ahead.loss]))[0]) + penalty_value(penalty, ahead.coef)
    if not objective <= state.objective + max(_ARMIJO * promise, -noise) + noise:
        return False
    state.damping = _next_damping(state.damping, 1.0)
    curved = 0.5 * model.curved(ahead.margins - state.margins + (ahead.shift - state.shift))
    state.learn(state.objective - objective, -promise - curved)
    state.coef, state.margins, state.shift = ahead.coef, ahead.margins, ahead.shift
    state.refresh()
    return True


def _next_damping(damping: float, length: float) -> float:
    """Return the damping of the next step: less after a full one, more after a short one."""
    if length == 1.0:
        return 0.0 if damping < 1e-6 else 0.1 * damping
    return max(1e-4, damping) / length
