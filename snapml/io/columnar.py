"""Parquet, Arrow and CSV, read by pyarrow batch by batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from snapml.io.arrow_columns import ColumnRoles, dense_batch, to_vector
from snapml.io.batch import BATCH_BYTES, Batch
from snapml.io.text_blocks import opened

__all__ = ["ArrowReader", "open_arrow", "open_csv", "open_parquet", "open_stream", "pyarrow_for"]

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

        with _explained(roles.source):
            for number, found in enumerate(self.read(roles.all, BATCH_BYTES)):
                if encoder is None:
                    yield dense_batch(found, roles, number)
                    continue
                y, weights = (
                    None if name is None else to_vector(found.column(name), name, roles, number)
                    for name in (roles.label, roles.weight)
                )
                fields = pa.Table.from_batches([found.select(list(roles.features))])
                yield Batch(encoder.transform(fields), y, weights)


def pyarrow_for(what: str) -> Any:
    """Import pyarrow, or say who needs it.

    Parameters
    ----------
    what : str
        For the message.

    Returns
    -------
    module
        pyarrow.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            f"{what}: this format needs the package pyarrow: pip install 'snapml-open[arrow]'"
        ) from error
    return pyarrow


def open_parquet(path: Path, on_read: Callable[[int], Any], **options: Any) -> ArrowReader:
    """Open a Parquet file, or a folder of them, partitioned or plain.

    Parameters
    ----------
    path : pathlib.Path
        The file or folder. Partitions ``name=value`` are columns.
    on_read : callable
        Told the bytes that rows took in the files, about.
    **options : object
        For ``pyarrow.dataset.dataset``.

    Returns
    -------
    ArrowReader
        Of all files.
    """
    pyarrow_for(str(path))
    import pyarrow.dataset as ds

    with _explained(str(path)):
        given = {"format": "parquet", "partitioning": "hive", **options}
        dataset = ds.dataset(str(path), **given)
        n_rows = dataset.count_rows()
    schema = dataset.schema
    n_bytes = sum(Path(file).stat().st_size for file in dataset.files)
    if not dataset.files:
        raise ValueError(f"{path}: expected Parquet files in the folder, got none")

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
        for batch in scanner.to_batches():
            on_read(n_bytes * batch.num_rows // max(1, n_rows))
            yield from _cut(batch, batch_bytes)

    return ArrowReader(schema, read, n_rows=n_rows, n_bytes=n_bytes)


def open_arrow(path: Path, on_read: Callable[[int], Any]) -> ArrowReader:
    """Open an Arrow IPC file (Feather version 2) or stream.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    on_read : callable
        Told the bytes that are read.

    Returns
    -------
    ArrowReader
        Of its batches.
    """
    pa = pyarrow_for(str(path))
    with path.open("rb") as stream:
        is_file = stream.read(6) == b"ARROW1"
    with _explained(str(path)), pa.OSFile(str(path)) as source:
        schema = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source).schema

    def read(columns: list[str], batch_bytes: int) -> Iterator[Any]:
        options = pa.ipc.IpcReadOptions(
            included_fields=[schema.names.index(name) for name in columns]
        )
        done = 0
        with pa.OSFile(str(path)) as source:
            if is_file:
                reader = pa.ipc.open_file(source, options=options)
                found = (reader.get_batch(k) for k in range(reader.num_record_batches))
            else:
                found = iter(pa.ipc.open_stream(source, options=options))
            for batch in found:
                place = source.tell()
                on_read(max(0, place - done))
                done = max(done, place)
                yield from _cut(batch, batch_bytes)

    return ArrowReader(schema, read, n_bytes=path.stat().st_size)


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
    with _explained(name):
        stream = pa.RecordBatchReader.from_stream(source)

    def read(columns: list[str], batch_bytes: int) -> Iterator[Any]:
        for batch in stream:
            yield from _cut(batch.select(columns), batch_bytes)

    return ArrowReader(stream.schema, read)


def open_csv(
    path: Path,
    on_read: Callable[[int], Any],
    *,
    delimiter: str = ",",
    has_header: bool = True,
    is_text: bool = False,
) -> ArrowReader:
    """Open CSV text of numbers, plain or compressed.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    on_read : callable
        Told the bytes that are read.
    delimiter : str, default=','
        Between fields.
    has_header : bool, default=True
        Whether the first line names the columns; else they are f0, f1, ...
    is_text : bool, default=False
        Whether columns keep the types that the first block suggests, for an encoder; otherwise all
        are numbers, since whole numbers in the first block may be followed by others.

    Returns
    -------
    ArrowReader
        Of its batches.
    """
    pa = pyarrow_for(str(path))
    import pyarrow.csv as pc

    parse = pc.ParseOptions(delimiter=delimiter)

    def opened_at(block_bytes: int, stream: Any, **convert: Any) -> Any:
        how = pc.ReadOptions(block_size=block_bytes, autogenerate_column_names=not has_header)
        return pc.open_csv(
            stream,
            read_options=how,
            parse_options=parse,
            convert_options=pc.ConvertOptions(**convert),
        )

    with _explained(str(path)), opened(path) as stream, opened_at(2**20, stream) as reader:
        schema = reader.schema
    if not is_text:
        schema = pa.schema([(name, pa.float64()) for name in schema.names])

    def read(columns: list[str], batch_bytes: int) -> Iterator[Any]:
        types = {name: schema.field(name).type for name in columns}
        with opened(path, on_read) as stream:
            block_bytes = batch_bytes // 4
            yield from opened_at(block_bytes, stream, column_types=types, include_columns=columns)

    return ArrowReader(schema, read, n_bytes=path.stat().st_size)


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
def _explained(name: str) -> Iterator[None]:
    """Name the source in pyarrow's errors."""
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
