"""Rows and targets that scikit-learn's checks would pass as they are: those need not be asked.

They look for data frames of every library, which takes longer than a fit of a few hundred rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

__all__ = ["are_plain_rows", "are_plain_targets", "set_columns"]

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
_INDICES = (np.dtype(np.int32), np.dtype(np.int64))


def are_plain_rows(X: Any) -> bool:
    """Return whether X is an array or a CSR matrix of float32 or float64 numbers, and not empty.

    Parameters
    ----------
    X : object
        What the user has passed.

    Returns
    -------
    bool
        False where a conversion, an error or a warning may be due.
    """
    if type(X) is np.ndarray:
        return X.ndim == 2 and X.dtype in _FLOATS and 0 not in X.shape
    if not issparse(X) or X.format != "csr" or X.ndim != 2 or 0 in X.shape:
        return False
    indices = X.indices.dtype
    return X.data.dtype in _FLOATS and indices in _INDICES and X.indptr.dtype == indices


def are_plain_targets(y: Any, n_rows: int) -> bool:
    """Return whether y is an array of one number a row.

    Parameters
    ----------
    y : object
        What the user has passed.
    n_rows : int
        Rows of X.

    Returns
    -------
    bool
        False where a conversion, an error or a warning may be due.
    """
    return type(y) is np.ndarray and y.shape == (n_rows,) and y.dtype.kind in "biuf"


def set_columns(estimator: Any, n_features: int, *, reset: bool) -> bool:
    """Keep the number of columns without names; or compare it with that of the fit.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_``, and loses ``feature_names_in_``, where it is reset.
    n_features : int
        Columns of X.
    reset : bool
        Whether X is what the estimator is fitted on.

    Returns
    -------
    bool
        False where an error or a warning is due.
    """
    if reset:
        estimator.n_features_in_ = n_features
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return True
    is_named = hasattr(estimator, "feature_names_in_")
    return not is_named and getattr(estimator, "n_features_in_", None) == n_features
