"""Parameters and attributes of a model as JSON and arrays, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

__all__ = ["decoded", "encoded", "is_plain"]

# Booleans, integers, floating-point numbers and text: types whose bytes mean nothing else.
_KINDS = "biufUS"
_WIDEST = 8  # bytes of a number: longer ones differ between machines


def is_plain(dtype: np.dtype) -> bool:
    """Return whether the bytes of an array say all about it, the same on any machine.

    Parameters
    ----------
    dtype : numpy dtype
        Of the array.

    Returns
    -------
    bool
        False of objects, dates, structures and numbers of machine-dependent width.
    """
    return dtype.kind in _KINDS and (dtype.kind in "US" or dtype.itemsize <= _WIDEST)


def encoded(value: Any, arrays: list[np.ndarray]) -> Any:
    """Return what JSON can hold of a value, and append its arrays to a list.

    A JSON object stands for what JSON does not have; its only key says what. Lists, text, finite
    numbers, ``true``, ``false`` and ``null`` stand for themselves.

    Parameters
    ----------
    value : object
        None, text, numbers, arrays, sparse matrices; lists, tuples and dicts of these.
    arrays : list of ndarray
        Gets the arrays, which JSON refers to by number.

    Returns
    -------
    object
        For ``json.dumps``.

    Raises
    ------
    TypeError
        If it is anything else.
    """
    if isinstance(value, np.generic):
        return {"scalar": _number_of(np.asarray(value), arrays)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list):
        return [encoded(each, arrays) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(each, arrays) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[encoded(each, arrays) for each in pair] for pair in value.items()]}
    if isinstance(value, np.ndarray) and value.dtype == object:
        items = [encoded(each, arrays) for each in value.ravel()]
        return {"objects": [list(value.shape), items]}
    if isinstance(value, np.ndarray):
        return {"array": _number_of(value, arrays)}
    if issparse(value):
        rows = csr_matrix(value)
        parts = (rows.data, rows.indices, rows.indptr)
        return {"csr": [list(rows.shape), [_number_of(part, arrays) for part in parts]]}
    raise TypeError(f"{type(value).__name__} {value!r}")


def decoded(value: Any, arrays: list[np.ndarray]) -> Any:
    """Return the value that `encoded` was given.

    Parameters
    ----------
    value : object
        From ``json.loads``.
    arrays : list of ndarray
        The arrays that it refers to.

    Returns
    -------
    object
        The value.

    Raises
    ------
    ValueError, TypeError, LookupError
        If `encoded` did not make it.
    """
    if isinstance(value, list):
        return [decoded(each, arrays) for each in value]
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind == "scalar":
        return arrays[content][()]
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(decoded(each, arrays) for each in content)
    if kind == "dict":
        return {decoded(key, arrays): decoded(each, arrays) for key, each in content}
    if kind == "objects":
        shape, items = content
        flat = np.empty(len(items), object)
        flat[:] = [decoded(each, arrays) for each in items]
        return flat.reshape(shape)
    if kind == "array":
        return arrays[content]
    if kind == "csr":
        shape, numbers = content
        return csr_matrix(tuple(arrays[number] for number in numbers), shape=shape)
    raise ValueError(f"a value of the unknown kind {kind!r}")


def _number_of(array: np.ndarray, arrays: list[np.ndarray]) -> int:
    if not is_plain(array.dtype):
        raise TypeError(f"an array of {array.dtype}")
    arrays.append(array)
    return len(arrays) - 1
