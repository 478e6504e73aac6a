"""The quasi-Newton method on rows that stay in the cache: a fit in one call of the extension.

On few rows the arithmetic of a step takes microseconds, and everything around it is what a fit
costs. What does not go well here is left to the method for many rows.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from snapml import _native
from snapml.data import CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.problems import Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.newton.curvature import HOT_COLUMNS
from snapml.solvers.range_checks import check_range
from snapml.solvers.result import FitResult
from snapml.solvers.rows.cpu_rows import native_rows
from snapml.solvers.stopping import StoppingRule, history_of, in_one_call
from snapml.solvers.threads import resolve_n_threads

__all__ = [
    "MOST_PASSES",
    "SPARSER",
    "count_kept",
    "is_small",
    "may_finish",
    "solve",
    "suits",
]

# Entries, those of the intercept's column among them, that stay in a core's cache in float64; and
# columns, and coefficients of all classes, of which a Hessian still takes milliseconds.
_MOST_ENTRIES, _MOST_COLUMNS, _MOST_COEFS = 200_000, 512, 700
SPARSER = 5
"""Numbers an entry that make rows sparse: kSparser of native/small/design.hpp."""
# Times as many numbers of whole rows, which are read fast and whose Hessians are; and where there
# are at most so many rows a column, so that a sample of them would save little.
_TIMES_NUMBERS, _TIMES_SHORT, _ROWS_A_COLUMN = 2.5, 5.0, 128
# Under an L1 norm most sweeps read few columns: times as many entries, and numbers of whole rows,
# unless the loss is quadratic, whose other solver needs no copy. Vectors over the columns are to
# stay in the cache.
_TIMES_L1_ENTRIES, _TIMES_L1_NUMBERS, _MOST_SPARSE_COLUMNS = 2.0, 4.0, 1 << 16
# Sparse columns that may be factored all, and how many rows a column there are at least.
_MOST_FACTORED, _ROWS_OF_FACTOR = 2048, 4
MOST_PASSES = 200
"""They suffice where this method does well; where they do not, another does better."""


def suits(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
) -> bool:
    """Return whether a problem is small and smooth, and its solver's state is of no interest.

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
    is_one = dataset.labels.ndim == 1 and settings.is_for_one_call(communicator, rule.observer)
    return is_one and is_small(problem, dataset.matrix, dataset.matrix.shape[0])


def is_small(problem: Problem, matrix: Matrix, n_rows: int) -> bool:
    """Return whether so many rows of a matrix are a small problem, with one label each.

    Parameters
    ----------
    problem : Problem
        What to solve.
    matrix : Matrix
        The rows.
    n_rows : int
        How many of them.

    Returns
    -------
    bool
        Whether loss, penalty and layout are of this method's kind, and the numbers small enough.
    """
    penalty = problem.penalty
    is_plain = not (penalty.is_none or penalty.is_positive or penalty.bounds is not None)
    if not is_plain or not problem.loss.is_smooth:
        return False
    if problem.loss.is_joint and not penalty.is_smooth:
        return False
    if not isinstance(matrix, DenseMatrix | CompressedMatrix):
        return False
    n_columns = matrix.shape[1]
    n_coefs = problem.n_outputs((n_rows,)) * (n_columns + 1)
    if penalty.is_smooth and (n_columns > _MOST_COLUMNS or n_coefs > _MOST_COEFS):
        return False
    if n_columns > _MOST_SPARSE_COLUMNS:
        return False
    n_numbers = float(n_rows * (n_columns + 1))
    if isinstance(matrix, CompressedMatrix):
        n_kept = count_kept(matrix, n_rows)
        if n_kept < n_numbers:
            times = 1.0 if _is_by_rows(problem) else _TIMES_L1_ENTRIES
            return 0 < n_kept <= times * _MOST_ENTRIES
    return 0 < n_numbers <= _times_numbers(problem, n_rows, n_columns) * _MOST_ENTRIES


def may_finish(problem: Problem, n_rows: int, n_columns: int) -> bool:
    """Return whether what products with the Hessian have begun may end with factors of all of it.

    Parameters
    ----------
    problem : Problem
        What to solve, of one output.
    n_rows, n_columns : int
        Of sparse rows in memory.

    Returns
    -------
    bool
        Where columns are more than have been factored at once, few enough for a factor to take a
        fraction of a second, and rows so many that one step sees nearly the same as the next. A
        quadratic loss has methods of its own.
    """
    is_plain = problem.penalty.is_smooth and problem.penalty.l2 > 0.0
    is_plain = is_plain and not problem.loss.is_quadratic and not problem.loss.is_joint
    is_tall = n_rows >= _ROWS_OF_FACTOR * n_columns
    return is_plain and is_tall and HOT_COLUMNS < n_columns <= _MOST_FACTORED


