"""Makes the dual variables add up to zero, as a free intercept demands, by changing one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import ColumnEngine

__all__ = ["DualBalance"]

_ENOUGH = 0.5  # of the largest room: a row that others know has it, and is not sent again


class DualBalance:
    """Moves one row's gradient by what the sum of all of them misses zero.

    At the best intercept that is rounding only. The row is kept from read to read while it has
    room enough: other shards then know its entries already.

    Parameters
    ----------
    engine : ColumnEngine
        Shard of the data.
    communicator : Communicator
        The other shards.
    """

    def __init__(self, engine: ColumnEngine, communicator: Communicator) -> None:
        self._engine, self._communicator = engine, communicator
        self._rank, self._row = -1, -1
        self._entries: tuple[np.ndarray, np.ndarray] | None = None

    def apply(self, gradients: Any, curvatures: Any, point: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return gradients that add up to zero over all shards, and X^T beta of beta = -gradients.

        Parameters
        ----------
        gradients, curvatures : array of shape (n_rows,), float64
            c_i l' and c_i l'' of this shard; not changed.
        point : ndarray of shape (n_cols,), float64
            X^T beta of all shards.

        Returns
        -------
        gradients : array of shape (n_rows,), float64
            Of this shard.
        point : ndarray of shape (n_cols,), float64
            Of all shards.
        """
        own = np.array([float(gradients.sum())])
        mass = float(self._communicator.allreduce_sum(own)[0])
        if mass == 0.0 or not np.isfinite(mass):
            return gradients, point
        self._choose(self._room(abs(gradients), curvatures))
        assert self._entries is not None
        if self._rank == self._communicator.rank:
            gradients = gradients.copy()
            gradients[self._row] -= mass
        columns, entries = self._entries
        point = point.copy()
        np.add.at(point, columns, mass * entries)
        return gradients, point

    def _room(self, sizes: Any, curvatures: Any) -> Any:
        """Return how far about |c_i l'| can move with the conjugate finite, from it and c_i l''."""
        xp, loss = self._engine.xp, self._engine.problem.loss
        if loss.is_quadratic:
            return sizes  # as far as one likes
        if loss.labels == "real":  # a slope of at most 1 either way, which it is where l'' = 0
            return xp.maximum(curvatures - sizes, 0.0)
        return xp.minimum(sizes, curvatures)

    def _choose(self, room: Any) -> None:
        """Keep the row, or find that with most room and tell all shards its entries."""
        rank = self._communicator.rank
        row = int(room.argmax()) if len(room) else -1
        is_kept = self._rank == rank
        own = (float(room[row]) if row >= 0 else -1.0, float(room[self._row]) if is_kept else 0.0)
        found = self._communicator.exchange(own)
        best = max(range(len(found)), key=lambda k: found[k][0])
        is_known = self._rank >= 0 and self._communicator.size > 1
        if is_known and found[self._rank][1] >= _ENOUGH * found[best][0]:
            return
        self._rank, self._row = best, row
        sent = self._engine.row(row) if rank == best else None
        self._entries = self._communicator.exchange(sent)[best]
