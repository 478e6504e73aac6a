"""Matrices one below the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapml.data.compressed import CompressedMatrix
from snapml.data.dataset import DenseMatrix, Matrix

__all__ = ["stacked"]


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """Return a copy of the rows of all parts in one matrix.

    Parameters
    ----------
    parts : sequence of Matrix
        At least one; all dense, or all compressed, of the same columns and type.

    Returns
    -------
    Matrix
        64-bit indices where the offsets ask for them.
    """
    if isinstance(parts[0], DenseMatrix):
        return DenseMatrix(np.concatenate([p.values for p in parts if isinstance(p, DenseMatrix)]))
    sparse = [part for part in parts if isinstance(part, CompressedMatrix)]
    lengths = [np.diff(part.indptr).astype(np.int64) for part in sparse]
    indptr = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
    index = np.result_type(*(part.indices for part in sparse))
    if indptr[-1] > np.iinfo(index).max:
        index = np.dtype(np.int64)
    indices = np.concatenate([part.indices for part in sparse], dtype=index)
    values = [part.values for part in sparse if part.values is not None]
    return CompressedMatrix(
        indptr.astype(index),
        indices,
        sparse[0].n_features,
        np.concatenate(values) if values else None,
        sparse[0].dtype,
    )
