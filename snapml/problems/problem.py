"""The objective every estimator maps its parameters to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from snapml.problems.losses import Loss

__all__ = ["Bounds", "Intercept", "Penalty", "Problem"]


class Intercept(Enum):
    """How the objective treats the intercept."""

    NONE = "none"
    FREE = "free"  # not penalised
    PENALISED = "penalised"  # one more column of constant value, penalised like any other


@dataclass(frozen=True, eq=False)
class Bounds:
    """lower <= w <= upper, a number for each column; 0 is among them.

    Attributes
    ----------
    lower, upper : ndarray of shape (n_columns,), float64
        At most 0 and at least 0; infinite where there is no bound.
    """

    lower: np.ndarray
    upper: np.ndarray

    def on(self, columns: np.ndarray) -> Bounds:
        """Return those of some columns."""
        return Bounds(self.lower[columns], self.upper[columns])

    def nearest(self, coef: np.ndarray) -> np.ndarray:
        """Return the coefficients within the bounds that are nearest to others."""
        return np.clip(coef, self.lower, self.upper)


@dataclass(frozen=True)
class Penalty:
    """R(w) = l1 ||w||_1 + l2 ||w||^2 / 2, and w >= 0 where `is_positive`.

    Attributes
    ----------
    l1, l2 : float
        Strengths, at least 0; both 0 is no penalty at all.
    is_positive : bool
        Whether negative coefficients are forbidden.
    bounds : Bounds or None
        What coefficients lie between, for the columns that R is taken of.
    """

    l1: float = 0.0
    l2: float = 1.0
    is_positive: bool = False
    bounds: Bounds | None = None

    @property
    def is_smooth(self) -> bool:
        """Whether R has a gradient everywhere."""
        return self.l1 == 0.0 and not self.is_positive and self.bounds is None

    @property
    def is_none(self) -> bool:
        """Whether coefficients are free, and nothing is added for them."""
        return self.is_smooth and self.l2 == 0.0

    def on(self, columns: np.ndarray) -> Penalty:
        """Return the penalty of some columns."""
        return self if self.bounds is None else replace(self, bounds=self.bounds.on(columns))


@dataclass(frozen=True)
class Problem:
    """P(w, b) = sum_i c_i l(x_i.w + b, y_i) + R(w), objective (1) of docs/notation.md.

    The row weights c_i travel with the data (`snapml.data.Dataset`).

    Attributes
    ----------
    loss : Loss
        The loss l.
    intercept : Intercept
        Whether b is fitted, and whether it is penalised.
    intercept_scaling : float
        Value of the constant column of a penalised intercept; b is that times its coefficient.
    penalty : Penalty
        R; a penalised intercept's coefficient enters it like any other.
    """

    loss: Loss
    intercept: Intercept = Intercept.NONE
    intercept_scaling: float = 1.0
    penalty: Penalty = Penalty()

    @property
    def bias_column(self) -> float:
        """Value of the intercept's column where it is not chosen freely; 0 without an intercept."""
        if self.intercept is Intercept.PENALISED:
            return self.intercept_scaling
        return 1.0 if self.intercept is Intercept.FREE else 0.0

    def n_outputs(self, labels_shape: tuple[int, ...]) -> int:
        """Return how many margins a row has: one for each row of the labels, or for each class."""
        if self.loss.is_joint:
            return self.loss.n_outputs
        return labels_shape[0] if len(labels_shape) == 2 else 1
