"""Quasi-Newton method with an explicit curvature (P-QN), for smooth losses and L2 or no penalty.

L-BFGS (Liu and Nocedal, 1989) whose initial matrix is the inverse of a Hessian made from sampled
rows, started from the minimum over that sample: one read of the data an iteration, and few of
them whatever the regularisation and the scaling of the columns. docs/algorithms.md, section 8.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from snapml.problems import Intercept, SmoothedHinge, Softmax, Squared
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.cpu_rows import check_range
from snapml.solvers.curvature import (
    HOT_COLUMNS,
    Curvature,
    DenseCurvature,
    HotCurvature,
    make_curvature,
)
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.newton_steps import NewtonSteps
from snapml.solvers.primal_certificate import lower_bound
from snapml.solvers.result import FitResult, overflow_error
from snapml.solvers.stopping import Progress, StoppingRule
from snapml.solvers.threads import limit_blas_threads

__all__ = ["evaluate", "solve"]

_MEMORY = 10
_ARMIJO = 1e-4
# Entries that a fit may visit in all before it counts as work: a few milliseconds.
_FREE_VISITS = 1_000_000
_MOST_SAMPLE_STEPS = 30
# Decrements below these shares of the objective are rounding, and rounding of the coefficients.
_SMALLEST = 1e-14
_POLISHED = 1e-22
# Mean loss below which a classifier without penalty has separated the classes.
_VANISHED = 1e-8
# A curvature is renewed where a step leaves more than this share of the squared decrement.
_STALE = 0.1
# A curvature from a sample can be renewed before these steps only: the pairs correct the rest.
_RENEWALS = (5, 15, 31)
_SAMPLE_RENEWALS = (0, 6)
# Up to this many columns a Hessian of 10,000 rows costs less than the reads that it saves
# (benchmarks/results/passes.csv).
_MODERATE_COLUMNS = 640
# Up to this many columns a Hessian of all rows costs no more than a few reads of them.
_CHEAP_COLUMNS = 128


def solve(
    engine: PrimalEngine,
    communicator: Communicator,
    rule: StoppingRule,
    *,
    start: np.ndarray | None = None,
    uses_sample: bool = True,
) -> FitResult:
    """Minimise until the certified gap meets the rule or its reads of the data are used up.

    Parameters
    ----------
    engine : PrimalEngine
        Shard of the data.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads of the data.
    start : ndarray of shape (n_outputs, n_features + 1), float64, or None
        Coefficients to start from.
    uses_sample : bool, default=True
        Whether the curvature may be made from a sample of the rows. Where few rows have any, all
        of those are needed.

    Returns
    -------
    FitResult
        The model with its certificate.

    Raises
    ------
    NonFiniteError
        If the matrix holds NaN or infinity.
    ValueError
        If the sums overflow.
    """
    progress = Progress(rule, first_epoch=0)
    with limit_blas_threads(engine.n_threads), np.errstate(over="ignore", invalid="ignore"):
        coef = np.zeros((engine.n_outputs, engine.n_features + 1)) if start is None else start
        if _suits_products(engine):
            return _solve_by_products(engine, communicator, progress, coef)
        total = int(communicator.allreduce_sum(np.array([float(engine.n_rows)]))[0])
        wanted = _sample_rows(engine, total) if uses_sample else total
        is_sampled = wanted < total
        model = _Sampled(
            engine.sample(-(-wanted * engine.n_rows // total)) if is_sampled else engine,
            communicator,
            has_other_rows=is_sampled,
        )
        if is_sampled and start is None and rule.max_iter > 0:
            coef = model.minimise(coef)
        descent = _Descent(engine, communicator, coef)
        best = _descend(descent, model, progress)
        if engine.problem.penalty.l2 <= 0.0 and isinstance(model.curvature, DenseCurvature):
            best.coef = model.curvature.without_null_space(best.coef)
        result = _result(descent, best, progress.history)
    return replace(
        result,
        n_iter=model.n_reads(descent),
        has_converged=progress.is_met,
        description=f"quasi-Newton, {model.description}, {engine.description}",
    )


def _solve_by_products(
    engine: PrimalEngine, communicator: Communicator, progress: Progress, coef: np.ndarray
) -> FitResult:
    """Take Newton steps by conjugate gradients, from `coef`."""
    steps, descent = NewtonSteps(engine, communicator), _Descent(engine, communicator, coef)
    best = _descend(descent, steps, progress)
    return replace(
        _result(descent, best, progress.history),
        n_iter=steps.n_reads(descent),
        has_converged=progress.is_met,
        description=f"{steps.description}, {engine.description}",
    )


def evaluate(
    engine: PrimalEngine,
    communicator: Communicator,
    rule: StoppingRule,
    coef: np.ndarray,
    source: FitResult,
) -> FitResult:
    """Certify coefficients that were found elsewhere, by one read of the data.

    Parameters
    ----------
    engine : PrimalEngine
        Shard of the data.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance.
    coef : ndarray of shape (n_outputs, n_features + 1), float64
        The coefficients.
    source : FitResult
        What found them, in other columns: its history and description are kept, and its gap
        where there is no penalty.

    Returns
    -------
    FitResult
        With the certificate of the data.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        descent = _Descent(engine, communicator, coef)
        descent.begin()
        best = _Best()
        best.see(descent)
        if engine.problem.penalty.l2 <= 0.0:
            best.gap = source.gap
        result = _result(descent, best, source.history)
    return replace(
        result,
        n_iter=source.n_iter + 1,
        has_converged=source.has_converged and rule.is_met(result.gap, result.objective),
        description=f"{source.description}, in the span of the rows",
    )


