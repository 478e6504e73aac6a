"""Proofs without a penalty, from the Hessian of losses that bend no faster than they curve.

For losses with ``|l'''| <= M l''`` let g and H be the gradient and the Hessian at a point t,
``lambda^2 = g' H^-1 g``, ``kappa^2 = max_i x_i' H^-1 x_i`` and ``s = M kappa lambda``. Where s < 1
there is a minimiser t* (docs/algorithms.md, section 9), and

    P(t) - P(t*) <= ((1 - s) log(1 - s) + s) / (M kappa)^2,
    ||t - t*||_H <= -log(1 - s) / (M kappa).

The latter is a distance in standard errors: no coefficient is farther from its best value than so
many of its own.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.newton.curvature import DenseCurvature
from snapml.solvers.newton.factor import DeviceFactor, Factor

__all__ = ["Proof", "distances", "prove"]

# A Hessian whose rounding may change what follows from it by a larger share proves nothing.
_MOST_ROUNDING = 0.1
# Up to this s a rough bound of kappa costs the bounds a few percent.
_SMALL = 0.1
# Margins along a unit of a direction without curvature that are rounding; columns have scale 1.
_FLAT = 1e-7


class Proof(NamedTuple):
    """What the Hessian at a point says for certain.

    Attributes
    ----------
    gap : float
        Bound on the objective there less its minimum.
    distance : float
        Bound on the distance of the point from a minimiser, in the Hessian's norm.
    """

    gap: float
    distance: float


def prove(
    engine: PrimalEngine, communicator: Communicator, curvature: DenseCurvature, gradient: Any
) -> Proof | None:
    """Return what follows from a Hessian of all rows.

    Parameters
    ----------
    engine : PrimalEngine
        All rows of this shard.
    communicator : Communicator
        The other shards.
    curvature : DenseCurvature
        The Hessian at the engine's present point, of all rows of all shards.
    gradient : array of shape (n_outputs, n_features + 1), float64
        Of the objective there.

    Returns
    -------
    Proof or None
        None where nothing follows: too far from the minimum, a Hessian that is singular to
        rounding but not in exact numbers, or a loss that bends faster.
    """
    concordance = engine.problem.loss.self_concordance
    if not math.isfinite(concordance) or not curvature.is_hessian:
        return None
    rows = _Rows(engine, communicator, curvature)
    gap = squares = 0.0
    # No comprehension: an error's traceback would keep what that one has seen alive.
    for factor, slope in curvature.parts(gradient):
        proof = rows.proof(concordance, factor, slope)
        if proof is None:
            return None
        gap += proof.gap
        squares += proof.distance**2
    return Proof(gap, math.sqrt(squares))


def distances(concordance: float, squared_decrement: float, squared_reach: float) -> Proof | None:
    """Return the two bounds.

    Parameters
    ----------
    concordance : float
        M.
    squared_decrement, squared_reach : float
        lambda^2 and kappa^2.

    Returns
    -------
    Proof or None
        None where s is not below 1.
    """
    decrement, reach = math.sqrt(squared_decrement), concordance * math.sqrt(squared_reach)
    s = reach * decrement
    if not s < 1.0:
        return None
    if s < 1e-3:  # the series, whose rest is below (5/6) s^3
        return Proof(
            squared_decrement * (0.5 + s / 6.0 + s * s / 12.0 + s**3),
            decrement * (1.0 + s / 2.0 + s * s),
        )
    logarithm = math.log1p(-s)
    return Proof(((1.0 - s) * logarithm + s) / reach**2, -logarithm / reach)


class _Rows:
    """How far rows reach in the norms of inverse Hessians; the same for all shards."""

    def __init__(
        self, engine: PrimalEngine, communicator: Communicator, curvature: DenseCurvature
    ) -> None:
        self._engine, self._communicator, self._rows = engine, communicator, curvature.rows
        weights = engine.row_weights()
        self._weights = weights if weights.ndim == 1 else weights.sum(axis=0)
        self._is_joint = engine.problem.loss.is_joint
        self._total = float(communicator.allreduce_sum(np.array([float(engine.n_rows)]))[0])
        self._roughly: float | None = None
        self._eps = 2.0**-23 if self._rows.dtype == np.float32 else 2.0**-52

    def proof(self, concordance: float, factor: Factor | DeviceFactor, slope: Any) -> Proof | None:
        """Return what one Hessian proves."""
        engine = self._engine
        inverse = engine.to_rows(factor.inverse())
        diagonal = engine.to_rows(factor.diagonal)
        size = abs(inverse * diagonal * diagonal[:, None]).sum(axis=0)
        rounding = self._eps * (factor.size + math.sqrt(self._total)) * float(size.max())
        if not rounding <= _MOST_ROUNDING:
            return None
        step = factor.solve(slope)
        decrement = max(float(slope @ step), 0.0) / (1.0 - rounding)
        if factor.null_space is None:
            norm = float(abs(inverse).sum(axis=0).max())
            reach = self._rough_reach() * norm / (1.0 - rounding)
            if concordance * math.sqrt(reach * decrement) <= _SMALL:
                return distances(concordance, decrement, reach)
        reach, flat = self._reach(inverse, factor.null_space)
        if not flat <= _FLAT:
            return None
        return distances(concordance, decrement, reach / (1.0 - rounding))

    def _rough_reach(self) -> float:
        """Return a bound of the squared norms of what a loss's bend depends on."""
        if self._roughly is None:
            tops = self._communicator.exchange(self._rows.largest_squares)
            bias = self._engine.bias_column**2
            self._roughly = float(np.max(tops, axis=0).sum()) + bias
        return self._roughly * (2.0 if self._is_joint else 1.0)

    def _reach(self, inverse: Any, null_space: np.ndarray | None) -> tuple[float, float]:
        """Return the largest x' H^-1 x, and the largest margin along what has no curvature."""
        engine, size = self._engine, len(self._rows.mean) + 1
        null = engine.to_rows(np.zeros((len(inverse), 0)) if null_space is None else null_space)
        forms, flats = [inverse], [null]
        if self._is_joint:  # margins matter by their differences between classes
            blocks = [slice(first, first + size) for first in range(0, len(inverse), size)]
            pairs = list(combinations(blocks, 2))
            forms = [
                inverse[j, j] + inverse[k, k] - inverse[j, k] - inverse[k, j] for j, k in pairs
            ]
            flats = [null[j] - null[k] for j, k in pairs]
        reach = flat = 0.0
        parts, buffer = self._rows.parts(self._weights)
        for part in parts:
            rows = self._rows.scaled(part, buffer)
            for form, none in zip(forms, flats, strict=True):
                reach = max(reach, float(((rows @ form) * rows).sum(axis=1).max()))
                if null_space is not None:
                    flat = max(flat, float(abs(rows @ none).max()))
        found = np.max(self._communicator.exchange((reach, flat)), axis=0)
        return float(found[0]), float(found[1])
