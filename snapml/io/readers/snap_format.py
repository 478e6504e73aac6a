"""The binary format of IBM Snap ML: one matrix with labels, float32, 32-bit counts.

Little endian: the kind (0 dense, 1 sparse, 2 sparse without values), a byte that says whether
columns come first, the numbers of rows and columns; for sparse ones how many entries each row (or
column) has; the labels; then the entries, those of sparse ones as indices and values. Without
values the entries of a row are equal, and the row has length 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, issparse

__all__ = ["dump_snap", "load_snap", "snap_batches", "snap_layout"]

_HEADER = np.dtype([("kind", "<u4"), ("by_column", "u1"), ("n_rows", "<u4"), ("n_columns", "<u4")])
_DENSE, _SPARSE, _IMPLICIT = 0, 1, 2
_MOST = 2**32 - 1
# Counts that are added up at a time.
_BLOCK = 2**20


def load_snap(
    path: Any, *, rows: tuple[int, int] | None = None
) -> tuple[np.ndarray | csr_matrix, np.ndarray]:
    """Load a file of IBM Snap ML's binary format.

    Parameters
    ----------
    path : str or path-like
        The file.
    rows : tuple of int or None, default=None
        The first row, and the one behind the last; None means all, which files by columns ask for.

    Returns
    -------
    X : ndarray or scipy.sparse.csr_matrix of shape (n_rows, n_features), float32
        The rows; of a file by columns they are put together.
    y : ndarray of shape (n_rows,), float32
        Labels.

    Raises
    ------
    ValueError
        If the file is of another format, or does not have the size that its header asks for.
    OSError
        If it cannot be read.
    """
    header = _header(path)
    if not header.by_column:
        begin, end = _checked_rows(path, header, rows)
        n_before = 0 if header.kind == _DENSE else _n_entries(path, 0, begin)
        return _rows(path, header, begin, end - begin, n_before)
    _checked_rows(path, header, rows)
    if header.kind == _DENSE:
        values = _read(path, "<f4", header.n_rows * header.n_columns, header.values_at)
        X = values.reshape(header.shape, order="F")
        return np.ascontiguousarray(X), _read(path, "<f4", header.n_rows, header.labels_at)
    counts = _read(path, "<u4", header.n_lines, _HEADER.itemsize).astype(np.int64)
    y = _read(path, "<f4", header.n_rows, header.labels_at)
    return _sparse_part(path, header, 0, counts, header.n_stored), y


def snap_batches(
    path: Any, *, batch_bytes: int = 2**24, rows: tuple[int, int] | None = None
) -> Iterator[tuple[np.ndarray | csr_matrix, np.ndarray]]:
    """Load a file of IBM Snap ML's binary format batch by batch.

    Memory is bounded for files by rows; one by columns is loaded as a whole.

    Parameters
    ----------
    path : str or path-like
        The file.
    batch_bytes : int, default=16 MiB
        About the size of a batch.
    rows : tuple of int or None, default=None
        As for `load_snap`.

    Yields
    ------
    X : ndarray or scipy.sparse.csr_matrix of shape (n_batch_rows, n_features), float32
        Some rows, in their order.
    y : ndarray of shape (n_batch_rows,), float32
        Their labels.

    Raises
    ------
    ValueError, OSError
        As `load_snap` does.
    """
    header = _header(path)
    first, last = _checked_rows(path, header, rows)
    if header.by_column:
        yield load_snap(path)
        return
    rows_each = max(1, batch_bytes // max(4, 4 * header.n_columns))
    if header.kind != _DENSE:
        rows_each = max(1, batch_bytes * header.n_rows // max(1, 8 * header.n_stored))
    n_before = 0 if header.kind == _DENSE else _n_entries(path, 0, first)
    for begin in range(first, last, rows_each):
        X, y = _rows(path, header, begin, min(rows_each, last - begin), n_before)
        n_before += 0 if isinstance(X, np.ndarray) else X.nnz
        yield X, y


def snap_layout(path: Any) -> tuple[int, bool]:
    """Return what the header says.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    n_rows : int
        Number of rows.
    by_column : bool
        Whether columns come first, so that rows cannot be read apart.
    """
    header = _header(path)
    return header.n_rows, header.by_column


def dump_snap(
    X: Any, y: Any, path: Any, *, by_column: bool = False, implicit_values: bool = False
) -> None:
    """Write a file of IBM Snap ML's binary format.

    Parameters
    ----------
    X : array-like or SciPy sparse matrix of shape (n_rows, n_features)
        Rounded to float32.
    y : array-like of shape (n_rows,)
        Labels, rounded to float32.
    path : str or path-like
        The file; one that exists is replaced.
    by_column : bool, default=False
        Whether columns come first, as its primal solvers want them.
    implicit_values : bool, default=False
        Whether to leave out values: all entries of a sparse row must be equal, and its length 1.

    Raises
    ------
    ValueError
        If the numbers do not fit the format.
    """
    y = np.asarray(y, "<f4")
    n_rows, n_columns = X.shape
    if y.shape != (n_rows,):
        raise ValueError(f"y: expected shape ({n_rows},) as X has rows, got {y.shape}")
    if max(n_rows, n_columns) > _MOST:
        raise ValueError(f"expected at most {_MOST} rows and columns, got {n_rows} x {n_columns}")
    kind = (_IMPLICIT if implicit_values else _SPARSE) if issparse(X) else _DENSE
    if implicit_values and kind == _DENSE:
        raise ValueError("implicit_values: expected a sparse matrix, got a dense one")
    parts: list[np.ndarray] = [np.array((kind, by_column, n_rows, n_columns), _HEADER)]
    if kind == _DENSE:
        parts += [y, np.asarray(X, "<f4").ravel(order="F" if by_column else "C")]
    else:
        if implicit_values:
            _check_unit_rows(csr_matrix(X))
        lines = csc_matrix(X) if by_column else csr_matrix(X)
        parts += [np.diff(lines.indptr).astype("<u4"), y, lines.indices.astype("<u4")]
        if not implicit_values:
            parts.append(lines.data.astype("<f4"))
    with Path(path).open("wb") as stream:
        for part in parts:
            part.tofile(stream)


class _Header(NamedTuple):
    """What a file holds, and where."""

    kind: int
    by_column: bool
    n_rows: int
    n_columns: int
    n_stored: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.n_rows, self.n_columns

    @property
    def n_lines(self) -> int:
        """Rows, or columns where these come first."""
        return self.n_columns if self.by_column else self.n_rows

    @property
    def labels_at(self) -> int:
        """First byte of the labels."""
        return _HEADER.itemsize + (0 if self.kind == _DENSE else 4 * self.n_lines)

    @property
    def values_at(self) -> int:
        """First byte of the values, or of the indices."""
        return self.labels_at + 4 * self.n_rows


def _header(path: Any) -> _Header:
    """Read and check the header, and the size of the file."""
    n_bytes = Path(path).stat().st_size
    if n_bytes < _HEADER.itemsize:
        raise ValueError(f"{path}: expected a snap file, got {n_bytes} bytes")
    found = np.fromfile(path, _HEADER, 1)[0]
    kind, n_rows, n_columns = (int(found[k]) for k in ("kind", "n_rows", "n_columns"))
    if kind not in (_DENSE, _SPARSE, _IMPLICIT) or found["by_column"] > 1:
        raise ValueError(f"{path}: expected kind 0, 1 or 2 of a snap file, got {kind}")
    left, by_column = n_bytes - _HEADER.itemsize, bool(found["by_column"])
    if kind == _DENSE:
        _check_size(path, left, 4 * n_rows + 4 * n_rows * n_columns)
        return _Header(kind, by_column, n_rows, n_columns, n_rows * n_columns)
    n_lines = n_columns if by_column else n_rows
    _check_size(path, left, 4 * n_lines + 4 * n_rows, is_least=True)
    n_stored = _n_entries(path, 0, n_lines)
    each = 4 if kind == _IMPLICIT else 8
    _check_size(path, left, 4 * n_lines + 4 * n_rows + each * n_stored)
    return _Header(kind, by_column, n_rows, n_columns, n_stored)


def _checked_rows(path: Any, header: _Header, rows: tuple[int, int] | None) -> tuple[int, int]:
    if rows is None:
        return 0, header.n_rows
    if header.by_column:
        raise ValueError(f"{path}: rows={rows}: expected None, since columns come first here")
    if not 0 <= rows[0] <= rows[1] <= header.n_rows:
        raise ValueError(f"{path}: rows={rows}: expected two of 0 to {header.n_rows}, in order")
    return rows


def _n_entries(path: Any, begin: int, end: int) -> int:
    """Return how many entries some lines of a sparse file have."""
    n_stored = 0
    for at in range(begin, end, _BLOCK):
        counts = _read(path, "<u4", min(_BLOCK, end - at), _HEADER.itemsize + 4 * at)
        n_stored += int(counts.sum(dtype=np.int64))
    return n_stored


def _rows(
    path: Any, header: _Header, begin: int, n_rows: int, n_before: int
) -> tuple[np.ndarray | csr_matrix, np.ndarray]:
    """Read some rows of a file by rows, behind so many entries."""
    y = _read(path, "<f4", n_rows, header.labels_at + 4 * begin)
    if header.kind == _DENSE:
        place = header.values_at + 4 * begin * header.n_columns
        values = _read(path, "<f4", n_rows * header.n_columns, place)
        return values.reshape(n_rows, header.n_columns), y
    counts = _read(path, "<u4", n_rows, _HEADER.itemsize + 4 * begin).astype(np.int64)
    return _sparse_part(path, header, n_before, counts, int(counts.sum())), y


def _read(path: Any, dtype: str, count: int, offset: int) -> np.ndarray:
    """Read numbers, in the machine's byte order."""
    found = np.fromfile(path, dtype, count, offset=offset)
    if len(found) < count:
        raise ValueError(f"{path}: expected {count} numbers from byte {offset} on: cut short")
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def _sparse_part(
    path: Any, header: _Header, first: int, counts: np.ndarray, n_stored: int
) -> csr_matrix:
    """Read the compressed rows, or all columns, whose entries begin at number `first`."""
    indices = _read(path, "<u4", n_stored, header.values_at + 4 * first)
    shape = header.shape if header.by_column else (len(counts), header.n_columns)
    n_across = header.n_rows if header.by_column else header.n_columns
    if len(indices) and int(indices.max()) >= n_across:
        raise ValueError(f"{path}: expected indices below {n_across}, got {indices.max()}")
    indptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    index = np.int32 if max(len(indices), *shape) < 2**31 else np.int64
    if header.kind == _IMPLICIT:
        values = np.ones(len(indices), np.float32)
    else:
        values = _read(path, "<f4", n_stored, header.values_at + 4 * (header.n_stored + first))
    arrays = values, indices.astype(index), indptr.astype(index)
    by_column = header.by_column
    X = csc_matrix(arrays, shape=shape).tocsr() if by_column else csr_matrix(arrays, shape=shape)
    if header.kind == _IMPLICIT:
        lengths = np.diff(X.indptr)
        with np.errstate(divide="ignore"):
            X.data[:] = np.repeat((1.0 / np.sqrt(lengths)).astype(np.float32), lengths)
    return X


def _check_size(path: Any, n_bytes: int, expected: int, *, is_least: bool = False) -> None:
    if n_bytes < expected or (n_bytes > expected and not is_least):
        raise ValueError(
            f"{path}: expected {expected} bytes behind the header of the snap file, got {n_bytes}"
        )


def _check_unit_rows(X: csr_matrix) -> None:
    lengths = np.diff(X.indptr)
    with np.errstate(divide="ignore"):
        expected = np.repeat(1.0 / np.sqrt(lengths), lengths)
    if not np.allclose(X.data, expected, rtol=1e-5):
        raise ValueError(
            "implicit_values: expected rows of equal positive entries and length 1, got others"
        )
