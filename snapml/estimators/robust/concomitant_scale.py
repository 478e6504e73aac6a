"""The scale of Huber's regression: the best for given residuals, and bounds over all scales.

The objective (Huber, Robust Statistics, 1981, section 7.7) is convex in model and scale together.
So its minimum over models is a convex function of the scale, and bounds of a few values of it bound
all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml._lazy import cached_property

__all__ = ["Rows", "Value", "dual_value", "lower_bound", "scale_of"]

_MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Value:
    """What is certain of the least objective with one scale.

    Attributes
    ----------
    scale : float
        sigma.
    lower, upper : float
        Bounds.
    """

    scale: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Rows:
    """Rows in memory, and what is asked of a model of theirs.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_matrix of shape (n_rows, n_columns)
        Finite numbers.
    y : ndarray of shape (n_rows,), float64
        Targets, whose mean is about 0 where there is an intercept.
    weights : ndarray of shape (n_rows,), float64
        Of the rows, some above 0.
    epsilon, alpha : float
        As of the estimator; alpha above 0.
    has_intercept : bool
        Whether a model has one, without a penalty.
    """

    X: Any
    y: np.ndarray
    weights: np.ndarray
    epsilon: float
    alpha: float
    has_intercept: bool

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def cost_of(self, multipliers: np.ndarray) -> float:
        """Return the penalty's conjugate, ``||X^T u||^2 / (4 alpha)``."""
        image = np.asarray(self.X.T @ multipliers, dtype=np.float64)
        return float(image @ image) / (4.0 * self.alpha)


def dual_value(rows: Rows, slopes: np.ndarray) -> float:
    """Return what no model and scale have less than, by multipliers near the losses' slopes.

    Those of rows within their bounds take up the sum of all, where there is an intercept; then all
    are scaled to ``|u_i| <= 2 epsilon s_i`` and ``sum u_i^2 / (4 s_i) <= sum s_i``.

    Parameters
    ----------
    rows : Rows
        What the models are of.
    slopes : ndarray of shape (n_rows,), float64
        Minus the losses' derivatives by the margins, 0 where a weight is.

    Returns
    -------
    float
        -inf where no row has room for the sum of all.
    """
    weights, bound, u = rows.weights, 2.0 * rows.epsilon * rows.weights, slopes
    if rows.has_intercept:
        inside, rest = np.where(abs(u) < bound, weights, 0.0), u.sum()
        room = inside.sum()
        if room == 0.0 and rest != 0.0:
            return -math.inf
        u = u - inside * (rest / room if room > 0.0 else 0.0)
    counts = weights > 0.0
    beyond = float(np.max(abs(u[counts]) / bound[counts]))
    size = math.sqrt(float(u[counts] ** 2 @ (0.25 / weights[counts])) / rows.total)
    u = u / max(1.0, beyond, size)
    with np.errstate(over="ignore"):
        return float(u @ rows.y) - rows.cost_of(u)


def lower_bound(values: list[Value], weight: float, epsilon: float) -> float:
    """Return what no model has less than, whatever its scale.

    The least objective's slope in the scale is between ``-(epsilon^2 - 1) weight`` and ``weight``.
    Beyond scales that were tried, lines through two of them bound a convex function from below.

    Parameters
    ----------
    values : list of Value
        At different scales, one at least.
    weight : float
        Sum of the sample weights.
    epsilon : float
        From where on losses are linear, in scales.

    Returns
    -------
    float
        At most the least upper bound.
    """
    best = min(range(len(values)), key=lambda k: values[k].upper)
    here = values[best]
    above = sorted((v for v in values if v.scale > here.scale), key=lambda v: v.scale)
    below = sorted((v for v in values if v.scale < here.scale), key=lambda v: -v.scale)
    steepest = weight * (epsilon * epsilon - 1.0)
    # Of what slope at least is a line upwards from here, and downwards.
    rise = max([(here.lower - v.upper) / (here.scale - v.scale) for v in below] + [-steepest])
    fall = min([(v.upper - here.lower) / (v.scale - here.scale) for v in above] + [weight])
    up = _least_on_a_side(here, above, max(0.0, -rise), math.inf)
    down = _least_on_a_side(here, below, max(0.0, fall), here.scale)
    return min(up, down)


def _least_on_a_side(here: Value, beside: list[Value], drop: float, room: float) -> float:
    """Return a bound for all scales on one side, where the function falls by at most `drop`."""
    if drop == 0.0:
        return here.lower
    for value in beside:
        if value.lower >= here.upper:  # beyond it a convex function rises
            return here.lower - drop * abs(value.scale - here.scale)
    return here.lower - drop * room if math.isfinite(room) else -math.inf


def scale_of(
    residuals: np.ndarray,
    weights: np.ndarray,
    epsilon: float,
    add: Callable[[np.ndarray], np.ndarray],
) -> float:
    """Return the best scale for residuals: ``sum s min((r / sigma)^2, epsilon^2) = sum s``.

    Parameters
    ----------
    residuals, weights : ndarray of shape (n_rows,), float64
        Of this shard.
    epsilon : float
        At least 1.
    add : callable
        Returns the sum of an array over all shards.

    Returns
    -------
    float
        0 where that is the best.
    """
    squares, limit = residuals * residuals, epsilon * epsilon
    total = float(add(np.array([weights.sum()]))[0])
    square = math.inf
    for _ in range(_MOST_ROUNDS):
        # While the rows that are cut off stay the same the scale has a formula. As it falls more
        # are cut off, and none is let in again.
        is_far = squares > limit * square
        own = np.array([weights @ np.where(is_far, 0.0, squares), weights @ is_far])
        near, n_far = add(own).tolist()
        found = near / (total - limit * n_far) if total > limit * n_far else 0.0
        if not found < square * (1.0 - 1e-14):
            break
        square = found
    return math.sqrt(square)
