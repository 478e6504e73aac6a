"""Core functions on single numbers, and how tests choose their arguments."""

from typing import NamedTuple

import numpy as np
from reference.losses import ORACLES

from snapml import _native
from snapml.problems import Loss


class Step(NamedTuple):
    """What one coordinate step returns."""

    state: float
    change: float
    gap: float


def quantity(loss: Loss, name: str, x: float, y: float, dtype: np.dtype) -> float:
    """Return value, gradient, curvature, conjugate, dual or start of a loss."""
    return _native.core_loss(loss.core_name, name, x, y, dtype == np.float64)


def step(loss: Loss, state: float, z: float, y: float, stiffness: float, dtype: np.dtype) -> Step:
    """Return one coordinate step."""
    return Step(*_native.core_step(loss.core_name, state, z, y, stiffness, dtype == np.float64))


def labels_of(loss: Loss) -> tuple[float, ...]:
    """Return labels to try."""
    known = {
        "sign": (-1.0, 1.0),
        "real": (-1.0, 1.0, 0.625, -37.5),
        "count": (0.0, 1.0, 0.625, 37.0),
    }
    return known[loss.labels]


def legal_label(loss: Loss, number: float) -> float:
    """Return the label that a real number stands for."""
    if loss.labels == "sign":
        return float(np.copysign(1.0, number))
    return abs(number) if loss.labels == "count" else number


def legal_margin(loss: Loss, number: float) -> float:
    """Return the margin that a real number stands for: no mean is to be beyond all others."""
    if loss.struct == "Tweedie":  # rises like an exponential on both sides
        return max(-20.0, min(number, 5.0))
    return min(number, 5.0) if loss.link in ("log", "cloglog") else number


def legal_state(loss: Loss, number: float, y: float) -> float:
    """Return the state that a real number of at most 1e4 stands for, exact in float32."""
    if (states := ORACLES[loss.core_name].states) is not None:
        share = 0.5 + 0.5 * number / 1e4
        return float(np.float32(states[0] + share * (states[1] - states[0])))
    if loss.core_name == "SquaredHinge":
        return float(np.float32(y * (1.0 - abs(number))))
    if loss.core_name == "Huber":
        return float(np.float32(y + number / 1e4))
    return max(-80.0, min(number, 5.0)) if loss.link in ("log", "cloglog") else number


def steepest(loss: Loss, *margins: float) -> float:
    """Return the largest curvature, or where there is none that of these margins."""
    oracle = ORACLES[loss.core_name]
    if np.isfinite(oracle.max_curvature):
        return oracle.max_curvature
    return max(float(oracle.curvature(np.float64(z), 1.0)) for z in margins)
