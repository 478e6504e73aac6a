"""The columns (x - mean) / scale of an engine's rows: moments, and weighted Gram matrices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from snapml._lazy import cached_property
from snapml.problems import Intercept
from snapml.solvers.communicator import Communicator
from snapml.solvers.dense_products import MOST_SHARED_COLUMNS, PARTS_A_THREAD
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.rows.streaming_engine import HostPrimalEngine

__all__ = ["MOST_WIDE_COLUMNS", "ScaledRows", "are_near", "have_sparse_products", "part_rows"]

# Up to here a Gram matrix in float64 costs less than what it saves.
MOST_WIDE_COLUMNS = 256
# Sparse rows are multiplied entry by entry where the square of a row's entries is at most this many
# times the columns (0.35 ns a pair, 7 ns a column of a dense copy and its product), and where
# no column's mean is so many times its scale that their difference would be lost in the rounding.
_MOST_PAIRS_A_COLUMN = 20.0
_MOST_MEAN = 1e4


def have_sparse_products(n_rows: float, n_features: int, n_stored: float) -> bool:
    """Return whether products of sparse rows cost less entry by entry than those of dense rows.

    Parameters
    ----------
    n_rows : float
        Rows.
    n_features : int
        Columns.
    n_stored : float
        Entries of the rows.

    Returns
    -------
    bool
        If not, rows are made dense.
    """
    entries = n_stored / max(1.0, n_rows)
    return entries * entries <= _MOST_PAIRS_A_COLUMN * n_features


def are_near(mean: np.ndarray, scale: np.ndarray) -> bool:
    """Return whether products may be centred afterwards: no mean is far more than its scale.

    Parameters
    ----------
    mean, scale : ndarray of shape (n_features,), float64
        Of the columns.

    Returns
    -------
    bool
        If not, their differences would be rounding.
    """
    return bool(np.all(np.abs(mean) <= _MOST_MEAN * scale))


def part_rows(size: int, n_rows: int, block_entries: int, n_threads: int) -> int:
    """Return how many rows to make dense and multiply at a time.

    Parameters
    ----------
    size : int
        Their columns, and the intercept's.
    n_rows : int
        Rows of all parts.
    block_entries : int
        Of the engine.
    n_threads : int
        That share the parts.

    Returns
    -------
    int
        As many as make up for what the sum of the products costs, or some for every thread where
        that is not much less.
    """
    step = max(block_entries // size, 2 * size)
    if n_threads == 1 or size > MOST_SHARED_COLUMNS:
        return step
    return min(step, max(size // 2, -(-n_rows // (PARTS_A_THREAD * n_threads))))


class ScaledRows:
    """An engine's rows in centred and scaled columns, which are formed a few rows at a time.

    Parameters
    ----------
    engine : PrimalEngine
        The rows; arrays are of its module.
    communicator : Communicator
        Adds up over the shards.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_features,), float64
        Of all shards' columns, on the host. The mean is zero where columns must not be centred.
    dtype : numpy dtype
        Of the scaled entries.
    """

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
        self._engine = engine
        # A device multiplies dense blocks faster than it looks at entries.
        self._entries: HostPrimalEngine | None = None
        if isinstance(engine, HostPrimalEngine) and engine.is_sparse:
            self._entries = engine
        self.mean, self.scale = self._moments(communicator)
        is_wide = engine.dtype == np.float64 or engine.n_features <= MOST_WIDE_COLUMNS
        self.dtype = np.dtype(np.float64 if is_wide else np.float32)
        self._mean, self._scale = engine.to_rows(self.mean), engine.to_rows(self.scale)
        sizes = engine.n_rows, engine.n_features, engine.n_stored
        if not (have_sparse_products(*sizes) and are_near(self.mean, self.scale)):
            self._entries = None

    @cached_property
    def largest_squares(self) -> np.ndarray:
        """Of this shard's scaled entries, by columns: shape (n_features,), float64."""
        engine = self._engine
        tops = engine.xp.zeros(engine.n_features, np.float64)
        with np.errstate(all="ignore"):
            for block in self._blocks():
                centred = engine.dense_rows(block) - self._mean
                centred *= centred
                engine.xp.maximum(tops, centred.max(axis=0), out=tops)
            return np.asarray(engine.to_host(tops) / self.scale**2)

    def gram(self, weights: Any) -> Any:
        """Return A^T diag(weights) A for the scaled columns A and the intercept's column.

        Parameters
        ----------
        weights : array of shape (n_rows,), float64
            Not negative.

        Returns
        -------
        array of shape (n_features + 1, n_features + 1), float64
            Over the engine's rows.
        """
        if self._entries is not None:
            return self._entries.scaled_gram(weights, self.mean, self.scale)
        xp, size = self._engine.xp, len(self.mean) + 1
        gram = xp.zeros((size, size), np.float64)
        parts, buffer = self.parts(weights)
        # Both factors are rounded alike: the product remains semidefinite, and the steps that are
        # made from it are corrected by the gradients.
        self._engine.add_grams(parts, functools.partial(self._weighted, weights), buffer, gram)
        return gram

    def parts(self, weights: Any) -> tuple[list[Any], Any]:
        """Return the rows a few at a time, and room for as many.

        No generator: what one holds outlives an error that leaves the loop over it.

        Parameters
        ----------
        weights : array of shape (n_rows,), float64
            Rows of weight 0 are left out where that saves work.

        Returns
        -------
        parts : list of slice or array of indices
            For `scaled`, as is the room.
        buffer : array of shape (n_most, n_features + 1)
            Of the engine's module.
        """
        xp, size = self._engine.xp, len(self.mean) + 1
        # Gathering rows costs a copy of them, and on a device a wait for how many these are.
        rows = xp.flatnonzero(weights) if self._engine.device is None else weights
        is_whole = len(rows) > 0.7 * len(weights)
        count = len(weights) if is_whole else len(rows)
        n_threads = self._engine.n_threads if self._engine.device is None else 1
        step = part_rows(size, count, self._engine.block_entries, n_threads)
        firsts = range(0, count, step)
        ends = [slice(first, min(first + step, count)) for first in firsts]
        buffer = xp.empty((min(step, count), size), dtype=self.dtype)
        return (ends if is_whole else [rows[end] for end in ends]), buffer

    def scaled(self, part: Any, buffer: Any, weights: Any = None) -> Any:
        """Return some rows in scaled columns, and the intercept's column.

        Parameters
        ----------
        part : slice or array of indices
            One of `parts`.
        buffer : array
            Of `parts`; the rows are written to it.
        weights : array of shape (n_taken,), float64, or None, default=None
            Not negative; each row is multiplied by the square root of its own.

        Returns
        -------
        array of shape (n_taken, n_features + 1)
            A part of the buffer.
        """
        columns = buffer[: _length(part)]
        self._engine.scale_rows(part, self._mean, self._scale, weights, columns)
        return columns

    def _weighted(self, weights: Any, part: Any, buffer: Any) -> Any:
        """Return what `scaled` does, with the weights of all rows."""
        return self.scaled(part, buffer, weights[part])

    def _moments(self, communicator: Communicator) -> tuple[np.ndarray, np.ndarray]:
        """Return means (zero where columns must not be centred) and scales of the columns."""
        engine, xp = self._engine, self._engine.xp
        n_rows, n_features = engine.n_rows, engine.n_features
        sums, squares = (xp.zeros(n_features, np.float64) for _ in range(2))
        is_host = isinstance(engine, HostPrimalEngine)  # which reads all at once on its threads
        blocks = [slice(0, n_rows)] if is_host else self._blocks()
        with np.errstate(all="ignore"):  # what is not finite is found by the pass that follows
            for block in blocks:
                sums += engine.column_sums(block)
            own = np.append(engine.to_host(sums), float(n_rows))
            totals = communicator.allreduce_sum(own)
            count = max(1.0, float(totals[-1]))
            is_centred = engine.problem.intercept is Intercept.FREE
            mean = totals[:-1] / count if is_centred else np.zeros(n_features)
            centre = engine.to_rows(mean)
            for block in blocks:
                squares += engine.column_sums(block, centre)
            scale = np.sqrt(communicator.allreduce_sum(engine.to_host(squares)) / count)
        # A constant column differs from its mean by the rounding of the mean alone.
        is_constant = ~(scale > 1e-14 * np.abs(mean)) | ~np.isfinite(scale)
        return mean, np.where(is_constant, 1.0, scale)

    def _blocks(self) -> list[slice]:
        """Return the rows a few at a time."""
        step = max(1, self._engine.block_entries // max(1, self._engine.n_features))
        return [slice(first, first + step) for first in range(0, self._engine.n_rows, step)]


def _length(part: Any) -> int:
    """Return how many rows a part has."""
    return int(part.stop - part.start) if isinstance(part, slice) else len(part)
