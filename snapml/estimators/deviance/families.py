"""Families of targets: which loss is half their deviance, and of which labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special

from snapml.estimators.deviance.links import margin_of, means_of, rates_of
from snapml.problems import (
    ComplementaryLogLog,
    Logistic,
    Loss,
    NegativeBinomial,
    Poisson,
    Probit,
    Squared,
    Tweedie,
)
from snapml.solvers.cpu_formulas import loss_quantity

__all__ = [
    "BINOMIAL_LOSSES",
    "BinomialFamily",
    "Exchange",
    "Family",
    "GammaFamily",
    "NegativeBinomialFamily",
    "NormalFamily",
    "PoissonFamily",
    "TweedieFamily",
    "check_link",
    "family_of_power",
    "family_of_theta",
    "increasing_root",
]

Exchange = Callable[[Any], list[Any]]
_FAR = 1e300
_LEAST_THETA, _MOST_THETA = 1e-8, 1e8
# scikit-learn's words.
BINOMIAL_LOSSES: dict[str, Loss] = {
    "logit": Logistic(),
    "probit": Probit(),
    "cloglog": ComplementaryLogLog(),
}
"""Of labels, by the link of their probabilities."""

_OUTSIDE = "Some value(s) of y are out of the valid range of the loss"


class Family(ABC):
    """Targets of a family, with its link.

    Attributes
    ----------
    loss : Loss
        Half the unit deviance, as a function of the margin and a label.
    sign : float
        Of the model's margin to the loss's: Gamma's loss is Poisson's of the opposite margin.
    link : {'log', 'identity', 'logit', 'probit', 'cloglog'}
        The function of means that margins are.
    takes_negative : bool
        Whether targets may be below zero.
    has_dispersion : bool
        Whether variances have a factor that the family leaves open.
    is_canonical : bool
        Whether the loss's curvature does not depend on the target.
    """

    loss: Loss
    sign: float = 1.0
    link: str = "log"
    takes_negative: bool = False
    has_dispersion: bool = True
    is_canonical: bool = False

    @abstractmethod
    def check(self, y: np.ndarray, exchange: Exchange) -> None:
        """Refuse targets that the family has not.

        Parameters
        ----------
        y : ndarray of shape (n_rows,)
            Targets of this shard.
        exchange : callable
            Returns what each shard has laid down.

        Raises
        ------
        ValueError
            If there are such.
        """

    @abstractmethod
    def level(self, y: np.ndarray, c: np.ndarray, offsets: np.ndarray, exchange: Exchange) -> float:
        """Return the intercept of the best model without columns.

        Parameters
        ----------
        y : ndarray of shape (n_rows,)
            Targets of this shard.
        c : ndarray of shape (n_rows,)
            Weights of the rows.
        offsets : ndarray of shape (n_rows,)
            Of their margins.
        exchange : callable
            Returns what each shard has laid down.

        Returns
        -------
        float
            The same on all shards.
        """

    def means(self, margins: Any, xp: Any = np, special: Any = scipy.special) -> Any:
        """Return the expectations of targets.

        Parameters
        ----------
        margins : array of shape (n_rows,)
            Of rows.
        xp, special : module, default=numpy, scipy.special
            Those of the array.

        Returns
        -------
        array of shape (n_rows,)
            By the inverse of the link.
        """
        return means_of(self.link, margins, xp, special)

    def rates(self, means: np.ndarray) -> np.ndarray:
        """Return the derivatives of means by margins.

        Parameters
        ----------
        means : ndarray of shape (n_rows,), float64
            Of the rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Positive.
        """
        return rates_of(self.link, means)

    def working_weights(self, means: np.ndarray) -> np.ndarray:
        """Return the expected curvatures of half the deviance by margins.

        Parameters
        ----------
        means : ndarray of shape (n_rows,), float64
            Of the rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            The weights of iteratively reweighted least squares.
        """
        found: np.ndarray = self.rates(means) ** 2 / self.variances(means)
        return found

    @abstractmethod
    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return half the unit deviance of each row.

        Parameters
        ----------
        y, means : ndarray of shape (n_rows,), float64
            Targets and predictions.

        Returns
        -------
        ndarray of shape (n_rows,)
            At least 0.
        """

    @abstractmethod
    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return the variances of targets, for a dispersion of 1.

        Parameters
        ----------
        means : ndarray of shape (n_rows,), float64
            Of the targets.

        Returns
        -------
        ndarray of shape (n_rows,)
            Positive.
        """

    @abstractmethod
    def log_densities(self, y: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return the logarithms of the densities of targets.

        Parameters
        ----------
        y, means, scales : ndarray of shape (n_rows,), float64
            Targets, their means and dispersions.

        Returns
        -------
        ndarray of shape (n_rows,)
            NaN where the family has no density in closed form.
        """

    def rows(self, y: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return labels and offsets with which the loss is half the deviance of targets.

        Parameters
        ----------
        y, offsets : ndarray of shape (n_rows,), float64
            Targets, and offsets of the model's margins.

        Returns
        -------
        labels, offsets : ndarray of shape (n_rows,)
            For the loss.
        """
        return y, offsets


class NormalFamily(Family):
    """Any numbers, with the identity link: half their squared distance from the mean."""

    loss = Squared()
    link = "identity"
    takes_negative = True
    is_canonical = True

    def check(self, y: np.ndarray, exchange: Exchange) -> None:
        """Take all."""

    def level(self, y: np.ndarray, c: np.ndarray, offsets: np.ndarray, exchange: Exchange) -> float:
        """Return the mean of what offsets leave."""
        own = float(c @ (y - offsets)), float(np.sum(c, dtype=np.float64))
        total, weight = np.sum(exchange(own), axis=0)
        return float(total / weight)

    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return half the squares."""
        return 0.5 * (y - means) ** 2

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return ones."""
        return np.ones_like(means)

    def log_densities(self, y: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return those of the normal law."""
        return -0.5 * ((y - means) ** 2 / scales + np.log(2.0 * np.pi * scales))

    def rows(self, y: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what offsets leave, which is small where targets are far from zero."""
        return y - offsets, np.zeros_like(offsets)


class BinomialFamily(Family):
    """Labels 0 and 1.

    Parameters
    ----------
    link : {'logit', 'probit', 'cloglog'}, default='logit'
        The function of probabilities that margins are.
    """

    has_dispersion = False

    def __init__(self, link: str = "logit") -> None:
        self.link, self.loss = link, BINOMIAL_LOSSES[link]
        self.is_canonical = link == "logit"

    def check(self, y: np.ndarray, exchange: Exchange) -> None:
        """Refuse other numbers, and labels of one kind."""
        others = y[(y != 0.0) & (y != 1.0)]
        if any(exchange(len(others))):
            what = others[0] if len(others) else "another number in another shard"
            raise ValueError(f"{_OUTSIDE}: y: expected 0 and 1, got {what}")
        own = float(np.count_nonzero(y)), float(len(y))
        n_ones, n_rows = np.sum(exchange(own), axis=0)
        if n_ones in (0.0, n_rows):
            raise ValueError(f"{_OUTSIDE}: y: expected both 0 and 1, got {int(n_ones > 0)} only")

    def level(self, y: np.ndarray, c: np.ndarray, offsets: np.ndarray, exchange: Exchange) -> float:
        """Return the root of the slope, which is the link of the mean where offsets are equal."""
        own = float(c @ y), float(np.sum(c, dtype=np.float64)), float(c @ offsets)
        ones, weight, moved = np.sum(exchange(own), axis=0)
        if not 0.0 < ones < weight:
            raise ValueError("y: expected 0 and 1 among rows of positive weight, got one of them")

        def slope(intercept: float) -> float:
            rest = loss_quantity(self.loss, "gradient", offsets + intercept, 2.0 * y - 1.0)
            own = float(np.clip(c @ rest, -_FAR, _FAR))  # which a root is not looked for at
            return float(np.sum(exchange(own)))

        return increasing_root(slope, margin_of(self.link, ones / weight) - moved / weight)

    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return -log(p) of the labels."""
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(np.where(y > 0.0, means, 1.0 - means)))

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return p (1 - p)."""
        # Where a probability rounds to 1 the rate is 0, and so is what is divided by this.
        return np.maximum(means * (1.0 - means), np.finfo(np.float64).tiny)

    def log_densities(self, y: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return the logarithms of the labels' probabilities."""
        return -self.half_deviances(y, means) / scales

    def rows(self, y: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return labels -1 and +1."""
        return 2.0 * y - 1.0, offsets


class PoissonFamily(Family):
    """Counts, or rates, with the log link."""

    loss = Poisson()
    has_dispersion = False
    is_canonical = True

    def check(self, y: np.ndarray, exchange: Exchange) -> None:
        """Refuse negative ones, and nothing but zeros."""
        check_counts(y, "counts", exchange)

    def level(self, y: np.ndarray, c: np.ndarray, offsets: np.ndarray, exchange: Exchange) -> float:
        """Return the logarithm of counts by exposure."""
        return _log_ratio(c * y, 0.0, c, offsets, exchange)

    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return y log(y / mean) - y + mean."""
        found: np.ndarray = scipy.special.kl_div(y, means)
        return found

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return the means."""
        return means

    def log_densities(self, y: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return those of counts; of rates with weights of exposure their constant is another."""
        terms = scipy.special.xlogy(y, means) - means - scipy.special.gammaln(y + 1.0)
        return np.asarray(terms / scales)


class GammaFamily(Family):
    """Positive amounts with the log link: Poisson's loss of a count of 1 at ``log(y) - z``."""

    loss = Poisson()
    sign = -1.0

    def check(self, y: np.ndarray, exchange: Exchange) -> None:
        """Refuse what is not positive."""
        least = min(exchange(float(y.min(initial=np.inf))))
        if not least > 0.0:
            raise ValueError(f"{_OUTSIDE}: y: expected positive amounts, got {least:g}")

    def level(self, y: np.ndarray, c: np.ndarray, offsets: np.ndarray, exchange: Exchange) -> float:
        """Return the logarithm of the mean of amounts by exposure."""
        return _log_ratio(c, np.log(y.astype(np.float64)) - offsets, c, 0.0, exchange)

    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return y / mean - log(y / mean) - 1."""
        t = (y - means) / means
        return t - np.log1p(t)

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return the squares of the means."""
        return means**2

    def log_densities(self, y: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return those of the gamma law of the shape 1 / scale."""
        shapes = 1.0 / scales
        terms = shapes * (np.log(shapes * y / means) - y / means)
        return np.asarray(terms - np.log(y) - scipy.special.gammaln(shapes))

    def rows(self, y: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return counts of 1, and the logarithms of amounts."""
        return np.ones_like(y), np.log(y) - offsets


class TweedieFamily(Family):
    """Amounts of which many may be 0, with the log link and a power between 1 and 2.

    Parameters
    ----------
    power : float
        Of the mean, to which the variance is proportional.
    """

    def __init__(self, power: float) -> None:
        self.loss = Tweedie(power)
        self._a, self._b = 2.0 - power, power - 1.0

    def check(self, y: np.ndarray, exchange: Exchange) -> None:
        """Refuse negative ones, and nothing but zeros."""
        check_counts(y, "amounts", exchange)

    def level(self, y: np.ndarray, c: np.ndarray, offsets: np.ndarray, exchange: Exchange) -> float:
        """Return the root of ``sum c (m^a - y m^-b)``, which is a logarithm of a ratio again."""
        return _log_ratio(c * y, -self._b * offsets, c, self._a * offsets, exchange)

    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return it from t = log(mean / y), in which no term is larger than needs be."""
        found: np.ndarray = means**self._a / self._a
        some = y > 0.0
        t = np.log(means[some] / y[some])
        terms = np.expm1(self._a * t) / self._a + np.expm1(-self._b * t) / self._b
        found[some] = y[some] ** self._a * np.maximum(terms, 0.0)
        return found

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return the power of the means."""
        found: np.ndarray = means ** (1.0 + self._b)
        return found

    def log_densities(self, y: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return NaN: the density is an infinite series."""
        return np.full_like(means, np.nan)


class NegativeBinomialFamily(Family):
    """Counts of the variance mean + theta mean^2, with the log link.

    Parameters
    ----------
    theta : float
        How much they vary beyond Poisson's.
    """

    has_dispersion = False

    def __init__(self, theta: float) -> None:
        self.loss = NegativeBinomial(theta)
        self._theta = theta

    def check(self, y: np.ndarray, exchange: Exchange) -> None:
        """Refuse negative ones, and nothing but zeros."""
        check_counts(y, "counts", exchange)

    def level(self, y: np.ndarray, c: np.ndarray, offsets: np.ndarray, exchange: Exchange) -> float:
        """Return the root of the slope, which is Poisson's where offsets are equal."""
        middle = _log_ratio(c * y, 0.0, c, offsets, exchange)

        def slope(intercept: float) -> float:
            # Of each row one of two forms is taken, and the other may be anything.
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                means = np.exp(offsets + intercept)
                shares = self._theta + np.exp(-offsets - intercept)
                own = np.where(means < 1.0, (means - y) / (1.0 + self._theta * means), 0.0)
                own = np.where(means < 1.0, own, (1.0 - y / means) / shares)
            return float(np.sum(exchange(float(c @ own))))

        return increasing_root(slope, middle)

    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return y log(y / mean) - (y + 1 / theta) log((1 + theta y) / (1 + theta mean))."""
        grown = np.log1p(self._theta * (y - means) / (1.0 + self._theta * means))
        found = scipy.special.xlogy(y, y / means) - (y + 1.0 / self._theta) * grown
        return np.maximum(found, 0.0)

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return mean + theta mean^2."""
        return means * (1.0 + self._theta * means)

    def log_densities(self, y: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return those of counts."""
        shape, scaled = 1.0 / self._theta, self._theta * means
        ways = scipy.special.gammaln(y + shape) - scipy.special.gammaln(shape)
        ways = ways - scipy.special.gammaln(y + 1.0)
        terms = ways + scipy.special.xlogy(y, scaled) - (y + shape) * np.log1p(scaled)
        return np.asarray(terms / scales)


def family_of_power(power: float) -> Family:
    """Return the family whose variance is in proportion to a power of the mean.

    Parameters
    ----------
    power : float
        0, or from 1 to 2.

    Returns
    -------
    Family
        With the identity link for 0, the log link for others.

    Raises
    ------
    ValueError
        If nothing could be certified of another; the message says why.
    """
    plain: dict[float, Callable[[], Family]]
    plain = {0.0: NormalFamily, 1.0: PoissonFamily, 2.0: GammaFamily}
    if power in plain:
        return plain[power]()
    if 1.0 < power < 2.0:
        return TweedieFamily(power)
    why = "its deviance has several minima with the log link"
    if not math.isfinite(power):
        why = "it is no number"
    elif 0.0 < power < 1.0:
        why = "no distribution has it"
    raise ValueError(f"power: expected 0, or from 1 to 2, got {power:g}: {why}")


def family_of_theta(theta: float) -> Family:
    """Return the negative binomial family.

    Parameters
    ----------
    theta : float
        How much counts vary beyond Poisson's.

    Returns
    -------
    Family
        With the log link.

    Raises
    ------
    ValueError
        If theta is not positive, or too far from 1 for its arithmetic.
    """
    if not _LEAST_THETA <= theta <= _MOST_THETA:
        raise ValueError(
            f"theta: expected a number from {_LEAST_THETA:g} to {_MOST_THETA:g}, got {theta!r}; "
            "Poisson's is the family of 0"
        )
    return NegativeBinomialFamily(theta)


def check_link(family: Family, link: Any, known: tuple[str, ...], beside: str, why: str) -> None:
    """Refuse another link than the family's.

    Parameters
    ----------
    family : Family
        With its link.
    link : object
        The user's: one of `known`, of which 'auto' is the family's.
    known : tuple of str
        Links that there are.
    beside, why : str
        The parameter that names the family with its value, and why no other link will do.

    Raises
    ------
    ValueError
        If it is another.
    """
    if not isinstance(link, str) or link not in known:
        raise ValueError(f"link: expected one of {known}, got {link!r}")
    if link not in ("auto", family.link):
        raise ValueError(
            f"link: expected {family.link!r} or 'auto' with {beside}, got {link!r}: {why}"
        )


def check_counts(y: np.ndarray, what: str, exchange: Exchange) -> None:
    """Refuse negative targets, and targets that are all zero.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Of this shard.
    what : str
        What they are, in the plural.
    exchange : callable
        Returns what each shard has laid down.

    Raises
    ------
    ValueError
        If there are such.
    """
    least = min(exchange(float(y.min(initial=0.0))))
    if least < 0.0:
        raise ValueError(f"{_OUTSIDE}: y: expected {what} of at least 0, got {least:g}")
    if not sum(exchange(float(y.sum(dtype=np.float64)))) > 0.0:
        raise ValueError(
            f"{_OUTSIDE}: y: expected {what} of which one is above 0, got zeros only, whose "
            "mean is the exponential of no number"
        )


def increasing_root(function: Callable[[float], float], near: float) -> float:
    """Return where an increasing function is zero.

    Parameters
    ----------
    function : callable
        Of one number; below zero far down, above zero far up.
    near : float
        Where to begin.

    Returns
    -------
    float
        To rounding.
    """
    width, value = 0.5, function(near)
    if value == 0.0:
        return near
    side = -math.copysign(1.0, value)
    far = near + side * width
    while function(far) * side < 0.0:
        near, width = far, 2.0 * width
        far += side * width
    found = scipy.optimize.brentq(function, near, far, xtol=1e-15, rtol=4 * np.finfo(float).eps)
    return float(found)


def _log_ratio(above: Any, more: Any, below: Any, less: Any, exchange: Exchange) -> float:
    """Return the logarithm of ``sum(above exp(more)) / sum(below exp(less))`` over all shards."""
    logs = []
    for factors, exponents in ((above, more), (below, less)):
        exponents = np.broadcast_to(exponents, np.shape(factors))
        counted = np.where(factors > 0.0, exponents, -np.inf)
        top = max(exchange(float(counted.max(initial=-np.inf))))
        if top == -np.inf:
            raise ValueError("y: expected one above 0 among rows of positive weight, got none")
        total = sum(exchange(float(np.sum(factors * np.exp(np.minimum(exponents - top, 0.0))))))
        logs.append(math.log(total) + top)
    return logs[0] - logs[1]
