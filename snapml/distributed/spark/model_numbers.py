"""What a model is made of, and what it says about rows: plain arrays, no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from snapml.estimators.deviance.links import means_of

__all__ = ["LinearScores", "ModelNumbers", "decided"]


@dataclass(frozen=True)
class ModelNumbers:
    """A fitted model, and how it was fitted.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_features), float64
        One row for two classes and for regression; else one a class.
    intercept : ndarray of shape (n_outputs,), float64
        Zeros where none was fitted.
    n_classes : int
        0 for regression.
    reg_param, elastic_net_param : float
        The penalty.
    weight_sum : float
        Of the rows; times `reg_param`, what the penalty is beside sums over rows.
    objective, gap : float
        Mean loss plus penalty, and the certified bound of its distance from the least.
    n_iter : int
        Reads of the data.
    solver : str
        What was run, and why.
    link : str
        The function of predictions that margins are, of regression: as for `means_of`.
    mean_curvature : float
        `FitOutcome.mean_curvature`.
    """

    coef: np.ndarray
    intercept: np.ndarray
    n_classes: int
    reg_param: float
    elastic_net_param: float
    weight_sum: float
    objective: float
    gap: float
    n_iter: int
    solver: str
    link: str = "identity"
    mean_curvature: float = 1.0

    def scores(self) -> LinearScores:
        """Return what is needed of the model to score rows."""
        return LinearScores(self.coef, self.intercept, self.n_classes, self.link)


@dataclass(frozen=True)
class LinearScores:
    """Scores of rows, in the layout of Spark's columns.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_features)
        Coefficients.
    intercept : ndarray of shape (n_outputs,)
        Intercepts.
    n_classes : int
        0 for regression.
    link : str
        The function of predictions that margins are, of regression: as for `means_of`.
    """

    coef: np.ndarray
    intercept: np.ndarray
    n_classes: int
    link: str = "identity"

    def raw(self, X: Any) -> np.ndarray:
        """Return margins: one a class, those of two classes with opposite signs.

        Parameters
        ----------
        X : ndarray or csr_matrix of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, max(1, n_classes))
            Predictions themselves for regression with the identity link.
        """
        margins = np.asarray(X @ self.coef.T) + self.intercept
        if self.n_classes == 2 and len(self.coef) == 1:
            return np.hstack([-margins, margins])
        return margins

    def mean(self, margins: np.ndarray) -> np.ndarray:
        """Return the predictions of regression.

        Parameters
        ----------
        margins : ndarray of shape (n_rows,)
            From `raw`, and what offsets add.

        Returns
        -------
        ndarray of shape (n_rows,)
            By the inverse of the link.
        """
        found: np.ndarray = means_of(self.link, margins)
        return found

    def probability(self, raw: np.ndarray) -> np.ndarray:
        """Return the probability of each class from the margins of logistic regression.

        Parameters
        ----------
        raw : ndarray of shape (n_rows, n_classes)
            From `raw`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Rows that add up to 1.
        """
        return expit(raw) if len(self.coef) == 1 else softmax(raw, axis=1)


def decided(
    scores: np.ndarray, threshold: float | None, thresholds: list[float] | None
) -> np.ndarray:
    """Return the class of each row by Spark's rules.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        Probabilities, or margins without any.
    threshold : float or None
        Of two classes: what the score of class 1 must exceed.
    thresholds : list of float or None
        One a class, by which its score is divided before the largest wins.

    Returns
    -------
    ndarray of shape (n_rows,), float64
        Numbers of classes.
    """
    if threshold is not None:
        return (scores[:, 1] > threshold).astype(np.float64)
    if thresholds is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = scores / np.asarray(thresholds)
        # A class whose threshold is zero wins unless its probability is zero too.
        scores = np.where(np.isnan(scores), -np.inf, scores)
    return np.argmax(scores, axis=1).astype(np.float64)
