"""The quadratic model minimised on the columns themselves.

Coordinate descent finds the support. At weak penalties and on collinear columns it crawls, and
other steps get ahead: the columns that most rows share are minimised over as one block; the last
rounds' steps are taken further, together; and on a fixed support with fixed signs the model is
smooth, so that conjugate gradients apply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from snapml.problems import Intercept, Penalty, Problem
from snapml.solvers.columns.hot_block import Columns, HotBlock
from snapml.solvers.cpu_formulas import penalty_value
from snapml.solvers.quadratic_model import Model, model_gap

__all__ = ["ColumnDescent", "Curved", "Slopes", "minimise_on_columns"]

_MOST_ROUNDS = 60
_MOST_MODEL_ROUNDS = 24  # of a model that the next Newton step replaces
_SWEEPS = 4  # of a round
_MOST_CONJUGATE_STEPS = 30  # of a round
_ENOUGH_CONJUGATE = 0.03  # of the residual that conjugate gradients may leave
_ROUNDS_PER_CONJUGATE = 2
_TRAIL = 8  # rounds whose steps are looked at together
_FEW_CROSSING = 10  # coefficients whose sign conjugate gradients may miss and be tried again
_ENOUGH_OF_MODEL = 0.03  # of what a model has gained: less in a round ends it
_NOISE = 1e-6  # of the value, below which gains are no measure of what is left
_ROUNDING = 1e-12  # of a product: less is noise
_FEW_COLUMNS = 20  # where descent alone is quick


class Slopes(Protocol):
    """What a descent asks of the model it is a part of."""

    penalty: Penalty

    total: float
    """Sum of the curvatures where a free intercept follows every step, else 0."""

    squares: np.ndarray
    """The model's curvature along each column, less a free intercept's share."""

    @property
    def start_penalty(self) -> float:
        """R where the model began."""

    def hessian_product(self, step: np.ndarray) -> np.ndarray:
        """Return the model's Hessian times a step."""


class ColumnDescent(Protocol):
    """Coordinate descent on the columns of one model."""

    sums: np.ndarray
    """sum_i h_i x_ij of every column."""

    squares: np.ndarray
    """sum_i h_i x_ij^2 of every column."""

    def sweep(
        self,
        slopes: Slopes,
        found: np.ndarray,
        gradient: np.ndarray,
        among: np.ndarray | None,
        n_sweeps: int,
        enough: float,
    ) -> tuple[bool, np.ndarray]:
        """Move `found`, whose gradient is given, on all columns or on those of `among`.

        Return whether the gap is known to be less than `enough`, and unless it is the gradient
        at the end.
        """


class Curved(Columns, Protocol):
    """Columns, a descent on them, and how to multiply with their Hessian."""

    def descent(self, model: Model) -> ColumnDescent:
        """Return a descent on the model; refuse curvatures that overflow."""

    def hessian_product(self, coef: np.ndarray, shift: float, curvatures: Any) -> np.ndarray:
        """Return ``X^T (h * (X coef + shift))``."""


