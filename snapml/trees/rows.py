"""What is asked of rows before they are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from snapml._validation import check_compressed, check_sparse

__all__ = ["check_stored", "infinity_in", "is_large", "is_sparse", "shape_of"]

# More than these rows, or entries, are not sorted unless splitter="best" asks for it.
_MOST_SORTED_ROWS, _MOST_SORTED_ENTRIES = 10_000, 2**24


def check_stored(X: Any) -> None:
    """Refuse sparse rows that SciPy or scikit-learn would leave their arrays for.

    Parameters
    ----------
    X : array-like or sparse matrix
        Rows.

    Raises
    ------
    ValueError
        If X is sparse, and its arrays do not fit each other.
    """
    if not issparse(X):
        return
    check_sparse(X)
    if X.format == "csr":  # which SciPy turns into columns
        check_compressed(X)


def is_sparse(X: Any) -> bool:
    """Return whether scikit-learn's checks make sparse rows of X.

    Parameters
    ----------
    X : array-like or sparse matrix
        Rows.

    Returns
    -------
    bool
        True for sparse matrices, and for pandas frames all of whose columns are sparse.
    """
    return bool(issparse(X)) or (hasattr(X, "columns") and hasattr(X, "sparse"))


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of what may be a list.

    Parameters
    ----------
    array : array-like
        Rows or targets.

    Returns
    -------
    tuple of int
        Its shape.
    """
    return array.shape if hasattr(array, "shape") else np.asarray(array).shape


def is_large(X: Any) -> bool:
    """Return whether rows are too many to be sorted unless that is asked for.

    Parameters
    ----------
    X : array-like or sparse matrix
        Rows.

    Returns
    -------
    bool
        True above 10,000 rows or 2^24 entries.
    """
    shape = shape_of(X)
    return bool(shape) and (shape[0] > _MOST_SORTED_ROWS or math.prod(shape) > _MOST_SORTED_ENTRIES)


def infinity_in(X: Any) -> np.ndarray:
    """Return an infinity of X in float32.

    Parameters
    ----------
    X : ndarray or sparse matrix
        Rows that hold one.

    Returns
    -------
    ndarray of shape (1, 1), float32
        The first one that is stored.
    """
    X = X.data[:, None] if issparse(X) else X
    for begin in range(0, len(X), 65536):
        with np.errstate(over="ignore"):
            part = X[begin : begin + 65536].astype(np.float32)
        bad = np.isinf(part)
        if bad.any():
            return part[bad][:1].reshape(1, 1)
    return np.array([[np.inf]], np.float32)  # of entries that are stored twice
