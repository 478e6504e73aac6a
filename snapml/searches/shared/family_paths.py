"""Regressors of counts and amounts: one path for all strengths in each fold.

From strong penalties to weak ones, each from the one before, on the fold's rows, which are copied
once for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml._validation import alone
from snapml.data import CompressedMatrix, DenseMatrix, Matrix
from snapml.estimators.coordinate_regression import checked_strength, mean_dataset, penalty_of
from snapml.estimators.deviance.family_rows import FamilyRows
from snapml.estimators.deviance.generalized_linear import GeneralizedLinearRegressor
from snapml.estimators.deviance.regressors import (
    GammaRegressor,
    NegativeBinomialRegressor,
    PoissonRegressor,
    TweedieRegressor,
)
from snapml.problems import Penalty
from snapml.searches.shared.fold_rows import take_rows
from snapml.searches.shared.models import must_fit_alone, rule_of
from snapml.searches.shared.strengths import Found
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.plan import choice
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["FAMILIES", "can_share_family", "follow_penalties", "solve_path_of_family"]

FAMILIES = (
    PoissonRegressor,
    GammaRegressor,
    TweedieRegressor,
    NegativeBinomialRegressor,
    GeneralizedLinearRegressor,
)
"""What these functions know; their subclasses are fitted one by one."""


def can_share_family(estimator: Any, matrix: Matrix | None) -> bool:
    """Return whether a fit can start from others of its fold that differ in alpha.

    Parameters
    ----------
    estimator : one of `FAMILIES`
        With its parameters.
    matrix : Matrix or None
        The rows; None where they are to be judged later.

    Returns
    -------
    bool
        False also where the parameters are not as described: an ordinary fit says what is wrong.
    """
    if not isinstance(matrix, DenseMatrix | CompressedMatrix | None):
        return False
    if estimator.device_ids is not None or must_fit_alone(estimator) or estimator.alpha is None:
        return False
    if isinstance(estimator, NegativeBinomialRegressor) and isinstance(estimator.theta, str):
        return False  # of each model another, which is part of the fit
    try:
        estimator._family()
        checked_strength(estimator.alpha, estimator.l1_ratio)
        rule_of(estimator)
        return estimator._checked_solver() == "auto"
    except (TypeError, ValueError):
        return False


def solve_path_of_family(
    estimators: list[Any],
    rows: np.ndarray,
    matrix: Matrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
) -> list[Found | None]:
    """Fit regressors of a family that differ in alpha on one fold.

    Parameters
    ----------
    estimators : list of `FAMILIES`
        From strong penalties to weak ones; `can_share_family` holds.
    rows : ndarray
        Numbers of the fold's rows.
    matrix : Matrix
        All rows.
    y : ndarray of shape (n_samples,)
        Their targets.
    sample_weight : ndarray of shape (n_samples,) or None
        Their weights.

    Returns
    -------
    list of Found or None
        None where a fit has not converged: an ordinary one says so.

    Raises
    ------
    ValueError
        If the fold has targets that the family has not, or numbers overflow.
    """
    first, own = estimators[0], None if sample_weight is None else sample_weight[rows]
    if own is not None and not own.any():
        return [None] * len(estimators)
    family, targets = first._family(), y[rows].astype(np.float64)
    family.check(targets, alone)
    data = mean_dataset(take_rows(matrix, rows), targets, own)
    has_intercept = bool(first.fit_intercept)
    offsets = np.zeros(len(rows))
    posed = FamilyRows.of(family, data, targets, offsets, alone, has_intercept=has_intercept)
    penalties = [
        penalty_of(float(e.alpha), float(e.l1_ratio), is_positive=False) for e in estimators
    ]
    settings = Settings("auto", first.n_threads, first.deterministic, first._seed())
    rule = rule_of(first).at_resolution_of(data.labels.dtype)
    found = follow_penalties(posed, penalties, rule, settings)
    return [(*posed.model(one), one.n_iter) if one.has_converged else None for one in found]


def follow_penalties(
    rows: FamilyRows, penalties: list[Penalty], rule: StoppingRule, settings: Settings
) -> list[FitResult]:
    """Minimise with one penalty after the other, each from the last one's model.

    Parameters
    ----------
    rows : FamilyRows
        What to fit to.
    penalties : list of Penalty
        From strong to weak.
    rule : StoppingRule
        Tolerance and most reads of the data, of each fit.
    settings : Settings
        Which devices or threads.

    Returns
    -------
    list of FitResult
        One per penalty, up to the one whose fit the rule's control has ended.
    """
    shards, problem = SerialCommunicator(), rows.problem(penalties[0])
    with_norms = [each for each in penalties if not each.is_smooth]
    found: list[FitResult] = []
    if with_norms:  # all but those of no strength, which come last
        found = choice.fit_sequence(problem, with_norms, rows.dataset, shards, rule, settings)
    else:
        path = choice.small_path(problem, penalties, rows.dataset, shards, rule, settings)
        if path is not None:
            return path
    for penalty in penalties[len(with_norms) :]:
        if rule.control.reason:
            break
        start = Start(found[-1].point(1.0)) if found else None
        own = rows.problem(penalty)
        found.append(choice.fit(own, rows.dataset, shards, rule, settings, start))
    return found
