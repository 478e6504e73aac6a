"""What inference needs of a model's law: slopes, information, dispersion, likelihood."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special

from snapml._validation import alone
from snapml.estimators.deviance.families import Family
from snapml.solvers.cpu_formulas import loss_quantity

__all__ = ["BinomialLaw", "FamilyLaw", "Law", "NormalLaw"]


class Law(ABC):
    """How targets are distributed about the margins of a model.

    Attributes
    ----------
    has_dispersion : bool
        Whether a factor of the variance is to be told from the residuals; it is 1 otherwise.
    measure : str
        What `explained` is called.
    """

    has_dispersion: bool
    measure: str

    @abstractmethod
    def means(self, margins: np.ndarray) -> np.ndarray:
        """Return the expectations of targets."""

    @abstractmethod
    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return the variances of targets for a dispersion of 1."""

    @abstractmethod
    def rates(self, means: np.ndarray) -> np.ndarray:
        """Return the derivatives of means by margins."""

    @abstractmethod
    def level(self, fixed: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
        """Return the intercept of the best model of that and the offset alone."""

    @abstractmethod
    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return half the unit deviances."""

    @abstractmethod
    def log_likelihood(
        self, y: np.ndarray, margins: np.ndarray, weights: np.ndarray, scale: float, *, counts: bool
    ) -> float:
        """Return the log-likelihood; weights are `counts` of rows, or inverse variances."""

    def slopes(self, margins: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each row's slope of half the deviance, and its expected curvature."""
        means = self.means(margins)
        rates = self.rates(means)
        steep = rates / self.variances(means)
        return (means - y) * steep, rates * steep

    def curvatures(self, margins: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return each row's own curvature, of which the expectation is the information."""
        return self.slopes(margins, y)[1]

    def null_margins(
        self, has_intercept: bool, fixed: np.ndarray, y: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return the margins of the best model of an intercept and the offset alone."""
        return fixed + self.level(fixed, y, weights) if has_intercept else fixed

    def residual_squares(
        self, kind: str, y: np.ndarray, margins: np.ndarray, weights: np.ndarray
    ) -> float:
        """Return what is divided by degrees of freedom for a dispersion: chi^2 or the deviance."""
        means = self.means(margins)
        if kind == "deviance":
            return 2.0 * float(weights @ self.half_deviances(y, means))
        return float(weights @ ((y - means) ** 2 / self.variances(means)))

    def explained(
        self, y: np.ndarray, margins: np.ndarray, null: np.ndarray, weights: np.ndarray
    ) -> float:
        """Return the share of the null model's deviance that the model explains."""
        left, whole = (
            float(weights @ self.half_deviances(y, self.means(each))) for each in (margins, null)
        )
        return 1.0 - left / whole if whole else math.nan  # targets that need no model


class BinomialLaw(Law):
    """Labels 0 and 1, by log-odds."""

    has_dispersion = False
    measure = "McFadden R^2"

    def means(self, margins: np.ndarray) -> np.ndarray:
        """Return probabilities."""
        return np.asarray(scipy.special.expit(margins))

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return p (1 - p)."""
        return means * (1.0 - means)

    def rates(self, means: np.ndarray) -> np.ndarray:
        """Return p (1 - p)."""
        return means * (1.0 - means)

    def slopes(self, margins: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return them where p rounds to 1, too."""
        shares = self.means(margins)
        return shares - y, shares * scipy.special.expit(-margins)

    def level(self, fixed: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
        """Return the root of the slope."""

        def slope(b: float) -> float:
            return float(weights @ (scipy.special.expit(b + fixed) - y))

        # The least and the largest offset bound what the intercept has to make up for.
        share = float(weights @ y) / float(weights.sum())
        middle = float(scipy.special.logit(share))
        ends = middle - float(fixed.max()) - 1.0, middle - float(fixed.min()) + 1.0
        return float(scipy.optimize.brentq(slope, *ends, xtol=1e-12))

    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return -log(p) of the labels."""
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(np.where(y > 0.0, means, 1.0 - means)))

    def log_likelihood(
        self, y: np.ndarray, margins: np.ndarray, weights: np.ndarray, scale: float, *, counts: bool
    ) -> float:
        """Return the log-likelihood of labels at log-odds."""
        return float(weights @ scipy.special.log_expit(np.where(y > 0.0, margins, -margins)))

    def explained(
        self, y: np.ndarray, margins: np.ndarray, null: np.ndarray, weights: np.ndarray
    ) -> float:
        """Return McFadden's 1 - LL / LL_0."""
        left, whole = (
            self.log_likelihood(y, each, weights, 1.0, counts=True) for each in (margins, null)
        )
        return 1.0 - left / whole if whole else math.nan


class NormalLaw(Law):
    """Targets of one variance about the margins themselves."""

    has_dispersion = True
    measure = "R^2"

    def means(self, margins: np.ndarray) -> np.ndarray:
        """Return the margins."""
        return margins

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return ones."""
        return np.ones_like(means)

    def rates(self, means: np.ndarray) -> np.ndarray:
        """Return ones."""
        return np.ones_like(means)

    def level(self, fixed: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
        """Return the mean of what the offset leaves."""
        return float(weights @ (y - fixed)) / float(weights.sum())

    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return half the squares."""
        return 0.5 * (y - means) ** 2

    def log_likelihood(
        self, y: np.ndarray, margins: np.ndarray, weights: np.ndarray, scale: float, *, counts: bool
    ) -> float:
        """Return it for the variance that makes it largest."""
        n = float(weights.sum()) if counts else float(np.count_nonzero(weights))
        squares = float(weights @ (y - margins) ** 2)
        with np.errstate(divide="ignore"):  # of a perfect fit
            found = -0.5 * n * float(np.log(2.0 * np.pi / n * squares) + 1.0)
        return found if counts else found + 0.5 * float(np.log(weights[weights > 0.0]).sum())


class FamilyLaw(Law):
    """Counts and amounts.

    Parameters
    ----------
    family : Family
        Of the model.
    """

    measure = "D^2"

    def __init__(self, family: Family) -> None:
        self._family = family
        self.has_dispersion = family.has_dispersion

    def means(self, margins: np.ndarray) -> np.ndarray:
        """Return them by the family's link."""
        return np.asarray(self._family.means(margins))

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Return the family's."""
        return self._family.variances(means)

    def rates(self, means: np.ndarray) -> np.ndarray:
        """Return them by the family's link."""
        return self._family.rates(means)

    def curvatures(self, margins: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the loss's."""
        labels, moved = self._family.rows(y, margins)
        return loss_quantity(self._family.loss, "curvature", moved, labels)

    def level(self, fixed: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
        """Return the family's."""
        return self._family.level(y, weights, fixed, alone)

    def half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the family's."""
        return self._family.half_deviances(y, means)

    def log_likelihood(
        self, y: np.ndarray, margins: np.ndarray, weights: np.ndarray, scale: float, *, counts: bool
    ) -> float:
        """Return the family's, at the dispersion that was told or estimated."""
        some = weights > 0.0
        y, means, weights = y[some], self.means(margins)[some], weights[some]
        scales: Any = scale if counts else scale / weights
        densities = self._family.log_densities(y, means, np.broadcast_to(scales, len(y)))
        return float(weights @ densities) if counts else float(densities.sum())
