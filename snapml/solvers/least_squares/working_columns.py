"""Least squares with an L1 penalty on dense rows, by working sets of columns, in one call.

Each read of the rows certifies a point, and shows which columns its model lacks; in between the
model is minimised on the Gram matrix of the columns chosen so far. docs/algorithms.md, section 13.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from snapml import _native
from snapml.data import Dataset, DenseMatrix
from snapml.problems import Intercept, Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.fit_settings import Settings
from snapml.solvers.range_checks import check_range
from snapml.solvers.result import FitResult, StartModel
from snapml.solvers.rows.cpu_rows import native_rows
from snapml.solvers.stopping import StoppingRule, history_of, in_one_call
from snapml.solvers.threads import resolve_n_threads

__all__ = ["solve", "suits"]

# Columns up to which products of all cost no more than reads of the rows for each set of them; and
# entries of rows that stay in a cache, where neither takes time.
_FEW_COLUMNS, _SMALL = 64, 45_000
# Points on the way; and rows or columns, whichever are fewer, whose Gram matrix has room.
_MOST_LOOKS, _MOST_NEEDED = 100, 6000


def suits(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
) -> bool:
    """Return whether sets of columns are the way to one model.

    Parameters
    ----------
    problem : Problem
        With its penalty.
    dataset, communicator, rule, settings
        As of `summed_fits.suits`.

    Returns
    -------
    bool
        Whether `solve` can be tried.
    """
    penalty, matrix = problem.penalty, dataset.matrix
    if not settings.is_for_one_call(communicator, rule.observer):
        return False
    if not problem.loss.is_quadratic or problem.intercept is Intercept.PENALISED:
        return False
    if penalty.bounds is not None or not penalty.l1 > 0.0 or dataset.labels.ndim != 1:
        return False
    if not isinstance(matrix, DenseMatrix) or 0 in matrix.shape:
        return False
    is_small = matrix.n_stored <= _SMALL
    has_rows = matrix.shape[1] == 1 or matrix.values.strides[1] == matrix.dtype.itemsize
    has_room = min(matrix.shape) <= _MOST_NEEDED
    return has_rows and has_room and (is_small or matrix.shape[1] > _FEW_COLUMNS)


def solve(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: FitResult | StartModel | None = None,
) -> FitResult | None:
    """Minimise with one penalty.

    Parameters
    ----------
    problem, dataset, communicator, rule, settings
        What `suits`.
    start : FitResult, StartModel or None, default=None
        Model to start from.

    Returns
    -------
    FitResult or None
        None where the tolerance was not met so, or numbers are not finite, or so far from zero that
        rows would have to be centred.
    """
    run = partial(_run, problem, dataset, rule, settings.n_threads, start)
    shape = 1, dataset.matrix.shape[1]
    return in_one_call(run, problem, shape, _MOST_LOOKS, communicator, rule)


def _run(
    problem: Problem,
    dataset: Dataset,
    rule: StoppingRule,
    n_threads: int | None,
    start: FitResult | StartModel | None,
    most_looks: int,
    coefs: np.ndarray | None,
) -> FitResult:
    """Return the model after at most so many looks; `coefs` gets the coefficients at each."""
    matrix, dtype = dataset.matrix, dataset.matrix.dtype
    n_used = resolve_n_threads(n_threads, matrix.n_stored)
    pool, weights = _native.ThreadPool(n_used), dataset.row_weights
    targets = dataset.labels.astype(np.float64)
    if dataset.offsets is not None:
        targets = targets - dataset.offsets
    scale = dataset.weight if weights is None else 1.0
    coef, looks = np.zeros(matrix.shape[1]), np.zeros((most_looks, 4))
    if start is not None:
        coef[:] = np.ravel(start.coef)
    is_solved, n_looks, objective, bound, intercept, stiffness = _native.elastic_net_on_rows(
        pool,
        native_rows(matrix, pool),
        targets,
        None if weights is None else np.ascontiguousarray(weights, dtype=np.float64),
        problem.intercept is Intercept.FREE,
        problem.penalty.l1 / scale,
        problem.penalty.l2 / scale,
        problem.penalty.is_positive,
        rule.tol,
        coef,
        looks,
        None if coefs is None else coefs[:, 0],
    )
    objective, bound, stiffness = scale * objective, scale * bound, scale * stiffness
    if is_solved:
        check_range(stiffness, dtype)
    gap, before = certified_gap(objective, bound), math.inf
    looks[:, 1:] *= scale
    if n_looks > 0:  # the last one becomes that of the model, rounded as it is
        before = certified_gap(float(looks[n_looks - 1, 3]), bound)
        looks[n_looks - 1, 1:] = gap, gap, objective
    threads = "1 thread" if n_used == 1 else f"{n_used} threads"
    return FitResult(
        coef=coef.astype(dtype),
        intercept=intercept,
        duals=None,
        offset=0.0,
        n_iter=n_looks - 1,
        has_converged=is_solved and rule.is_met_rounded(gap, before, objective),
        gap=gap,
        objective=objective,
        history=history_of(looks[:n_looks]),
        mean_stiffness=stiffness / matrix.shape[0],
        description=f"working sets of columns in one call, {threads}",
    )
