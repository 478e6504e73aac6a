"""The engine of dual coordinate ascent over rows of which only a part is in memory at a time."""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.data import ChunkedMatrix, CompressedMatrix, Dataset, RowGroups
from snapml.problems import Intercept, Problem
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.dual_ascent.host_duals import HostDuals, block_rows, relaxation_of, start_states
from snapml.solvers.dual_ascent.intercept_column import intercept_column
from snapml.solvers.range_checks import check_range
from snapml.solvers.rows.cpu_rows import inspect, native_rows
from snapml.solvers.threads import resolve_n_threads

__all__ = ["StreamedDualEngine"]

_TINY = float(np.finfo(np.float64).tiny)  # stands for a sum of weights that is zero


class StreamedDualEngine(HostDuals):
    """A shard of rows that are read from a store, and their dual variables (protocol `Engine`).

    An epoch reads the rows in random pieces, as many at a time as a chunk holds, and visits the
    rows of each such group in random order. Labels, weights, states and margins of all rows stay
    in memory: 16 bytes a row in float32, 24 in float64, and one number more with weights. Squared
    norms are computed at each visit, but where entries are stored twice.

    Parameters
    ----------
    problem : Problem
        Loss and intercept.
    dataset : Dataset
        With a `ChunkedMatrix`.
    n_threads : int or None, default=None
        Threads to use; None means all available. One more reads ahead.
    deterministic : bool, default=True
        As for `CpuEngine`.
    seed : int, default=0
        Seed of the order in which rows are visited.
    duals : ndarray of shape (n_rows,) or None, default=None
        States to start from; None starts at beta = 0.
    offset : float, default=0.0
        Multiplier of an unpenalised intercept to start from.

    Raises
    ------
    ValueError
        If a chunk is damaged, or squares of its entries would overflow.
    OSError
        If a chunk cannot be read.
    """

    free_visits = 0  # reads of files are work
    several_epochs = None

    def __init__(
        self,
        problem: Problem,
        dataset: Dataset,
        *,
        n_threads: int | None = None,
        deterministic: bool = True,
        seed: int = 0,
        duals: np.ndarray | None = None,
        offset: float = 0.0,
    ) -> None:
        if not isinstance(dataset.matrix, ChunkedMatrix):
            raise TypeError(f"expected a ChunkedMatrix, got {type(dataset.matrix).__name__}")
        self.problem = problem
        self.relaxation = relaxation_of(problem)
        self._dataset = dataset
        self._matrix = dataset.matrix
        self.n_stored = self._matrix.n_stored
        self.n_threads = resolve_n_threads(n_threads, self.n_stored)
        self._seed = seed
        self._pool = _native.ThreadPool(self.n_threads)
        self._first_offset = offset if problem.intercept is Intercept.FREE else 0.0
        is_sparse = self._matrix.is_sparse
        # As in memory: with an unpenalised intercept, centred columns need far fewer epochs.
        self._is_centred = problem.intercept is Intercept.FREE and not is_sparse
        self.block_rows = block_rows(self._matrix, is_sparse=is_sparse)
        self.is_deterministic = deterministic or self.n_threads == 1 or not is_sparse
        self.has_warm_start = duals is not None
        self.duals = start_states(problem, dataset.labels) if duals is None else duals
        self.shared = np.zeros(self._matrix.shape[1] + 1, self._matrix.dtype)
        self._sigma = float(self.n_threads)
        self._replicas: np.ndarray | None = None
        self._margins: np.ndarray | None = None
        self._groups = RowGroups(self._matrix, seed)
        self._rows = _native.Rows.dense(np.empty((len(self.duals), 0), self._matrix.dtype))
        self._survey()
        self.agree(SerialCommunicator())

    @property
    def description(self) -> str:
        """Threads, how they share the vector, and how many chunks stay in memory."""
        matrix = self._matrix
        return f"{super().description}, {matrix.n_resident} of {matrix.n_chunks} chunks in memory"

    def agree(self, communicator: Communicator) -> None:
        """Choose the columns' centre and the intercept's column, with the other shards.

        Parameters
        ----------
        communicator : Communicator
            Adds up over the shards.
        """
        dataset, dtype = self._dataset, self._matrix.dtype
        own = [self._norm_sq_sum, dataset.total_weight, float(len(self.duals))]
        sums = communicator.allreduce_sum(np.concatenate([own, self._column_sums]))
        norm_sq_sum, total, n_rows = sums[:3].tolist()
        self._mean = None
        if self._is_centred:
            mean = sums[3:] / max(total, _TINY)
            norm_sq_sum = max(0.0, norm_sq_sum - total * float(mean @ mean))
            self._mean = mean.astype(dtype)
        check_range(norm_sq_sum, dtype)
        self.mean_stiffness = norm_sq_sum / n_rows
        self.tau = intercept_column(self.problem, norm_sq_sum / max(total, _TINY), total)
        # Of all rows, for sums that need none of their entries.
        alone = np.zeros(1, dtype)
        self._shard = self._shard_of(slice(None), self.duals, alone, self._first_offset)

    def dual_epoch(self, epoch: int, outer_sigma: float = 1.0) -> float:
        """Visit every row once, in an order fixed by the seed and `epoch`.

        Parameters
        ----------
        epoch : int
            Number of the epoch.
        outer_sigma : float, default=1.0
            Safety factor among shards; the shared vector moves by that times the change of
            X^T beta.

        Returns
        -------
        float
            Sum of the rows' gaps as each was visited: an estimate of the duality gap.
        """
        if self._replicas is None and self.is_deterministic and self.n_threads > 1:
            self._replicas = np.empty((self.n_threads, len(self.shared)), self.shared.dtype)
        total = 0.0
        for number, (places, matrix) in enumerate(self._groups.groups(epoch)):
            rows = native_rows(matrix, self._pool)
            if self._mean is not None:
                rows.centre(self._mean)
            duals = _gathered(self.duals, places)
            gap, self._sigma, _ = _native.dual_epoch(
                self._pool,
                rows,
                self.problem.loss.core_name,
                self._shard_of(places, duals, self.shared, self.offset),
                self._replicas,
                self._sigma,
                outer_sigma,
                self.relaxation,
                self._merges_of(matrix.n_stored),
                self.block_rows,
                self._seed,
                (epoch << 32) + number,  # another order for each group
            )
            _scatter(duals, self.duals, places)
            total += gap
        return total

    def exact_sweep(self, positive_scale: float, negative_scale: float) -> tuple[float, np.ndarray]:
        """Read the rows once, chunk by chunk, in float64.

        Parameters
        ----------
        positive_scale, negative_scale : float
            Factors in [0, 1] for the positive and negative dual variables.

        Returns
        -------
        dual_terms : float
            ``-sum_i c_i l*(-beta'_i / c_i)`` of the scaled variables.
        adjoint : ndarray of shape (n_features + 1,), float64
            X^T beta', followed by sum(beta').
        """
        self._replicas = None  # the adjoints take their place in memory
        if self._margins is None:
            self._margins = np.empty(len(self.duals))
        adjoints = np.empty((self.n_threads, len(self.shared)))
        adjoint, dual_terms = np.zeros(len(self.shared)), 0.0
        for number, matrix in self._matrix.chunks():
            part = self._matrix.rows_of(number)
            dual_terms += _native.exact_sweep(
                self._pool,
                native_rows(matrix, self._pool),
                self.problem.loss.core_name,
                self._shard_of(part, self.duals[part], self.shared, self.offset),
                positive_scale,
                negative_scale,
                self._margins[part],
                adjoints,
            )
            adjoint += adjoints[0]
        return dual_terms, adjoint

    def _survey(self) -> None:
        """Read all rows once: sums of weighted squares and columns, norms where they are needed.

        This read compares the checksums of whole chunks.
        """
        matrix, weights = self._matrix, self._dataset.row_weights
        self._norm_sq_sum, plain_sum, has_duplicates = 0.0, 0.0, False
        self._column_sums = np.zeros(matrix.shape[1] if self._is_centred else 0)
        self._norms: np.ndarray | None = None
        norms = np.empty(len(self.duals), matrix.dtype)
        for number, chunk in matrix.chunks():
            part = matrix.rows_of(number)
            rows = native_rows(chunk, self._pool)
            facts = inspect(rows, self._pool, norms[part])
            if not facts.is_sorted and rows.has_duplicates():
                has_duplicates = True
                assert isinstance(chunk, CompressedMatrix)  # dense rows are sorted
                summed = native_rows(chunk.summed(), self._pool)
                facts = inspect(summed, self._pool, norms[part])
            plain_sum += facts.norm_sq_sum
            if weights is None:
                self._norm_sq_sum += self._dataset.weight * facts.norm_sq_sum
            else:
                self._norm_sq_sum += float((weights[part] * norms[part]).sum(dtype=np.float64))
            if self._is_centred:
                values = chunk.values  # type: ignore[attr-defined]  # only dense rows are centred
                c = np.full(len(values), self._dataset.weight) if weights is None else weights[part]
                self._column_sums += np.einsum("ij,i->j", values, c, dtype=np.float64)
        check_range(plain_sum, matrix.dtype)
        if has_duplicates:
            self._norms = norms

    def _shard_of(
        self,
        places: slice | list[slice],
        duals: np.ndarray,
        shared: np.ndarray,
        offset: float,
    ) -> _native.Shard:
        """Return some rows' share of labels, weights and norms, beside their states."""
        dataset = self._dataset
        weights, norms, row_offsets = (
            None if array is None else _gathered(array, places)
            for array in (dataset.row_weights, self._norms, dataset.offsets)
        )
        labels = _gathered(dataset.labels, places)
        return _native.Shard.make(
            labels, weights, dataset.weight, norms, duals, shared, self.tau, offset, row_offsets
        )


def _gathered(array: np.ndarray, places: slice | list[slice]) -> np.ndarray:
    """Return the elements of a slice in place, those of several in new memory."""
    if isinstance(places, slice):
        return array[places]
    return np.concatenate([array[part] for part in places])


def _scatter(taken: np.ndarray, array: np.ndarray, places: list[slice]) -> None:
    """Put back what was gathered."""
    first = 0
    for part in places:
        last = first + part.stop - part.start
        array[part] = taken[first:last]
        first = last
