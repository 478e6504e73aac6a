"""What engines of dual coordinate ascent on the host share, wherever they take their rows from."""

from __future__ import annotations

import math

import numpy as np

from snapml import _native
from snapml.data import Matrix
from snapml.problems import Problem

__all__ = [
    "LEAST_OF_A_THREAD",
    "MOST_BLOCK_ROWS",
    "MOST_MERGES",
    "HostDuals",
    "block_rows",
    "relaxation_of",
    "start_states",
    "worth_merging",
]

MOST_BLOCK_ROWS = 16
_DENSE_BLOCK_ENTRIES, _SPARSE_BLOCK_ENTRIES = 32, 64
MOST_MERGES = 16
"""Of replicas, in an epoch: more of them save no epochs."""
LEAST_OF_A_THREAD = 100_000
"""Entries that are worth a meeting of threads, for each of them."""
# Entries a column that each thread with a shared vector of its own needs at least.
_ENTRIES_A_COLUMN = 4


class HostDuals:
    """What `Engine` asks of dual variables and margins on the host: sums that need no rows."""

    problem: Problem
    n_threads: int
    is_deterministic: bool
    duals: np.ndarray
    shared: np.ndarray
    tau: float

    relaxation: float

    _pool: _native.ThreadPool
    _rows: _native.Rows
    """As many rows as there are dual variables; what they hold does not matter here."""
    _shard: _native.Shard
    _mean: np.ndarray | None
    _margins: np.ndarray | None
    _kept: np.ndarray | None = None

    @property
    def description(self) -> str:
        """Number of threads and how they share the vector."""
        if self.n_threads == 1:
            return "1 thread"
        mode = "merged replicas" if self.is_deterministic else "one shared vector"
        return f"{self.n_threads} threads with {mode}"

    @property
    def offset(self) -> float:
        """Multiplier of the unpenalised intercept's constraint."""
        return float(self._shard.offset)

    @offset.setter
    def offset(self, value: float) -> None:
        self._shard.offset = value

    def keep_states(self) -> None:
        """Remember the states: the line to what they become begins there."""
        if self._kept is None:
            self._kept = np.empty_like(self.duals)
        np.copyto(self._kept, self.duals)

    def line_slope(self, step: float) -> float:
        """Return how the dual's loss terms, less the multiplier's, rise along the line.

        Parameters
        ----------
        step : float
            Where on the line from the kept states, at 0, to the present ones, at 1.

        Returns
        -------
        float
            The derivative in `step` of ``sum_i (-c_i l*(-beta_i / c_i) - offset beta_i)``.
        """
        return float(_native.line_slope(*self._shard_arguments(), self._kept_states(), step))

    def go_to(self, step: float) -> None:
        """Move the states along the line from the kept ones; the shared vector stays.

        Parameters
        ----------
        step : float
            As of `line_slope`.
        """
        _native.go_to(*self._shard_arguments(), self._kept_states(), step)

    def dual_mass(self) -> tuple[float, float]:
        """Return the sums of the positive and of the negative dual variables.

        Returns
        -------
        positive, negative : float
            Their sum is zero at a feasible point of a problem with an unpenalised intercept.
        """
        positive, negative = _native.dual_mass(*self._shard_arguments())
        return float(positive), float(negative)

    def set_shared(self, adjoint: np.ndarray) -> None:
        """Set the shared vector from exact sums.

        Parameters
        ----------
        adjoint : ndarray of shape (n_features + 1,), float64
            X^T beta, followed by sum(beta).
        """
        mass = adjoint[-1]
        self.shared[:-1] = adjoint[:-1] if self._mean is None else adjoint[:-1] - self._mean * mass
        self.shared[-1] = self.tau * mass

    def lengthen(self, factor: float) -> None:
        """Multiply the shared vector.

        Parameters
        ----------
        factor : float
            As near to 1 as the number type allows, or not.
        """
        self.shared *= factor

    def loss_value(self, shift: float) -> float:
        """Return the loss on the margins of the last exact sweep.

        Parameters
        ----------
        shift : float
            Added to every margin.

        Returns
        -------
        float
            ``sum_i c_i l(z_i + shift, y_i)``.
        """
        return float(_native.loss_value(*self._shard_arguments(), self._kept_margins(), shift))

    def loss_slope(self, shift: float) -> tuple[float, float]:
        """Return the first two derivatives of `loss_value` in the shift.

        Parameters
        ----------
        shift : float
            Added to every margin.

        Returns
        -------
        slope, curvature : float
            Derivatives; at a kink the slope is the left one.
        """
        margins_kept = self._kept_margins()
        slope, curvature = _native.loss_slope(*self._shard_arguments(), margins_kept, shift)
        return float(slope), float(curvature)

    def penalty_value(self, vector: np.ndarray) -> float:
        """Return R(vector), summed in float64."""
        return float(_native.penalty_value(self._pool, vector))

    def penalty_conjugate(self, vector: np.ndarray) -> float:
        """Return R*(vector), summed in float64."""
        return float(_native.penalty_conjugate(self._pool, vector))

    def _shard_arguments(self) -> tuple[_native.ThreadPool, _native.Rows, str, _native.Shard]:
        """Return what every call of the extension about this shard begins with."""
        return self._pool, self._rows, self.problem.loss.core_name, self._shard

    def _kept_states(self) -> np.ndarray:
        if self._kept is None:
            raise RuntimeError("expected kept states before a line from them, got none")
        return self._kept

    def _kept_margins(self) -> np.ndarray:
        if self._margins is None:
            raise RuntimeError("expected an exact sweep before sums over its margins, got none")
        return self._margins

    def _merges_of(self, n_stored: int) -> int:
        """Return how often replicas are merged while so many entries are read.

        As often as costs little: a merge goes through every replica in order, which is cheap beside
        as many entries that are read here and there, and a team needs some work between two
        meetings.
        """
        return max(1, min(MOST_MERGES, n_stored // self._least_of_a_round()))

    def _least_of_a_round(self) -> int:
        merged = (self.n_threads + 1) * len(self.shared)
        return max(merged, LEAST_OF_A_THREAD * self.n_threads)


def worth_merging(n_threads: int, matrix: Matrix) -> int:
    """Return how many threads are quicker than fewer, each with a shared vector of its own.

    Parameters
    ----------
    n_threads : int
        How many could be used.
    matrix : Matrix
        The rows.

    Returns
    -------
    int
        At least 1: all vectors are added up and copied again in every epoch, which takes longer
        than what threads save where a column has few entries.
    """
    return max(1, min(n_threads, matrix.n_stored // (_ENTRIES_A_COLUMN * (matrix.shape[1] + 1))))


def relaxation_of(problem: Problem) -> float:
    """Return the factor on the curvature of a step: above 1/2 the dual cannot fall.

    Longer steps save epochs where rows overlap much and cost next to none elsewhere
    (benchmarks/results/ablation.csv). At the hinge's corners the longest overshoot for ever where
    a free intercept's multiplier moves too.

    Parameters
    ----------
    problem : Problem
        With the loss.

    Returns
    -------
    float
        rho of docs/algorithms.md, section 1.5.
    """
    return 0.55 if problem.loss.is_smooth else 0.65


def start_states(problem: Problem, labels: np.ndarray) -> np.ndarray:
    """Return the states of beta = 0.

    Parameters
    ----------
    problem : Problem
        With the loss.
    labels : ndarray of shape (n_rows,)
        Of the rows.

    Returns
    -------
    ndarray of shape (n_rows,), the labels' dtype
        New memory.
    """
    states = np.empty(labels.shape, labels.dtype)
    name = problem.loss.core_name
    labels = np.ascontiguousarray(labels)
    _native.loss_quantities(name, "start", labels, labels, states)
    return states


def block_rows(matrix: Matrix, *, is_sparse: bool) -> int:
    """Return how many neighbouring rows to visit together.

    Jumping to a random row costs cache misses that a block shares; rows that always come together
    cost epochs, up to eight times as many on text, whose rows share few but frequent words
    (benchmarks/results/ablation.csv and block_rows.csv). So blocks are as short as long rows allow.

    Parameters
    ----------
    matrix : Matrix
        Its rows lie one behind the other.
    is_sparse : bool
        Whether they are compressed.

    Returns
    -------
    int
        From 1 to `MOST_BLOCK_ROWS`.
    """
    entries = matrix.n_stored / max(1, matrix.shape[0])
    enough = _SPARSE_BLOCK_ENTRIES if is_sparse else _DENSE_BLOCK_ENTRIES
    return max(1, min(MOST_BLOCK_ROWS, math.ceil(enough / max(entries, 1.0))))
