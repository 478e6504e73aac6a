"""Losses with corners on rows that stay in the cache: the interior point method in one call.

On few rows the arithmetic of a step takes microseconds, and everything around it is what a fit
costs. What does not go well here is left to the methods for many rows.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from snapml import _native
from snapml.data import CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.problems import Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.cpu_formulas import loss_quantity
from snapml.solvers.fit_settings import Settings
from snapml.solvers.newton import small_newton
from snapml.solvers.range_checks import check_range
from snapml.solvers.result import FitResult
from snapml.solvers.rows.cpu_rows import native_rows
from snapml.solvers.stopping import StoppingRule, in_one_call
from snapml.solvers.threads import resolve_n_threads

__all__ = ["is_small", "solve", "step_work", "suits"]

# Entries, those of the intercept's column among them, up to which a step in one call is quicker
# than one by another method; columns of which a factor still takes milliseconds; and those that
# may be more than the rows.
_MOST_ENTRIES, _MOST_COLUMNS, _FEW_COLUMNS = 500_000, 512, 64
# So many times as many of dense rows, where a column has so many rows at most: a continuation of
# smoothed hinges, the other way, reads these hundreds of times.
_SHORT_TIMES, _SHORT_ROWS = 2, 64
# In products of dense numbers: what each row takes beside them, and a product of sparse entries.
_PRODUCTS_A_ROW, _PRODUCTS_AN_ENTRY = 400.0, 6.0
# More steps than the method ever needs where it does well.
_MOST_LOOKS = 200


def suits(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
) -> bool:
    """Return whether a problem is small and its loss has corners, and nobody keeps states.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows, labels and weights.
    communicator : Communicator
        The other shards: there must be none.
    rule : StoppingRule
        Who looks on. One who keeps states for a restart, or measures phases, sees none here.
    settings : Settings
        Which solver is asked for, and where.

    Returns
    -------
    bool
        Whether `solve` can be tried.
    """
    is_one = dataset.labels.ndim == 1
    is_free = settings.is_for_one_call(communicator, rule.observer)
    return is_one and is_free and is_small(problem, dataset.matrix)


def is_small(problem: Problem, matrix: Matrix) -> bool:
    """Return whether rows are a small problem for a loss with corners, with one label each.

    Parameters
    ----------
    problem : Problem
        What to solve.
    matrix : Matrix
        The rows.

    Returns
    -------
    bool
        Whether loss, penalty and layout are of this method's kind, and the numbers small enough.
    """
    penalty = problem.penalty
    is_plain = not (penalty.is_none or penalty.is_positive or penalty.bounds is not None)
    if not is_plain or problem.loss.n_corners == 0:
        return False
    n_rows, n_columns = matrix.shape
    if n_columns > min(max(n_rows, _FEW_COLUMNS), _MOST_COLUMNS):
        return False
    if isinstance(matrix, CompressedMatrix):
        return small_newton.count_kept(matrix, n_rows) <= _MOST_ENTRIES
    is_short = problem.loss.smoothed is not None and n_rows <= _SHORT_ROWS * n_columns
    most = (_SHORT_TIMES if is_short else 1) * _MOST_ENTRIES
    return isinstance(matrix, DenseMatrix) and n_rows * (n_columns + 1) <= most


def step_work(matrix: Matrix) -> float:
    """Return what a step costs, in products of dense numbers.

    Parameters
    ----------
    matrix : Matrix
        The rows.

    Returns
    -------
    float
        Those of a Gram matrix and its factor, and what each row takes beside them.
    """
    n_rows, n_columns = matrix.shape
    numbers = float(n_columns + 1)
    gram = 0.5 * n_rows * numbers**2
    if isinstance(matrix, CompressedMatrix):
        n_kept = small_newton.count_kept(matrix, n_rows)
        if n_kept < n_rows * numbers:
            gram = 0.5 * _PRODUCTS_AN_ENTRY * n_kept**2 / max(1, n_rows)
    return gram + numbers**3 / 6.0 + _PRODUCTS_A_ROW * n_rows


def solve(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
) -> FitResult | None:
    """Minimise, and certify.

    Parameters
    ----------
    problem, dataset, communicator, rule, settings
        What `suits`.

    Returns
    -------
    FitResult or None
        None where the tolerance was not met.
    """
    resolve_n_threads(settings.n_threads, 0)  # what is no number of threads is refused here too
    run, shape = partial(_run, problem, dataset, rule), (1, dataset.matrix.shape[1])
    return in_one_call(run, problem, shape, _MOST_LOOKS, communicator, rule)


def _run(
    problem: Problem,
    dataset: Dataset,
    rule: StoppingRule,
    most_looks: int,
    coefs: np.ndarray | None,
) -> FitResult:
    """Return the model after at most so many looks; `coefs` gets the coefficients at each."""
    matrix, bias = dataset.matrix, problem.bias_column
    n_rows, n_features = matrix.shape
    n_columns = n_features + (1 if bias else 0)
    coef, slopes = np.zeros(n_columns), np.zeros(n_rows)
    points = None if coefs is None else np.zeros((most_looks, n_columns))
    looks = np.empty((most_looks, 3))
    is_solved, n_looks, objective, bound, stiffness = _native.small_interior_point(
        native_rows(matrix, _native.ThreadPool(1)),
        problem.loss.core_name,
        dataset.labels,
        dataset.row_weights,
        dataset.weight,
        dataset.offsets,
        problem.penalty.l1,
        problem.penalty.l2,
        problem.intercept.value,
        bias,
        rule.tol,
        rule.floor,
        coef,
        slopes,
        looks,
        points,
    )
    if coefs is not None and points is not None:
        coefs[:, 0, :n_columns] = points
    if is_solved:
        check_range(stiffness, matrix.dtype)
    gap = certified_gap(objective, bound)
    return FitResult(
        coef=coef[:n_features].astype(matrix.dtype),
        intercept=bias * float(coef[-1]) if bias else 0.0,
        duals=_states(problem, dataset, slopes),
        offset=0.0,
        n_iter=n_looks - 1,
        has_converged=is_solved and rule.is_met(gap, objective),
        gap=gap,
        objective=objective,
        history=_history(looks[:n_looks]),
        mean_stiffness=stiffness / max(1, n_rows),
        description="interior point method in one call, 1 thread",
    )


def _states(problem: Problem, dataset: Dataset, slopes: np.ndarray) -> np.ndarray:
    """Return the dual variables as their loss keeps them: in proportion to beta over c."""
    ones = np.ones(len(slopes))
    unit = loss_quantity(problem.loss, "dual", ones, dataset.labels.astype(np.float64))
    return np.asarray((0.0 - slopes / unit).astype(dataset.labels.dtype))


def _history(looks: np.ndarray) -> list[dict[str, float]]:
    """Return what each step has led to; the last one alone is certified."""
    history = [
        {"epoch": epoch, "time_s": time_s, "running_gap": gap, "gap": np.nan, "objective": np.nan}
        for epoch, (time_s, gap, _) in enumerate(looks.tolist())
    ]
    history[-1].update(gap=float(looks[-1, 1]), objective=float(looks[-1, 2]))
    return history
