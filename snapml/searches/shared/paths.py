"""Classifiers with an L1 penalty, or few columns: one path for all values of C in each fold.

From strong penalties to weak ones, each from the one before, on the fold's rows, which are copied
once for all of them. Instead of the rows' weights, 1 / C weighs the penalty: the same minima and
relative gaps. The hinge has no paths: it takes as long from a neighbour's model as from none.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from snapml._validation import distinct
from snapml.data import CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.estimators.coordinate_regression import warn_not_converged
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.support_vector_machine import LinearSVC
from snapml.problems import Penalty, Problem
from snapml.searches.shared.fold_rows import take_rows
from snapml.searches.shared.models import must_fit_alone, problem_of, rule_of
from snapml.searches.shared.strengths import Found
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.newton import small_newton
from snapml.solvers.newton.sample_size import CHEAP_COLUMNS
from snapml.solvers.plan import choice
from snapml.solvers.result import FitResult, stack_outputs
from snapml.solvers.stopping import StoppingRule

__all__ = ["can_share_path", "is_path", "is_small_path", "solve_path_of_classes"]

# Entries of rows that are many; and the gap of their models, as a share of the objective, which
# takes a step more than others: scores that are nearly equal are told apart as at the minima.
_TALL_ENTRIES, _FINE = 200_000, 1e-8


def can_share_path(estimator: Any, matrix: Matrix | None, n_classes: int) -> bool:
    """Return whether a fit can start from others of its fold that differ in C.

    Parameters
    ----------
    estimator : LogisticRegression or LinearSVC
        With its parameters.
    matrix : Matrix or None
        The rows; None where they are to be judged later.
    n_classes : int
        Labels that occur, at least 2.

    Returns
    -------
    bool
        False also where the parameters are not as described: an ordinary fit says what is wrong.
    """
    if not isinstance(matrix, DenseMatrix | CompressedMatrix | None):
        return False
    if estimator.device_ids is not None or must_fit_alone(estimator):
        return False
    if isinstance(estimator, LogisticRegression) and (
        estimator.penalty != "deprecated" or estimator.n_jobs is not None
    ):
        return False  # deprecated parameters, of which each fit warns
    try:
        rule_of(estimator)
        is_finite = math.isfinite(problem_of(estimator, n_classes)[1])
    except (TypeError, ValueError, NotImplementedError):
        return False
    is_asked = estimator.solver in ("sdca", "pqn")
    return is_finite and not is_asked and is_path(estimator, matrix, n_classes)


def is_path(estimator: Any, matrix: Matrix | None, n_classes: int) -> bool:
    """Return whether models of an estimator are best found one from another.

    Parameters
    ----------
    estimator : LogisticRegression or LinearSVC
        With parameters as described.
    matrix : Matrix or None
        The rows; None where they are to be judged later.
    n_classes : int
        Labels that occur, at least 2.

    Returns
    -------
    bool
        False for L2 penalties on more rows than stay in a cache: smooth losses are columns of one
        solve.
    """
    is_smooth = problem_of(estimator, n_classes)[0].penalty.is_smooth
    return (
        not is_smooth
        or is_small_path(estimator, matrix, n_classes)
        or _is_tall(estimator, matrix, n_classes)
    )


def _is_tall(estimator: Any, matrix: Matrix | None, n_classes: int) -> bool:
    """Return whether few reads lead from one model to the next: columns are few, rows many."""
    problem = problem_of(estimator, n_classes)[0]
    if not isinstance(matrix, DenseMatrix | CompressedMatrix) or estimator.device_ids is not None:
        return False
    if problem.loss.kinks != "none" or not (n_classes == 2 or problem.loss.is_joint):
        return False
    return matrix.shape[1] <= CHEAP_COLUMNS and matrix.n_stored >= _TALL_ENTRIES


def is_small_path(estimator: Any, matrix: Matrix | None, n_classes: int) -> bool:
    """Return whether models with an L2 penalty are few rows' that are found in one call.

    Parameters
    ----------
    estimator, matrix, n_classes
        As of `is_path`.

    Returns
    -------
    bool
        Whether the rows stay in a cache; on the host.
    """
    problem = problem_of(estimator, n_classes)[0]
    if not problem.penalty.is_smooth or estimator.device_ids is not None:
        return False
    is_alone = n_classes == 2 or problem.loss.is_joint  # one class against the rest is several
    if matrix is None or not is_alone:
        return False
    return small_newton.is_small(problem, matrix, matrix.shape[0])


def solve_path_of_classes(
    estimators: list[Any],
    rows: np.ndarray,
    matrix: Matrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
) -> list[Found | None]:
    """Fit classifiers that differ in C on one fold.

    Parameters
    ----------
    estimators : list of LogisticRegression or LinearSVC
        From strong penalties to weak ones; `can_share_path` holds.
    rows : ndarray
        Numbers of the fold's rows.
    matrix : Matrix
        All rows.
    y : ndarray of shape (n_samples,)
        Their labels.
    sample_weight : ndarray of shape (n_samples,) or None
        Their weights.

    Returns
    -------
    list of Found or None
        None where the fold lacks a class, or numbers overflow: an ordinary fit says so; and where
        the path of a small problem is not easy. One that has not converged warns as an ordinary fit
        does.

    Raises
    ------
    ValueError
        If class weights are not as they should be, or numbers overflow.
    """
    first, classes = estimators[0], distinct(y)
    if len(distinct(y[rows])) < len(classes):
        return [None] * len(estimators)
    own = None if sample_weight is None else sample_weight[rows]
    problem = problem_of(first, len(classes))[0]
    data = (take_rows(matrix, rows), y[rows], classes, own, 1.0)
    if isinstance(first, LinearSVC):
        dataset = first._dataset(*data)
    else:
        dataset = first._pose(*data, problem.penalty)[1]
    rule = rule_of(first).at_resolution_of(dataset.labels.dtype)
    settings = Settings("auto", first.n_threads, first.deterministic, first._seed())
    outputs = [dataset] if dataset.labels.ndim == 1 else dataset.outputs()
    penalty, costs = problem.penalty, [float(one.C) for one in estimators]
    penalties = [replace(penalty, l1=penalty.l1 / C, l2=penalty.l2 / C) for C in costs]
    is_tall = _is_tall(first, matrix, len(classes))
    own_rule = replace(rule, tol=min(rule.tol, _FINE)) if is_tall else rule
    paths = [_path(problem, penalties, output, own_rule, settings) for output in outputs]
    if not all(paths):
        return [None] * len(estimators)
    together = [_joined(results) for results in zip(*paths, strict=True)]
    for result in together:
        is_enough = result.has_converged or rule.is_met(result.gap, result.objective)
        if math.isfinite(result.objective) and not is_enough:
            warn_not_converged(result, rule)
    return [_found(result) for result in together]


def _path(
    problem: Problem,
    penalties: list[Penalty],
    dataset: Dataset,
    rule: StoppingRule,
    settings: Settings,
) -> list[FitResult]:
    """Solve with one penalty after the other, each from the last one's model.

    Nothing where that is not how these are solved: smooth problems that are small only by number.
    """
    alone = SerialCommunicator()
    is_smooth, is_joint, matrix = problem.penalty.is_smooth, problem.loss.is_joint, dataset.matrix
    if is_smooth and not is_joint and small_newton.is_small(problem, matrix, matrix.shape[0]):
        found = choice.small_path(problem, penalties, dataset, alone, rule, settings)
        return [] if found is None else found
    if not (is_smooth or is_joint):
        return choice.fit_sequence(problem, penalties, dataset, alone, rule, settings)
    results: list[FitResult] = []
    start: Start | None = None
    for penalty in penalties:
        own = replace(problem, penalty=penalty)
        results.append(choice.fit(own, dataset, alone, rule, settings, start))
        start = Start(results[-1].point(problem.intercept_scaling))
    return results


def _joined(results: tuple[FitResult, ...]) -> FitResult:
    """Return the model of all classes."""
    return results[0] if len(results) == 1 else stack_outputs(list(results))


def _found(result: FitResult) -> Found | None:
    """Return the model, None where numbers have left their type: an ordinary fit says so."""
    is_sound = math.isfinite(result.objective)
    return (result.coef, result.intercept, result.n_iter) if is_sound else None
