"""A finished chunk store, read chunk by chunk while the last one is being worked on."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from snapml.data.chunk_format import Chunk, Manifest, array_types, lay_out, read_manifest
from snapml.data.compressed import CompressedMatrix
from snapml.data.dataset import DenseMatrix, Matrix
from snapml.data.memory_limit import resolve_memory_limit
from snapml.data.stacking import stacked

__all__ = ["ChunkedDataset"]


class ChunkedDataset:
    """Rows, labels and weights in a folder, of any number and size.

    `open` makes one; it holds no file open and no rows in memory.

    Parameters
    ----------
    folder : pathlib.Path
        The store.
    manifest : Manifest
        What it holds.
    memory_limit : int, float, str or 'auto'
        What fits may keep of the rows in memory, as for `open`.
    """

    def __init__(self, folder: Path, manifest: Manifest, memory_limit: Any = "auto") -> None:
        self.memory_limit = resolve_memory_limit(memory_limit)
        self._folder = folder
        self.manifest = manifest
        self._checked: set[tuple[int, str]] = set()

    @classmethod
    def open(cls, path: Any, *, memory_limit: Any = "auto") -> ChunkedDataset:
        """Open a store.

        Parameters
        ----------
        path : str or path-like
            Its folder.
        memory_limit : int, float, str or 'auto', default='auto'
            What a fit may keep of the rows in memory: bytes, text such as "40MB" or "2GiB", or half
            of what is available now. Labels, weights and margins come on top, and at least three
            chunks are there, five in coordinate ascent.

        Returns
        -------
        ChunkedDataset
            As the store is now; rows that are appended later do not show.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        ValueError
            If it is not a finished store, of a newer version, damaged, or lacks chunks.
        """
        folder = Path(path)
        return cls(folder, read_manifest(folder), memory_limit)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.manifest.n_rows, self.manifest.n_features

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return np.dtype(self.manifest.schema.dtype)

    @property
    def n_stored(self) -> int:
        """Entries that one sweep reads."""
        return self.manifest.n_stored

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.manifest.chunks)

    @property
    def chunk_rows(self) -> np.ndarray:
        """First row of each chunk, and the number of all rows; int64."""
        sizes = [chunk.n_rows for chunk in self.manifest.chunks]
        return np.cumsum([0, *sizes], dtype=np.int64)

    def labels(self) -> np.ndarray | None:
        """Return the labels of all rows, float64; None without any."""
        return self._column("labels") if self.manifest.schema.has_labels else None

    def weights(self) -> np.ndarray | None:
        """Return the weights of all rows, of the entries' type; None without any."""
        return self._column("weights") if self.manifest.schema.has_weights else None

    def matrix(self, number: int, buffer: np.ndarray | None = None) -> Matrix:
        """Read the rows of a chunk.

        Parameters
        ----------
        number : int
            Of the chunk, from 0.
        buffer : ndarray of uint8 or None, default=None
            Memory to read into, at least of `largest_chunk` bytes; None allocates the chunk's.

        Returns
        -------
        Matrix
            Over the buffer's memory.

        Raises
        ------
        ValueError
            If the chunk has changed since it was written.
        """
        chunk, schema = self.manifest.chunks[number], self.manifest.schema
        places, _ = lay_out(schema, chunk.n_rows, chunk.n_stored)
        names = [name for name in ("indptr", "indices", "values") if name in places]
        if buffer is None:
            buffer = np.empty(chunk.n_bytes, np.uint8)
        arrays = {}
        with (self._folder / chunk.file).open("rb", buffering=0) as stream:
            for name in names:
                arrays[name] = self._read(stream, number, name, buffer[places[name][0] :])
        if not schema.is_sparse:
            return DenseMatrix(arrays["values"].reshape(chunk.n_rows, -1))
        return CompressedMatrix(
            arrays["indptr"],
            arrays["indices"],
            self.manifest.n_features,
            arrays.get("values"),
            self.dtype,
        )

    def row_arrays(self, number: int, first: int, last: int) -> dict[str, np.ndarray]:
        """Read the arrays of neighbouring rows of a chunk.

        Parameters
        ----------
        number : int
            Of the chunk, from 0.
        first, last : int
            The rows from `first` to before `last` of the chunk.

        Returns
        -------
        dict of str to ndarray
            What the store has of 'indptr', 'indices' and 'values', each a vector in memory of its
            own. The offsets count from the chunk's first entry.

        Raises
        ------
        ValueError
            If the chunk has changed since it was written.
        """
        chunk, schema = self.manifest.chunks[number], self.manifest.schema
        types = {k: t for k, t in array_types(schema).items() if k not in ("labels", "weights")}
        if not all((number, name) in self._checked for name in types):
            self.matrix(number)  # checksums are those of whole arrays
        places, _ = lay_out(schema, chunk.n_rows, chunk.n_stored)
        path = self._folder / chunk.file
        arrays: dict[str, np.ndarray] = {}
        begin, end = first * self.manifest.n_features, last * self.manifest.n_features
        with path.open("rb", buffering=0) as stream:
            for name, dtype in types.items():
                part = (first, last + 1) if name == "indptr" else (begin, end)
                arrays[name] = np.empty(part[1] - part[0], dtype)
                stream.seek(places[name][0] + part[0] * dtype.itemsize)
                n_read = _fill(stream, arrays[name].view(np.uint8).data)
                if n_read < arrays[name].nbytes:
                    raise ValueError(
                        f"{path}: expected {arrays[name].nbytes} bytes of {name} from element "
                        f"{part[0]} on, got {n_read}: the chunk has been cut short"
                    )
                if name == "indptr":
                    begin, end = int(arrays[name][0]), int(arrays[name][-1])
                    if not 0 <= begin <= end <= chunk.n_stored:
                        raise ValueError(
                            f"{path}: expected offsets that rise from 0 to {chunk.n_stored}"
                        )
        return arrays

    def load(self) -> tuple[Any, np.ndarray | None]:
        """Read everything into memory.

        Returns
        -------
        X : ndarray or CompressedMatrix of shape (n_rows, n_features)
            All rows, as estimators take them.
        y : ndarray of shape (n_rows,), float64, or None
            Labels.
        """
        matrix = stacked([self.matrix(number) for number in range(self.n_chunks)])
        return (matrix.values if isinstance(matrix, DenseMatrix) else matrix), self.labels()

    @property
    def largest_chunk(self) -> int:
        """Bytes of the largest chunk."""
        return max((chunk.n_bytes for chunk in self.manifest.chunks), default=0)

    def matrices(self, numbers: Iterable[int] | None = None) -> Iterator[tuple[int, Matrix]]:
        """Read chunk after chunk, each while the caller works on the one before.

        Parameters
        ----------
        numbers : iterable of int or None, default=None
            Which chunks; None means all.

        Yields
        ------
        number : int
            Of the chunk.
        matrix : Matrix
            Its rows, valid until the next step: two buffers serve all chunks.
        """
        wanted = list(range(self.n_chunks) if numbers is None else numbers)
        if not wanted:
            return
        buffers = [np.empty(self.largest_chunk, np.uint8) for _ in range(2)]
        with ThreadPoolExecutor(1, "snapml-chunks") as ahead:
            pending = ahead.submit(self.matrix, wanted[0], buffers[0])
            for turn, number in enumerate(wanted, start=1):
                matrix = pending.result()
                if turn < len(wanted):
                    pending = ahead.submit(self.matrix, wanted[turn], buffers[turn % 2])
                yield number, matrix

    def _column(self, name: str) -> np.ndarray:
        """Return one number of every row."""
        schema = self.manifest.schema
        out = np.empty(self.manifest.n_rows, array_types(schema)[name])
        first = 0
        for number, chunk in enumerate(self.manifest.chunks):
            begin = lay_out(schema, chunk.n_rows, chunk.n_stored)[0][name][0]
            rows = out[first : first + chunk.n_rows].view(np.uint8)
            with (self._folder / chunk.file).open("rb", buffering=0) as stream:
                stream.seek(begin)
                self._read(stream, number, name, rows)
            first += chunk.n_rows
        return out

    def _read(self, stream: BinaryIO, number: int, name: str, memory: np.ndarray) -> np.ndarray:
        """Read an array of a chunk, and compare it with its checksum the first time."""
        chunk, schema = self.manifest.chunks[number], self.manifest.schema
        begin, count = lay_out(schema, chunk.n_rows, chunk.n_stored)[0][name]
        dtype = array_types(schema)[name]
        content = memory[: count * dtype.itemsize]
        stream.seek(begin)
        n_read = _fill(stream, content.data)
        path = self._folder / chunk.file
        if n_read < len(content):
            raise ValueError(
                f"{path}: expected {len(content)} bytes of {name}, got {n_read}: the chunk has "
                "been cut short"
            )
        if (number, name) not in self._checked:
            _check(path, name, content, chunk)
            self._checked.add((number, name))
        return content.view(dtype)


def _fill(stream: BinaryIO, memory: memoryview) -> int:
    done = 0
    while done < len(memory):
        n_more = stream.readinto(memory[done:])  # type: ignore[attr-defined]
        if not n_more:
            break
        done += n_more
    return done


def _check(path: Path, name: str, content: np.ndarray, chunk: Chunk) -> None:
    if zlib.crc32(content.data) != chunk.crc32[name]:
        raise ValueError(f"{path}: the checksum of {name} is wrong: the chunk is damaged")
