"""Where a working-set descent is: model, margins, the loss's derivatives, and the best bound."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from snapml.problems import Intercept, Penalty
from snapml.solvers.certificate import certified_gap, minimise_shift
from snapml.solvers.communicator import Communicator
from snapml.solvers.cpu_formulas import penalty_value
from snapml.solvers.engine import ColumnEngine
from snapml.solvers.quadratic_model import dual_scales
from snapml.solvers.result import FitResult, StartModel
from snapml.solvers.working_sets.dual_balance import DualBalance

__all__ = ["MANY_SLOW", "ROUNDING", "State"]

_SMALL_GAIN = 3e-2  # of the objective
_TRUSTED_ERROR = 0.2  # of a model's promise: if more was wrong, the next is only roughly minimised
# Share of the largest curvature that the model's keeps at least, the less the closer to the
# minimum: columns all of whose rows are flat would run away.
_FIRST_DAMPING, _LEAST_DAMPING = 1e-2, 1e-9
ROUNDING = 2.0**-46
_SHORT = 1e-9  # a step of the intercept beyond which the loss is evaluated anew
MANY_SLOW = 8  # reads in a row that left most of a large gap


class State:
    """The model, its margins, the loss's derivatives there, and the best bound so far.

    Vectors over the rows are the engine's, and stay where it keeps them.
    """

    def __init__(
        self, engine: ColumnEngine, communicator: Communicator, start: FitResult | StartModel | None
    ) -> None:
        self.engine = engine
        self.communicator = communicator
        self.problem = engine.problem
        self.coef = np.zeros(engine.n_cols)
        self.shift = 0.0
        if start is not None:
            self.coef[: engine.n_features] = start.coef
            if self.problem.intercept is Intercept.PENALISED:
                self.coef[-1] = float(start.intercept) / engine.tau
            elif self.problem.intercept is Intercept.FREE:
                self.shift = float(start.intercept)
        if self.problem.penalty.bounds is not None:
            self.coef = self.problem.penalty.bounds.nearest(self.coef)
        has_coef = bool(self.coef.any())
        self._offset: Any = engine.offsets
        self.margins = self._margins_of(self.coef) if has_coef else self._empty_margins()
        self.gradients, self.curvatures = self._zeros(), self._zeros()
        self.slopes = np.empty(0)
        self.damping = 0.0
        self.was_slow = False
        self.n_slow = 0  # reads in a row that left most of a large gap
        self.is_trusted = False
        self.last_gain = math.inf
        self.caution = 1.0  # share of the usual damping, the less the better models keep promises
        self.loss = math.nan
        self.gap = math.inf
        self.objective = math.inf
        self._lower_bound = -math.inf
        self._bounds: Any = None
        self._squares: np.ndarray | None = None
        self._balance = DualBalance(engine, communicator)
        self.shift = self.best_shift(self.margins, self.shift)
        self.refresh()
        # Gaps below the rounding of the labels' share of the sums cannot be told from zero.
        empty_loss = self.total(engine.loss_sums(self._empty_margins(), 0.0))[0]
        self.resolution = 2.0**-50 * float(empty_loss)

    def _zeros(self) -> Any:
        return self.engine.xp.zeros(self.engine.n_rows, np.float64)

    def _empty_margins(self) -> Any:
        return self._zeros() if self._offset is None else self._zeros() + self._offset

    def _margins_of(self, coef: np.ndarray) -> Any:
        """Return the margins of coefficients, without a free intercept."""
        product = self.engine.product(coef)
        if self._offset is not None:
            product += self._offset
        return product

    def restart(self, coef: np.ndarray, margins: Any, shift: float, offset: Any) -> None:
        """Go on with other margins: those of `coef`, and a fixed part of each row's.

        Parameters
        ----------
        coef : ndarray of shape (n_cols,)
            The coefficients.
        margins : array of shape (n_rows,)
            X coef and the fixed parts.
        shift : float
            Guess of the best free intercept.
        offset : array of shape (n_rows,)
            The fixed parts.
        """
        self.coef, self.margins, self._offset = coef.copy(), margins, offset
        self._lower_bound = -math.inf
        self.shift = self.best_shift(margins, shift)
        self.refresh()

    @property
    def intercept(self) -> float:
        """b: free or penalised, 0 without one."""
        if self.problem.intercept is Intercept.PENALISED:
            return self.engine.tau * float(self.coef[-1])
        return self.shift

    def model_coef(self) -> np.ndarray:
        """Return w in the data's dtype."""
        return self.coef[: self.engine.n_features].astype(self.engine.dtype)

    def round_off(self) -> None:
        """Certify the model that the data's type can hold: it is the one that is returned."""
        rounded = self.coef.astype(self.engine.dtype).astype(np.float64)
        if not np.array_equal(rounded, self.coef):
            self.coef, self.margins = rounded, self._margins_of(rounded)
            self.shift = self.best_shift(self.margins, self.shift)
            self.refresh()
            self.gap = certified_gap(self.objective, self._lower_bound)

    def total(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over the shards."""
        return self.communicator.allreduce_sum(array)

    def is_on_any(self, flag: bool) -> bool:
        """Return whether a flag is set on any shard."""
        return bool(self.total(np.array([float(flag)]))[0] > 0.0)

    def column_squares(self) -> np.ndarray:
        """Return sum_i c_i x_ij^2 of every column, less its mean where the intercept is free."""
        if self._squares is None:
            own = np.array(self.engine.moments())
            sums, squares = self.total(own)
            if self.problem.intercept is Intercept.FREE:
                weight = float(self.total(np.array([self.engine.total_weight]))[0])
                squares = squares - sums**2 / weight
            self._squares = np.maximum(squares, 0.0)
        return self._squares

    def best_shift(self, margins: Any, guess: float) -> float:
        """Return the best free intercept for given margins, 0 where there is none."""
        return self.best_at(margins, guess)[0]

    def best_at(self, margins: Any, guess: float) -> tuple[float, float]:
        """Return the best free intercept for given margins, 0 where there is none; and the loss.

        The last step of the search is so short that the loss there follows from its derivatives.
        """
        if self.problem.intercept is not Intercept.FREE:
            return 0.0, self._loss_at(margins, 0.0)
        last = np.empty(4)  # a shift, the loss there and its derivatives
        # No nested function: it would keep the margins beyond a fit that fails.
        shift = minimise_shift(partial(self._shift_slope, margins, last), guess)
        seen, loss, first, second = last.tolist()
        way = shift - seen
        if not abs(way) <= _SHORT * max(1.0, abs(shift)):
            return shift, self._loss_at(margins, shift)
        return shift, loss + way * (first + 0.5 * way * second)

    def _shift_slope(self, margins: Any, last: np.ndarray, shift: float) -> tuple[float, float]:
        last[0], last[1:] = shift, self.total(self.engine.loss_sums(margins, shift))
        return float(last[2]), float(last[3])

    def _loss_at(self, margins: Any, shift: float) -> float:
        return float(self.total(self.engine.loss_sums(margins, shift))[0])

    def refresh(self) -> None:
        """Take the loss's derivatives at the present margins."""
        sums = self.engine.loss_sums(self.margins, self.shift, self.gradients, self.curvatures)
        self.loss = float(self.total(sums)[0])
        self.objective = self.loss + penalty_value(self.problem.penalty, self.coef)

    def learn(self, gain: float, promise: float) -> None:
        """Compare what a step has gained with what its model promised.

        Parameters
        ----------
        gain : float
            By how much the objective fell.
        promise : float
            By how much the model did.
        """
        noise = ROUNDING * abs(self.objective)
        # A model that promised too little was more curved than the loss: damping makes it so.
        is_true = promise >= -noise and gain >= (1.0 - _TRUSTED_ERROR) * promise - noise
        is_small = gain <= _SMALL_GAIN * abs(self.objective)
        self.is_trusted = (is_true and is_small) or self.n_slow >= MANY_SLOW
        self.last_gain = gain
        if is_true:
            self.caution *= 0.5
        elif gain < 0.5 * promise or math.isinf(promise):  # of a step that had to be shorter
            self.caution = min(1.0, 4.0 * self.caution)

    def damped_curvatures(self) -> Any:
        """Return h_i and a share of their bound, more of it the shorter the last steps had to be.

        Where few rows are curved at all, the model alone promises far too much.
        """
        added = self.added_curvatures()
        return self.curvatures if added is None else self.curvatures + added

    def added_curvatures(self) -> Any:
        """Return what `damped_curvatures` adds; None for nothing."""
        if self.problem.loss.is_quadratic:
            return None
        relative = self.gap / abs(self.objective) if self.objective else 1.0
        gain = self.last_gain / abs(self.objective) if self.objective else 1.0
        damping = max(self.damping, self.caution * min(_FIRST_DAMPING, 0.1 * relative, gain))
        if damping < _LEAST_DAMPING:
            return None
        return damping * self._largest_curvatures()

    def _largest_curvatures(self) -> Any:
        """Return c_i l'' at a margin of zero, where losses of signs are most curved.

        Where l'' has no bound it is at least what it is now.
        """
        if self._bounds is None:
            self._bounds = self._zeros()
            self.engine.loss_sums(self._zeros(), 0.0, None, self._bounds)
        if math.isfinite(self.problem.loss.curvature_bound):
            return self._bounds
        return self.engine.xp.maximum(self._bounds, self.curvatures)

    def read(self) -> None:
        """Read the data once: slopes of all columns, and with them a lower bound."""
        self.slopes = self.total(self.engine.adjoint(self.gradients))
        bound = self.bound(self.slopes, self.problem.penalty)
        self._lower_bound = max(self._lower_bound, bound)
        self.gap = certified_gap(self.objective, self._lower_bound)

    def bound(self, slopes: np.ndarray, penalty: Penalty) -> float:
        """Return the dual objective at beta = -gradients, scaled to where it is finite.

        Parameters
        ----------
        slopes : ndarray of shape (n_columns,)
            Of the loss on all columns, or on some that alone may move.
        penalty : Penalty
            Of these columns.

        Returns
        -------
        float
            At most the minimum over the coefficients of these columns.
        """
        point = -slopes
        gradients = self.gradients
        if self.problem.intercept is Intercept.FREE and len(slopes) == self.engine.n_cols:
            gradients, point = self._balance.apply(gradients, self.curvatures, point)
        best = -math.inf
        for scale, conjugate in dual_scales(penalty, point):
            terms = float(self.total(np.array([self.engine.dual_terms(gradients, scale)]))[0])
            if self._offset is not None:
                fixed = np.array([float(gradients @ self._offset)])
                terms += scale * float(self.total(fixed)[0])
            best = max(best, terms - conjugate)
        return best
