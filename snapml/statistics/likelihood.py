"""What inference needs of a model's law: slopes, information, dispersion, likelihood."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special

from snapml._validation import alone
from snapml.estimators.deviance.families import BinomialFamily, Family, NormalFamily
from snapml.solvers.cpu_formulas import loss_quantity

__all__ = ["BinomialLaw", "Law", "NormalLaw"]


class Law:
    """How targets are distributed about the margins of a model.

    Parameters
    ----------
    family : Family
        Of the targets.

    Attributes
    ----------
    has_dispersion : bool
        Whether a factor of the variance is to be told from the residuals; it is 1 otherwise.
    is_canonical : bool
        Whether each row's own curvature is the expected one.
    measure : str
        What `explained` is called.
    """

    measure = "D^2"

    def __init__(self, family: Family) -> None:
        self._family = family
        self.has_dispersion = family.has_dispersion
        self.is_canonical = family.is_canonical

    def slopes(self, margins: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each row's slope of half the deviance, and its expected curvature."""
        means = self._family.means(margins)
        rates = self._family.rates(means)
        steep = rates / self._family.variances(means)
        return (means - y) * steep, rates * steep

    def curvatures(self, margins: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return each row's own curvature, of which the other is the expectation."""
        labels, moved = self._family.rows(y, margins)
        return loss_quantity(self._family.loss, "curvature", moved, labels)

    def null_margins(
        self, has_intercept: bool, fixed: np.ndarray, y: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return the margins of the best model of an intercept and the offset alone."""
        if not has_intercept:
            return fixed
        return fixed + self._family.level(y, weights, fixed, alone)

    def residual_squares(
        self, kind: str, y: np.ndarray, margins: np.ndarray, weights: np.ndarray
    ) -> float:
        """Return what is divided by degrees of freedom for a dispersion: chi^2 or the deviance."""
        means = self._family.means(margins)
        if kind == "deviance":
            return 2.0 * float(weights @ self._family.half_deviances(y, means))
        return float(weights @ ((y - means) ** 2 / self._family.variances(means)))

    def log_likelihood(
        self, y: np.ndarray, margins: np.ndarray, weights: np.ndarray, scale: float, *, counts: bool
    ) -> float:
        """Return it at a dispersion; weights are `counts` of rows, or inverse variances."""
        some = weights > 0.0
        y, means, weights = y[some], self._family.means(margins)[some], weights[some]
        scales: Any = scale if counts else scale / weights
        densities = self._family.log_densities(y, means, np.broadcast_to(scales, len(y)))
        return float(weights @ densities) if counts else float(densities.sum())

    def explained(
        self, y: np.ndarray, margins: np.ndarray, null: np.ndarray, weights: np.ndarray
    ) -> float:
        """Return the share of the null model's deviance that the model explains."""
        left, whole = (
            self.residual_squares("deviance", y, each, weights) for each in (margins, null)
        )
        return 1.0 - left / whole if whole else math.nan  # targets that need no model


class BinomialLaw(Law):
    """Labels 0 and 1, by log-odds."""

    measure = "McFadden R^2"

    def __init__(self) -> None:
        super().__init__(BinomialFamily())

    def slopes(self, margins: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return them where p rounds to 1, too."""
        shares = scipy.special.expit(margins)
        return shares - y, shares * scipy.special.expit(-margins)

    def log_likelihood(
        self, y: np.ndarray, margins: np.ndarray, weights: np.ndarray, scale: float, *, counts: bool
    ) -> float:
        """Return that of labels at log-odds, however large."""
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

    measure = "R^2"

    def __init__(self) -> None:
        super().__init__(NormalFamily())

    def log_likelihood(
        self, y: np.ndarray, margins: np.ndarray, weights: np.ndarray, scale: float, *, counts: bool
    ) -> float:
        """Return it for the variance that makes it largest."""
        n = float(weights.sum()) if counts else float(np.count_nonzero(weights))
        squares = float(weights @ (y - margins) ** 2)
        with np.errstate(divide="ignore"):  # of a perfect fit
            found = -0.5 * n * float(np.log(2.0 * np.pi / n * squares) + 1.0)
        return found if counts else found + 0.5 * float(np.log(weights[weights > 0.0]).sum())
