"""Dual coordinate ascent for the multinomial loss: all classes of a row move together.

What Yu, Huang and Lin (Dual coordinate descent methods for logistic regression and maximum entropy
models, Machine Learning 85, 2011) do class by class, by one Newton iteration a row.
docs/algorithms.md, section 1.7.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from snapml.data import CompressedMatrix, Dataset
from snapml.problems import Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.dual_ascent.softmax_duals import SoftmaxDuals, SoftmaxModel
from snapml.solvers.result import FitResult, overflow_error
from snapml.solvers.stopping import Limits, Progress, StoppingRule

__all__ = ["solve", "suits"]

_FREE_VISITS = 250_000  # entries that epochs may visit for nothing, to end at rounding level
_ENTRIES_A_ROW = 50  # a row's step costs as much as so many of its entries
_POLISHED = 1e3 * float(np.finfo(np.float64).eps) ** 2


def suits(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether this solver can minimise a problem where its rows are.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        The rows.
    communicator : Communicator
        The other shards.

    Returns
    -------
    bool
        True for the softmax with an L2 penalty of strength 1 on compressed rows in memory, all of
        them here and without offsets.
    """
    penalty = problem.penalty
    is_smooth = penalty.is_smooth and penalty.l2 == 1.0
    is_here = communicator.size == 1 and isinstance(dataset.matrix, CompressedMatrix)
    return problem.loss.is_joint and is_smooth and is_here and dataset.offsets is None


def solve(
    duals: SoftmaxDuals,
    communicator: Communicator,
    rule: StoppingRule,
    *,
    patience: float = math.inf,
    judged_from: int = 0,
) -> FitResult:
    """Run epochs until the certified gap meets the rule or its epochs are used up.

    Parameters
    ----------
    duals : SoftmaxDuals
        All rows, at their start.
    communicator : Communicator
        Of one shard.
    rule : StoppingRule
        Tolerance and most epochs.
    patience : float, default=inf
        End early, short of the tolerance, once the gap's decline says that more than this many
        epochs are left: another method may do better.
    judged_from : int, default=0
        Epochs before which the decline says nothing yet.

    Returns
    -------
    FitResult
        The model with its certificate.

    Raises
    ------
    ValueError
        If the sums overflow.
    """
    stage = rule.observer.stage(f"multinomial coordinate ascent, {duals.shared.shape}")
    if stage.result is not None:
        return stage.result
    progress, best = Progress(rule, stage=stage), _Best(duals)
    if stage.state is not None:
        _resume(duals, progress)
    limits = Limits(patience, judged_from)
    _ascend(duals, communicator, progress, best, limits)
    if progress.is_met and _polish(duals, progress):
        best.see(progress)
    if not (progress.is_met or limits.are_reached(progress)):
        best.see_zero()
    if not math.isfinite(best.model.objective):
        raise overflow_error(duals.dtype)
    return stage.finish(
        FitResult(
            coef=best.model.coef,
            intercept=best.model.intercept,
            duals=None,
            offset=0.0,
            n_iter=len(progress.history),
            has_converged=progress.is_met,
            gap=best.gap,
            objective=best.model.objective,
            history=progress.history,
            mean_stiffness=duals.mean_stiffness,
            description=f"dual coordinate ascent, {duals.description}",
        )
    )


class _Best:
    """The best model so far, with the best lower bound; the primal objective may swing."""

    def __init__(self, duals: SoftmaxDuals) -> None:
        self._duals = duals
        self.model = SoftmaxModel(duals.coef, duals.intercept, math.inf)
        self._bound = 0.0  # no loss and no penalty is negative

    @property
    def gap(self) -> float:
        """How far the best model's objective can be above the minimum."""
        return certified_gap(self.model.objective, self._bound)

    def see(self, progress: Progress) -> None:
        """Certify the present model, and take it where it is better."""
        with progress.rule.observer.phase("certificate"):
            bound = self._duals.lower_bound()
            self._bound = max(self._bound, bound) if math.isfinite(bound) else self._bound
            self._take(self._duals.model())
        progress.see_certificate(self.gap, self.model.objective)

    def see_zero(self) -> None:
        """Take the model without coefficients where ascent has ended at a worse one."""
        self._take(self._duals.zero_model())

    def _take(self, model: SoftmaxModel) -> None:
        if model.objective < self.model.objective:
            self.model = model


def _ascend(
    duals: SoftmaxDuals,
    communicator: Communicator,
    progress: Progress,
    best: _Best,
    limits: Limits,
) -> None:
    """Run epochs until an exact pass confirms that the rule is met, or they are used up."""
    rule = progress.rule
    for epoch in range(len(progress.history), rule.max_iter):
        progress.stage.offer(communicator, partial(_state, duals, progress))
        seems_met = progress.see_epoch(duals.epoch(epoch))
        has_ended = rule.control.ends(communicator, partial(_interim, duals))
        is_last = has_ended or epoch + 1 == rule.max_iter or limits.are_reached(progress)
        if seems_met or is_last:
            best.see(progress)
        if progress.is_met or is_last:
            return
    best.see(progress)  # max_iter = 0: the model is what it was


def _polish(duals: SoftmaxDuals, progress: Progress) -> bool:
    """Go on to rounding level while that costs next to nothing; return whether anything was done.

    On small data the answer is then as exact as the number type allows, whatever `tol` is.
    """
    n_classes, n_rows = len(duals.offsets), len(duals.log_p) // len(duals.offsets)
    visits = max(1, (duals.n_stored + _ENTRIES_A_ROW * n_rows) * n_classes)
    first, last = len(progress.history), min(progress.rule.max_iter, _FREE_VISITS // visits)
    for epoch in range(first, last):
        progress.see_epoch(duals.epoch(epoch))
        if progress.relative_gap <= _POLISHED:
            break
    return last > first


def _interim(duals: SoftmaxDuals) -> Interim:
    """Return the model for those who look on."""
    return Interim(duals.coef.astype(np.float64), duals.intercept)


def _state(duals: SoftmaxDuals, progress: Progress) -> dict[str, Any]:
    """Return what `_resume` goes on from."""
    return {
        "log_p": duals.log_p,
        "shared": duals.shared,
        "offsets": duals.offsets,
        "progress": progress.state(),
    }


def _resume(duals: SoftmaxDuals, progress: Progress) -> None:
    """Go on where another fit has ended."""
    kept = progress.stage.state
    if kept is None:
        return
    for name in ("log_p", "shared", "offsets"):
        np.copyto(getattr(duals, name), kept[name])
    progress.resume(kept["progress"], len(kept["progress"]["history"]))
