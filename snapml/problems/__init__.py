"""What is solved: losses and the one objective they enter."""

from snapml.problems import losses
from snapml.problems.losses import *  # noqa: F403 - the list of losses stands there alone
from snapml.problems.problem import Bounds, Intercept, Penalty, Problem

__all__ = ["Bounds", "Intercept", "Penalty", "Problem"]
__all__ += losses.__all__
