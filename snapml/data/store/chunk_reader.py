"""Reads the arrays of chunks, and refuses what is not as it was written."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from snapml.data.compressed import CheckedMatrix
from snapml.data.dataset import DenseMatrix, Matrix
from snapml.data.narrow_rows import NarrowRows
from snapml.data.stacking import stacked
from snapml.data.store.chunk_format import Manifest, array_types, lay_out, memory_bytes

__all__ = ["ChunkReader"]

# What is read at once: it is still in the cache when its checksum and its indices are looked at.
_PIECE_BYTES = 2**18
# A read of a few rows elsewhere in a file costs about as much as so many bytes in a row.
_SEEK_BYTES = 2**18


class ChunkReader:
    """The files of a finished store.

    Checksums are compared at the first read of an array, and again once its file is another or has
    been written to. That offsets and indices lie within the matrix is checked on every copy that
    is read, so that no change of a file leads a solver outside its memory.

    Parameters
    ----------
    folder : pathlib.Path
        The store.
    manifest : Manifest
        What it holds.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._manifest = folder, manifest
        self._types = array_types(manifest.schema)
        self._names = [name for name in self._types if name not in ("labels", "weights")]
        self._known: dict[tuple[int, str], tuple[int, ...]] = {}

    def column(self, name: str) -> np.ndarray:
        """Return one number of every row of the store: 'labels' or 'weights'."""
        out = np.empty(self._manifest.n_rows, self._types[name])
        first = 0
        for number, chunk in enumerate(self._manifest.chunks):
            rows = out[first : first + chunk.n_rows].view(np.uint8)
            with self._open(number) as stream:
                self._read(stream, number, name, rows)
            first += chunk.n_rows
        return out

    def matrix(self, number: int, buffer: np.ndarray | None = None) -> Matrix:
        """Read the rows of a chunk, as `ChunkedDataset.matrix` does."""
        chunk = self._manifest.chunks[number]
        if self._manifest.schema.storage != "plain":
            return self._widened(number, buffer)
        arrays = self._arrays(number, buffer)
        if self._manifest.schema.is_sparse:
            self._check_offsets(number, arrays["indptr"], 0, chunk.n_stored)
        return self._as_matrix(arrays, chunk.n_rows)

    def raw(self, number: int, buffer: np.ndarray | None = None) -> NarrowRows:
        """Read the narrow rows of a chunk, as `ChunkedDataset.raw` does."""
        return self._narrow(self._arrays(number, buffer), self._manifest.chunks[number].n_rows)

    def _arrays(self, number: int, buffer: np.ndarray | None) -> dict[str, np.ndarray]:
        chunk = self._manifest.chunks[number]
        places, _ = lay_out(self._manifest.schema, chunk.n_rows, chunk.n_stored)
        if buffer is None:
            buffer = np.empty(chunk.n_bytes, np.uint8)
        with self._open(number) as stream:
            return {
                name: self._read(stream, number, name, buffer[places[name][0] :])
                for name in self._names
            }

    def _narrow(self, arrays: dict[str, np.ndarray], n_rows: int) -> NarrowRows:
        values = arrays["values"].reshape(n_rows, self._manifest.n_features)
        return NarrowRows(values, arrays.get("scales"), arrays.get("offsets"))

    def _widened(self, number: int, buffer: np.ndarray | None) -> DenseMatrix:
        """Read narrow rows to the end of their memory, and widen them from its beginning on."""
        chunk, schema = self._manifest.chunks[number], self._manifest.schema
        n_bytes = memory_bytes(schema, chunk)
        memory = np.empty(n_bytes, np.uint8) if buffer is None else buffer[:n_bytes]
        places, _ = lay_out(schema, chunk.n_rows, chunk.n_stored)
        with self._open(number) as stream:
            arrays = {}
            for name in self._names:
                size = places[name][1] * self._types[name].itemsize
                own = memory[n_bytes - size :] if name == "values" else np.empty(size, np.uint8)
                arrays[name] = self._read(stream, number, name, own)
        narrow = self._narrow(arrays, chunk.n_rows)
        wide = memory.view(np.float32).reshape(narrow.values.shape)
        # What is written overtakes what is read in the last row only; a loop over separate memory
        # runs through wide registers.
        step = max(1, _PIECE_BYTES // max(1, 4 * self._manifest.n_features))
        for first in range(0, chunk.n_rows, step):
            part = slice(first, first + step)
            NarrowRows(narrow.values[part], narrow.scales, narrow.offsets).widen(wide[part])
        return DenseMatrix(wide)

    def rows(self, number: int, rows: np.ndarray) -> Matrix:
        """Return a copy of some rows of a chunk.

        Parameters
        ----------
        number : int
            Of the chunk.
        rows : ndarray of shape (n_taken,), int64
            Increasing numbers within the chunk; few are read one by one.

        Returns
        -------
        Matrix
            The rows.
        """
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        is_dear = len(runs) * _SEEK_BYTES > self._manifest.chunks[number].n_bytes
        with self._open(number) as stream:
            identity = _identity(stream)
            is_known = all(self._known.get((number, name)) == identity for name in self._names)
            if len(rows) and is_known and not is_dear:
                return stacked([self._run(stream, number, run[0], run[-1] + 1) for run in runs])
        return self.matrix(number).take(rows)

    def run(self, number: int, first: int, last: int) -> Matrix:
        """Return neighbouring rows of a chunk, as `ChunkedDataset.run` does."""
        with self._open(number) as stream:
            identity = _identity(stream)
            if any(self._known.get((number, name)) != identity for name in self._names):
                self.matrix(number)  # checksums are those of whole arrays
            return self._run(stream, number, first, last)

    def _run(self, stream: BinaryIO, number: int, begin: int, end: int) -> Matrix:
        """Read rows that lie side by side in a chunk that was checked before."""
        chunk, arrays = self._manifest.chunks[number], {}
        width = 0 if chunk.n_rows == 0 else chunk.n_stored // chunk.n_rows
        first, last = begin * width, end * width
        if self._manifest.schema.is_sparse:
            indptr = self._part(stream, number, "indptr", begin, end + 1).copy()
            first, last = int(indptr[0]), int(indptr[-1])
            self._check_offsets(number, indptr, max(first, 0), min(last, chunk.n_stored))
            indptr -= indptr[0]
            arrays["indptr"] = indptr
            arrays["indices"] = self._part(stream, number, "indices", first, last)
        if "values" in self._names:
            arrays["values"] = self._part(stream, number, "values", first, last)
        for name in ("scales", "offsets"):
            if name in self._names:
                arrays[name] = self._part(stream, number, name, 0, width)
        if self._manifest.schema.storage != "plain":
            wide = np.empty((end - begin, width), np.float32)
            self._narrow(arrays, end - begin).widen(wide)
            return DenseMatrix(wide)
        return self._as_matrix(arrays, end - begin)

    def _as_matrix(self, arrays: dict[str, np.ndarray], n_rows: int) -> Matrix:
        schema, n_features = self._manifest.schema, self._manifest.n_features
        values = arrays.get("values")
        if not schema.is_sparse:
            assert values is not None
            return DenseMatrix(values.reshape(n_rows, n_features))
        dtype = np.dtype(schema.dtype)
        return CheckedMatrix(arrays["indptr"], arrays["indices"], n_features, values, dtype)

    @contextlib.contextmanager
    def _open(self, number: int) -> Iterator[BinaryIO]:
        path = self._folder / self._manifest.chunks[number].file
        try:
            with path.open("rb", buffering=0) as stream:
                yield stream
        except OSError as error:
            if error.filename is None:  # of a read
                error.filename = str(path)
            raise

    def _read(self, stream: BinaryIO, number: int, name: str, memory: np.ndarray) -> np.ndarray:
        """Read an array, and compare it with its checksum unless that is known."""
        chunk = self._manifest.chunks[number]
        _, count = lay_out(self._manifest.schema, chunk.n_rows, chunk.n_stored)[0][name]
        content = memory[: count * self._types[name].itemsize]
        identity = _identity(stream)
        is_known = self._known.get((number, name)) == identity
        checksum = self._fill(stream, number, name, 0, content, is_known=is_known)
        array = content.view(self._types[name])
        if not is_known:
            if checksum != chunk.crc32[name]:
                path = self._folder / chunk.file
                raise ValueError(f"{path}: the checksum of {name} is wrong: the chunk is damaged")
            if name == "indices":
                self._check_indices(number, array)
            self._known[number, name] = identity
        return array

    def _part(self, stream: BinaryIO, number: int, name: str, begin: int, end: int) -> np.ndarray:
        """Read a part of an array."""
        dtype = self._types[name]
        memory = np.empty((end - begin) * dtype.itemsize, np.uint8)
        self._fill(stream, number, name, begin * dtype.itemsize, memory)
        return memory.view(dtype)

    def _fill(
        self,
        stream: BinaryIO,
        number: int,
        name: str,
        offset: int,
        memory: np.ndarray,
        *,
        is_known: bool = True,
    ) -> int:
        """Fill memory with an array's bytes from an offset on.

        Returns the checksum of what is not known; the indices of what is known are checked here,
        those of what is not once the checksum was compared.
        """
        chunk = self._manifest.chunks[number]
        places, _ = lay_out(self._manifest.schema, chunk.n_rows, chunk.n_stored)
        stream.seek(places[name][0] + offset)
        checksum = 0
        for first in range(0, len(memory), _PIECE_BYTES):
            piece = memory[first : first + _PIECE_BYTES]
            n_read = _filled(stream, piece.data)
            if n_read < len(piece):
                raise ValueError(
                    f"{self._folder / chunk.file}: expected {len(memory)} bytes of {name}, got "
                    f"{first + n_read}: the chunk has been cut short"
                )
            if not is_known:
                checksum = zlib.crc32(piece.data, checksum)
            elif name == "indices":
                self._check_indices(number, piece.view(self._types[name]))
        return checksum

    def _check_indices(self, number: int, indices: np.ndarray) -> None:
        # As numbers without sign, negative ones are the largest.
        unsigned = indices.view(f"<u{indices.itemsize}")
        n_columns = min(self._manifest.n_features, np.iinfo(indices.dtype).max + 1)
        if len(indices) and int(unsigned.max()) >= n_columns:
            path = self._folder / self._manifest.chunks[number].file
            wrong = int(indices[int((unsigned >= n_columns).argmax())])
            raise ValueError(f"{path}: column indices must lie in [0, {n_columns}), got {wrong}")

    def _check_offsets(self, number: int, indptr: np.ndarray, first: int, last: int) -> None:
        if indptr[0] != first or indptr[-1] != last or (indptr[1:] < indptr[:-1]).any():
            path = self._folder / self._manifest.chunks[number].file
            raise ValueError(f"{path}: expected offsets that rise from {first} to {last}")


def _identity(stream: BinaryIO) -> tuple[int, ...]:
    """Return what tells a file from another one, and from itself after a change."""
    status = os.fstat(stream.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _filled(stream: BinaryIO, memory: memoryview) -> int:
    done = 0
    while done < len(memory):
        n_more = stream.readinto(memory[done:])  # type: ignore[attr-defined]
        if not n_more:
            break
        done += n_more
    return done
