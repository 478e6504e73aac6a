"""The hinge by continuation: quasi-Newton on hinges whose corners are rounded off less and less.

The corner is rounded off around a dual point, that of the stage before: the method of multipliers
(Rockafellar, Augmented Lagrangians and applications of the proximal point algorithm in convex
programming, 1976). What a stage leaves wrong is in proportion to how far the dual point still
moves, so that corners need not become narrow before the gap is small; docs/algorithms.md, section
11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from snapml.problems import Intercept, Loss, Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.newton import quasi_newton
from snapml.solvers.newton.primal_certificate import lower_bound
from snapml.solvers.observer import RowStates
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["solve"]

# So wide that every row of a model of zeros lies inside: at 1 all lie beside it, where no row has
# any curvature to step by, and large columns have steps that no line search can shorten enough.
# All widths are powers of two: a change of units then rounds nothing.
_FIRST_WIDTH = 16.0
# From a dual point that belongs to the first coefficients.
_CENTRED_WIDTH = 0.25
# After a stage of many reads, and after one of few: those lose no rows to speak of.
_NARROWING, _QUICK_NARROWING, _QUICK_READS = 0.5, 0.25, 6
# A stage that is stuck above this share of its objective has lost the rows whose margins lay in the
# corner before. It begins anew, as wide as the last one that was not.
_STUCK, _MOST_STUCK = 1e-2, 4
# Narrower corners are lost in the rounding of the margins.
_LEAST_WIDTH = 1e-11


def solve(
    engine: PrimalEngine,
    communicator: Communicator,
    rule: StoppingRule,
    *,
    start: np.ndarray | None = None,
    centre: np.ndarray | None = None,
) -> FitResult:
    """Minimise a problem with the hinge loss until the gap meets the rule.

    Parameters
    ----------
    engine : PrimalEngine
        Rows of one output, and a problem whose loss has a smoothed form, with an L2 penalty.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads of the data.
    start : ndarray of shape (n_outputs, n_features + 1), float64, or None
        Coefficients to start from.
    centre : ndarray of shape (n_rows,), or None
        Dual variables over c that belong to them, to round the first corner around.

    Returns
    -------
    FitResult
        The model with its certificate for the true hinge.
    """
    loss = engine.problem.loss.smoothed
    if loss is None:
        raise TypeError(f"expected a loss with corners to smooth, got {engine.problem.loss}")
    kept = rule.observer.stage(f"smoothed hinges, {engine.n_features}")
    if kept.result is not None:
        return kept.result
    judge = _Judge(engine, communicator)
    coef, history, n_reads = start, list[dict[str, float]](), 0
    is_centred = centre is not None
    widths = _Widths(_CENTRED_WIDTH) if is_centred else _Widths()
    centre = np.zeros(engine.n_rows) if centre is None else centre.astype(np.float64)
    if kept.state is not None:
        widths, coef = _Widths(*kept.state["widths"]), kept.state["coef"]
        centre = np.asarray(kept.state["centre"].values, np.float64)
        n_reads, history = kept.state["n_reads"], list(kept.state["history"])
    elif is_centred:  # the dual variables of what came before are not kept with its result
        kept.keep(_state(widths, coef, centre, n_reads, history))
    centre = engine.to_rows(centre)
    while True:
        corner = _Corner(widths.next, centre)
        rounded = corner.engine(engine, loss)
        stage = _stage_rule(rule, corner, n_reads)
        begin = None if coef is None else coef / widths.next
        result = quasi_newton.solve(
            rounded, communicator, stage, start=begin, uses_sample=False, is_rounded=False
        )
        slopes = judge.see(rounded, result, corner)
        n_reads += result.n_iter + 1 + judge.n_reads  # one for the start
        history.append(_entry(history, result, judge, n_reads))
        is_met = rule.is_met(judge.gap, judge.value)
        if is_met or n_reads >= rule.max_iter or rule.control.reason:
            break
        if widths.see(result):
            coef, centre = corner.width * result.point(engine.bias_column), slopes
        if widths.are_used_up:
            break
        kept.keep(_state(widths, coef, engine.to_host(centre), n_reads, history))
    if judge.best is None:
        raise RuntimeError("expected at least one stage, got none")
    result = replace(
        judge.best,
        duals=engine.to_host(slopes).astype(engine.dtype),
        n_iter=min(n_reads, rule.max_iter),
        has_converged=is_met,
        gap=judge.gap,
        objective=judge.value,
        history=history,
        description=f"quasi-Newton on smoothed hinges, {engine.description}",
    )
    return kept.finish(result)


def _stage_rule(rule: StoppingRule, corner: _Corner, n_reads: int) -> StoppingRule:
    """Return how far a stage goes: its gap is to be small beside what the corner leaves wrong."""
    return StoppingRule(
        min(_STUCK, 0.1 * corner.width),
        max(0, rule.max_iter - n_reads),
        observer=rule.observer,
        control=rule.control.through(corner.interim),
    )


def _state(
    widths: _Widths,
    coef: np.ndarray | None,
    centre: np.ndarray,
    n_reads: int,
    history: list[dict[str, float]],
) -> dict[str, Any]:
    """Return what the next stage begins with, for a restart."""
    state = {"widths": widths.state, "coef": coef, "centre": RowStates(centre)}
    return {**state, "n_reads": n_reads, "history": history}


def _entry(
    history: list[dict[str, float]], result: FitResult, judge: _Judge, n_reads: int
) -> dict[str, float]:
    """Return what the history says of a stage that has ended."""
    elapsed = history[-1]["time_s"] if history else 0.0
    entry = {**result.history[-1], "epoch": n_reads, "gap": judge.gap, "objective": judge.value}
    return entry | {"time_s": elapsed + entry["time_s"]}


@dataclass(frozen=True)
class _Corner:
    """A corner of any width, as one of width 1 in other units.

    With the slack t = 1 - y z + h a0 the smoothed hinge is h phi(t / h), phi being that of width
    1. So coefficients and margins are taken in units of h, row weights are h c, the penalty's
    strength is h^2 l2, and an offset moves the corner to where t / h = 1 - y (z / h + o).
    """

    width: float
    centre: Any  # a0 of each row: alpha / c

    def engine(self, engine: PrimalEngine, loss: Loss) -> PrimalEngine:
        """Return an engine of the smoothed problem, with weights and offsets in these units."""
        problem, offsets = engine.problem, engine.offsets()
        penalty = replace(problem.penalty, l2=self.width**2 * problem.penalty.l2)
        own = 0.0 if offsets is None else offsets / self.width
        move = _signs(engine) * (1.0 - 1.0 / self.width - self.centre)
        smooth = replace(problem, loss=loss, penalty=penalty)
        return engine.restated(smooth, self.width, move + own)

    def interim(self, model: Interim) -> Interim:
        """Return a model on the way in the data's units; its certificate is of another loss."""
        return Interim(self.width * model.coef, self.width * model.intercept)

    def margins(self, rounded: PrimalEngine) -> Any:
        """Return the true margins, from those of a smoothed problem."""
        y = _signs(rounded)
        return y + self.width * (rounded.margins[0] - y * (1.0 - self.centre))

    def terms(self, a: Any, weights: Any) -> float:
        """Return by how much the hinge's dual terms exceed those of the round corner."""
        return self.width * float((weights * a * (0.5 * a - self.centre)).sum())


