"""Parquet and Arrow, read by pyarrow batch by batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from snapml.io.readers.arrow_columns import ColumnRoles, dense_batch, labels_and_weights
from snapml.io.readers.arrow_package import pyarrow_for
from snapml.io.readers.batch import BATCH_BYTES, Batch
from snapml.io.readers.row_groups import between, groups_between, parquet_part, rows_of_groups

__all__ = [
    "ArrowReader",
    "arrow_groups",
    "explained",
    "open_arrow",
    "open_parquet",
    "open_stream",
    "parquet_groups",
]

_LIST_LENGTH = 256


class ArrowReader:
    """Batches of a columnar source, and what is known of it beforehand.

    Parameters
    ----------
    schema : pyarrow.Schema
        All columns.
    read : callable
        Takes the names of columns and a size in bytes; yields `pyarrow.RecordBatch`.
    n_rows : int or None, default=None
        Number of rows where the source says it.
    n_bytes : int or None, default=None
        Size of the source.
    """

    def __init__(
        self,
        schema: Any,
        read: Callable[[list[str], int], Iterator[Any]],
        *,
        n_rows: int | None = None,
        n_bytes: int | None = None,
    ) -> None:
        self.schema = schema
        self.read = read
        self.n_rows = n_rows
        self.n_bytes = n_bytes

    def batches(self, roles: ColumnRoles, encoder: Any = None) -> Iterator[Batch]:
        """Read rows.

        Parameters
        ----------
        roles : ColumnRoles
            Which columns, and what they are for.
        encoder : ClickLogEncoder or None, default=None
            What makes sparse rows of the features; None takes their numbers.

        Yields
        ------
        Batch
            Some rows.
        """
        import pyarrow as pa

        def made(first_row: int, found: Any) -> Batch:
            if encoder is None:
                return dense_batch(found, roles, first_row)
            fields = pa.Table.from_batches([found.select(list(roles.features))])
            return Batch(encoder.transform(fields), *labels_and_weights(found, roles, first_row))

        with explained(roles.source), ThreadPoolExecutor(1, "snapml-columns") as ahead:
            pending: Future[Batch] | None = None
            n_rows = 0
            for found in self.read(roles.all, BATCH_BYTES):
                following = ahead.submit(made, n_rows, found)
                n_rows += found.num_rows
                if pending is not None:
                    yield pending.result()
                pending = following
            if pending is not None:
                yield pending.result()


def open_parquet(
    path: Path,
    on_read: Callable[[int], Any],
    *,
    rows: tuple[int, int] | None = None,
    **options: Any,
) -> ArrowReader:
    """Open a Parquet file, or a folder of them, partitioned or plain.

    Parameters
    ----------
    path : pathlib.Path
        The file or folder. Partitions ``name=value`` are columns.
    on_read : callable
        Told the bytes that rows took in the files, about.
    rows : tuple of int or None, default=None
        The first row, and the one behind the last; None means all. Other row groups are not read.
    **options : object
        For ``pyarrow.dataset.dataset``.

    Returns
    -------
    ArrowReader
        Of all files.
    """
    dataset, n_skipped = _parquet(path, **options), 0
    import pyarrow.dataset as ds

    with explained(str(path)):
        if rows is not None:
            dataset, n_skipped = parquet_part(str(path), dataset, rows)
        n_rows = dataset.count_rows() if rows is None else rows[1] - rows[0]
    schema = dataset.schema
    n_bytes = sum(Path(file).stat().st_size for file in dataset.files)

    def read(columns: list[str], batch_bytes: int) -> Iterator[Any]:
        wide = ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
        rows_each = max(1, batch_bytes // sum(_widest_row(schema.field(k).type) for k in columns))
        scanner = dataset.scanner(
            columns=columns,
            batch_size=rows_each,
            batch_readahead=1,
            fragment_readahead=1,
            fragment_scan_options=wide,
            cache_metadata=False,
        )
        for batch in between(scanner.to_batches(), n_skipped, n_rows):
            on_read(n_bytes * batch.num_rows // max(1, n_rows))
            yield from _cut(batch, batch_bytes)

    return ArrowReader(schema, read, n_rows=n_rows, n_bytes=n_bytes)


def parquet_groups(path: Path) -> list[int]:
    """Return how many rows each row group of a file or folder has, in the order of reading.

    Parameters
    ----------
    path : pathlib.Path
        As for `open_parquet`.

    Returns
    -------
    list of int
        From the footers.
    """
    dataset = _parquet(path)
    with explained(str(path)):
        return rows_of_groups(dataset)


def _parquet(path: Path, **options: Any) -> Any:
    """Open the files of a folder as one dataset."""
    pyarrow_for(str(path))
    import pyarrow.dataset as ds

    with explained(str(path)):
        given = {"format": "parquet", "partitioning": "hive", **options}
        dataset = ds.dataset(str(path), **given)
    if not dataset.files:
        raise ValueError(f"{path}: expected Parquet files in the folder, got none")
    return dataset


def arrow_groups(path: Path) -> list[int] | None:
    """Return how many rows each batch of an Arrow IPC file has; None of a stream.

    Parameters
    ----------
    path : pathlib.Path
        The file.

    Returns
    -------
    list of int or None
        The batches' headers are read, and their first column.
    """
    pa = pyarrow_for(str(path))
    if not _is_arrow_file(path):
        return None
    options = pa.ipc.IpcReadOptions(included_fields=[0])
    with explained(str(path)), pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source, options=options)
        return [reader.get_batch(k).num_rows for k in range(reader.num_record_batches)]


def _is_arrow_file(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(6) == b"ARROW1"


def open_arrow(
    path: Path, on_read: Callable[[int], Any], *, rows: tuple[int, int] | None = None
) -> ArrowReader:
    """Open an Arrow IPC file (Feather version 2) or stream.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    on_read : callable
        Told the bytes that are read.
    rows : tuple of int or None, default=None
        The first row of a file, and the one behind the last; None means all.

    Returns
    -------
    ArrowReader
        Of its batches.
    """
    pa = pyarrow_for(str(path))
    is_file, chosen = _is_arrow_file(path), None
    if rows is not None:
        groups = arrow_groups(path)
        if groups is None:
            raise ValueError(f"{path}: rows={rows}: expected None for an Arrow stream")
        chosen = groups_between(str(path), groups, rows)
    with explained(str(path)), pa.OSFile(str(path)) as source:
        schema = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source).schema

    def read(columns: list[str], batch_bytes: int) -> Iterator[Any]:
        options = pa.ipc.IpcReadOptions(
            included_fields=[schema.names.index(name) for name in columns]
        )
        done = 0
        with pa.OSFile(str(path)) as source:
            if is_file:
                reader = pa.ipc.open_file(source, options=options)
                first, last, n_skipped = chosen or (0, reader.num_record_batches, 0)
                found: Iterator[Any] = (reader.get_batch(k) for k in range(first, last))
                if rows is not None:
                    found = between(found, n_skipped, rows[1] - rows[0])
            else:
                found = iter(pa.ipc.open_stream(source, options=options))
            for batch in found:
                place = source.tell()
                on_read(max(0, place - done))
                done = max(done, place)
                yield from _cut(batch, batch_bytes)

    n_rows = None if rows is None else rows[1] - rows[0]
    return ArrowReader(schema, read, n_rows=n_rows, n_bytes=path.stat().st_size)


def open_stream(source: Any, name: str) -> ArrowReader:
    """Take an object that gives an Arrow stream.

    Parameters
    ----------
    source : object
        With ``__arrow_c_stream__``; it is read once.
    name : str
        For messages.

    Returns
    -------
    ArrowReader
        Of its batches.
    """
    pa = pyarrow_for(name)
    with explained(name):
        stream = pa.RecordBatchReader.from_stream(source)

    def read(columns: list[str], batch_bytes: int) -> Iterator[Any]:
        for batch in stream:
            yield from _cut(batch.select(columns), batch_bytes)

    return ArrowReader(stream.schema, read)


def _widest_row(kind: Any) -> int:
    """Return the bytes of a column in a row, guessed for lists that do not say their length."""
    kind = getattr(kind, "storage_type", kind)
    if hasattr(kind, "list_size"):
        return 8 * int(kind.list_size)
    return 8 * (_LIST_LENGTH if hasattr(kind, "value_field") else 1)


def _cut(batch: Any, batch_bytes: int) -> Iterator[Any]:
    """Cut a batch into such of bounded size; they share its memory."""
    rows_each = max(1, int(batch_bytes * batch.num_rows / max(1, batch.nbytes)))
    for begin in range(0, batch.num_rows, rows_each):
        yield batch.slice(begin, rows_each)


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """Name the source in pyarrow's errors.

    Parameters
    ----------
    name : str
        Of the source.
    """
    import pyarrow as pa

    try:
        yield
    except pa.ArrowCancelled as error:
        raise KeyboardInterrupt from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ValueError(f"{name}: {error}") from error
    except OSError as error:
        if isinstance(error, FileNotFoundError) or name in str(error):
            raise
        raise type(error)(f"{name}: {error}") from error