def count_kept(matrix: CompressedMatrix, n_rows: int) -> float:
    """Return how many numbers of some compressed rows the compiled methods keep.

    Parameters
    ----------
    matrix : CompressedMatrix
        The rows.
    n_rows : int
        How many of them.

    Returns
    -------
    float
        Their entries, or those of whole rows where they are not sparse enough, with the
        intercept's.
    """
    n_numbers = float(n_rows * (matrix.shape[1] + 1))
    n_entries = n_rows * (1.0 + matrix.n_stored / max(1, matrix.shape[0]))
    return n_entries if SPARSER * n_entries < n_numbers else n_numbers


def _is_by_rows(problem: Problem) -> bool:
    """Return whether sweeps over few columns are no part of a step."""
    return problem.penalty.is_smooth or problem.loss.is_quadratic


def _times_numbers(problem: Problem, n_rows: int, n_columns: int) -> float:
    if not _is_by_rows(problem):
        return _TIMES_L1_NUMBERS
    if not problem.penalty.is_smooth:
        return 1.0
    return _TIMES_SHORT if n_rows <= _ROWS_A_COLUMN * n_columns else _TIMES_NUMBERS


def solve(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult | None:
    """Minimise, and certify.

    Parameters
    ----------
    problem, dataset, communicator, rule, settings
        What `suits`.
    start : Start
        Where to begin.

    Returns
    -------
    FitResult or None
        None where the tolerance was not met: by the method's own fault, or since the data are such
        that nothing meets it.
    """
    resolve_n_threads(settings.n_threads, 0)  # what is no number of threads is refused here too
    run = partial(_run, problem, dataset, rule, start)
    shape = problem.n_outputs(dataset.labels.shape), dataset.matrix.shape[1]
    return in_one_call(run, problem, shape, _most_passes(problem), communicator, rule)


def _run(
    problem: Problem,
    dataset: Dataset,
    rule: StoppingRule,
    start: Start,
    n_entries: int,
    coefs: np.ndarray | None,
) -> FitResult:
    """Return the model after at most so many entries of the history; `coefs` gets those of each."""
    matrix, bias = dataset.matrix, problem.bias_column
    n_columns, n_outputs = matrix.shape[1] + (1 if bias else 0), problem.n_outputs((0,))
    point = np.zeros((n_outputs, n_columns))
    if start.coef is not None:
        point[:] = start.coef[:, :n_columns]
    points = None if coefs is None else np.zeros((n_entries, n_outputs, n_columns))
    history = np.empty((n_entries, 4))
    is_solved, n_passes, n_seen, objective, bound, rounded, stiffness = _native.small_newton(
        native_rows(matrix, _native.ThreadPool(1)),
        problem.loss.core_name,
        n_outputs if problem.loss.is_joint else 0,
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
        min(_most_passes(problem), rule.max_iter + 1),
        point,
        history,
        points,
    )
    if coefs is not None:
        coefs[:, :, :n_columns] = points
    if is_solved:
        check_range(stiffness, matrix.dtype)
    gap = certified_gap(rounded, bound)
    is_met = rule.is_met_rounded(gap, certified_gap(objective, bound), rounded)
    coef = point[:, : matrix.shape[1]].astype(matrix.dtype)
    intercept = np.zeros(n_outputs)
    if bias:
        intercept = bias * point[:, -1].astype(matrix.dtype).astype(np.float64)
    return FitResult(
        coef=coef if problem.loss.is_joint else coef[0],
        intercept=intercept if problem.loss.is_joint else float(intercept[0]),
        duals=None,
        offset=0.0,
        n_iter=n_passes - 1,
        has_converged=is_solved and is_met,
        gap=gap,
        objective=rounded,
        history=history_of(history[:n_seen]),
        mean_stiffness=stiffness / matrix.shape[0],
        description=f"quasi-Newton in one call, curvature from {matrix.shape[0]} rows, 1 thread",
    )


def _most_passes(problem: Problem) -> int:
    """Return how many passes are worth it; under an L1 norm most of a step is no pass."""
    return MOST_PASSES if problem.penalty.is_smooth else 2 * MOST_PASSES
