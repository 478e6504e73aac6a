"""Compressed sparse rows, with or without stored values."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

__all__ = ["CheckedMatrix", "CompressedMatrix", "check_indices"]


@dataclass(frozen=True)
class CompressedMatrix:
    """Compressed sparse rows (CSR) over arrays the caller keeps.

    Estimators take it wherever they take a SciPy matrix. Without `values` every stored entry is
    one: a click log then needs only its indices.

    Parameters
    ----------
    indptr : ndarray of shape (n_rows + 1,), int32 or int64
        Row i holds entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    indices : ndarray of shape (n_stored,), int32 or int64
        Column of each entry, in ``[0, n_features)``.
    n_features : int
        Number of columns.
    values : ndarray of shape (n_stored,), float32 or float64, default=None
        The entries; None means that all are one.
    dtype : numpy dtype, default=None
        Type to compute in; None means that of `values`, or float32 without values.

    Raises
    ------
    TypeError
        If the arrays have other dtypes or `n_features` is not an integer.
    ValueError
        If an array is not a vector, `indptr` is empty or `n_features` is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml.data import CompressedMatrix
    >>> X = CompressedMatrix(np.array([0, 2, 3]), np.array([0, 4, 1]), n_features=5)
    >>> X.shape
    (2, 5)
    """

    indptr: np.ndarray
    indices: np.ndarray
    n_features: int
    values: np.ndarray | None = None
    dtype: Any = None

    def __post_init__(self) -> None:
        for name in ("indptr", "indices"):
            _check_vector(name, getattr(self, name), (np.int32, np.int64))
        if len(self.indptr) < 1:
            raise ValueError("indptr: expected at least 1 element, got 0")
        n_features: Any = self.n_features
        if isinstance(n_features, bool) or not isinstance(n_features, Integral):
            raise TypeError(f"n_features: expected an integer, got {self.n_features!r}")
        if self.n_features < 0:
            raise ValueError(f"n_features: expected at least 0, got {self.n_features}")
        if self.values is not None:
            _check_vector("values", self.values, (np.float32, np.float64))
        if self.indptr.dtype != self.indices.dtype:
            # The offsets are the short array: they follow the indices, or both become 64-bit.
            object.__setattr__(self, "indptr", self.indptr.astype(np.int64))
            object.__setattr__(self, "indices", self.indices.astype(np.int64, copy=False))
        dtype = self.dtype if self.dtype is not None else getattr(self.values, "dtype", np.float32)
        dtype = np.dtype(dtype)
        if dtype not in (np.float32, np.float64):
            raise TypeError(f"expected dtype float32 or float64, got {dtype}")
        if self.values is not None and self.values.dtype != dtype:
            raise TypeError(f"values: expected dtype {dtype}, got {self.values.dtype}")
        object.__setattr__(self, "dtype", dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.indptr) - 1, self.n_features

    @property
    def n_stored(self) -> int:
        """Entries that one sweep reads."""
        return len(self.indices)

    def check_indices(self) -> None:
        """Refuse offsets and indices that lead outside the arrays.

        Raises
        ------
        ValueError
            Which says where.
        """
        check_indices(self.indptr, self.indices, self.n_features)

    def take(self, rows: np.ndarray) -> CompressedMatrix:
        """Return a copy of some rows.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers.

        Returns
        -------
        CompressedMatrix
            The rows in the order asked for.

        Raises
        ------
        ValueError
            If the offsets of these rows lead outside the arrays.
        """
        first, last = self.indptr[rows].astype(np.int64), self.indptr[rows + 1].astype(np.int64)
        if bool(((first > last) | (first < 0) | (last > len(self.indices))).any()):
            self.check_indices()
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(last - first, out=indptr[1:])
        entries = np.arange(indptr[-1]) + np.repeat(first - indptr[:-1], last - first)
        values = None if self.values is None else self.values[entries]
        offsets = indptr.astype(self.indices.dtype)
        return CompressedMatrix(offsets, self.indices[entries], self.n_features, values, self.dtype)

    def summed(self) -> CompressedMatrix:
        """Return a copy in which entries of the same row and column are added up.

        Returns
        -------
        CompressedMatrix
            With sorted indices and values.
        """
        from scipy.sparse import csr_matrix

        values = self.values if self.values is not None else np.ones(self.n_stored, self.dtype)
        parts = (values, self.indices, self.indptr)
        copied = csr_matrix(parts, shape=self.shape, copy=True)
        copied.sum_duplicates()
        index_dtype = self.indices.dtype
        return CompressedMatrix(
            copied.indptr.astype(index_dtype, copy=False),
            copied.indices.astype(index_dtype, copy=False),
            self.n_features,
            copied.data,
        )


class CheckedMatrix(CompressedMatrix):
    """Compressed rows whose offsets and indices were found within the arrays, which are read-only.

    Whoever makes one has checked it: engines read it without another look.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.indptr.flags.writeable = False
        self.indices.flags.writeable = False


def _check_vector(name: str, array: Any, dtypes: tuple[Any, ...]) -> None:
    """Refuse what is not a vector of one of the dtypes."""
    if not isinstance(array, np.ndarray) or array.dtype not in dtypes:
        names = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        got = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"{name}: expected an ndarray of {names}, got {got}")
    if array.ndim != 1:
        raise ValueError(f"{name}: expected 1 dimension, got shape {array.shape}")


def check_indices(indptr: Any, indices: Any, n_columns: int) -> None:
    """Refuse offsets and indices that lead outside the arrays, which may be a device's.

    Parameters
    ----------
    indptr, indices : array of int32 or int64
        Of compressed rows.
    n_columns : int
        Number of columns.

    Raises
    ------
    ValueError
        Which says where.
    """
    if int(indptr[0]) != 0:
        raise ValueError(f"indptr must start with 0, got {int(indptr[0])}")
    falls = indptr[1:] < indptr[:-1]
    if bool(falls.any()):
        i = int(falls.argmax())
        raise ValueError(
            f"indptr must not decrease, got {int(indptr[i])} then {int(indptr[i + 1])} at row {i}"
        )
    end, n_given = int(indptr[-1]), len(indices)
    if end > n_given:
        raise ValueError(f"indptr ends at {end}, but only {n_given} indices are stored")
    is_wrong = (indices < 0) | (indices >= n_columns)
    if bool(is_wrong.any()):
        k = int(is_wrong.argmax())
        raise ValueError(
            f"column indices must lie in [0, {n_columns}), got {int(indices[k])} at position {k}"
        )
