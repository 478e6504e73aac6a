"""Newton's method for Huber's regression in model and scale together, where the rows are few.

With the best scale for its residuals put in, the objective is a convex function f of the model
alone (docs/algorithms.md, section 11.2). Its second derivatives are those of the rows within
epsilon scales, less what the scale takes up; a few steps of which rows change replace a fit for
each of several scales.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from snapml._lazy import cached_property
from snapml.estimators.robust.concomitant_scale import Rows, dual_value, scale_of

__all__ = ["JointFit", "JointProblem", "solve_jointly"]

# Of the objective: what a step must promise to be taken, and to be near enough for a certificate;
# what of its promise it must keep, and its least length.
_NOTHING, _NEAR = 1e-15, 1e-4
_TIGHT = 1e-10  # a gap
_KEPT, _SHORTEST = 1e-4, 1e-6
# Of a step, from which on the next trusts f's own curvature more; after a shorter one those that
# follow have this share of the parabola's each time, down to the least.
_TRUSTED, _RELIEF, _LEAST_CAUTION = 0.5, 0.1, 0.005
# Share of the rows that have changed sides, from which on the Gram matrix is made anew.
_MANY = 0.3


@dataclass(frozen=True)
class JointProblem(Rows):
    """Dense rows, copied as float64, less their means and in units of their columns' sizes.

    Joint vectors have the intercept last, where there is one.
    """

    @cached_property
    def means(self) -> np.ndarray:
        """Of the columns, 0 without an intercept."""
        if not self.has_intercept:
            return np.zeros(self.X.shape[1])
        return np.asarray(self.weights @ self.X / self.total, dtype=np.float64)

    @cached_property
    def Z(self) -> np.ndarray:
        """The columns less their means, in their units, and one of ones for the intercept."""
        n_columns = self.X.shape[1]
        made = np.ones((len(self.X), n_columns + self.has_intercept))
        np.subtract(self.X, self.means, out=made[:, :n_columns])
        made[:, :n_columns] /= self.units
        return made

    @cached_property
    def units(self) -> np.ndarray:
        """Sizes of the columns less their means; 1 of those that are constant."""
        centred = self.X - self.means
        sizes = np.sqrt(self.weights @ np.square(centred, out=centred) / self.total)
        return np.where(sizes > 0.0, sizes, 1.0)

    @cached_property
    def ridge(self) -> np.ndarray:
        """Curvature of the penalty along each joint coefficient."""
        curvature = 2.0 * self.alpha / np.square(self.units)
        return np.append(curvature, 0.0) if self.has_intercept else curvature

    def cost_of(self, multipliers: np.ndarray) -> float:
        """Return the penalty's conjugate, from columns that are not far from zero."""
        penalised = slice(None, -1) if self.has_intercept else slice(None)
        image = (multipliers @ self.Z)[penalised]
        return 0.5 * float(image**2 @ (1.0 / self.ridge[penalised]))

    def joint(self, coef: np.ndarray, intercept: float) -> np.ndarray:
        """Return a model as the solver takes it."""
        scaled = coef * self.units
        return np.append(scaled, intercept + self.means @ coef) if self.has_intercept else scaled

    def model(self, joint: np.ndarray) -> tuple[np.ndarray, float]:
        """Return coefficients and intercept of a joint vector."""
        if not self.has_intercept:
            return joint / self.units, 0.0
        coef = joint[:-1] / self.units
        return coef, float(joint[-1] - self.means @ coef)


@dataclass(frozen=True)
class _Point:
    """A model, the best scale for its residuals, the objective there, and the step's length."""

    joint: np.ndarray
    residuals: np.ndarray
    scale: float
    objective: float
    size: float

    @staticmethod
    def at(
        problem: JointProblem, joint: np.ndarray, residuals: np.ndarray, size: float = 1.0
    ) -> _Point:
        """Find the scale."""
        scale = scale_of(residuals, problem.weights, problem.epsilon, lambda own: own)
        sizes, epsilon = abs(residuals), problem.epsilon
        losses = problem.total * scale + 0.5 * problem.ridge @ joint**2
        if scale > 0.0:
            near = np.minimum(sizes, epsilon * scale)
            losses += problem.weights @ (near * (2.0 * sizes - near)) / scale
        else:
            losses += 2.0 * epsilon * (problem.weights @ sizes)
        return _Point(joint, residuals, scale, float(losses), size)


@dataclass(frozen=True)
class JointFit:
    """What was found.

    Attributes
    ----------
    coef : ndarray of shape (n_columns,), float64
        w.
    intercept : float
        b.
    bound : float
        No model and scale have a smaller objective; 0 at least, which is no news.
    history : list of dict
        An entry per step, as of other solvers.
    """

    coef: np.ndarray
    intercept: float
    bound: float
    history: list[dict[str, Any]]