class _Descent:
    """The model's state: where it is, and its gradient there."""

    def __init__(self, problem: Problem, columns: Curved, model: Model, coef: np.ndarray) -> None:
        self._columns, self.model = columns, model
        self.penalty = model.penalty
        self.is_exact = problem.loss.is_quadratic
        self.start = coef
        self.found = coef.copy()
        self.gradient = model.slopes
        self._sweeps = columns.descent(model)
        self.squares = self._sweeps.squares
        self.total = 0.0
        self._hot: HotBlock | None = None
        self.is_ripe = True
        self._trail: list[tuple[np.ndarray, np.ndarray]] = []
        if problem.intercept is Intercept.FREE:
            self.total = model.curvature_sum
            self.squares = np.maximum(0.0, self.squares - self._sweeps.sums**2 / self.total)

    @property
    def start_penalty(self) -> float:
        """R where the model began."""
        return penalty_value(self.penalty, self.start)

    def hessian_product(self, step: np.ndarray) -> np.ndarray:
        """Return the Hessian times a step; a free intercept follows it."""
        shift = -float(self._sweeps.sums @ step) / self.total if self.total else 0.0
        return self.model.total(self._columns.hessian_product(step, shift, self.model.curvatures))

    def sweep(self, n_sweeps: int, enough: float) -> bool:
        """Descend on the coordinates; return whether the gap seems to be less than `enough`.

        Once there is a block of hot columns they rest: descent would take up again what the
        block's minimum has put to zero, and the support would depend linearly on each other.
        """
        others = None if self._hot is None else self._hot.others
        is_done, self.gradient = self._sweeps.sweep(
            self, self.found, self.gradient, others, n_sweeps, enough
        )
        return is_done

    def gap(self) -> float:
        """Return the model's duality gap."""
        model = self.model
        return model_gap(model, model.residual_sq, self.start, self.found, self.gradient)

    def value(self) -> float:
        """Return the model's value."""
        step = self.found - self.start
        value = 0.5 * float(step @ (self.gradient + self.model.slopes))
        return value + penalty_value(self.model.penalty, self.found)

    def settle_hot_columns(self, enough: float) -> None:
        """Minimise over the columns that most rows share."""
        if self._hot is None:
            self._hot = HotBlock(self._columns, self.model, self.squares)
        numbers = self._hot.numbers
        if len(numbers) == 0:
            return
        step = np.zeros(len(self.found))
        coef = self._hot.minimise(self.found, self.gradient, enough)
        step[numbers] = coef - self.found[numbers]
        if step.any():
            self.gradient = self.gradient + self.hessian_product(step)
            self.found[numbers] = coef

    def accelerate(self) -> None:
        """Minimise over the support with its signs kept, and move as far as that helps."""
        support = np.flatnonzero(self.found)
        if len(support) <= _FEW_COLUMNS:
            return
        direction, image = self._conjugate_gradients(support)
        before = self.found[support]
        n_crossing = int(((before + direction) * before < 0.0).sum())
        if n_crossing == 0:
            self._take(support, before + direction, image)
        else:
            self._take_clipped(support, before + direction)
        self.is_ripe = n_crossing <= _FEW_CROSSING

    def extrapolate(self) -> None:
        """Minimise over the directions in which the last rounds have gone.

        Where rounds repeat each other's step a little shorter, many of them are taken at once.
        """
        self._trail.append((self.found.copy(), self.gradient))
        if len(self._trail) < 2:
            return
        del self._trail[:-_TRAIL]
        support = np.flatnonzero(self.found)
        before, gradient = self.found[support], self.gradient[support]
        steps = np.array([found[support] - before for found, _ in self._trail[:-1]])
        changes = np.array([slopes[support] - gradient for _, slopes in self._trail[:-1]])
        changes += self.model.penalty.l2 * steps
        products = steps @ changes.T
        squares = np.diag(products)
        is_seen = squares > _ROUNDING * np.linalg.norm(steps, axis=1) * np.linalg.norm(
            changes, axis=1
        )
        root = np.zeros(len(steps))
        root[is_seen] = 1.0 / np.sqrt(squares[is_seen])
        matrix = 0.5 * (products + products.T) * np.outer(root, root)
        right = root * (steps @ self._slope(support))
        weights = np.linalg.lstsq(matrix, right, rcond=1e-10)[0]
        self._take_clipped(support, before - (root * weights) @ steps)

    def _slope(self, support: np.ndarray) -> np.ndarray:
        """Return the penalised model's slopes along coefficients that are not zero."""
        penalty, found = self.model.penalty, self.found[support]
        return self.gradient[support] + penalty.l2 * found + penalty.l1 * np.sign(found)

    def _take(self, support: np.ndarray, coef: np.ndarray, image: np.ndarray) -> None:
        """Move towards `coef` as far as the model falls.

        No sign may change on the way; `image` is H times the step.
        """
        before = self.found[support]
        step = coef - before
        fall = -float(step @ self._slope(support))
        square = float(step @ image[support]) + self.model.penalty.l2 * float(step @ step)
        if not fall > 0.0:
            return
        length = fall / square if square > fall else 1.0
        self.found[support] = coef if length == 1.0 else before + length * step
        self.gradient = self.gradient + length * image

    def _take_clipped(self, support: np.ndarray, coef: np.ndarray) -> None:
        """Move towards `coef`, coefficients that would change sign resting at zero."""
        before = self.found[support]
        coef = np.where(coef * before < 0.0, 0.0, coef)
        step = np.zeros(len(self.found))
        step[support] = coef - before
        self._take(support, coef, self.hessian_product(step))

    def _preconditioner(self, support: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return a product with about the inverse of the Hessian's block of the support."""
        scale = self.squares[support] + self.model.penalty.l2
        inverse = np.where(scale > 0.0, 1.0 / np.maximum(scale, 1e-300), 0.0)
        hot = self._hot
        places = support[:0] if hot is None else hot.restrict(support)
        if hot is None or len(places) == 0:
            return lambda vector: inverse * vector

        def apply(vector: np.ndarray) -> np.ndarray:
            out = inverse * vector
            out[places] = hot.solve(vector[places])
            return out

        return apply

    def _conjugate_gradients(self, support: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return about the step to the minimum over the support, signs kept, and H times it."""
        penalty, slope = self.model.penalty, self._slope(support)
        precondition = self._preconditioner(support)
        scale = self.squares[support] + penalty.l2
        direction, residual, total = np.zeros(len(support)), -slope, np.zeros(len(self.found))
        full = np.zeros(len(self.found))
        ahead = precondition(residual)
        search, power = ahead, float(residual @ ahead)
        enough = _ENOUGH_CONJUGATE**2 * power
        for _ in range(_MOST_CONJUGATE_STEPS):
            if not power > enough:
                break
            full[support] = search
            product = self.hessian_product(full)
            image = product[support] + penalty.l2 * search
            curvature = float(search @ image)
            if not curvature > 1e-12 * float(search @ (scale * search)):
                break  # flat: the penalty's corners will bound this direction, not the model
            length = power / curvature
            direction = direction + length * search
            total = total + length * product
            residual = residual - length * image
            ahead = precondition(residual)
            power, before = float(residual @ ahead), power
            search = ahead + (power / before) * search
        return direction, total


def minimise_on_columns(
    problem: Problem, columns: Curved, model: Model, coef: np.ndarray, target: float
) -> np.ndarray:
    """Return coefficients that minimise the model to within about `target`.

    Parameters
    ----------
    problem : Problem
        Loss and intercept.
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
    descent = _Descent(problem, columns, model, coef)
    if descent.is_exact:
        n_rounds, share = _MOST_ROUNDS, 0.0
    else:
        n_rounds, share = _MOST_MODEL_ROUNDS if model.is_trusted else 1, _ENOUGH_OF_MODEL
    value = descent.value()
    first = value
    for round_number in range(n_rounds):
        if round_number > 0:
            descent.settle_hot_columns(1e-3 * target)
        if descent.sweep(_SWEEPS, target) or descent.gap() <= target:
            break
        if round_number > 0:
            descent.extrapolate()
        if round_number % _ROUNDS_PER_CONJUGATE == _ROUNDS_PER_CONJUGATE - 1 and descent.is_ripe:
            descent.accelerate()
        before, value = value, descent.value()
        gained = first - value
        if before - value < share * gained and gained > _NOISE * abs(value):
            break  # a new model gains more
    return model.agreed(descent.found)
