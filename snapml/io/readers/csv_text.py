"""CSV text of numbers, read by pyarrow batch by batch, whole or a range of its lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from snapml.io.readers.arrow_columns import text_advice
from snapml.io.readers.arrow_package import pyarrow_for
from snapml.io.readers.columnar import ArrowReader, explained
from snapml.io.readers.formats import delimiter_of
from snapml.io.readers.stream_loan import Loan
from snapml.io.readers.text_blocks import LinesOfRange, opened, text_blocks

__all__ = ["open_csv"]

_DELIMITERS = ";\t|, "
_SHOWN = 60
_CONVERSION = re.compile(
    r"In CSV column #(?P<column>\d+).*conversion error to (?P<type>\w+): "
    r"invalid value '(?P<value>.*)'",
    re.DOTALL,
)


def open_csv(
    path: Path,
    on_read: Callable[[int], Any],
    *,
    delimiter: str | None = None,
    has_header: bool = True,
    is_text: bool = False,
    label: Any = None,
    texts: Mapping[str, bool] | None = None,
    offset: int = 0,
    length: int = -1,
) -> ArrowReader:
    """Open CSV text of numbers, plain or compressed.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    on_read : callable
        Told the bytes that are read.
    delimiter : str or None, default=None
        Between fields; None means a tab where the name ends in .tsv, else a comma.
    has_header : bool, default=True
        Whether the first line names the columns; else they are f0, f1, ...
    is_text : bool, default=False
        Whether columns keep the types that the first block suggests, for an encoder; otherwise all
        are numbers, since whole numbers in the first block may be followed by others.
    label : str, int or None, default=None
        The column of labels, which may be text, or true and false, if the first block has them.
    texts : mapping of str to bool, or None, default=None
        Columns whose type does not depend on the first block: whether they are text.
    offset, length : int, default=0 and -1
        A range of the text, as for `load_svmlight`; the first line belongs to all. No field may
        hold the end of a line then.

    Returns
    -------
    ArrowReader
        Of its batches.
    """
    pa = pyarrow_for(str(path))
    import pyarrow.csv as pc

    delimiter = delimiter_of(path) if delimiter is None else delimiter
    parse = pc.ParseOptions(delimiter=delimiter)
    is_all = offset == 0 and length < 0

    def opened_at(block_bytes: int, loan: Loan, **convert: Any) -> Any:
        how = pc.ReadOptions(block_size=block_bytes, autogenerate_column_names=not has_header)
        return pc.open_csv(
            loan.take(),  # not kept in a frame, which an error would keep
            read_options=how,
            parse_options=parse,
            convert_options=pc.ConvertOptions(**convert),
        )

    with explained(str(path)), opened(path) as stream:
        loan = Loan(stream)
        with loan.ended(), opened_at(2**20, loan) as reader:
            schema = reader.schema
            del reader
    _check_delimiter(path, schema, delimiter)
    names = schema.names
    if not is_text:
        schema = _of_numbers(schema, label)
    elif texts is not None:
        kinds = {name: pa.string() if is_text else pa.float64() for name, is_text in texts.items()}
        found = zip(schema.names, schema.types, strict=True)
        schema = pa.schema([(name, kinds.get(name, kind)) for name, kind in found])

    def read(columns: list[str], batch_bytes: int) -> Iterator[Any]:
        types = {name: schema.field(name).type for name in columns}
        with opened(path, on_read) as stream:
            lines = stream if is_all else _csv_range(path, stream, offset, length, has_header)
            if lines is None:
                return
            block_bytes = batch_bytes // 4
            # An empty field is no label.
            convert = {"strings_can_be_null": not is_text, "include_columns": columns}
            loan = Loan(lines)
            with _explained_numbers(path, names), loan.ended():
                yield from opened_at(block_bytes, loan, column_types=types, **convert)

    return ArrowReader(schema, read, n_bytes=path.stat().st_size)


def _check_delimiter(path: Path, schema: Any, delimiter: str) -> None:
    """Refuse lines of one field of text which another delimiter would divide."""
    import pyarrow as pa

    if len(schema) != 1 or not pa.types.is_string(schema.types[0]):
        return
    name = schema.names[0]
    others = [sign for sign in _DELIMITERS if sign != delimiter and sign in name]
    if others:
        raise ValueError(
            f"{path}: expected fields with {delimiter!r} between them, got lines of one field: "
            f"{name[:_SHOWN]!r}; maybe delimiter={others[0]!r}"
        )


@contextmanager
def _explained_numbers(path: Path, names: list[str]) -> Iterator[None]:
    """Name the column in pyarrow's errors of fields that are no numbers."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowInvalid as error:
        found = _CONVERSION.search(str(error))
        if found is None or int(found["column"]) >= len(names):
            raise
        name = names[int(found["column"])]
        kind = "true or false" if found["type"] == "bool" else "a number"
        value = found["value"]
        advice = text_advice(name)
        if not value.strip():
            advice = "what is missing is an empty field"
        raise ValueError(
            f"{path}: column {name!r}: expected {kind}, got {value[:_SHOWN]!r}; {advice}"
        ) from error


def _of_numbers(schema: Any, label: Any) -> Any:
    """Return a schema of numbers; labels keep their type where that is text or true and false."""
    import pyarrow as pa

    names = schema.names
    is_number = isinstance(label, int) and -len(names) <= label < len(names)
    own = names[label] if is_number else label
    columns = []
    for name, found in zip(names, schema.types, strict=True):
        is_kept = name == own and (pa.types.is_string(found) or pa.types.is_boolean(found))
        columns.append((name, found if is_kept else pa.float64()))
    return pa.schema(columns)


def _csv_range(path: Path, stream: Any, offset: int, length: int, has_header: bool) -> Any:
    """Return some lines of a CSV file as one, with the names of all; None where there are none."""
    head = b""
    if has_header and offset > 0:
        head = stream.readline()
        if head.count(b'"') % 2:
            raise ValueError(f"{path}: a column's name ends in the next line: expected offset=0")
    stream.seek(0)
    blocks = text_blocks(stream, str(path), offset, length)
    first = next(blocks, None)
    return None if first is None else LinesOfRange(head, chain([first], blocks))
