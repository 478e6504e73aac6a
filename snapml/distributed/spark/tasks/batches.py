"""Rows of Arrow batches as Spark sends them: vectors, arrays or columns of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.data import CompressedMatrix
from snapml.distributed.spark.tasks.request import FitRequest

__all__ = ["FEATURES", "LABEL", "OFFSET", "WEIGHT", "RowBatch", "rows_of"]

FEATURES, LABEL, WEIGHT, OFFSET = "features", "label", "weight", "offset"
"""Names of the columns that tasks get; columns of numbers have the first one and their number."""


@dataclass(frozen=True)
class RowBatch:
    """Rows of one layout.

    Attributes
    ----------
    X : ndarray or CompressedMatrix of shape (n_rows, n_features), float64
        The rows, over the memory of the batch; without values where all entries are one.
    y : ndarray of shape (n_rows,), float64
        Labels.
    weights, offsets : ndarray of shape (n_rows,), float64, or None
        Weights, and what is added to margins.
    """

    X: Any
    y: np.ndarray
    weights: np.ndarray | None
    offsets: np.ndarray | None = None


def rows_of(batch: Any, request: FitRequest) -> Iterator[RowBatch]:
    """Return the rows of an Arrow batch, dense vectors apart from sparse ones.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        With the columns `LABEL`, `WEIGHT` and `OFFSET` where there are such, and `FEATURES`.
    request : FitRequest
        Names the DataFrame's columns in errors.

    Yields
    ------
    RowBatch
        One or two.

    Raises
    ------
    ValueError
        If there are nulls, NaN or infinities, labels that are no classes, negative weights, or rows
        of different sizes.
    """
    offsets = None
    if request.offset_col is not None:
        offsets = _numbers(batch, OFFSET, f"offsetCol={request.offset_col!r}")
    if request.model == "linear":  # from whose labels they were taken
        offsets = None
    name = f"labelCol={request.label_col!r}"
    y = _numbers(batch, LABEL, name)
    if request.model not in ("linear", "glm"):
        _refuse((y < 0.0) | (y != np.floor(y)), f"{name}: expected classes 0, 1, 2, ...", y)
    weights = None
    if request.weight_col is not None:
        name = f"weightCol={request.weight_col!r}"
        weights = _numbers(batch, WEIGHT, name)
        _refuse(weights < 0.0, f"{name}: expected weights of at least 0", weights)
    for rows, X in _features(batch, request):
        own = [None if values is None else values[rows] for values in (weights, offsets)]
        yield RowBatch(X, y[rows], *own)


def _features(batch: Any, request: FitRequest) -> Iterator[tuple[Any, Any]]:
    if not isinstance(request.features_col, str):
        columns = [
            _numbers(batch, f"{FEATURES}{k}", f"featuresCol: column {name!r}")
            for k, name in enumerate(request.features_col)
        ]
        yield slice(None), np.column_stack(columns)
        return
    column, name = batch.column(FEATURES), f"featuresCol={request.features_col!r}"
    if column.null_count:
        raise ValueError(f"{name}: expected a vector in every row, got {column.null_count} nulls")
    if not hasattr(column, "field"):  # an array of lists, not of structures
        yield slice(None), _dense(*_lists(column, name), name)
        return
    is_sparse = column.field("type").to_numpy(zero_copy_only=False) == 0
    if not is_sparse.all():
        rows = np.flatnonzero(~is_sparse)
        part = column if len(rows) == len(column) else column.take(_indices(rows))
        yield rows, _dense(*_lists(part.field("values"), name), name)
    if is_sparse.any():
        rows = np.flatnonzero(is_sparse)
        part = column if len(rows) == len(column) else column.take(_indices(rows))
        yield rows, _compressed(part, name)


def _compressed(column: Any, name: str) -> CompressedMatrix:
    sizes = column.field("size").to_numpy(zero_copy_only=False)
    _refuse(sizes != sizes[0], f"{name}: expected vectors of one size", sizes)
    offsets, values = _lists(column.field("values"), name)
    others, indices = _lists(column.field("indices"), name)
    if not np.array_equal(offsets, others):
        raise ValueError(f"{name}: expected as many indices as values in every vector")
    has_ones = bool((values == 1.0).all())
    if not has_ones:
        _refuse(~np.isfinite(values), f"{name}: expected finite entries", values)
    kept = None if has_ones else values
    matrix = CompressedMatrix(offsets, indices, int(sizes[0]), kept, np.float64)
    matrix.check_indices()
    return matrix


def _dense(offsets: np.ndarray, values: np.ndarray, name: str) -> np.ndarray:
    lengths = np.diff(offsets)
    _refuse(lengths != lengths[0], f"{name}: expected vectors of one size", lengths)
    rows = values.reshape(len(lengths), int(lengths[0]))
    _refuse(~np.isfinite(rows).all(axis=1), f"{name}: expected finite entries", rows)
    return rows


def _lists(column: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return where lists begin and the last one ends, and their entries one after the other."""
    if column.null_count:
        raise ValueError(f"{name}: expected a value in every row, got {column.null_count} nulls")
    offsets = column.offsets.to_numpy()
    entries = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    if entries.null_count:
        raise ValueError(f"{name}: expected numbers, got {entries.null_count} nulls among entries")
    return offsets - offsets[0], entries.to_numpy()


def _numbers(batch: Any, column: str, name: str) -> np.ndarray:
    found = batch.column(column)
    if found.null_count:
        raise ValueError(f"{name}: expected numbers, got {found.null_count} nulls")
    values: np.ndarray = found.to_numpy(zero_copy_only=False)
    _refuse(~np.isfinite(values), f"{name}: expected finite numbers", values)
    return values


def _indices(rows: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.array(rows)


def _refuse(is_bad: np.ndarray, expected: str, values: np.ndarray) -> None:
    """Raise where rows are bad, and say what one of them holds."""
    if is_bad.any():
        where = int(np.argmax(is_bad))
        content = np.array2string(values[where], threshold=8)
        raise ValueError(f"{expected}, got {content} in row {where} of {len(values)} of a batch")
