"""Writes a chunk store from batches of rows, in bounded memory."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from scipy.sparse import issparse

from snapml.data.compressed import CompressedMatrix
from snapml.data.label_numbers import LabelNumbers
from snapml.data.narrow_rows import narrowed
from snapml.data.store.chunk_format import (
    ALIGNMENT,
    MANIFEST,
    Chunk,
    Manifest,
    Schema,
    array_types,
    lay_out,
    read_manifest,
)

__all__ = ["ChunkWriter"]

# Large enough for sequential reads, small enough that three of them are no burden.
_CHUNK_BYTES = 64 * 2**20
# Distinct labels beyond this number are no classes.
_MOST_CLASSES = 1000


class ChunkWriter:
    """Writes rows to a store, batch by batch: a chunk on a thread while the next one is collected.

    Used in a ``with`` statement, it finishes the store at the end, or removes what it has written
    if an exception ends the statement.

    Parameters
    ----------
    path : str or path-like
        Folder of the store; made if it does not exist.
    n_features : int or None, default=None
        Columns of compressed rows; None takes what the widest batch has.
    chunk_bytes : int, default=64 MiB
        About the size of a chunk in memory; the writer keeps up to three of them.
    storage : {'bfloat16', 'uint8'} or None, default=None
        Whether to round dense rows to two bytes or one byte an entry, in which they are kept; they
        are read as float32. bfloat16 changes an entry by at most a part of ``2**-8``. uint8 keeps
        256 numbers from the smallest to the largest entry of each column and chunk, and changes an
        entry by at most ``(largest - smallest) / 510`` and float32's rounding. Models, objectives
        and gaps are those of the rounded rows. None keeps the entries as they are, or appends as
        the store was written.
    append : bool, default=False
        Whether to add rows to a finished store. Until the end its readers see it as it was.

    Raises
    ------
    FileExistsError
        If the folder holds anything and `append` is False.
    ValueError
        If `append` is True and the folder is not a finished store, or one of another storage.
    """

    def __init__(
        self,
        path: Any,
        *,
        n_features: int | None = None,
        chunk_bytes: int = _CHUNK_BYTES,
        storage: str | None = None,
        append: bool = False,
    ) -> None:
        if chunk_bytes < 1:
            raise ValueError(f"chunk_bytes: expected at least 1, got {chunk_bytes}")
        if storage not in (None, "bfloat16", "uint8"):
            raise ValueError(f"storage: expected None, 'bfloat16' or 'uint8', got {storage!r}")
        self._storage = storage or "plain"
        self._folder = Path(path)
        self._chunk_bytes = chunk_bytes
        self._n_features = n_features
        self._schema: Schema | None = None
        self._old: tuple[Chunk, ...] = ()
        self._chunks: list[Chunk] = []
        self._classes: set[float] | None = set()
        self._labels = LabelNumbers()
        self._names: tuple[str, ...] | None = None
        self._encoding: Mapping[str, Any] | None = None
        self._batches: list[dict[str, np.ndarray]] = []
        self._n_buffered = 0
        self._writing: Future[Chunk] | None = None
        self._paths: list[Path] = []
        self._thread = ThreadPoolExecutor(1, "snapml-writer")
        self._is_new = not self._folder.exists()
        if append:
            self._take_up(read_manifest(self._folder), storage)
        elif not self._is_new and any(self._folder.iterdir()):
            raise FileExistsError(f"{path}: expected a new or empty folder, or append=True")
        self._folder.mkdir(parents=True, exist_ok=True)

    def _take_up(self, manifest: Manifest, storage: str | None) -> None:
        self._storage = manifest.schema.storage
        if storage not in (None, self._storage):
            raise ValueError(
                f"storage: expected {self._storage!r} as the store was written, got {storage!r}"
            )
        self._schema, self._old = manifest.schema, manifest.chunks
        self._n_features = manifest.n_features
        self._classes = None if manifest.classes is None else set(manifest.classes)
        self._labels = LabelNumbers(manifest.label_names, is_begun=manifest.schema.has_labels)
        self._names, self._encoding = manifest.feature_names, manifest.encoding

    def name_features(self, names: Sequence[str] | None) -> None:
        """Say what the columns are called; a store that is appended to keeps its names, or none.

        Parameters
        ----------
        names : sequence of str or None
            One a column; None where they have no names.

        Raises
        ------
        ValueError
            If that store has other names, or another order.
        """
        given = None if names is None else tuple(map(str, names))
        if not self._old:
            self._names = given
        elif None not in (given, self._names) and given != self._names:
            raise ValueError(
                f"columns: expected {_shown(self._names)} as the store has, got {_shown(given)}"
            )

    @property
    def encoding(self) -> Mapping[str, Any] | None:
        """How raw fields became hashed columns, where they did; text, numbers and lists."""
        return self._encoding

    @encoding.setter
    def encoding(self, encoding: Mapping[str, Any] | None) -> None:
        if not self._old:
            self._encoding = None if encoding is None else dict(encoding)

    def append(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, copy: bool = True
    ) -> None:
        """Add rows.

        Parameters
        ----------
        X : ndarray, SciPy sparse matrix or CompressedMatrix of shape (n_rows, n_features)
            All batches of a store are dense, or all compressed, of the same type.
        y : array-like of shape (n_rows,) or None, default=None
            Numbers, or text, or true and false, alike in all batches; all have labels or none has.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            All batches have weights or none has.
        copy : bool, default=True
            Whether to copy what is not written at once; False is for arrays that nobody changes
            any more.

        Raises
        ------
        ValueError
            If the batch does not fit the others, has NaN or infinity, or is to be rounded and is
            sparse, or too large for it.
        OSError
            If the disk is full.
        """
        numbers = None if y is None else self._labels.numbers(y)
        schema, arrays, n_features = _taken_apart(X, numbers, sample_weight, self._storage)
        if self._schema is None:
            self._schema = schema
        schema, arrays = _fitted(self._schema, schema, arrays)
        self._widen(schema, n_features)
        self._schema = schema
        self._see_labels(arrays.get("labels"))
        n_rows = _n_rows(arrays, schema)
        n_bytes = sum(array.nbytes for array in arrays.values())
        rows_each = max(1, int(self._chunk_bytes * n_rows / max(1, n_bytes)))
        for begin in range(0, n_rows, rows_each):
            part = _rows_of(arrays, schema, begin, min(begin + rows_each, n_rows), copy=copy)
            n_bytes = sum(array.nbytes for array in part.values())
            if self._n_buffered + n_bytes > self._chunk_bytes:
                self._flush()
            self._batches.append(part)
            self._n_buffered += n_bytes

    def close(self) -> None:
        """Write what is left, and the manifest: the store is finished."""
        if self._schema is None:
            raise ValueError(f"{self._folder}: expected at least one batch of rows, got none")
        self._flush()
        self._finish_chunk()
        self._thread.shutdown()
        classes = None
        if self._classes and self._schema.has_labels:
            classes = tuple(sorted(self._classes))
        n_features = self._n_features or 0
        manifest = Manifest(
            self._schema,
            n_features,
            (*self._old, *self._chunks),
            classes,
            self._labels.names,
            self._names,
            self._encoding,
        )
        if self._names is not None and len(self._names) != n_features:
            raise ValueError(
                f"columns: expected a name for each of {n_features}, got {len(self._names)} names"
            )
        draft = self._folder / f"{MANIFEST}.{os.getpid()}"
        with _removed_on_error(draft), draft.open("w") as stream:
            stream.write(manifest.to_json())
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(self._folder / MANIFEST)
        self._chunks, self._paths = [], []

    def abort(self) -> None:
        """Remove what this writer has written; a store that was appended to stays as it was."""
        with contextlib.suppress(Exception):  # a failed chunk has removed itself
            self._finish_chunk()
        self._thread.shutdown()
        for path in self._paths:  # also of one whose end an interrupt kept from being noted
            path.unlink(missing_ok=True)
        self._chunks, self._batches, self._paths = [], [], []
        if self._is_new:
            self._folder.rmdir()

    def __enter__(self) -> ChunkWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            try:
                self.close()
            except BaseException:
                self.abort()
                raise
        else:
            self.abort()

    def _widen(self, schema: Schema, n_features: int) -> None:
        """Take the columns of a batch into account."""
        known = self._n_features
        if known is None or (schema.is_sparse and n_features > known and not self._old):
            self._n_features = n_features
        elif n_features > known or (not schema.is_sparse and n_features != known):
            raise ValueError(f"expected {known} columns as in the other batches, got {n_features}")

    def _see_labels(self, labels: np.ndarray | None) -> None:
        if labels is None or self._classes is None:
            return
        self._classes.update(np.unique(labels).tolist())
        if len(self._classes) > _MOST_CLASSES:
            self._classes = None

    def _flush(self) -> None:
        """Write the buffered rows to a chunk of their own."""
        if not self._batches or self._schema is None:
            return
        arrays = _joined(self._batches, self._schema)
        self._finish_chunk()
        number = len(self._old) + len(self._chunks)
        while (self._folder / f"chunk-{number:08d}").exists():  # left behind by another writer
            number += 1
        path = self._folder / f"chunk-{number:08d}"
        self._paths.append(path)
        self._writing = self._thread.submit(_write_chunk, path, arrays, self._schema)
        self._batches, self._n_buffered = [], 0

    def _finish_chunk(self) -> None:
        """Wait for the chunk that is being written, if there is one."""
        writing, self._writing = self._writing, None
        if writing is not None:
            self._chunks.append(writing.result())


def _shown(names: tuple[str, ...] | None) -> str:
    names = names or ()
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")


def _taken_apart(
    X: Any, y: Any, sample_weight: Any, storage: str
) -> tuple[Schema, dict[str, np.ndarray], int]:
    """Return a batch's schema, its arrays and its columns."""
    arrays: dict[str, np.ndarray] = {}
    if issparse(X):
        X = X.tocsr()
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        X = CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data.astype(dtype, copy=False))
    if isinstance(X, CompressedMatrix):
        if storage != "plain":
            raise ValueError(f"storage={storage!r}: expected dense rows, got compressed ones")
        X.check_indices()
        used = slice(int(X.indptr[-1]))
        arrays["indptr"], arrays["indices"] = X.indptr, X.indices[used]
        if X.values is not None:
            arrays["values"] = X.values[used]
        index = X.indices.dtype.name
    else:
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X: expected 2 dimensions, got shape {X.shape}")
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        if storage != "plain":
            with np.errstate(over="ignore"):  # is refused below
                X = X.astype(np.float32, copy=False)
        arrays["values"] = np.ascontiguousarray(X)
        index = ""
    n_rows, n_features = X.shape
    for name, given, dtype in (("labels", y, np.float64), ("weights", sample_weight, X.dtype)):
        if given is not None:
            arrays[name] = np.asarray(given, dtype)
            if arrays[name].shape != (n_rows,):
                raise ValueError(
                    f"{name}: expected shape ({n_rows},) as X has rows, got {arrays[name].shape}"
                )
    for name in ("values", "labels", "weights"):
        if name in arrays and not _is_finite(arrays[name]):
            raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    has = {name: name in arrays for name in ("values", "labels", "weights")}
    schema = Schema(
        bool(index), X.dtype.name, index, has["values"], has["labels"], has["weights"], storage
    )
    return schema, arrays, n_features