def solve_jointly(
    problem: JointProblem,
    start: np.ndarray,
    max_iter: int,
    ends: Callable[[np.ndarray, float, float], bool],
) -> JointFit | None:
    """Minimise Huber's objective over model and scale.

    Parameters
    ----------
    problem : JointProblem
        Rows and penalty.
    start : ndarray of shape (n_joint,)
        Joint vector to begin at.
    max_iter : int
        Most steps.
    ends : callable
        Gets the joint vector, its gap and its objective after each step; returns whether to stop.

    Returns
    -------
    JointFit or None
        None where no scale is the best one, or numbers have overflowed.
    """
    began, history = time.monotonic(), list[dict[str, Any]]()
    bound, gram, n_short, caution, relief = -math.inf, _NearGram(problem), 0, 1.0, 0.0
    point = _Point.at(problem, start, problem.y - problem.Z @ start)
    while point.scale > 0.0 and math.isfinite(point.objective):
        slopes = _slopes(problem, point)
        gradient = problem.ridge * point.joint - problem.Z.T @ slopes
        step = _solved(_between(problem, point, gram, caution), gradient)
        slope = 0.0 if step is None else float(gradient @ step)
        n_short += not -slope > _NOTHING * point.objective
        is_last = len(history) == max_iter
        if is_last or -slope <= _NEAR * point.objective:
            bound = max(bound, dual_value(problem, slopes))
        gap = max(0.0, point.objective - bound) if bound > -math.inf else math.nan
        # The gap is divided by the penalty's curvature, the promise by the rows': one step more.
        is_last |= n_short > 1 or (n_short == 1 and gap <= _TIGHT * point.objective)
        spent = time.monotonic() - began
        entry = {"epoch": len(history), "time_s": spent, "running_gap": -0.5 * slope, "gap": gap}
        history.append(entry | {"objective": point.objective})
        is_last |= step is None or ends(point.joint, gap, point.objective)
        found = None if is_last or step is None else _along(problem, point, step, slope)
        if found is None and not is_last and caution < 1.0:
            caution, relief = 1.0, _RELIEF
            continue
        if found is None:
            if bound == -math.inf:
                bound = dual_value(problem, slopes)
            return JointFit(*problem.model(point.joint), max(0.0, bound), history)
        if found.size < _TRUSTED:
            caution, relief = 1.0, _RELIEF
        else:
            caution = caution * relief if caution * relief >= _LEAST_CAUTION else 0.0
        point = found
    return None


def _slopes(problem: JointProblem, point: _Point) -> np.ndarray:
    """Return minus the losses' derivatives by the margins."""
    limit = problem.epsilon * point.scale
    near = np.clip(point.residuals, -limit, limit)
    return np.asarray(2.0 / point.scale * problem.weights * near)


class _NearGram:
    """Weighted Gram matrix of the rows within epsilon scales, kept from step to step."""

    def __init__(self, problem: JointProblem) -> None:
        self._problem = problem
        n_joint = problem.Z.shape[1]
        self._near = np.zeros(len(problem.y), dtype=bool)
        self._gram = np.zeros((n_joint, n_joint))

    def of(self, near: np.ndarray) -> np.ndarray:
        """Return it for these rows."""
        changed = near != self._near
        if changed.sum() > _MANY * max(1, near.sum()):
            self._gram = self._sum(near)
        else:
            self._gram = self._gram + self._sum(changed & near) - self._sum(changed & ~near)
        self._near = near
        return self._gram

    def _sum(self, rows: np.ndarray) -> np.ndarray:
        Z = self._problem.Z if rows.all() else self._problem.Z[rows]
        return _gram_of(Z, self._problem.weights[rows])


def _gram_of(Z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return ``sum_i s_i z_i z_i^T``."""
    if weights.size and (weights != weights[0]).any():
        Z = Z * np.sqrt(weights)[:, None]
        return np.asarray(Z.T @ Z)
    return np.asarray(Z.T @ Z) * (weights[0] if weights.size else 0.0)


def _hessian(problem: JointProblem, point: _Point, gram: _NearGram) -> np.ndarray:
    """Return f's: of rows near the model, less what the best scale takes, and the penalty's."""
    near = abs(point.residuals) < problem.epsilon * point.scale
    weighted = np.where(near, problem.weights * point.residuals, 0.0)
    mixed = problem.Z.T @ weighted
    own = float(weighted @ point.residuals)
    made = gram.of(near) - np.outer(mixed, mixed / own if own > 0.0 else 0.0 * mixed)
    made *= 2.0 / point.scale
    made[np.diag_indices_from(made)] += problem.ridge
    return np.asarray(made)


def _between(problem: JointProblem, point: _Point, gram: _NearGram, caution: float) -> np.ndarray:
    """Return f's Hessian, or as much as the caution asks for of the parabola's."""
    if caution == 0.0:
        return _hessian(problem, point, gram)
    if caution == 1.0:
        return _majorant(problem, point)
    own, above = _hessian(problem, point, gram), _majorant(problem, point)
    return own + caution * (above - own)


def _majorant(problem: JointProblem, point: _Point) -> np.ndarray:
    """Return the Hessian of a parabola above f that touches it here, of all rows.

    Where every row of some column is far from the model, f's own says nothing of that column.
    """
    limit = problem.epsilon * point.scale
    far = np.maximum(abs(point.residuals), limit) / limit
    made = _gram_of(problem.Z, problem.weights / far)
    made *= 2.0 / point.scale
    made[np.diag_indices_from(made)] += problem.ridge
    return made


def _solved(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray | None:
    """Return the step to the minimum of a parabola; None where rounding leaves none."""
    shift = 0.0
    while shift <= 1e-4:
        try:
            factor = cho_factor(hessian, check_finite=False)
        except LinAlgError:
            more = max(1e-14, 100.0 * shift) - shift
            hessian[np.diag_indices_from(hessian)] *= 1.0 + more
            shift += more
            continue
        step = -cho_solve(factor, gradient, check_finite=False)
        return np.asarray(step) if np.isfinite(step).all() else None
    return None


def _along(problem: JointProblem, point: _Point, step: np.ndarray, slope: float) -> _Point | None:
    """Return a point along a step that keeps a part of what the slope promises, if there is one."""
    change, size = problem.Z @ step, 1.0
    rounding = 4.0 * float(np.finfo(np.float64).eps) * point.objective
    while size >= _SHORTEST:
        joint, residuals = point.joint + size * step, point.residuals - size * change
        found = _Point.at(problem, joint, residuals, size)
        if found.objective <= point.objective + _KEPT * size * slope + rounding:
            return found
        size *= 0.5
    return None
