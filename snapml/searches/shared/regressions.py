"""Regressions that share their work in each fold: all penalties of one read, or of one path.

`Ridge` and `RidgeClassifier` with few columns or rows: one Gram matrix of a fold for all alphas,
the fold being a weight of each row. `Lasso` and `ElasticNet`: from strong penalties to weak ones,
each from the one before, on the fold's rows, which are copied once for all of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from snapml._validation import check_positive, distinct
from snapml.data import CompressedMatrix, DenseMatrix, Matrix
from snapml.estimators.coordinate_regression import (
    ElasticNet,
    Lasso,
    mean_dataset,
    solve_path,
)
from snapml.estimators.ridge import Ridge, RidgeClassifier
from snapml.searches.shared.fold_rows import take_rows
from snapml.searches.shared.models import must_fit_alone, rule_of
from snapml.searches.shared.strengths import FoldSolver, Found
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.least_squares.few_columns import solve_few_columns
from snapml.solvers.least_squares.least_squares import is_direct, solve_least_squares

__all__ = ["REGRESSIONS", "can_share_regression", "regression_solver"]

# Targets times rows of one solve, as float64: 256 MB.
_MOST_TARGETS = 1 << 25

REGRESSIONS = (Ridge, RidgeClassifier, Lasso, ElasticNet)
"""What these functions know; their subclasses are fitted one by one."""


def can_share_regression(estimator: Any, matrix: Matrix | None) -> bool:
    """Return whether a fit can share its work with others that differ in alpha.

    Parameters
    ----------
    estimator : one of `REGRESSIONS`
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
    if estimator.device_ids is not None or must_fit_alone(estimator):
        return False
    try:
        if not check_positive("alpha", estimator.alpha) < math.inf:
            return False
        rule_of(estimator)
        if type(estimator) in (Lasso, ElasticNet):
            estimator._penalty()
            return estimator.precompute is False
        estimator._make_problem()
    except (TypeError, ValueError, NotImplementedError):
        return False
    has_other_wishes = estimator.positive or estimator.solver in ("sdca", "pqn")
    return not has_other_wishes and (matrix is None or is_direct(matrix.shape))


def regression_solver(estimator: Any) -> FoldSolver:
    """Return what solves regressions of one fold that differ in alpha.

    Parameters
    ----------
    estimator : one of `REGRESSIONS`
        Like the others.

    Returns
    -------
    FoldSolver
        Of these.
    """
    return _ridges if type(estimator) in (Ridge, RidgeClassifier) else _path


def _ridges(
    estimators: list[Any],
    rows: np.ndarray,
    matrix: Matrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
) -> list[Found | None]:
    """Return coefficients, intercepts and reads of ridge regressions of one fold."""
    first = estimators[0]
    weights = np.bincount(rows, minlength=len(y)).astype(np.float64)
    if sample_weight is not None:
        weights *= sample_weight
    if isinstance(first, RidgeClassifier):
        classes = distinct(y)
        if len(distinct(y[rows])) < len(classes):
            return [None] * len(estimators)  # other targets
        weights[rows] *= compute_sample_weight(first.class_weight, y[rows])
        chosen = classes[1:] if len(classes) == 2 else classes
        targets = np.where(y[:, None] == chosen, 1.0, -1.0)
    else:
        targets = np.asarray(y, dtype=np.float64)[:, None]
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        return [None] * len(estimators)
    step = max(1, _MOST_TARGETS // targets.size)
    found: list[Found | None] = []
    for begin in range(0, len(estimators), step):
        found += _ridges_together(estimators[begin : begin + step], matrix, targets, weights)
    return found


def _ridges_together(
    estimators: list[Any], matrix: Matrix, targets: np.ndarray, weights: np.ndarray
) -> list[Found | None]:
    """Return what `_ridges` does, of one Gram matrix."""
    alphas = np.array([one.alpha for one in estimators], dtype=np.float64)
    n_targets = targets.shape[1]
    has_intercept, n_threads = bool(estimators[0].fit_intercept), estimators[0].n_threads
    strengths = np.repeat(alphas, n_targets)
    result = solve_few_columns(matrix, targets, weights, has_intercept, strengths, None, n_threads)
    if result is None:
        result = solve_least_squares(
            matrix,
            np.tile(targets, len(alphas)),
            weights,
            has_intercept,
            alphas=strengths,
            tol=0.0,
            n_threads=n_threads,
        )
    is_finite = np.isfinite(result.coef).all(axis=1) & np.isfinite(result.objective)
    models: list[Found | None] = []
    for first in range(0, len(is_finite), n_targets):
        own: Any = first if n_targets == 1 else slice(first, first + n_targets)
        model = result.coef[own], result.intercept[own], 1
        models.append(model if np.all(is_finite[own]) else None)
    return models


def _path(
    estimators: list[Any],
    rows: np.ndarray,
    matrix: Matrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
) -> list[Found | None]:
    """Return coefficients, intercepts and reads along a path of one fold."""
    first = estimators[0]
    own = None if sample_weight is None else sample_weight[rows]
    if own is not None and not own.any():
        return [None] * len(estimators)
    data = mean_dataset(take_rows(matrix, rows), y[rows], own)
    results = solve_path(
        data,
        [one._penalty() for one in estimators],
        first._resolved(rule_of(first), data.matrix),
        SerialCommunicator(),
        has_intercept=bool(first.fit_intercept),
        settings=first._settings(data.matrix),
    )
    return [
        (one.coef, float(one.intercept), int(one.n_iter)) if one.has_converged else None
        for one in results
    ]
