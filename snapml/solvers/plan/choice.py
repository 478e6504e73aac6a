"""Which solver for which data: ``solver="auto"`` and the names that ask for one.

The rules follow what was measured (benchmarks/results/second_order_summary.csv); each gives its
reason, which ends up in the estimator's ``solver_``. docs/algorithms.md, section 10.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from snapml.data import ChunkedMatrix, Dataset, DenseMatrix
from snapml.problems import Penalty, Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.columns.cpu_column_engine import CpuColumnEngine
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim, among_outputs
from snapml.solvers.dual_ascent import dual_coordinate_ascent, softmax_ascent
from snapml.solvers.dual_ascent.host_dual_engine import dual_engine
from snapml.solvers.dual_ascent.softmax_duals import SoftmaxDuals
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.interior_point import working_rows
from snapml.solvers.newton import quasi_newton, small_groups, small_newton, smoothed_hinge
from snapml.solvers.newton.curvature import MOST_DENSE_COLUMNS, MOST_JOINT_COLUMNS
from snapml.solvers.newton.row_space import RowSpace
from snapml.solvers.plan import device_choice, out_of_core, support
from snapml.solvers.plan.support import is_streamed
from snapml.solvers.plan.unit_strength import UnitStrength
from snapml.solvers.plan.used_columns import UsedColumns, find_used
from snapml.solvers.result import FitResult, StartModel, stack_outputs
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.cpu_rows import squared_norms
from snapml.solvers.rows.streaming_engine import primal_engine
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import limit_blas_threads
from snapml.solvers.working_sets import multinomial_descent, working_set_descent

__all__ = ["fit", "fit_sequence", "small_path"]

# Up to here a Hessian of sampled rows costs no more than a few reads of the data.
_FEW_COLUMNS = 512
# Up to here the rows' products, and their eigenvalues, are cheap.
_FEW_ROWS = 1000
# Share of the squares of y that is rounding where the rows can be interpolated.
_INTERPOLATED = 1e-20
# Mean of c_i ||x_i||^2 max l'' up to which coordinate ascent needs few epochs.
_EASY_STIFFNESS = 5.0
# Entries up to which every method is quick, and the exact one best; and those of the hinge up to
# which all its stages are one call of microseconds.
_SMALL, _TINY = 200_000, 20_000
# Up to here a Hessian costs no more than a read of as many rows.
_NARROW = 64
# Epochs that coordinate ascent may still need before the quasi-Newton method takes over.
_DENSE_PATIENCE, _SPARSE_PATIENCE, _TALL_PATIENCE = 12.0, 120.0, 15.0
# The same for the hinge of few sparse columns in memory, whose Hessians are made entry by entry.
_SHORT_PATIENCE = 15.0
# The same for sparse rows of many columns on several shards: merged steps gain less an epoch, and
# products with the Hessian as much as on one.
_MERGED_PATIENCE = 10.0
# For the hinge in many dense columns, per column: a Hessian costs so much more than an epoch.
_PATIENCE_A_COLUMN = 0.125
# Rows a column up to which most rows of the squared hinge may be beside the margin; and how patient
# coordinate ascent is there, per dense column.
_FEW_ROWS_A_COLUMN, _SHORT_A_COLUMN = 8.0, 0.04
# Epochs, per column, that the systems of an interior point method cost; and, of sparse rows, the
# speed of an epoch's entries beside those of a dense system.
_SYSTEMS_A_COLUMN, _SPARSE_SPEED = 0.5, 0.1
# Gap, as a share of the objective, above which the continuation of the hinge starts from zero
# instead of from what coordinate ascent has found: where rows have large entries, that point is so
# far away that the way back would take more reads.
_RESTART_GAP = 0.5
# Sparse rows of fewer columns than this share of their number are tall; beyond this stiffness
# the first epochs lead them astray.
_TALL, _STIFF = 0.67, 150.0
# Rows that show the stiffness, and from how many chunks of a store they come.
_STIFFNESS_ROWS, _STIFFNESS_CHUNKS = 256, 8
# Reads of the data within which the quasi-Newton method must converge where the curvature jumps;
# and how patient coordinate ascent is after that. Where it gets there, far fewer epochs than these
# ever seem to be left; where not, soon more.
_TRIAL_READS, _LAST_PATIENCE, _LAST_JUDGED = 100, 1000.0, 30


def fit(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start | None = None,
) -> FitResult:
    """Solve one problem with the solver that suits it.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows, labels and weights.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads of the data.
    settings : Settings
        Which solver, and how.
    start : Start or None, default=None
        Where to begin.

    Returns
    -------
    FitResult
        The model with its certificate; `description` ends with why this solver.
    """
    start = Start() if start is None else start
    unit = UnitStrength(problem)
    if unit.is_another:
        rows, own_rule = unit.of_dataset(dataset), unit.of_rule(rule)
        return unit.result(fit(unit.problem, rows, communicator, own_rule, settings, start))
    dataset = _near_corners(problem, dataset, communicator, settings)
    used = _used_columns(dataset, communicator, settings)
    if used is None:
        return _fit(problem, dataset, communicator, rule, settings, start)
    packed, begin = used.of_dataset(dataset), used.of_start(start)
    own = replace(problem, penalty=used.of_penalty(problem.penalty))
    return used.stored(_fit(own, packed, communicator, used.of_rule(rule), settings, begin))


def _near_corners(
    problem: Problem, dataset: Dataset, communicator: Communicator, settings: Settings
) -> Dataset:
    """Return the rows in memory, where a loss with corners wants them and they have room there.

    Few rows are near a corner, and the interior point method works on these alone; epochs of
    coordinate ascent over a store are many.
    """
    is_wanted = support.is_cornered(problem) and settings.solver != "sdca"
    if not is_wanted or settings.device_ids:
        return dataset
    matrix = dataset.matrix
    has_room = not isinstance(matrix, ChunkedMatrix) or matrix.can_be_loaded
    if not all(communicator.exchange(has_room)) or not isinstance(matrix, ChunkedMatrix):
        return dataset
    return replace(dataset, matrix=matrix.take(np.arange(matrix.shape[0])))


def _used_columns(
    dataset: Dataset, communicator: Communicator, settings: Settings
) -> UsedColumns | None:
    """Return the columns to fit instead of all; shards would have to agree on them."""
    is_here = communicator.size == 1 and not settings.device_ids
    return find_used(dataset.matrix) if is_here else None


def _fit(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    """Solve one problem on all of its columns."""
    rule.observer.recognise(dataset, communicator)
    if problem.loss.is_quadratic and problem.penalty.l2 <= 0.0:
        rule = replace(rule, floor=_INTERPOLATED * _squares(dataset, communicator))
    if not problem.penalty.is_smooth:
        _check_alike(dataset, communicator)
    support.check(problem, dataset, communicator, settings)
    if is_streamed(dataset) and (settings.device_ids or not problem.penalty.is_smooth):
        return out_of_core.fit(problem, dataset, communicator, rule, settings, start)
    if settings.device_ids:
        if dataset.labels.ndim == 2 and not device_choice.is_joint(problem, settings):
            return _fit_apart(problem, dataset, communicator, rule, settings, start)
        return device_choice.fit(problem, dataset, communicator, rule, settings, start)
    if _is_better_apart(problem, dataset, settings):
        return _fit_apart(problem, dataset, communicator, rule, settings, start)
    found = _in_one_call(problem, dataset, communicator, rule, settings, start)
    if found is not None:
        return found
    choose = partial(_choose, problem, dataset, communicator, settings, start)
    solver, reason, patience = rule.observer.decide(choose)
    if solver == "ipm":
        result = _interior_point(problem, dataset, communicator, rule, settings)
    elif solver == "wsd":
        result = _working_sets(problem, dataset, communicator, rule, settings, start)
    elif solver == "pqn" and _is_wide(problem, dataset, communicator):
        result = _in_row_space(problem, dataset, communicator, rule, settings)
    elif solver == "pqn":
        trial = rule if settings.solver != "auto" else _trial(problem, dataset, rule)
        result = _quasi_newton(problem, dataset, communicator, trial, settings, start)
        if trial is not rule and _goes_on(result, rule):
            return _hand_back(result, problem, dataset, communicator, rule, settings, start)
    else:
        result = _coordinate_ascent(problem, dataset, communicator, rule, settings, start, patience)
        if math.isfinite(patience) and _goes_on(result, rule):
            second = _hand_over(result, problem, dataset, communicator, rule, settings)
            if support.is_cornered(problem) or not _goes_on(second, rule):
                return second
            end = Start(duals=result.duals, offset=result.offset)
            return _hand_back(second, problem, dataset, communicator, rule, settings, end)
    return replace(result, description=f"{result.description}: {reason}")


def fit_sequence(
    problem: Problem,
    penalties: list[Penalty],
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: FitResult | StartModel | None = None,
) -> list[FitResult]:
    """Minimise with one penalty after the other, each from the last one's model.

    Parameters
    ----------
    problem : Problem
        Loss and intercept.
    penalties : list of Penalty
        From strong to weak, for speed; L1, or positive coefficients.
    dataset : Dataset
        Rows, labels and weights; packed columns are kept from fit to fit.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads of the data, of each fit.
    settings : Settings
        Which devices or threads.
    start : FitResult, StartModel or None, default=None
        Model to start from.

    Returns
    -------
    list of FitResult
        One per penalty, up to the one whose fit the rule's control has ended.
    """
    used = _used_columns(dataset, communicator, settings)
    if used is None:
        return _fit_sequence(problem, penalties, dataset, communicator, rule, settings, start)
    penalties, packed = [used.of_penalty(each) for each in penalties], used.of_dataset(dataset)
    own, begin = used.of_rule(rule), used.of_model(start)
    found = _fit_sequence(problem, penalties, packed, communicator, own, settings, begin)
    return [used.stored(each) for each in found]


def _fit_sequence(
    problem: Problem,
    penalties: list[Penalty],
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: FitResult | StartModel | None,
) -> list[FitResult]:
    """Minimise with one penalty after the other on all columns."""
    problems = [replace(problem, penalty=penalty) for penalty in penalties]
    _check_alike(dataset, communicator)
    for each in problems:
        support.check(each, dataset, communicator, settings)
    rule.observer.recognise(dataset, communicator)
    if is_streamed(dataset):
        return out_of_core.fit_sequence(problems, dataset, communicator, rule, settings, start)
    if settings.device_ids:
        return device_choice.fit_sequence(problems, dataset, communicator, rule, settings, start)
    if len(problems) == 1:
        begin = Start() if start is None else Start(coef=start.point(problem.bias_column))
        alone = _in_one_call(problems[0], dataset, communicator, rule, settings, begin)
        if alone is not None:
            return [alone]
    else:
        found = small_path(problem, penalties, dataset, communicator, rule, settings, start)
        if found is not None:
            return found
    engine = CpuColumnEngine(problem, dataset, n_threads=settings.n_threads)
    return working_set_descent.solve_sequence(engine, problems, communicator, rule, start)


def _in_one_call(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult | None:
    """Return the model of a small problem, None where it is another one or was not solved so."""
    if not small_newton.suits(problem, dataset, communicator, rule, settings):
        return None
    found = small_newton.solve(problem, dataset, communicator, rule, settings, start)
    if found is None:
        return None
    return replace(found, description=f"{found.description}: the rows stay in the cache")


def small_path(
    problem: Problem,
    penalties: list[Penalty],
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: FitResult | StartModel | None = None,
) -> list[FitResult] | None:
    """Minimise a small problem with one penalty after the other in one call.

    Parameters
    ----------
    problem, penalties, dataset, communicator, rule, settings, start
        As of `fit_sequence`; the penalties may be smooth ones here.

    Returns
    -------
    list of FitResult or None
        One per penalty, up to the one whose fit the rule's control has ended. None where it is
        another problem, or a fit did not meet its tolerance so.
    """
    problems = [replace(problem, penalty=penalty) for penalty in penalties]
    suits = small_newton.suits
    if rule.verbose > 0 or problem.loss.is_joint:
        return None
    if not all(suits(p, dataset, communicator, rule, settings) for p in problems):
        return None
    begin = None if start is None else start.point(problem.bias_column)[0]
    found = small_groups.solve_path(problem, penalties, dataset, rule, begin, settings.n_threads)
    if not found.has_converged.all():
        return None
    n_rows = dataset.matrix.shape[0]
    description = (
        f"quasi-Newton in one call, curvature from {n_rows} rows, 1 thread: the rows stay in the "
        "cache"
    )
    results = []
    for number in range(len(penalties)):
        results.append(found.result(number, description))
        if rule.control.is_active and _is_ended_by(results[-1], problem, communicator, rule):
            break
    return results


def _is_ended_by(
    result: FitResult, problem: Problem, communicator: Communicator, rule: StoppingRule
) -> bool:
    """Show a fit's model to whoever looks on, once a read that it took, and say if that ends it."""
    point = result.point(problem.bias_column)
    gap, objective = result.gap, result.objective
    model_of = partial(Interim.of_point, point, problem.bias_column, gap, objective)
    return any(rule.control.ends(communicator, model_of) for _ in range(result.n_iter + 1))


