"""Quasi-Newton method with an explicit curvature (P-QN), for smooth losses and L2 or no penalty.

L-BFGS (Liu and Nocedal, 1989) whose initial matrix is the inverse of a Hessian made from sampled
rows, started from the minimum over that sample: one read of the data an iteration, and few of
them whatever the regularisation and the scaling of the columns. docs/algorithms.md, section 8.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.inner_products import all_zero, inner, inner_products
from snapml.solvers.newton.curvature import (
    HOT_COLUMNS,
    MOST_JOINT_COLUMNS,
    Curvature,
    DenseCurvature,
)
from snapml.solvers.newton.descent import Descent
from snapml.solvers.newton.newton_steps import NewtonSteps
from snapml.solvers.newton.primal_certificate import lower_bound
from snapml.solvers.newton.sampled_curvature import SampledCurvature
from snapml.solvers.newton.second_order import prove
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import Progress, StoppingRule
from snapml.solvers.threads import limit_blas_threads

__all__ = ["evaluate", "solve", "suits_products"]

# Entries that a fit may visit in all before it counts as work: a few milliseconds.
_FREE_VISITS = 1_000_000
# Decrements below these shares of the objective are rounding, and rounding of the coefficients.
_SMALLEST = 1e-14
_POLISHED = 1e-22
# Share of the objective that rounding the coefficients may add to what is reported.
_VISIBLE_ROUNDING = 1e-9
# Rows for each coefficient of all classes up to which products of the rows do better than a factor
# of a Hessian, on a host; that of so few coefficients takes a millisecond.
_ROWS_A_COEF, _FEW_COEFS = 6, 500
# Times the objective over the sample that the objective over all rows may be at its minimum.
_MISLED = 1.5


def solve(
    engine: PrimalEngine,
    communicator: Communicator,
    rule: StoppingRule,
    *,
    start: np.ndarray | None = None,
    uses_sample: bool = True,
    is_rounded: bool = True,
    most_products: float | None = None,
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
    is_rounded : bool, default=True
        Whether the coefficients are rounded to the data's type, as a model's are. From rounded ones
        no dual point follows that is worth going on from.
    most_products : float or None, default=None
        Products with the Hessian that are tried instead of factors. None leaves the choice to
        `suits_products`, and their number to the rule.

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
    stage = rule.observer.stage(f"quasi-Newton, {engine.n_outputs} x {engine.n_features}")
    if stage.result is not None:
        return stage.result
    progress = Progress(rule, first_epoch=0, stage=stage)
    with limit_blas_threads(1), np.errstate(over="ignore", invalid="ignore"):
        if start is None:
            coef = engine.vectors.zeros((engine.n_outputs, engine.n_features + 1))
        else:
            coef = engine.to_vectors(start)
        model: SampledCurvature | NewtonSteps
        n_rows = int(communicator.allreduce_sum(np.array([float(engine.n_rows)]))[0])
        if most_products is not None or suits_products(engine, n_rows):
            most = math.inf if most_products is None else most_products
            model = NewtonSteps(engine, communicator, rule.max_iter, rule.tol, rule.control, most)
        else:
            model = SampledCurvature(engine, communicator, rule.tol, uses_sample=uses_sample)
            is_first = start is None and stage.state is None
            may_begin = is_first and rule.max_iter > 0 and not model.may_wait
            if model.has_other_rows and may_begin:
                coef = model.minimise(coef)
        descent = Descent(engine, communicator, coef)
        best = _descend(descent, model, progress)
        if engine.problem.penalty.l2 <= 0.0 and isinstance(model, SampledCurvature):
            best.shorten(descent, model)
        n_reads = model.n_reads(descent)
        dtype = engine.dtype if is_rounded else np.dtype(np.float64)
        result = _result(descent, best, progress.history, dtype, best.distance)
    # An objective whose minimum may be 0 has no gap that is small beside it, once rounded.
    is_exempt = rule.is_nothing(best.value) or (engine.problem.loss.is_quadratic and rule.floor > 0)
    fits = is_exempt or result.gap <= max(best.gap, _allowed_gap(rule, result.objective))
    return stage.finish(
        replace(
            result,
            n_iter=n_reads,
            has_converged=progress.is_met and fits,
            description=f"{model.description}, {engine.description}",
        )
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
        descent = Descent(engine, communicator, engine.to_vectors(coef))
        descent.begin()
        best = _Best()
        best.see(descent)
        is_bounded = engine.problem.penalty.l2 > 0.0
        if not is_bounded:  # the problem is the same, and so is its bound
            best.gap = certified_gap(best.value, source.objective - source.gap)
        result = _result(descent, best, source.history, engine.dtype, source.distance)
    return replace(
        result,
        n_iter=source.n_iter + 1,
        has_converged=(source.has_converged or is_bounded)
        and rule.is_met(result.gap, result.objective),
        description=f"{source.description}, in the span of the rows",
    )


def suits_products(engine: PrimalEngine, n_rows: int) -> bool:
    """Return whether products with the Hessian do better than what can be factored of it.

    Of sparse rows of many columns that is a block of a few, which leaves most out; of a softmax of
    many coefficients one block a class, which leaves out what couples the classes, or all of it,
    whose factor takes as long as very many products of few rows.

    Parameters
    ----------
    engine : PrimalEngine
        A shard of the data, or its sizes.
    n_rows : int
        Rows of all shards.

    Returns
    -------
    bool
        The same on all shards.
    """
    if engine.problem.penalty.l2 <= 0.0:
        return False
    if engine.is_sparse and engine.n_features > HOT_COLUMNS:
        return True
    size = engine.n_outputs * (engine.n_features + 1)
    is_short = engine.device is None and size > _FEW_COEFS and n_rows < _ROWS_A_COEF * size
    return engine.problem.loss.is_joint and (size > MOST_JOINT_COLUMNS or is_short)


def _descend(descent: Descent, model: SampledCurvature | NewtonSteps, progress: Progress) -> _Best:
    """Iterate on all rows until the rule is met, its reads are used up, or nothing moves."""
    best = _Best()
    is_unpenalised = descent.engine.problem.penalty.l2 <= 0.0
    decrement = _begin(descent, model, progress)
    while True:
        with progress.rule.observer.phase("certificate"):
            best.see(descent)
        if is_unpenalised and model.curvature is not None:
            is_blind = not best.see_unpenalised(descent, model.curvature)
            if is_blind or progress.rule.is_met(best.gap, best.value):
                _judge_again(best, descent, model, is_blind=is_blind)
        if decrement > 0.0:
            progress.see_epoch(best.gap)
        progress.see_certificate(best.gap, best.value)
        if progress.rule.control.ends(descent.communicator, partial(best.interim, descent.engine)):
            break
        if model.n_reads(descent) >= progress.rule.max_iter:
            break
        if isinstance(model, NewtonSteps) and model.is_spent(best.gap, _allowed(progress, best)):
            break
        n_products = model.n_products if isinstance(model, NewtonSteps) else 0
        is_free = _is_free(descent, decrement, n_products)
        if progress.is_met and (progress.rule.is_nothing(best.value) or not is_free):
            break
        if descent.has_no_minimum:
            break
        state_of = partial(_state, descent, model, progress, decrement)
        progress.stage.offer(descent.communicator, state_of)
        before, decrement = decrement, model.step(descent, decrement)
        if decrement == 0.0 or (decrement >= before and decrement <= _SMALLEST * best.value):
            break
    if is_unpenalised and progress.is_met:
        with progress.rule.observer.phase("certificate"):
            best.see_proof(descent, model)
    if is_unpenalised and _is_sampled(model):
        best.gap = certified_gap(best.value, 0.0)  # what a sample says is no bound
    return best


def _is_sampled(model: SampledCurvature | NewtonSteps) -> bool:
    """Return whether the curvature leaves rows out."""
    return isinstance(model, SampledCurvature) and model.has_other_rows


def _allowed(progress: Progress, best: _Best) -> float:
    """Return the gap that is asked for."""
    return max(progress.rule.tol * abs(best.value), progress.rule.floor)


def _judge_again(
    best: _Best, descent: Descent, model: SampledCurvature | NewtonSteps, *, is_blind: bool
) -> None:
    """Bound the gap by the Hessian of all rows at the present point.

    A sample does not see what others add, and one from before a step where curvature vanishes
    takes the rest for less than it is. A sample that does not see where the objective falls is
    made larger as long as it does not.
    """
    if not isinstance(model, SampledCurvature):
        return
    while model.has_other_rows or not model.is_made_at(descent.coef):
        best.gap = certified_gap(best.value, 0.0)
        if model.has_other_rows:
            model.take_more(descent, is_all=not is_blind)
        else:
            model.update(descent.coef)
        if best.see_unpenalised(descent, model.current) and is_blind:
            return


def _begin(descent: Descent, model: SampledCurvature | NewtonSteps, progress: Progress) -> float:
    """Evaluate the first point, or the one a restart goes on from; return the last decrement.

    Bounds are not restored: the certificate is made from the data at hand.
    """
    kept = progress.stage.state
    if kept is None:
        descent.begin()
        if isinstance(model, SampledCurvature) and descent.value > _MISLED * model.expected:
            _begin_better(descent, model)
        return math.inf
    model.resume(kept["curvature"])
    descent.resume(kept["descent"])
    # The point is judged once more, and gets its entry then.
    progress.resume(kept["progress"], len(kept["progress"]["history"]) - 1)
    return float(kept["decrement"])


def _begin_better(descent: Descent, model: SampledCurvature) -> None:
    """Start from zero where that is better than the minimum over a sample that misled.

    The sample's curvature there tells nothing of zero's. It is made larger where a step fails.
    """
    misled, value = descent.coef, descent.value
    descent.coef = descent.engine.vectors.zeros_like(misled)
    descent.begin()
    if descent.value > value:
        descent.coef = misled
        descent.begin()
    else:
        model.update(descent.coef)


def _state(
    descent: Descent, model: SampledCurvature | NewtonSteps, progress: Progress, decrement: float
) -> dict[str, Any]:
    """Return what `_begin` goes on from, to the same steps."""
    return {
        "descent": descent.state(),
        "curvature": model.state(),
        "progress": progress.state(),
        "decrement": decrement,
    }


def _is_free(descent: Descent, decrement: float, n_products: int) -> bool:
    """Return whether another step costs next to nothing and can still change the answer.

    Rounding alone then separates fits of equivalent data.
    """
    n_reads = descent.n_passes + n_products + 1
    visits = descent.n_stored * descent.engine.n_outputs * n_reads
    return visits <= _FREE_VISITS and decrement > _POLISHED * abs(descent.value)


class _Best:
    """The best point so far, and the best lower bound."""

    def __init__(self) -> None:
        self.value = math.inf
        self.gap = math.inf
        self.coef: Any = np.empty(0)
        self.gradient: Any = np.empty(0)
        self._bound = 0.0  # no loss and no penalty is negative
        # Of the minimiser in the Hessian's norm, at most.
        self.distance: float | None = None

    def see(self, descent: Descent) -> None:
        """Take the descent's present point where it is better."""
        bound = lower_bound(
            descent.engine,
            descent.communicator,
            descent.coef,
            descent.loss,
            descent.loss_gradient,
        )
        if all_zero(descent.engine, descent.gradient):
            bound = descent.value  # the objective is convex
        self._bound = max(self._bound, bound)
        if descent.value <= self.value or not math.isfinite(self.value):
            self.value, self.coef, self.gradient = descent.value, descent.coef, descent.gradient
        self.gap = certified_gap(self.value, self._bound)

    def shorten(self, descent: Descent, model: SampledCurvature) -> None:
        """Take the shortest coefficients with the same margins, if they are as good."""
        shortest = model.shortened(self.coef)
        if shortest is self.coef:
            return
        worse = descent.value_at(shortest) - self.value
        if worse <= _VISIBLE_ROUNDING * abs(self.value) + _SMALLEST * descent.total_weight:
            self.coef = shortest
            self.value += max(worse, 0.0)
            self.gap += max(worse, 0.0)

    def interim(self, engine: PrimalEngine) -> Interim:
        """Return the model for those who look on."""
        point = np.asarray(engine.to_host(self.coef), dtype=np.float64)
        return Interim.of_point(point, engine.bias_column, self.gap, self.value)

    def see_unpenalised(self, descent: Descent, curvature: Curvature) -> bool:
        """Bound the gap by the Newton decrement: without a penalty the dual bounds nothing.

        Half the squared decrement is the gap to second order; four times that leaves room for a
        curvature made from a sample. Returns whether the curvature sees where the objective falls.
        """
        if descent.has_no_minimum:
            return True  # the loss falls to zero, and the gap is all of it
        if isinstance(curvature, DenseCurvature) and curvature.misses(
            descent.gradient, descent.total_weight
        ):
            return False
        decrement = inner(descent.engine, descent.gradient, curvature.solve(descent.gradient))
        self.gap = min(self.gap, certified_gap(2.0 * decrement, 0.0))
        return True

    def see_proof(self, descent: Descent, model: SampledCurvature | NewtonSteps) -> None:
        """Replace the estimate by what the Hessian of all rows at the present point proves."""
        curvature = model.curvature
        if not isinstance(model, SampledCurvature) or not isinstance(curvature, DenseCurvature):
            return
        if descent.has_no_minimum or model.has_other_rows or not model.is_made_at(descent.coef):
            return
        proof = prove(descent.engine, descent.communicator, curvature, descent.gradient)
        if proof is not None:
            self._bound = max(self._bound, descent.value - proof.gap)
            if descent.value <= self.value + _SMALLEST * abs(self.value):
                # Of points that rounding alone tells apart, the one whose Hessian is at hand.
                self.value, self.coef, self.gradient = descent.value, descent.coef, descent.gradient
            self.gap = certified_gap(self.value, self._bound)
            if descent.coef is self.coef:
                # No nearer than the rounding of the objective lets tell.
                self.distance = max(proof.distance, _root(2.0 * self.gap))


