"""The CPU engine: a shard in this process's memory, swept by the compiled extension."""

from __future__ import annotations

import math

import numpy as np

from snapml import _native
from snapml.data import Dataset, DenseMatrix, Matrix
from snapml.problems import Intercept, Problem
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.dual_ascent.focused_rows import (
    FIRST_FOCUSED,
    FOCUSED_PASSES,
    LAST_FOCUSED,
    find_focus,
)
from snapml.solvers.dual_ascent.host_duals import (
    MOST_BLOCK_ROWS,
    HostDuals,
    block_rows,
    relaxation_of,
    start_states,
    worth_merging,
)
from snapml.solvers.dual_ascent.intercept_column import intercept_column
from snapml.solvers.engine import SeveralEpochs
from snapml.solvers.range_checks import check_range
from snapml.solvers.rows.cpu_rows import checked_rows
from snapml.solvers.threads import resolve_n_threads

__all__ = ["CpuEngine"]

# Rows that still move are visited again where they are at most this share of all, until they leave
# this share of the gap or have cost as much as so many epochs.
_MOST_MOVING, _ENOUGH, _MOVING_EPOCHS = 0.8, 0.1, 4
# Epochs that one call runs at most, and the entries that they may visit, a row being so many: that
# takes some tens of microseconds.
_MOST_AT_ONCE, _VISITS_AT_ONCE, _ENTRIES_A_ROW = 16, 40_000, 10
_TINY = float(np.finfo(np.float64).tiny)  # stands for a sum of weights that is zero


