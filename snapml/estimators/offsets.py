"""Offsets: numbers that rows bring along and that are added to their margins, as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from snapml.data import Matrix
from snapml.estimators.placement import Place
from snapml.kernels import ResidentMatrix
from snapml.solvers.fit_settings import Start

__all__ = [
    "WithOffset",
    "added_offset",
    "check_index",
    "check_offset",
    "check_two_classes",
    "checked_offset",
    "offset_vector",
    "start_within_reach",
    "targets_without",
]

# Margins at which a curvature is e-20 of what it was, and far from rounding away.
_REACH = 20.0
_TAKING_OFFSETS = frozenset(
    {"predict", "decision_function", "predict_proba", "predict_log_proba", "score"}
)


class WithOffset:
    """A fitted model that knows the offsets of the rows it is about to be asked about.

    What a scorer gets, which passes rows only.

    Parameters
    ----------
    model : fitted estimator
        Its methods that take an offset get this one; all else is the model's own.
    offset : array-like of shape (n_rows,) or float
        Of the rows.
    """

    def __init__(self, model: Any, offset: Any) -> None:
        self._model, self._offset = model, offset

    def __getattr__(self, name: str) -> Any:
        """Return what the model has by this name."""
        if name in ("_model", "_offset"):  # of an empty copy
            raise AttributeError(name)
        found = getattr(self._model, name)
        if name not in _TAKING_OFFSETS:
            return found
        return update_wrapper(partial(found, offset=self._offset), found)  # scorers ask its name


def check_offset(offset: Any, matrix: Matrix, X: Any, n_classes: int = 2) -> np.ndarray | None:
    """Return the offsets of the rows that a model is fitted to.

    Parameters
    ----------
    offset : array-like of shape (n_rows,), of (n_rows, n_classes) for several, float or None
        The user's, on the host or where the matrix is.
    matrix : Matrix
        The rows they belong to.
    X : object
        The same, as the user gave them.
    n_classes : int, default=2
        Two have one margin.

    Returns
    -------
    ndarray of that shape, float64, or None
        None where there are none.

    Raises
    ------
    ValueError
        If the shape or the index is another, or a number is not finite.
    """
    if offset is None:
        return None
    check_index(offset, X)
    if isinstance(matrix, ResidentMatrix):
        offset = matrix.host_vector("offset", offset)
    return offset_vector(offset, matrix.shape[0], n_classes)


def targets_without(y: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
    """Return what is left of targets for the columns to explain.

    With ``(z + o - y)^2 / 2`` of the squared loss, an offset of the margin is one of the target.

    Parameters
    ----------
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    offset : ndarray of shape (n_rows,) or None
        Of each row, the same for all targets.

    Returns
    -------
    ndarray
        Of the same shape.
    """
    if offset is None:
        return y
    return y - (offset if y.ndim == 1 else offset[:, None])


def start_within_reach(
    start: Start | None,
    offset: np.ndarray,
    n_features: int,
    exchange: Callable[[Any], list[Any]],
) -> Start | None:
    """Return a start from which a solver sees the loss bend.

    Where most offsets are far from 0, so are the margins of a model of zeros, and every curvature
    there rounds to nothing. An intercept that is free makes up for their median.

    Parameters
    ----------
    start : Start or None
        Where the last fit ended; None for zeros.
    offset : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Of each row.
    n_features : int
        Columns of X.
    exchange : callable
        Tells all shards some numbers of each: `Communicator.exchange`.

    Returns
    -------
    Start or None
        With another intercept where the present one leaves half of the rows out of reach.
    """
    # All shards begin alike: near the middle of their own middles.
    columns = offset if offset.ndim == 2 else offset[:, None]
    middles = exchange(np.median(columns, axis=0) if len(offset) else None)
    middle = np.median([own for own in middles if own is not None], axis=0)
    shape = columns.shape[1], n_features + 1
    coef = np.zeros(shape) if start is None or start.coef is None else start.coef
    if (np.abs(middle + coef[:, -1]) <= _REACH).all():
        return start
    coef = coef.copy()
    coef[:, -1] = -middle
    return Start(coef=coef, offset=-float(middle[0]) if len(middle) == 1 else 0.0)


def added_offset(model: Any, place: Place, margins: Any, offset: Any, X: Any) -> Any:
    """Return margins with the offsets of their rows.

    Parameters
    ----------
    model : fitted estimator
        Says whether it was fitted with an offset.
    place : Place
        Where the margins are; called inside ``with place.use():``.
    margins : array of shape (n_rows, n_outputs)
        Without offsets.
    offset : array-like of shape (n_rows,), of (n_rows, n_classes) for several, float or None
        The user's.
    X : object
        The rows, as the user gave them.

    Returns
    -------
    array of shape (n_rows, n_outputs)
        The sums.

    Raises
    ------
    ValueError
        If the model was fitted with an offset and gets none, or the offset is not as described.
    """
    check_index(offset, X)
    if place.matrix is not None:
        offset = place.matrix.host_vector("offset", offset)
    values = checked_offset(model, offset, len(margins))
    if values is None:
        return margins
    values = values if values.ndim == 2 else values[:, None]
    return margins + (values if place.matrix is None else place.matrix.device.to_device(values))


def checked_offset(model: Any, offset: Any, n_rows: int) -> np.ndarray | None:
    """Return the offsets of rows that a fitted model is asked about.

    Parameters
    ----------
    model : fitted estimator
        Says whether it was fitted with an offset.
    offset : array-like of shape (n_rows,), of (n_rows, n_classes) for several, float or None
        The user's, on the host.
    n_rows : int
        How many there are.

    Returns
    -------
    ndarray of that shape, float64, or None
        None where there are none.

    Raises
    ------
    ValueError
        As `added_offset`.
    """
    if offset is not None:
        classes = getattr(model, "classes_", ())
        return offset_vector(offset, n_rows, len(classes))
    if getattr(model, "has_offset_", False):
        raise ValueError(
            f"offset: expected that of each row, since this {type(model).__name__} was fitted "
            "with one; offset=0 leaves it out"
        )
    return None


def check_two_classes(classes: np.ndarray | None) -> None:
    """Refuse an offset beside more than two classes: one number a row would shift all of them.

    Parameters
    ----------
    classes : ndarray or None
        Of a classifier.

    Raises
    ------
    ValueError
        If there are more than two.
    """
    if classes is not None and len(classes) > 2:
        raise ValueError(
            f"offset: expected two classes, whose log-odds it is added to, got {len(classes)}"
        )


def check_index(offset: Any, X: Any) -> None:
    """Refuse an offset whose index is not that of the rows: neither order can be meant for sure.

    Parameters
    ----------
    offset : object
        The user's.
    X : object
        The rows, as the user gave them.

    Raises
    ------
    ValueError
        If both have an index, as of pandas, and these differ.
    """
    both = (X, offset)
    if not all(hasattr(one, "iloc") and hasattr(one, "index") for one in both):
        return
    if not X.index.equals(offset.index):
        raise ValueError(
            "offset: expected the index of X in the same order, got another; offset.loc[X.index] "
            "goes by labels, offset.to_numpy() by position"
        )


def offset_vector(offset: Any, n_rows: int, n_classes: int = 2) -> np.ndarray:
    """Return the offsets of some rows, checked.

    Parameters
    ----------
    offset : array-like of shape (n_rows,), of (n_rows, n_classes) for several, or float
        The user's, on the host.
    n_rows : int
        How many there are.
    n_classes : int, default=2
        Up to two have one margin.

    Returns
    -------
    ndarray of that shape, float64
        A number alone is that of every row.

    Raises
    ------
    ValueError
        If the shape is another, or a number is not finite.
    """
    try:
        values = np.asarray(offset)
        if values.dtype.kind not in "fiubO":  # dates and texts, too, convert to numbers
            raise TypeError(values.dtype)
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"offset: expected numbers, got {offset!r}") from error
    shape = (n_rows,) if n_classes <= 2 else (n_rows, n_classes)
    if values.ndim == 0:
        values = np.full(shape, float(values))
    if values.shape != shape:
        each = "" if n_classes <= 2 else " (a number for each row and class)"
        raise ValueError(f"offset: expected shape {shape}{each}, got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("offset: expected finite numbers, got NaN or infinity")
    return values
