"""Sums that blocks leave to the host: how many blocks, and how their parts are added."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["BLOCK", "add_up", "blocks_for"]

BLOCK = 256

# Enough to fill a device; a number of its own for each would make their sums differ in rounding.
_MOST_BLOCKS = 2048


def blocks_for(count: int, per_block: int) -> int:
    """Return how many blocks share `count` pieces of work, `per_block` at a time."""
    return max(1, min(_MOST_BLOCKS, -(-count // per_block)))


def add_up(parts: np.ndarray) -> tuple[float, float, float]:
    """Return the sums of three columns, each rounded once.

    Parameters
    ----------
    parts : ndarray of shape (n_parts, 3), float64
        One row a block or warp.
    """
    if not np.isfinite(parts).all():
        first, second, third = (float(column.sum()) for column in parts.T)
    else:
        first, second, third = (math.fsum(column) for column in parts.T)
    return first, second, third
