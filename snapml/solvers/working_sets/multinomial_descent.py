"""L1 and elastic net for the softmax: Newton steps on all classes together, or on one by one.

Where few coefficients matter, the quadratic model of all classes is minimised on them at once, and
the read that tries the step certifies it. Where there are too many, classes take turns: with the
other classes' margins fixed, the softmax of one class is the logistic loss of its margin less the
logarithm of the sum of their exponentials, a working-set problem of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from snapml.data import Dataset
from snapml.problems import Intercept, Penalty, Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.columns.cpu_column_engine import CpuColumnEngine
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.cpu_formulas import penalty_value
from snapml.solvers.newton.primal_certificate import constrained_lower_bound
from snapml.solvers.result import FitResult
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.stopping import Progress, StoppingRule
from snapml.solvers.threads import limit_blas_threads
from snapml.solvers.working_sets.softmax_model import Coordinates, SoftmaxModel
from snapml.solvers.working_sets.working_set_descent import descend
from snapml.solvers.working_sets.working_set_state import State

__all__ = ["solve"]

_SHARE = 0.03  # of the gap, divided among the classes, that each may leave

_CYCLES = 3  # over the classes between two certificates

# Coefficients of a joint step, and products that its Gram matrix may take.
_MOST_JOINT, _MOST_PRODUCTS = 2000, 1e10
_FIRST_COORDINATES = 200
_INNER_SHARE, _LEAST_SHARE = 0.1, 1e-6  # of the gap that a joint step may leave
_MOST_TRIES = 4
_ARMIJO = 1e-4
_ROUNDING, _FINE = 2.0**-46, 1e-7  # shares of the objective: lost in its sums, or nearly so
# Share of equal probabilities mixed into the curvature's: of the first short step, and the least.
_FIRST_DAMPING, _LEAST_DAMPING = 1e-4, 1e-8
_PATIENCE = 20  # reads without a smaller gap


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
    # Matrix products stay on the thread of the fit's own that asks for them.
    stage = rule.observer.stage(f"multinomial working sets, {dataset.matrix.shape[1]}")
    if stage.result is not None:
        return stage.result
    with limit_blas_threads(1), np.errstate(over="ignore", invalid="ignore"):
        start = start if stage.state is None else stage.state["coef"]
        whole = _Whole(problem, dataset, communicator, n_threads, start)
        progress, stalled = Progress(rule, first_epoch=0, stage=stage), 0
        if stage.state is not None:  # the last read is made once more
            begun = stage.state["progress"]
            progress.resume(begun, len(begun["history"]) - 1)
            whole.n_reads = stage.state["n_reads"] - 1
        joint, apart = _JointSteps(whole), _Cycles(whole, n_threads)
        whole.read()
        while True:
            progress.see_epoch(whole.gap)
            progress.see_certificate(whole.gap, whole.objective)
            has_ended = rule.control.ends(communicator, whole.interim)
            if has_ended or progress.is_met or whole.n_reads > rule.max_iter:
                break
            if stalled >= _PATIENCE:
                break
            stage.offer(communicator, partial(_kept_state, whole, progress))
            before = whole.gap
            if not joint.improve(0.3 * rule.tol * whole.objective):
                apart.improve()
            stalled = 0 if whole.gap < 0.9 * before else stalled + 1
        n_reads = whole.n_reads
        whole.round_off()
    result = FitResult(
        coef=whole.coef[:, :-1].astype(dataset.matrix.dtype),
        intercept=whole.intercept,
        duals=None,
        offset=0.0,
        n_iter=n_reads - 1,
        has_converged=progress.is_met,
        gap=whole.gap,
        objective=whole.objective,
        history=progress.history,
        mean_stiffness=0.0,
        description=f"working-set descent, {whole.engine.description}",
    )
    return stage.finish(result)


def _kept_state(whole: _Whole, progress: Progress) -> dict[str, Any]:
    return {"coef": whole.coef, "n_reads": whole.n_reads, "progress": progress.state()}


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
        assert problem.loss.is_joint
        self.problem, self.dataset, self.communicator = problem, dataset, communicator
        self.n_classes = problem.loss.n_outputs
        self.engine = CpuPrimalEngine(problem, dataset, n_threads=n_threads)
        self.engine.check_finite()
        shape = (self.n_classes, self.engine.n_features + 1)
        self.coef = np.zeros(shape) if start is None else start.astype(np.float64)
        self.gradient = np.empty(0)
        self.gap = self.objective = math.inf
        self.n_reads = 0
        self._lower_bound = -math.inf

    def read(self) -> None:
        """Read the data once: margins, objective, gradient and a lower bound."""
        self.coef = self._recentred(self.coef)
        loss, gradient = self._pass(self.coef)
        self._accept(self.coef, loss, gradient)

    def advance(self, found: np.ndarray) -> float:
        """Move towards `found` as far as lowers the objective enough; return how far, at most 1."""
        step = self._recentred(found) - self.coef
        slope = float(np.vdot(self.gradient, step))
        rest = self._penalty(self.coef)
        noise = _ROUNDING * abs(self.objective)
        length = 1.0
        loss, gradient = self._pass(self.coef + step)
        for _ in range(30):
            trial = self.coef + length * step
            change = self._penalty(trial) - rest
            objective, promise = loss + rest + change, length * slope + change
            is_lower = objective <= self.objective + max(_ARMIJO * promise, -noise) + noise
            if length == 1.0 and -promise <= _FINE * abs(self.objective):
                # Too little for a difference of objectives; the slope at the end still shows it.
                is_lower |= float(np.vdot(gradient, step)) + change <= -0.5 * promise
            if is_lower:
                if length < 1.0:
                    loss, gradient = self._pass(trial)
                self._accept(trial, loss, gradient)
                return length
            length *= 0.5
            loss = float(self.total(np.array(self.engine.line_point(length)))[0])
        return 0.0

    @property
    def intercept(self) -> np.ndarray:
        """B of each class."""
        is_penalised = self.problem.intercept is Intercept.PENALISED
        return self.coef[:, -1] * (self.problem.intercept_scaling if is_penalised else 1.0)

    def interim(self) -> Interim:
        """Return the model for those who look on."""
        return Interim(self.coef[:, :-1].copy(), self.intercept, self.gap, self.objective)

    def total(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over the shards."""
        return self.communicator.allreduce_sum(array)

    def _pass(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        self.n_reads += 1
        loss, gradient, _ = self.engine.fused_pass(coef)
        return float(self.total(np.array([loss]))[0]), self.total(gradient)

    def _accept(self, coef: np.ndarray, loss: float, gradient: np.ndarray) -> None:
        self.engine.accept()
        self.coef, self.gradient = coef, gradient
        self.objective = loss + self._penalty(coef)
        bound = constrained_lower_bound(self.engine, self.communicator, coef, loss, gradient)
        self._lower_bound = max(self._lower_bound, bound)
        self.gap = certified_gap(self.objective, self._lower_bound)

    def _penalty(self, coef: np.ndarray) -> float:
        is_penalised = self.problem.intercept is Intercept.PENALISED
        return penalty_value(self.problem.penalty, (coef if is_penalised else coef[:, :-1]).ravel())

    def _recentred(self, coef: np.ndarray) -> np.ndarray:
        """Move all classes' coefficients of a feature by what makes the penalty least.

        The loss does not see that, and descent on single coefficients would take long to find it.
        """
        kind, penalty = self.problem.intercept, self.problem.penalty
        if kind is Intercept.PENALISED:
            return coef - _cheapest_shifts(coef, penalty)
        coef = coef.copy()
        coef[:, :-1] -= _cheapest_shifts(coef[:, :-1], penalty)
        if kind is Intercept.FREE:
            coef[:, -1] -= coef[:, -1].mean()
        return coef

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


class _JointSteps:
    """Newton steps on the coefficients that matter, of all classes at once."""

    def __init__(self, whole: _Whole) -> None:
        n_rows = float(whole.total(np.array([float(whole.engine.n_rows)]))[0])
        self._most = int(min(_MOST_JOINT, math.sqrt(_MOST_PRODUCTS / max(1.0, n_rows))))
        self._whole = whole
        self._damping, self._share, self._gap_before = _FIRST_DAMPING, _INNER_SHARE, math.inf

    def improve(self, target: float) -> bool:
        """Take one step; return False where that gains nothing, or too many coefficients matter."""
        whole = self._whole
        chosen = self._choose()
        if chosen is None:
            return False
        # Far from feasible a dual point says little of what a step leaves.
        if not whole.gap < 0.5 * self._gap_before:
            self._share = max(_LEAST_SHARE, 0.1 * self._share)
        self._gap_before = whole.gap
        for _ in range(_MOST_TRIES):
            model = SoftmaxModel(
                whole.engine, whole.communicator, chosen, whole.gradient, self._damping
            )
            left = self._share * max(target, whole.gap)
            length = whole.advance(model.minimise(whole.coef, whole.problem.penalty, left))
            if length == 1.0:
                self._damping = 0.1 * self._damping if self._damping > _LEAST_DAMPING else 0.0
                return True
            self._damping = min(0.5, max(_FIRST_DAMPING, self._damping) / max(length, 0.1))
            if length > 0.0:
                return True
        return False

    def _choose(self) -> Coordinates | None:
        """Return all coefficients, or the support and the worst violators, where few enough."""
        whole = self._whole
        kind, penalty = whole.problem.intercept, whole.problem.penalty
        is_penalised = np.ones(whole.coef.shape, dtype=bool)
        is_penalised[:, -1] = kind is Intercept.PENALISED
        if is_penalised.sum() <= self._most:
            return Coordinates(is_penalised)
        is_support = is_penalised & (whole.coef != 0.0)
        count = max(_FIRST_COORDINATES, 2 * int(is_support.sum()))
        if count > self._most:
            return None
        slopes = -whole.gradient if penalty.is_positive else np.abs(whole.gradient)
        excess = np.where(is_penalised & ~is_support, slopes - penalty.l1, -np.inf)
        n_new = count - int(is_support.sum())
        worst = np.argpartition(-excess, n_new, axis=None)[:n_new]
        is_chosen = is_support.ravel()
        is_chosen[worst[excess.ravel()[worst] > 0.0]] = True
        return Coordinates(is_chosen.reshape(whole.coef.shape))


class _Cycles:
    """Working sets of one class after the other, with the other classes' margins fixed."""

    def __init__(self, whole: _Whole, n_threads: int | None) -> None:
        self._whole, self._n_threads = whole, n_threads
        self._classes: list[_Class] = []
        self._share, self._gap_before = _SHARE, math.inf

    def improve(self) -> None:
        """Go through the classes, and read the data."""
        whole = self._whole
        if not self._classes:
            numbers = range(whole.n_classes)
            self._classes = [_Class(whole, k, self._n_threads) for k in numbers]
        # The violations of a class without coefficients enter its own gap squared, but the whole
        # gap as they are. So the share shrinks unless the whole gap is halved.
        halved = whole.gap < 0.5 * self._gap_before
        self._share = _SHARE if halved else max(1e-12, 0.2 * self._share)
        self._gap_before = whole.gap
        margins = whole.engine.margins.copy()
        for one in _CYCLES * self._classes:
            one.improve(margins, self._share * whole.gap / whole.n_classes)
        whole.read()


class _Class:
    """One class against the rest."""

    def __init__(self, whole: _Whole, number: int, n_threads: int | None) -> None:
        data = whole.dataset
        labels = np.where(data.labels == number, 1.0, -1.0).astype(data.labels.dtype)
        loss = whole.problem.loss.of_one_class
        assert loss is not None
        problem = replace(whole.problem, loss=loss)
        # Its offsets are part of what `restart` takes, as the other classes' margins are.
        own = replace(data, labels=labels, offsets=None)
        self._offsets = None if data.offsets is None else np.atleast_2d(data.offsets)
        self._engine = CpuColumnEngine(problem, own, n_threads=n_threads)
        self._whole, self._number = whole, number
        self._state = State(self._engine, whole.communicator, None)

    def improve(self, margins: np.ndarray, target: float) -> None:
        """Descend on this class until its own gap is about `target`; its margins move along."""
        whole, k, state = self._whole, self._number, self._state
        offset = -logsumexp(np.delete(margins, k, axis=0), axis=0)
        is_penalised = whole.problem.intercept is Intercept.PENALISED
        coef = whole.coef[k] if is_penalised else whole.coef[k, :-1]
        shift = 0.0 if is_penalised else float(whole.coef[k, -1])
        fixed = offset
        if self._offsets is not None:
            fixed = offset + self._offsets[k if len(self._offsets) > 1 else 0]
        state.restart(coef, margins[k] - shift + offset, shift, fixed)
        descend(state, target)
        whole.coef[k, : len(state.coef)] = state.coef
        if whole.problem.intercept is Intercept.FREE:
            whole.coef[k, -1] = state.shift
        margins[k] = state.margins - offset + state.shift
