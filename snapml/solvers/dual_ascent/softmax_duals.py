"""Dual variables of the multinomial loss and what they make of compressed rows in memory.

A row's dual variables are ``c_i ([k = y_i] - p_ik)`` with p_i on the simplex; kept are the
logarithms of p. docs/algorithms.md, section 1.7.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from snapml import _native
from snapml.data import Dataset
from snapml.problems import Intercept, Problem
from snapml.solvers.dual_ascent.focused_rows import (
    FIRST_FOCUSED,
    FOCUSED_PASSES,
    LAST_FOCUSED,
    find_focus,
)
from snapml.solvers.dual_ascent.host_duals import (
    LEAST_OF_A_THREAD,
    MOST_MERGES,
    block_rows,
    relaxation_of,
    worth_merging,
)
from snapml.solvers.dual_ascent.intercept_column import intercept_column
from snapml.solvers.range_checks import check_range
from snapml.solvers.rows.cpu_rows import checked_rows
from snapml.solvers.rows.output_panels import in_panels
from snapml.solvers.threads import resolve_n_threads

__all__ = ["SoftmaxDuals", "SoftmaxModel"]

_NEVER = -1e30  # logarithm of a probability of zero; finite, so that zero times it is zero
_TINY = float(np.finfo(np.float64).tiny)


class SoftmaxModel(NamedTuple):
    """A model on the way, in the rows' type.

    Attributes
    ----------
    coef : ndarray of shape (n_classes, n_features)
        w.
    intercept : ndarray of shape (n_classes,), float64
        b.
    objective : float
        P of exactly these numbers.
    """

    coef: np.ndarray
    intercept: np.ndarray
    objective: float


class SoftmaxDuals:
    """All rows with their dual variables and the shared vectors, one a class.

    Parameters
    ----------
    problem : Problem
        The softmax loss with an L2 penalty of strength 1.
    dataset : Dataset
        Compressed rows, class numbers and row weights; used in place.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    seed : int, default=0
        Seed of the order in which rows are visited.

    Raises
    ------
    NonFiniteError
        If the matrix holds NaN or infinity.
    ValueError
        If indices or offsets lead outside the matrix.
    """

    def __init__(
        self, problem: Problem, dataset: Dataset, *, n_threads: int | None = None, seed: int = 0
    ) -> None:
        matrix = dataset.matrix
        self.problem, self.n_stored, self.dtype = problem, matrix.n_stored, matrix.dtype
        self.n_threads = worth_merging(resolve_n_threads(n_threads, matrix.n_stored), matrix)
        self._seed, self._relaxation = seed, relaxation_of(problem)
        self._pool, self._single = _native.ThreadPool(self.n_threads), _native.ThreadPool(1)
        self._rows, _, norm_sq_sum = checked_rows(matrix, self._pool, None, dataset.row_weights)
        self._block_rows = block_rows(matrix, is_sparse=True)
        (n_rows, n_features), n_classes = matrix.shape, problem.loss.n_outputs
        own = None if dataset.row_weights is None else dataset.row_weights.astype(np.float64)
        self._weights = np.full(n_rows, dataset.weight) if own is None else own
        self._classes = dataset.labels.astype(np.int64)
        stiffness = norm_sq_sum * (dataset.weight if own is None else 1.0)
        check_range(stiffness, matrix.dtype)
        self.mean_stiffness = stiffness / max(1, n_rows)
        total = float(self._weights.sum())
        self.tau = intercept_column(problem, stiffness / max(total, _TINY), total)
        self.log_p = np.full((n_rows, n_classes), _NEVER)
        self.log_p[np.arange(n_rows), self._classes] = 0.0
        self.shared = np.zeros((n_features + 1, in_panels(n_classes)))
        self.offsets = np.zeros(n_classes)
        self._dual = _native.SoftmaxDual.make(
            own, dataset.weight, self.log_p, self.shared, self.offsets, self.tau
        )
        self._sigma = self._focus_sigma = float(self.n_threads)
        self._replicas: np.ndarray | None = None
        self._row_gaps: np.ndarray | None = None

    @property
    def description(self) -> str:
        """Number of threads and how they share the vectors."""
        return (
            "1 thread" if self.n_threads == 1 else f"{self.n_threads} threads with merged replicas"
        )

    @property
    def intercept(self) -> np.ndarray:
        """The classes' intercepts."""
        found: np.ndarray = self.offsets + self.tau * self.shared[-1, : len(self.offsets)]
        return found

    @property
    def coef(self) -> np.ndarray:
        """The coefficients in the rows' type, shape (n_classes, n_features); a copy."""
        own = self.shared[:-1, : len(self.offsets)]
        return np.ascontiguousarray(own.T, dtype=self.dtype)

    def epoch(self, epoch: int) -> float:
        """Visit every row once, in an order fixed by the seed and `epoch`, and some again.

        Parameters
        ----------
        epoch : int
            Number of the epoch.

        Returns
        -------
        float
            Sum of the rows' gaps as each was visited: an estimate of the duality gap.
        """
        if self._replicas is None and self.n_threads > 1:
            self._replicas = np.empty((self.n_threads, *self.shared.shape))
        if self._row_gaps is None and epoch >= FIRST_FOCUSED:
            self._row_gaps = np.zeros(len(self.log_p))
        gap, self._sigma = self._sweep(epoch, self._sigma)
        if self._row_gaps is not None and epoch < LAST_FOCUSED and math.isfinite(gap):
            self._focus(epoch, find_focus(self._row_gaps))
        if self.problem.intercept is Intercept.FREE:
            # Method of multipliers for sum(beta_k) = 0, the optimality of unpenalised intercepts.
            self.offsets += self.tau * self.shared[-1, : len(self.offsets)]
        return gap

    def _focus(self, epoch: int, picked: np.ndarray | None) -> None:
        """Visit the rows that hold most of the gap again, where there are such rows."""
        if picked is None:
            return
        n_stored = self.n_stored * len(picked) // len(self.log_p)
        for k in range(1, FOCUSED_PASSES + 1):
            number = epoch + (k << 32)
            if n_stored >= self._least_of_a_round():
                _, self._focus_sigma = self._sweep(number, self._focus_sigma, picked)
            else:  # one thread is as quick
                self._sweep(number, 1.0, picked, is_alone=True)

    def _sweep(
        self,
        number: int,
        sigma: float,
        picked: np.ndarray | None = None,
        *,
        is_alone: bool = False,
    ) -> tuple[float, float]:
        """Visit all rows, or picked ones; return the sum of their gaps and the next factor."""
        n_visited = len(self.log_p) if picked is None else len(picked)
        n_stored = self.n_stored * n_visited // max(1, len(self.log_p))
        return _native.softmax_epoch(
            self._single if is_alone else self._pool,
            self._rows,
            self._dual,
            None if is_alone else self._replicas,
            sigma,
            self._relaxation,
            max(1, min(MOST_MERGES, n_stored // self._least_of_a_round())),
            self._block_rows,
            self._seed,
            number,
            picked,
            self._row_gaps,
        )

    def _least_of_a_round(self) -> int:
        """Return the entries beside which a merge costs little, as `HostDuals` has it."""
        n_entries = LEAST_OF_A_THREAD // self.shared.shape[1]
        return max((self.n_threads + 1) * len(self.shared), n_entries * self.n_threads)

    def lower_bound(self) -> float:
        """Return the dual objective at these variables, made feasible; one read of the rows.

        Returns
        -------
        float
            No model has a lower objective.
        """
        weights, p = self._weights, self._feasible()
        terms = -float(weights @ xlogy(p, p).sum(axis=1))
        betas = np.zeros((len(p), self.shared.shape[1]))
        np.multiply(p, -weights[:, None], out=betas[:, : p.shape[1]])
        betas[np.arange(len(p)), self._classes] += weights
        self._replicas = None  # the sums take their place in memory
        sums = np.empty((self.n_threads, *self.shared.shape))
        _native.many_adjoints(self._pool, self._rows, sums.shape[2], betas, False, sums)
        adjoint, mass = sums[0, :-1].ravel(), sums[0, -1]
        bound = terms - 0.5 * float(adjoint @ adjoint)
        if self.problem.intercept is Intercept.PENALISED:
            bound -= 0.5 * self.tau**2 * float(mass @ mass)
        return bound

    def _feasible(self) -> np.ndarray:
        """Return p, mixed with equal rows where the classes' dual variables must add up to zero.

        As little of those as does it: one class then has nothing in them.
        """
        p: np.ndarray = np.exp(self.log_p)
        p /= p.sum(axis=1, keepdims=True)
        if self.problem.intercept is not Intercept.FREE:
            return p
        want = np.bincount(self._classes, self._weights, minlength=p.shape[1])
        if not want.all():  # a class without weight has no share in any row
            p[:, want == 0.0] = 0.0
            p /= np.maximum(p.sum(axis=1, keepdims=True), _TINY)
        have = self._weights @ p
        share = float(np.max(1.0 - want / np.maximum(have, _TINY), initial=0.0, where=have > 0.0))
        if share > 0.0:
            p *= 1.0 - share
            missing = np.maximum(want - (1.0 - share) * have, 0.0)
            p += share * missing / max(missing.sum(), _TINY)
        return p

    def model(self) -> SoftmaxModel:
        """Return the present model with its objective; one read of the rows."""
        return self._evaluated(self.coef, self.intercept)

    def zero_model(self) -> SoftmaxModel:
        """Return the model without coefficients; its intercepts, if free, give the shares."""
        n_classes, n_features = len(self.offsets), len(self.shared) - 1
        intercept = np.zeros(n_classes)
        if self.problem.intercept is Intercept.FREE:
            masses = np.bincount(self._classes, self._weights, minlength=n_classes)
            intercept = np.log(np.maximum(masses, _TINY) / max(float(masses.sum()), _TINY))
            intercept -= intercept.mean()
        return self._evaluated(np.zeros((n_classes, n_features), self.dtype), intercept)

    def _evaluated(self, coef: np.ndarray, intercept: np.ndarray) -> SoftmaxModel:
        n_classes, stride = len(intercept), self.shared.shape[1]
        vectors = np.zeros_like(self.shared)
        vectors[:-1, :n_classes] = coef.T
        vectors[-1, :n_classes] = intercept
        margins = np.empty((len(self.log_p), stride))
        _native.many_products(self._pool, self._rows, stride, vectors, margins)
        z = margins[:, :n_classes]
        chosen = z[np.arange(len(z)), self._classes]
        top = z.max(axis=1)
        losses = np.log(np.exp(z - top[:, None]).sum(axis=1)) + (top - chosen)
        wide = vectors[:-1].ravel()
        objective = float(self._weights @ losses) + 0.5 * float(wide @ wide)
        if self.problem.intercept is Intercept.PENALISED and self.tau > 0.0:
            bias = intercept / self.tau
            objective += 0.5 * float(bias @ bias)
        return SoftmaxModel(coef, intercept, objective)
