"""Fits: the solver that suits the data, and another that goes on where the first is too slow.

The rules stand in `plan/rules.py`; ``solver`` may name one instead. docs/algorithms.md, section 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapml.data import ChunkedMatrix, Dataset, DenseMatrix
from snapml.problems import Penalty, Problem
from snapml.solvers.certificate import joined
from snapml.solvers.columns.cpu_column_engine import CpuColumnEngine
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim, among_outputs
from snapml.solvers.dual_ascent import double_ascent, dual_coordinate_ascent, softmax_ascent
from snapml.solvers.dual_ascent.host_dual_engine import dual_engine
from snapml.solvers.dual_ascent.softmax_duals import SoftmaxDuals
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.interior_point import small_rows, working_rows
from snapml.solvers.least_squares import summed_fits, summed_starts, working_columns
from snapml.solvers.newton import quasi_newton, small_groups, small_newton, smoothed_hinge
from snapml.solvers.newton.row_space import RowSpace, is_far_wider
from snapml.solvers.plan import device_choice, out_of_core, rules, support
from snapml.solvers.plan.common_numbers import find_common
from snapml.solvers.plan.light_rows import lighter
from snapml.solvers.plan.perfect_fits import rounding_floor
from snapml.solvers.plan.support import is_streamed
from snapml.solvers.plan.unit_strength import UnitStrength
from snapml.solvers.plan.used_columns import UsedColumns, find_used
from snapml.solvers.result import FitResult, StartModel, stack_outputs
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.streaming_engine import primal_engine
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import limit_blas_threads
from snapml.solvers.working_sets import multinomial_descent, working_set_descent

__all__ = ["fit", "fit_sequence", "small_path"]

# Up to here the rows' products, and their eigenvalues, are cheap.
_FEW_ROWS = 1000
# Columns from which on Hessians of them cost more than sweeps over up to so many rows a column; and
# of which there are more than rows, more than the rows' span.
_MANY_FOR_SWEEPS, _ROWS_FOR_SWEEPS, _MANY_FOR_SPAN = 150, 5, 200
# Gap, as a share of the objective, above which the continuation of the hinge, and Newton's method
# on fewer rows than columns where curvature jumps, start from zero instead of from what coordinate
# ascent has found: that point is so far away that the way back would take more reads.
_RESTART_GAP = 0.5
# The same for losses whose curvature is continuous: the bound there says next to nothing.
_RESTART_SMOOTH = 0.9
# Reads of the data within which the quasi-Newton method must converge where the curvature jumps;
# and how patient coordinate ascent is after that. Where it gets there, far fewer epochs than these
# ever seem to be left; where not, soon more.
_TRIAL_READS, _LAST_PATIENCE, _LAST_JUDGED = 100, 1000.0, 30
# Share of its patience that coordinate ascent has before it is judged, where what it has found is
# of no use to the method that would follow.
_JUDGED_SHARE = 0.1
# The same on rows that are fewer than columns, whose gap falls by fits and starts: of no more
# epochs than these, the latter where so few entries make them quick.
_WAITED_SHARE, _MOST_WAITED, _MOST_OF_TINY = 0.5, 40, 120
_TINY = 20_000


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
    dataset = lighter(problem, dataset, communicator, settings)
    common = find_common(problem, dataset, communicator, settings, start)
    if common is not None:
        rest, begin = common.of_dataset(dataset), common.of_start(start)
        own_rule = common.of_rule(rule)
        return common.stored(_fit(problem, rest, communicator, own_rule, settings, begin))
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
    floor = rounding_floor(problem, dataset, communicator)
    if floor > rule.floor:
        rule = replace(rule, floor=floor)
    if not problem.penalty.is_smooth:
        _check_alike(dataset, communicator)
    support.check(problem, dataset, communicator, settings)
    if settings.device_ids:
        if dataset.labels.ndim == 2 and not device_choice.is_joint(problem, dataset, settings):
            return _fit_apart(problem, dataset, communicator, rule, settings, start)
        return device_choice.fit(problem, dataset, communicator, rule, settings, start)
    if is_streamed(dataset) and not problem.penalty.is_smooth:
        return out_of_core.fit(problem, dataset, communicator, rule, settings, start)
    if rules.is_better_apart(problem, dataset, settings):
        return _fit_apart(problem, dataset, communicator, rule, settings, start)
    ask = problem, dataset, communicator, settings, start
    ascent = rules.choose_ascent(*ask)
    if ascent is None and not _is_short(problem, dataset):
        found = _in_one_call(problem, dataset, communicator, rule, settings, start)
        if found is not None:
            return found
    chosen = ascent or rule.observer.decide(partial(rules.choose, *ask))
    solver, reason, patience = chosen
    if solver == "ipm":
        result = _interior_point(problem, dataset, communicator, rule, settings)
    elif solver == "wsd":
        result = _working_sets(problem, dataset, communicator, rule, settings, start)
    elif solver == "pqn" and _is_wide(problem, dataset, communicator):
        result = _in_row_space(problem, dataset, communicator, rule, settings, start)
    elif solver == "pqn":
        trial = rule if settings.solver != "auto" else _trial(problem, dataset, rule)
        result = _quasi_newton(problem, dataset, communicator, trial, settings, start)
        if trial is not rule and _goes_on(result, rule):
            return _hand_back(result, problem, dataset, communicator, rule, settings, start)
    else:
        result = _coordinate_ascent(problem, dataset, communicator, rule, settings, start, patience)
        if math.isfinite(patience) and _goes_on(result, rule):
            second = _hand_over(result, problem, dataset, communicator, rule, settings)
            # After the interior point method nothing does better.
            has_ended = support.suits_systems(problem, dataset, communicator)
            if has_ended or not _goes_on(second, rule):
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
    strongest = replace(problem, penalty=penalties[0])
    dataset = lighter(strongest, dataset, communicator, settings)
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
    alone = dataset, communicator, rule, settings
    if len(problems) == 1:
        sets = _by_sets_of_columns(problems, *alone, start)
        if sets is not None:
            return sets
    if summed_fits.suits(problem, penalties, dataset, communicator, rule, settings):
        found = summed_fits.solve(problem, penalties, dataset, rule, start, settings.n_threads)
        if found is not None:
            return found
    if len(problems) == 1:
        begin = Start() if start is None else Start(coef=start.point(problem.bias_column))
        small = _in_one_call(problems[0], *alone, begin)
        if small is not None:
            return [small]
    else:
        found = _by_sets_of_columns(problems, *alone, start)
        if found is None:
            found = small_path(problem, penalties, *alone, start)
        if found is not None:
            return found
    return _descents(problem, penalties, dataset, communicator, rule, settings, start)


def _by_sets_of_columns(
    problems: list[Problem],
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: FitResult | StartModel | None,
) -> list[FitResult] | None:
    """Minimise one after the other in a call each, None where one does not suit or was not met."""
    results: list[FitResult] = []
    for problem in problems:
        if not working_columns.suits(problem, dataset, communicator, rule, settings):
            return None
        one = working_columns.solve(problem, dataset, communicator, rule, settings, start)
        if one is None:
            return None
        results.append(one)
        if rule.control.reason:
            break
        start = one
    return results


def _descents(
    problem: Problem,
    penalties: list[Penalty],
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: FitResult | StartModel | None,
) -> list[FitResult]:
    """Minimise with one penalty after the other on working sets, from sums over the rows or not."""
    problems = [replace(problem, penalty=penalty) for penalty in penalties]
    engine = CpuColumnEngine(problem, dataset, n_threads=settings.n_threads)
    starts = _summed_starts(problem, penalties, dataset, communicator, rule, settings, start)
    if starts is None:
        return working_set_descent.solve_sequence(engine, problems, communicator, rule, start)
    rest = replace(rule, max_iter=rule.max_iter - 1)
    found = working_set_descent.solve_sequence(engine, problems, communicator, rest, start, starts)
    return [_after_sums(each) for each in found]


def _summed_starts(
    problem: Problem,
    penalties: list[Penalty],
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: FitResult | StartModel | None,
) -> list[StartModel] | None:
    """Return models of least squares by sums over the rows, None where rows are read as quickly."""
    is_alone = communicator.size == 1 and summed_starts.suits(problem, dataset.matrix)
    has_norms = all(each.l1 > 0.0 for each in penalties)
    if not (is_alone and has_norms) or rule.max_iter < 1:
        return None
    summed = summed_starts.summed(problem, dataset, settings.n_threads)
    return None if summed is None else summed_starts.models(summed, penalties, rule.tol, start)


def _after_sums(result: FitResult) -> FitResult:
    """Count the read that made the sums."""
    history = [{**entry, "epoch": entry["epoch"] + 1} for entry in result.history]
    return replace(result, n_iter=result.n_iter + 1, history=history)


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
    dataset = lighter(problems[0], dataset, communicator, settings)
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
    has_ended = result.has_converged or result.is_rounded or rule.control.reason != ""
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


def _quasi_newton(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    engine = primal_engine(problem, dataset, n_threads=settings.n_threads, seed=settings.seed)
    if not problem.loss.is_smooth:
        return smoothed_hinge.solve(
            engine, communicator, rule, start=start.coef, centre=start.duals
        )
    most = rules.products_worth_a_trial(engine, communicator)
    follow = partial(_newton_from, engine, communicator)
    if _may_be_finished(engine, communicator, rule, settings):
        most = rules.products_before_call(engine)
        follow = partial(_call_from, problem, dataset, communicator, settings, follow)
    if most is None:
        return quasi_newton.solve(engine, communicator, rule, start=start.coef)
    return _products_first(engine, communicator, rule, start, most, follow)


def _newton_from(
    engine: PrimalEngine, communicator: Communicator, rule: StoppingRule, start: Start
) -> FitResult:
    return quasi_newton.solve(engine, communicator, rule, start=start.coef)


def _may_be_finished(
    engine: PrimalEngine, communicator: Communicator, rule: StoppingRule, settings: Settings
) -> bool:
    """Return whether one call may go on where products with the Hessian get nowhere."""
    is_sparse = engine.is_sparse and engine.is_single and not engine.is_streamed
    is_one = is_sparse and settings.is_for_one_call(communicator, rule.observer)
    return is_one and small_newton.may_finish(engine.problem, engine.n_rows, engine.n_features)


def _call_from(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    settings: Settings,
    otherwise: Callable[[StoppingRule, Start], FitResult],
    rule: StoppingRule,
    start: Start,
) -> FitResult:
    """Go on in one call with factors of the whole Hessian; where that fails, otherwise."""
    found = small_newton.solve(problem, dataset, communicator, rule, settings, start)
    return otherwise(rule, start) if found is None else found


def _products_first(
    engine: PrimalEngine,
    communicator: Communicator,
    rule: StoppingRule,
    start: Start,
    most: float,
    follow: Callable[[StoppingRule, Start], FitResult],
) -> FitResult:
    """Try so many products with the Hessian, and go on from where they end if that is too early."""
    first = quasi_newton.solve(engine, communicator, rule, start=start.coef, most_products=most)
    if not _goes_on(first, rule):
        return first
    rest = replace(rule, max_iter=rule.max_iter - first.n_iter)
    second = follow(rest, Start(coef=first.point(engine.bias_column)))
    return joined(first, second, f"after {first.n_iter} reads by conjugate gradients")


def _interior_point(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
) -> FitResult:
    if small_rows.suits(problem, dataset, communicator, rule, settings):
        found = small_rows.solve(problem, dataset, communicator, rule, settings)
        if found is not None:
            return found
        if not support.suits_systems(problem, dataset, communicator):
            return _quasi_newton(problem, dataset, communicator, rule, settings, Start())
    is_spanned = support.is_spanned(problem, dataset, communicator)
    return working_rows.solve(
        problem,
        dataset,
        communicator,
        rule,
        n_threads=settings.n_threads,
        seed=settings.seed,
        span=partial(RowSpace, problem, dataset) if is_spanned else None,
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
    begin, penalties = start.model(problem.intercept_scaling), [problem.penalty]
    return _descents(problem, penalties, dataset, communicator, rule, settings, begin)[0]


def _is_short(problem: Problem, dataset: Dataset) -> bool:
    """Return whether rows are so few that Hessians of the columns cost more than other ways.

    Those are sweeps over rows for a loss whose curvature jumps, and else the span of dense rows.
    """
    n_rows, n_features = dataset.matrix.shape
    if not problem.penalty.is_smooth:
        return False
    if problem.loss.kinks == "curvature":
        has_sweeps = problem.loss.has_dual_step and problem.penalty.l2 > 0.0
        is_many = n_features >= _MANY_FOR_SWEEPS
        return has_sweeps and is_many and n_rows <= _ROWS_FOR_SWEEPS * n_features
    if n_rows >= n_features:
        return False
    is_bounded = math.isfinite(problem.loss.curvature_bound)
    return is_bounded and n_features >= _MANY_FOR_SPAN and is_far_wider(dataset.matrix)


def _is_wide(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether few rows span the coefficients that are worth a look."""
    n_rows, n_features = dataset.matrix.shape
    is_wide = n_rows < n_features and (n_rows <= _FEW_ROWS or is_far_wider(dataset.matrix))
    is_alone = communicator.size == 1  # the rows' products need all rows in one place
    is_in_memory = not is_streamed(dataset)
    is_smooth = problem.loss.is_smooth
    # Products with thin rows are all that a quadratic loss needs.
    is_easy = problem.loss.is_quadratic and problem.penalty.l2 > 0.0
    is_easy = is_easy and not isinstance(dataset.matrix, DenseMatrix)
    return is_alone and is_in_memory and is_smooth and is_wide and not is_easy


