"""Huber's regression where the best scale is none: least absolute residuals, proven to be best.

Where a model meets so many targets that the scale of its residuals is 0, the losses are ``2 epsilon
|r_i|``. An interior point method gives that problem's model and its multipliers; these bound all
models with any scale where they are small enough (docs/algorithms.md, section 11.2).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.sparse import issparse

from snapml.data import Dataset, DenseMatrix, Matrix
from snapml.estimators.robust.concomitant_scale import Rows, dual_value
from snapml.estimators.robust.joint_newton import JointFit, JointProblem
from snapml.problems import Intercept, Penalty, Problem, Quantile
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import UNBOUNDED
from snapml.solvers.cpu_formulas import loss_quantity
from snapml.solvers.fit_settings import Settings
from snapml.solvers.interior_point import small_rows
from snapml.solvers.stopping import StoppingRule

__all__ = [
    "FINE",
    "absolute_dataset",
    "absolute_problem",
    "bound_of_any_scale",
    "solve_without_scale",
]

FINE = 0.1
"""Share of the tolerance that the fit of least absolute residuals is to meet."""
# Columns of which a factor takes milliseconds.
_MOST_COLUMNS = 512


def absolute_problem(rows: Rows) -> Problem:
    """Return the problem of Huber's objective with a scale of none.

    Parameters
    ----------
    rows : Rows
        What its models are of.

    Returns
    -------
    Problem
        Of half the absolute residuals.
    """
    intercept = Intercept.FREE if rows.has_intercept else Intercept.NONE
    return Problem(Quantile(0.5), intercept, 1.0, Penalty(0.0, 2.0 * rows.alpha))


def absolute_dataset(matrix: Matrix, rows: Rows) -> Dataset:
    """Return the rows of `absolute_problem`, whose losses are twice epsilon the residuals.

    Parameters
    ----------
    matrix : Matrix
        The rows, or the same less a constant for each column where there is an intercept.
    rows : Rows
        Targets and weights.

    Returns
    -------
    Dataset
        With targets and weights in the type of the matrix.
    """
    weights = (4.0 * rows.epsilon * rows.weights).astype(matrix.dtype)
    return Dataset(matrix, rows.y.astype(matrix.dtype), weights, 1.0)


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
        Far from the objective where these multipliers ask for a scale.
    """
    X, s = rows.X, rows.weights
    size = math.sqrt(float(s @ rows.y**2) / rows.total)
    # What counts as met decides how good the bound is, not whether it is one.
    is_met = abs(residuals) <= math.sqrt(float(np.finfo(X.dtype).eps)) * size
    u = np.where(is_met, 0.0, 2.0 * rows.epsilon * s * np.sign(residuals))
    met, shares = X[is_met], s[is_met]
    wanted = 2.0 * rows.alpha * coef - X.T @ u
    scaled = met.multiply(shares[:, None]).tocsr() if issparse(met) else met * shares[:, None]
    gram = scaled.T @ met
    gram = gram.toarray() if issparse(gram) else gram
    if rows.has_intercept:  # a column of ones
        sums = np.asarray(met.T @ shares)[:, None]
        gram = np.block([[gram, sums], [sums.T, np.full((1, 1), shares.sum())]])
        wanted = np.append(wanted, -u.sum())
    factors = np.linalg.lstsq(gram, wanted, rcond=None)[0]
    u[is_met] = shares * (met @ factors[: len(coef)] + factors[len(coef) :].sum())
    return dual_value(rows, u)


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
    absolute = absolute_problem(problem)
    matrix = DenseMatrix(np.subtract(problem.X, problem.means, dtype=np.float64))
    dataset = absolute_dataset(matrix, problem)
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
