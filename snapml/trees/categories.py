"""Columns of categories: which they are, and their values as codes from 0."""

from __future__ import annotations

from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils import check_array

__all__ = ["MOST_CATEGORIES", "categorical_mask", "code_counts", "known_categories", "with_codes"]

MOST_CATEGORIES = 255
"""Of a column, beside missing values."""

# A float64 that two whole numbers become.
_FIRST_ROUNDED = 2.0**53


def categorical_mask(X: Any, asked: Any) -> np.ndarray | None:
    """Return which columns hold categories.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Rows; a frame of pandas, Polars or pyarrow for ``"from_dtype"`` and for names of columns.
    asked : "from_dtype", array-like of bool, int or str, or None
        Columns of dtype category, a mask, or numbers or names of columns.

    Returns
    -------
    ndarray of shape (n_features,), bool, or None
        None where no column does.

    Raises
    ------
    ValueError
        If `asked` does not describe columns of X.
    """
    if asked is None:
        return None
    if isinstance(asked, str):
        frame = _other_frame(X)
        if frame is not None:
            mask = np.array([dtype in (nw.Categorical, nw.Enum) for dtype in frame.schema.values()])
        else:
            is_category = [str(dtype) == "category" for dtype in X.dtypes] if _is_frame(X) else []
            mask = np.array(is_category)
        return mask if mask.any() else None
    chosen = np.asarray(asked)
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    if not chosen.size or len(shape) != 2:  # fits refuse other shapes
        return None
    n_features = shape[1]
    if chosen.dtype.kind not in "biuUO":
        raise ValueError(
            "categorical_features must be an array-like of bool, int or str, got: "
            f"{chosen.dtype.name}."
        )
    if chosen.dtype.kind == "b":
        if chosen.shape != (n_features,):
            raise ValueError(
                "categorical_features set as a boolean mask must have shape (n_features,), got: "
                f"{chosen.shape}"
            )
        return chosen if chosen.any() else None
    if chosen.dtype.kind in "UO":
        chosen = np.array([_place(X, name) for name in chosen.tolist()])
    if chosen.min() < 0 or chosen.max() >= n_features:
        raise ValueError(
            f"categorical_features set as integer indices must be in [0, n_features - 1], got "
            f"{chosen.min()} to {chosen.max()} for {n_features} features"
        )
    mask = np.zeros(n_features, bool)
    mask[chosen] = True
    return mask


def known_categories(X: Any, mask: np.ndarray, max_bins: int) -> list[np.ndarray | None]:
    """Return the different values of each column of categories.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Rows.
    mask : ndarray of shape (n_features,), bool
        Which columns hold categories.
    max_bins : int
        Most categories of a column.

    Returns
    -------
    list
        For each column sorted numbers as float64 or text, without missing values; None for
        columns of numbers.

    Raises
    ------
    ValueError
        If a column has more categories, or others than numbers and text, or whole numbers that
        float64 does not tell apart.
    """
    other = _other_frame(X)
    X = _as_given(X) if other is None else X
    most = min(max_bins, MOST_CATEGORIES)
    known: list[np.ndarray | None] = [None] * len(mask)
    for j in np.flatnonzero(mask):
        if other is not None:
            name: Any = other.columns[j]
            found = _different(_plain(other[name].drop_nulls().unique()), name)
        else:
            name = X.columns[j] if _is_frame(X) else int(j)
            found = _different(X.iloc[:, j].dropna() if _is_frame(X) else X[:, j], name)
        if len(found) > most:
            raise ValueError(
                f"Categorical feature {name!r} is expected to have a cardinality <= {most} but "
                f"actually has a cardinality of {len(found)}."
            )
        known[j] = found
    return known


def code_counts(known: list[np.ndarray | None]) -> np.ndarray:
    """Return how many categories each column has.

    Parameters
    ----------
    known : list
        As `known_categories` returns it.

    Returns
    -------
    ndarray of shape (n_features,), int32
        0 for columns of numbers.
    """
    return np.array([0 if values is None else len(values) for values in known], np.int32)


