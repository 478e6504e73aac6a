"""Monotonic constraints, checked as scikit-learn checks them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["SEVERAL_OUTPUTS", "checked_signs"]

SEVERAL_OUTPUTS = "Monotonicity constraints are not supported with multiple outputs."


def checked_signs(
    monotonic_cst: Any, n_features: int, n_classes: int, is_categorical: np.ndarray | None
) -> np.ndarray | None:
    """Return how each column's splits may change values from the left side to the right one.

    Parameters
    ----------
    monotonic_cst : array-like of int of shape (n_features,) or None
        1: predictions rise with the column, -1: they fall, 0: any; of the second of two classes.
    n_features : int
        Columns.
    n_classes : int
        1 for numbers.
    is_categorical : ndarray of shape (n_features,), bool, or None
        Which columns hold categories; None if no one does.

    Returns
    -------
    ndarray of shape (n_features,), int32, or None
        1, -1 or 0; of the first of two classes. None without constraints.

    Raises
    ------
    ValueError
        If there is not a 1, -1 or 0 for each column, or more than two classes, or a column of
        categories has a constraint.
    """
    if monotonic_cst is None:
        return None
    signs = np.asarray(monotonic_cst)
    if signs.shape != (n_features,):
        raise ValueError(
            f"monotonic_cst has shape {', '.join(map(str, signs.shape))} but the input data X has "
            f"{n_features} features."
        )
    if not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(
            f"monotonic_cst must be None or an array-like of -1, 0 or 1, but got {np.unique(signs)}"
        )
    if n_classes > 2:
        raise ValueError(
            "Monotonicity constraints are not supported with multiclass classification"
        )
    if is_categorical is not None and signs[is_categorical].any():
        raise ValueError("Categorical features cannot have monotonic constraints.")
    signs = signs.astype(np.int32)
    return -signs if n_classes == 2 else signs
