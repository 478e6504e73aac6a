"""The losses, by name; formulas and traits stand in ``snapml/core/include/snapml/losses/``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from snapml import _native
from snapml._lazy import cached_property

__all__ = [
    "ComplementaryLogLog",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "NegativeBinomial",
    "Poisson",
    "Probit",
    "Quantile",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "Tweedie",
]


@dataclass(frozen=True)
class Loss:
    """A loss l(z, y) of the margin z and the label y; its least value is 0.

    A subclass has the name of a struct in the core headers, which says all of the following.

    Attributes
    ----------
    struct : str
        Name of the struct, and of the class.
    core_name : str
        What the compiled code calls it: the struct, with its parameter in brackets.
    labels : str
        What labels are: "sign" (-1 and +1), "real", "count" (from 0 on), "positive" or "class".
    link : str
        What a margin predicts: the mean ("identity"), its logarithm ("log"), or a function of a
        probability ("logit", "probit" or "cloglog").
    kinks : str
        What jumps somewhere: "none", "curvature" (l'') or "gradient" (l').
    n_corners : int
        Corners between which l is linear; 0 where it is not.
    is_quadratic : bool
        Whether l'' is one number: a quadratic model of the loss is then exact.
    has_quadratic_conjugate : bool
        Whether l* is linear or quadratic where it is finite.
    has_dual_step : bool
        Whether dual coordinate ascent has a step for it.
    has_parameter : bool
        Whether the struct has a member, which is the first field of the class.
    curvature_bound : float
        Largest l''; infinite where there is none.
    self_concordance : float
        Least M with ``|l'''| <= M l''``; infinite where there is none.
    """

    struct: ClassVar[str]
    labels: ClassVar[str]
    link: ClassVar[str]
    kinks: ClassVar[str]
    n_corners: ClassVar[int]
    is_quadratic: ClassVar[bool]
    has_quadratic_conjugate: ClassVar[bool]
    has_dual_step: ClassVar[bool]
    has_parameter: ClassVar[bool]
    curvature_bound: ClassVar[float]
    self_concordance: ClassVar[float]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.struct = cls.__name__
        for name, value in _TRAITS[cls.__name__].items():
            setattr(cls, name, value)

    @cached_property
    def core_name(self) -> str:
        """The struct's name, with its parameter in brackets: Poisson, Tweedie(1.5)."""
        if not self.has_parameter:
            return self.struct
        return f"{self.struct}({float(getattr(self, fields(self)[0].name))!r})"

    @property
    def is_smooth(self) -> bool:
        """Whether l has a gradient everywhere."""
        return self.kinks != "gradient"

    @property
    def is_joint(self) -> bool:
        """Whether one loss sees the margins of all classes, as the softmax does."""
        return self.labels == "class"

    @property
    def n_outputs(self) -> int:
        """Number of margins that one label judges."""
        return 1

    @property
    def smoothed(self) -> Loss | None:
        """A loss like this one whose corners are rounded off, where there is one."""
        return None

    @property
    def of_one_class(self) -> Loss | None:
        """What a joint loss is in one class's margin while the others stay, but for its label."""
        return None


_TRAITS: dict[str, dict[str, Any]] = _native.loss_traits()


@dataclass(frozen=True)
class Logistic(Loss):
    """l = log(1 + exp(-y z))."""


@dataclass(frozen=True)
class Probit(Loss):
    """l = -log(Phi(y z)), with Phi the normal law."""


@dataclass(frozen=True)
class ComplementaryLogLog(Loss):
    """l = exp(z) for y = -1, and -log(1 - exp(-exp(z))) for y = 1."""


@dataclass(frozen=True)
class Squared(Loss):
    """l = (z - y)^2 / 2."""


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """l = max(0, 1 - y z)^2."""


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """The hinge with its corner rounded off over a width of 1."""


@dataclass(frozen=True)
class Hinge(Loss):
    """l = max(0, 1 - y z)."""

    @property
    def smoothed(self) -> Loss:
        """The smoothed hinge."""
        return SmoothedHinge()


@dataclass(frozen=True)
class Huber(Loss):
    """l = (z - y)^2 / 2 where |z - y| <= 1, and |z - y| - 1/2 elsewhere."""


@dataclass(frozen=True)
class Quantile(Loss):
    """l = max(q r, (q - 1) r) of the residual r = y - z, whose best constant is the q-quantile.

    Attributes
    ----------
    quantile : float
        q, between 0 and 1.
    """

    quantile: float = 0.5


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """l = max(0, |z - y| - epsilon).

    Attributes
    ----------
    epsilon : float
        At least 0.
    """

    epsilon: float = 0.0


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Loss):
    """l = max(0, |z - y| - epsilon)^2.

    Attributes
    ----------
    epsilon : float
        At least 0.
    """

    epsilon: float = 0.0


@dataclass(frozen=True)
class Poisson(Loss):
    """l = exp(z) - y z + y log(y) - y: half the deviance of a count y of mean exp(z)."""


@dataclass(frozen=True)
class NegativeBinomial(Loss):
    """Half the deviance of a count of mean exp(z) and variance mean + theta mean^2.

    Attributes
    ----------
    theta : float
        Above 0; towards 0 the loss becomes that of Poisson.
    """

    theta: float = 1.0


@dataclass(frozen=True)
class Tweedie(Loss):
    """Half the deviance of an amount of mean exp(z) and a variance in proportion to mean^power.

    Attributes
    ----------
    power : float
        Between 1, where the loss is that of Poisson, and 2, where it is that of Gamma.
    """

    power: float = 1.5


@dataclass(frozen=True)
class Softmax(Loss):
    """l = log(sum_k exp(z_k)) - z_y of one margin for each class; labels are class numbers.

    Attributes
    ----------
    n_classes : int
        Number of margins.
    """

    n_classes: int = 2

    @property
    def n_outputs(self) -> int:
        """Number of margins that one label judges."""
        return self.n_classes

    @property
    def of_one_class(self) -> Loss:
        """The logistic loss, of the class's margin less those of the others together."""
        return Logistic()
