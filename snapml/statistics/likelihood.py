"""Losses, and likelihoods of models and of a constant."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import scipy.special

__all__ = [
    "log_likelihood",
    "logistic_slopes",
    "normal_log_likelihood",
    "null_margins",
    "squared_slopes",
]


def logistic_slopes(margins: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two derivatives of the loss by the margin."""
    shares = scipy.special.expit(margins)
    return shares - y, shares * scipy.special.expit(-margins)


def squared_slopes(margins: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return slope and curvature of half the square of each residual."""
    return margins - y, np.ones(len(y))


def log_likelihood(margins: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Return the log-likelihood of labels, 0 or 1, at log-odds."""
    return float(weights @ scipy.special.log_expit(np.where(y > 0.0, margins, -margins)))


def normal_log_likelihood(margins: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Return it for the variance that makes it largest."""
    n = float(weights.sum())
    with np.errstate(divide="ignore"):  # of a perfect fit
        return -0.5 * n * float(np.log(2.0 * np.pi / n * (weights @ (y - margins) ** 2)) + 1.0)


def null_margins(
    is_logistic: bool, has_intercept: bool, fixed: np.ndarray, y: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the margins of the best model of an intercept and the offset alone."""
    if not has_intercept:
        return fixed
    if not is_logistic:
        return fixed + float(weights @ y) / float(weights.sum())

    def slope(b: float) -> float:
        return float(weights @ (scipy.special.expit(b + fixed) - y))

    # The least and the largest offset bound what the intercept has to make up for.
    share = float(weights @ y) / float(weights.sum())
    middle = float(scipy.special.logit(share))
    ends = middle - float(fixed.max()) - 1.0, middle - float(fixed.min()) + 1.0
    return fixed + float(scipy.optimize.brentq(slope, *ends, xtol=1e-12))
