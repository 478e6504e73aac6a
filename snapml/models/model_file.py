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
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from snapml.data.atomic_file import atomic_file
from snapml.models.content import content_of, model_of, naming, parsed
from snapml.models.values import appended_to, is_plain

__all__ = ["MAGIC", "load", "read_model", "save_model"]

MAGIC = b"snapml model\r\n\x1a\n"
"""How a file begins; what turns line ends of text into others damages it."""

_PREFIX = struct.Struct("<16sQI")
_ALIGNMENT = 64
# Read at once while checksums are formed: what a processor's cache holds.
_PIECE_BYTES = 2**20
# Fewer are not worth a thread.
_LEAST_PIECES = 8


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
    ValueError
        If an attribute was changed into something that `snapml.load` would refuse.
    OSError
        If the file cannot be written.
    """
    arrays: list[np.ndarray] = []
    content = content_of(model, appended_to(arrays))
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
    with Path(path).open("rb") as stream:
        return read_model(stream, path)


def read_model(stream: BinaryIO, path: Any) -> Any:
    """Read a model as `load` does.

    Parameters
    ----------
    stream : binary file
        At its beginning; may seek.
    path : str or path-like
        For messages.

    Returns
    -------
    estimator
        Fitted.

    Raises
    ------
    ValueError
        As `load` does.
    """
    content = _read_header(stream, path)

    def read() -> Callable[[Any], np.ndarray]:
        return _read_arrays(stream, path, content).__getitem__

    return model_of(content, path, read)


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
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
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
    content = parsed(header, path)
    if type(content.get("n_bytes")) is not int or content["n_bytes"] < 0:
        raise ValueError(f"{path}: the header of this model does not say how long it is")
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


def _read_arrays(stream: BinaryIO, path: Any, content: dict[str, Any]) -> list[np.ndarray]:
    """Return the arrays, each read into memory of its own."""
    checksum, arrays = 0, []
    with naming(path):
        layout = _layout(content)
    for array, padding in layout:
        memory = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
        checksum = zlib.crc32(stream.read(padding), checksum)
        checksum = _fill(stream, memory.data, checksum)
        arrays.append(array.astype(array.dtype.newbyteorder("="), copy=False))
    if checksum != content["crc32"]:
        raise ValueError(f"{path}: the checksum of the arrays is wrong: the file is damaged")
    return arrays


def _layout(content: dict[str, Any]) -> list[tuple[np.ndarray, int]]:
    """Return memory for each array, which the file's bytes fill, and the padding before it."""
    end, layout = 0, []
    for entry in content["arrays"]:
        # As `_little_endian` writes it: NumPy reads more, with warnings and empty text among it.
        if not re.fullmatch(r"[<|][biufSU][1-9]\d*", entry["dtype"]):
            raise ValueError(f"an impossible array: {entry!r}")
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        is_shape = all(type(length) is int and 0 <= length < 2**63 for length in shape)
        if not is_plain(dtype) or not is_shape:
            raise ValueError(f"an impossible array: {entry!r}")
        padding = -end % _ALIGNMENT
        end += padding + math.prod(shape) * dtype.itemsize
        layout.append((dtype, shape, padding))
    if end != content["n_bytes"]:
        raise ValueError(f"arrays of {end} bytes in {content['n_bytes']}")
    # No sooner: until here a header may claim any size.
    return [(np.empty(shape, dtype), padding) for dtype, shape, padding in layout]


def _fill(stream: BinaryIO, memory: memoryview, checksum: int) -> int:
    """Read into memory, and return the checksum with these bytes."""
    pieces = [memory[k : k + _PIECE_BYTES] for k in range(0, len(memory), _PIECE_BYTES)]
    if len(pieces) < _LEAST_PIECES:
        for piece in pieces:
            checksum = zlib.crc32(piece[: stream.readinto(piece)], checksum)  # type: ignore[attr-defined]
        return checksum
    # Checksums take longer than reads from the system's cache: another thread forms them.
    with ThreadPoolExecutor(1) as thread:
        later: Future[int] | None = None
        for piece in pieces:
            n_read = stream.readinto(piece)  # type: ignore[attr-defined]
            later = thread.submit(_extended, later, piece[:n_read], checksum)
        return later.result() if later else checksum


def _extended(before: Future[int] | None, piece: memoryview, checksum: int) -> int:
    """Return the checksum with a piece, after that of the piece before, which is formed by now."""
    return zlib.crc32(piece, before.result() if before else checksum)
