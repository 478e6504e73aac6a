"""Sums of products without rounding, for numbers that nearly cancel each other."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

__all__ = ["sum_with_products"]

_SPLIT = 2.0**27 + 1.0  # parts a float64 into halves whose products are exact


def sum_with_products(terms: Iterable[float], first: np.ndarray, second: np.ndarray) -> float:
    """Return ``sum(terms) + first @ second``, rounded once.

    Parameters
    ----------
    terms : iterable of float
        Any.
    first, second : ndarray of shape (n,), float64
        Their products are split into a float64 and its rounding error (Dekker, 1971); what
        overflows on the way is NaN.

    Returns
    -------
    float
        The sum.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        product = first * second
        high, other = _high(first), _high(second)
        low, rest = first - high, second - other
        error = ((high * other - product) + high * rest + low * other) + low * rest
    if not (np.isfinite(product).all() and np.isfinite(error).all()):
        return math.nan
    return math.fsum([*terms, *product.tolist(), *error.tolist()])


def _high(values: np.ndarray) -> np.ndarray:
    scaled = _SPLIT * values
    return np.asarray(scaled - (scaled - values))
