"""Spark's objectives as problems of the solvers, and their models back in Spark's terms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from snapml.distributed.spark.tasks.request import FitOutcome, FitRequest
from snapml.distributed.spark.tasks.targets import Targets
from snapml.problems import Intercept, Penalty, Problem
from snapml.solvers.result import FitResult

__all__ = ["Columns", "outcome_of", "problem_of"]

# Without a penalty the hinge loss has no unique minimum, and no certificate.
_LEAST_HINGE_PENALTY = 1e-6


@dataclass(frozen=True)
class Columns:
    """What all tasks have agreed on about the DataFrame's columns.

    Attributes
    ----------
    n_classes : int
        Of the labels; 0 where they are numbers.
    scale : ndarray of shape (n_features,) or None
        Factors that the columns were multiplied by; None where they stay.
    label_scale : float
        Standard deviation of the labels, or their mean's size where that is zero.
    weight_sum : float
        Of all rows.
    n_samples : int
        Rows of all tasks.
    """

    n_classes: int
    scale: np.ndarray | None
    label_scale: float
    weight_sum: float
    n_samples: int


def problem_of(
    request: FitRequest, number: int, columns: Columns, targets: Targets, mean_curvature: float
) -> Problem:
    """Return the problem of one pair of penalties.

    Parameters
    ----------
    request : FitRequest
        What to fit.
    number : int
        Of the pair.
    columns : Columns
        Of the data.
    targets : Targets
        Whose loss it is.
    mean_curvature : float
        `Targets.mean_curvature` of the model: a factor of the penalty.

    Returns
    -------
    Problem
        Over rows whose weights add up to 1.
    """
    strength = request.reg_params[number] * mean_curvature
    share = request.elastic_net_params[number]
    l1, l2 = strength * share, strength * (1.0 - share)
    if request.model == "linear":
        # Spark divides labels by their deviation before it applies the penalty, as glmnet does:
        # back in the labels' units, the squares are divided by it once, the absolute values never.
        l2 /= columns.label_scale
    if request.model == "svm":
        l2 = max(l2, _LEAST_HINGE_PENALTY)
    intercept = Intercept.FREE if request.fit_intercept else Intercept.NONE
    return Problem(targets.loss, intercept, 1.0, Penalty(l1, l2))


def outcome_of(
    problem: Problem,
    result: FitResult,
    columns: Columns,
    targets: Targets,
    mean_curvature: float,
) -> FitOutcome:
    """Return a fitted model in the units of the DataFrame's columns.

    Parameters
    ----------
    problem : Problem
        What was solved.
    result : FitResult
        The model of the columns as they were scaled.
    columns : Columns
        Of the data.
    targets : Targets
        Of the rows.
    mean_curvature : float
        Of the model, as `problem_of` was given it.

    Returns
    -------
    FitOutcome
        The answer of the job.
    """
    coef = targets.sign * np.atleast_2d(result.coef).astype(np.float64) + 0.0  # no -0
    intercept = targets.sign * np.atleast_1d(result.intercept).astype(np.float64) + targets.level
    if columns.scale is not None:
        coef = coef * columns.scale
    if problem.loss.is_joint:
        # What all classes share changes no probability; Spark's choice is that it is zero.
        intercept = intercept - intercept.mean()
        if problem.penalty.l1 == problem.penalty.l2 == 0.0:
            coef = coef - coef.mean(axis=0)
    certified = [entry["objective"] for entry in result.history]
    return FitOutcome(
        coef=coef,
        intercept=intercept,
        n_classes=columns.n_classes,
        objective=result.objective,
        gap=result.gap,
        n_iter=result.n_iter,
        has_converged=result.has_converged,
        solver=result.description,
        objective_history=[value for value in certified if not math.isnan(value)],
        weight_sum=columns.weight_sum,
        n_samples=columns.n_samples,
        mean_curvature=mean_curvature,
    )
