"""Small values as bytes, and back, without pickle: what arrives from the wire runs no code."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

__all__ = ["from_bytes", "to_bytes"]

_LENGTH = struct.Struct("<Q")
_KINDS = "biufcSU"  # of arrays: numbers, truth values, text
# What a dictionary of JSON says it stands for.
_TUPLE, _ARRAY, _SCALAR, _MAPPING = "tuple", "array", "scalar", "mapping"


def to_bytes(value: Any) -> bytes:
    """Return a value as bytes.

    Parameters
    ----------
    value : object
        None, a truth value, number or text; an array or scalar of NumPy of these; or a list, tuple
        or dictionary of such, with text for keys.

    Returns
    -------
    bytes
        For `from_bytes`.

    Raises
    ------
    TypeError
        If it is something else.
    """
    arrays: list[bytes] = []
    head = json.dumps(_plain(value, arrays)).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *arrays])


def from_bytes(data: bytes) -> Any:
    """Return the value that `to_bytes` got.

    Parameters
    ----------
    data : bytes
        Of `to_bytes`.

    Returns
    -------
    object
        The value.

    Raises
    ------
    ValueError
        If the bytes are not of `to_bytes`.
    """
    if len(data) < _LENGTH.size:
        raise ValueError(f"expected a value of at least {_LENGTH.size} bytes, got {len(data)}")
    (length,) = _LENGTH.unpack_from(data)
    body = memoryview(data)[_LENGTH.size :]
    if length > len(body):
        raise ValueError(f"expected a head of {length} bytes, got {len(body)}")
    try:
        return _value(json.loads(bytes(body[:length])), body[length:])
    except (TypeError, OverflowError, RecursionError, SyntaxError) as error:
        raise ValueError(f"expected a value, got other bytes: {error}") from error


def _plain(value: Any, arrays: list[bytes]) -> Any:
    """Return what JSON can say, with the bytes of arrays laid aside."""
    if value is None or isinstance(value, bool | int | str) or type(value) is float:
        return value
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in _KINDS:
            raise TypeError(f"expected an array of numbers or text, got dtype {value.dtype}")
        kind = _ARRAY if isinstance(value, np.ndarray) else _SCALAR
        start = sum(map(len, arrays))
        arrays.append(np.ascontiguousarray(value).tobytes())
        return {kind: [value.dtype.str, list(value.shape), start]}
    if isinstance(value, list):
        return [_plain(one, arrays) for one in value]
    if isinstance(value, tuple):
        return {_TUPLE: [_plain(one, arrays) for one in value]}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {_MAPPING: [[name, _plain(one, arrays)] for name, one in value.items()]}
    raise TypeError(f"expected plain values or arrays, got {type(value).__name__}")


def _value(plain: Any, arrays: memoryview) -> Any:
    if isinstance(plain, list):
        return [_value(one, arrays) for one in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == _TUPLE:
        return tuple(_value(one, arrays) for one in content)
    if kind == _MAPPING:
        return {name: _value(one, arrays) for name, one in content}
    if kind not in (_ARRAY, _SCALAR):
        raise ValueError(f"expected a kind of value, got {kind!r}")
    text, shape, start = content
    dtype = np.dtype(text)
    if dtype.kind not in _KINDS:
        raise ValueError(f"expected an array of numbers or text, got dtype {dtype}")
    count = int(np.prod(shape, dtype=np.int64))
    # Copied: arrays over bytes cannot be written to.
    array = np.frombuffer(arrays, dtype, count, start).reshape(shape).copy()
    return array if kind == _ARRAY else array[()]
