"""The hinge by continuation: quasi-Newton on smoother and smoother-cornered hinges.

The hinge with its corner rounded off over a width g lies below the hinge by at most g / 2. Its
minimum is found in a few reads of the data from that for a larger g, and every lower bound for it
is one for the hinge (Nesterov, Smooth minimization of non-smooth functions, 2005;
docs/algorithms.md, section 11).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from snapml.data import Dataset
from snapml.problems import Hinge, Intercept, Problem, SmoothedHinge
from snapml.solvers import quasi_newton
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import uncertified
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.host_engines import primal_engine
from snapml.solvers.observer import Stage
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["solve"]

_FIRST_WIDTH = 1.0
_NARROWING = 0.1
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
    width, coef, best, n_reads, history = _begin(kept, start)
    while True:
        labels = dataset.labels * dataset.labels.dtype.type(width)
        engine = primal_engine(smooth, replace(dataset, labels=labels), n_threads=n_threads)
        stage = StoppingRule(
            min(1e-2, 0.1 * width),
            max(0, rule.max_iter - n_reads),
            observer=rule.observer,
            control=rule.control.through(uncertified),
        )
        result = quasi_newton.solve(engine, communicator, stage, start=coef, uses_sample=False)
        coef = result.point(judge.bias_column)
        best.see(_objective(judge, communicator, coef), result)
        n_reads += result.n_iter + 2  # the start's, and this judge's
        elapsed = history[-1]["time_s"] if history else 0.0
        entry = {**result.history[-1], "epoch": n_reads, "gap": best.gap}
        entry |= {"objective": best.value, "time_s": elapsed + entry["time_s"]}
        history.append(entry)
        is_met = rule.is_met(best.gap, best.value)
        width *= _NARROWING
        if is_met or n_reads >= rule.max_iter or width < _LEAST_WIDTH or rule.control.reason:
            break
        kept.keep({"width": width, "coef": coef, "n_reads": n_reads, "history": history})
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


def _begin(
    kept: Stage, start: np.ndarray | None
) -> tuple[float, np.ndarray | None, _Best, int, list[dict[str, float]]]:
    """Return width, point, best point, reads and history: the first, or those of a restart."""
    if kept.state is None:
        return _FIRST_WIDTH, start, _Best(), 0, []
    state = kept.state
    return state["width"], state["coef"], _Best(), state["n_reads"], list(state["history"])


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
