"""Which rows of an epoch deserve more visits: those that hold most of the gap.

Where a few rows share rare columns of large values, coordinate steps on them undo each other, and
their part of the gap falls slowly while that of the others is long gone. Probabilities that follow
the rows' gaps do the same in the mean (Csiba, Qu and Richtarik, Stochastic dual coordinate ascent
with adaptive probabilities, ICML 2015); passes over the few rows also save the reads of the others.
"""

from __future__ import annotations

import numpy as np

__all__ = ["FIRST_FOCUSED", "FOCUSED_PASSES", "LAST_FOCUSED", "find_focus"]

FOCUSED_PASSES = 4
"""Passes over the few rows after an epoch."""
FIRST_FOCUSED, LAST_FOCUSED = 2, 200
"""The gaps of the first epochs tell little about later ones; what has not helped by the last will
not."""

# Rows that hold this share of the gap are worth them if they are at most this share of the rows.
_GAP_SHARE, _MOST_ROWS = 0.97, 0.3
# One row of so many, no power of two, shows whether it is worth the count of all.
_SAMPLED = 17
# So few rows are sorted in less time than counted.
_SORTED_ROWS = 4096
# Rows at a time: few enough that their keys stay in the cache.
_BLOCK_ROWS = 65_536
# Of float32 and float64: two bits of the mantissa stay.
_SHIFTS = {4: 21, 8: 50}


def find_focus(row_gaps: np.ndarray) -> np.ndarray | None:
    """Return the rows that hold most of the gap, where they are few.

    Parameters
    ----------
    row_gaps : ndarray of shape (n_rows,)
        The rows' gaps as each was last visited; finite.

    Returns
    -------
    ndarray of shape (n_focused,), int64, or None
        Ascending; None where the gap is spread over many rows.
    """
    if len(row_gaps) <= _SORTED_ROWS:
        least = _sorted_threshold(row_gaps)
    else:
        sample = row_gaps[::_SAMPLED]
        # A sample that has missed the largest gaps says nothing.
        held, in_sample = (float(part.sum(dtype=np.float64)) for part in (row_gaps, sample))
        if 2 * _SAMPLED * in_sample >= held and _threshold(sample) is None:
            return None
        least = _threshold(row_gaps)
    return None if least is None else np.flatnonzero(row_gaps >= least)


def _sorted_threshold(row_gaps: np.ndarray) -> float | None:
    """Return what `_threshold` does, to the last bit of the gaps."""
    falling = np.sort(np.maximum(row_gaps, 0))[::-1]
    held = np.cumsum(falling, dtype=np.float64)
    if len(held) == 0 or not held[-1] > 0.0:
        return None
    least = falling[int(np.searchsorted(held, _GAP_SHARE * held[-1]))]
    n_rows = np.count_nonzero(falling >= least)
    return float(least) if n_rows <= _MOST_ROWS * len(falling) else None


def _threshold(row_gaps: np.ndarray) -> float | None:
    """Return the least gap of the few rows that hold most of it, or None.

    Rows are counted by the exponent and the first bits of the mantissa of their gaps: what is
    positive is ordered as its bits are.
    """
    bits = np.dtype(f"i{row_gaps.itemsize}")
    shift = _SHIFTS[row_gaps.itemsize]
    n_keys = int(np.iinfo(bits).max >> shift) + 1
    sums, counts = np.zeros(n_keys), np.zeros(n_keys, dtype=np.int64)
    for begin in range(0, len(row_gaps), _BLOCK_ROWS):
        part = np.maximum(row_gaps[begin : begin + _BLOCK_ROWS], 0)
        keys = part.view(bits) >> shift
        sums += np.bincount(keys, weights=part, minlength=n_keys)
        counts += np.bincount(keys, minlength=n_keys)
    held = np.cumsum(sums[::-1])
    enough = int(np.searchsorted(held, _GAP_SHARE * held[-1]))
    n_rows = int(counts[::-1][: enough + 1].sum())
    if held[-1] <= 0.0 or n_rows > _MOST_ROWS * len(row_gaps):
        return None
    least = np.array(n_keys - 1 - enough, dtype=bits) << shift
    return float(least.view(row_gaps.dtype))