def _goes_on(result: FitResult, rule: StoppingRule) -> bool:
    """Return whether another solver may go on from a result."""
    has_ended = result.has_converged or rule.control.reason != ""
    return not has_ended and result.n_iter < rule.max_iter


def _check_alike(dataset: Dataset, communicator: Communicator) -> None:
    """Refuse shards of which some are in memory: working sets are another method on stores."""
    found = communicator.exchange(is_streamed(dataset))
    if len(set(found)) > 1:
        raise ValueError(
            "X: expected stores on all ranks or on none for an L1 penalty or positive "
            f"coefficients, got a store on rank {found.index(True)} and rows in memory on rank "
            f"{found.index(False)}"
        )


def _trial(problem: Problem, dataset: Dataset, rule: StoppingRule) -> StoppingRule:
    """Return how far to go with the quasi-Newton method before coordinate ascent has its turn.

    Where the curvature jumps and the classes are almost separable, every step sees other rows.
    """
    is_one = dataset.labels.ndim == 1 and problem.penalty.l2 > 0.0
    if not (problem.loss.kinks == "curvature" and is_one and problem.loss.has_dual_step):
        return rule
    return replace(rule, max_iter=min(rule.max_iter, _TRIAL_READS))


def _is_better_apart(problem: Problem, dataset: Dataset, settings: Settings) -> bool:
    """Return whether separate outputs are best solved one by one: where coordinate ascent is."""
    if problem.loss.is_joint or dataset.labels.ndim == 1:
        return False
    if not (problem.penalty.is_smooth and problem.loss.is_smooth):
        return True  # one step length for all outputs at once does not suit the hinge's corners
    if settings.solver != "auto":
        return settings.solver == "sdca"
    if is_streamed(dataset):
        return False  # reads cost most there, and all outputs share them
    return dataset.matrix.shape[1] > _FEW_COLUMNS and problem.penalty.l2 > 0.0


