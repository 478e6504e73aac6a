"""Whatever rows come from as a stream of batches, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from snapml.data import ChunkedDataset, CompressedMatrix, DenseMatrix
from snapml.io.encoding import (
    Encoding,
    check_encoding,
    column_encoder,
    encoding_of_columns,
    encoding_of_log,
    log_encoder,
)
from snapml.io.readers import columnar
from snapml.io.readers.array_batches import iterator_batches, npy_batches
from snapml.io.readers.arrow_columns import roles_of, texts_of
from snapml.io.readers.batch import Batch
from snapml.io.readers.click_log import ClickLogEncoder
from snapml.io.readers.csv_text import open_csv
from snapml.io.readers.formats import FORMATS, format_of
from snapml.io.readers.snap_format import snap_batches
from snapml.io.readers.svmlight import svmlight_batches

__all__ = ["FORMATS", "Source", "is_source", "open_source", "read_batches"]


@dataclass(frozen=True)
class Source:
    """Rows that can be read once.

    Attributes
    ----------
    name : str
        For messages.
    batches : iterator of Batch
        The rows; memory is bounded as far as the source's own batches are.
    n_bytes : int or None
        What reading them all will report to `on_read`, about; None where nobody knows.
    n_rows : int or None
        Number of rows where the source says it beforehand.
    row_bytes : int or None
        What a row takes in a store, where all take the same.
    feature_names : tuple of str or None
        Names of the columns, where each has its own.
    is_shared : bool
        Whether arrays of a batch may change once the next one is asked for.
    dtype : numpy dtype or None
        Of the entries, where the source says it beforehand.
    encoding : dict or None
        How fields became hashed columns, where they did and it is known.
    """

    name: str
    batches: Iterator[Batch]
    n_bytes: int | None = None
    n_rows: int | None = None
    row_bytes: int | None = None
    feature_names: tuple[str, ...] | None = None
    is_shared: bool = False
    dtype: np.dtype | None = None
    encoding: Encoding | None = None


def is_source(X: Any) -> bool:
    """Return whether this is no matrix or frame in memory, but what `open_source` reads.

    Parameters
    ----------
    X : object
        What a user passes as rows.

    Returns
    -------
    bool
        True for paths, Arrow streams and iterators.
    """
    if isinstance(X, str | os.PathLike):
        return True
    if hasattr(X, "__arrow_c_stream__"):
        is_frame = nw.dependencies.is_into_dataframe(X) or nw.dependencies.is_into_series(X)
        return not is_frame
    return isinstance(X, Iterator) and not hasattr(X, "readinto")


def open_source(
    source: Any,
    *,
    format: str = "auto",
    label: Any = None,
    weight: Any = None,
    n_features: int | None = None,
    dtype: Any = None,
    known_features: Sequence[str] | None = None,
    known_encoding: Encoding | None = None,
    on_read: Callable[[int], Any] | None = None,
    **options: Any,
) -> Source:
    """Open what rows come from; only headers are read.

    Parameters
    ----------
    source : str, path-like, ChunkedDataset, Arrow stream or iterator
        As for `snapml.io.convert`.
    format : str, default='auto'
        One of `FORMATS`; 'auto' goes by the name.
    label, weight : str, int or None, default=None
        Columns of columnar sources and of npy.
    n_features : int or None, default=None
        Columns of sparse rows; None leaves it to the batches.
    dtype : numpy dtype or None, default=None
        float32 or float64; None takes the source's.
    known_features : sequence of str or None, default=None
        Names of the features in a fit: a source whose columns have names gives those, in this
        order; others have none to compare.
    known_encoding : dict or None, default=None
        How fields became hashed columns in a fit: raw rows are hashed alike.
    on_read : callable or None, default=None
        Called with the number of bytes that were read since the last call, maybe in another thread.
    **options : object
        Of the format, as for `snapml.io.convert`.

    Returns
    -------
    Source
        To be read once.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError, TypeError
        If the format is unknown, or parameters or columns do not fit it.
    """
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype: expected float32 or float64, got {dtype!r}")
    wanted = None if dtype is None else np.dtype(dtype)
    kind, path = format_of(source, format)
    request = _Request(
        kind,
        source,
        path,
        label,
        weight,
        n_features,
        wanted,
        known_features,
        known_encoding,
        on_read or _ignore,
        options,
    )
    if kind in ("parquet", "arrow", "csv", "stream"):
        return _columnar(request)
    opened = _READERS[kind](request)
    request.finish()
    return opened


def read_batches(source: Any, **parameters: Any) -> Iterator[Batch]:
    """Read rows batch by batch, in bounded memory.

    Parameters
    ----------
    source : str, path-like, ChunkedDataset, Arrow stream or iterator
        As for `snapml.io.convert`.
    **parameters : object
        As for `open_source`: ``format``, ``label``, ``weight``, ``n_features``, ``dtype`` and those
        of the format. Unlike in `convert`, entries keep the source's type by default.

    Yields
    ------
    Batch
        ``(X, y, sample_weight)``; of a store, rows that are valid until the next step.

    Raises
    ------
    FileNotFoundError, ValueError, TypeError, ImportError
        As `convert` does.
    """
    yield from open_source(source, **parameters).batches


@dataclass
class _Request:
    """What the caller of `open_source` asked for."""

    kind: str
    source: Any
    path: Path
    label: Any
    weight: Any
    n_features: int | None
    dtype: np.dtype | None
    known_features: Sequence[str] | None
    known_encoding: Encoding | None
    on_read: Callable[[int], Any]
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """What messages call the source."""
        if isinstance(self.source, str | os.PathLike):
            return str(self.path)
        return f"<{type(self.source).__name__}>"

    @property
    def n_bytes(self) -> int:
        """Size of the file."""
        return self.path.stat().st_size

    def take(self, *names: str) -> dict[str, Any]:
        """Return some options, which then count as used."""
        return {name: self.options.pop(name) for name in names if name in self.options}

    def refuse_columns(self) -> None:
        """Refuse `label` and `weight` where the source has its own."""
        for role in ("label", "weight"):
            if getattr(self, role) is not None:
                raise ValueError(
                    f"{self.name}: {role}={getattr(self, role)!r}: expected None, since "
                    f"{self.kind} says itself what its labels and weights are"
                )

    def finish(self) -> None:
        """Refuse options that nobody used."""
        if self.options:
            raise TypeError(
                f"{self.name}: unexpected options for format {self.kind}: {sorted(self.options)}"
            )


def _columnar(request: _Request) -> Source:
    """Open what has columns with names."""
    path, is_file = request.path, request.kind != "stream"
    encoder, known = request.take("encoder").get("encoder"), request.known_encoding
    columns = request.take("columns").get("columns", request.known_features)
    if known is not None:
        encoder = column_encoder(request.name, known, encoder)
        columns = known["columns"] if columns is None else columns
    if request.kind == "csv":
        how = request.take("delimiter", "has_header", "offset", "length")
        reader = open_csv(
            path,
            request.on_read,
            is_text=encoder is not None,
            label=request.label,
            texts=None
            if known is None
            else {k: k in known["text_columns"] for k in known["columns"]},
            **how,
        )
    elif request.kind == "parquet":
        reader = columnar.open_parquet(path, request.on_read, **request.take("rows"))
    elif is_file:
        reader = columnar.open_arrow(path, request.on_read, **request.take("rows"))
    else:
        reader = columnar.open_stream(request.source, request.name)
    roles = roles_of(
        request.name,
        reader.schema,
        label=request.label,
        weight=request.weight,
        dtype=request.dtype,
        is_checked=encoder is None,
        columns=columns,
    )
    request.finish()
    encoding = None
    if encoder is not None:
        texts = texts_of(reader.schema, roles.features)
        encoding = encoding_of_columns(encoder, list(roles.features), texts)
        check_encoding(request.name, known, encoding)
    is_plain = encoder is None and all(
        not hasattr(reader.schema.field(name).type, "value_type") for name in roles.features
    )
    n_special = 8 * (roles.label is not None) + roles.dtype.itemsize * (roles.weight is not None)
    batches = reader.batches(roles, encoder)
    if encoder is not None:
        batches = (found._replace(X=_typed(found.X, request.dtype)) for found in batches)
    return Source(
        request.name,
        batches,
        reader.n_bytes,
        reader.n_rows,
        len(roles.features) * roles.dtype.itemsize + n_special if is_plain else None,
        roles.features if is_plain else None,
        dtype=None if encoder is not None else roles.dtype,
        encoding=encoding,
    )


def _svmlight(request: _Request) -> Source:
    request.refuse_columns()
    options = request.take("n_threads", "zero_based", "offset", "length")
    is_range = options.get("offset", 0) > 0 or options.get("length", -1) >= 0
    n_reads = 2 if options.get("zero_based", "auto") == "auto" and not is_range else 1
    found = svmlight_batches(
        request.path,
        n_features=request.n_features,
        dtype=request.dtype or np.float64,
        on_read=request.on_read,
        **options,
    )
    n_bytes = n_reads * request.n_bytes
    batches = (Batch(*rows) for rows in found)
    return Source(request.name, batches, n_bytes, dtype=request.dtype or np.dtype(np.float64))


def _snap(request: _Request) -> Source:
    request.refuse_columns()
    options = request.take("rows")

    def batches() -> Iterator[Batch]:
        for X, y in snap_batches(request.path, **options):
            request.on_read(4 * len(y) + (X.nbytes if isinstance(X, np.ndarray) else 8 * X.nnz))
            yield Batch(X if request.dtype is None else X.astype(request.dtype, copy=False), y)

    dtype = request.dtype or np.dtype(np.float32)
    return Source(request.name, batches(), request.n_bytes, dtype=dtype)


def _npy(request: _Request) -> Source:
    shape, dtype, batches = npy_batches(
        request.path,
        request.label,
        request.weight,
        request.dtype,
        request.on_read,
        request.take("rows").get("rows"),
    )
    n_special = 8 * (request.label is not None) + dtype.itemsize * (request.weight is not None)
    row_bytes = shape[1] * dtype.itemsize + n_special
    return Source(request.name, batches, request.n_bytes, shape[0], row_bytes, dtype=dtype)


def _clicklog(request: _Request) -> Source:
    request.refuse_columns()
    encoder = request.take("encoder").get("encoder")
    if encoder is None:
        sizes: dict[str, Any] = (
            {} if request.n_features is None else {"n_features": request.n_features}
        )
        sizes |= request.take("n_numbers", "n_categories", "seed")
    else:
        sizes = {name: n for name, n in encoding_of_log(encoder).items() if name != "kind"}
    known = request.known_encoding
    encoder = ClickLogEncoder(**sizes) if known is None else log_encoder(request.name, known, sizes)
    options = request.take("has_labels", "n_threads", "offset", "length")
    found = encoder.batches(request.path, on_read=request.on_read, **options)
    batches = (Batch(_typed(X, request.dtype), y) for X, y in found)
    return Source(request.name, batches, request.n_bytes, encoding=encoding_of_log(encoder))


def _store(request: _Request) -> Source:
    request.refuse_columns()
    store = request.source
    if not isinstance(store, ChunkedDataset):
        store = ChunkedDataset.open(request.path)

    check_encoding(request.name, request.known_encoding, store.manifest.encoding)

    def batches() -> Iterator[Batch]:
        y, weights, begins = store.labels(), store.weights(), store.chunk_rows
        for number, rows in store.matrices():
            here = slice(int(begins[number]), int(begins[number + 1]))
            request.on_read(store.manifest.chunks[number].n_bytes)
            yield Batch(
                _typed(rows.values if isinstance(rows, DenseMatrix) else rows, request.dtype),
                None if y is None else y[here],
                None if weights is None else weights[here],
            )

    n_bytes, n_rows = store.manifest.n_bytes, store.shape[0]
    return Source(
        request.name,
        batches(),
        n_bytes,
        n_rows,
        n_bytes // max(1, n_rows),
        store.feature_names,
        is_shared=True,
        encoding=store.manifest.encoding,
    )


def _iterator(request: _Request) -> Source:
    batches = iterator_batches(
        request.source,
        request.name,
        request.label,
        request.weight,
        request.dtype,
        request.take("columns").get("columns", request.known_features),
    )
    return Source(request.name, batches, is_shared=True)


def _typed(X: Any, dtype: np.dtype | None) -> Any:
    """Return rows in another type."""
    if dtype is None or X.dtype == dtype:
        return X
    if isinstance(X, CompressedMatrix):
        values = None if X.values is None else X.values.astype(dtype)
        return CompressedMatrix(X.indptr, X.indices, X.n_features, values, dtype)
    return X.astype(dtype)


def _ignore(_n_bytes: int) -> None:
    pass


_READERS: dict[str, Callable[[_Request], Source]] = {
    "svmlight": _svmlight,
    "snap": _snap,
    "npy": _npy,
    "clicklog": _clicklog,
    "store": _store,
    "iterator": _iterator,
}
