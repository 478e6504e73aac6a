"""L1 and elastic net for the softmax: working sets of one class after the other.

With the other classes' margins fixed, the softmax of one class is the logistic loss of its margin
less the logarithm of the sum of their exponentials. So a cycle over the classes is one working-set
problem each, and ends with a read of the data that certifies all of them together.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from snapml.data import Dataset
from snapml.problems import Intercept, Logistic, Penalty, Problem, Softmax
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.cpu_columns import CpuColumns, penalty_value
from snapml.solvers.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.primal_certificate import constrained_lower_bound
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import Progress, StoppingRule
from snapml.solvers.threads import limit_blas_threads
from snapml.solvers.working_set_descent import State, descend

__all__ = ["solve"]

_SHARE = 0.03  # of the gap, divided among the classes, that each may leave

_CYCLES = 3  # over the classes between two certificates


def solve(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    *,
    n_threads: int | None = None,
    start: np.ndarray | None = None,
) -> FitResult:
    """Minimise until the certified gap of all classes meets the rule, or its reads are used up.

    Parameters
    ----------
    problem : Problem
        Of the softmax.
    dataset : Dataset
        Rows, class numbers and weights.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most cycles.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    start : ndarray of shape (n_classes, n_features + 1) or None, default=None
        Coefficients to start from, the last that of the intercept's column.

    Returns
    -------
    FitResult
        The model with its certificate.
    """
    whole = _Whole(problem, dataset, communicator, n_threads, start)
    progress = Progress(rule)
    classes = [_Class(whole, k, n_threads) for k in range(whole.n_classes)]
    has_converged, share, gap_before = False, _SHARE, math.inf
    # Matrix products stay on the thread of the fit's own that asks for them.
    with limit_blas_threads(1):
        while True:
            whole.read()
            progress.see_epoch(whole.gap)
            progress.see_certificate(whole.gap, whole.objective)
            has_converged = progress.is_met
            if has_converged or len(progress.history) >= rule.max_iter:
                break
            # A class without coefficients sees its violations squared, the whole gap as they are.
            share = _SHARE if whole.gap < 0.5 * gap_before else max(1e-12, 0.2 * share)
            gap_before = whole.gap
            for one in _CYCLES * classes:
                one.improve(share * whole.gap / whole.n_classes)
    whole.round_off()
    intercept = whole.coef[:, -1] * problem.intercept_scaling
    return FitResult(
        coef=whole.coef[:, :-1].astype(dataset.matrix.dtype),
        intercept=intercept if problem.intercept is Intercept.PENALISED else whole.coef[:, -1],
        duals=None,
        offset=0.0,
        n_iter=len(progress.history),
        has_converged=has_converged,
        gap=whole.gap,
        objective=whole.objective,
        history=progress.history,
        mean_stiffness=0.0,
        description=f"working-set descent on one class after the other, {whole.engine.description}",
    )


class _Whole:
    """All classes' coefficients and margins, and the best bound so far."""

    def __init__(
        self,
        problem: Problem,
        dataset: Dataset,
        communicator: Communicator,
        n_threads: int | None,
        start: np.ndarray | None,
    ) -> None:
        assert isinstance(problem.loss, Softmax)
        self.problem, self.dataset, self.communicator = problem, dataset, communicator
        self.n_classes = problem.loss.n_classes
        self.engine = CpuPrimalEngine(problem, dataset, n_threads=n_threads)
        self.engine.check_finite()
        shape = (self.n_classes, self.engine.n_features + 1)
        self.coef = np.zeros(shape) if start is None else start.astype(np.float64)
        self.margins = np.empty(0)
        self.gap = self.objective = math.inf
        self._lower_bound = -math.inf

    def read(self) -> None:
        """Read the data once: margins, objective and a lower bound."""
        self._recentre()
        engine, total = self.engine, self.communicator.allreduce_sum
        loss, gradient, _ = engine.fused_pass(self.coef)
        engine.accept()
        loss, gradient = float(total(np.array([loss]))[0]), total(gradient)
        is_penalised = self.problem.intercept is Intercept.PENALISED
        penalised = self.coef if is_penalised else self.coef[:, :-1]
        self.objective = loss + penalty_value(self.problem.penalty, penalised.ravel())
        bound = constrained_lower_bound(engine, self.communicator, self.coef, loss, gradient)
        self._lower_bound = max(self._lower_bound, bound)
        self.gap = certified_gap(self.objective, self._lower_bound)
        self.margins = engine.margins.copy()

    def _recentre(self) -> None:
        """Move all classes' coefficients of a feature by what makes the penalty least.

        The loss does not see that, and descent on one class at a time would take long to find it.
        """
        kind = self.problem.intercept
        if kind is Intercept.PENALISED:
            self.coef -= _cheapest_shifts(self.coef, self.problem.penalty)
            return
        self.coef[:, :-1] -= _cheapest_shifts(self.coef[:, :-1], self.problem.penalty)
        if kind is Intercept.FREE:
            self.coef[:, -1] -= self.coef[:, -1].mean()

    def round_off(self) -> None:
        """Certify the model that the data's type can hold: it is the one that is returned."""
        rounded = self.coef.astype(self.dataset.matrix.dtype).astype(np.float64)
        if self.problem.intercept is Intercept.FREE:
            rounded[:, -1] = self.coef[:, -1]
        if not np.array_equal(rounded, self.coef):
            self.coef = rounded
            self.read()


def _cheapest_shifts(coef: np.ndarray, penalty: Penalty) -> np.ndarray:
    """Return for every column the t that minimises R(coef - t)."""
    ordered, n = np.sort(coef, axis=0), len(coef)
    if penalty.is_positive:
        return ordered[0]
    if not penalty.l2:  # any median: the one nearest to none at all
        low, high = ordered[(n - 1) // 2], ordered[n // 2]
        return np.clip(0.0, low, high)
    # The median of the coefficients and of the minima of the pieces between them.
    slopes = penalty.l1 / penalty.l2 * (1.0 - 2.0 * np.arange(n + 1) / n)
    pieces = coef.mean(axis=0) + slopes[:, None]
    return np.median(np.vstack([coef, pieces]), axis=0)


class _Class:
    """One class against the rest."""

    def __init__(self, whole: _Whole, number: int, n_threads: int | None) -> None:
        data = whole.dataset
        labels = np.where(data.labels == number, 1.0, -1.0).astype(data.labels.dtype)
        problem = replace(whole.problem, loss=Logistic())
        self._engine = CpuColumns(problem, replace(data, labels=labels), n_threads=n_threads)
        self._whole, self._number = whole, number
        self._state = State(self._engine, whole.communicator, None)

    def improve(self, target: float) -> None:
        """Descend on this class until its own gap is about `target`."""
        whole, k, state = self._whole, self._number, self._state
        offset = -logsumexp(np.delete(whole.margins, k, axis=0), axis=0)
        is_penalised = whole.problem.intercept is Intercept.PENALISED
        coef = whole.coef[k] if is_penalised else whole.coef[k, :-1]
        shift = 0.0 if is_penalised else float(whole.coef[k, -1])
        state.restart(coef, whole.margins[k] - shift + offset, shift, offset)
        descend(state, target)
        whole.coef[k, : len(state.coef)] = state.coef
        if whole.problem.intercept is Intercept.FREE:
            whole.coef[k, -1] = state.shift
        whole.margins[k] = state.margins - offset + state.shift
