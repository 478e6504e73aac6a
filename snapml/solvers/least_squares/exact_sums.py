"""Sums of products in twice the precision, for numbers that nearly cancel each other."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

__all__ = ["sum_with_products"]

_FEW = 256  # numbers, which Python adds up without rounding
_SPLIT = 2.0**27 + 1.0  # parts a float64 into halves whose products are exact


def sum_with_products(terms: Iterable[float], first: np.ndarray, second: np.ndarray) -> float:
    """Return ``sum(terms) + first @ second``, rounded once as if twice as many digits were carried.

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
    if len(first) > _FEW:
        counts = (first != 0.0) & (second != 0.0)
        counts |= ~(np.isfinite(first) & np.isfinite(second))
        first, second = first[counts], second[counts]
    with np.errstate(over="ignore", invalid="ignore"):
        product = first * second
        high, other = _high(first), _high(second)
        low, rest = first - high, second - other
        error = ((high * other - product) + high * rest + low * other) + low * rest
    if not (np.isfinite(product).all() and np.isfinite(error).all()):
        return math.nan
    return math.fsum([*terms, *_parts_of_sum(product), *_parts_of_sum(error)])


def _parts_of_sum(values: np.ndarray) -> list[float]:
    """Return few numbers with the same sum, to twice the precision: halves are added to halves.

    What rounds off of a sum of two is known (Knuth, The Art of Computer Programming 2, 4.2.2).
    """
    lost = 0.0
    while len(values) > _FEW:
        half = len(values) // 2
        left, right, odd = values[:half], values[half : 2 * half], values[2 * half :]
        total = left + right
        part = total - left
        lost += float(np.sum((left - (total - part)) + (right - part)))
        values = np.append(total, odd)
    return [*values.tolist(), lost]


def _high(values: np.ndarray) -> np.ndarray:
    scaled = _SPLIT * values
    return np.asarray(scaled - (scaled - values))
