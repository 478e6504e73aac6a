"""From any source of rows to a chunk store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from snapml.data import ChunkedDataset, ChunkWriter
from snapml.io.encoding import check_encoding
from snapml.io.sources import Source, open_source

__all__ = ["convert", "write_source"]

_CHUNK_BYTES = 64 * 2**20


def convert(
    source: Any,
    store: Any,
    *,
    format: str = "auto",
    label: Any = None,
    weight: Any = None,
    n_features: int | None = None,
    dtype: Any = "float32",
    chunk_bytes: int = _CHUNK_BYTES,
    storage: str | None = None,
    append: bool = False,
    progress: Callable[[int, int | None], Any] | None = None,
    **options: Any,
) -> ChunkedDataset:
    """Write the rows of a source to a chunk store, in bounded memory.

    Parameters
    ----------
    source : str, path-like, ChunkedDataset, Arrow stream or iterator
        A file or folder; an object with ``__arrow_c_stream__`` (a `pyarrow.RecordBatchReader`, a
        DuckDB relation, a frame); or an iterator that yields `X`, ``(X, y)`` or
        ``(X, y, sample_weight)``, with `X` an array, a sparse matrix, a frame or an Arrow batch.
    store : str or path-like
        Folder of the store; new or empty unless `append`.
    format : str, default='auto'
        How to read a path: 'svmlight', 'snap', 'parquet' (a file, or a folder, partitioned or
        plain), 'arrow' (IPC file or stream), 'csv', 'npy', 'clicklog' (Criteo's layout) or 'store'.
        'auto' goes by the name: .svm, .svmlight, .libsvm and .txt, .snap, .parquet and .pq, .arrow,
        .arrows, .feather and .ipc, .csv, .tsv, .npy; text with .gz, .xz, .bz2 or .zst behind it. A
        folder is a store or Parquet files.
    label, weight : str, int or None, default=None
        Columns of labels and of weights, by name; of CSV and npy by number too. All other columns
        are features. Formats that have labels of their own take None.
    n_features : int or None, default=None
        Columns of sparse rows; None takes the largest index. Of a click log, what its fields are
        hashed into, 2**20 if None.
    dtype : numpy dtype or None, default='float32'
        Type of the entries, float32 or float64; None takes the source's. A store that is appended
        to keeps its own.
    chunk_bytes : int, default=64 MiB
        About the size of a chunk; up to three of them are in memory.
    storage : {'bfloat16', 'uint8'} or None, default=None
        Whether to round dense rows to two bytes or one byte an entry, as `ChunkWriter` says.
    append : bool, default=False
        Whether to add to a finished store.
    progress : callable or None, default=None
        Called as ``progress(done_bytes, total_bytes)`` after every batch and at the end; the total
        is None for sources that do not know their size. A text whose indices begin at 0 or 1 as it
        turns out is read twice, which the total counts.
    **options : object
        svmlight: ``zero_based``, ``n_threads``, ``offset``, ``length`` as for `svmlight_batches`.
        csv: ``delimiter`` and ``has_header``; ``offset`` and ``length`` too. Parquet, Arrow files,
        npy, and snap by rows: ``rows``, the first one and the one behind the last. Columnar
        formats: ``columns``, the features by name; ``encoder``, a `ClickLogEncoder` that makes
        sparse rows of them. clicklog: ``encoder``, or ``n_numbers``, ``n_categories`` and ``seed``
        of one; ``has_labels``, ``n_threads``.

    Returns
    -------
    ChunkedDataset
        The store.

    Raises
    ------
    FileNotFoundError
        If there is no such source.
    FileExistsError
        If `store` holds anything and `append` is False.
    ValueError, TypeError
        If the source is damaged, empty, not numeric, or does not fit the parameters; the message
        names file, column, line or batch. A failed conversion leaves nothing, and a store that was
        appended to as it was.
    ImportError
        If pyarrow is missing, which Parquet, Arrow and CSV need.
    """
    done = [0]

    def on_read(n_bytes: int) -> None:
        done[0] += n_bytes

    known = None
    if append:
        manifest = ChunkedDataset.open(store).manifest
        dtype, n_features = manifest.schema.dtype, manifest.n_features
        known = manifest.encoding
    opened = open_source(
        source,
        format=format,
        label=label,
        weight=weight,
        n_features=n_features,
        dtype=dtype,
        known_encoding=known,
        on_read=on_read,
        **options,
    )
    n_columns = n_features if append else None

    def report(is_end: bool) -> None:
        if progress is not None:
            total = opened.n_bytes
            progress(done[0] if total is None else total if is_end else min(done[0], total), total)

    with ChunkWriter(
        store, n_features=n_columns, chunk_bytes=chunk_bytes, storage=storage, append=append
    ) as writer:
        write_source(opened, writer, lambda: report(False))
    report(True)
    return ChunkedDataset.open(Path(store))


def write_source(
    source: Source, writer: ChunkWriter, report: Callable[[], Any] | None = None
) -> None:
    """Write all rows of a source, and say which of its batches does not fit.

    Parameters
    ----------
    source : Source
        The rows.
    writer : ChunkWriter
        Of the store.
    report : callable or None, default=None
        Called after every batch.

    Raises
    ------
    ValueError
        If a batch is not finite or unlike the others, or there are no rows.
    """
    n_rows = 0
    writer.name_features(source.feature_names)
    check_encoding(source.name, writer.encoding, source.encoding)  # of a store that has rows
    writer.encoding = source.encoding
    for number, batch in enumerate(source.batches):
        try:
            writer.append(*batch, copy=source.is_shared)
        except ValueError as error:
            where = f"{source.name}, batch {number} (from row {n_rows} on)"
            raise ValueError(f"{where}: {error}{_non_finite(source, batch.X)}") from error
        n_rows += batch.X.shape[0]
        if report is not None:
            report()
    if n_rows == 0:
        raise ValueError(f"{source.name}: expected at least one row, got none")


def _non_finite(source: Source, X: Any) -> str:
    """Return where a dense batch has its first entry that is NaN or infinite."""
    if not isinstance(X, np.ndarray) or np.isfinite(X).all():
        return ""
    row, column = np.argwhere(~np.isfinite(X))[0].tolist()
    name = column if source.feature_names is None else repr(source.feature_names[column])
    return f", in row {row} of the batch, column {name}"
