"""Stochastic dual coordinate ascent, written once for every engine and every number of shards.

Shalev-Shwartz and Zhang, Stochastic dual coordinate ascent methods for regularized loss
minimization, JMLR 2013; docs/algorithms.md gives the form used here.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from snapml.problems import Intercept, Problem
from snapml.solvers.certificate import Certificate, certified_gap, certify
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.dual_ascent import kept_ascent
from snapml.solvers.dual_ascent.rounding import Rounding
from snapml.solvers.dual_ascent.shard_merge import ShardMerge
from snapml.solvers.engine import Engine
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import Limits, Progress, StoppingRule

__all__ = ["check_solvable", "judge", "solve"]

# Share of the objective below which a gap leaves no room for a model that is better by much.
_CLOSE = 1e-2
# Running gaps below this many squared roundings of the objective are noise; and below the other
# share coefficients change by a hundredth of a millionth.
_ROUNDING_LEVEL, _FINEST = 1e3, 1e-16
# A visit of a row costs as much as so many of its entries beside what these cost.
_ENTRIES_A_ROW = 10.0


def solve(
    engine: Engine,
    communicator: Communicator,
    rule: StoppingRule,
    *,
    patience: float = math.inf,
    judged_from: int = 0,
    ends_at: float = 0.0,
) -> FitResult:
    """Run epochs until the certified gap meets the rule or its epochs are used up.

    Parameters
    ----------
    engine : Engine
        Shard of the data; left at the returned model.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most epochs.
    patience : float, default=inf
        End early, short of the tolerance, once the gap's decline says that more than this many
        epochs are left: another method may do better.
    judged_from : int, default=0
        Epochs before which the decline says nothing yet.
    ends_at : float, default=0.0
        End early also where the running gap stays, at most this large: rounding is what is left.

    Returns
    -------
    FitResult
        The model with its certificate.

    Raises
    ------
    ValueError
        If the L2 penalty's strength is not 1: engines know no other.
    """
    strength = engine.problem.penalty.l2
    if strength != 1.0:
        raise ValueError(
            f"expected an L2 penalty of strength 1 after a division of all weights, got {strength}"
        )
    stage = rule.observer.stage(f"coordinate ascent, {len(engine.shared)}")
    if stage.result is not None:
        return stage.result
    progress = Progress(rule, stage=stage)
    best = _BestModel()
    offset = kept_ascent.begin(engine, progress)
    limits, merge = Limits(patience, judged_from, ends_at), None
    if communicator.size > 1 or offset is not None:
        engine.agree(communicator)
    if communicator.size > 1:
        merge = ShardMerge(engine, communicator)
    if offset is not None:
        engine.offset = offset
    if engine.has_warm_start:
        _repair(engine, communicator, None)
        _certify(engine, communicator, progress, best)
    if not progress.is_met:
        _ascend(engine, communicator, merge, progress, best, limits)
    if progress.is_met and _polish(engine, communicator, merge, progress, best):
        _certify(engine, communicator, progress, best)
    # What is handed over is another solver's start.
    is_handed_over = limits.are_reached(progress)
    is_close = math.isfinite(best.objective) and best.gap <= _CLOSE * best.objective
    if not (progress.is_met or is_handed_over or is_close):
        _compare_with_zero(engine, communicator, best)
    return stage.finish(_result(engine, progress, best))


def judge(engine: Engine, communicator: Communicator, rule: StoppingRule) -> FitResult:
    """Certify the model and the dual variables that an engine holds.

    Parameters
    ----------
    engine : Engine
        Shard of the data.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance.

    Returns
    -------
    FitResult
        The model, or one a little longer where that is better; without epochs.
    """
    progress, best = Progress(rule), _BestModel()
    _certify(engine, communicator, progress, best)
    if not progress.is_met and Rounding(engine).can_lengthen:
        _lengthen(engine, communicator, progress, best)
    return _result(engine, progress, best)


def _result(engine: Engine, progress: Progress, best: _BestModel) -> FitResult:
    return FitResult(
        coef=engine.shared[:-1] if best.coef is None else best.coef,
        intercept=best.intercept,
        duals=engine.duals,
        offset=engine.offset,
        n_iter=len(progress.history),
        has_converged=progress.is_met,
        gap=best.gap,
        objective=best.objective,
        history=progress.history,
        mean_stiffness=engine.mean_stiffness,
        description=f"dual coordinate ascent, {engine.description}",
    )


def check_solvable(problem: Problem) -> None:
    """Refuse what has no coordinate step, or no dual.

    Parameters
    ----------
    problem : Problem
        What to solve.

    Raises
    ------
    ValueError
        With what would work instead.
    """
    if problem.loss.is_joint:
        raise ValueError(
            "solver='sdca' minimises the softmax loss of several classes for sparse rows in memory "
            "only, on one machine and without offsets: expected solver='auto' or 'pqn', or "
            "multi_class='ovr'"
        )
    if not problem.loss.has_dual_step:
        raise ValueError(
            f"solver='sdca' has no step for the loss {problem.loss.core_name}: expected "
            "solver='auto' or 'pqn'"
        )
    if problem.penalty.l2 <= 0.0:
        raise ValueError(
            "solver='sdca' needs a penalty: expected solver='auto' or 'pqn', or a finite C "
            "(alpha > 0)"
        )


class _BestModel:
    """The best certified model so far, with the best lower bound.

    The dual objective only rises, the primal one may swing: after an early end, the last model
    need not be the best.
    """

    def __init__(self) -> None:
        self.objective = math.inf
        self.intercept = 0.0
        self.gap = math.inf
        self.coef: np.ndarray | None = None  # None: the model is the engine's
        self._lower_bound = -math.inf

    def see(self, certificate: Certificate) -> None:
        """Take the engine's present model where it is better."""
        self._lower_bound = max(self._lower_bound, certificate.lower_bound)
        if certificate.objective <= self.objective:
            self.objective = certificate.objective
            self.intercept = certificate.intercept
            self.coef = None
        self.gap = certified_gap(self.objective, self._lower_bound)

    def keep(self, engine: Engine) -> None:
        """Copy the model before the engine moves on."""
        if self.coef is None:
            self.coef = engine.shared[:-1].copy()


