"""Rows, labels and weights in a device's memory, as the launches take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["CompressedRows", "DenseRows", "Targets", "check_array"]


@dataclass(frozen=True)
class DenseRows:
    """A row-major matrix.

    Attributes
    ----------
    values : array of shape (n_rows, n_cols), float32 or float64
        C-contiguous, in the device's memory.
    """

    values: Any

    def __post_init__(self) -> None:
        check_array("values", self.values, (np.float32, np.float64), (None, None))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return np.dtype(self.values.dtype)


@dataclass(frozen=True)
class CompressedRows:
    """A matrix in CSR form.

    Attributes
    ----------
    indptr : array of shape (n_rows + 1,), int32 or int64
        Where each row begins.
    indices : array, int32 or int64
        Column numbers, which the caller has checked.
    values : array of float32 or float64, or None
        Entries; None where all of them are `constant`.
    n_cols : int
        Number of columns.
    constant : float, default=1.0
        See `values`.
    dtype : numpy.dtype, default=float32
        Type of the entries; that of `values` where there are some.
    """

    indptr: Any
    indices: Any
    values: Any
    n_cols: int
    constant: float = 1.0
    dtype: Any = np.float32

    def __post_init__(self) -> None:
        check_array("indptr", self.indptr, (np.int32, np.int64), (None,))
        check_array("indices", self.indices, (np.int32, np.int64), (None,))
        if self.values is not None:
            check_array("values", self.values, (np.float32, np.float64), self.indices.shape)
        dtype = self.dtype if self.values is None else self.values.dtype
        object.__setattr__(self, "dtype", np.dtype(dtype))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.indptr.shape[0]) - 1, self.n_cols


@dataclass(frozen=True)
class Targets:
    """Labels, weights and offsets of K outputs that share the rows.

    Attributes
    ----------
    labels : array of shape (n_outputs, n_rows), or (n_rows,) for the softmax
        Of the matrix's type; class numbers for the softmax.
    row_weights : array of shape (n_rows,) or (n_outputs, n_rows), or None
        Of the matrix's type; None where every row has `weight`.
    weight : float
        See `row_weights`.
    n_outputs : int
        How many margins a row has.
    offsets : array of shape (n_rows,) or (n_outputs, n_rows), float64, or None, default=None
        Added to the margins; None where there are none.
    """

    labels: Any
    row_weights: Any
    weight: float
    n_outputs: int
    offsets: Any = None

    def arguments(self, n_rows: int, dtype: np.dtype, *, is_softmax: bool) -> tuple[Any, ...]:
        """Return what the kernels take, checked against the matrix."""
        all_shape = (self.n_outputs, n_rows)
        check_array(
            "labels", self.labels, (dtype.type,), all_shape[-1:] if is_softmax else all_shape
        )
        stride = 0
        if self.row_weights is not None:
            differ = self.row_weights.ndim == 2
            stride = n_rows if differ else 0
            shape = all_shape if differ else all_shape[-1:]
            check_array("row_weights", self.row_weights, (dtype.type,), shape)
        return (self.labels, self.row_weights, np.int64(stride), np.float64(self.weight))

    def offset_arguments(self, n_rows: int) -> tuple[Any, ...]:
        """Return the offsets as a kernel takes them: with the distance of two outputs'."""
        if self.offsets is None:
            return (None, np.int64(0))
        differ = self.offsets.ndim == 2
        check_array(
            "offsets", self.offsets, (np.float64,), (self.n_outputs, n_rows)[0 if differ else 1 :]
        )
        return (self.offsets, np.int64(n_rows if differ else 0))


def check_array(
    name: str, array: Any, types: tuple[type, ...], shape: tuple[int | None, ...]
) -> None:
    """Raise unless an array is what a kernel reads without asking.

    Parameters
    ----------
    name : str
        What to call it.
    array : array
        To be checked.
    types : tuple of type
        NumPy scalar types that are allowed.
    shape : tuple of int or None
        Expected shape; None allows any length.
    """
    if np.dtype(array.dtype).type not in types:
        expected = " or ".join(np.dtype(t).name for t in types)
        raise TypeError(f"{name}: expected {expected}, got {array.dtype}")
    fits = len(array.shape) == len(shape) and all(
        expected in (None, length) for length, expected in zip(array.shape, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name}: expected C order, got strides {array.strides}")
