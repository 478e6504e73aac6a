"""Columns of Arrow batches as dense rows; which of them are features, labels and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.io.readers.batch import Batch

__all__ = [
    "ColumnRoles",
    "dense_batch",
    "labels_and_weights",
    "roles_of",
    "text_advice",
    "texts_of",
    "to_vector",
]

# Bytes of a block of rows that columns are written to in turn: the second-level cache holds it.
_BLOCK_BYTES = 2**18


@dataclass(frozen=True)
class ColumnRoles:
    """What the columns of a source are for.

    Attributes
    ----------
    source : str
        What messages call the source.
    features : tuple of str
        Columns of the matrix, in their order; a column of lists is several of them.
    label, weight : str or None
        Columns of labels and weights.
    dtype : numpy dtype
        Of the matrix.
    """

    source: str
    features: tuple[str, ...]
    label: str | None
    weight: str | None
    dtype: np.dtype

    @property
    def all(self) -> list[str]:
        """Every column that is read."""
        return [*self.features, *(name for name in (self.label, self.weight) if name is not None)]


def roles_of(
    source: str,
    schema: Any,
    *,
    label: Any = None,
    weight: Any = None,
    columns: Sequence[str] | None = None,
    dtype: Any = None,
    is_checked: bool = True,
) -> ColumnRoles:
    """Decide what the columns of a schema are for, and refuse what is not numeric.

    Parameters
    ----------
    source : str
        For messages.
    schema : pyarrow.Schema
        Names and types.
    label, weight : str, int or None, default=None
        Names or numbers of columns; None means none.
    columns : sequence of str or None, default=None
        Features; None means all other columns.
    dtype : numpy dtype or None, default=None
        float32 or float64; None takes float32 where it holds all features as they are.
    is_checked : bool, default=True
        Whether features must be numbers, or lists of them.

    Returns
    -------
    ColumnRoles
        What to read.

    Raises
    ------
    ValueError
        If a column is missing, named twice, or there are no features.
    TypeError
        If a column is not numeric.
    """
    names = list(schema.names)
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"{source}: expected columns of different names, got twice: {repeated}")
    special = [_name_of(source, names, role, which)
               for role, which in (("label", label), ("weight", weight))]  # fmt: skip
    features = tuple(name for name in names if name not in special)
    if columns is not None:
        features = tuple(_name_of(source, names, "columns", name) or "" for name in columns)
    if not features:
        raise ValueError(f"{source}: expected at least one column of features, got none")
    if special[0] is not None:
        _check_label_type(source, special[0], schema.field(special[0]).type)
    if is_checked:
        for name in (*features, special[1]):
            if name is not None:
                is_vector = _is_list(schema.field(name).type) and name not in special
                _check_type(source, name, schema.field(name).type, is_vector=is_vector)
    types = [_element(schema.field(name).type) for name in features]
    wanted = _common(types) if dtype is None and is_checked else np.dtype(dtype or np.float32)
    return ColumnRoles(source, features, special[0], special[1], wanted)


def texts_of(schema: Any, names: Sequence[str]) -> list[str]:
    """Return which columns an encoder takes for text, and not for numbers.

    Parameters
    ----------
    schema : pyarrow.Schema
        Names and types.
    names : sequence of str
        Columns.

    Returns
    -------
    list of str
        In their order.
    """
    import pyarrow.types as types

    kinds = {name: schema.field(name).type for name in names}
    return [
        name
        for name, kind in kinds.items()
        if not (types.is_integer(kind) or types.is_floating(kind))
    ]


def dense_batch(record_batch: Any, roles: ColumnRoles, first_row: int) -> Batch:
    """Return the rows of an Arrow batch.

    Parameters
    ----------
    record_batch : pyarrow.RecordBatch
        With the columns of `roles`.
    roles : ColumnRoles
        What they are for.
    first_row : int
        How many rows of the source come before the batch, for messages.

    Returns
    -------
    Batch
        Dense rows of ``roles.dtype`` in C order.

    Raises
    ------
    ValueError
        If a column holds nulls, or lists of different lengths.
    """
    parts = [_values(record_batch.column(name), name, roles, first_row) for name in roles.features]
    X = _side_by_side(parts, record_batch.num_rows, roles.dtype)
    return Batch(X, *labels_and_weights(record_batch, roles, first_row))


def labels_and_weights(
    record_batch: Any, roles: ColumnRoles, first_row: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the labels and weights of an Arrow batch.

    Parameters
    ----------
    record_batch : pyarrow.RecordBatch
        With the columns of `roles`.
    roles : ColumnRoles
        What they are for.
    first_row : int
        How many rows of the source come before the batch, for messages.

    Returns
    -------
    labels : ndarray of shape (n_rows,), or None
        Numbers, booleans, or text as objects.
    weights : ndarray of shape (n_rows,), or None
        Numbers.

    Raises
    ------
    ValueError
        If there are nulls.
    """
    y = weights = None
    if roles.label is not None:
        column = record_batch.column(roles.label)
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        y = to_vector(column, roles.label, roles, first_row, wanted="a label")
    if roles.weight is not None:
        weights = to_vector(record_batch.column(roles.weight), roles.weight, roles, first_row)
    return y, weights