def _certify(
    engine: Engine, communicator: Communicator, progress: Progress, best: _BestModel
) -> Certificate:
    with progress.rule.observer.phase("certificate"):
        certificate = certify(engine, communicator)
    best.see(certificate)
    progress.see_certificate(best.gap, best.objective)
    return certificate


def _ascend(
    engine: Engine,
    communicator: Communicator,
    merge: ShardMerge | None,
    progress: Progress,
    best: _BestModel,
    limits: Limits,
) -> None:
    """Run epochs until an exact pass confirms that the rule is met, or they are used up."""
    max_iter = progress.rule.max_iter
    rounding = Rounding(engine)
    while len(progress.history) < max_iter:
        progress.stage.offer(communicator, partial(kept_ascent.state_of, engine, progress))
        for gap in _epochs(engine, merge, progress, max_iter):
            seems_met = progress.see_epoch(gap)
        has_ended = progress.rule.control.ends(communicator, partial(_interim, engine))
        is_rounded = rounding.is_due(progress.history)
        n_epochs = len(progress.history)
        is_last = has_ended or n_epochs == max_iter or limits.are_reached(progress)
        is_last |= is_rounded and gap <= limits.ends_at
        if not (seems_met or is_last or is_rounded):
            continue
        certificate = _certify(engine, communicator, progress, best)
        if not progress.is_met and rounding.can_lengthen and (is_rounded or is_last):
            _lengthen(engine, communicator, progress, best)
        if progress.is_met or is_last:
            return
        best.keep(engine)
        _repair(engine, communicator, certificate)
        del certificate  # its vectors would double the memory of the next one
    _certify(engine, communicator, progress, best)  # max_iter = 0: the model is what it was


