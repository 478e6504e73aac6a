"""Least squares with an L1 penalty on sums over rows, certified by one more read of them.

Of few columns the sums say all that coordinate descent needs; the rows are read once for them, and
once for the certificates of all models. docs/algorithms.md, section 13.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Penalty, Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.fit_settings import Settings
from snapml.solvers.least_squares import compiled_sums, summed_starts
from snapml.solvers.least_squares.summed_starts import Summed
from snapml.solvers.range_checks import check_range
from snapml.solvers.result import FitResult, StartModel
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import resolve_n_threads

__all__ = ["solve", "suits"]

# Entries from which steps of one fit on a copy of the rows take longer than what surrounds the
# sums; several fits share these.
_LEAST_ENTRIES = 45_000


def suits(
    problem: Problem,
    penalties: Sequence[Penalty],
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
) -> bool:
    """Return whether sums over the rows are the way to models, and nobody looks on.

    Parameters
    ----------
    problem : Problem
        What to solve, whatever its penalty.
    penalties : sequence of Penalty
        One model each.
    dataset : Dataset
        Rows, labels and weights.
    communicator : Communicator
        The other shards: there must be none.
    rule : StoppingRule
        Bounds of each fit, and who looks on.
    settings : Settings
        Which solver is asked for, and where.

    Returns
    -------
    bool
        Whether `solve` can be tried.
    """
    matrix = dataset.matrix
    is_watched = rule.control.is_active or rule.verbose > 0
    if not settings.is_for_one_call(communicator, rule.observer) or is_watched:
        return False
    if rule.max_iter < 1 or dataset.labels.ndim != 1:
        return False
    if not isinstance(matrix, DenseMatrix | CompressedMatrix):
        return False
    if len(penalties) == 1 and matrix.n_stored < _LEAST_ENTRIES:
        return False
    has_norms = all(each.l1 > 0.0 for each in penalties)
    return has_norms and summed_starts.suits(problem, matrix, len(penalties))


def solve(
    problem: Problem,
    penalties: Sequence[Penalty],
    dataset: Dataset,
    rule: StoppingRule,
    start: FitResult | StartModel | None = None,
    n_threads: int | None = None,
) -> list[FitResult] | None:
    """Minimise with one penalty after the other, and certify all models.

    Parameters
    ----------
    problem, penalties, dataset, rule
        What `suits`; penalties from strong to weak.
    start : FitResult, StartModel or None, default=None
        Model to start from.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, one on small data.

    Returns
    -------
    list of FitResult or None
        One for each penalty; None where one does not meet its tolerance so, or numbers overflow.
    """
    began = time.perf_counter()
    summed = summed_starts.summed(problem, dataset, n_threads)
    if summed is None:
        return None
    models = summed_starts.models(summed, penalties, rule.tol, start)
    if models is None:
        return None
    dtype = dataset.matrix.dtype
    wide = np.array([model.coef for model in models])
    coef = wide.astype(dtype)
    # P is that of the rounded model; the bound may be that of the model as it was found.
    points = wide if dtype == np.float64 else np.concatenate([coef.astype(np.float64), wide])
    n_used = resolve_n_threads(n_threads, dataset.matrix.n_stored)
    facts = _certified(problem, penalties, dataset, summed, points, n_used)
    stiffness = summed.scale * summed.squares
    check_range(stiffness, dtype)
    has_intercept = problem.intercept is Intercept.FREE
    threads = "1 thread" if n_used == 1 else f"{n_used} threads"
    results: list[FitResult] = []
    for own, one, found in zip(coef, facts, facts[-len(coef) :], strict=False):
        objective, bound = found.tolist()[:2]
        before, gap = certified_gap(objective, bound), certified_gap(float(one[0]), bound)
        is_met = rule.is_met(before, objective) and rule.is_met_rounded(gap, before, float(one[0]))
        if not is_met:
            return None
        intercept = summed.intercept(own, float(one[2])) if has_intercept else 0.0
        entry = {"epoch": 1, "time_s": time.perf_counter() - began, "running_gap": gap}
        results.append(
            FitResult(
                coef=own,
                intercept=intercept,
                duals=None,
                offset=0.0,
                n_iter=1,
                has_converged=True,
                gap=gap,
                objective=float(one[0]),
                history=[entry | {"gap": gap, "objective": float(one[0])}],
                mean_stiffness=stiffness / dataset.matrix.shape[0],
                description=f"sums over the rows, {threads}: columns are few",
            )
        )
    return results


def _certified(
    problem: Problem,
    penalties: Sequence[Penalty],
    dataset: Dataset,
    summed: Summed,
    points: np.ndarray,
    n_threads: int,
) -> np.ndarray:
    """Return P of each point, a lower bound of its minimum, and the sum of its residuals."""
    own = [Penalty(p.l1 / summed.scale, p.l2 / summed.scale, p.is_positive) for p in penalties]
    facts = compiled_sums.certified(
        dataset,
        summed.targets,
        summed.center,
        problem.intercept is Intercept.FREE,
        points,
        own * (len(points) // len(own)),
        n_threads,
    )
    facts[:, :2] *= summed.scale
    return facts
