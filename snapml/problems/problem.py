"""The objective every estimator maps its parameters to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from snapml.problems.losses import Loss

__all__ = ["Intercept", "Problem"]


class Intercept(Enum):
    """How the objective treats the intercept."""

    NONE = "none"
    FREE = "free"  # not penalised
    PENALISED = "penalised"  # one more column of constant value, penalised like any other


@dataclass(frozen=True)
class Problem:
    """P(w, b) = sum_i c_i l(x_i.w + b, y_i) + ||w||^2 / 2, objective (1) of docs/notation.md.

    The row weights c_i travel with the data (`snapml.data.Dataset`).

    Attributes
    ----------
    loss : Loss
        The loss l.
    intercept : Intercept
        Whether b is fitted, and whether it is penalised.
    intercept_scaling : float
        Value of the constant column of a penalised intercept; b is that times its coefficient.
    """

    loss: Loss
    intercept: Intercept = Intercept.NONE
    intercept_scaling: float = 1.0