def _in_row_space(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    """Solve in the span of the rows; certify the answer on the data themselves.

    Before the span of many rows is made, products with their Hessian are tried.
    """
    engine = CpuPrimalEngine(problem, dataset, n_threads=settings.n_threads, seed=settings.seed)
    most = rules.products_before_span(problem, dataset)
    follow = partial(_in_span, engine, dataset, communicator, settings)
    if most is None:
        return follow(rule, start)
    return _products_first(engine, communicator, rule, start, most, follow)


def _in_span(
    engine: CpuPrimalEngine,
    dataset: Dataset,
    communicator: Communicator,
    settings: Settings,
    rule: StoppingRule,
    start: Start,
) -> FitResult:
    """Solve in the coordinates of an orthonormal basis of the rows."""
    problem = engine.problem
    with limit_blas_threads(1), np.errstate(over="ignore", invalid="ignore"):
        engine.check_finite()
        space = RowSpace(problem, dataset)

    view = partial(space.in_columns, bias_column=engine.bias_column)
    own = replace(rule, control=rule.control.through(view))
    begin = Start() if start.coef is None else Start(coef=space.in_basis(start.coef))
    inner = None
    if math.isfinite(problem.loss.curvature_bound):  # else margins ask for more than its tolerance
        inner = _in_one_call(problem, space.dataset, communicator, own, settings, begin)
    if inner is None or _goes_on(inner, rule):
        inner = _quasi_newton(problem, space.dataset, communicator, own, settings, begin)
    if start.coef is not None and _goes_on(inner, rule):  # a start so far away that steps are lost
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
        judged_from = _MOST_WAITED if dataset.matrix.n_stored <= _TINY else 0
        return softmax_ascent.solve(
            duals, communicator, rule, patience=patience, judged_from=judged_from
        )
    n_epochs = min(patience, rule.max_iter)
    return double_ascent.solve(
        *(problem, dataset, communicator, rule, settings, start),
        patience=patience,
        judged_from=_judged_from(problem, dataset, communicator, n_epochs),
    )


def _judged_from(
    problem: Problem, dataset: Dataset, communicator: Communicator, n_epochs: float
) -> int:
    """Return the epochs, of so many at most, before which a gap's decline says nothing yet."""
    matrix = dataset.matrix
    if problem.loss.kinks != "none" and _are_few_rows(dataset, communicator):
        most = _MOST_WAITED if matrix.n_stored > _TINY else _MOST_OF_TINY
        return int(_WAITED_SHARE * min(n_epochs, most))
    is_hinge = problem.loss.smoothed is not None
    if is_hinge and support.suits_systems(problem, dataset, communicator):
        return int(_JUDGED_SHARE * n_epochs)
    return 0


def _are_few_rows(dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether rows, all of them here, are fewer than columns."""
    return communicator.size == 1 and dataset.matrix.shape[0] < dataset.matrix.shape[1]


def _is_far(
    first: FitResult, problem: Problem, dataset: Dataset, communicator: Communicator
) -> bool:
    """Return whether zero is a better start than what coordinate ascent has found."""
    if problem.loss.kinks == "none":
        most = _RESTART_SMOOTH
    elif not problem.loss.is_smooth or _are_few_rows(dataset, communicator):
        most = _RESTART_GAP
    else:
        return False
    return first.gap > most * abs(first.objective)


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
    is_small = small_rows.suits(problem, dataset, communicator, rule, settings)
    if is_small or support.suits_systems(problem, dataset, communicator):
        rest = replace(rule, max_iter=rule.max_iter - first.n_iter)
        second = _interior_point(problem, dataset, communicator, rest, settings)
        return joined(first, second, reason)
    start = Start(coef=first.point(problem.intercept_scaling), duals=first.duals)
    if _is_far(first, problem, dataset, communicator):
        start = Start()
    rest = replace(rule, max_iter=rule.max_iter - first.n_iter)
    trial = _trial(problem, dataset, rest)
    is_dense = isinstance(dataset.matrix, DenseMatrix)  # products of sparse rows cost less
    if not is_dense or (_is_short(problem, dataset) and not is_far_wider(dataset.matrix)):
        found = _in_one_call(problem, dataset, communicator, rest, settings, start)
        if found is not None:
            return joined(first, found, reason)
    if is_dense and _is_wide(problem, dataset, communicator):
        second = _in_row_space(problem, dataset, communicator, trial, settings, start)
    else:
        second = _quasi_newton(problem, dataset, communicator, trial, settings, start)
    return joined(first, second, reason)


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
    both = joined(first, second, reason)
    if not second.has_converged and second.objective > first.objective:
        both = replace(first, n_iter=both.n_iter, history=both.history)
    if not _goes_on(both, rule):
        return both
    begin = Start(coef=both.point(problem.intercept_scaling))
    rest = replace(rule, max_iter=rule.max_iter - both.n_iter)
    third = _quasi_newton(problem, dataset, communicator, rest, settings, begin)
    return joined(both, third, f"after {both.n_iter} reads of this and of coordinate ascent")