@dataclass
class _Widths:
    """The width of the next stage, and of the last one that was not stuck."""

    next: float = _FIRST_WIDTH
    last: float = _FIRST_WIDTH
    n_stuck: int = 0

    @property
    def state(self) -> tuple[float, float, int]:
        """What makes the same widths after a restart."""
        return self.next, self.last, self.n_stuck

    @property
    def are_used_up(self) -> bool:
        return self.next < _LEAST_WIDTH or self.n_stuck > _MOST_STUCK

    def see(self, result: FitResult) -> bool:
        """Return whether the stage of the next width did not get stuck; go on from there."""
        if result.has_converged or result.gap <= _STUCK * result.objective:
            is_quick = result.n_iter <= _QUICK_READS and self.n_stuck == 0
            self.last = self.next
            self.next *= _QUICK_NARROWING if is_quick else _NARROWING
            return True
        # From the last stage's dual point its own width is a new problem, and the mildest.
        self.next = self.last
        self.n_stuck += 1
        return False


class _Judge:
    """What the stages mean for the true hinge: the best model, and the best lower bound."""

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
        self.value, self.gap = math.inf, math.inf
        self.best: FitResult | None = None
        self.n_reads = 0
        self._bound = 0.0  # no loss and no penalty is negative
        self._engine, self._communicator = engine, communicator

    def see(self, rounded: PrimalEngine, result: FitResult, corner: _Corner) -> Any:
        """Take a stage's model where it is better; return its dual point.

        That takes one read, and another where the model is rounded: the dual point of rounded
        coefficients may be worth little.

        Both losses have the same slopes as dual point, and the true one's dual value is finite
        there, too: between the two lie the loss terms alone.

        Parameters
        ----------
        rounded : PrimalEngine
            Of the stage.
        result : FitResult
            What the stage has ended with.
        corner : _Corner
            Of the stage.

        Returns
        -------
        array of shape (n_rows,), float64
            The dual variables over c, between 0 and 1, where the rows are.
        """
        point, xp = result.point(rounded.bias_column), rounded.xp
        vector = rounded.to_vectors(point)
        loss, gradient, _ = rounded.fused_pass(vector)
        rounded.accept()
        slopes, weights = rounded.losses_at(rounded.margins)[1][0], rounded.row_weights()
        a = xp.abs(slopes) / xp.where(weights > 0.0, weights, 1.0)  # weights times the width
        terms = corner.terms(a, weights / corner.width)
        loss, terms = self._communicator.allreduce_sum(np.array([loss, terms])).tolist()
        gradient = self._communicator.allreduce_sum(gradient)
        bound = lower_bound(rounded, self._communicator, vector, loss, gradient)
        self._bound = max(self._bound, bound + terms - _balancing(rounded, gradient))
        self._see_model(rounded, point, result, corner)
        return a

    def _see_model(
        self, rounded: PrimalEngine, exact: np.ndarray, result: FitResult, corner: _Corner
    ) -> None:
        """Round a stage's coefficients, of which its engine has the margins, to a model."""
        coef = (corner.width * exact).astype(rounded.dtype)
        point, self.n_reads = coef.astype(np.float64), 1
        if (point != corner.width * exact).any():
            rounded.fused_pass(rounded.to_vectors(point / corner.width))
            rounded.accept()
            self.n_reads = 2
        own = np.array([self._engine.losses_at(corner.margins(rounded)[None])[0]])
        penalty = _penalty(self._engine.problem, point)
        value = float(self._communicator.allreduce_sum(own)[0]) + penalty
        if value <= self.value:
            intercept = rounded.bias_column * float(point[0, -1])
            self.value = value
            self.best = replace(result, coef=coef[0, :-1], intercept=intercept)
        self.gap = certified_gap(self.value, self._bound)


def _signs(engine: PrimalEngine) -> Any:
    """Return the labels of the one output, -1 or 1, float64, where the rows are."""
    return engine.labels().reshape(-1).astype(np.float64)


def _balancing(engine: PrimalEngine, gradient: Any) -> float:
    """Return how much of the terms a free intercept's balance may take away.

    The dual variables that `lower_bound` moves make up for the sum of all, and a row's terms have
    a slope of at most the width, which the gradient here is a multiple of.
    """
    is_free = engine.problem.intercept is Intercept.FREE
    return abs(float(gradient[0, -1])) if is_free else 0.0


def _penalty(problem: Problem, point: np.ndarray) -> float:
    weights = point if problem.intercept is Intercept.PENALISED else point[:, :-1]
    return 0.5 * problem.penalty.l2 * float(np.vdot(weights, weights))
