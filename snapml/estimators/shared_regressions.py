"""Regressions that share their work in each fold: all penalties of one read, or of one path.

`Ridge` with few columns or rows: one Gram matrix of a fold for all alphas, the fold being a weight
of each row. `Lasso` and `ElasticNet`: from strong penalties to weak ones, each from the one before,
on the fold's rows, which are copied once for all of them.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_scalar

from snapml._validation import check_positive
from snapml.data import CompressedMatrix, DenseMatrix, Matrix
from snapml.estimators.coordinate_regression import (
    ElasticNet,
    Lasso,
    mean_dataset,
    solve_path,
)
from snapml.estimators.regularization_path import take_rows
from snapml.estimators.ridge import Ridge
from snapml.estimators.shared_models import SharedFit, SharedModel, is_single_work
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.least_squares import is_direct, solve_least_squares
from snapml.solvers.many_chunks import many_products
from snapml.solvers.many_rows import PANEL
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import limit_blas_threads

__all__ = ["REGRESSIONS", "can_share_regression", "solve_regressions"]

REGRESSIONS = (Ridge, Lasso, ElasticNet)
"""What these functions know; their subclasses are fitted one by one."""


_Found = tuple[np.ndarray, float, int]  # coefficients, intercept and reads of the data


def can_share_regression(estimator: Any, matrix: Matrix | None) -> bool:
    """Return whether a fit can share its work with others that differ in alpha.

    Parameters
    ----------
    estimator : Ridge, Lasso or ElasticNet
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
    if estimator.device_ids is not None or is_single_work(estimator):
        return False
    try:
        if not check_positive("alpha", estimator.alpha) < math.inf:
            return False
        _rule(estimator)
        if type(estimator) is not Ridge:
            estimator._penalty()
            return estimator.precompute is False
        estimator._make_problem()
    except (TypeError, ValueError, NotImplementedError):
        return False
    has_other_wishes = estimator.positive or estimator.solver in ("sdca", "pqn")
    return not has_other_wishes and (matrix is None or is_direct(matrix.shape))


def solve_regressions(
    fits: list[SharedFit],
    folds: list[np.ndarray],
    matrix: Matrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    is_over: Callable[[], bool],
    kept: list[np.ndarray] | None,
) -> list[SharedModel | None]:
    """Fit regressions, those that differ in alpha together.

    Parameters
    ----------
    fits : list of SharedFit
        What to fit; `can_share_regression` holds for all.
    folds : list of ndarray
        Numbers of the rows of each fold.
    matrix : DenseMatrix or CompressedMatrix
        All rows, finite.
    y : ndarray of shape (n_samples,)
        Their targets.
    sample_weight : ndarray of shape (n_samples,) or None
        Their weights.
    is_over : callable
        Asked before each group: True ends all that are left.
    kept : list of ndarray or None
        Sorted numbers of the rows whose margins each fold's models keep; None means all.

    Returns
    -------
    list of SharedModel or None
        In the order of `fits`; None for those that have to be fitted one by one.
    """
    models: list[SharedModel | None] = [None] * len(fits)
    groups: dict[tuple[int, str], list[int]] = {}
    for at, fit in enumerate(fits):
        others = {k: v for k, v in fit.estimator.get_params().items() if k != "alpha"}
        groups.setdefault((fit.fold, f"{type(fit.estimator)}{others}"), []).append(at)
    for (fold, _), members in groups.items():
        if is_over():
            break
        members.sort(key=lambda at: -fits[at].estimator.alpha)
        estimators = [fits[at].estimator for at in members]
        rows = None if kept is None else kept[fold]
        solve = _ridges if type(estimators[0]) is Ridge else _path
        try:
            found = solve(estimators, folds[fold], matrix, y, sample_weight)
        except (ValueError, NonFiniteError):
            continue  # ordinary fits say what is wrong
        shared = _with_margins(found, matrix, rows, estimators[0].n_threads)
        for at, model in zip(members, shared, strict=True):
            models[at] = model
    return models


def _rule(estimator: Any) -> StoppingRule:
    """Check the bounds of a fit, and return them: nobody looks on, and nothing ends it early."""
    tol = check_positive("tol", estimator.tol, allow_zero=True)
    max_iter = sys.maxsize if estimator.max_iter is None else estimator.max_iter
    check_scalar(max_iter, "max_iter", numbers.Integral, min_val=0)
    return StoppingRule(tol, int(max_iter))


def _with_margins(
    found: list[_Found | None], matrix: Matrix, rows: np.ndarray | None, n_threads: int | None
) -> list[SharedModel | None]:
    """Return models with their margins on some rows, of one read of these."""
    able = [one for one in found if one is not None]
    vectors = np.zeros((matrix.shape[1] + 1, -(-len(able) // PANEL) * PANEL), dtype=matrix.dtype)
    for k, (coef, intercept, _) in enumerate(able):
        vectors[:-1, k], vectors[-1, k] = coef, intercept
    products = many_products(matrix if rows is None else take_rows(matrix, rows), n_threads)
    with limit_blas_threads(products.n_threads):
        margins = iter(products.margins(vectors).T.copy() if able else ())
    return [
        None if one is None else SharedModel(*one[:2], next(margins), one[2], rows=rows)
        for one in found
    ]


def _ridges(
    estimators: list[Any],
    rows: np.ndarray,
    matrix: Matrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
) -> list[_Found | None]:
    """Return coefficients, intercepts and reads of ridge regressions of one fold."""
    weights = np.bincount(rows, minlength=len(y)).astype(np.float64)
    if sample_weight is not None:
        weights *= sample_weight
    if not weights.any():
        return [None] * len(estimators)
    alphas = np.array([one.alpha for one in estimators], dtype=np.float64)
    result = solve_least_squares(
        matrix,
        np.repeat(np.asarray(y, dtype=np.float64)[:, None], len(alphas), axis=1),
        weights,
        bool(estimators[0].fit_intercept),
        alphas=alphas,
        tol=0.0,
        n_threads=estimators[0].n_threads,
    )
    is_finite = np.isfinite(result.coef).all(axis=1) & np.isfinite(result.objective)
    return [
        (result.coef[k], float(result.intercept[k]), 1) if is_finite[k] else None
        for k in range(len(alphas))
    ]


def _path(
    estimators: list[Any],
    rows: np.ndarray,
    matrix: Matrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
) -> list[_Found | None]:
    """Return coefficients, intercepts and reads along a path of one fold."""
    first = estimators[0]
    own = None if sample_weight is None else sample_weight[rows]
    if own is not None and not own.any():
        return [None] * len(estimators)
    data = mean_dataset(take_rows(matrix, rows), y[rows], own)
    results = solve_path(
        data,
        [one._penalty() for one in estimators],
        first._resolved(_rule(first), data.matrix),
        SerialCommunicator(),
        has_intercept=bool(first.fit_intercept),
        settings=first._settings(data.matrix),
    )
    return [
        (one.coef, float(one.intercept), int(one.n_iter)) if one.has_converged else None
        for one in results
    ]