def to_vector(
    column: Any, name: str, roles: ColumnRoles, first_row: int, wanted: str = "a number"
) -> np.ndarray:
    """Return a column of numbers.

    Parameters
    ----------
    column : pyarrow.Array
        Numbers or booleans; of labels also text.
    name : str
        Its name, for messages.
    roles : ColumnRoles
        Names the source in messages.
    first_row : int
        How many rows of the source come before the batch, for messages.
    wanted : str, default='a number'
        What every row should have, for messages.

    Returns
    -------
    ndarray of shape (n_rows,)
        Over the column's memory, except for booleans and text.

    Raises
    ------
    ValueError
        If there are nulls.
    """
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        advice = "fill in what is missing, leave out such rows, or hash the columns (encoder=...)"
        if wanted != "a number":
            advice = "leave out rows without one"
        raise ValueError(
            f"{roles.source}: column {name!r}, row {first_row + row} (counted from 0): expected "
            f"{wanted}, got null ({column.null_count} in {len(column)} rows): {advice}"
        )
    return column.to_numpy(zero_copy_only=False)


def _values(column: Any, name: str, roles: ColumnRoles, first_row: int) -> np.ndarray:
    """Return a feature as a vector, or a column of lists as a matrix."""
    if not _is_list(column.type):
        return to_vector(column, name, roles, first_row)
    if hasattr(column, "storage"):
        column = column.storage
    n_rows = len(column)
    if column.null_count:
        raise ValueError(
            f"{roles.source}: column {name!r}, rows from {first_row} on: expected lists, "
            f"got {column.null_count} nulls"
        )
    values = to_vector(column.flatten(), name, roles, first_row)
    width = len(values) // max(1, n_rows)
    if not hasattr(column.type, "list_size") and n_rows:
        lengths = np.diff(column.offsets.to_numpy())
        if (lengths != lengths[0]).any():
            raise ValueError(
                f"{roles.source}: column {name!r}, rows from {first_row} on: expected lists of one "
                f"length, got {int(lengths.min())} to {int(lengths.max())}"
            )
    return values.reshape(n_rows, width)


def _side_by_side(parts: list[np.ndarray], n_rows: int, dtype: np.dtype) -> np.ndarray:
    """Return columns as rows: block by block, so that a row is complete while it is in the cache.

    Column by column over all rows would fetch every line of memory once for each column.
    """
    widths = [1 if part.ndim == 1 else part.shape[1] for part in parts]
    first = np.cumsum([0, *widths])
    out = np.empty((n_rows, int(first[-1])), dtype)
    step = max(64, _BLOCK_BYTES // max(1, out.shape[1] * dtype.itemsize))
    places = [
        int(begin) if part.ndim == 1 else slice(int(begin), int(begin) + part.shape[1])
        for begin, part in zip(first, parts, strict=False)
    ]
    for begin in range(0, n_rows, step):
        block = out[begin : begin + step]
        for place, part in zip(places, parts, strict=True):
            block[:, place] = part[begin : begin + step]
    return out


def _name_of(source: str, names: list[str], role: str, which: Any) -> str | None:
    """Return the name of a column that a parameter names or numbers."""
    if which is None:
        return None
    if isinstance(which, str) and which in names:
        return which
    if isinstance(which, int) and -len(names) <= which < len(names):
        return names[which]
    shown = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    raise ValueError(
        f"{source}: {role}={which!r}: expected the name or number of a column: {shown}"
    )


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    kind = getattr(kind, "storage_type", kind)
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _element(kind: Any) -> Any:
    kind = getattr(kind, "storage_type", kind)
    return kind.value_type if _is_list(kind) else kind


def _check_type(source: str, name: str, kind: Any, *, is_vector: bool) -> None:
    import pyarrow.types as types

    element = _element(kind) if is_vector else kind
    if types.is_integer(element) or types.is_floating(element) or types.is_boolean(element):
        return
    hint = ""
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        hint = f"; {text_advice(name)}"
    raise TypeError(f"{source}: column {name!r}: expected numbers, got type {kind}{hint}")


def text_advice(name: str) -> str:
    """Return what to do with a column of text.

    Parameters
    ----------
    name : str
        Of the column.

    Returns
    -------
    str
        For the end of a message.
    """
    return (
        f"text can be the label (label={name!r}), or be hashed to columns of ones beside those of "
        f"numbers (encoder=snapml.io.ClickLogEncoder(keep_numbers=True))"
    )


def _check_label_type(source: str, name: str, kind: Any) -> None:
    import pyarrow.types as types

    value = kind.value_type if types.is_dictionary(kind) else kind
    is_text = types.is_string(value) or types.is_large_string(value)
    if not (is_text or types.is_string_view(value)):
        _check_type(source, name, value, is_vector=False)


def _common(types: list[Any]) -> np.dtype:
    """Return float32 if it holds numbers of all types exactly, else float64."""
    is_small = all(np.can_cast(kind.to_pandas_dtype(), np.float32) for kind in types)
    return np.dtype(np.float32 if is_small else np.float64)