class CpuEngine(HostDuals):
    """A shard of rows with its dual variables and the shared vector (protocol `Engine`).

    Parameters
    ----------
    problem : Problem
        Loss and intercept.
    dataset : Dataset
        Rows, labels and row weights; used in place.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    deterministic : bool, default=True
        Whether several threads keep replicas that are merged in a fixed order. If False, threads
        on sparse rows update one shared vector without waiting for each other.
    seed : int, default=0
        Seed of the order in which rows are visited.
    duals : ndarray of shape (n_rows,) or None, default=None
        States to start from; None starts at beta = 0.
    offset : float, default=0.0
        Multiplier of an unpenalised intercept to start from; other problems have none.
    column_scale : float, default=1.0
        Factor on the length of a free intercept's column; changes the speed, not the answer.
    is_centred : bool, default=True
        Whether dense columns are centred where there is a free intercept; likewise.

    Raises
    ------
    NonFiniteError
        If the matrix holds NaN or infinity.
    ValueError
        If indices or offsets lead outside the matrix.
    """

    free_visits = 250_000  # a fraction of a millisecond

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
        column_scale: float = 1.0,
        is_centred: bool = True,
    ) -> None:
        self.problem = problem
        self.relaxation = relaxation_of(problem)
        self.n_threads = resolve_n_threads(n_threads, dataset.matrix.n_stored)
        if deterministic:
            self.n_threads = worth_merging(self.n_threads, dataset.matrix)
        self._seed = seed
        self._pool = _native.ThreadPool(self.n_threads)
        self._dataset = dataset
        self._column_scale = column_scale
        # Only the constraint of a free intercept has a multiplier.
        self._first_offset = offset if problem.intercept is Intercept.FREE else 0.0
        self._is_centred = is_centred and _can_centre(problem, dataset.matrix)
        self.n_stored = dataset.matrix.n_stored
        self.block_rows = _block_rows(dataset.matrix)
        is_sparse = not isinstance(dataset.matrix, DenseMatrix)
        self.is_deterministic = deterministic or self.n_threads == 1 or not is_sparse
        self.has_warm_start = duals is not None
        self.duals = start_states(problem, dataset.labels) if duals is None else duals
        self.shared = np.zeros(dataset.matrix.shape[1] + 1, dtype=dataset.matrix.dtype)
        self._sigma = self._focus_sigma = float(self.n_threads)
        # Rows of columns that lie side by side are slow to read one by one. At the hinge's corners
        # few rows and the multiplier of a free intercept may push each other in turn for ever.
        is_settled = problem.loss.is_smooth or problem.intercept is not Intercept.FREE
        knows_rest = is_settled and problem.loss.kinks != "none"
        self.may_rest = knows_rest and _has_rows(dataset.matrix)
        self.has_focus = is_sparse and is_settled and not knows_rest
        if knows_rest:  # an epoch may visit so many more; the same on all shards
            self.free_visits //= 1 + _MOVING_EPOCHS
        self._single = _native.ThreadPool(1)
        n_visits = max(1, self.n_stored + _ENTRIES_A_ROW * len(self.duals))
        is_plain = self.n_threads == 1 and not self.has_focus
        at_once = min(_MOST_AT_ONCE, _VISITS_AT_ONCE // n_visits)
        self._most_at_once = at_once if is_plain else 0
        self._row_gaps: np.ndarray | None = None
        self._at_rest: np.ndarray | None = None
        self._replicas: np.ndarray | None = None
        self._margins: np.ndarray | None = None
        self.agree(SerialCommunicator())

    def agree(self, communicator: Communicator) -> None:
        """Choose the columns' centre and the intercept's column, with the other shards.

        Parameters
        ----------
        communicator : Communicator
            Adds up over the shards.
        """
        matrix = self._dataset.matrix
        self._mean = self._agreed_mean(communicator) if self._is_centred else None
        self._rows, norms, norm_sq_sum = checked_rows(
            matrix, self._pool, self._mean, self._dataset.row_weights
        )
        weights = self._dataset.row_weights
        total = self._dataset.total_weight
        stiffness = norm_sq_sum * self._dataset.weight if weights is None else norm_sq_sum
        sums = communicator.allreduce_sum(np.array([stiffness, total, float(matrix.shape[0])]))
        check_range(float(sums[0]), matrix.dtype)
        mean_norm_sq = float(sums[0]) / max(float(sums[1]), _TINY)
        # Rows of one shard would go on without the steps of the others.
        if self.may_rest and communicator.size == 1:
            self._at_rest = np.empty(len(self.duals), dtype=np.uint8)
        else:
            self._at_rest = None
        self.mean_stiffness = float(sums[0]) / max(1.0, float(sums[2]))  # a shard may be empty
        column = intercept_column(self.problem, mean_norm_sq, float(sums[1]))
        # What the intercept's column of a penalised problem is belongs to the problem.
        is_free = self.problem.intercept is Intercept.FREE
        self.tau = self._column_scale * column if is_free else column
        self._shard = _native.Shard.make(
            self._dataset.labels,
            weights,
            self._dataset.weight,
            norms,
            self.duals,
            self.shared,
            self.tau,
            self._first_offset,
            self._dataset.offsets,
        )

    def dual_epoch(self, epoch: int, outer_sigma: float = 1.0) -> float:
        """Visit every row once, in an order fixed by the seed and `epoch`, and some again.

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
            self._replicas = np.empty((self.n_threads, len(self.shared)), dtype=self.shared.dtype)
        if self._row_gaps is None and self.has_focus and epoch >= FIRST_FOCUSED:
            self._row_gaps = np.zeros_like(self.duals)
        gap, self._sigma = self._sweep(epoch, outer_sigma, self._sigma)
        if self._at_rest is not None and math.isfinite(gap):
            self._sweep_moving(self._at_rest, gap, epoch, outer_sigma)
        if self._row_gaps is not None and epoch < LAST_FOCUSED and math.isfinite(gap):
            self._focus(epoch, outer_sigma, find_focus(self._row_gaps))
        return gap

    @property
    def several_epochs(self) -> SeveralEpochs | None:
        """Runs several epochs in one call, where they are short."""
        return self._epochs_at_once if self._most_at_once > 1 else None

    def _epochs_at_once(
        self, first: int, n_epochs: int, before: float, factor: float, most: float
    ) -> list[float]:
        gaps = np.empty(min(n_epochs, self._most_at_once))
        count = _native.several_epochs(
            *self._shard_arguments(),
            self.relaxation,
            self.block_rows,
            self._seed,
            first,
            self.problem.intercept is Intercept.FREE,
            self._at_rest,
            _MOST_MOVING,
            _ENOUGH,
            _MOVING_EPOCHS * (self.n_stored + len(self.duals)),
            before,
            factor,
            most,
            gaps,
        )
        return [float(gap) for gap in gaps[:count]]

    def _focus(self, epoch: int, outer_sigma: float, picked: np.ndarray | None) -> None:
        """Visit the rows that hold most of the gap again, where there are such rows."""
        if picked is None:
            return
        _, is_shared = self._work_on(len(picked))
        for k in range(1, FOCUSED_PASSES + 1):
            number = epoch + (k << 32)
            if is_shared:
                sigma = self._focus_sigma
                _, self._focus_sigma = self._sweep(number, outer_sigma, sigma, picked)
            else:
                self._sweep(number, outer_sigma, 1.0, picked, self._single)

    def _work_on(self, n_picked: int) -> tuple[int, bool]:
        """Return the entries of so many rows, and whether one thread is not as quick on them."""
        n_stored = self.n_stored * n_picked // max(1, len(self.duals))
        return n_stored, n_stored >= self._least_of_a_round()

    def _sweep_moving(
        self, at_rest: np.ndarray, gap: float, epoch: int, outer_sigma: float
    ) -> None:
        """Visit the rows that an epoch has moved until little of its gap is left."""
        n_rows = len(at_rest)
        n_moving = n_rows - int(np.count_nonzero(at_rest))
        if n_moving > _MOST_MOVING * n_rows:
            return
        n_stored, is_shared = self._work_on(n_moving)
        _, sigma = _native.sweep_moving_rows(
            self._pool if is_shared else self._single,
            *self._shard_arguments()[1:],
            self._replicas if is_shared else None,
            self._focus_sigma if is_shared else 1.0,
            outer_sigma,
            self.relaxation,
            self._merges_of(n_stored),
            self.block_rows,
            self._seed,
            epoch,
            at_rest,
            _ENOUGH * gap,
            _MOVING_EPOCHS * (self.n_stored + n_rows),
        )
        if is_shared:
            self._focus_sigma = float(sigma)

    def _sweep(
        self,
        number: int,
        outer_sigma: float,
        sigma: float,
        picked: np.ndarray | None = None,
        pool: _native.ThreadPool | None = None,
    ) -> tuple[float, float]:
        """Visit all rows, or picked ones; return the sum of their gaps and the next factor."""
        share = 1.0 if picked is None else len(picked) / len(self.duals)
        gap, sigma, _ = _native.dual_epoch(
            self._pool if pool is None else pool,
            *self._shard_arguments()[1:],
            self._replicas if pool is None else None,
            sigma,
            outer_sigma,
            self.relaxation,
            self._merges_of(int(share * self.n_stored)),
            self.block_rows,
            self._seed,
            number,
            picked,
            self._row_gaps,
            self._at_rest,
        )
        return float(gap), float(sigma)

    def exact_sweep(self, positive_scale: float, negative_scale: float) -> tuple[float, np.ndarray]:
        """Read the matrix once in float64.

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
        dual_terms = _native.exact_sweep(
            *self._shard_arguments(),
            positive_scale,
            negative_scale,
            self._margins,
            adjoints,
        )
        return float(dual_terms), adjoints[0]

    def _agreed_mean(self, communicator: Communicator) -> np.ndarray:
        """Return the weighted means of the columns of all shards."""
        matrix, weights = self._dataset.matrix, self._dataset.row_weights
        values = matrix.values  # type: ignore[attr-defined]  # only dense rows are centred
        with np.errstate(all="ignore"):  # what is not finite is refused by the check that follows
            if weights is None:
                sums, total = values.sum(axis=0, dtype=np.float64), float(matrix.shape[0])
            else:
                # Rows of weight zero take no part, whatever they hold.
                sums = np.einsum("ij,i->j", values, weights, dtype=np.float64)
                total = float(weights.sum(dtype=np.float64))
            both = communicator.allreduce_sum(np.append(sums, total))
            mean: np.ndarray = (both[:-1] / max(both[-1], _TINY)).astype(matrix.dtype)
        return mean


def _has_rows(matrix: Matrix) -> bool:
    """Return whether a row is contiguous, as it is not where columns lie side by side."""
    if not isinstance(matrix, DenseMatrix):
        return True
    return matrix.shape[1] <= 1 or matrix.values.strides[1] == matrix.dtype.itemsize


def _block_rows(matrix: Matrix) -> int:
    """Return how many neighbouring rows of a matrix in memory to visit together.

    A column-major block shares its cache lines between 16 rows.
    """
    if not _has_rows(matrix):
        return MOST_BLOCK_ROWS
    return block_rows(matrix, is_sparse=not isinstance(matrix, DenseMatrix))


def _can_centre(problem: Problem, matrix: Matrix) -> bool:
    """Return whether to subtract the column means during the descent.

    With an unpenalised intercept, centred columns pose the same problem and need far fewer
    epochs. Sparse rows stay as they are: they would be dense.
    """
    return problem.intercept is Intercept.FREE and isinstance(matrix, DenseMatrix)
