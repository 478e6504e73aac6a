"""Rows of a pandas batch, as Spark hands features to a function, as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

__all__ = ["feature_rows", "finite_offsets"]


def feature_rows(batch: Any, n_features: int, columns: str | list[str]) -> Any:
    """Return the rows of a batch.

    Parameters
    ----------
    batch : pandas.DataFrame
        Of `columns.features_struct`.
    n_features : int
        Of the model.
    columns : str or list of str
        Names of the DataFrame's columns, for errors.

    Returns
    -------
    ndarray or csr_matrix of shape (n_rows, n_features)
        Sparse where a vector is.

    Raises
    ------
    ValueError
        If there is a null, a NaN or an infinity, or a vector of another size.
    """
    if not isinstance(columns, str):
        X = batch.to_numpy(dtype=np.float64, na_value=np.nan)
        for k, name in enumerate(columns):
            _refuse(~np.isfinite(X[:, k]), f"featuresCol: column {name!r}", "finite numbers", X)
        return X
    name = f"featuresCol={columns!r}"
    values = batch["values"].to_numpy()
    is_null = np.fromiter((not isinstance(row, np.ndarray) for row in values), bool, len(values))
    _refuse(is_null, name, "a vector in every row", values)
    if "type" not in batch or (batch["type"] == 1).all():
        return _dense(values, n_features, name)
    return _sparse(batch, values, n_features, name)


def finite_offsets(batch: Any, name: str) -> np.ndarray:
    """Return the offsets of a batch.

    Parameters
    ----------
    batch : pandas.Series
        Of numbers.
    name : str
        Of the DataFrame's column, for errors.

    Returns
    -------
    ndarray of shape (n_rows,), float64
        Finite.

    Raises
    ------
    ValueError
        If there is a null, a NaN or an infinity.
    """
    offsets: np.ndarray = batch.to_numpy(dtype=np.float64, na_value=np.nan)
    _refuse(~np.isfinite(offsets), f"offsetCol={name!r}", "finite numbers", offsets)
    return offsets


def _dense(values: np.ndarray, n_features: int, name: str) -> np.ndarray:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    _refuse(lengths != n_features, name, f"vectors of {n_features} entries", lengths)
    X = _joined(values, np.float64).reshape(len(values), n_features)
    _refuse(~np.isfinite(X).all(axis=1), name, "finite entries", X)
    return X


def _sparse(batch: Any, values: np.ndarray, n_features: int, name: str) -> csr_matrix:
    is_dense = (batch["type"] == 1).to_numpy()
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    sizes = np.where(is_dense, lengths, batch["size"].to_numpy(dtype=np.float64, na_value=0))
    _refuse(sizes != n_features, name, f"vectors of {n_features} entries", sizes)
    every = np.arange(n_features, dtype=np.int32)
    indices = [every if row is None else row for row in batch["indices"].to_numpy()]
    data = _joined(values, np.float64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    if not np.isfinite(data).all():
        bad = np.searchsorted(indptr, np.argmin(np.isfinite(data)), side="right") - 1
        _refuse(np.arange(len(values)) == bad, name, "finite entries", values)
    return csr_matrix((data, _joined(indices, np.int32), indptr), (len(values), n_features))


def _joined(parts: Any, dtype: Any) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)


def _refuse(is_bad: np.ndarray, name: str, expected: str, values: np.ndarray) -> None:
    """Raise where rows are bad, and say what the first of them holds."""
    if is_bad.any():
        where = int(np.argmax(is_bad))
        content = values[where]
        if isinstance(content, np.ndarray):
            content = np.array2string(content, threshold=8)
        raise ValueError(f"{name}: expected {expected}, got {content} in row {where} of a batch")
