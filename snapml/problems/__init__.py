"""What is solved: losses and the one objective they enter."""

from snapml.problems.losses import (
    Hinge,
    Logistic,
    Loss,
    OffsetLogistic,
    SmoothedHinge,
    Softmax,
    Squared,
    SquaredHinge,
)
from snapml.problems.problem import Bounds, Intercept, Penalty, Problem

__all__ = [
    "Bounds",
    "Hinge",
    "Intercept",
    "Logistic",
    "Loss",
    "OffsetLogistic",
    "Penalty",
    "Problem",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "SquaredHinge",
]
