"""The svmlight (LIBSVM) text format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml import _native
from snapml.io.readers.text_blocks import name_of, opened, refuse, text_blocks
from snapml.solvers.threads import resolve_n_threads

__all__ = ["SvmlightRows", "load_svmlight", "parsed_svmlight", "svmlight_batches"]

_INT32_MAX = np.iinfo(np.int32).max


def load_svmlight(
    path: Any,
    *,
    n_features: int | None = None,
    n_threads: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | str = "auto",
    offset: int = 0,
    length: int = -1,
) -> tuple[csr_matrix, np.ndarray]:
    r"""Load rows of svmlight text: lines of ``label index:value index:value # comment``.

    Comments, empty lines and ``qid:N`` are skipped. Numbers are rounded as Python does.

    Parameters
    ----------
    path : str, path-like or binary file
        Plain text, or text compressed by gzip, bzip2, xz or zstd.
    n_features : int or None, default=None
        Number of columns; None takes the largest index for the last one. Files of one data set,
        and ranges of one file, need it to agree.
    n_threads : int or None, default=None
        Threads that parse; None means all available cores, -1 too.
    dtype : numpy dtype, default=numpy.float64
        Type of the values, float32 or float64.
    zero_based : bool or 'auto', default='auto'
        Whether indices begin at 0. 'auto' takes a file for one-based where no index is 0; a range
        of a file counts as zero-based then, as it may lack the only 0.
    offset : int, default=0
        Lines that begin at this byte or before are left to an earlier range; from 0 on all lines
        are read. Of compressed text, bytes of the text count.
    length : int, default=-1
        Lines that begin at most at byte ``offset + length`` are read; -1 means all. Ranges that
        join each other have every line once.

    Returns
    -------
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features)
        Sorted indices, int32 where all offsets and columns fit, else int64.
    y : ndarray of shape (n_rows,), float64
        Labels.

    Raises
    ------
    ValueError
        If the text is malformed (the message names the line), an index is too large for
        `n_features`, or compressed data are damaged.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import io
    >>> from snapml.io import load_svmlight
    >>> X, y = load_svmlight(io.BytesIO(b"1 1:0.5 3:2\n-1 2:1 # a comment\n"))
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])
    """
    options = _Options(path, n_features, n_threads, dtype, zero_based, offset, length)
    rows = options.rows()
    for block in options.blocks(path):
        rows.parse(block)
    return rows.matrix(options.n_features, options.is_one_based(rows))


def parsed_svmlight(
    path: Any,
    *,
    keeps_rows: bool = True,
    n_threads: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | str = "auto",
    offset: int = 0,
    length: int = -1,
) -> SvmlightRows:
    """Parse svmlight text of which others must say how many columns it has, and from where on.

    Parameters
    ----------
    path, n_threads, dtype, zero_based, offset, length
        As for `load_svmlight`.
    keeps_rows : bool, default=True
        False only looks at the indices.

    Returns
    -------
    SvmlightRows
        What the text holds.
    """
    options = _Options(path, None, n_threads, dtype, zero_based, offset, length)
    rows = options.rows()
    for block in options.blocks(path):
        rows.parse(block)
        if not keeps_rows:
            rows.forget()
    return rows


def svmlight_batches(
    path: Any,
    *,
    n_features: int | None = None,
    n_threads: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | str = "auto",
    offset: int = 0,
    length: int = -1,
    on_read: Callable[[int], Any] | None = None,
) -> Iterator[tuple[csr_matrix, np.ndarray]]:
    """Load rows of svmlight text batch by batch, in bounded memory.

    Parameters
    ----------
    path, n_threads, dtype, offset, length
        As for `load_svmlight`.
    n_features : int or None, default=None
        Number of columns; None gives each batch those up to the largest index so far.
    zero_based : bool or 'auto', default='auto'
        As for `load_svmlight`; 'auto' reads a whole file twice, and open files cannot be.
    on_read : callable or None, default=None
        Called with the number of bytes of each read from a path, in a thread of its own.

    Yields
    ------
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features)
        Some rows, in their order.
    y : ndarray of shape (n_rows,), float64
        Their labels.

    Raises
    ------
    ValueError, OSError
        As `load_svmlight` does.
    """
    options = _Options(path, n_features, n_threads, dtype, zero_based, offset, length)
    rows = options.rows()
    if options.zero_based == "auto":
        if hasattr(path, "readinto"):
            raise ValueError("zero_based: expected True or False for an open file, got 'auto'")
        for block in options.blocks(path, on_read):
            rows.parse(block)
            rows.forget()
    is_one_based = options.is_one_based(rows)
    rows = options.rows()
    for block in options.blocks(path, on_read):
        rows.parse(block)
        yield rows.matrix(options.n_features, is_one_based)


class _Options:
    """The checked parameters of a reader."""

    def __init__(
        self,
        path: Any,
        n_features: Any,
        n_threads: int | None,
        dtype: Any,
        zero_based: Any,
        offset: Any,
        length: Any,
    ) -> None:
        self._dtype = np.dtype(dtype)
        if self._dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype: expected float32 or float64, got {self._dtype}")
        if not isinstance(zero_based, bool | np.bool_) and zero_based != "auto":
            raise ValueError(f"zero_based: expected True, False or 'auto', got {zero_based!r}")
        self._offset, self._length = _checked("offset", offset, 0), _checked("length", length, -1)
        self.n_features = None if n_features is None else _checked("n_features", n_features, 1)
        is_range = self._offset > 0 or self._length >= 0
        self.zero_based = True if zero_based == "auto" and is_range else zero_based
        self._n_threads = resolve_n_threads(n_threads, sys.maxsize)
        self._name = name_of(path)

    def rows(self) -> SvmlightRows:
        """Return a place for rows."""
        least = 1 if self.zero_based is False else 0
        return SvmlightRows(self._name, self._dtype, least, self._offset, self._n_threads)

    def blocks(
        self, path: Any, on_read: Callable[[int], Any] | None = None
    ) -> Iterator[memoryview]:
        """Read the text."""
        with opened(path, on_read) as stream:
            yield from text_blocks(stream, self._name, self._offset, self._length)

    def is_one_based(self, rows: SvmlightRows) -> bool:
        """Return whether the smallest index is 1, as asked for or as `rows` show."""
        return rows.smallest > 0 if self.zero_based == "auto" else not self.zero_based


class SvmlightRows:
    """What the blocks of a file have held so far; `parsed_svmlight` makes one.

    Attributes
    ----------
    smallest, largest : int
        Indices as they stand in the text; ``sys.maxsize`` and -1 where
        there are none.
    """

    def __init__(self, name: str, dtype: np.dtype, least: int, offset: int, n_threads: int) -> None:
        self._name = name
        self._n_threads = n_threads
        self.smallest, self.largest = sys.maxsize, -1
        self._dtype = dtype
        self._least = least
        self._offset = offset
        self._n_lines = 0
        self._is_wide = False
        self.forget()

    def forget(self) -> None:
        """Drop the rows, but not what was seen of their indices."""
        self._arrays: list[list[np.ndarray]] = [[], [], [], []]

    def parse(self, block: memoryview) -> None:
        """Add the rows of a block.

        Parameters
        ----------
        block : memoryview
            Whole lines.

        Raises
        ------
        ValueError
            If they are malformed.
        """
        found = self._parsed(block)
        if isinstance(found, tuple) and found[2] == "64-bit indices":
            self._is_wide = True
            found = self._parsed(block)
        if isinstance(found, tuple):
            n_lines, position, expected = found
            refuse(self._name, block, self._n_lines + n_lines, position, expected, self._offset)
        for *arrays, n_lines, smallest, largest in found:
            for parts, array in zip(self._arrays, arrays, strict=True):
                parts.append(array)
            self._n_lines += n_lines
            self.smallest = min(self.smallest, smallest)
            self.largest = max(self.largest, largest)

    def matrix(self, n_features: int | None, is_one_based: bool) -> tuple[csr_matrix, np.ndarray]:
        """Return X and y, and forget them.

        Parameters
        ----------
        n_features : int or None
            Number of columns; None takes the largest index.
        is_one_based : bool
            Whether index 1 is the first column.

        Returns
        -------
        X : scipy.sparse.csr_matrix
            The rows.
        y : ndarray
            Their labels.
        """
        least_columns = self.largest + (0 if is_one_based else 1)
        if n_features is None:
            n_features = max(0, least_columns)
        elif n_features < least_columns:
            raise ValueError(
                f"{self._name}: n_features={n_features}, but the largest index is {self.largest}, "
                f"{'one' if is_one_based else 'zero'}-based: expected at least {least_columns}"
            )
        lengths = self._joined(1, np.int64)
        n_stored = int(lengths.sum())
        is_wide = max(n_stored, n_features) > _INT32_MAX
        index = np.dtype(np.int64 if is_wide else np.int32)
        indptr = np.zeros(len(lengths) + 1, index)
        np.cumsum(lengths, out=indptr[1:])
        indices = self._joined(2, index)
        if is_one_based:
            indices -= 1
        values = self._joined(3, self._dtype)
        X = csr_matrix((values, indices, indptr), shape=(len(lengths), n_features), copy=False)
        X.has_canonical_format = True
        y = self._joined(0, np.float64)
        self.forget()
        return X, y

    def _parsed(self, block: memoryview) -> Any:
        is_double = self._dtype == np.float64
        text = np.frombuffer(block, np.uint8)
        return _native.svmlight_rows(text, is_double, self._is_wide, self._least, self._n_threads)

    def _joined(self, which: int, dtype: Any) -> np.ndarray:
        """Return one array of all blocks, and forget its parts."""
        parts, self._arrays[which] = self._arrays[which], []
        joined = np.empty(sum(map(len, parts)), dtype)
        for begin, part in zip(np.cumsum([0, *map(len, parts)]), parts, strict=False):
            joined[begin : begin + len(part)] = part
        return joined


def _checked(name: str, number: Any, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, Integral) or number < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {number!r}")
    return int(number)
