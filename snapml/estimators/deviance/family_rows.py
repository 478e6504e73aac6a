"""Rows as a family's loss takes them, and its models as users know them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from snapml.data import Dataset
from snapml.estimators.deviance.families import Exchange, Family
from snapml.problems import Intercept, Penalty, Problem
from snapml.solvers.fit_settings import Start
from snapml.solvers.result import FitResult

__all__ = ["FamilyRows"]


@dataclass(frozen=True)
class FamilyRows:
    """Labels and offsets of the loss that is half the deviance of a family's targets.

    Margins of the loss are `family.sign` times what the model adds to `level`. Zero coefficients
    are then the model without columns, from which steps are short.

    Attributes
    ----------
    family : Family
        Of the targets.
    dataset : Dataset
        With the loss's labels, and offsets of its margins.
    level : float
        The intercept of the model without columns; 0 without an intercept.
    has_intercept : bool
        Whether there is one.
    """

    family: Family
    dataset: Dataset
    level: float
    has_intercept: bool

    @classmethod
    def of(
        cls,
        family: Family,
        dataset: Dataset,
        y: np.ndarray,
        offsets: np.ndarray,
        exchange: Exchange,
        *,
        has_intercept: bool,
    ) -> FamilyRows:
        """Return the rows of targets.

        Parameters
        ----------
        family : Family
            Of the targets, which it has checked.
        dataset : Dataset
            Rows and weights.
        y, offsets : ndarray of shape (n_rows,), float64
            Targets, and offsets of the model's margins.
        exchange : callable
            Returns what each shard has laid down.
        has_intercept : bool
            Whether there is a free one.

        Returns
        -------
        FamilyRows
            For the family's loss.

        Raises
        ------
        ValueError
            If no intercept is best, because of which targets have a weight.
        """
        level = 0.0
        if has_intercept:
            level = family.level(y, dataset.wide_weights, offsets, exchange)
        labels, moved = family.rows(y, offsets + level)
        own = replace(dataset, labels=labels.astype(dataset.matrix.dtype), offsets=moved)
        return cls(family, own, level, has_intercept)

    def problem(self, penalty: Penalty) -> Problem:
        """Return what is minimised.

        Parameters
        ----------
        penalty : Penalty
            On the coefficients.

        Returns
        -------
        Problem
            Of the family's loss.
        """
        intercept = Intercept.FREE if self.has_intercept else Intercept.NONE
        return Problem(self.family.loss, intercept, 1.0, penalty)

    def start(self, point: np.ndarray | None) -> Start | None:
        """Return where to begin.

        Parameters
        ----------
        point : ndarray of shape (1, n_features + 1) or None
            Coefficients and intercept as users know them.

        Returns
        -------
        Start or None
            None without a point.
        """
        if point is None:
            return None
        own = self.family.sign * point
        own[0, -1] -= self.family.sign * self.level
        return Start(coef=own)

    def model(self, result: FitResult) -> tuple[np.ndarray, float]:
        """Return coefficients and intercept as users know them.

        Parameters
        ----------
        result : FitResult
            Of `problem`, on `dataset`.

        Returns
        -------
        coef : ndarray of shape (n_features,)
            w.
        intercept : float
            b.
        """
        sign: Any = self.family.sign
        coef = (sign * result.coef + 0.0).astype(self.dataset.matrix.dtype)  # no -0
        return coef, float(self.level + sign * result.intercept)
