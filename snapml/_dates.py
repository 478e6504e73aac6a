"""Dates and durations, which are numbers to NumPy alone: a missing one would be -2^63."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

__all__ = ["refuse_dates"]

_KINDS = (nw.Datetime, nw.Date, nw.Duration, nw.Time)


def refuse_dates(values: Any, name: str) -> None:
    """Refuse dates, times and durations, with the column that has them.

    Parameters
    ----------
    values : array, frame, series or anything else
        As the user has passed it.
    name : str
        'X' or 'y', for the message.

    Raises
    ------
    TypeError
        If there are any.
    """
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "mM":
            raise TypeError(_message(name, str(values.dtype)))
        return
    native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        for column, dtype in native.schema.items():
            if isinstance(dtype, _KINDS):
                raise TypeError(_message(f"{name}, column {column!r}", str(dtype)))
    elif isinstance(native, nw.Series):
        if isinstance(native.dtype, _KINDS):
            raise TypeError(_message(name, str(native.dtype)))
    elif getattr(getattr(values, "dtype", None), "kind", "") in ("m", "M"):
        raise TypeError(_message(name, str(values.dtype)))


def _message(where: str, dtype: str) -> str:
    return (
        f"{where}: expected numbers, got {dtype}: make numbers of dates and durations first, such "
        f"as days since a date, and decide what a missing one shall be"
    )