def _is_finite(array: np.ndarray) -> bool:
    """Return whether all entries are finite: so is their sum, unless it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def _fitted(
    store: Schema, batch: Schema, arrays: dict[str, np.ndarray]
) -> tuple[Schema, dict[str, np.ndarray]]:
    """Return the batch's arrays in the store's types, or say what does not fit."""
    if replace(batch, index_dtype=store.index_dtype) != store:
        raise ValueError(f"expected a batch as the others: {store}, got {batch}")
    types = array_types(store)
    if "indices" in arrays:
        largest = np.iinfo(types["indices"]).max
        if len(arrays["indices"]) and int(arrays["indices"].max()) > largest:
            raise ValueError(
                f"expected column indices that fit {store.index_dtype} as in the other batches, "
                f"got {arrays['indices'].max()}"
            )
    own = ("indptr",) if store.storage == "plain" else ("values",)
    return store, {
        name: array if name in own else array.astype(types[name], copy=False)
        for name, array in arrays.items()
    }


def _n_rows(arrays: dict[str, np.ndarray], schema: Schema) -> int:
    return len(arrays["indptr"]) - 1 if schema.is_sparse else len(arrays["values"])


def _rows_of(
    arrays: dict[str, np.ndarray], schema: Schema, begin: int, end: int, *, copy: bool
) -> dict[str, np.ndarray]:
    """Return some rows: copies where the caller may use its memory again."""
    rows = slice(begin, end)
    entries = rows
    if schema.is_sparse:
        entries = slice(int(arrays["indptr"][begin]), int(arrays["indptr"][end]))
    ranges = {"indices": entries, "values": entries, "labels": rows, "weights": rows}
    part = {name: array[ranges[name]] for name, array in arrays.items() if name in ranges}
    if copy:
        part = {name: array.copy() for name, array in part.items()}
    if schema.is_sparse:
        part["lengths"] = np.diff(arrays["indptr"][begin : end + 1]).astype(np.int64)
    return part


def _joined(batches: list[dict[str, np.ndarray]], schema: Schema) -> dict[str, list[np.ndarray]]:
    """Return the pieces that the arrays of a chunk are made of."""
    types = array_types(schema)
    pieces = {name: [batch[name] for batch in batches] for name in batches[0]}
    if schema.is_sparse:
        lengths = np.concatenate(pieces.pop("lengths"))
        indptr = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        if indptr[-1] > np.iinfo(types["indptr"]).max:
            raise ValueError(f"expected chunks of fewer than 2**31 entries, got {indptr[-1]}")
        pieces["indptr"] = [indptr]
    if schema.storage != "plain":
        narrow = narrowed(np.concatenate(pieces["values"]), schema.storage)
        pieces["values"] = [narrow.values]
        if narrow.scales is not None and narrow.offsets is not None:
            pieces |= {"scales": [narrow.scales], "offsets": [narrow.offsets]}
    return {
        name: [piece.astype(dtype, copy=False) for piece in pieces[name]]
        for name, dtype in types.items()
    }


def _write_chunk(path: Path, arrays: dict[str, list[np.ndarray]], schema: Schema) -> Chunk:
    if schema.is_sparse:
        n_rows, n_stored = len(arrays["indptr"][0]) - 1, sum(map(len, arrays["indices"]))
    else:
        n_rows = sum(map(len, arrays["values"]))
        n_stored = sum(piece.size for piece in arrays["values"])
    _, n_bytes = lay_out(schema, n_rows, n_stored)
    checksums, end = {}, 0
    with _removed_on_error(path), path.open("xb", buffering=0) as stream:
        for name, pieces in arrays.items():
            padding = bytes(-end % ALIGNMENT)
            _write_all(stream, padding)
            end += len(padding)
            checksum = 0
            for piece in pieces:
                content = piece.reshape(-1).data.cast("B")
                _write_all(stream, content)
                end += len(content)
                checksum = zlib.crc32(content, checksum)
            checksums[name] = checksum
        os.fsync(stream.fileno())
    if end != n_bytes:
        raise RuntimeError(f"{path}: expected to write {n_bytes} bytes, wrote {end}")
    return Chunk(path.name, n_rows, n_stored, n_bytes, checksums)


def _write_all(stream: Any, piece: Any) -> None:
    done = 0
    while done < len(piece):
        done += stream.write(piece[done:])


@contextlib.contextmanager
def _removed_on_error(path: Path) -> Any:
    try:
        yield
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # of a write
            error.filename = str(path)
        raise
