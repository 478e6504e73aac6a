"""What is solved: losses and the one objective they enter."""

from snapml.problems.losses import Hinge, Logistic, Loss, Squared, SquaredHinge
from snapml.problems.problem import Intercept, Penalty, Problem

__all__ = [
    "Hinge",
    "Intercept",
    "Logistic",
    "Loss",
    "Penalty",
    "Problem",
    "Squared",
    "SquaredHinge",
]
