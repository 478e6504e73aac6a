"""A primal-dual interior point method for losses that are linear between their corners.

Mehrotra, On the implementation of a primal-dual interior point method, SIAM J. Optim. 1992, in the
form of Portnoy and Koenker, The Gaussian hare and the Laplacian tortoise, Statist. Sci. 1997, with
two-sided boxes, penalties and a linear term; docs/algorithms.md, section 11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from snapml.solvers.communicator import Communicator
from snapml.solvers.interior_point.working_matrix import WorkingMatrix

__all__ = ["Boxes", "Objective", "minimise"]

_MOST_ITERATIONS = 200
# So many iterations that do not halve the gap mean that rounding is reached.
_MOST_IDLE = 8
# Share of the way to the nearest wall that a step goes.
_SHARE_OF_WAY = 0.9995
# Below this share of a full step the correction of second order does more harm than good; without
# it the next point is to have at least so much of this one's complementarity.
_SHORT, _CAUTIOUS = 0.3, 0.1
# Ridge of a system whose matrix is singular to rounding, as a share of its largest entry.
_RIDGE = 1e-14


@dataclass(frozen=True)
class Boxes:
    """Terms max(low (z - at), high (z - at)) of every row: arrays of shape (n_corners, n_rows).

    Attributes
    ----------
    at, low, high : ndarray of shape (n_corners, n_rows), float64
        Where the slope jumps, from what to what; low < high.
    """

    at: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def on(self, rows: np.ndarray) -> Boxes:
        """Return those of some rows."""
        return Boxes(self.at[:, rows], self.low[:, rows], self.high[:, rows])

    def values(self, z: np.ndarray) -> np.ndarray:
        """Return the terms at margins z, by corners and rows."""
        return np.asarray(np.maximum(self.low * (z - self.at), self.high * (z - self.at)))


@dataclass(frozen=True)
class Objective:
    """The terms of some rows, ``pull . w``, ``sum_j l1_j |w_j|`` and ``sum_j l2_j w_j^2 / 2``.

    Attributes
    ----------
    rows : WorkingMatrix
        A, of shape (n_rows, n_cols); margins are ``A w``.
    boxes : Boxes
        Of the rows.
    pull, l1, l2 : ndarray of shape (n_cols,), float64
        The other terms' factors; the same on all shards.
    """

    rows: WorkingMatrix
    boxes: Boxes
    pull: np.ndarray
    l1: np.ndarray
    l2: np.ndarray


class _Walls(NamedTuple):
    """Terms with their slopes v between two walls, and both sides' slacks.

    ``over`` and ``under`` are how far the margin is above and below the corner, less what is common
    to both; ``room_up`` and ``room_down`` are how far v is from its bounds.
    """

    over: np.ndarray
    under: np.ndarray
    room_up: np.ndarray
    room_down: np.ndarray

    @classmethod
    def centred(cls, residual: np.ndarray, half: np.ndarray, product: float) -> _Walls:
        """Return the point at which all products of slack and room are equal."""
        root = np.hypot(product, residual * half)
        moved = residual * half * half / (product + root)
        up, down = half - moved, half + moved
        # The smaller room without cancellation: up * down = 2 product half^2 / (product + root).
        both = 2.0 * product * half * half / (product + root)
        up, down = np.where(moved > 0.0, both / down, up), np.where(moved > 0.0, down, both / up)
        return cls(product / up, product / down, up, down)

    @property
    def complementarity(self) -> float:
        return float(np.vdot(self.over, self.room_up) + np.vdot(self.under, self.room_down))

    @property
    def slack(self) -> np.ndarray:
        return self.over - self.under

    @property
    def softness(self) -> np.ndarray:
        """Return by how much v moves when the margin does."""
        return 1.0 / (self.over / self.room_up + self.under / self.room_down)

    def aims(self, product: float, before: _Walls | None) -> tuple[np.ndarray, np.ndarray]:
        """Return what both products are to change by; `before` is a step to correct for."""
        up, down = product - self.over * self.room_up, product - self.under * self.room_down
        if before is not None:
            up -= before.over * before.room_up
            down -= before.under * before.room_down
        return up, down

    def shift(self, error: np.ndarray, aims: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the margin's change for which v would stay."""
        return error + aims[0] / self.room_up - aims[1] / self.room_down

    def step(self, moved: np.ndarray, aims: tuple[np.ndarray, np.ndarray]) -> _Walls:
        """Return the changes when v changes by `moved`."""
        over = (aims[0] + self.over * moved) / self.room_up
        under = (aims[1] - self.under * moved) / self.room_down
        return _Walls(over, under, -moved, moved)

    def lengths(self, step: _Walls) -> tuple[float, float]:
        """Return how far slacks and rooms can go along a step."""
        return (
            min(_way(self.over, step.over), _way(self.under, step.under)),
            min(_way(self.room_up, step.room_up), _way(self.room_down, step.room_down)),
        )

    def moved(self, step: _Walls, primal: float, dual: float) -> _Walls:
        return _Walls(
            self.over + primal * step.over,
            self.under + primal * step.under,
            self.room_up + dual * step.room_up,
            self.room_down + dual * step.room_down,
        )

    def slopes(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return v, from the nearer wall."""
        return np.where(self.room_up < self.room_down, high - self.room_up, low + self.room_down)


def _way(values: np.ndarray, changes: np.ndarray) -> float:
    """Return the longest step at which no value is below zero."""
    least = float((changes / values).min(initial=0.0))
    return -1.0 / least if least < 0.0 else math.inf


def minimise(
    objective: Objective, coef: np.ndarray, target: float, communicator: Communicator
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise to within about `target`.

    Parameters
    ----------
    objective : Objective
        Rows of this shard, and what all shards share.
    coef : ndarray of shape (n_cols,), float64
        Where to begin.
    target : float
        Gap at which to stop.
    communicator : Communicator
        The other shards.

    Returns
    -------
    coef : ndarray of shape (n_cols,), float64
        w.
    slopes : ndarray of shape (n_corners, n_rows), float64
        v, within the boxes.
    """
    point = _Point(objective, coef, communicator)
    halved, n_idle = math.inf, 0
    for _ in range(_MOST_ITERATIONS):
        gap = point.gap()
        halved, n_idle = (gap, 0) if gap < 0.5 * halved else (halved, n_idle + 1)
        if gap <= target or n_idle > _MOST_IDLE or not point.advance():
            break
    boxes = objective.boxes
    return point.coef, point.walls.slopes(boxes.low, boxes.high)


class _Point:
    """Coefficients and slopes strictly between their walls, and how to go on from them."""

    def __init__(self, objective: Objective, coef: np.ndarray, communicator: Communicator) -> None:
        self._of, self._communicator = objective, communicator
        boxes = objective.boxes
        self.coef, self._z = coef, objective.rows.product(coef)
        self._columns = np.flatnonzero(objective.l1 > 0.0)
        self._limits = objective.l1[self._columns]
        half, own = 0.5 * (boxes.high - boxes.low), coef[self._columns]
        residual = self._z - boxes.at
        sums = np.array([float(np.vdot(half, abs(residual))), float(half.size)])
        total, count = communicator.allreduce_sum(sums).tolist()
        count += len(own)
        product = (total + float(self._limits @ abs(own))) / max(1.0, count)
        self._n_walls = 2.0 * max(1.0, count)
        product = max(product, np.finfo(np.float64).tiny ** 0.5)
        self.walls = _Walls.centred(residual, half, product)
        self._l1_walls = _Walls.centred(own, self._limits, product)
        self._see()

    def _see(self) -> None:
        """Compute the errors of both kinds of equations."""
        of, boxes = self._of, self._of.boxes
        slopes = self.walls.slopes(boxes.low, boxes.high)
        sums = self._adjoint(slopes.sum(axis=0)) + of.pull + of.l2 * self.coef
        sums[self._columns] += self._l1_walls.slopes(-self._limits, self._limits)
        self._error = boxes.at - self._z + self.walls.slack
        self._l1_error = self._l1_walls.slack - self.coef[self._columns]
        self._dual_error = -sums
        own = [self.walls.complementarity, float(np.vdot(abs(self._error), abs(slopes)))]
        found = self._communicator.allreduce_sum(np.array(own))
        self._complementarity = float(found[0]) + self._l1_walls.complementarity
        self._misfit = float(found[1] + abs(sums) @ abs(self.coef))
        self._misfit += float(abs(self._l1_error) @ self._limits)

    def gap(self) -> float:
        """Return about how far the point is from a minimum."""
        return self._complementarity + self._misfit

    def advance(self) -> bool:
        """Make one step; return whether there was one."""
        soft, l1_soft = self.walls.softness, self._l1_walls.softness
        factor = self._factor(soft.sum(axis=0), l1_soft)
        if factor is None:
            return False
        mean = self._complementarity / self._n_walls
        first = self._step(factor, soft, l1_soft, 0.0, None)
        primal, dual = self._lengths(first, 1.0)
        left = self._moved_complementarity(first, primal, dual) / self._complementarity
        share = min(1.0, max(left, 0.0)) ** 3
        best = self._step(factor, soft, l1_soft, share * mean, first)
        primal, dual = self._lengths(best, _SHARE_OF_WAY)
        if min(primal, dual) < _SHORT:
            other = self._step(factor, soft, l1_soft, max(share, _CAUTIOUS) * mean, None)
            ways = self._lengths(other, _SHARE_OF_WAY)
            if min(ways) > min(primal, dual):
                best, (primal, dual) = other, ways
        coef, z, walls, l1_walls = best
        if not np.isfinite(coef).all() or max(primal, dual) < 1e-12:
            return False
        self.coef = self.coef + primal * coef
        self._z = self._z + primal * z
        self.walls = self.walls.moved(walls, primal, dual)
        self._l1_walls = self._l1_walls.moved(l1_walls, primal, dual)
        self._see()
        return True

    def _factor(self, soft: np.ndarray, l1_soft: np.ndarray) -> tuple[np.ndarray, bool] | None:
        gram = self._communicator.allreduce_sum(self._of.rows.gram(soft))
        diagonal = gram.reshape(-1)[:: len(gram) + 1]
        diagonal += self._of.l2
        diagonal[self._columns] += l1_soft
        # One number for all columns: they have one scale, and those without entries get it too.
        diagonal += _RIDGE * float(diagonal.max(initial=0.0)) + np.finfo(np.float64).tiny
        try:
            return cho_factor(gram.T, lower=True, overwrite_a=True)  # without a copy
        except (LinAlgError, ValueError):
            return None

    def _step(
        self,
        factor: tuple[np.ndarray, bool],
        soft: np.ndarray,
        l1_soft: np.ndarray,
        product: float,
        before: tuple[np.ndarray, np.ndarray, _Walls, _Walls] | None,
    ) -> tuple[np.ndarray, np.ndarray, _Walls, _Walls]:
        """Return Newton's step towards equal products: of w, of the margins, and of the walls."""
        aims = self.walls.aims(product, None if before is None else before[2])
        l1_aims = self._l1_walls.aims(product, None if before is None else before[3])
        shift = self.walls.shift(self._error, aims)
        l1_shift = self._l1_walls.shift(self._l1_error, l1_aims)
        right = self._dual_error + self._adjoint((soft * shift).sum(axis=0))
        right[self._columns] += l1_soft * l1_shift
        coef = cho_solve(factor, right, check_finite=False)
        z = self._of.rows.product(coef)
        walls = self.walls.step(soft * (z - shift), aims)
        moved = l1_soft * (coef[self._columns] - l1_shift)
        return coef, z, walls, self._l1_walls.step(moved, l1_aims)

    def _lengths(
        self, step: tuple[np.ndarray, np.ndarray, _Walls, _Walls], share: float
    ) -> tuple[float, float]:
        """Return the steps of coefficients and slopes; a quadratic penalty ties them together."""
        own = np.minimum(self.walls.lengths(step[2]), self._l1_walls.lengths(step[3]))
        ways = np.min(self._communicator.exchange(own.tolist()), axis=0)
        primal, dual = np.minimum(1.0, share * ways).tolist()
        if self._of.l2.any():
            primal = dual = min(primal, dual)
        return primal, dual

    def _moved_complementarity(
        self, step: tuple[np.ndarray, np.ndarray, _Walls, _Walls], primal: float, dual: float
    ) -> float:
        own = self.walls.moved(step[2], primal, dual).complementarity
        total = float(self._communicator.allreduce_sum(np.array([own]))[0])
        return total + self._l1_walls.moved(step[3], primal, dual).complementarity

    def _adjoint(self, vector: np.ndarray) -> np.ndarray:
        return self._communicator.allreduce_sum(self._of.rows.adjoint(vector))
