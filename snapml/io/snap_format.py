"""The binary format of IBM Snap ML: one matrix with labels, float32, 32-bit counts.

Little endian: the kind (0 dense, 1 sparse, 2 sparse without values), a byte that says whether
columns come first, the numbers of rows and columns; for sparse ones how many entries each row (or
column) has; the labels; then the entries, those of sparse ones as indices and values. Without
values the entries of a row are equal, and the row has length 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, issparse

__all__ = ["dump_snap", "load_snap"]

_HEADER = np.dtype([("kind", "<u4"), ("by_column", "u1"), ("n_rows", "<u4"), ("n_columns", "<u4")])
_DENSE, _SPARSE, _IMPLICIT = 0, 1, 2
_MOST = 2**32 - 1


def load_snap(path: Any) -> tuple[np.ndarray | csr_matrix, np.ndarray]:
    """Load a file of IBM Snap ML's binary format.

    Parameters
    ----------
    path : str or path-like
        The file.

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
    source = Path(path)
    n_bytes = source.stat().st_size
    if n_bytes < _HEADER.itemsize:
        raise ValueError(f"{path}: expected a snap file, got {n_bytes} bytes")
    with source.open("rb") as stream:
        header = np.fromfile(stream, _HEADER, 1)[0]
        kind, n_rows, n_columns = (int(header[k]) for k in ("kind", "n_rows", "n_columns"))
        if kind not in (_DENSE, _SPARSE, _IMPLICIT) or header["by_column"] > 1:
            raise ValueError(f"{path}: expected kind 0, 1 or 2 of a snap file, got {kind}")
        shape, by_column = (n_rows, n_columns), bool(header["by_column"])
        left = n_bytes - _HEADER.itemsize
        if kind == _DENSE:
            _check_size(path, left, 4 * n_rows + 4 * n_rows * n_columns)
            y = np.fromfile(stream, "<f4", n_rows)
            values = np.fromfile(stream, "<f4", n_rows * n_columns)
            order = np.dtype(np.float32)
            X = values.astype(order, copy=False).reshape(shape, order="F" if by_column else "C")
            return np.ascontiguousarray(X), y.astype(order, copy=False)
        n_lines = n_columns if by_column else n_rows
        _check_size(path, left, 4 * n_lines + 4 * n_rows, is_least=True)
        counts = np.fromfile(stream, "<u4", n_lines).astype(np.int64)
        n_stored = int(counts.sum())
        each = 4 if kind == _IMPLICIT else 8
        _check_size(path, left, 4 * n_lines + 4 * n_rows + each * n_stored)
        y = np.fromfile(stream, "<f4", n_rows).astype(np.float32, copy=False)
        indices = np.fromfile(stream, "<u4", n_stored)
        stored = np.fromfile(stream, "<f4", 0 if kind == _IMPLICIT else n_stored)
    return _rows(path, shape, counts, indices, stored, by_column=by_column, kind=kind), y


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


def _rows(
    path: Any,
    shape: tuple[int, int],
    counts: np.ndarray,
    indices: np.ndarray,
    stored: np.ndarray,
    *,
    by_column: bool,
    kind: int,
) -> csr_matrix:
    """Return the compressed rows of a sparse file."""
    n_across = shape[0] if by_column else shape[1]
    if len(indices) and int(indices.max()) >= n_across:
        raise ValueError(f"{path}: expected indices below {n_across}, got {indices.max()}")
    indptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    index = np.int32 if max(len(indices), *shape) < 2**31 else np.int64
    values = np.ones(len(indices), np.float32) if kind == _IMPLICIT else stored
    arrays = values.astype(np.float32, copy=False), indices.astype(index), indptr.astype(index)
    X = csc_matrix(arrays, shape=shape).tocsr() if by_column else csr_matrix(arrays, shape=shape)
    if kind == _IMPLICIT:
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
