"""Huber's regression where the best scale is none: least absolute residuals, proven to be best.

Where a model meets so many targets that the scale of its residuals is 0, the losses are ``2 epsilon
|r_i|``. An interior point method gives that problem's model and its multipliers; these bound all
models with any scale where they are small enough (docs/algorithms.md, section 11.2).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapml.data import Dataset, DenseMatrix
from snapml.estimators.robust.joint_newton import JointFit, JointProblem, dual_value
from snapml.problems import Intercept, Penalty, Problem, Quantile
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import UNBOUNDED
from snapml.solvers.cpu_formulas import loss_quantity
from snapml.solvers.fit_settings import Settings
from snapml.solvers.interior_point import small_rows
from snapml.solvers.stopping import StoppingRule

__all__ = ["solve_without_scale"]

# Of the tolerance, so that what the multipliers lose by being made feasible has room.
_FINE = 0.1
# Columns of which a factor takes milliseconds.
_MOST_COLUMNS = 512


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
    has_intercept = problem.has_intercept
    intercept = Intercept.FREE if has_intercept else Intercept.NONE
    absolute = Problem(Quantile(0.5), intercept, 1.0, Penalty(0.0, 2.0 * problem.alpha))
    weights = 4.0 * problem.epsilon * problem.weights  # of half the absolute residuals
    matrix = DenseMatrix(np.subtract(problem.X, problem.means, dtype=np.float64))
    dataset = Dataset(matrix, problem.y, weights, 1.0)
    own = replace(rule, tol=_FINE * rule.tol, control=UNBOUNDED)
    ask = absolute, dataset, SerialCommunicator(), own, Settings()
    found = small_rows.solve(*ask) if matrix.shape[1] <= _MOST_COLUMNS else None
    if found is None or found.duals is None:
        return None
    states = np.asarray(found.duals, dtype=np.float64)
    slopes = weights * loss_quantity(absolute.loss, "dual", states, problem.y)
    bound = max(0.0, dual_value(problem, slopes))
    coef = np.asarray(found.coef, dtype=np.float64)
    return JointFit(coef, found.intercept - float(problem.means @ coef), bound, found.history)
