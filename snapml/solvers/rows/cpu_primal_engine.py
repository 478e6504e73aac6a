"""The CPU engine of the primal methods: fused passes over a shard in this process's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml import _native
from snapml._lazy import cached_property
from snapml.data import CompressedMatrix, Dataset
from snapml.problems import Problem
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.engine import own_curvatures
from snapml.solvers.rows.cpu_margins import CpuMargins
from snapml.solvers.rows.cpu_rows import (
    as_array,
    centred_sums,
    inspect,
    native_rows,
    scaled_gram,
    squared_norms,
)
from snapml.solvers.rows.host_arrays import HostArrays, column_grams
from snapml.solvers.rows.output_panels import OutputPanels
from snapml.solvers.rows.row_sample import RowTargets, choose_rows
from snapml.solvers.threads import resolve_n_threads

__all__ = ["FEWEST_IN_PANELS", "MOST_CURVED_BYTES", "CpuPrimalEngine", "sampled_engine"]

FEWEST_IN_PANELS = 4
"""Outputs from which on panels, of which some is empty, are worth their copies."""

# Share of the rows, and bytes, that the copy of those with curvature may take.
_MOST_CURVED, MOST_CURVED_BYTES = 0.5, 2**30


class CpuPrimalEngine(HostArrays, CpuMargins):
    """A shard of rows with the margins of two points (protocol `PrimalEngine`).

    Coefficients and gradients have shape (n_outputs, n_features + 1) and are float64 whatever the
    data's type; the last column belongs to the intercept's constant column.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        Rows, labels and row weights; used in place.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    seed : int, default=0
        Seed of the samples.

    Raises
    ------
    ValueError
        If indices or offsets lead outside the matrix, or class numbers outside the classes.
    """

    block_entries = 100_000  # they stay in cache
    is_streamed = False

    def __init__(
        self,
        problem: Problem,
        dataset: Dataset,
        *,
        n_threads: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n_threads = resolve_n_threads(n_threads, dataset.matrix.n_stored)
        super().__init__(problem, dataset, _native.ThreadPool(self.n_threads))
        self.n_features = dataset.matrix.shape[1]
        self.dtype, self.n_stored = dataset.matrix.dtype, dataset.matrix.n_stored
        self.seed = seed
        self.rows_per_row = 1.0
        self._rows = native_rows(dataset.matrix, self._pool)
        self._curvature_panels: OutputPanels | None = None
        self._curved: CpuPrimalEngine | None = None

    @property
    def description(self) -> str:
        """Number of threads."""
        return f"{self.n_threads} thread{'s' if self.n_threads > 1 else ''}"

    @cached_property
    def _array(self) -> np.ndarray | csr_matrix:
        return as_array(self.dataset)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return isinstance(self.dataset.matrix, CompressedMatrix)

    def fused_pass(
        self, coef: np.ndarray, *, wants_stiffness: bool = False
    ) -> tuple[float, np.ndarray, float]:
        """Read the matrix once: margins, loss and gradient; the margins are kept for `accept`.

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
        gradients = np.empty((self._pool.size, *coef.shape))
        loss, stiffness = self.pass_over(
            self._rows, coef, gradients, wants_stiffness=wants_stiffness
        )
        return loss, gradients[0].copy(), stiffness  # without the threads' own

    def restated(
        self, problem: Problem, factor: float, offsets: np.ndarray | None
    ) -> CpuPrimalEngine:
        """Return an engine of another problem on the same rows: `PrimalEngine.restated`."""
        rows = self.dataset.restated(factor, offsets)
        return CpuPrimalEngine(problem, rows, n_threads=self.n_threads, seed=self.seed)

    def hessian_product(self, direction: np.ndarray) -> np.ndarray:
        """Read the matrix once: the loss's Hessian at the present point times a direction.

        Parameters
        ----------
        direction : ndarray of shape (n_outputs, n_features + 1), float64
            In the coefficients.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            ``sum_i c_i X_i^T l''(z_i) X_i direction``, without the penalty.
        """
        if self._curved is not None:
            return self._curved.hessian_product(direction)
        if self.is_sparse and self.n_outputs >= FEWEST_IN_PANELS:
            return self._product_in_panels(direction)
        products = np.empty((self._pool.size, *direction.shape))
        self.product_over(self._rows, direction, products)
        return products[0]

    def _product_in_panels(self, direction: np.ndarray) -> np.ndarray:
        """Return the same for outputs that lie side by side: a row's entry meets all of them."""
        if self._curvature_panels is None:
            self._curvature_panels = OutputPanels(
                self.problem.loss, self.dataset, self.curvatures()
            )
        return self._curvature_panels.product(self._pool, self._rows, direction, self.bias_column)

    def accept(self) -> None:
        """Make the margins of the last pass those of the present point."""
        super().accept()
        self._curvature_panels = self._curved = None

    def leave_flat_rows(self, share: float) -> None:
        """Copy the rows that have curvature, for products, if these are at most half, and a GiB.

        With q_i the sum of a row's curvatures along the outputs, rows are left out as long as the
        sum of ``q_i ||x_i||^2 / l2 + q_i / sum(q)`` over them is at most `share`.

        Parameters
        ----------
        share : float
            Of the Hessian, that may be missing along any direction.
        """
        own = own_curvatures(self).sum(axis=0)
        parts = own * (
            self._norms / self.problem.penalty.l2 + 1.0 / max(own.sum(), np.finfo(np.float64).tiny)
        )
        order = np.argsort(parts)
        n_flat = int(np.searchsorted(np.cumsum(parts[order]), share, side="right"))
        kept = np.sort(order[n_flat:])
        share = len(kept) / max(1, self.n_rows)
        # Of compressed rows an index has as many bytes as a number, or half.
        n_bytes = share * self.n_stored * self.dtype.itemsize * (2 if self.is_sparse else 1)
        if not len(kept) or share > _MOST_CURVED or n_bytes > MOST_CURVED_BYTES:
            return
        rows = self.dataset.take(kept, 1.0)
        curved = CpuPrimalEngine(self.problem, rows, n_threads=self.n_threads, seed=self.seed)
        curved._margins = np.ascontiguousarray(self._margins[:, kept])
        self._curved = curved

    @cached_property
    def _norms(self) -> np.ndarray:
        return squared_norms(self.dataset.matrix).astype(np.float64)

    def dense_rows(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the rows of a slice or of an index array as a dense array."""
        taken = self._array[rows]
        return taken.toarray() if isinstance(taken, csr_matrix) else taken

    def host_rows(self) -> np.ndarray | csr_matrix:
        """Return all rows as an ndarray or SciPy's CSR matrix."""
        return self._array

    def column_sums(self, rows: Any, centre: np.ndarray | None = None) -> np.ndarray:
        """Return sums of some rows' entries; `HostArrays.column_sums` has the parameters."""
        is_whole = isinstance(rows, slice) and rows == slice(0, self.n_rows)
        if not is_whole:
            return super().column_sums(rows, centre)
        return centred_sums(self._rows, self._pool, self.n_features, centre)

    def scaled_gram(self, weights: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the weighted Gram matrix of sparse rows in centred and scaled columns.

        Parameters
        ----------
        weights : ndarray of shape (n_rows,), float64
            One for each row.
        mean, scale : ndarray of shape (n_features,), float64
            Of the columns.

        Returns
        -------
        ndarray of shape (n_features + 1, n_features + 1), float64
            The intercept's column is the last.
        """
        return scaled_gram(self._rows, self._pool, weights, mean, scale, self.bias_column)

    def weighted_squares(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_i weights_ki x_ij^2, shape (n_outputs, n_features), float64."""
        if self.is_sparse and len(weights) >= FEWEST_IN_PANELS:
            return np.asarray((self._squares.T @ weights.T).T)
        parts = np.zeros((self.n_threads, len(weights), self.n_features))
        own = np.ascontiguousarray(weights)
        _native.weighted_squares(self._pool, self._rows, own, len(weights), parts)
        return np.asarray(parts.sum(axis=0))

    @cached_property
    def _squares(self) -> csr_matrix:
        rows = csr_matrix(self._array)
        squares = rows.data.astype(np.float64) ** 2
        return csr_matrix((squares, rows.indices, rows.indptr), shape=rows.shape)

    def column_grams(self, columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return weighted Gram matrices of some columns, as `host_arrays.column_grams`."""
        return column_grams(self._wide_rows, columns, weights, self.bias_column)

    @cached_property
    def _wide_rows(self) -> csr_matrix:
        return csr_matrix(self._array.astype(np.float64, copy=False))

    def sample(self, n_rows: int, communicator: Communicator | None = None) -> CpuPrimalEngine:
        """Return an engine on a copy of rows that stand for all; see `choose_rows`.

        Parameters
        ----------
        n_rows : int
            How many, of all shards together.
        communicator : Communicator or None, default=None
            The shards; None where there is no other.

        Returns
        -------
        CpuPrimalEngine
            With the same problem; the rows' weights make up for those left out.
        """
        return sampled_engine(self, n_rows, communicator)

    def check_finite(self) -> None:
        """Raise `NonFiniteError` if the matrix holds NaN or infinity."""
        inspect(self._rows, self._pool)


def sampled_engine(
    engine: HostArrays, n_rows: int, communicator: Communicator | None = None
) -> CpuPrimalEngine:
    """Return an engine in memory on a copy of rows that stand for all; see `choose_rows`.

    Parameters
    ----------
    engine : HostArrays
        Its rows, problem, seed and threads.
    n_rows : int
        How many, of all shards together.
    communicator : Communicator or None, default=None
        The shards; None where there is no other.

    Returns
    -------
    CpuPrimalEngine
        The rows' weights make up for those left out.
    """
    whole = engine.dataset
    n_outputs = engine.problem.n_outputs(whole.labels.shape)
    targets = RowTargets(engine.problem.loss, whole.labels, whole.row_weights, n_outputs)
    shards = SerialCommunicator() if communicator is None else communicator
    chosen = choose_rows(targets, n_rows, engine.seed, shards)
    dataset = whole.take(chosen.rows, chosen.factor)
    sampled = CpuPrimalEngine(engine.problem, dataset, n_threads=engine.n_threads, seed=engine.seed)
    sampled.rows_per_row = chosen.rows_per_row
    return sampled
