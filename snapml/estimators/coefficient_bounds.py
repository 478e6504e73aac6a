"""Bounds that the user gives for coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.problems import Bounds, Penalty

__all__ = ["bounded", "check_bounds"]


def check_bounds(
    bounds: Any, n_features: int, dtype: np.dtype, names: np.ndarray | None = None
) -> Bounds | None:
    """Return bounds on coefficients, rounded inwards to what the coefficients' type can hold.

    Parameters
    ----------
    bounds : tuple of (lower, upper) or None
        Each a number or an array-like of shape (n_features,); 0 is between them.
    n_features : int
        Number of columns.
    dtype : dtype
        Of the coefficients.
    names : ndarray of shape (n_features,), default=None
        Of the columns; a Series of these names goes by name.

    Returns
    -------
    Bounds or None
        None where there are none.

    Raises
    ------
    ValueError
        If they are something else.
    """
    if bounds is None:
        return None
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError(f"bounds: expected a pair (lower, upper), got {bounds!r}")
    lower, upper = (
        _side(side, _by_name(side, given, names), n_features)
        for side, given in zip(("lower", "upper"), bounds, strict=True)
    )
    wrong = np.flatnonzero(~((lower <= 0.0) & (upper >= 0.0)))
    if len(wrong):
        k = int(wrong[0])
        raise ValueError(
            "bounds: expected lower <= 0 <= upper for every column, got "
            f"({lower[k]:g}, {upper[k]:g}) for column {k}"
        )
    lower, upper = -_towards_zero(-lower, dtype), _towards_zero(upper, dtype)
    return Bounds(lower, upper) if np.isfinite([lower, upper]).any() else None


def bounded(penalty: Penalty, bounds: Bounds | None, *, n_more: int = 0) -> Penalty:
    """Return a penalty within bounds.

    Parameters
    ----------
    penalty : Penalty
        R; where it is positive, so are the coefficients within bounds.
    bounds : Bounds or None
        Of the columns of X.
    n_more : int, default=0
        Columns behind these, which are not bounded.

    Returns
    -------
    Penalty
        With both.

    Raises
    ------
    ValueError
        If there is no penalty, and a column without a bound: no gap could then be certified.
    """
    if bounds is None:
        return penalty
    lower = np.maximum(bounds.lower, 0.0) if penalty.is_positive else bounds.lower
    if penalty.l1 == penalty.l2 == 0.0 and not np.isfinite([lower, bounds.upper]).all():
        raise ValueError(
            "bounds: expected a penalty (a finite C, alpha > 0), or two finite bounds of every "
            "column: without either no duality gap can be certified"
        )
    open_end = np.full(n_more, np.inf)
    own = Bounds(np.append(lower, -open_end), np.append(bounds.upper, open_end))
    return Penalty(penalty.l1, penalty.l2, bounds=own)


def _by_name(side: str, given: Any, names: np.ndarray | None) -> Any:
    """Return the entries of a Series with texts for its index in the order of the columns."""
    index = getattr(given, "index", None)
    if names is None or index is None or callable(index):
        return given
    labels = list(index)
    if not all(isinstance(label, str) for label in labels):
        return given
    if sorted(labels) != sorted(names):
        raise ValueError(
            f"bounds: expected one entry for each column of X by its name for {side}, got {labels}"
        )
    return given.loc[list(names)]


def _side(side: str, given: Any, n_features: int) -> np.ndarray:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"bounds: expected numbers for {side}, got {given!r}") from error
    if values.ndim == 0:
        values = np.full(n_features, float(values))
    if values.shape != (n_features,):
        raise ValueError(
            f"bounds: expected a number or shape ({n_features},) for {side}, got {values.shape}"
        )
    return values


def _towards_zero(ends: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the largest numbers of a type that are at most these, which are at least 0."""
    with np.errstate(over="ignore"):
        rounded = ends.astype(dtype)
    is_above = rounded.astype(np.float64) > ends
    rounded[is_above] = np.nextafter(rounded[is_above], dtype.type(0))
    return rounded.astype(np.float64) + 0.0