def _fit_apart(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    """Solve one output after the other, and put the models together."""
    results: list[FitResult] = []
    for k, one in enumerate(dataset.outputs()):
        begin = Start() if start.coef is None else Start(coef=start.coef[k : k + 1])
        view = rule.control.through(among_outputs(results, len(dataset.labels)))
        own = replace(rule, control=view)
        results.append(_fit(problem, one, communicator, own, settings, begin))
    return stack_outputs(results)


def _squares(dataset: Dataset, communicator: Communicator) -> float:
    """Return the objective of least squares without coefficients."""
    weights = dataset.weight if dataset.row_weights is None else dataset.row_weights
    own = np.array([np.sum(weights * dataset.labels.astype(np.float64) ** 2)])
    return 0.5 * float(communicator.allreduce_sum(own)[0])


def _choose(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    settings: Settings,
    start: Start,
) -> tuple[str, str, float]:
    """Return the solver, the reason, and how patient coordinate ascent should be."""
    never = math.inf
    if support.is_cornered(problem):
        return _choose_for_corners(problem, dataset, communicator, settings)
    if not problem.penalty.is_smooth:
        return "wsd", "an L1 penalty or a constraint leaves few columns to work on", never
    if settings.solver != "auto":
        return settings.solver, "as asked for", never
    if not problem.loss.is_smooth:
        return _choose_for_hinge(problem, dataset, communicator)
    if _is_joint_ascent(problem, dataset, communicator, start):
        return "sdca", "sparse rows of many columns", _SPARSE_PATIENCE
    if problem.loss.is_joint or dataset.labels.ndim == 2:
        return "pqn", "all outputs share each read of the data", never
    if not math.isfinite(problem.loss.curvature_bound):
        return "pqn", "the curvature of its loss has no bound", never
    if not problem.loss.has_dual_step:
        return "pqn", "its loss has no dual step", never
    if problem.penalty.l2 <= 0.0:
        return "pqn", "there is no penalty", never
    n_features = dataset.matrix.shape[1]
    goes_on = start.coef is not None and start.duals is None
    if not goes_on and _is_nearly_separable(problem, dataset, communicator):
        patience = _SHORT_PATIENCE if _is_sparse(dataset) else _SHORT_A_COLUMN * n_features
        return "sdca", "few rows a column, of which most may rest", patience
    if n_features <= _FEW_COLUMNS:
        return "pqn", f"{n_features} columns are few", never
    if goes_on:
        return "pqn", "it continues from coefficients", never
    stiffness = _sampled_stiffness(problem, dataset, communicator)
    if _is_sparse(dataset):
        return _choose_for_sparse(problem, dataset, communicator, stiffness)
    if stiffness > _EASY_STIFFNESS:
        return "pqn", f"rows are long for this regularisation ({stiffness:.2g})", never
    return "sdca", f"rows are short for this regularisation ({stiffness:.2g})", _DENSE_PATIENCE


def _is_joint_ascent(
    problem: Problem, dataset: Dataset, communicator: Communicator, start: Start
) -> bool:
    """Return whether several classes of sparse rows are a case for coordinate ascent.

    In fewer columns than rows Newton's steps take few products, each for all classes at once; and
    the intercept of a class without weight is far away, where multipliers get slowly.
    """
    if not softmax_ascent.suits(problem, dataset, communicator) or start.coef is not None:
        return False
    size = problem.loss.n_outputs * (dataset.matrix.shape[1] + 1)
    is_wide = dataset.matrix.shape[1] > _FEW_COLUMNS and size > MOST_JOINT_COLUMNS
    if not is_wide or _is_tall(dataset, communicator):
        return False
    numbers = dataset.labels.astype(np.int64)
    masses = np.bincount(numbers, dataset.row_weights, minlength=problem.loss.n_outputs)
    return bool(masses.all())


def _is_nearly_separable(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether rows in memory are so few that most may be beside the margin.

    Which rows curve then changes with each step, and coordinate ascent leaves those at rest alone.
    """
    n_features = dataset.matrix.shape[1]
    if problem.loss.kinks != "curvature" or not _may_rest(dataset, communicator):
        return False
    if n_features <= _NARROW:
        return False  # a Hessian costs next to nothing
    if _is_sparse(dataset) and not _is_tall(dataset, communicator):
        return False  # those have a rule of their own
    return _count_rows(dataset, communicator) <= _FEW_ROWS_A_COLUMN * n_features


def _may_rest(dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether coordinate ascent leaves rows at rest alone: in memory, on one shard."""
    return communicator.size == 1 and not is_streamed(dataset)


def _choose_for_sparse(
    problem: Problem, dataset: Dataset, communicator: Communicator, stiffness: float
) -> tuple[str, str, float]:
    """Coordinate ascent, unless many epochs meet few columns.

    Newton's method has a product with the Hessian for half the price of an epoch, and needs the
    fewer of them, the fewer columns there are. Of more, and where the curvature jumps, too many.
    """
    is_tall = _is_tall(dataset, communicator)
    if problem.loss.kinks == "curvature" and not is_tall:
        return "sdca", "sparse rows", math.inf
    # A product with the Hessian reads a store as an epoch does: it is no longer half the price.
    price = 2.0 if is_streamed(dataset) else 1.0
    if not is_tall:
        patience = _SPARSE_PATIENCE if communicator.size == 1 else _MERGED_PATIENCE
        return "sdca", "sparse rows", price * patience
    if stiffness > _STIFF:
        return "pqn", f"rows are long for this regularisation ({stiffness:.2g})", math.inf
    return "sdca", "sparse rows", price * _TALL_PATIENCE


def _is_tall(dataset: Dataset, communicator: Communicator) -> bool:
    return dataset.matrix.shape[1] <= _TALL * _count_rows(dataset, communicator)


def _count_rows(dataset: Dataset, communicator: Communicator) -> float:
    """Return the rows of all shards."""
    return float(communicator.allreduce_sum(np.array([float(dataset.matrix.shape[0])]))[0])


def _is_sparse(dataset: Dataset) -> bool:
    matrix = dataset.matrix
    if isinstance(matrix, ChunkedMatrix):
        return matrix.is_sparse
    return not isinstance(matrix, DenseMatrix)


def _choose_for_hinge(
    problem: Problem, dataset: Dataset, communicator: Communicator
) -> tuple[str, str, float]:
    """Coordinate ascent finds the rows at the kink by itself, unless they are long."""
    if dataset.matrix.shape[1] > _FEW_COLUMNS:
        return "sdca", "many columns", _patience_of_many(dataset, communicator)
    n_stored = communicator.allreduce_sum(np.array([float(dataset.matrix.n_stored)]))[0]
    may_rest = _may_rest(dataset, communicator)
    patience = _SHORT_PATIENCE
    if not may_rest:
        patience = _SPARSE_PATIENCE if is_streamed(dataset) else 2.0 * _SHORT_PATIENCE
    is_narrow = dataset.matrix.shape[1] <= _NARROW or not may_rest
    if is_narrow and n_stored <= (_TINY if may_rest else _SMALL):
        return "pqn", "small data", math.inf
    n_numbers = _count_rows(dataset, communicator) * dataset.matrix.shape[1]
    if _is_sparse(dataset) and (n_stored > _SMALL or small_newton.SPARSER * n_stored <= n_numbers):
        return "sdca", "sparse rows", patience
    stiffness = _sampled_stiffness(problem, dataset, communicator)
    if stiffness > _EASY_STIFFNESS:
        return "pqn", f"rows are long for this regularisation ({stiffness:.2g})", math.inf
    reason = f"rows are short for this regularisation ({stiffness:.2g})"
    return "sdca", reason, patience


def _choose_for_corners(
    problem: Problem, dataset: Dataset, communicator: Communicator, settings: Settings
) -> tuple[str, str, float]:
    """Return the choice for a loss that is not rounded off.

    Systems of all columns cost as much as many epochs; where rows are short, few are needed.
    """
    n_features, never = dataset.matrix.shape[1], math.inf
    if settings.solver != "auto":
        return settings.solver, "as asked for", never
    if support.needs_interior(problem):
        return "ipm", "its loss has corners, and L2 is not all of its penalty", never
    if is_streamed(dataset):
        return "sdca", "reads of a store cost most", never
    if n_features > working_rows.MOST_COLUMNS:
        return "sdca", "many columns", never
    own = np.array([float(dataset.matrix.n_stored), float(dataset.matrix.shape[0])])
    n_stored, n_rows = communicator.allreduce_sum(own).tolist()
    is_sparse, price = _is_sparse(dataset), _SYSTEMS_A_COLUMN * n_features
    if is_sparse:
        price *= _SPARSE_SPEED * n_rows * n_features / max(1.0, n_stored)
    if n_features > _FEW_COLUMNS:
        return "sdca", "many columns", price
    stiffness = _sampled_stiffness(problem, dataset, communicator)
    if n_stored > _SMALL and stiffness <= _EASY_STIFFNESS and is_sparse:
        return "sdca", f"rows are short for this regularisation ({stiffness:.2g})", price
    return "ipm", "its loss has corners, which few rows are near to", never


def _patience_of_many(dataset: Dataset, communicator: Communicator) -> float:
    """Return how many epochs of a hinge of many columns are worth the Hessians of a continuation.

    Those of sparse rows would be of a block of the columns, and fewer rows than columns leave
    most of one empty.
    """
    n_features = dataset.matrix.shape[1]
    n_rows = _count_rows(dataset, communicator)
    if _is_sparse(dataset) or n_features > MOST_DENSE_COLUMNS or n_rows < n_features:
        return math.inf
    price = 2.0 if is_streamed(dataset) else 1.0  # a step reads rows twice
    return price * _PATIENCE_A_COLUMN * n_features


def _sampled_stiffness(problem: Problem, dataset: Dataset, communicator: Communicator) -> float:
    """Return the mean of c_i ||x_i||^2 max l'' over a few rows of every shard."""
    n_rows = dataset.matrix.shape[0]
    if isinstance(dataset.matrix, ChunkedMatrix):
        rows = out_of_core.spread_rows(dataset.matrix, _STIFFNESS_ROWS, _STIFFNESS_CHUNKS)
    else:
        rows = np.arange(0, n_rows, max(1, n_rows // _STIFFNESS_ROWS))
    sample = dataset.take(rows, 1.0)
    squares = squared_norms(sample.matrix).astype(np.float64)
    weights = sample.weight if sample.row_weights is None else sample.row_weights
    bound = problem.loss.curvature_bound
    curvature = bound if math.isfinite(bound) else 1.0
    # Shards of many rows count as such, though all look at as many.
    share = n_rows / max(1, len(rows))
    own = np.array([share * float(np.sum(weights * squares)), float(n_rows)])
    total, count = communicator.allreduce_sum(own).tolist()
    return curvature * total / max(1.0, count)


def _quasi_newton(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    if not problem.loss.is_smooth:
        return smoothed_hinge.solve(
            problem,
            dataset,
            communicator,
            rule,
            n_threads=settings.n_threads,
            start=start.coef,
            centre=start.duals,
        )
    engine = primal_engine(problem, dataset, n_threads=settings.n_threads, seed=settings.seed)
    return quasi_newton.solve(engine, communicator, rule, start=start.coef)


def _interior_point(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
) -> FitResult:
    n_threads = settings.n_threads
    return working_rows.solve(
        problem, dataset, communicator, rule, n_threads=n_threads, seed=settings.seed
    )


def _working_sets(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    if problem.loss.is_joint:
        n_threads = settings.n_threads
        return multinomial_descent.solve(
            problem, dataset, communicator, rule, n_threads=n_threads, start=start.coef
        )
    engine = CpuColumnEngine(problem, dataset, n_threads=settings.n_threads)
    begin = start.model(problem.intercept_scaling)
    return working_set_descent.solve(engine, communicator, rule, begin)


def _is_wide(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether few rows span the coefficients that are worth a look."""
    n_rows, n_features = dataset.matrix.shape
    is_alone = communicator.size == 1  # the rows' products need all rows in one place
    is_in_memory = not is_streamed(dataset)
    is_smooth = problem.loss.is_smooth
    return is_alone and is_in_memory and is_smooth and n_rows < n_features and n_rows <= _FEW_ROWS


def _in_row_space(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
) -> FitResult:
    """Solve in the span of the rows; certify the answer on the data themselves."""
    engine = CpuPrimalEngine(problem, dataset, n_threads=settings.n_threads, seed=settings.seed)
    with limit_blas_threads(engine.n_threads), np.errstate(over="ignore", invalid="ignore"):
        engine.check_finite()
        space = RowSpace(problem, dataset)

    def in_columns(model: Interim) -> Interim:
        point = np.column_stack([model.coef, model.intercept / (engine.bias_column or 1.0)])
        point = space.coefficients(point)
        return Interim.of_point(point, engine.bias_column, model.gap, model.objective)

    own = replace(rule, control=rule.control.through(in_columns))
    inner = _quasi_newton(problem, space.dataset, communicator, own, settings, Start())
    coef = space.coefficients(inner.point(engine.bias_column))
    return quasi_newton.evaluate(engine, communicator, rule, coef, inner)


def _coordinate_ascent(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
    patience: float,
) -> FitResult:
    if problem.loss.is_joint:
        duals = SoftmaxDuals(problem, dataset, n_threads=settings.n_threads, seed=settings.seed)
        return softmax_ascent.solve(duals, communicator, rule, patience=patience)
    engine = dual_engine(problem, dataset, settings, start)
    return dual_coordinate_ascent.solve(engine, communicator, rule, patience=patience)


def _hand_over(
    first: FitResult,
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
) -> FitResult:
    """Go on with a method of second order, mostly from where coordinate ascent ended."""
    reason = f"after {first.n_iter} epochs of dual coordinate ascent, whose gap shrank too slowly"
    if support.is_cornered(problem):
        rest = replace(rule, max_iter=rule.max_iter - first.n_iter)
        second = _interior_point(problem, dataset, communicator, rest, settings)
        return _joined(first, second, reason)
    start = Start(coef=first.point(problem.intercept_scaling), duals=first.duals)
    if not problem.loss.is_smooth and first.gap > _RESTART_GAP * abs(first.objective):
        start = Start()
    rest = replace(rule, max_iter=rule.max_iter - first.n_iter)
    trial = _trial(problem, dataset, rest)
    second = _quasi_newton(problem, dataset, communicator, trial, settings, start)
    return _joined(first, second, reason)


def _hand_back(
    first: FitResult,
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    """Go on with coordinate ascent, from its own last state, where a trial has not converged.

    If it is no faster, the quasi-Newton method goes on from the better model of both.
    """
    rest = replace(rule, max_iter=rule.max_iter - first.n_iter)
    engine = dual_engine(problem, dataset, settings, start)
    second = dual_coordinate_ascent.solve(
        engine, communicator, rest, patience=_LAST_PATIENCE, judged_from=_LAST_JUDGED
    )
    reason = f"after {first.n_iter} reads that ended in a quasi-Newton method too slow"
    both = _joined(first, second, reason)
    if not second.has_converged and second.objective > first.objective:
        both = replace(first, n_iter=both.n_iter, history=both.history)
    if not _goes_on(both, rule):
        return both
    begin = Start(coef=both.point(problem.intercept_scaling))
    rest = replace(rule, max_iter=rule.max_iter - both.n_iter)
    third = _quasi_newton(problem, dataset, communicator, rest, settings, begin)
    return _joined(both, third, f"after {both.n_iter} reads of this and of coordinate ascent")


def _joined(first: FitResult, second: FitResult, reason: str) -> FitResult:
    """Return the second result with the reads of both, and the better of their lower bounds."""
    offset_s = first.history[-1]["time_s"]
    later = [
        {**entry, "epoch": first.n_iter + entry["epoch"], "time_s": offset_s + entry["time_s"]}
        for entry in second.history
    ]
    bound = max(each.objective - each.gap for each in (first, second))
    return replace(
        second,
        gap=min(second.gap, certified_gap(second.objective, bound)),
        n_iter=first.n_iter + second.n_iter,
        history=first.history + later,
        description=f"{second.description}: {reason}",
    )
