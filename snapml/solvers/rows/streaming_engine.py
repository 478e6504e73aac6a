"""The primal methods' engine over rows of which only a part is in memory at a time.

`primal_engine` takes it for a store, and `CpuPrimalEngine` for rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml import _native
from snapml.data import ChunkedMatrix, Dataset
from snapml.problems import Problem
from snapml.solvers.communicator import Communicator
from snapml.solvers.rows.cpu_margins import CpuMargins
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine, sampled_engine
from snapml.solvers.rows.cpu_rows import (
    add_gram,
    array_of,
    as_array,
    centred_sums,
    native_rows,
)
from snapml.solvers.rows.host_arrays import HostArrays, column_grams
from snapml.solvers.threads import resolve_n_threads

__all__ = ["HostPrimalEngine", "StreamingEngine", "primal_engine"]


class StreamingEngine(HostArrays):
    """A shard of rows that are read chunk by chunk (protocol `PrimalEngine`).

    Labels, weights and margins of all rows stay in memory; the chunks that the matrix keeps are
    not read again.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        With a `ChunkedMatrix`.
    n_threads : int or None, default=None
        Threads to use; None means all available. One more reads ahead.
    seed : int, default=0
        Seed of the samples.

    Raises
    ------
    ValueError
        If a chunk is damaged, or class numbers lie outside the classes.
    OSError
        If a chunk cannot be read.
    """

    rows_per_row = 1.0
    block_entries = 10_000_000  # of what is taken at once, with reads of whole chunks
    is_streamed = True

    def __init__(
        self,
        problem: Problem,
        dataset: Dataset,
        *,
        n_threads: int | None = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(dataset.matrix, ChunkedMatrix):
            raise TypeError(f"expected a ChunkedMatrix, got {type(dataset.matrix).__name__}")
        self.problem = problem
        self.dataset = dataset
        self._matrix = dataset.matrix
        self.n_rows, self.n_features = dataset.matrix.shape
        self.dtype, self.n_stored = dataset.matrix.dtype, dataset.matrix.n_stored
        self.n_threads = resolve_n_threads(n_threads, self.n_stored)
        self.seed = seed
        self._pool = _native.ThreadPool(self.n_threads)
        self._parts = [
            CpuMargins(problem, _labels_of(dataset, self._matrix.rows_of(number)), self._pool)
            for number in range(self._matrix.n_chunks)
        ]
        self.n_outputs = problem.n_outputs(dataset.labels.shape)
        self.is_single = self.n_outputs == 1 and dataset.labels.ndim == 1
        self.bias_column = problem.bias_column

    @property
    def description(self) -> str:
        """Threads, and how many chunks stay in memory."""
        threads = f"{self.n_threads} thread{'s' if self.n_threads > 1 else ''}"
        return f"{threads}, {self._matrix.n_resident} of {len(self._parts)} chunks in memory"

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return self._matrix.is_sparse

    def fused_pass(
        self, coef: np.ndarray, *, wants_stiffness: bool = False
    ) -> tuple[float, np.ndarray, float]:
        """Read all chunks once: margins, loss and gradient.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features + 1), float64
            The point.
        wants_stiffness : bool, default=False
            Whether to add up ``c_i ||x_i||^2`` on the way.

        Returns
        -------
        loss : float
            ``sum_i c_i l(z_i, y_i)``, summed over the outputs.
        gradient : ndarray of shape (n_outputs, n_features + 1), float64
            Of the loss.
        stiffness : float
            ``sum_i c_i ||x_i||^2``, or 0.
        """
        loss = stiffness = 0.0
        gradients = np.zeros((self.n_threads, *coef.shape))
        for part, rows in self._native_chunks():
            own_loss, own_stiffness = part.pass_over(
                rows, coef, gradients, wants_stiffness=wants_stiffness, is_part=True
            )
            loss += own_loss
            stiffness += own_stiffness
        return loss, gradients.sum(axis=0), stiffness

    @property
    def margins(self) -> np.ndarray:
        """Margins of the present point, shape (n_outputs, n_rows): a copy."""
        return np.concatenate([part.margins for part in self._parts], axis=1)

    def accept(self) -> None:
        """Make the margins of the last pass those of the present point."""
        for part in self._parts:
            part.accept()

    def restated(
        self, problem: Problem, factor: float, offsets: np.ndarray | None
    ) -> StreamingEngine:
        """Return an engine of another problem on the same rows: `PrimalEngine.restated`."""
        rows = self.dataset.restated(factor, offsets)
        return StreamingEngine(problem, rows, n_threads=self.n_threads, seed=self.seed)

    def leave_flat_rows(self, share: float) -> None:
        """Do nothing: rows of a store are not copied."""

    def hessian_product(self, direction: np.ndarray) -> np.ndarray:
        """Read all chunks once: the loss's Hessian at the present point times a direction.

        Parameters
        ----------
        direction : ndarray of shape (n_outputs, n_features + 1), float64
            In the coefficients.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            Without the penalty.
        """
        products = np.zeros((self.n_threads, *direction.shape))
        for part, rows in self._native_chunks():
            part.product_over(rows, direction, products, is_part=True)
        return products.sum(axis=0)

    def line_point(self, step: float) -> tuple[float, float]:
        """Return loss and slope between the present point and the last pass's.

        Parameters
        ----------
        step : float
            0 is the present point, 1 the other.

        Returns
        -------
        loss, slope : float
            The loss, and its derivative in the step.
        """
        losses, slopes = zip(*(part.line_point(step) for part in self._parts), strict=True)
        return sum(losses), sum(slopes)

    def curvatures(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return c_i l''(z_i) at the present point, or the probabilities of the softmax."""
        if rows is None:
            return np.concatenate([part.curvatures() for part in self._parts], axis=1)
        return self._of_rows(rows, lambda part, within: part.curvatures(within))

    def gradients(self, rows: np.ndarray) -> np.ndarray:
        """Return l'(z_i) of separate outputs at the present point, for a few rows."""
        return self._of_rows(rows, lambda part, within: part.gradients(within))

    def dense_rows(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the rows of a slice or of an index array as a dense array."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.n_rows))
        taken = as_array(self.dataset.take(rows, 1.0))
        return taken.toarray() if isinstance(taken, csr_matrix) else taken

    def host_rows(self) -> np.ndarray | csr_matrix:
        """Return all rows in memory."""
        return as_array(self.dataset.take(np.arange(self.n_rows), 1.0))

    def column_sums(self, rows: Any, centre: np.ndarray | None = None) -> np.ndarray:
        """Return sums of some rows' entries; `HostArrays.column_sums` has the parameters."""
        is_whole = isinstance(rows, slice) and rows == slice(0, self.n_rows)
        if not is_whole:
            return super().column_sums(rows, centre)
        total = np.zeros(self.n_features)
        for _, matrix in self._matrix.chunks():
            chunk = native_rows(matrix, self._pool)
            total += centred_sums(chunk, self._pool, self.n_features, centre)
        return total

    def scaled_gram(self, weights: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the weighted Gram matrix of scaled columns, as `CpuPrimalEngine.scaled_gram`."""
        gram = np.zeros((self.n_features + 1, self.n_features + 1))
        for number, matrix in self._matrix.chunks():
            own = weights[self._matrix.rows_of(number)]
            add_gram(native_rows(matrix, self._pool), self._pool, own, gram)
        _native.scale_gram(gram, mean, scale, self.bias_column)
        return gram

    def weighted_squares(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_i weights_ki x_ij^2, shape (n_outputs, n_features), float64."""
        sums = np.zeros((self.n_threads, len(weights), self.n_features))
        for number, matrix in self._matrix.chunks():
            own = np.ascontiguousarray(weights[:, self._matrix.rows_of(number)])
            rows = native_rows(matrix, self._pool)
            _native.weighted_squares(self._pool, rows, own, len(weights), sums)
        return sums.sum(axis=0)

    def column_grams(self, columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return weighted Gram matrices of some columns, as `host_arrays.column_grams`."""
        size = len(columns) + 1
        grams = np.zeros((len(weights), size, size))
        for number, matrix in self._matrix.chunks():
            rows = csr_matrix(array_of(matrix).astype(np.float64))
            own = weights[:, self._matrix.rows_of(number)]
            grams += column_grams(rows, columns, own, self.bias_column)
        return grams

    def sample(self, n_rows: int, communicator: Communicator | None = None) -> CpuPrimalEngine:
        """Return an engine on a copy, in memory, of rows that stand for all.

        Parameters
        ----------
        n_rows : int
            How many, of all shards together.
        communicator : Communicator or None, default=None
            The shards; None where there is no other.

        Returns
        -------
        CpuPrimalEngine
            Of the rows that an engine in memory would take.
        """
        return sampled_engine(self, n_rows, communicator)

    def check_finite(self) -> None:
        """Do nothing: a store holds finite numbers only."""

    def _native_chunks(self) -> Iterator[tuple[CpuMargins, _native.Rows]]:
        """Return each chunk's margins with the extension's view of its rows."""
        for number, matrix in self._matrix.chunks():
            yield self._parts[number], native_rows(matrix, self._pool)

    def _of_rows(self, rows: np.ndarray, quantity: Any) -> np.ndarray:
        """Return a quantity of rows that lie in several chunks, in the order asked for."""
        chunk_of = self._matrix.chunk_of(rows)
        out = np.empty((self.n_outputs, len(rows)))
        for number in np.unique(chunk_of):
            places = np.flatnonzero(chunk_of == number)
            within = rows[places] - self._matrix.rows_of(number).start
            out[:, places] = quantity(self._parts[number], within)
        return out


@dataclass(frozen=True)
class _RowCount:
    """Stands for the rows of a chunk where only their number is needed."""

    shape: tuple[int, int]


def _labels_of(dataset: Dataset, rows: slice) -> Dataset:
    """Return labels, weights and offsets of neighbouring rows, without the rows."""
    matrix: Any = _RowCount((rows.stop - rows.start, dataset.matrix.shape[1]))
    return dataset.of_rows(matrix, rows)


HostPrimalEngine = CpuPrimalEngine | StreamingEngine


def primal_engine(
    problem: Problem, dataset: Dataset, *, n_threads: int | None = None, seed: int = 0
) -> HostPrimalEngine:
    """Return the engine of primal methods for the place where the rows are.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        Rows in memory, or a `ChunkedMatrix`.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    seed : int, default=0
        Seed of the samples.

    Returns
    -------
    CpuPrimalEngine or StreamingEngine
        Ready for its first pass.
    """
    if isinstance(dataset.matrix, ChunkedMatrix):
        return StreamingEngine(problem, dataset, n_threads=n_threads, seed=seed)
    return CpuPrimalEngine(problem, dataset, n_threads=n_threads, seed=seed)
