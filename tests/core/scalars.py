"""Core functions on single numbers, and how tests choose their arguments."""

from typing import NamedTuple

import numpy as np

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
    return (-1.0, 1.0) if loss.is_classification else (-1.0, 1.0, 0.625, -37.5)


def legal_label(loss: Loss, number: float) -> float:
    """Return the label that a real number stands for."""
    return float(np.copysign(1.0, number)) if loss.is_classification else number


def legal_state(loss: Loss, number: float, y: float) -> float:
    """Return the state that a real number of at most 1e4 stands for, exact in float32."""
    if loss.core_name == "Hinge":
        return float(np.float32(abs(number) / 1e4))
    if loss.core_name == "SquaredHinge":
        return float(np.float32(y * (1.0 - abs(number))))
    return number
