"""The hinge by continuation: quasi-Newton on smoother and smoother-cornered hinges.

The hinge with its corner rounded off over a width g lies below the hinge by at most g / 2. Its
minimum is found in a few reads of the data from that for a larger g, and every lower bound for it
is one for the hinge (Nesterov, Smooth minimization of non-smooth functions, 2005;
docs/algorithms.md, section 11).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from snapml.data import Dataset
from snapml.problems import Hinge, Intercept, Problem, SmoothedHinge
from snapml.solvers import quasi_newton
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import uncertified
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.host_engines import primal_engine
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["solve"]

# So wide that every row of a model of zeros lies inside: at 1 all lie beside it, where no row has
# any curvature to step by, and large columns have steps that no line search can shorten enough.
_FIRST_WIDTH = 10.0
_NARROWING = 0.1
# A stage that is stuck above this share of its objective has lost the rows whose margins lay in the
# corner before. It begins anew nearer to the last width, up to so much of it.
_STUCK, _MILDEST_NARROWING = 1e-2, 0.9
# Narrower corners are lost in the rounding of the margins.
_LEAST_WIDTH = 1e-11


def solve(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    *,
    n_threads: int | None = None,
    start: np.ndarray | None = None,
) -> FitResult:
    """Minimise a problem with the hinge loss until the gap meets the rule.

    Parameters
    ----------
    problem : Problem
        With the loss `Hinge` and an L2 penalty.
    dataset : Dataset
        Rows, labels and row weights.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads of the data.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    start : ndarray of shape (n_outputs, n_features + 1), float64, or None
        Coefficients to start from.

    Returns
    -------
    FitResult
        The model with its certificate for the true hinge.
    """
    if not isinstance(problem.loss, Hinge):
        raise TypeError(f"expected the loss Hinge, got {problem.loss}")
    kept = rule.observer.stage(f"smoothed hinges, {dataset.matrix.shape[1]}")
    if kept.result is not None:
        return kept.result
    judge = primal_engine(problem, dataset, n_threads=n_threads)
    smooth = replace(problem, loss=SmoothedHinge())
    coef, best, history = start, _Best(), list[dict[str, float]]()
    widths, n_reads = _Widths(), 0
    if kept.state is not None:
        widths, coef = _Widths(*kept.state["widths"]), kept.state["coef"]
        n_reads, history = kept.state["n_reads"], list(kept.state["history"])
    while True:
        width = widths.next
        labels = dataset.labels * dataset.labels.dtype.type(width)
        engine = primal_engine(smooth, replace(dataset, labels=labels), n_threads=n_threads)
        stage = StoppingRule(
            min(_STUCK, 0.1 * width),
            max(0, rule.max_iter - n_reads),
            observer=rule.observer,
            control=rule.control.through(uncertified),
        )
        result = quasi_newton.solve(engine, communicator, stage, start=coef, uses_sample=False)
        point = result.point(judge.bias_column)
        best.see(_objective(judge, communicator, point), result)
        n_reads += result.n_iter + 2  # the start's, and this judge's
        elapsed = history[-1]["time_s"] if history else 0.0
        entry = {**result.history[-1], "epoch": n_reads, "gap": best.gap}
        entry |= {"objective": best.value, "time_s": elapsed + entry["time_s"]}
        history.append(entry)
        is_met = rule.is_met(best.gap, best.value)
        if is_met or n_reads >= rule.max_iter or rule.control.reason:
            break
        if widths.see(result):
            coef = point
        if widths.are_used_up:
            break
        state = {"widths": (widths.last, widths.narrowing), "coef": coef}
        kept.keep({**state, "n_reads": n_reads, "history": history})
    if best.result is None:
        raise RuntimeError("expected at least one stage, got none")
    result = replace(
        best.result,
        n_iter=min(n_reads, rule.max_iter),
        has_converged=is_met,
        gap=best.gap,
        objective=best.value,
        history=history,
        description=f"quasi-Newton on smoothed hinges, {judge.description}",
    )
    return kept.finish(result)


@dataclass
class _Widths:
    """The width of the last stage that came to its end, and the share of it that comes next."""

    last: float = _FIRST_WIDTH / _NARROWING
    narrowing: float = _NARROWING

    @property
    def next(self) -> float:
        return self.narrowing * self.last

    @property
    def are_used_up(self) -> bool:
        return self.next < _LEAST_WIDTH or self.narrowing > _MILDEST_NARROWING

    def see(self, result: FitResult) -> bool:
        """Return whether the stage of the next width did not get stuck; go on from there."""
        if result.has_converged or result.gap <= _STUCK * result.objective:
            self.last = self.next
            return True
        self.narrowing = math.sqrt(self.narrowing)
        return False


class _Best:
    """The best model for the hinge, and the best lower bound."""

    def __init__(self) -> None:
        self.value = math.inf
        self.gap = math.inf
        self.result: FitResult | None = None
        self._bound = -math.inf

    def see(self, value: float, result: FitResult) -> None:
        self._bound = max(self._bound, result.objective - result.gap)
        if value <= self.value:
            self.value, self.result = value, result
        self.gap = certified_gap(self.value, self._bound)


def _objective(engine: PrimalEngine, communicator: Communicator, coef: np.ndarray) -> float:
    """Return the objective with the true hinge."""
    loss = float(communicator.allreduce_sum(np.array([engine.fused_pass(coef)[0]]))[0])
    weights = coef if engine.problem.intercept is Intercept.PENALISED else coef[:, :-1]
    return loss + 0.5 * engine.problem.penalty.l2 * float(np.vdot(weights, weights))