def _lengthen(
    engine: Engine, communicator: Communicator, progress: Progress, best: _BestModel
) -> None:
    """Certify models a little longer than the engine's, as long as they become better."""
    for factor in Rounding.FACTORS:
        before = best.objective
        best.keep(engine)
        engine.lengthen(factor)
        _certify(engine, communicator, progress, best)
        if progress.is_met or best.objective >= before:
            return


def _compare_with_zero(engine: Engine, communicator: Communicator, best: _BestModel) -> None:
    """Take the model without coefficients where ascent has ended at a worse one.

    The dual objective only rises, but where columns are far from their mean the primal one of its
    models may be anything for long.
    """
    best.keep(engine)
    offset, engine.offset = engine.offset, 0.0
    engine.set_shared(np.zeros(len(engine.shared)))
    best.see(certify(engine, communicator))
    if best.coef is not None and math.isfinite(offset):
        engine.offset = offset


def _interim(engine: Engine) -> Interim:
    """Return the model for those who look on; a free intercept is what the multiplier says."""
    shared = np.asarray(engine.shared, dtype=np.float64)
    return Interim(shared[None, :-1].copy(), engine.tau * shared[-1:] + engine.offset)


def _polish(
    engine: Engine,
    communicator: Communicator,
    merge: ShardMerge | None,
    progress: Progress,
    best: _BestModel,
) -> bool:
    """Go on to rounding level while that costs next to nothing; return whether anything was done.

    On small data the answer is then nearly as exact as the number type allows, whatever `tol` is.
    """
    own = float(engine.n_stored) + _ENTRIES_A_ROW * float(len(engine.duals))
    n_visits = float(communicator.allreduce_sum(np.array([own]))[0])
    n_epochs = min(progress.rule.max_iter, int(engine.free_visits // max(1.0, n_visits)))
    floor = max(_FINEST, _ROUNDING_LEVEL * float(np.finfo(engine.shared.dtype).eps) ** 2)
    first = len(progress.history)
    if n_epochs <= first:
        return False
    best.keep(engine)
    while len(progress.history) < n_epochs:
        for gap in _epochs(engine, merge, progress, n_epochs, floor):
            progress.see_epoch(gap)
        if progress.relative_gap <= floor:
            break
    return True


def _epochs(
    engine: Engine,
    merge: ShardMerge | None,
    progress: Progress,
    last: int,
    floor: float | None = None,
) -> list[float]:
    """Run an epoch, or a few in one call where nobody looks on between them; return their gaps.

    They end where the rule seems to be met, or where the gap is this share of the objective.
    """
    first = len(progress.history)
    together = engine.several_epochs
    if together is None or merge is not None or not first or progress.rule.control.is_active:
        return [_epoch(engine, merge, first)]
    return together(first, last - first, *progress.next_goal(floor))


def _epoch(engine: Engine, merge: ShardMerge | None, epoch: int) -> float:
    """Run one epoch on every shard, add up the changes, move the multiplier; return the gap."""
    gap = engine.dual_epoch(epoch, 1.0) if merge is None else merge.epoch(epoch)
    if engine.problem.intercept is Intercept.FREE:
        # Method of multipliers for sum(beta) = 0, the optimality of an unpenalised intercept.
        engine.offset += engine.tau * float(engine.shared[-1])
    return gap


def _repair(engine: Engine, communicator: Communicator, certificate: Certificate | None) -> None:
    """Recompute the shared vector from the dual variables: rounding and lost updates end here."""
    if certificate is None or certificate.is_scaled:
        adjoint = communicator.allreduce_sum(engine.exact_sweep(1.0, 1.0)[1])
    else:
        adjoint = certificate.adjoint
    engine.set_shared(adjoint)
