"""The losses, by name; their formulas stand in ``snapml/core/include/snapml/losses.hpp``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "Hinge",
    "Logistic",
    "Loss",
    "OffsetLogistic",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "SquaredHinge",
]


@dataclass(frozen=True)
class Loss:
    """A loss l(z, y) of the margin z and the label y.

    Attributes
    ----------
    core_name : str
        Name of the struct in the core headers.
    is_classification : bool
        Whether labels are -1 and +1 (otherwise any real number).
    max_curvature : float
        Largest l''; infinite where l has a kink.
    has_curvature_jumps : bool
        Whether l'' jumps: a model of the curvature then ends where rows cross the jump.
    has_quadratic_conjugate : bool
        Whether l* is linear or quadratic where it is finite.
    """

    core_name: ClassVar[str]
    is_classification: ClassVar[bool] = True
    max_curvature: ClassVar[float] = math.inf
    has_curvature_jumps: ClassVar[bool] = False
    has_quadratic_conjugate: ClassVar[bool] = False

    @property
    def is_smooth(self) -> bool:
        """Whether l has a gradient everywhere."""
        return math.isfinite(self.max_curvature)


@dataclass(frozen=True)
class Logistic(Loss):
    """l = log(1 + exp(-y z))."""

    core_name: ClassVar[str] = "Logistic"
    max_curvature: ClassVar[float] = 0.25


@dataclass(frozen=True)
class OffsetLogistic(Loss):
    """l = log(1 + exp(-y (z + o))) of an offset o, which the labels carry: t = y exp(o)."""

    core_name: ClassVar[str] = "OffsetLogistic"
    max_curvature: ClassVar[float] = 0.25


@dataclass(frozen=True)
class Squared(Loss):
    """l = (z - y)^2 / 2."""

    core_name: ClassVar[str] = "Squared"
    max_curvature: ClassVar[float] = 1.0
    has_quadratic_conjugate: ClassVar[bool] = True
    is_classification: ClassVar[bool] = False


@dataclass(frozen=True)
class Hinge(Loss):
    """l = max(0, 1 - y z)."""

    core_name: ClassVar[str] = "Hinge"
    has_quadratic_conjugate: ClassVar[bool] = True


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """l = max(0, 1 - y z)^2."""

    core_name: ClassVar[str] = "SquaredHinge"
    max_curvature: ClassVar[float] = 2.0
    has_curvature_jumps: ClassVar[bool] = True
    has_quadratic_conjugate: ClassVar[bool] = True


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """The hinge with its corner rounded off over a width g, around a dual variable over c, a0.

    The labels carry both: y = -g (1 + a0) or g (1 + a0), where g is a power of two.
    """

    core_name: ClassVar[str] = "SmoothedHinge"
    has_quadratic_conjugate: ClassVar[bool] = True


@dataclass(frozen=True)
class Softmax(Loss):
    """l = log(sum_k exp(z_k)) - z_y of one margin for each class; labels are class numbers.

    Attributes
    ----------
    n_classes : int
        Number of margins.
    """

    n_classes: int = 2

    core_name: ClassVar[str] = "Softmax"
    max_curvature: ClassVar[float] = 0.5
