"""Parameters and attributes of a model as JSON and arrays, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

__all__ = ["appended_to", "decoded", "encoded", "is_plain"]

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


def appended_to(arrays: list[np.ndarray]) -> Callable[[np.ndarray], int]:
    """Return a `put` for `encoded` that refers to arrays by their numbers in a list.

    Parameters
    ----------
    arrays : list of ndarray
        Gets the arrays; its ``__getitem__`` is the `get` for `decoded`.

    Returns
    -------
    callable
        Appends an array and returns its number.
    """

    def put(array: np.ndarray) -> int:
        arrays.append(array)
        return len(arrays) - 1

    return put


def encoded(value: Any, put: Callable[[np.ndarray], Any]) -> Any:
    """Return what JSON can hold of a value, with references to its arrays.

    A JSON object stands for what JSON does not have; its only key says what. Lists, text, finite
    numbers, ``true``, ``false`` and ``null`` stand for themselves.

    Parameters
    ----------
    value : object
        None, text, numbers, arrays, sparse matrices; lists, tuples and dicts of these.
    put : callable
        Takes an array, and returns what refers to it in JSON.

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
        return {"scalar": _put(np.asarray(value), put)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list):
        return [encoded(each, put) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(each, put) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[encoded(each, put) for each in pair] for pair in value.items()]}
    if isinstance(value, np.ndarray) and value.dtype == object:
        items = [encoded(each, put) for each in value.ravel()]
        return {"objects": [list(value.shape), items]}
    if isinstance(value, np.ndarray):
        return {"array": _put(value, put)}
    if issparse(value):
        rows = csr_matrix(value)
        parts = (rows.data, rows.indices, rows.indptr)
        return {"csr": [list(rows.shape), [_put(part, put) for part in parts]]}
    raise TypeError(f"{type(value).__name__} {value!r}")


def decoded(value: Any, get: Callable[[Any], np.ndarray]) -> Any:
    """Return the value that `encoded` was given.

    Parameters
    ----------
    value : object
        From ``json.loads``.
    get : callable
        Returns the array that a reference of `put` stands for.

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
        return [decoded(each, get) for each in value]
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind == "scalar":
        return get(content)[()]
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(decoded(each, get) for each in content)
    if kind == "dict":
        return {decoded(key, get): decoded(each, get) for key, each in content}
    if kind == "objects":
        shape, items = content
        flat = np.empty(len(items), object)
        flat[:] = [decoded(each, get) for each in items]
        return flat.reshape(shape)
    if kind == "array":
        return get(content)
    if kind == "csr":
        shape, parts = content
        return _sparse(shape, *map(get, parts))
    raise ValueError(f"a value of the unknown kind {kind!r}")


def _sparse(
    shape: list[int], data: np.ndarray, indices: np.ndarray, indptr: np.ndarray
) -> csr_matrix:
    """Return a matrix all of whose offsets and indices lie inside it.

    SciPy trusts them later, and looks at no offsets where the last one is 0.
    """
    n_rows, n_columns = shape
    is_whole = (
        indptr.shape == (n_rows + 1,)
        and indptr.dtype.kind == indices.dtype.kind == "i"
        and data.shape == indices.shape == (int(indptr[-1]),)
        and int(indptr[0]) == 0
        and bool((indptr[1:] >= indptr[:-1]).all())
        and bool(((indices >= 0) & (indices < n_columns)).all())
    )
    if not is_whole:
        raise ValueError("a sparse matrix with offsets or indices outside it")
    return csr_matrix((data, indices, indptr), shape=(n_rows, n_columns))


def _put(array: np.ndarray, put: Callable[[np.ndarray], Any]) -> Any:
    if not is_plain(array.dtype):
        raise TypeError(f"an array of {array.dtype}")
    return put(array)