def _suits_products(engine: PrimalEngine) -> bool:
    """Return whether products with the Hessian do better than a block of it, factored.

    A block is one for each class, and leaves out what couples the classes and most columns.
    """
    is_wide = engine.is_sparse and engine.n_features > HOT_COLUMNS
    is_penalised = engine.problem.penalty.l2 > 0.0
    return isinstance(engine.problem.loss, Softmax) and is_wide and is_penalised


def _sample_rows(engine: PrimalEngine, total: int) -> int:
    """Return how many of all shards' rows the curvature is made from.

    Enough for a good one (20 a column), and as many as cost no more than a read of the data.
    """
    n_features = engine.n_features
    if engine.is_sparse:
        wanted = 20_000
    else:
        affordable = 10_000 if n_features <= _MODERATE_COLUMNS else 6_000
        wanted = min(20 * n_features, max(affordable, 2 * n_features))
        if n_features <= _CHEAP_COLUMNS:
            wanted = max(wanted, total // 32)
    wanted = max(wanted, 2_000, 20 * engine.n_outputs)
    if (1.0 if n_features > 4 * _CHEAP_COLUMNS else 2.0) * wanted > total:
        return total
    return wanted


@dataclass
class _Descent:
    """A point with its objective and gradient, and the steps that led there."""

    engine: PrimalEngine
    communicator: Communicator
    coef: np.ndarray
    loss: float = math.nan
    value: float = math.nan
    loss_gradient: np.ndarray = field(default_factory=lambda: np.empty(0))
    gradient: np.ndarray = field(default_factory=lambda: np.empty(0))
    stiffness: float = 0.0
    total_weight: float = 0.0
    n_rows: int = 0
    n_stored: int = 0
    n_passes: int = 0
    _pairs: deque[tuple[np.ndarray, np.ndarray, float]] = field(
        default_factory=lambda: deque(maxlen=_MEMORY)
    )

    def begin(self) -> None:
        """Evaluate the first point, and see whether the data are fit to be worked with."""
        self.loss, self.loss_gradient, self.stiffness = self._pass(self.coef, True)
        self.value, self.gradient = self._with_penalty(self.coef, self.loss, self.loss_gradient)
        engine = self.engine
        own = [engine.total_weight, float(engine.n_rows), float(engine.dataset.matrix.n_stored)]
        total_weight, n_rows, n_stored = self.communicator.allreduce_sum(np.array(own)).tolist()
        self.total_weight, self.n_rows, self.n_stored = total_weight, int(n_rows), int(n_stored)
        is_finite = math.isfinite(self.value) and np.isfinite(self.gradient).all()
        if not (is_finite and math.isfinite(self.stiffness)):
            engine.check_finite()
        dtype = engine.dataset.matrix.dtype
        check_range(self.stiffness, dtype)
        if not is_finite:
            raise overflow_error(dtype)
        self.engine.accept()

    def direction(self, curvature: Curvature) -> np.ndarray:
        """Return the quasi-Newton direction, by the two-loop recursion."""
        q = self.gradient.copy()
        factors = []
        for s, y, rho in reversed(self._pairs):
            factor = rho * float(np.vdot(s, q))
            factors.append(factor)
            q -= factor * y
        q = curvature.solve(q)
        for (s, y, rho), factor in zip(self._pairs, reversed(factors), strict=True):
            q += (factor - rho * float(np.vdot(y, q))) * s
        return -q

    def advance(self, direction: np.ndarray) -> bool:
        """Move along a direction, and say whether the objective fell."""
        slope = float(np.vdot(self.gradient, direction))
        if not slope < 0.0:
            return False
        if self._try(direction, slope):
            return True
        step = self._line_search(direction)
        return step > 0.0 and self._try(step * direction, step * slope)

    @property
    def has_no_minimum(self) -> bool:
        """Whether the loss, without a penalty, falls towards zero: the classes are separable."""
        is_classification = self.engine.problem.loss.is_classification
        is_unpenalised = self.engine.problem.penalty.l2 <= 0.0
        vanishes = self.loss <= _VANISHED * self.total_weight
        return is_classification and is_unpenalised and vanishes

    def forget(self) -> None:
        """Drop the steps: a new curvature knows better."""
        self._pairs.clear()

    def _try(self, step: np.ndarray, slope: float) -> bool:
        coef = self.coef + step
        loss, loss_gradient, _ = self._pass(coef, False)
        value, gradient = self._with_penalty(coef, loss, loss_gradient)
        rounding = 4.0 * np.finfo(np.float64).eps * abs(self.value)
        if not value <= self.value + _ARMIJO * slope + rounding:
            return False
        change = gradient - self.gradient
        product = float(np.vdot(step, change))
        if product > 1e-12 * abs(slope):
            self._pairs.append((step, change, 1.0 / product))
        self.coef, self.loss, self.value = coef, loss, value
        self.loss_gradient, self.gradient = loss_gradient, gradient
        self.engine.accept()
        return True

    def _line_search(self, direction: np.ndarray) -> float:
        """Return a step below 1 near the minimum along the direction, without the matrix."""
        low, high = 0.0, 1.0
        for _ in range(40):
            step = 0.5 * (low + high)
            sums = np.array(self.engine.line_point(step))
            slope = float(self.communicator.allreduce_sum(sums)[1])
            slope += float(np.vdot(self._ridge(self.coef + step * direction), direction))
            # At least as far as the slope has fallen by half, short of where it has turned.
            if not slope <= 0.0:
                high = step
            elif slope < 0.5 * float(np.vdot(self.gradient, direction)):
                low = step
            else:
                return step
        return low

    def _pass(self, coef: np.ndarray, wants_stiffness: bool) -> tuple[float, np.ndarray, float]:
        self.n_passes += 1
        loss, gradient, stiffness = self.engine.fused_pass(coef, wants_stiffness=wants_stiffness)
        sums = self.communicator.allreduce_sum(np.append(gradient.ravel(), (loss, stiffness)))
        return float(sums[-2]), sums[:-2].reshape(gradient.shape), float(sums[-1])

    def _with_penalty(
        self, coef: np.ndarray, loss: float, gradient: np.ndarray
    ) -> tuple[float, np.ndarray]:
        ridge = self._ridge(coef)
        return loss + 0.5 * float(np.vdot(ridge, coef)), gradient + ridge

    def _ridge(self, coef: np.ndarray) -> np.ndarray:
        """Return the gradient of the penalty."""
        ridge = self.engine.problem.penalty.l2 * coef
        if self.engine.problem.intercept is not Intercept.PENALISED:
            ridge[:, -1] = 0.0
        return ridge


class _Sampled:
    """The curvature, and the rows that it is made from: a sample, or all of them."""

    def __init__(
        self, engine: PrimalEngine, communicator: Communicator, *, has_other_rows: bool
    ) -> None:
        self.engine = engine
        self._communicator = communicator
        self.has_other_rows = has_other_rows
        self._n_rows = int(communicator.allreduce_sum(np.array([float(engine.n_rows)]))[0])
        self._n_passes = 0
        self._has_slowed = False
        self._is_quadratic = isinstance(engine.problem.loss, Squared)
        self.curvature: DenseCurvature | HotCurvature | None = None

    @property
    def current(self) -> Curvature:
        """The curvature, made at the latest update."""
        if self.curvature is None:
            raise RuntimeError("expected a curvature, got none")
        return self.curvature

    @property
    def is_exact(self) -> bool:
        """Whether a fresh curvature is the Hessian itself, so that it knows more than the pairs."""
        return not self.has_other_rows and isinstance(self.curvature, DenseCurvature)

    @property
    def description(self) -> str:
        """What the curvature is made from."""
        return f"curvature from {self._n_rows} rows"

    def n_reads(self, descent: _Descent) -> int:
        """Return how many times as much as the data was read after the first read, rounded up."""
        share = self._n_rows / max(1, descent.n_rows)
        return descent.n_passes - 1 + math.ceil(self._n_passes * share)

    def is_stale(self, descent: _Descent) -> bool:
        """Return whether the curvature should be made anew before the next step."""
        if self.curvature is None:
            return True
        if self._is_quadratic:
            return False
        if not self.is_exact:
            return self._has_slowed and descent.n_passes in _RENEWALS
        return self._has_slowed or self.engine.n_features <= _CHEAP_COLUMNS

    def note(self, decrement: float, before: float) -> None:
        """See how much of the squared decrement the last step but one left."""
        self._has_slowed = decrement > _STALE * before and math.isfinite(before)

    def step(self, descent: _Descent, before: float) -> float:
        """Move once; return the squared Newton decrement, 0 where nothing leads down."""
        return _step(descent, self, before)

    def update(self, coef: np.ndarray | None = None) -> None:
        """Make the curvature at a point.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features + 1), float64, or None
            None is the point the engine is at.
        """
        if coef is not None and self.has_other_rows:
            self._n_passes += 1
            self.engine.fused_pass(coef)
            self.engine.accept()
        if self.curvature is None:
            self.curvature = make_curvature(self.engine, self._communicator)
        else:
            self.curvature.update(self.engine, self._communicator)
        self._has_slowed = False

    def minimise(self, coef: np.ndarray) -> np.ndarray:
        """Minimise over the sample, as far as a sample is worth it."""
        descent = _Descent(self.engine, self._communicator, coef)
        descent.begin()
        n_columns = self.engine.n_features * self.engine.n_outputs
        worth = 0.01 * min(1.0, n_columns / max(1, self._n_rows))
        decrement = math.inf
        is_cheap = not self.engine.is_sparse and self.engine.n_features <= _CHEAP_COLUMNS
        for step in range(_MOST_SAMPLE_STEPS):
            is_due = not self._is_quadratic and (is_cheap or step in _SAMPLE_RENEWALS)
            if self.curvature is None or is_due:
                self.update()
                if is_cheap:
                    descent.forget()
            direction = descent.direction(self.current)
            before, decrement = decrement, -float(np.vdot(direction, descent.gradient))
            if not descent.advance(direction) or decrement <= worth * abs(descent.value):
                break
            if not decrement < before:
                break
        self._n_passes += descent.n_passes
        if is_cheap and not self._is_quadratic:
            self.update()
        return descent.coef


def _descend(descent: _Descent, model: _Sampled | NewtonSteps, progress: Progress) -> _Best:
    """Iterate on all rows until the rule is met, its reads are used up, or nothing moves."""
    best = _Best()
    descent.begin()
    decrement = math.inf
    while True:
        best.see(descent)
        if descent.engine.problem.penalty.l2 <= 0.0 and model.curvature is not None:
            best.see_unpenalised(descent, model.curvature)
        if decrement > 0.0:
            progress.see_epoch(best.gap)
        progress.see_certificate(best.gap, best.value)
        if model.n_reads(descent) >= progress.rule.max_iter:
            break
        if progress.is_met and not _is_free(descent, decrement):
            break
        if descent.has_no_minimum:
            break
        before, decrement = decrement, model.step(descent, decrement)
        if decrement == 0.0 or (decrement >= before and decrement <= _SMALLEST * best.value):
            break
    return best


def _step(descent: _Descent, model: _Sampled, before: float) -> float:
    """Move once, with a fresh curvature where the present one has grown old.

    Returns the squared Newton decrement, twice what the step is expected to gain; 0 where no
    curvature leads down.
    """
    for is_last_try in (False, True):
        if is_last_try:
            model.update(descent.coef)
            descent.forget()
        elif model.is_stale(descent):
            model.update(descent.coef)
            if model.is_exact:
                descent.forget()
        direction = descent.direction(model.current)
        decrement = -float(np.vdot(direction, descent.gradient))
        if descent.advance(direction):
            model.note(decrement, before)
            return decrement
    return 0.0


def _is_free(descent: _Descent, decrement: float) -> bool:
    """Return whether another step costs next to nothing and can still change the answer.

    Rounding alone then separates fits of equivalent data.
    """
    visits = descent.n_stored * descent.engine.n_outputs * (descent.n_passes + 1)
    return visits <= _FREE_VISITS and decrement > _POLISHED * abs(descent.value)


class _Best:
    """The best point so far, and the best lower bound."""

    def __init__(self) -> None:
        self.value = math.inf
        self.gap = math.inf
        self.coef = np.empty(0)
        self.gradient = np.empty(0)
        self._bound = 0.0  # no loss and no penalty is negative

    def see(self, descent: _Descent) -> None:
        """Take the descent's present point where it is better."""
        bound = lower_bound(
            descent.engine,
            descent.communicator,
            descent.coef,
            descent.loss,
            descent.loss_gradient,
        )
        self._bound = max(self._bound, bound)
        if descent.value <= self.value or not math.isfinite(self.value):
            self.value, self.coef, self.gradient = descent.value, descent.coef, descent.gradient
        self.gap = certified_gap(self.value, self._bound)

    def see_unpenalised(self, descent: _Descent, curvature: Curvature) -> None:
        """Bound the gap by the Newton decrement: without a penalty the dual bounds nothing.

        Half the squared decrement is the gap to second order; four times that leaves room for a
        curvature made from a sample.
        """
        decrement = float(np.vdot(descent.gradient, curvature.solve(descent.gradient)))
        self.gap = min(self.gap, certified_gap(2.0 * decrement, 0.0))


def _result(descent: _Descent, best: _Best, history: list[dict[str, float]]) -> FitResult:
    """Round the best point to the data's type; what that costs is added to the gap."""
    engine = descent.engine
    dtype = engine.dataset.matrix.dtype
    coef = best.coef.astype(dtype)
    rounding = coef.astype(np.float64) - best.coef
    stiffness = descent.stiffness + engine.bias_column * engine.bias_column * descent.total_weight
    largest = _max_curvature(engine) * stiffness + engine.problem.penalty.l2
    loss_of_rounding = max(0.0, float(np.vdot(best.gradient, rounding))) + 0.5 * largest * float(
        np.vdot(rounding, rounding)
    )
    is_single = engine.n_outputs == 1 and engine.dataset.labels.ndim == 1
    intercept = engine.bias_column * coef[:, -1].astype(np.float64)
    return FitResult(
        coef=coef[0, :-1] if is_single else coef[:, :-1],
        intercept=float(intercept[0]) if is_single else intercept,
        duals=None,
        offset=0.0,
        n_iter=descent.n_passes,
        has_converged=False,
        has_minimum=not descent.has_no_minimum,
        gap=best.gap + loss_of_rounding,
        objective=best.value + loss_of_rounding,
        history=history,
        mean_stiffness=descent.stiffness / max(1, descent.n_rows * engine.n_outputs),
        description=engine.description,
    )


def _max_curvature(engine: PrimalEngine) -> float:
    if isinstance(engine.problem.loss, SmoothedHinge):  # the labels carry the width
        return 1.0 / float(np.abs(engine.dataset.labels).min())
    return engine.problem.loss.max_curvature