def with_codes(X: Any, known: list[np.ndarray | None]) -> Any:
    """Return rows with codes in the place of categories.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Rows.
    known : list
        As `known_categories` returns it.

    Returns
    -------
    frame or ndarray of shape (n_rows, n_features)
        A copy where arrays are, a frame of X's library where that is one; codes are positions in
        `known`, NaN for missing and unknown values.
    """
    other = _other_frame(X)
    if other is not None:
        return _with_codes_in(other, known)
    given = _as_given(X)
    X = given.copy(deep=False) if _is_frame(X) else given.astype(_float_type(given), order="K")
    for j, values in enumerate(known):
        if values is None:
            continue
        if _is_frame(X):
            X.isetitem(j, _codes(X.iloc[:, j], values))
        else:
            X[:, j] = _codes(given[:, j], values)
    return X


def _other_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a frame of another library than pandas, None for all else."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or frame.implementation.is_pandas():
        return None
    return frame


def _plain(column: nw.Series[Any]) -> np.ndarray:
    """Return a column as numbers, or as objects where it may hold text; None is missing."""
    if column.dtype.is_numeric() and not column.is_null().any():
        return np.asarray(column.to_numpy())
    values = column.to_list()
    plain = np.empty(len(values), object)
    plain[:] = values
    return plain


def _with_codes_in(frame: nw.DataFrame[Any], known: list[np.ndarray | None]) -> Any:
    """Return a frame with columns of codes in the place of those of categories."""
    coded = [
        nw.new_series(name, _positions(_plain(frame[name]), values), backend=frame.implementation)
        for name, values in zip(frame.columns, known, strict=True)
        if values is not None
    ]
    return frame.with_columns(*coded).to_native()


def _is_frame(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _as_given(X: Any) -> Any:
    """Return a frame, or an array of whole numbers or floats."""
    if _is_frame(X):
        return X
    X = X if hasattr(X, "dtype") else np.asarray(X)
    if isinstance(X, np.memmap):
        X = np.asarray(X)
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "iu":
        return X
    return check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False)


def _float_type(rows: np.ndarray) -> Any:
    return np.float32 if rows.dtype == np.float32 else np.float64


def _place(X: Any, name: Any) -> int:
    other = _other_frame(X)
    names = list(X.columns) if _is_frame(X) else [] if other is None else other.columns
    if name not in names:
        raise ValueError(
            f"categorical_features has a item value {name!r} which is not a valid feature name of "
            f"the training data. Observed feature names: {names}"
        )
    return names.index(name)


def _different(column: Any, name: Any) -> np.ndarray:
    if hasattr(column, "cat"):
        column = column.cat.categories[np.unique(column.cat.codes)]
    values = np.asarray(column)
    is_object = values.dtype.kind == "O"
    if is_object and all(isinstance(value, Real) for value in values.tolist()):
        values = values.astype(np.float64)
    if values.dtype.kind in "biuf":
        numbers = np.unique(values.astype(np.float64))
        if (is_object or values.dtype.kind in "iu") and (np.abs(numbers) >= _FIRST_ROUNDED).any():
            raise ValueError(
                f"Categorical feature {name!r}: expected whole numbers of which float64 rounds "
                "none, less than 2^53, got others; as text they are told apart"
            )
        return numbers[~np.isnan(numbers)]
    if not all(isinstance(value, str) for value in values.tolist()):
        raise ValueError(
            f"Categorical feature {name!r}: expected numbers or text, got {values.dtype} that "
            "holds others"
        )
    return np.array(sorted(set(values.tolist())), dtype=str)


def _codes(column: Any, known: np.ndarray) -> np.ndarray:
    if hasattr(column, "cat"):  # many rows, few categories; -1 is missing
        places = np.append(_positions(column.cat.categories, known), np.nan)
        return places[column.cat.codes.to_numpy()]
    return _positions(column, known)


def _positions(values: Any, known: np.ndarray) -> np.ndarray:
    if known.dtype.kind == "U" or not len(known):
        table = {text: float(i) for i, text in enumerate(known.tolist())}
        return np.array([table.get(value, np.nan) for value in np.asarray(values).tolist()], float)
    numbers = _as_numbers(values)
    places = np.searchsorted(known, numbers).clip(max=len(known) - 1)
    return np.where(known[places] == numbers, places, np.nan)


def _as_numbers(values: Any) -> np.ndarray:
    if values.dtype.kind in "biuf":
        numbers = np.array(values.astype("float64"))
        if values.dtype.kind in "iu":
            numbers[np.abs(numbers) >= _FIRST_ROUNDED] = np.nan  # never among the known
        return numbers
    # Text is no number, not even that of digits.
    given = np.asarray(values, object).tolist()
    return np.array([x if isinstance(x, Real) else np.nan for x in given], np.float64)
