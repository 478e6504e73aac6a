"""Rows of numbers or labels to a file, batch by batch."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from snapml.data.atomic_file import atomic_file
from snapml.io.readers.arrow_package import pyarrow_for

__all__ = ["ARRAY_SUFFIXES", "check_array_path", "write_arrays"]

_Writer = Callable[[BinaryIO, Iterator[np.ndarray], Sequence[str]], int]


def check_array_path(path: Any) -> None:
    """Refuse a name whose suffix names no format, before the work begins.

    Parameters
    ----------
    path : str or path-like
        The file.

    Raises
    ------
    ValueError
        If it ends in none of `ARRAY_SUFFIXES`.
    ImportError
        If it is a Parquet file and pyarrow is missing.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise ValueError(f"{path}: expected a name that ends in {', '.join(ARRAY_SUFFIXES)}")
    if _WRITERS[suffix] is _write_parquet:
        _parquet(path)


def write_arrays(path: Any, arrays: Iterator[np.ndarray], names: Sequence[str]) -> int:
    """Write batches of rows, one after the other, in the memory of one.

    Parameters
    ----------
    path : str or path-like
        The file, whose suffix is the format: ``.npy``; ``.csv`` with a line of names; ``.txt``
        without, separated by blanks; ``.parquet`` or ``.pq``. It appears once it is complete.
    arrays : iterator of ndarray of shape (n_rows,) or (n_rows, n_columns)
        Batches of the same type and number of columns.
    names : sequence of str
        Of the columns.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    ValueError
        If the suffix names no format, there are no batches, or they are unlike each other.
    ImportError
        If pyarrow is missing, which Parquet needs.
    OSError
        If the file cannot be written.
    """
    check_array_path(path)
    write = _WRITERS[Path(path).suffix.lower()]
    with atomic_file(path) as stream:
        return write(stream, _alike(path, arrays), names)


def _alike(path: Any, arrays: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Return the batches, and refuse one that does not continue the first."""
    first: np.ndarray | None = None
    for array in arrays:
        first = array if first is None else first
        if (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
            raise ValueError(
                f"{path}: expected batches of {first.dtype} and shape (n_rows, "
                f"*{first.shape[1:]}) as the first, got {array.dtype} and {array.shape}"
            )
        yield array
    if first is None:
        raise ValueError(f"{path}: expected at least one batch of rows to write, got none")


def _write_npy(stream: BinaryIO, arrays: Iterator[np.ndarray], _names: Sequence[str]) -> int:
    """Write the header twice: only at the end is the number of rows known.

    NumPy leaves room for it, so that both have the same length.
    """
    n_rows, header = 0, None
    for array in arrays:
        if header is None:
            if array.dtype.hasobject:
                raise ValueError(
                    f"{stream.name}: labels of Python objects have no .npy format: expected .csv, "
                    ".txt or .parquet"
                )
            header = np.lib.format.header_data_from_array_1_0(np.ascontiguousarray(array))
            np.lib.format.write_array_header_1_0(stream, header)
        n_rows += len(array)
        if array.size:
            stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    if header is not None:
        stream.seek(0)
        header["shape"] = (n_rows, *header["shape"][1:])
        np.lib.format.write_array_header_1_0(stream, header)
    return n_rows


def _write_csv(stream: BinaryIO, arrays: Iterator[np.ndarray], names: Sequence[str]) -> int:
    return _write_lines(stream, arrays, names, ",")


def _write_text(stream: BinaryIO, arrays: Iterator[np.ndarray], _names: Sequence[str]) -> int:
    return _write_lines(stream, arrays, (), " ")


def _write_lines(
    stream: BinaryIO, arrays: Iterator[np.ndarray], names: Sequence[str], delimiter: str
) -> int:
    n_rows = 0
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    lines = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    if names:
        lines.writerow(names)
    for array in arrays:
        n_rows += len(array)
        # Python's numbers, whose text is the shortest that gives the same number again.
        lines.writerows(array.reshape(len(array), -1).tolist())
    text.flush()
    text.detach()
    return n_rows


def _write_parquet(stream: BinaryIO, arrays: Iterator[np.ndarray], names: Sequence[str]) -> int:
    pyarrow, parquet = _parquet(stream.name)
    n_rows, writer = 0, None
    try:
        for array in arrays:
            columns = array.reshape(len(array), -1).T
            table = pyarrow.table([pyarrow.array(c.copy()) for c in columns], names=list(names))
            writer = writer or parquet.ParquetWriter(stream, table.schema)
            writer.write_table(table)
            n_rows += len(array)
    finally:
        if writer is not None:
            writer.close()
    return n_rows


def _parquet(path: Any) -> tuple[Any, Any]:
    pyarrow = pyarrow_for(str(path))
    import pyarrow.parquet as parquet

    return pyarrow, parquet


_WRITERS: dict[str, _Writer] = {
    ".npy": _write_npy,
    ".csv": _write_csv,
    ".txt": _write_text,
    ".parquet": _write_parquet,
    ".pq": _write_parquet,
}
ARRAY_SUFFIXES = tuple(_WRITERS)
"""Suffixes of the formats that rows can be written to."""
