"""The quadratic model minimised on the columns themselves.

Coordinate descent finds the support. On a fixed one, with fixed signs, the model is smooth, and
conjugate gradients get ahead where descent crawls: at weak penalties and on collinear columns.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from snapml import _native
from snapml.problems import Intercept
from snapml.solvers.cpu_columns import CpuColumns
from snapml.solvers.cpu_formulas import penalty_value
from snapml.solvers.quadratic_model import Model, model_gap
from snapml.solvers.result import overflow_error

__all__ = ["Curved", "minimise_on_columns"]

_MOST_ROUNDS = 60
_MOST_MODEL_ROUNDS = 4  # of a model that the next Newton step replaces
_SWEEPS = 8  # of a round
_MOST_CONJUGATE_STEPS = 20  # of a round
_ENOUGH_CONJUGATE = 0.1  # of the residual that conjugate gradients may leave
_ENOUGH_OF_MODEL = 0.1  # of what a model has gained: less in a round ends it
_NOISE = 1e-6  # of the value, below which gains are no measure of what is left
_FEW_COLUMNS = 20  # where descent alone is quick


class Curved(Protocol):
    """Columns and how to multiply with their Hessian."""

    @property
    def native(self) -> _native.Columns:
        """The packed columns."""

    def hessian_product(self, coef: np.ndarray, shift: float, curvatures: np.ndarray) -> np.ndarray:
        """Return ``X^T (h * (X coef + shift))``."""


class _Descent:
    """The model's state: where it is, and its gradient there."""

    def __init__(self, engine: CpuColumns, columns: Curved, model: Model, coef: np.ndarray) -> None:
        self._engine, self._columns, self.model = engine, columns, model
        self.is_exact = not engine.problem.loss.is_classification
        self.start = coef
        self.found = coef.copy()
        self.gradient = model.slopes
        h = model.curvatures
        self._is_weighted = not (engine.has_equal_weights and self.is_exact)
        self._weight = 0.0 if self._is_weighted else float(h[0])
        self._states = self._fresh_states()
        self._sums, self.squares = np.empty(len(coef)), np.empty(len(coef))
        _native.column_curvatures(
            columns.native, self._states, self._weight, self._sums, self.squares
        )
        if not np.isfinite(self.squares).all():
            raise overflow_error(engine.dtype)
        self._is_free = engine.problem.intercept is Intercept.FREE
        self._total = max(float(h.sum()), np.finfo(np.float64).tiny)
        if self._is_free:
            self.squares = np.maximum(0.0, self.squares - self._sums**2 / self._total)

    def _fresh_states(self) -> np.ndarray:
        """Return the rows' curvatures, where they differ, and their states: zero."""
        engine = self._engine
        if not self._is_weighted:
            return np.zeros(engine.n_rows, dtype=engine.dtype)
        states = np.zeros((engine.n_rows, 2), dtype=engine.dtype)
        states[:, 0] = self.model.curvatures
        return states

    def hessian_product(self, step: np.ndarray) -> np.ndarray:
        """Return the Hessian times a step; a free intercept follows it."""
        shift = -float(self._sums @ step) / self._total if self._is_free else 0.0
        return self._columns.hessian_product(step, shift, self.model.curvatures)

    def sweep(self, n_sweeps: int, enough: float) -> bool:
        """Descend on the coordinates; return whether the gap seems to be less than `enough`."""
        penalty, before = self.model.penalty, self.found.copy()
        states = self._states
        if self._is_weighted:
            states[:, 1] = 0.0
        else:
            states[:] = 0.0
        _, is_done = _native.column_descent(
            self._columns.native,
            states,
            self._weight,
            self.gradient,
            self.squares,
            self._sums if self._is_free else None,
            self._total,
            self.found,
            penalty.l1,
            penalty.l2,
            penalty.is_positive,
            n_sweeps,
            enough,
        )
        if not is_done:
            self.gradient = self.gradient + self.hessian_product(self.found - before)
        return bool(is_done)

    def gap(self) -> float:
        """Return the model's duality gap."""
        model = self.model
        return model_gap(model, model.residual_sq, self.start, self.found, self.gradient)

    def value(self) -> float:
        """Return the model's value."""
        step = self.found - self.start
        value = 0.5 * float(step @ (self.gradient + self.model.slopes))
        return value + penalty_value(self.model.penalty, self.found)

    def accelerate(self) -> None:
        """Minimise over the support with its signs kept, and move as far as that helps."""
        penalty, found = self.model.penalty, self.found
        support = np.flatnonzero(found)
        if len(support) <= _FEW_COLUMNS:
            return
        signs = np.sign(found[support])
        slope = self.gradient[support] + penalty.l2 * found[support] + penalty.l1 * signs
        direction = self._conjugate_gradients(support, slope)
        self._move(support, signs, direction)

    def _conjugate_gradients(self, support: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return about the minimiser of ``slope.d + d.H d / 2`` over the support."""
        l2 = self.model.penalty.l2
        scale = self.squares[support] + l2
        inverse = np.where(scale > 0.0, 1.0 / np.maximum(scale, 1e-300), 0.0)
        full = np.zeros(len(self.found))
        direction, residual = np.zeros(len(support)), -slope
        ahead = inverse * residual
        search, power = ahead, float(residual @ ahead)
        enough = _ENOUGH_CONJUGATE**2 * power
        for _ in range(_MOST_CONJUGATE_STEPS):
            if not power > enough:
                break
            full[support] = search
            image = self.hessian_product(full)[support] + l2 * search
            curvature = float(search @ image)
            if not curvature > 1e-12 * float(search @ (scale * search)):
                break  # flat: the penalty's corners will bound this direction, not the model
            length = power / curvature
            direction = direction + length * search
            residual = residual - length * image
            ahead = inverse * residual
            power, before = float(residual @ ahead), power
            search = ahead + (power / before) * search
        return direction

    def _move(self, support: np.ndarray, signs: np.ndarray, direction: np.ndarray) -> None:
        """Go along the direction, coefficients that would change sign resting at zero."""
        penalty, found = self.model.penalty, self.found
        for length in (1.0, 0.5, 0.2, 0.05):
            trial = found[support] + length * direction
            trial[trial * signs < 0.0] = 0.0
            step = np.zeros(len(found))
            step[support] = trial - found[support]
            image = self.hessian_product(step)
            change = step[support]  # signs are kept, so that nothing cancels in the penalty's
            gain = float(step @ self.gradient) + 0.5 * float(step @ image)
            gain += penalty.l1 * float(signs @ change)
            gain += penalty.l2 * float(change @ (found[support] + 0.5 * change))
            if gain < 0.0:
                self.found = found + step
                self.found[support] = trial
                self.gradient = self.gradient + image
                return


def minimise_on_columns(
    engine: CpuColumns, columns: Curved, model: Model, coef: np.ndarray, target: float
) -> np.ndarray:
    """Return coefficients that minimise the model to within about `target`.

    Parameters
    ----------
    engine : CpuColumns
        Where the columns come from.
    columns : Curved
        The columns.
    model : Model
        What to minimise.
    coef : ndarray
        Where to start.
    target : float
        Gap of the model that may be left.

    Returns
    -------
    ndarray
        One coefficient per column.
    """
    descent = _Descent(engine, columns, model, coef)
    if descent.is_exact:
        n_rounds, share = _MOST_ROUNDS, 0.0
    else:
        n_rounds, share = _MOST_MODEL_ROUNDS, _ENOUGH_OF_MODEL
    value = descent.value()
    first = value
    for _ in range(n_rounds):
        if descent.sweep(_SWEEPS, target) or descent.gap() <= target:
            break
        descent.accelerate()
        before, value = value, descent.value()
        gained = first - value
        if before - value < share * gained and gained > _NOISE * abs(value):
            break  # a new model gains more
    return descent.found