def _allowed_gap(rule: StoppingRule, objective: float) -> float:
    """Return the gap that a rounded model may have: the tolerance, or the type's resolution."""
    return max(rule.tol, rule.resolution) * abs(objective)


def _root(value: float) -> float:
    return math.sqrt(value) if value > 0.0 else 0.0


def _result(
    descent: Descent,
    best: _Best,
    history: list[dict[str, float]],
    dtype: np.dtype,
    distance: float | None,
) -> FitResult:
    """Round the best point to a type; what that costs is added to the gap.

    A bound on the cost serves where it is out of sight. It knows no column's scale, and where one
    is large it says nothing: the rounded model is then evaluated by one more read.
    """
    engine = descent.engine
    coef = best.coef.astype(dtype)
    rounding = coef.astype(np.float64) - best.coef
    stiffness = descent.stiffness + engine.bias_column * engine.bias_column * descent.total_weight
    largest = engine.problem.loss.curvature_bound * stiffness + engine.problem.penalty.l2
    pairs = (best.gradient, rounding), (rounding, rounding)
    slope, square = inner_products(engine, *pairs)
    loss_of_rounding = max(0.0, slope) + (0.5 * largest * square if square > 0.0 else 0.0)
    if loss_of_rounding > _VISIBLE_ROUNDING * abs(best.value):
        exact = descent.value_at(coef) - best.value
        loss_of_rounding = exact if math.isfinite(exact) else loss_of_rounding
    coef = engine.to_host(coef)
    intercept = engine.bias_column * coef[:, -1].astype(np.float64)
    return FitResult(
        coef=coef[0, :-1] if engine.is_single else coef[:, :-1],
        intercept=float(intercept[0]) if engine.is_single else intercept,
        duals=None,
        offset=0.0,
        n_iter=descent.n_passes,
        has_converged=False,
        has_minimum=not descent.has_no_minimum,
        gap=max(best.gap + loss_of_rounding, 0.0),
        objective=best.value + loss_of_rounding,
        history=history,
        mean_stiffness=descent.stiffness / max(1, descent.n_rows * engine.n_outputs),
        description=engine.description,
        # The rounding's own norm, to second order.
        distance=None if distance is None else distance + _root(2.0 * (loss_of_rounding - slope)),
    )
