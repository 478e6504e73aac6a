"""Links: which function of a mean is linear, its inverse, and the slope of that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special

__all__ = ["margin_of", "means_of", "rates_of"]

_CERTAIN = 5.0


def means_of(link: str, margins: Any, xp: Any = np, special: Any = scipy.special) -> Any:
    """Return the expectations of targets, by the inverse of a link.

    Parameters
    ----------
    link : {'identity', 'log', 'logit', 'probit', 'cloglog'}
        The function of means that margins are.
    margins : array of shape (n_rows,)
        Of rows.
    xp, special : module, default=numpy, scipy.special
        Those of the array.

    Returns
    -------
    array of shape (n_rows,)
        The margins themselves with the identity link.
    """
    if link == "log":
        return xp.exp(margins)
    if link == "logit":
        return special.expit(margins)
    if link == "probit":
        return special.ndtr(margins)
    if link == "cloglog":  # 1 to rounding from a margin of 4 on
        return -xp.expm1(-xp.exp(xp.minimum(margins, _CERTAIN)))
    return margins


def rates_of(link: str, means: np.ndarray) -> np.ndarray:
    """Return the derivatives of means by margins.

    Parameters
    ----------
    link : str
        As for `means_of`.
    means : ndarray of shape (n_rows,), float64
        Of the rows.

    Returns
    -------
    ndarray of shape (n_rows,)
        Not negative.
    """
    if link == "log":
        return means
    if link == "logit":
        return means * (1.0 - means)
    if link == "probit":
        return np.exp(-0.5 * scipy.special.ndtri(means) ** 2) / math.sqrt(2.0 * math.pi)
    if link == "cloglog":
        rates: np.ndarray = -scipy.special.xlog1py(1.0 - means, -means)
        return rates
    return np.ones_like(means)


def margin_of(link: str, mean: float) -> float:
    """Return the margin of a mean.

    Parameters
    ----------
    link : str
        As for `means_of`.
    mean : float
        Where the link is finite.

    Returns
    -------
    float
        What `means_of` leads back from.
    """
    if link == "log":
        return math.log(mean)
    if link == "logit":
        return math.log(mean) - math.log1p(-mean)
    if link == "probit":
        return float(scipy.special.ndtri(mean))
    return math.log(-math.log1p(-mean)) if link == "cloglog" else float(mean)
