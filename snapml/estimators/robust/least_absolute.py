"""Huber's regression where the best scale is none: least absolute residuals, proven to be best.

Where a model meets so many targets that the scale of its residuals is 0, the losses are ``2 epsilon
|r_i|``. An interior point method gives that problem's model and its multipliers; these bound all
models with any scale where they are small enough (docs/algorithms.md, section 11.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from snapml.data import Dataset, DenseMatrix, Matrix
from snapml.estimators.robust.joint_newton import JointFit, JointProblem, dual_value
from snapml.problems import Intercept, Penalty, Problem, Quantile
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import UNBOUNDED
from snapml.solvers.cpu_formulas import loss_quantity
from snapml.solvers.fit_settings import Settings
from snapml.solvers.interior_point import small_rows
from snapml.solvers.stopping import StoppingRule

__all__ = [
    "FINE",
    "Rows",
    "absolute_dataset",
    "absolute_problem",
    "bound_of_any_scale",
    "solve_without_scale",
]

FINE = 0.1
"""Share of the tolerance that the fit of least absolute residuals is to meet."""
# Columns of which a factor takes milliseconds.
_MOST_COLUMNS = 512


@dataclass(frozen=True)
class Rows:
    """Rows in memory, and what is asked of a model of theirs.

    Attributes
    ----------
    X : ndarray or scipy.sparse.csr_matrix of shape (n_rows, n_columns)
        Finite numbers.
    y, weights : ndarray of shape (n_rows,), float64
        Targets, whose mean is about 0 where there is an intercept, and weights.
    epsilon, alpha : float
        As of the estimator; alpha above 0.
    has_intercept : bool
        Whether a model has one.
    """

    X: Any
    y: np.ndarray
    weights: np.ndarray
    epsilon: float
    alpha: float
    has_intercept: bool


def absolute_problem(alpha: float, *, has_intercept: bool) -> Problem:
    """Return the problem of Huber's objective with a scale of none.

    Parameters
    ----------
    alpha : float
        Strength of the penalty.
    has_intercept : bool
        Whether there is one, without a penalty.

    Returns
    -------
    Problem
        Of half the absolute residuals.
    """
    intercept = Intercept.FREE if has_intercept else Intercept.NONE
    return Problem(Quantile(0.5), intercept, 1.0, Penalty(0.0, 2.0 * alpha))


def absolute_dataset(matrix: Matrix, y: np.ndarray, weights: np.ndarray, epsilon: float) -> Dataset:
    """Return the rows of `absolute_problem`, whose losses are twice epsilon the residuals.

    Parameters
    ----------
    matrix : Matrix
        The rows.
    y, weights : ndarray of shape (n_rows,), float64
        Targets, and weights of the rows.
    epsilon : float
        As of the estimator.

    Returns
    -------
    Dataset
        With targets and weights in the type of the matrix.
    """
    dtype = matrix.dtype
    return Dataset(matrix, y.astype(dtype), (4.0 * epsilon * weights).astype(dtype), 1.0)


def bound_of_any_scale(rows: Rows, residuals: np.ndarray, coef: np.ndarray) -> float:
    """Return what no model and scale have less than, by multipliers of a model that meets targets.

    Those of targets that it misses are at their limits. The others are the smallest ones that
    balance them and the penalty: a Gram matrix of the rows that are met.

    Parameters
    ----------
    rows : Rows
        What the model is of.
    residuals : ndarray of shape (n_rows,), float64
        What it leaves of the targets.
    coef : ndarray of shape (n_columns,), float64
        Its coefficients.

    Returns
    -------
    float
        -inf where these multipliers ask for a scale.
    """
    X, s, limit = rows.X, rows.weights, 2.0 * rows.epsilon * rows.weights
    size = math.sqrt(float(s @ rows.y**2) / float(s.sum()))
    # What counts as met decides how good the bound is, not whether it is one.
    is_met = abs(residuals) <= math.sqrt(float(np.finfo(rows.X.dtype).eps)) * size
    u = np.where(is_met, 0.0, limit * np.sign(residuals))
    met, shares = X[is_met], s[is_met]
    wanted = 2.0 * rows.alpha * coef - X.T @ u
    if rows.has_intercept:  # a column of ones
        sums = np.asarray(met.T @ shares)
        wanted = np.append(wanted, -u.sum())
    scaled = met.multiply(shares[:, None]).tocsr() if issparse(met) else met * shares[:, None]
    gram = scaled.T @ met
    gram = gram.toarray() if issparse(gram) else np.asarray(gram)
    if rows.has_intercept:
        gram = np.block([[gram, sums[:, None]], [sums[None, :], np.full((1, 1), shares.sum())]])
    if not (np.isfinite(gram).all() and np.isfinite(wanted).all()):
        return -math.inf
    factors = np.linalg.lstsq(gram.astype(np.float64), wanted, rcond=None)[0]
    u[is_met] = shares * (met @ factors[: len(coef)] + factors[len(coef) :].sum())
    if rows.has_intercept:  # to the last bit, by those that have room
        room = float(shares.sum())
        if room == 0.0 and u.sum() != 0.0:
            return -math.inf
        u[is_met] -= shares * (u.sum() / room if room > 0.0 else 0.0)
    is_within = bool((abs(u) <= limit).all())
    has_weight = s > 0.0
    if not is_within or u[has_weight] ** 2 @ (0.25 / s[has_weight]) > s.sum():
        return -math.inf
    image = np.asarray(X.T @ u, dtype=np.float64)
    return float(u @ rows.y - image @ image / (4.0 * rows.alpha))


def solve_without_scale(problem: JointProblem, rule: StoppingRule) -> JointFit | None:
    """Minimise the objective with a scale of none, and bound it with any.

    Parameters
    ----------
    problem : JointProblem
        Rows and penalty.
    rule : StoppingRule
        Share of the objective that the gap may be.

    Returns
    -------
    JointFit or None
        None where the rows are many, or the method does not end.
    """
    absolute = absolute_problem(problem.alpha, has_intercept=problem.has_intercept)
    matrix = DenseMatrix(np.subtract(problem.X, problem.means, dtype=np.float64))
    dataset = absolute_dataset(matrix, problem.y, problem.weights, problem.epsilon)
    own = replace(rule, tol=FINE * rule.tol, control=UNBOUNDED)
    ask = absolute, dataset, SerialCommunicator(), own, Settings()
    found = small_rows.solve(*ask) if matrix.shape[1] <= _MOST_COLUMNS else None
    if found is None or found.duals is None:
        return None
    states = np.asarray(found.duals, dtype=np.float64)
    slopes = dataset.row_weights * loss_quantity(absolute.loss, "dual", states, problem.y)
    bound = max(0.0, dual_value(problem, slopes))
    coef = np.asarray(found.coef, dtype=np.float64)
    return JointFit(coef, found.intercept - float(problem.means @ coef), bound, found.history)
