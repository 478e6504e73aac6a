"""Many small problems at once: one for each group of neighbouring rows, in one call.

What stands around a fit takes longer than a fit of few rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapml import _native
from snapml.data import Dataset
from snapml.problems import Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.newton.small_newton import MOST_PASSES, is_small
from snapml.solvers.range_checks import check_range
from snapml.solvers.rows.cpu_rows import checked_rows
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import resolve_n_threads

__all__ = ["GroupResults", "solve_groups", "suits_groups"]


class GroupResults(NamedTuple):
    """The models of groups, and what is certain about them.

    Attributes
    ----------
    coef : ndarray of shape (n_groups, n_features), the rows' dtype
        w.
    intercept : ndarray of shape (n_groups,), float64
        b.
    gap, objective, time_s : ndarray of shape (n_groups,), float64
        Certified gap, P, and seconds of each fit.
    n_iter : ndarray of shape (n_groups,), int64
        Reads of the rows beyond the first.
    has_converged : ndarray of shape (n_groups,), bool
        Whether the gap met the tolerance: if not, nothing else here is of use.
    """

    coef: np.ndarray
    intercept: np.ndarray
    gap: np.ndarray
    objective: np.ndarray
    time_s: np.ndarray
    n_iter: np.ndarray
    has_converged: np.ndarray


def suits_groups(problem: Problem, dataset: Dataset, bounds: np.ndarray) -> bool:
    """Return whether each group is a small problem of one output, without offsets.

    Parameters
    ----------
    problem : Problem
        What to solve for each.
    dataset : Dataset
        The rows of all.
    bounds : ndarray of shape (n_groups + 1,), int64
        Where each begins, and the last ends.

    Returns
    -------
    bool
        Whether `solve_groups` can be tried.
    """
    if problem.loss.is_joint or dataset.offsets is not None or len(bounds) < 2:
        return False
    return is_small(problem, dataset, int(np.diff(bounds).max()))


def solve_groups(
    problem: Problem,
    dataset: Dataset,
    bounds: np.ndarray,
    rule: StoppingRule,
    n_threads: int | None = None,
) -> GroupResults:
    """Minimise the problem of each group.

    Parameters
    ----------
    problem, dataset, bounds
        What `suits_groups`; no group is empty.
    rule : StoppingRule
        Tolerance and most reads of the rows, of each group.
    n_threads : int or None, default=None
        Threads, each with a group at a time; None means all available.

    Returns
    -------
    GroupResults
        In the order of the groups.

    Raises
    ------
    NonFiniteError
        If the matrix holds NaN or infinity.
    """
    matrix, bias = dataset.matrix, problem.bias_column
    n_groups, n_columns = len(bounds) - 1, matrix.shape[1]
    pool = _native.ThreadPool(resolve_n_threads(n_threads, matrix.n_stored))
    rows, _, _ = checked_rows(matrix, pool, None, dataset.row_weights)
    points = np.zeros((n_groups, n_columns + (1 if bias else 0)))
    facts = np.empty((n_groups, 7))
    _native.small_newton_groups(
        pool,
        rows,
        problem.loss.core_name,
        np.ascontiguousarray(bounds, dtype=np.int64),
        dataset.labels,
        dataset.row_weights,
        dataset.weight,
        problem.penalty.l1,
        problem.penalty.l2,
        problem.intercept.value,
        bias,
        rule.tol,
        min(MOST_PASSES, rule.max_iter + 1),
        points,
        facts,
    )
    is_solved, n_passes, time_s, objective, bound, rounded, stiffness = facts.T
    check_range(float(stiffness.max(initial=0.0, where=is_solved > 0)), matrix.dtype)
    gap = np.array([certified_gap(*each) for each in zip(objective, bound, strict=True)])
    of_rounded = np.array([certified_gap(*each) for each in zip(rounded, bound, strict=True)])
    allowed = np.maximum(gap, max(rule.tol, rule.resolution) * np.abs(rounded))
    intercept = np.zeros(n_groups)
    if bias:
        intercept = bias * points[:, -1].astype(matrix.dtype).astype(np.float64)
    return GroupResults(
        coef=points[:, :n_columns].astype(matrix.dtype),
        intercept=intercept,
        gap=of_rounded,
        objective=rounded,
        time_s=time_s,
        n_iter=n_passes.astype(np.int64) - 1,
        has_converged=(is_solved > 0) & (of_rounded <= allowed),
    )
