"""Coordinate ascent that goes on in double precision where rounding in single precision ends it.

A loss with corners whose margins are all met makes its gap of their rounding alone: the dual
states of large weights and the sums of float32 coefficients are too coarse for it. Rounding the
coefficients of the answer leaves a hundredth of that.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from snapml.data import ChunkedMatrix, CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.problems import Intercept, Problem
from snapml.solvers.certificate import joined
from snapml.solvers.communicator import Communicator
from snapml.solvers.dual_ascent import dual_coordinate_ascent
from snapml.solvers.dual_ascent.host_dual_engine import dual_engine
from snapml.solvers.dual_ascent.rounding import is_coarse, level_of
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["solve"]

# Entries up to which a copy of the rows in double precision is no burden: 200 MB.
_MOST_ENTRIES = 2**24


def solve(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
    *,
    patience: float = math.inf,
    judged_from: int = 0,
) -> FitResult:
    """Run coordinate ascent on the host, in double precision where that alone goes on.

    Parameters
    ----------
    problem : Problem
        Loss and intercept, with an L2 penalty of strength 1.
    dataset : Dataset
        Rows in memory or a store.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most epochs.
    settings : Settings
        Threads and seed.
    start : Start
        Dual states to begin from, if it has any.
    patience, judged_from
        As of `dual_coordinate_ascent.solve`.

    Returns
    -------
    FitResult
        In the data's dtype, certified as it is.
    """
    engine = dual_engine(problem, dataset, settings, start)
    level = level_of(dataset) if _has_room(problem, dataset, communicator) else 0.0
    first = dual_coordinate_ascent.solve(
        engine, communicator, rule, patience=patience, judged_from=judged_from, ends_at=level
    )
    if first.has_converged or rule.control.reason or first.n_iter in (0, rule.max_iter):
        return first
    if first.history[-1]["running_gap"] > level:
        return first
    rest = replace(rule, tol=0.5 * rule.tol, max_iter=rule.max_iter - first.n_iter)
    wide = _in_double(dataset)
    second = dual_coordinate_ascent.solve(
        dual_engine(problem, wide, settings, Start(duals=first.duals)),
        communicator,
        rest,
        patience=patience,
        judged_from=judged_from,
    )
    reason = f"after {first.n_iter} epochs in single precision, by double precision"
    both = joined(first, second, reason)
    engine.shared[:] = both.point(engine.tau)[0]
    engine.duals[:] = second.duals
    rounded = dual_coordinate_ascent.judge(engine, communicator, rule)
    gap = joined(both, rounded, reason).gap
    return replace(
        both,
        coef=rounded.coef,
        intercept=rounded.intercept,
        duals=engine.duals,
        objective=rounded.objective,
        gap=gap,
        has_converged=rule.is_met(gap, rounded.objective),
        is_rounded=second.has_converged,
    )


def _has_room(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether rounding may end ascent in single precision, and rows may be copied."""
    may_end = is_coarse(problem.loss, dataset.matrix.dtype)
    is_here = communicator.size == 1 and not isinstance(dataset.matrix, ChunkedMatrix)
    # The multiplier of a free intercept is not what the other precision's was.
    is_settled = problem.intercept is not Intercept.FREE
    return may_end and is_here and is_settled and dataset.matrix.n_stored <= _MOST_ENTRIES


def _in_double(dataset: Dataset) -> Dataset:
    """Return a copy of the rows, labels and weights in float64."""
    weights = dataset.row_weights
    return replace(
        dataset,
        matrix=_wide_matrix(dataset.matrix),
        labels=dataset.labels.astype(np.float64),
        row_weights=None if weights is None else weights.astype(np.float64),
    )


def _wide_matrix(matrix: Matrix) -> Matrix:
    if isinstance(matrix, CompressedMatrix):
        values = None if matrix.values is None else matrix.values.astype(np.float64)
        return replace(matrix, values=values, dtype=np.dtype(np.float64))
    assert isinstance(matrix, DenseMatrix)  # all that has room
    return DenseMatrix(matrix.values.astype(np.float64))
