"""Which rows a sample takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapml.solvers.communicator import Communicator

__all__ = ["Place", "own_sample", "place_of", "sampled_rows"]

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


class Place(NamedTuple):
    """Where a shard's rows stand among those of all shards.

    Attributes
    ----------
    first : int
        Rows of the shards before it.
    n_total : int
        Rows of all shards.
    """

    first: int
    n_total: int


def place_of(communicator: Communicator, n_rows: int) -> Place:
    """Return where this shard's rows stand, in the order of ranks.

    Parameters
    ----------
    communicator : Communicator
        The shards.
    n_rows : int
        This one's rows.

    Returns
    -------
    Place
        Of this shard.
    """
    counts = communicator.exchange(n_rows)
    return Place(sum(counts[: communicator.rank]), sum(counts))


def own_sample(
    n_rows: int, n_wanted: int, seed: int, place: Place | None = None
) -> tuple[np.ndarray, float]:
    """Return a shard's rows of a sample that does not depend on how rows are shared out.

    Parameters
    ----------
    n_rows : int
        Rows of the shard.
    n_wanted : int
        About how many rows all shards take together.
    seed : int
        The same on all shards.
    place : Place or None, default=None
        Of the shard; None where there is no other.

    Returns
    -------
    rows : ndarray of int64
        Numbers of this shard's rows.
    rows_per_row : float
        How many rows each of them stands for.
    """
    first, n_total = Place(0, n_rows) if place is None else place
    rows = sampled_rows(n_total, n_wanted, seed)
    own = rows[(rows >= first) & (rows < first + n_rows)] - first
    return own, n_total / max(1, len(rows))
