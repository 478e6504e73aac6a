"""The hinge by continuation on rows that stay in the cache: all stages in one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from snapml import _native
from snapml.data import Dataset
from snapml.problems import Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.newton import small_newton
from snapml.solvers.observer import SILENT
from snapml.solvers.range_checks import check_range
from snapml.solvers.result import FitResult
from snapml.solvers.rows.cpu_rows import native_rows
from snapml.solvers.stopping import Progress, StoppingRule

__all__ = ["solve", "suits"]

# Widths are halved at least, from 16 to 1e-11.
_MOST_STAGES = 48


def suits(
    problem: Problem, dataset: Dataset, communicator: Communicator, rule: StoppingRule
) -> bool:
    """Return whether each stage is a small problem, whose states between steps nobody keeps.

    Parameters
    ----------
    problem : Problem
        With the hinge loss.
    dataset : Dataset
        Rows, labels and weights.
    communicator : Communicator
        The other shards: there must be none.
    rule : StoppingRule
        Who looks on. One who keeps states for a restart, or measures phases, sees none here.

    Returns
    -------
    bool
        Whether `solve` can be tried.
    """
    smooth = problem.loss.smoothed
    if smooth is None or communicator.size > 1 or rule.observer is not SILENT:
        return False
    is_one = dataset.labels.ndim == 1
    rounded = replace(problem, loss=smooth)
    return is_one and small_newton.is_small(rounded, dataset.matrix, dataset.matrix.shape[0])


@dataclass
class _Found:
    """What a call has left."""

    is_solved: bool
    n_passes: int
    n_entries: int
    objective: float
    bound: float
    stiffness: float
    coef: np.ndarray  # with the intercept's, where there is one
    slacks: np.ndarray  # alpha / c of each row
    stages: np.ndarray  # seconds, passes, gap and objective after each
    points: np.ndarray | None


def solve(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    start: np.ndarray | None,
    slacks: np.ndarray | None,
) -> FitResult | None:
    """Minimise, and certify.

    Parameters
    ----------
    problem, dataset, communicator, rule
        What `suits`.
    start : ndarray of shape (1, n_features + 1), float64, or None
        Coefficients to begin with.
    slacks : ndarray of shape (n_rows,) or None
        Dual variables over c that belong to them.

    Returns
    -------
    FitResult or None
        None where the tolerance was not met.
    """
    n_most = min(rule.max_iter, _MOST_STAGES * (small_newton.MOST_PASSES + 1))
    found = _run(problem, dataset, rule, start, slacks, n_most, keeps_points=rule.control.is_active)
    if not found.is_solved:
        return None
    n_seen = _replay(problem, found, communicator, rule)
    if n_seen < found.n_entries:  # whoever looked on has ended the fit: it ends there
        found = _run(problem, dataset, rule, start, slacks, n_seen)
    return _result(problem, dataset, rule, found)


def _run(
    problem: Problem,
    dataset: Dataset,
    rule: StoppingRule,
    start: np.ndarray | None,
    slacks: np.ndarray | None,
    most_entries: int,
    *,
    keeps_points: bool = False,
) -> _Found:
    """Return the best model after at most so many steps of all stages."""
    matrix, bias = dataset.matrix, problem.bias_column
    n_columns = matrix.shape[1] + (1 if bias else 0)
    coef = np.zeros(n_columns) if start is None else start[0, :n_columns].astype(np.float64)
    own = np.zeros(matrix.shape[0]) if slacks is None else slacks.astype(np.float64)
    history = np.empty((_MOST_STAGES, 4))
    points = np.zeros((most_entries, n_columns)) if keeps_points else None
    is_solved, n_passes, n_stages, n_entries, objective, bound, stiffness = _native.small_hinge(
        native_rows(matrix, _native.ThreadPool(1)),
        dataset.labels,
        dataset.row_weights,
        dataset.weight,
        dataset.offsets,
        problem.penalty.l2,
        problem.intercept.value,
        bias,
        rule.tol,
        rule.max_iter,
        most_entries,
        coef,
        own,
        slacks is not None,
        history,
        points,
    )
    if is_solved:
        check_range(stiffness, matrix.dtype)
    return _Found(
        is_solved=is_solved,
        n_passes=n_passes,
        n_entries=n_entries,
        objective=objective,
        bound=bound,
        stiffness=stiffness,
        coef=coef,
        slacks=own,
        stages=history[:n_stages],
        points=points,
    )


def _result(problem: Problem, dataset: Dataset, rule: StoppingRule, found: _Found) -> FitResult:
    n_rows, n_features = dataset.matrix.shape
    dtype, bias = dataset.matrix.dtype, problem.bias_column
    names = ("time_s", "epoch", "gap", "objective")
    history = [dict(zip(names, stage, strict=True)) for stage in found.stages.tolist()]
    for entry in history:
        entry["epoch"], entry["running_gap"] = int(entry["epoch"]), entry["gap"]
    return FitResult(
        coef=found.coef[:n_features].astype(dtype),
        intercept=bias * float(found.coef[-1]) if bias else 0.0,
        duals=found.slacks.astype(dtype),
        offset=0.0,
        n_iter=min(found.n_passes, rule.max_iter),
        has_converged=found.is_solved,
        gap=certified_gap(found.objective, found.bound),
        objective=found.objective,
        history=history,
        mean_stiffness=found.stiffness / max(1, n_rows),
        description="quasi-Newton on smoothed hinges in one call, 1 thread",
    )


def _replay(problem: Problem, found: _Found, communicator: Communicator, rule: StoppingRule) -> int:
    """Show the steps to whoever looks on; return how many there were when the fit was ended."""
    if rule.verbose:
        progress = Progress(rule)
        for _, _, gap, objective in found.stages.tolist():
            progress.see_epoch(gap)
            progress.see_certificate(gap, objective)
    if found.points is None:
        return found.n_entries
    for number in range(found.n_entries):
        point = found.points[number : number + 1]
        model_of = partial(_interim, point, problem.bias_column)
        if rule.control.ends(communicator, model_of):
            return number + 1
    return found.n_entries


def _interim(point: np.ndarray, bias_column: float) -> Interim:
    """Return a model on the way, whose certificate is of another loss."""
    if not bias_column:
        return Interim(point, np.zeros(1))
    return Interim(point[:, :-1], bias_column * point[:, -1])
