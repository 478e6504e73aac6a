"""Which rows a sample takes."""

from __future__ import annotations

import numpy as np

__all__ = ["sampled_rows"]

# Rows lie side by side in memory: a few neighbours together cost one random access.
_SAMPLE_BLOCK = 8


def sampled_rows(n_rows: int, n_wanted: int, seed: int) -> np.ndarray:
    """Return the numbers of randomly chosen rows, in order.

    Parameters
    ----------
    n_rows : int
        How many there are.
    n_wanted : int
        About how many to take.
    seed : int
        Equal seeds give equal samples.

    Returns
    -------
    ndarray of int64
        Row numbers; neighbours come together.
    """
    n_blocks = -(-n_wanted // _SAMPLE_BLOCK)
    all_blocks = -(-n_rows // _SAMPLE_BLOCK)
    rng = np.random.default_rng(seed)
    blocks = np.sort(rng.choice(all_blocks, size=min(n_blocks, all_blocks), replace=False))
    rows: np.ndarray = (blocks[:, None] * _SAMPLE_BLOCK + np.arange(_SAMPLE_BLOCK)).ravel()
    return rows[rows < n_rows]
