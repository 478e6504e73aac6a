"""Which rows a sample takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from snapml.problems import Loss
from snapml.solvers.communicator import Communicator

__all__ = [
    "MOST_LOOKED_AT",
    "Place",
    "RowTargets",
    "Sample",
    "choose_rows",
    "own_sample",
    "place_of",
    "rows_looked_at",
    "sampled_rows",
]

MOST_LOOKED_AT = 1024  # rows, by certificates
# Rows lie side by side in memory: a few neighbours together cost one random access.
_SAMPLE_BLOCK = 8
# A class of which a sample expects fewer rows, and that is rarer than others by this factor, is
# taken whole, or as far as it makes no more than this share of the sample.
_FEW_ROWS = 100
_RARE = 0.5
_MOST_SHARE = 0.25
# Rows of more than so many times the mean weight carry the sums, and chance would miss them.
_HEAVY = 8.0


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


class Sample(NamedTuple):
    """A shard's part of a sample.

    Attributes
    ----------
    rows : ndarray of int64
        Numbers of this shard's rows, in order.
    factor : float, or ndarray of shape (n_taken,), float64
        How many rows each of them stands for.
    rows_per_row : float
        The mean of that over all shards.
    """

    rows: np.ndarray
    factor: float | np.ndarray
    rows_per_row: float


def choose_rows(
    targets: RowTargets, n_wanted: int, seed: int, communicator: Communicator
) -> Sample:
    """Return a random sample with all rows, or many, that chance would miss and that matter.

    These are the rows of rare classes and those of large weights. The sample does not depend on
    how rows are shared out.

    Parameters
    ----------
    targets : RowTargets
        Labels and weights of the shard's rows.
    n_wanted : int
        About how many rows all shards take together.
    seed : int
        The same on all shards.
    communicator : Communicator
        The shards.

    Returns
    -------
    Sample
        Of this shard's rows.
    """
    place = place_of(communicator, targets.n_rows)
    rows, rows_per_row = own_sample(targets.n_rows, n_wanted, seed, place)
    important = targets.important_rows(communicator, place.n_total, n_wanted)
    counts = communicator.exchange(len(important))
    if sum(counts) == 0:
        return Sample(rows, rows_per_row, rows_per_row)
    others = np.setdiff1d(rows, important, assume_unique=True)
    n_others = sum(communicator.exchange(len(others)))
    # Every n-th, since neighbours may be alike; and no fewer than chance would take.
    stride = -(-sum(counts) // max(1, int(_MOST_SHARE * n_wanted)))
    stride = max(1, min(stride, place.n_total // max(1, n_wanted)))
    taken = important[-sum(counts[: communicator.rank]) % stride :: stride]
    n_taken = -(-sum(counts) // stride)
    chosen = np.concatenate((taken, others))
    factor = np.empty(len(chosen))
    factor[: len(taken)] = sum(counts) / n_taken
    factor[len(taken) :] = (place.n_total - sum(counts)) / max(1, n_others)
    order = np.argsort(chosen, kind="stable")
    return Sample(chosen[order], factor[order], place.n_total / (n_taken + n_others))


@dataclass(frozen=True)
class RowTargets:
    """Labels and weights of a shard's rows, on the host or on a device.

    Attributes
    ----------
    loss : Loss
        Says whether labels are classes.
    labels : array of shape (n_rows,) or (n_outputs, n_rows)
        Of a softmax, class numbers.
    row_weights : array of shape (n_rows,) or (n_outputs, n_rows), or None
        None where all rows count alike.
    n_outputs : int
        Outputs of the model.
    device : Device or None, default=None
        Where the arrays are; None means the host.
    """

    loss: Loss
    labels: Any
    row_weights: Any
    n_outputs: int
    device: Any = None

    @property
    def n_rows(self) -> int:
        """Rows of the shard."""
        return int(self.labels.shape[-1])

    def important_rows(self, communicator: Communicator, n_total: int, n_wanted: int) -> np.ndarray:
        """Return the rows of classes of which a sample expects few, and those of large weights.

        Parameters
        ----------
        communicator : Communicator
            The shards.
        n_total : int
            Rows of all shards.
        n_wanted : int
            Rows of the sample.

        Returns
        -------
        ndarray of int64
            Numbers of this shard's rows, in order, on the host.
        """
        xp: Any = np if self.device is None else self.device.xp
        n_classes = max(2, self.n_outputs) if self.loss.is_joint else 2
        least = n_total * min(_FEW_ROWS / max(1, n_wanted), _RARE / n_classes)
        is_important = xp.zeros(self.n_rows, bool)
        if self.loss.is_joint:
            numbers = self.labels.astype(np.int64)
            for k in range(self.n_outputs):
                is_own = numbers == k
                own = np.array([float(is_own.sum())])
                if communicator.allreduce_sum(own)[0] < least:
                    is_important |= is_own
        elif self.loss.labels == "sign":
            is_positive = _by_outputs(self.labels) > 0
            own = self._to_host(is_positive.sum(axis=1)).astype(np.float64)
            counts = communicator.allreduce_sum(own).tolist()
            for positive, count in zip(is_positive, counts, strict=True):
                if count < least:
                    is_important |= positive
                if n_total - count < least:
                    is_important |= ~positive
        if self.row_weights is not None:
            weights = _by_outputs(self.row_weights)
            own = self._to_host(weights.sum(axis=1, dtype=np.float64))
            sums = communicator.allreduce_sum(own)
            for given, total in zip(weights, sums.tolist(), strict=True):
                is_important |= given > _HEAVY * total / n_total
        return self._to_host(xp.flatnonzero(is_important)).astype(np.int64, copy=False)

    def _to_host(self, array: Any) -> np.ndarray:
        return np.asarray(array if self.device is None else self.device.to_host(array))


def _by_outputs(array: Any) -> Any:
    return array[None] if array.ndim == 1 else array


def rows_looked_at(n_rows: int) -> np.ndarray:
    """Return the numbers of the only rows that certificates ever look at, int64.

    Parameters
    ----------
    n_rows : int
        How many there are.
    """
    return np.arange(0, n_rows, max(1, n_rows // MOST_LOOKED_AT))
