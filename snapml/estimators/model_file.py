"""Fitted models in files: a JSON header and arrays, nothing that could be executed.

A file begins with 16 bytes that say what it is, the length of the header (64 bits) and the
checksum of the header (32 bits), both little endian. The header is JSON. Arrays follow in the order
in which it lists them, little endian, each from the next multiple of 64 bytes on; the header has
the checksum of all that follows it, and its length. Every byte is so accounted for, and equal
models make equal files. One line end behind it all is accepted: Spark writes files as lines.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from snapml._distribution import installed_version
from snapml.data.atomic_file import atomic_file
from snapml.estimators.model_values import decoded, encoded, is_plain

__all__ = ["MAGIC", "load", "loadable", "loadable_by", "save_model"]

MAGIC = b"snapml model\r\n\x1a\n"
"""How a file begins; what turns line ends of text into others damages it."""

_PREFIX = struct.Struct("<16sQI")
_FORMAT = "snapml model"
_VERSION = 1
_ALIGNMENT = 64
# Read at once while checksums are formed: what a processor's cache holds.
_PIECE_BYTES = 2**20
# How the fit went, with times: the same model would make another file each time it is fitted.
_NOT_STORED = {"history_"}

_MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

_loadable: dict[str, type[Any]] = {}
# Classes that are imported when a file of theirs is read.
_importers: dict[str, Callable[[], type[Any]]] = {}
_Class = TypeVar("_Class", bound=type[Any])


def loadable(cls: _Class) -> _Class:
    """Let `load` make models of a class.

    Its parameters and the attributes that end in one underscore are what files hold;
    ``_stored_attributes`` names others that predictions need. Where attributes are neither text nor
    arrays, ``_to_file`` and ``_from_file`` turn them into such, and back.

    Parameters
    ----------
    cls : type
        An estimator, with a name of its own.

    Returns
    -------
    type
        The class.
    """
    _loadable[cls.__name__] = cls
    return cls


def loadable_by(name: str, importer: Callable[[], type[Any]]) -> None:
    """Let `load` import a class when it reads a model of it.

    Parameters
    ----------
    name : str
        Of the class, which is `loadable`.
    importer : callable
        Returns it.
    """
    _importers[name] = importer


def save_model(model: Any, path: Any) -> None:
    """Write a fitted model to a file, as the method ``save`` of estimators does.

    Parameters
    ----------
    model : fitted estimator
        Of a class that `load` knows.
    path : str or path-like
        The file; one that exists is replaced, in one step.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Before fit.
    TypeError
        If the class is none of the library's, or a parameter is something that text and arrays do
        not describe: a function, a generator of random numbers, a splitter.
    OSError
        If the file cannot be written.
    """
    name = type(model).__name__
    if _loadable.get(name) is not type(model):
        raise TypeError(f"expected a model of {', '.join(sorted(_loadable))}, got one of {name}")
    check_is_fitted(model)
    arrays: list[np.ndarray] = []
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "written_by": f"snapml {installed_version()}",
        "class": name,
        "parameters": _all_encoded(name, model.get_params(deep=False), arrays),
        "attributes": _all_encoded(name, _plain_attributes(model), arrays),
    }
    arrays = [_little_endian(array) for array in arrays]
    checksum = size = 0
    for piece in _pieces(arrays):
        checksum, size = zlib.crc32(piece, checksum), size + len(piece)
    layout = [{"dtype": array.dtype.str, "shape": list(array.shape)} for array in arrays]
    content |= {"arrays": layout, "n_bytes": size, "crc32": checksum}
    header = json.dumps(content, indent=1, allow_nan=False).encode()
    header += b" " * (-(_PREFIX.size + len(header)) % _ALIGNMENT)
    with atomic_file(path) as stream:
        stream.write(_PREFIX.pack(MAGIC, len(header), zlib.crc32(header)))
        stream.write(header)
        for piece in _pieces(arrays):
            stream.write(piece)


def load(path: Any) -> Any:
    """Read a model from a file that the method ``save`` of an estimator has written.

    Parameters
    ----------
    path : str or path-like
        The file. Reading it executes nothing that it holds.

    Returns
    -------
    estimator
        Fitted, with the parameters and attributes that it was saved with but ``history_``; it
        predicts the same to the bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no model file, cut short, damaged, from a newer version, or of a class that this
        version does not know.

    Examples
    --------
    >>> import tempfile
    >>> import snapml
    >>> model = snapml.Ridge().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     model.save(file.name)
    ...     float(snapml.load(file.name).predict([[3.0]])[0])
    2.333...
    """
    source = Path(path)
    with source.open("rb") as stream:
        content = _read_header(stream, path)
        name = content.get("class")
        cls = _class_of(name) if isinstance(name, str) else None
        if cls is None:
            known = ", ".join(sorted({*_loadable, *_importers}))
            raise ValueError(
                f"{path}: a model of class {name!r}, written by {content.get('written_by')}; this "
                f"version knows {known}"
            )
        with _naming(path):
            layout = _layout(content)
        arrays = _read_arrays(stream, path, layout, content)
        with _naming(path):
            return _made(cls, content, arrays)


@contextmanager
def _naming(path: Any) -> Iterator[None]:
    """Turn what a header that nobody wrote so leads to into an error that names the file."""
    try:
        yield
    except (
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as e:
        raise ValueError(f"{path}: the header of this model is malformed: {e!r}") from e


def _attributes(model: Any) -> dict[str, Any]:
    """Return what fit has learned, in the order of the names."""
    also = getattr(model, "_stored_attributes", ())
    return {
        name: value
        for name, value in sorted(vars(model).items())
        if name in also or (_is_public(name) and name not in _NOT_STORED)
    }


def _class_of(name: str) -> type[Any] | None:
    return _importers[name]() if name in _importers else _loadable.get(name)


def _plain_attributes(model: Any) -> dict[str, Any]:
    found = _attributes(model)
    return model._to_file(found) if hasattr(model, "_to_file") else found


def _is_public(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z]\w*(?<!_)_", name) is not None


def _all_encoded(owner: str, values: dict[str, Any], arrays: list[np.ndarray]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        try:
            found[name] = encoded(value, arrays)
        except TypeError as error:
            raise TypeError(
                f"{owner}.{name}: a model file holds None, numbers, text and arrays, and lists, "
                f"tuples and dicts of these, got {error}; set_params replaces a parameter that "
                "predictions do not need"
            ) from None
    return found


def _little_endian(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def _pieces(arrays: list[np.ndarray]) -> Iterator[Any]:
    """Return the bytes behind the header: each array from a multiple of the alignment on."""
    end = 0
    for array in arrays:
        yield bytes(-end % _ALIGNMENT)
        # A view of text has no format that memoryview knows: bytes have.
        content = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
        yield content.data
        end += -end % _ALIGNMENT + array.nbytes


def _read_header(stream: BinaryIO, path: Any) -> dict[str, Any]:
    """Return the header, whose checksum is right and whose file has the length that it says."""
    size = os.fstat(stream.fileno()).st_size
    prefix = stream.read(_PREFIX.size)
    if prefix[: len(MAGIC)] != MAGIC[: len(prefix)] or not prefix:
        raise ValueError(f"{path}: expected a model file of snapml, got another kind of file")
    if len(prefix) < _PREFIX.size:
        raise ValueError(f"{path}: expected a model, got {size} bytes: the file has been cut short")
    _, length, checksum = _PREFIX.unpack(prefix)
    if length > size - _PREFIX.size:
        raise ValueError(
            f"{path}: expected a header of {length} bytes, got {size - _PREFIX.size}: the file is "
            "damaged or has been cut short"
        )
    header = stream.read(length)
    if zlib.crc32(header) != checksum:
        raise ValueError(f"{path}: the checksum of the header is wrong: the file is damaged")
    content = _parsed(header, path)
    expected = _PREFIX.size + length + content["n_bytes"]
    if size == expected + 1 and _ends_with_line(stream):
        return content
    if size != expected:
        raise ValueError(f"{path}: expected {expected} bytes, got {size}: the file is damaged")
    return content


def _ends_with_line(stream: BinaryIO) -> bool:
    """Return whether the last byte is the line end that writers of text leave behind a file."""
    here = stream.tell()
    stream.seek(-1, os.SEEK_END)
    is_line_end = stream.read() == b"\n"
    stream.seek(here)
    return is_line_end


def _parsed(header: bytes, path: Any) -> dict[str, Any]:
    try:
        content = json.loads(header)
        is_ours, version = content["format"] == _FORMAT, int(content["version"])
    except _MALFORMED as error:
        raise ValueError(f"{path}: expected the header of a model: {error!r}") from error
    if not is_ours:
        raise ValueError(f"{path}: expected format {_FORMAT!r}, got {content['format']!r}")
    if version > _VERSION:
        raise ValueError(
            f"{path}: expected at most version {_VERSION} of the format, got {version}: "
            f"{content.get('written_by')} wrote it, which is newer"
        )
    if type(content.get("n_bytes")) is not int or content["n_bytes"] < 0:
        raise ValueError(f"{path}: the header of this model does not say how long it is")
    return dict(content)


def _layout(content: dict[str, Any]) -> list[tuple[np.dtype, tuple[int, ...], int]]:
    """Return type, shape and padding before each array: of memory that the file's bytes fill."""
    end, layout = 0, []
    for entry in content["arrays"]:
        dtype, shape = np.dtype(str(entry["dtype"])), tuple(map(int, entry["shape"]))
        if not is_plain(dtype) or min(shape, default=0) < 0:
            raise ValueError(f"an impossible array: {entry!r}")
        padding = -end % _ALIGNMENT
        end += padding + math.prod(shape) * dtype.itemsize
        layout.append((dtype, shape, padding))
    if end != content["n_bytes"]:
        raise ValueError(f"arrays of {end} bytes in {content['n_bytes']}")
    return layout


