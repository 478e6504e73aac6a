"""Descent on more columns than a Gram matrix is worth, where their rows are on several shards.

No shard sees what a step of a coordinate does to the slopes of the next. So columns are descended
on in blocks: the Gram matrix of each block is added up over the shards once a model, and before
its turn the slopes of the block are, so many numbers. Every shard then takes the same steps on it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np

from snapml import _native
from snapml.solvers.columns.column_model import Slopes
from snapml.solvers.cpu_formulas import penalty_terms
from snapml.solvers.quadratic_model import Model
from snapml.solvers.result import overflow_error

__all__ = ["BlockDescent", "Blocks"]

_COLUMNS = 128  # of a block: of fewer, messages are many; of more, Gram matrices large
_SWEEPS = 2  # on a block, each time


class Blocks(Protocol):
    """A shard's columns, of which some that lie side by side can be had."""

    columns: np.ndarray

    def moments(self, curvatures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sum_i h_i x_ij and sum_i h_i x_ij^2 of all columns."""

    def block(self, first: int, last: int) -> _native.Columns | None:
        """Return some columns; None where the shard has no rows."""

    def block_gram(self, first: int, last: int, curvatures: np.ndarray) -> np.ndarray:
        """Return sum_i h_i x_i x_i^T of some columns."""


class BlockDescent:
    """Sweeps over blocks of columns (protocol `ColumnDescent`).

    Parameters
    ----------
    columns : Blocks
        This shard's.
    model : Model
        Of all shards.
    pool : ThreadPool
        For products.
    dtype : dtype
        Of the data.
    """

    def __init__(
        self, columns: Blocks, model: Model, pool: _native.ThreadPool, dtype: np.dtype
    ) -> None:
        self._model, self._pool = model, pool
        self.sums, self.squares = model.total(np.array(columns.moments(model.curvatures)))
        if not np.isfinite(self.squares).all():
            raise overflow_error(dtype)
        n_columns = len(columns.columns)
        self._bounds = list(pairwise([*range(0, n_columns, _COLUMNS), n_columns]))
        self._blocks = [columns.block(*bounds) for bounds in self._bounds]
        self._grams = [
            model.total_square(columns.block_gram(*bounds, model.curvatures))
            for bounds in self._bounds
        ]

    def sweep(
        self,
        slopes: Slopes,
        found: np.ndarray,
        gradient: np.ndarray,
        among: np.ndarray | None,
        n_sweeps: int,
        enough: float,
    ) -> tuple[bool, np.ndarray]:
        """Descend on one block after the other; all shards move `found` alike."""
        before = found.copy()
        changes = np.zeros(len(self._model.curvatures))
        is_among = np.ones(len(found), dtype=bool)
        if among is not None:
            is_among[:] = False
            is_among[among] = True
        for _ in range(n_sweeps):
            for k, bounds in enumerate(self._bounds):
                places = bounds[0] + np.flatnonzero(is_among[slice(*bounds)])
                if len(places):
                    self._descend(k, places, slopes, found, gradient, before, changes)
        return False, gradient + slopes.hessian_product(found - before)

    def _descend(
        self,
        k: int,
        places: np.ndarray,
        slopes: Slopes,
        found: np.ndarray,
        gradient: np.ndarray,
        before: np.ndarray,
        changes: np.ndarray,
    ) -> None:
        """Descend on some columns of a block; `changes` are the margins' since the first sweep."""
        first, last = self._bounds[k]
        own, block = np.zeros(last - first), self._blocks[k]
        if block is not None:
            weighted = self._model.curvatures * changes
            _native.columns_adjoint(self._pool, block, weighted, own)
        within = places - first
        moved = self._model.total(own)[within]
        gram, sums = self._grams[k][np.ix_(within, within)], self.sums[places]
        if slopes.total:
            moved = moved - sums * (float(self.sums @ (found - before)) / slopes.total)
            gram = gram - np.outer(sums, sums / slopes.total)
        coef, slope = found[places], gradient[places] + moved
        ridge, penalty = np.zeros(len(places)), slopes.penalty
        parts = penalty_terms(penalty.on(places))
        _native.gram_descent(gram, ridge, *parts, coef, slope, _SWEEPS, 0.0)
        if block is not None:
            step = np.zeros(last - first)
            step[within] = coef - found[places]
            _native.columns_product(block, step, changes)
        found[places] = coef
