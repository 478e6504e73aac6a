"""The certified duality gap of a primal point, from what a fused pass leaves behind.

The slopes of the losses are a dual point: beta_i = -c_i l'(z_i). With it the loss terms of the
dual are known without another read of the data (docs/algorithms.md, section 9). An unpenalised
intercept asks for sum(beta) = 0: near the optimum little is missing, and a few rows make up for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from snapml.problems import Intercept
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.cpu_formulas import loss_quantity, penalty_conjugate
from snapml.solvers.engine import PrimalEngine, own_curvatures
from snapml.solvers.inner_products import inner, inner_products
from snapml.solvers.rows.row_sample import MOST_LOOKED_AT, rows_looked_at

__all__ = ["constrained_lower_bound", "lower_bound"]

# Rows whose dual variables move, among those that are looked at.
_FEW_MOVED, _MOST_MOVED = 32, 1024


def lower_bound(
    engine: PrimalEngine,
    communicator: Communicator,
    coef: Any,
    loss: float,
    gradient: Any,
) -> float:
    """Return D at the dual point that the losses' slopes at the engine's present point make.

    Parameters
    ----------
    engine : PrimalEngine
        At `coef`.
    communicator : Communicator
        Adds up over the shards.
    coef : array of shape (n_outputs, n_features + 1), float64
        The point; one of the engine's `vectors`.
    loss : float
        Of all shards, at `coef`.
    gradient : array of shape (n_outputs, n_features + 1), float64
        Of the loss of all shards, at `coef`.

    Returns
    -------
    float
        No model has a lower objective; -inf where the dual point is not feasible.
    """
    if engine.problem.penalty.l2 <= 0.0:
        return -math.inf
    point, sizes = (coef, loss, gradient), (_FEW_MOVED, _MOST_MOVED)
    return _best_bound(engine, communicator, point, sizes, partial(_smooth_bound, engine, gradient))


def constrained_lower_bound(
    engine: PrimalEngine,
    communicator: Communicator,
    coef: Any,
    loss: float,
    gradient: Any,
) -> float:
    """Return D at the slopes' dual point, scaled to where it is finite under an L1 penalty.

    Scaled by s, the loss terms keep at least that share: l* is convex, and l*(0) is not positive
    where the loss is not negative.

    Parameters
    ----------
    engine, communicator, coef, loss, gradient
        As in `lower_bound`.

    Returns
    -------
    float
        No model has a lower objective.
    """
    point, bound_at = (coef, loss, gradient), partial(_constrained_bound, engine, gradient)
    return _best_bound(engine, communicator, point, (_MOST_MOVED,), bound_at)


def _best_bound(
    engine: PrimalEngine,
    communicator: Communicator,
    point: tuple[Any, float, Any],
    sizes: tuple[int, ...],
    bound_at: Callable[[float, Any], float],
) -> float:
    """Return what `bound_at` makes of the slopes' dual point, balanced for a free intercept.

    `bound_at` takes the dual's loss terms and X^T beta. As many rows move as the first of `sizes`
    that suffices. Of several shards one moves rows of its own, so that X^T beta, which it knows,
    is not added up once more; where its rows are few and do not suffice, all shards' move.
    """
    coef, loss, gradient = point
    terms = loss - inner(engine, gradient, coef)  # sum_i -c_i l*(l'(z_i)), by Fenchel's equality
    adjoint = -gradient[:, :-1]
    if engine.problem.intercept is not Intercept.FREE:
        return _finite(bound_at(terms, adjoint))
    # Before it is balanced the point bounds nothing, not even roughly: a column far from zero
    # multiplies what is missing.
    mass = engine.to_host(-gradient[:, -1])

    balanced = partial(_balanced, engine, mass, terms, adjoint, bound_at)
    if communicator.size == 1:
        return balanced(communicator, sizes)
    own = np.zeros(2)
    if communicator.rank == _roomiest(engine, communicator):
        own[:] = balanced(SerialCommunicator(), sizes), engine.n_rows < 2 * MOST_LOOKED_AT
    bound, has_few = communicator.allreduce_sum(own).tolist()
    if math.isfinite(bound) or not has_few:
        return float(bound)
    return balanced(communicator, sizes[-1:])


def _smooth_bound(engine: PrimalEngine, gradient: Any, terms: float, adjoint: Any) -> float:
    """Return the dual objective under an L2 penalty."""
    penalty, last = engine.problem.penalty, gradient[:, -1]
    columns, intercepts = inner_products(engine, (adjoint, adjoint), (last, last))
    bound = terms - columns / (2.0 * penalty.l2)
    is_penalised = engine.problem.intercept is Intercept.PENALISED
    return bound - intercepts / (2.0 * penalty.l2) if is_penalised else bound


def _constrained_bound(engine: PrimalEngine, gradient: Any, terms: float, adjoint: Any) -> float:
    """Return the best dual objective of scaled points under an L1 penalty or a constraint."""
    penalty, kind = engine.problem.penalty, engine.problem.intercept
    point = engine.to_host(-gradient if kind is Intercept.PENALISED else adjoint).ravel()
    largest = float(np.max(point if penalty.is_positive else np.abs(point), initial=0.0))
    scales = {1.0} if penalty.l2 or largest <= penalty.l1 else {penalty.l1 / largest}
    if penalty.l2 and 0.0 < penalty.l1 < largest:
        scales.add(penalty.l1 / largest)
    return max(
        scale * terms - (penalty_conjugate(penalty, scale * point) if penalty.l2 else 0.0)
        for scale in scales
    )


def _balanced(
    engine: PrimalEngine,
    mass: Any,
    terms: float,
    adjoint: Any,
    bound_at: Callable[[float, Any], float],
    shards: Communicator,
    sizes: tuple[int, ...],
) -> float:
    """Return the bound with the first number of rows moved that suffices.

    No function inside another: the traceback of an error would keep what that one has seen alive.
    """
    for n_moved in sizes:
        change, moved = _balance(engine, shards, mass, n_moved)
        if math.isfinite(change):
            return _finite(bound_at(terms + change, adjoint + moved))
    return -math.inf


def _finite(bound: float) -> float:
    return bound if math.isfinite(bound) else -math.inf


def _roomiest(engine: PrimalEngine, communicator: Communicator) -> int:
    """Return the shard whose rows have the most room, by the output where they have least."""
    rooms = np.zeros((communicator.size, engine.n_outputs))
    rooms[communicator.rank] = own_curvatures(engine, rows_looked_at(engine.n_rows)).sum(axis=1)
    rooms = communicator.allreduce_sum(rooms)
    totals = rooms.sum(axis=0)
    return int(np.argmax((rooms / np.where(totals > 0.0, totals, 1.0)).min(axis=1)))


def _balance(
    engine: PrimalEngine, communicator: Communicator, mass: np.ndarray, n_moved: int
) -> tuple[float, Any]:
    """Make every output's dual variables add up to zero.

    Returns the change of the dual's loss terms, and that of X^T beta. What is missing is shared
    among a few rows in proportion to their room.
    """
    rows = rows_looked_at(engine.n_rows)
    # c l'' is at most the distance to the bounds for all losses here.
    room = own_curvatures(engine, rows)
    total = communicator.allreduce_sum(room.sum(axis=1))
    if not (total > 0.0).all():
        return -math.inf, engine.vectors.zeros((engine.n_outputs, engine.n_features))
    best = np.argsort(-(room / total[:, None]).sum(axis=0), kind="stable")[:n_moved]
    rows, room = rows[best], room[:, best]
    if engine.problem.loss.is_joint:
        shift = _softmax_shift(engine, communicator, rows, mass)
    else:
        total = communicator.allreduce_sum(room.sum(axis=1))
        shift = -mass[:, None] * room / np.where(total > 0.0, total, np.nan)[:, None]
    sums = communicator.allreduce_sum(np.append(shift.sum(axis=1), engine.total_weight))
    rounding = np.finfo(np.float64).eps * sums[-1]
    if not (np.abs(sums[:-1] + mass) <= 1e-6 * np.abs(mass).max() + rounding).all():
        return -math.inf, engine.vectors.zeros((engine.n_outputs, engine.n_features))
    change = float(communicator.allreduce_sum(np.array([_terms_change(engine, rows, shift)]))[0])
    return change, communicator.allreduce_sum(engine.weighted_rows(rows, shift))


def _softmax_shift(
    engine: PrimalEngine, communicator: Communicator, rows: np.ndarray, mass: np.ndarray
) -> np.ndarray:
    """Return how the rows' dual variables move with intercepts whose change makes up for `mass`.

    No probability leaves the simplex while that change is below 1, however close to its corners
    the rows are.
    """
    p, weights = engine.curvatures(rows), engine.row_weights(rows)
    weighted = weights * p
    block = communicator.allreduce_sum(np.diag(weighted.sum(axis=1)) - weighted @ p.T)
    # All intercepts moved alike change nothing: any curvature in that direction will do.
    block += np.trace(block) / len(block) ** 2
    mass = mass - mass.mean()  # of every row's dual variables the sum is zero
    root = 1.0 / np.sqrt(np.maximum(block.diagonal(), np.finfo(np.float64).tiny))
    step = root * _solved(block * np.outer(root, root), root * -mass)
    # A class without weight is to vanish from all rows; rounding alone carries it beyond.
    moved = np.maximum(p - p * (step[:, None] - step @ p), 0.0)
    return np.asarray(weights * (p - moved / moved.sum(axis=0)))


def _solved(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return the shortest solution of a symmetric system; NumPy's `pinv` takes far longer."""
    values, vectors = np.linalg.eigh(matrix)
    is_kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
    along = (vectors.T @ vector) / np.where(is_kept, values, 1.0)
    return np.asarray(vectors @ (along * is_kept))


def _terms_change(engine: PrimalEngine, rows: np.ndarray, shift: np.ndarray) -> float:
    """Return the change of sum_i -c_i l*(-beta_i / c_i) when beta_i moves by `shift`."""
    weights = np.broadcast_to(engine.row_weights(rows), shift.shape)
    is_moved = (shift != 0.0) & (weights > 0.0)
    relative = np.where(is_moved, shift / np.where(weights > 0.0, weights, 1.0), 0.0)
    loss = engine.problem.loss
    if loss.is_joint:
        p = engine.curvatures(rows)
        after = loss_quantity(loss, "conjugate_entry", p - relative, p)
        before = loss_quantity(loss, "conjugate_entry", p, p)
    else:
        slopes = engine.gradients(rows)
        labels = np.broadcast_to(engine.labels(rows), slopes.shape)
        after = loss_quantity(loss, "conjugate", slopes - relative, labels)
        before = loss_quantity(loss, "conjugate", slopes, labels)
    change = float(np.sum(np.where(is_moved, weights * (before - after), 0.0)))
    # The conjugate of a loss of z + o is that of the loss, less u o.
    offsets = engine.offsets(rows)
    return change if offsets is None else change - float(np.sum(shift * offsets))
