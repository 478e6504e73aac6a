"""Dense rows whose numbers are mostly zeros, as compressed ones."""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.data.compressed import CheckedMatrix, CompressedMatrix

__all__ = ["common_numbers", "share_of_numbers", "sparse_form"]

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
    sample = _sampled(values)
    return float(np.count_nonzero(sample)) / sample.size


def common_numbers(values: np.ndarray, most: float) -> np.ndarray | None:
    """Return the number that most of a column's are, of each column that has one.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features), float32 or float64
        The rows.
    most : float
        Share of numbers that may be others.

    Returns
    -------
    ndarray of shape (n_features,) or None
        0 where a column has none. None where others seem to be more, from a sample of rows.
    """
    if not 0 < values.size <= _MOST_SIZE or len(values) < _SAMPLE_ROWS:
        return None
    sample = _sampled(values)
    if np.count_nonzero(sample[1:] == sample[:-1]) < (1.0 - 2.0 * most) * sample[1:].size:
        return None  # two rows in a row are alike but for twice that share
    middle = np.sort(sample, axis=0)[len(sample) // 2]
    is_common = np.count_nonzero(sample == middle, axis=0) > 0.5 * len(sample)
    common = np.where(is_common, middle, 0.0).astype(values.dtype)
    return common if np.count_nonzero(sample != common) <= most * sample.size else None


def _sampled(values: np.ndarray) -> np.ndarray:
    return values[:: max(1, len(values) // _SAMPLE_ROWS)]


def sparse_form(
    values: np.ndarray, most: float, common: np.ndarray | None = None
) -> CompressedMatrix | None:
    """Return the entries of dense rows, where these are few.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features), float32 or float64
        The rows.
    most : float
        Share of numbers that are not zero.
    common : ndarray of shape (n_features,), the rows' dtype, default=None
        A number for each column that is subtracted first.

    Returns
    -------
    CompressedMatrix or None
        A copy, which takes one and a half times the bytes of its numbers, or twice in float32. None
        where there are more than that share.
    """
    found = _native.sparse_form(values, common, int(most * values.size))
    if found is None:
        return None
    indptr, indices, entries = found
    return CheckedMatrix(indptr, indices, values.shape[1], entries)
