"""The losses, by name; their formulas stand in ``snapml/core/include/snapml/losses.hpp``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Hinge", "Logistic", "Loss", "Squared", "SquaredHinge"]


@dataclass(frozen=True)
class Loss:
    """A loss l(z, y) of the margin z and the label y.

    Attributes
    ----------
    core_name : str
        Name of the struct in the core headers.
    is_classification : bool
        Whether labels are -1 and +1 (otherwise any real number).
    """

    core_name: ClassVar[str]
    is_classification: ClassVar[bool] = True


@dataclass(frozen=True)
class Logistic(Loss):
    """l = log(1 + exp(-y z))."""

    core_name: ClassVar[str] = "Logistic"


@dataclass(frozen=True)
class Squared(Loss):
    """l = (z - y)^2 / 2."""

    core_name: ClassVar[str] = "Squared"
    is_classification: ClassVar[bool] = False


@dataclass(frozen=True)
class Hinge(Loss):
    """l = max(0, 1 - y z)."""

    core_name: ClassVar[str] = "Hinge"


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """l = max(0, 1 - y z)^2."""

    core_name: ClassVar[str] = "SquaredHinge"
