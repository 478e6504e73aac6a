"""What every reader yields: some rows with their labels and weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["BATCH_BYTES", "Batch"]

BATCH_BYTES = 16 * 2**20
"""About the size of a batch: long enough for few calls, short enough to stay bounded."""


class Batch(NamedTuple):
    """Some rows of a source, in their order.

    Attributes
    ----------
    X : ndarray, scipy.sparse.csr_matrix or CompressedMatrix of shape (n_rows, n_features)
        The rows, float32 or float64.
    y : ndarray of shape (n_rows,) or None
        Labels.
    sample_weight : ndarray of shape (n_rows,) or None
        Weights.
    """

    X: Any
    y: np.ndarray | None = None
    sample_weight: np.ndarray | None = None
