"""Click logs: rows of numbers and categories as sparse rows of hashed ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from snapml import _native
from snapml.data import CompressedMatrix
from snapml.io.readers.text_blocks import name_of, opened, refuse, text_blocks
from snapml.solvers.threads import resolve_n_threads

__all__ = ["ClickLogEncoder"]


class ClickLogEncoder:
    r"""Turns rows of fields into sparse rows of ones, the same in training and prediction.

    A number falls into a bin (four from each power of two to the next, signs apart), a category is
    its text, and what is missing is a category of its own. The column is a hash of field number and
    content; two fields of a row that meet in one column count once. Nothing is learned from the
    data, so there is nothing to fit, and rows may come in any batches.

    Parameters
    ----------
    n_features : int, default=2**20
        Number of columns, of all fields together.
    n_numbers : int, default=13
        Leading fields of a text line that are numbers; 13 as in the Criteo logs.
    n_categories : int, default=26
        Fields behind them that are categories; 26 as in the Criteo logs.
    seed : int, default=0
        Other seeds give other collisions.
    keep_numbers : bool, default=False
        Whether frames' columns of numbers stay what they are: the first columns, in their order,
        before `n_features` hashed ones of the other fields. A missing number is zero there, and a
        category of its own.

    Examples
    --------
    >>> import io
    >>> from snapml.io import ClickLogEncoder
    >>> encoder = ClickLogEncoder(100, n_numbers=1, n_categories=1)
    >>> [(X, y)] = encoder.batches(io.BytesIO(b"1\t3\tred\n0\t\tblue\n"))
    >>> X.shape, X.n_stored, y.tolist()
    ((2, 100), 4, [1.0, 0.0])
    """

    def __init__(
        self,
        n_features: int = 2**20,
        *,
        n_numbers: int = 13,
        n_categories: int = 26,
        seed: int = 0,
        keep_numbers: bool = False,
    ) -> None:
        self.n_features = _checked("n_features", n_features, 1)
        self.n_numbers = _checked("n_numbers", n_numbers, 0)
        self.n_categories = _checked("n_categories", n_categories, 0)
        self.seed = _checked("seed", seed, 0)
        self.keep_numbers = bool(keep_numbers)

    def batches(
        self,
        path: Any,
        *,
        has_labels: bool = True,
        n_threads: int | None = None,
        offset: int = 0,
        length: int = -1,
        on_read: Callable[[int], Any] | None = None,
    ) -> Iterator[tuple[CompressedMatrix, np.ndarray | None]]:
        """Encode the lines of a file, batch by batch.

        A line is ``label TAB number ... TAB category ...``.

        Parameters
        ----------
        path : str, path-like or binary file
            Plain text, or text compressed by gzip, bzip2, xz or zstd. Fields may be empty.
        has_labels : bool, default=True
            Whether lines begin with a label; logs to predict on have none.
        n_threads : int or None, default=None
            Threads that parse; None means all available cores.
        offset, length : int, default=0 and -1
            A range of the text, as for `load_svmlight`.
        on_read : callable or None, default=None
            Called with the number of bytes of each read from a path, in a thread of its own.

        Yields
        ------
        X : CompressedMatrix of shape (n_rows, n_features)
            Sorted columns, all entries one.
        y : ndarray of shape (n_rows,), float64, or None
            Labels.

        Raises
        ------
        ValueError
            If a line is malformed, which the message names, or numbers are to be kept.
        OSError
            If the file cannot be read.
        """
        if self.keep_numbers:
            raise ValueError("keep_numbers: expected False for lines of text, got True")
        name, n_threads = name_of(path), resolve_n_threads(n_threads, sys.maxsize)
        offset, length = _checked("offset", offset, 0), _checked("length", length, -1)
        sizes = self.n_numbers, self.n_categories, self.n_features, self.seed
        n_lines = 0
        with opened(path, on_read) as stream:
            for block in text_blocks(stream, name, offset, length):
                text = np.frombuffer(block, np.uint8)
                found = _native.click_rows(text, has_labels, *sizes, n_threads)
                if isinstance(found, tuple):
                    refuse(name, block, n_lines + found[0], found[1], found[2], offset)
                n_lines += sum(piece[3] for piece in found)
                labels, lengths, indices = (
                    np.concatenate([piece[k] for piece in found]) for k in range(3)
                )
                yield self._matrix(lengths, indices), labels if has_labels else None

    def transform(self, frame: Any) -> CompressedMatrix:
        """Encode a frame: its columns are the fields, numeric ones by their type.

        A column of numbers encodes as the same field of a text line does, one of strings too.

        Parameters
        ----------
        frame : pandas, Polars or PyArrow frame
            Numbers and strings; null and NaN are missing.

        Returns
        -------
        CompressedMatrix of shape (n_rows, n_features)
            Sorted columns, all entries one; with `keep_numbers` as many columns more as there are
            columns of numbers, in float64.

        Raises
        ------
        TypeError
            If this is no frame, or a column has neither numbers nor strings.
        """
        columns = nw.from_native(frame, eager_only=True)
        hashed = np.empty((len(columns), len(columns.columns)), np.int64)
        numbers = []
        for field, name in enumerate(columns.columns):
            column = columns[name]
            if self.keep_numbers and column.dtype.is_numeric():
                values = _numbers_of(column)
                hashed[:, field] = np.where(np.isnan(values), self._missing(field), -1)
                numbers.append(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))
            else:
                hashed[:, field] = self._encoded(column, field)
        hashed.sort(axis=1)
        is_new = hashed >= 0
        is_new[:, 1:] &= hashed[:, 1:] != hashed[:, :-1]
        if self.keep_numbers:
            return _beside(np.column_stack([*numbers, hashed[:, :0]]), hashed, is_new, self)
        return self._matrix(is_new.sum(axis=1), hashed[is_new])

    def _missing(self, field: int) -> int:
        """Return the column of what is missing in a field."""
        nothing = np.empty(0, np.uint8), np.zeros(2, np.int64)
        found: int = _native.click_categories(*nothing, field, self.n_features, self.seed)[0]
        return found

    def _encoded(self, column: Any, field: int) -> np.ndarray:
        """Return the columns of a field's contents."""
        options = field, self.n_features, self.seed
        if column.dtype.is_numeric():
            return _native.click_numbers(_numbers_of(column), *options)
        if not isinstance(column.dtype, nw.String | nw.Categorical | nw.Enum | nw.Object):
            raise TypeError(
                f"column {column.name!r}: expected numbers or strings, got {column.dtype}"
            )
        texts, codes = _texts_of(column)
        hashed = _native.click_categories(*texts, *options)
        return hashed if codes is None else hashed[codes]

    def _matrix(self, lengths: np.ndarray, indices: np.ndarray) -> CompressedMatrix:
        index = np.int32 if self.n_features <= 2**31 else np.int64
        indptr = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        if indptr[-1] > np.iinfo(index).max:
            index = np.int64
        return CompressedMatrix(
            indptr.astype(index), indices.astype(index, copy=False), self.n_features
        )


