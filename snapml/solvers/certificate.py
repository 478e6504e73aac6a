"""The certified duality gap: both sides in float64, from one exact read of the data.

By weak duality P(w, b) - D(beta') bounds the suboptimality of (w, b) for any w, any b and any
feasible beta'. So the certificate holds whatever rounding, lost updates or early stopping the
epochs before it suffered (docs/algorithms.md, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from snapml.problems import Intercept
from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import Engine
from snapml.solvers.result import FitResult

__all__ = ["Certificate", "certified_gap", "certify", "joined", "minimise_shift"]

# Rounding of the float64 sums themselves, relative to the terms; no gap is reported below it.
_SUM_ROUNDING = 2.0**-50
_FEW_STEPS = 30  # of a Newton iteration in one unknown that converges fast


@dataclass(frozen=True)
class Certificate:
    """What is known for certain about the engine's present model.

    Attributes
    ----------
    objective : float
        P(w, b).
    lower_bound : float
        D(beta'): no model has a lower objective.
    intercept : float
        b: the exact minimiser for this w where it is not penalised.
    adjoint : ndarray of shape (n_features + 1,), float64
        X^T beta' and sum(beta').
    is_scaled : bool
        Whether beta' differs from the engine's beta.
    """

    objective: float
    lower_bound: float
    intercept: float
    adjoint: np.ndarray
    is_scaled: bool


def certified_gap(objective: float, lower_bound: float) -> float:
    """Return what an objective can be above the minimum, rounding of the sums included.

    Parameters
    ----------
    objective, lower_bound : float
        P of a model, and D of any feasible dual point.

    Returns
    -------
    float
        Positive unless both are zero.
    """
    rounding = _SUM_ROUNDING * (abs(objective) + abs(lower_bound))
    gap = max(objective - lower_bound, rounding)
    return gap if math.isfinite(gap) else math.inf  # what is not a number proves nothing


def certify(engine: Engine, communicator: Communicator) -> Certificate:
    """Evaluate objective and duality gap at the engine's shared vector and dual variables.

    Parameters
    ----------
    engine : Engine
        Shard with its state.
    communicator : Communicator
        Adds up over the shards.

    Returns
    -------
    Certificate
        Valid for all shards together.
    """
    kind = engine.problem.intercept
    scales = _feasible_scales(engine, communicator) if kind is Intercept.FREE else (1.0, 1.0)
    terms, adjoint = engine.exact_sweep(*scales)
    adjoint = communicator.allreduce_sum(adjoint)
    dual_point = adjoint[:-1]
    model = engine.shared[:-1]
    bias = engine.tau * float(engine.shared[-1])
    slack = 0.0
    if kind is Intercept.PENALISED:
        slack = engine.penalty_conjugate(engine.tau * adjoint[-1:])
        bias_penalty = engine.penalty_value(engine.shared[-1:])
    else:
        bias_penalty = 0.0
    dual = _sum(communicator, terms) - engine.penalty_conjugate(dual_point) - slack
    shift = _best_shift(engine, communicator) if kind is Intercept.FREE else 0.0
    loss = _sum(communicator, engine.loss_value(shift))
    primal = loss + engine.penalty_value(model) + bias_penalty
    return Certificate(
        objective=primal,
        lower_bound=dual,
        intercept=bias + shift,
        adjoint=adjoint,
        is_scaled=scales != (1.0, 1.0),
    )


def _sum(communicator: Communicator, value: float) -> float:
    return float(communicator.allreduce_sum(np.array([value]))[0])


def _feasible_scales(engine: Engine, communicator: Communicator) -> tuple[float, float]:
    """Return factors that make the dual variables add up to zero, each at most one.

    Zero lies in every dual domain, so scaling towards it keeps every variable feasible.
    """
    mass = communicator.allreduce_sum(np.array(engine.dual_mass()))
    positive, negative = float(mass[0]), -float(mass[1])
    if positive > negative:
        return negative / positive, 1.0
    if negative > positive:
        return 1.0, positive / negative
    return 1.0, 1.0


def _best_shift(engine: Engine, communicator: Communicator) -> float:
    """Return the shift of all margins that minimises the loss."""
    return minimise_shift(partial(_slope, engine, communicator), engine.offset)


def _slope(engine: Engine, communicator: Communicator, shift: float) -> tuple[float, float]:
    sums = communicator.allreduce_sum(np.array(engine.loss_slope(shift)))
    return float(sums[0]), float(sums[1])


def minimise_shift(slope_of: Callable[[float], tuple[float, float]], start: float) -> float:
    """Return where a convex function of one number is least, by bracketed Newton steps.

    Parameters
    ----------
    slope_of : callable
        Returns the first two derivatives.
    start : float
        First guess.

    Returns
    -------
    float
        Accurate to 1e-9, or where it is large to its own rounding, or better: the last step is no
        longer than that.
    """
    shift, reach = start, 1.0
    low, high = -math.inf, math.inf
    for k in range(200):
        slope, curvature = slope_of(shift)
        if slope == 0.0:
            break
        low, high = (low, shift) if slope > 0.0 else (shift, high)
        newton = shift - slope / curvature if curvature > 0.0 else math.nan
        if abs(newton - shift) <= 2.0**-52 * abs(shift):  # rounding is all that is left
            return newton
        # Down an exponential, Newton's steps are as long as 1: every other one halves the bracket.
        is_slow = k > _FEW_STEPS and k % 2 == 1 and math.isfinite(high - low)
        if low < newton < high and not is_slow:
            best = newton
        elif math.isfinite(low) and math.isfinite(high):
            best = 0.5 * (low + high)
            if math.isinf(slope):  # the last step went where the sums overflow: begin beside it
                best = min(best, low + reach) if slope > 0.0 else max(best, high - reach)
        else:  # one side is still open: reach out further every time
            best = shift - math.copysign(reach, slope)
            reach *= 2.0
        step, shift = abs(best - shift), best
        if step <= max(1e-9, 2.0**-48 * abs(shift)):
            break
    return shift


def joined(first: FitResult, second: FitResult, reason: str) -> FitResult:
    """Return the second result with the reads of both, and the better of their lower bounds.

    Parameters
    ----------
    first, second : FitResult
        Of one problem, one after the other.
    reason : str
        Why the second followed, for its description.

    Returns
    -------
    FitResult
        The second's model.
    """
    offset_s = first.history[-1]["time_s"]
    later = [
        {**entry, "epoch": first.n_iter + entry["epoch"], "time_s": offset_s + entry["time_s"]}
        for entry in second.history
    ]
    bound = max(each.objective - each.gap for each in (first, second))
    return replace(
        second,
        gap=min(second.gap, certified_gap(second.objective, bound)),
        n_iter=first.n_iter + second.n_iter,
        history=first.history + later,
        description=f"{second.description}: {reason}",
    )
