"""A generated click log: one active category in each field of a row, as advertising data have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["make_click_log"]


def make_click_log(
    n_rows: int = 1_000_000,
    n_features: int = 1_000_000,
    n_fields: int = 39,
    *,
    random_state: int = 0,
    dtype: Any = np.float32,
) -> tuple[csr_matrix, np.ndarray]:
    """Generate one-hot rows of skewed categories with labels of a planted logistic model.

    The fields' cardinalities grow geometrically from 4 to about a sixth of `n_features` and add
    up to it; inside a field the frequency of a category falls with its rank (Zipf, exponent 1).
    Columns are shuffled, as hashing would do.

    Parameters
    ----------
    n_rows : int, default=1_000_000
        Number of rows.
    n_features : int, default=1_000_000
        Number of columns, at least ``8 * n_fields``.
    n_fields : int, default=39
        Non-zeros in every row.
    random_state : int, default=0
        Seed; the same seed gives the same data on every machine.
    dtype : numpy dtype, default=numpy.float32
        Type of the stored values, all of which are 1.

    Returns
    -------
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features)
        Sorted int32 indices.
    y : ndarray of shape (n_rows,), dtype int64
        Clicks, 0 or 1; about one row in four is a click.

    Raises
    ------
    ValueError
        If `n_features` is less than ``8 * n_fields``.
    """
    from scipy.sparse import csr_matrix

    if n_features < 8 * n_fields:
        raise ValueError(f"expected n_features >= 8 * n_fields = {8 * n_fields}, got {n_features}")
    rng = np.random.default_rng(random_state)
    cardinality = _field_cardinalities(n_features, n_fields)
    offset = np.concatenate([[0], np.cumsum(cardinality)[:-1]])
    column_of = rng.permutation(n_features).astype(np.int32)
    weight_of = rng.normal(scale=0.4, size=n_features).astype(np.float32)

    indices = np.empty((n_rows, n_fields), dtype=np.int32)
    margin = np.full(n_rows, -1.3)
    for field in range(n_fields):
        # Inverse of the Zipf distribution function, log(rank) / log(cardinality + 1).
        rank = np.floor((cardinality[field] + 1.0) ** rng.random(n_rows)).astype(np.int64) - 1
        category = offset[field] + np.minimum(rank, cardinality[field] - 1)
        margin += weight_of[category]
        indices[:, field] = column_of[category]
    y = (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-margin))).astype(np.int64)

    indices.sort(axis=1)
    indptr = np.arange(0, n_rows * n_fields + 1, n_fields)
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    values = np.ones(n_rows * n_fields, dtype=dtype)
    X = csr_matrix((values, indices.ravel(), indptr), shape=(n_rows, n_features), copy=False)
    X.has_canonical_format = True
    return X, y


def _field_cardinalities(n_features: int, n_fields: int) -> np.ndarray:
    """Return cardinalities of at least 4 in a geometric ladder that add up to `n_features`."""
    low, high = 0.0, 1.0
    for _ in range(60):  # the ratio of neighbours, by bisection on the logarithm
        ratio = 0.5 * (low + high)
        total = (4.0 * np.exp(ratio * np.arange(n_fields))).sum()
        low, high = (ratio, high) if total < n_features else (low, ratio)
    ladder = np.maximum(4, np.floor(4.0 * np.exp(low * np.arange(n_fields)))).astype(np.int64)
    ladder[-1] += n_features - ladder.sum()
    return ladder