def _numbers_of(column: Any) -> np.ndarray:
    """Return a column of numbers; what is missing is NaN."""
    values = column.cast(nw.Float64).to_numpy().astype(np.float64)
    return np.ascontiguousarray(values)


def _beside(
    numbers: np.ndarray, hashed: np.ndarray, is_entry: np.ndarray, encoder: ClickLogEncoder
) -> CompressedMatrix:
    """Return rows of numbers and, behind them, of hashed columns."""
    n_numbers = numbers.shape[1]
    columns = np.hstack([np.broadcast_to(np.arange(n_numbers), numbers.shape), hashed + n_numbers])
    values = np.hstack([numbers, np.ones(hashed.shape)])
    is_stored = np.hstack([numbers != 0, is_entry])
    indptr = np.concatenate([[0], np.cumsum(is_stored.sum(axis=1))]).astype(np.int64)
    n_features = n_numbers + encoder.n_features
    return CompressedMatrix(indptr, columns[is_stored], n_features, values[is_stored])


def _texts_of(column: Any) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray | None]:
    """Return a column's texts, end to end with offsets, and which of them the rows have.

    No numbers mean that row i has text i. What is missing is a text without bytes.
    """
    array = _arrow_strings(column)
    if array is None:
        texts = [_bytes(value, column.name) for value in column.to_list()]
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        return (np.frombuffer(b"".join(texts), np.uint8), offsets), None
    if not hasattr(array, "dictionary"):
        return _text_and_offsets(array), None
    text, offsets = _text_and_offsets(array.dictionary)
    # One text more than the dictionary has, an empty one, for rows that miss theirs.
    codes = array.indices.cast("int64").fill_null(len(array.dictionary))
    return (text, np.append(offsets, offsets[-1])), codes.to_numpy()


def _arrow_strings(column: Any) -> Any:
    """Return a column as an Arrow array; None without pyarrow, or where objects are no strings."""
    try:
        import pyarrow as pa
    except ImportError:
        return None
    try:
        array = column.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _text_and_offsets(array: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of an Arrow array of strings, without a copy where its layout serves."""
    import pyarrow as pa

    strings = array.cast(pa.large_string()).fill_null("")
    if len(strings) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, text = strings.buffers()
    begins = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return np.frombuffer(b"" if text is None else text, np.uint8), begins


def _bytes(value: Any, name: str) -> bytes:
    if value is None or value != value:  # NaN in a pandas column of objects
        return b""
    if not isinstance(value, str):
        raise TypeError(f"column {name!r}: expected numbers or strings, got {value!r}")
    return value.encode()


def _checked(name: str, number: Any, least: int) -> int:
    is_integer = isinstance(number, Integral) and not isinstance(number, bool)
    if not is_integer or not least <= int(number) < 2**63:
        raise ValueError(f"{name}: expected an integer >= {least}, got {number!r}")
    return int(number)