def _read_arrays(
    stream: BinaryIO,
    path: Any,
    layout: list[tuple[np.dtype, tuple[int, ...], int]],
    content: dict[str, Any],
) -> list[np.ndarray]:
    """Return the arrays, each read into memory of its own."""
    checksum, arrays = 0, []
    for dtype, shape, padding in layout:
        array = np.empty(shape, dtype)
        memory = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
        checksum = zlib.crc32(stream.read(padding), checksum)
        checksum = _fill(stream, memory.data, checksum)
        arrays.append(array.astype(dtype.newbyteorder("="), copy=False))
    if checksum != content["crc32"]:
        raise ValueError(f"{path}: the checksum of the arrays is wrong: the file is damaged")
    return arrays


def _fill(stream: BinaryIO, memory: memoryview, checksum: int) -> int:
    """Read into memory, and return the checksum with these bytes."""
    for begin in range(0, len(memory), _PIECE_BYTES):
        piece = memory[begin : begin + _PIECE_BYTES]
        n_read = stream.readinto(piece)  # type: ignore[attr-defined]
        checksum = zlib.crc32(piece[:n_read], checksum)
    return checksum


def _made(cls: type[Any], content: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    model = cls(**{name: decoded(value, arrays) for name, value in content["parameters"].items()})
    also = getattr(cls, "_stored_attributes", ())
    found = {}
    for name, value in content["attributes"].items():
        if not (_is_public(name) or name in also):
            raise ValueError(f"{name!r} is no attribute of a fitted model")
        found[name] = decoded(value, arrays)
    if hasattr(model, "_from_file"):
        found = model._from_file(found)
    for name, value in found.items():
        setattr(model, name, value)
    return model
