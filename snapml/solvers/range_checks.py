"""Data that no solver can work with: entries that are not finite, rows that are too long."""

from __future__ import annotations

import numpy as np

__all__ = ["NonFiniteError", "check_range"]


class NonFiniteError(ValueError):
    """The matrix holds NaN or infinity."""


def check_range(norm_sq_sum: float, dtype: np.dtype) -> None:
    """Refuse rows so long, or so heavy, that a step would overflow.

    Parameters
    ----------
    norm_sq_sum : float
        Sum of the rows' squared norms, or of those times their weights.
    dtype : numpy dtype
        Of the data.

    Raises
    ------
    ValueError
        If the sum is too large for the dtype.
    """
    largest = float(np.finfo(dtype).max)
    if not norm_sq_sum < largest / 1e3:  # room for the factors of a step
        raise ValueError(
            f"expected squared norms of the rows, alone and times C, that add up to much less than "
            f"{largest:.2g} in {dtype}, got {norm_sq_sum:.2g}; scale the columns"
        )
