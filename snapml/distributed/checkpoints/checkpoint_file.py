"""The file that a fit goes on from: numbers and text, a checksum of every byte, no code.

A file begins with 16 bytes that say what it is. Dual states of rows follow, then arrays, then JSON
that says what they are, all little endian; the last 12 bytes are the length of the JSON (64 bits)
and the checksum of all before it, that length included (32 bits).
"""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from snapml.models.values import appended_to, decoded, encoded, is_plain

__all__ = ["CheckpointFile", "write_checkpoint"]

_MAGIC = b"snapml state\r\n\x1a\n"
_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
_TAIL_BYTES = _LENGTH.size + _CHECKSUM.size
_VERSION = 1
_PIECE_BYTES = 2**20


def write_checkpoint(
    stream: BinaryIO,
    content: dict[str, Any],
    row_types: list[np.dtype],
    row_blocks: Iterable[np.ndarray],
) -> None:
    """Write a state.

    Parameters
    ----------
    stream : binary file
        Empty.
    content : dict
        None, numbers, text, arrays; lists, tuples and dicts of these.
    row_types : list of numpy dtype
        Of the vectors over all rows, one after the other.
    row_blocks : iterable of ndarray
        Their parts in order, as many as fit into memory at a time.

    Raises
    ------
    OSError
        If the disk is full.
    """
    checked = _Checked(stream)
    checked.write(_MAGIC)
    n_bytes = 0
    for block in row_blocks:
        n_bytes += checked.write(_little_endian(block))
    arrays: list[np.ndarray] = []
    value = encoded(content, appended_to(arrays))
    arrays = [_little_endian(array) for array in arrays]
    for array in arrays:
        checked.write(array)
    text = json.dumps(
        {
            "version": _VERSION,
            "row_types": [dtype.newbyteorder("<").str for dtype in row_types],
            "row_bytes": n_bytes,
            "arrays": [[array.dtype.str, list(array.shape)] for array in arrays],
            "content": value,
        },
        allow_nan=False,
    ).encode()
    checked.write(text)
    checked.write(_LENGTH.pack(len(text)))
    stream.write(_CHECKSUM.pack(checked.checksum))


class CheckpointFile:
    """A state in a file, all of whose bytes are what was written.

    Parameters
    ----------
    path : str or path-like
        The file. Reading it executes nothing that it holds.

    Attributes
    ----------
    content : dict
        What was written.
    row_types : list of numpy dtype
        Of the vectors over all rows.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If it is another kind of file, cut short, damaged, or of a newer version.
    """

    def __init__(self, path: Any) -> None:
        self._path = Path(path)
        with self._path.open("rb") as stream:
            header = self._header(stream)
            if header["version"] > _VERSION:
                raise ValueError(
                    f"{path}: expected at most version {_VERSION} of the format of checkpoints, "
                    f"got {header['version']}: a newer snapml has written it"
                )
            self.row_types = [np.dtype(name) for name in header["row_types"]]
            stream.seek(len(_MAGIC) + header["row_bytes"])
            arrays = [_read_array(stream, *layout) for layout in header["arrays"]]
            self.content: dict[str, Any] = decoded(header["content"], arrays.__getitem__)

    def row_block(self, number: int, n_rows: int, begin: int, end: int) -> np.ndarray:
        """Return a part of a vector over the rows.

        Parameters
        ----------
        number : int
            Of the vector.
        n_rows : int
            Numbers in each vector.
        begin, end : int
            The first number, and the one behind the last.

        Returns
        -------
        ndarray of shape (end - begin,)
            New memory.
        """
        before = sum(dtype.itemsize for dtype in self.row_types[:number]) * n_rows
        dtype = self.row_types[number]
        with self._path.open("rb") as stream:
            stream.seek(len(_MAGIC) + before + begin * dtype.itemsize)
            return _read_array(stream, dtype.str, [end - begin])

    def _header(self, stream: BinaryIO) -> dict[str, Any]:
        size = os.fstat(stream.fileno()).st_size
        start = stream.read(len(_MAGIC))
        if start != _MAGIC[: len(start)] or not start:
            raise ValueError(
                f"{self._path}: expected a checkpoint of snapml, got another kind of file"
            )
        if size < len(_MAGIC) + _TAIL_BYTES:
            raise self._damaged(f"it has been cut short to {size} bytes")
        checksum, left = zlib.crc32(start), size - len(_MAGIC) - _CHECKSUM.size
        last = b""
        while left:
            piece = stream.read(min(left, _PIECE_BYTES))
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
            last = (last + piece)[-_LENGTH.size :]
        if checksum != _CHECKSUM.unpack(stream.read(_CHECKSUM.size))[0]:
            raise self._damaged("its checksum is wrong")
        (length,) = _LENGTH.unpack(last)
        stream.seek(size - _TAIL_BYTES - length)
        header: dict[str, Any] = json.loads(stream.read(length))
        return header

    def _damaged(self, how: str) -> ValueError:
        return ValueError(
            f"{self._path}: this checkpoint is damaged: {how}; remove it to begin anew"
        )


class _Checked:
    """Writes, and forms the checksum of what it writes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.checksum = 0

    def write(self, content: bytes | np.ndarray) -> int:
        data = _bytes_of(content) if isinstance(content, np.ndarray) else memoryview(content)
        self.checksum = zlib.crc32(data, self.checksum)
        self._stream.write(data)
        return data.nbytes


def _bytes_of(array: np.ndarray) -> memoryview:
    flat = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
    return flat.data


def _little_endian(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def _read_array(stream: BinaryIO, name: str, shape: list[int]) -> np.ndarray:
    dtype = np.dtype(name)
    if not is_plain(dtype):
        raise ValueError(f"a checkpoint with an array of {dtype}")
    content = stream.read(math.prod(shape) * dtype.itemsize)
    array = np.frombuffer(bytearray(content), dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)
