"""Many small problems in one call: one for each group of rows, or for each of many penalties.

What stands around a fit takes longer than a fit of few rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapml import _native
from snapml.data import Dataset, Matrix
from snapml.problems import Penalty, Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.newton.small_newton import MOST_PASSES, is_small
from snapml.solvers.range_checks import check_range
from snapml.solvers.result import FitResult
from snapml.solvers.rows.cpu_rows import checked_rows, native_rows
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import resolve_n_threads

__all__ = ["GroupResults", "solve_groups", "solve_path", "suits_groups"]


class GroupResults(NamedTuple):
    """The models of groups, or of penalties, and what is certain about them.

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
    mean_stiffness : ndarray of shape (n_groups,), float64
        Sum of c_i ||x_i||^2 over the number of rows of all.
    """

    coef: np.ndarray
    intercept: np.ndarray
    gap: np.ndarray
    objective: np.ndarray
    time_s: np.ndarray
    n_iter: np.ndarray
    has_converged: np.ndarray
    mean_stiffness: np.ndarray

    def result(self, number: int, description: str) -> FitResult:
        """Return one of them as a fit by itself returns it; its history has the end alone.

        Parameters
        ----------
        number : int
            Which.
        description : str
            What was run.

        Returns
        -------
        FitResult
            With its own copy of the coefficients.
        """
        gap, objective = float(self.gap[number]), float(self.objective[number])
        entry = {
            "epoch": int(self.n_iter[number]),
            "time_s": float(self.time_s[number]),
            "running_gap": gap,
            "gap": gap,
            "objective": objective,
        }
        return FitResult(
            coef=self.coef[number].copy(),
            intercept=float(self.intercept[number]),
            duals=None,
            offset=0.0,
            n_iter=int(self.n_iter[number]),
            has_converged=bool(self.has_converged[number]),
            gap=gap,
            objective=objective,
            history=[entry],
            mean_stiffness=float(self.mean_stiffness[number]),
            description=description,
        )


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
    is_one = dataset.labels.ndim == 1 and not problem.loss.is_joint
    if not is_one or dataset.offsets is not None or len(bounds) < 2:
        return False
    return is_small(problem, dataset.matrix, int(np.diff(bounds).max()))


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
    return _results(points, facts, matrix, bias, rule)


def solve_path(
    problem: Problem,
    penalties: list[Penalty],
    dataset: Dataset,
    rule: StoppingRule,
    start: np.ndarray | None = None,
    n_threads: int | None = None,
) -> GroupResults:
    """Minimise with one penalty after the other, each from the last one's model.

    Parameters
    ----------
    problem : Problem
        Loss and intercept, of one output.
    penalties : list of Penalty
        With each of which the problem is a small one (`small_newton.is_small`).
    dataset : Dataset
        Rows, labels and weights.
    rule : StoppingRule
        Tolerance and most reads of the rows, of each fit.
    start : ndarray of shape (n_features + 1,), float64, or None, default=None
        Coefficients to start from.
    n_threads : int or None, default=None
        Refused where it is no number of threads; one is used.

    Returns
    -------
    GroupResults
        In the order of the penalties.
    """
    resolve_n_threads(n_threads, 0)
    matrix, bias = dataset.matrix, problem.bias_column
    pool = _native.ThreadPool(1)
    points = np.zeros((len(penalties), matrix.shape[1] + (1 if bias else 0)))
    if start is not None:
        points[0] = start[: points.shape[1]]
    facts = np.zeros((len(penalties), 7))
    _native.small_newton_path(
        native_rows(matrix, pool),
        problem.loss.core_name,
        dataset.labels,
        dataset.row_weights,
        dataset.weight,
        dataset.offsets,
        np.array([each.l1 for each in penalties]),
        np.array([each.l2 for each in penalties]),
        problem.intercept.value,
        bias,
        rule.tol,
        min(MOST_PASSES, rule.max_iter + 1),
        points,
        facts,
    )
    return _results(points, facts, matrix, bias, rule)


def _results(
    points: np.ndarray, facts: np.ndarray, matrix: Matrix, bias: float, rule: StoppingRule
) -> GroupResults:
    """Return what the extension has found, rounded as a model is."""
    is_solved, n_passes, time_s, _, _, rounded, stiffness = facts.T
    check_range(float(stiffness.max(initial=0.0, where=is_solved > 0)), matrix.dtype)
    judged = []
    for found, bound, own in facts[:, 3:6].tolist():
        gap = certified_gap(own, bound)
        judged.append((gap, rule.is_met_rounded(gap, certified_gap(found, bound), own)))
    intercept, n_columns = np.zeros(len(points)), matrix.shape[1]
    if bias:
        intercept = bias * points[:, -1].astype(matrix.dtype).astype(np.float64)
    return GroupResults(
        coef=points[:, :n_columns].astype(matrix.dtype),
        intercept=intercept,
        gap=np.array([gap for gap, _ in judged]),
        objective=rounded,
        time_s=time_s,
        n_iter=n_passes.astype(np.int64) - 1,
        has_converged=(is_solved > 0) & np.array([is_met for _, is_met in judged]),
        mean_stiffness=stiffness / max(1, matrix.shape[0]),
    )
