"""Fitted models as one JSON text, which any program can read without knowing of arrays in files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from snapml.models.content import content_of, model_of, parsed
from snapml.models.values import is_plain

__all__ = ["from_json", "model_as_json"]

_SOURCE = "JSON"


def model_as_json(model: Any) -> str:
    """Return a fitted model as JSON, as the method ``to_json`` of estimators does.

    Parameters
    ----------
    model : fitted estimator
        Of a class that `snapml.load` knows.

    Returns
    -------
    str
        One JSON object.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Before fit.
    TypeError
        If a parameter is something that text and arrays do not describe.
    ValueError
        If an attribute was changed into something that `from_json` would refuse.
    """
    return json.dumps(content_of(model, _written), allow_nan=False)


def from_json(text: str | bytes) -> Any:
    """Make a model of the JSON that the method ``to_json`` of an estimator has returned.

    Parameters
    ----------
    text : str or bytes
        The JSON. Reading it executes nothing that it holds, and takes memory in proportion to its
        length. There is no checksum: what was edited by hand is taken as it is.

    Returns
    -------
    estimator
        Fitted, with the parameters and attributes that it had but ``history_``.

    Raises
    ------
    TypeError
        If `text` is neither text nor bytes.
    ValueError
        If it is no model, malformed, from a newer version, or of a class that this version does
        not know.

    Examples
    --------
    >>> import snapml
    >>> model = snapml.Ridge().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> float(snapml.from_json(model.to_json()).predict([[3.0]])[0])
    2.333...
    """
    if not isinstance(text, str | bytes | bytearray):
        raise TypeError(f"text: expected str or bytes of JSON, got {type(text).__name__}")
    return model_of(parsed(text, _SOURCE), _SOURCE, _reader)


def _reader() -> Callable[[Any], np.ndarray]:
    return _read


def _written(array: np.ndarray) -> dict[str, Any]:
    values = array.ravel().tolist()
    if array.dtype.kind == "f":
        values = [value if math.isfinite(value) else repr(value) for value in values]
    elif array.dtype.kind == "S":
        values = [value.decode("latin-1") for value in values]
    return {"dtype": _name(array.dtype), "shape": list(array.shape), "values": values}


def _name(dtype: np.dtype) -> str:
    """Return the type without its byte order, and without the length of text."""
    return {"U": "str", "S": "bytes"}.get(dtype.kind, dtype.name)


def _read(form: Any) -> np.ndarray:
    """Return an array of as many values as there are; its size follows from these alone."""
    name, shape, values = form["dtype"], form["shape"], form["values"]
    if not isinstance(values, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"an impossible array of shape {shape!r}")
    if math.prod(shape) != len(values):
        raise ValueError(f"expected {math.prod(shape)} values, got {len(values)}")
    return _flat(name, values).reshape(shape)


def _flat(name: Any, values: list[Any]) -> np.ndarray:
    if name in ("str", "bytes"):
        if not all(isinstance(value, str) for value in values):
            raise ValueError("expected text in an array of it")
        if len(values) * max(map(len, values), default=0) > _most_text(values):
            raise ValueError("one text is longer than an array of so many can hold")
        array = np.array(values, dtype=str)
        return np.char.encode(array, "latin-1") if name == "bytes" else array
    if not re.fullmatch(r"bool|u?int(8|16|32|64)|float(16|32|64)", str(name)):
        raise ValueError(f"an array of the unknown type {name!r}")
    dtype = np.dtype(name)
    expected = {"b": bool, "f": float | int | str}.get(dtype.kind, int)
    if not all(isinstance(value, expected) for value in values):
        raise ValueError(f"values that are no {name}")
    found = np.array([float(v) if isinstance(v, str) else v for v in values], dtype)
    if not is_plain(found.dtype):
        raise ValueError(f"an array of {found.dtype}")
    return found


def _most_text(values: list[str]) -> int:
    """Return how many characters an array of text may have: each item takes what the longest does.

    Labels and names of columns are short; without a limit one of a megabyte beside a million empty
    ones would ask for a terabyte.
    """
    return 64 * (sum(map(len, values)) + len(values)) + 65536
