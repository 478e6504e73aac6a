"""Dense rows whose numbers are mostly zeros, as compressed ones."""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.data.compressed import CheckedMatrix, CompressedMatrix

__all__ = ["share_of_numbers", "sparse_form"]

# Entries that the extension can number, and rows that show how many there are.
_MOST_SIZE, _SAMPLE_ROWS = 1 << 30, 256


def share_of_numbers(values: np.ndarray) -> float:
    """Return about what share of some rows is not zero.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features), float32 or float64
        The rows.

    Returns
    -------
    float
        That of some of them; 1 of none and of more than can be compressed.
    """
    if not 0 < values.size <= _MOST_SIZE:
        return 1.0
    sample = values[:: max(1, len(values) // _SAMPLE_ROWS)]
    return float(np.count_nonzero(sample)) / sample.size


def sparse_form(values: np.ndarray, most: float) -> CompressedMatrix | None:
    """Return the entries of dense rows, where these are few.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features), float32 or float64
        The rows.
    most : float
        Share of numbers that are not zero.

    Returns
    -------
    CompressedMatrix or None
        A copy, which takes one and a half times the bytes of its numbers, or twice in float32. None
        where there are more than that share.
    """
    found = _native.sparse_form(values, int(most * values.size))
    if found is None:
        return None
    indptr, indices, entries = found
    return CheckedMatrix(indptr, indices, values.shape[1], entries)
