"""Batches from npy files, and from iterators of what users have in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from snapml.data import CompressedMatrix
from snapml.io.readers.arrow_columns import dense_batch, roles_of
from snapml.io.readers.arrow_package import pyarrow_for
from snapml.io.readers.batch import BATCH_BYTES, Batch

__all__ = ["iterator_batches", "npy_batches"]


def npy_batches(
    path: Path,
    label: Any,
    weight: Any,
    dtype: np.dtype | None,
    on_read: Callable[[int], Any],
    part: tuple[int, int] | None = None,
) -> tuple[tuple[int, int], np.dtype, Iterator[Batch]]:
    """Open an npy file of two dimensions.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    label, weight : int or None
        Columns of labels and weights; the others are features.
    dtype : numpy dtype or None
        Of the batches; None keeps float32 and float64, and makes float64 of others.
    on_read : callable
        Told the bytes that are read.
    part : tuple of int or None, default=None
        The first row, and the one behind the last; None means all.

    Returns
    -------
    shape : tuple of int
        Numbers of rows and features.
    dtype : numpy dtype
        Of the batches.
    batches : iterator of Batch
        The rows.

    Raises
    ------
    ValueError
        If the file is damaged, has no such columns, or no two dimensions.
    TypeError
        If it does not hold real numbers.
    """
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: expected an npy file of numbers: {error}") from error
    if not isinstance(rows, np.ndarray) or rows.ndim != 2:
        raise ValueError(f"{path}: expected 2 dimensions, got shape {getattr(rows, 'shape', None)}")
    if rows.dtype.kind not in "biuf":
        raise TypeError(f"{path}: expected real numbers, got dtype {rows.dtype}")
    if part is not None:
        if not 0 <= part[0] <= part[1] <= len(rows):
            raise ValueError(f"{path}: rows={part}: expected two of 0 to {len(rows)}, in order")
        rows = rows[slice(*part)]
    n_columns = rows.shape[1]
    special = [_number(path, n_columns, *pair) for pair in (("label", label), ("weight", weight))]
    features = [k for k in range(n_columns) if k not in special]
    if dtype is None:
        dtype = np.dtype(np.float32 if rows.dtype == np.float32 else np.float64)
    is_plain = len(features) == n_columns
    rows_each = max(1, BATCH_BYTES // max(1, n_columns * rows.dtype.itemsize))

    def batches() -> Iterator[Batch]:
        for begin in range(0, len(rows), rows_each):
            block = np.asarray(rows[begin : begin + rows_each])
            X = np.ascontiguousarray(block if is_plain else block[:, features], dtype)
            y, weights = (None if k is None else block[:, k].astype(np.float64) for k in special)
            on_read(block.nbytes)
            yield Batch(X, y, weights)

    return (len(rows), len(features)), dtype, batches()


def iterator_batches(
    source: Iterator[Any],
    name: str,
    label: Any,
    weight: Any,
    dtype: np.dtype | None,
    columns: Sequence[str] | None,
) -> Iterator[Batch]:
    """Check what an iterator yields.

    Parameters
    ----------
    source : iterator
        Of `X`, ``(X, y)`` or ``(X, y, sample_weight)``; X is an array, a sparse matrix, a frame or
        an Arrow batch.
    name : str
        For messages.
    label, weight : str, int or None
        Columns of frames and Arrow batches.
    dtype : numpy dtype or None
        Of the batches; None takes that of the first.
    columns : sequence of str or None
        Features of frames and Arrow batches; None means all other columns.

    Yields
    ------
    Batch
        The rows of each.

    Raises
    ------
    TypeError
        If it yields something else.
    ValueError
        If the batches differ in width, or in having labels or weights.
    """
    first: tuple[int, bool, bool] | None = None
    for number, found in enumerate(source):
        parts = found if isinstance(found, tuple) else (found,)
        if not 1 <= len(parts) <= 3:
            raise TypeError(
                f"{name}, batch {number}: expected X, (X, y) or (X, y, sample_weight), got a tuple "
                f"of {len(parts)}"
            )
        where = f"{name}, batch {number}"
        for batch in _taken_apart(parts, where, label, weight, dtype, columns):
            own = (batch.X.shape[1], batch.y is not None, batch.sample_weight is not None)
            dtype = batch.X.dtype if dtype is None else dtype
            is_dense = isinstance(batch.X, np.ndarray)
            if first is not None and (own[1:] != first[1:] or (is_dense and own[0] != first[0])):
                raise ValueError(
                    f"{where}: expected (columns, has labels, has weights) = {first} as in the "
                    f"batches before, got {own}"
                )
            first = first or own
            yield batch


def _taken_apart(
    parts: tuple[Any, ...],
    where: str,
    label: Any,
    weight: Any,
    dtype: np.dtype | None,
    columns: Sequence[str] | None,
) -> Iterator[Batch]:
    """Return what was yielded, in batches."""
    X, *vectors = parts
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        table = pyarrow_for(where).table(X).combine_chunks()
        roles = roles_of(
            where, table.schema, label=label, weight=weight, columns=columns, dtype=dtype
        )
        parts = table.to_batches()
        first_rows = accumulate((part.num_rows for part in parts), initial=0)
        found = [dense_batch(part, roles, row) for part, row in zip(parts, first_rows)]  # noqa: B905 - one more
        if vectors and found:
            if label is not None or weight is not None or len(found) > 1:
                raise ValueError(f"{where}: expected labels as a column, or beside X, not both")
            found = [found[0]._replace(**dict(zip(("y", "sample_weight"), vectors, strict=False)))]
        yield from found
        return
    if label is not None or weight is not None:
        raise TypeError(
            f"{where}: expected a frame with the columns label={label!r}, weight={weight!r}, got "
            f"{type(X).__name__}"
        )
    yield Batch(_rows(X, where, dtype), *(None if v is None else np.asarray(v) for v in vectors))


def _rows(X: Any, where: str, dtype: np.dtype | None) -> Any:
    """Return rows as the writer of a store takes them."""
    if isinstance(X, CompressedMatrix):
        if dtype is None or X.dtype == dtype:
            return X
        values = None if X.values is None else X.values.astype(dtype)
        return CompressedMatrix(X.indptr, X.indices, X.n_features, values, dtype)
    is_sparse = issparse(X)
    try:
        X = X.tocsr() if is_sparse else np.asarray(X)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{where}: expected rows of numbers: {error}") from error
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(
            f"{where}: expected rows of numbers, got {type(X).__name__} of {X.ndim} dimensions and "
            f"dtype {X.dtype}"
        )
    if dtype is None:
        dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    return X.astype(dtype, copy=False)


def _number(path: Path, n_columns: int, role: str, which: Any) -> int | None:
    if which is None:
        return None
    if isinstance(which, bool) or not isinstance(which, int) or not -n_columns <= which < n_columns:
        raise ValueError(
            f"{path}: {role}={which!r}: expected the number of a column, below {n_columns}"
        )
    return which % n_columns
