"""Many models of one matrix: Newton steps by conjugate gradients, of all models at once.

Models differ in the weights of the rows (a fold's are zero where it leaves rows out), in a factor
on them (C), and in labels. Each product with the Hessians reads the matrix once for all of them;
steps, lengths and ends are each model's own. docs/algorithms.md, section 18.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.problems import Intercept, Problem
from snapml.solvers.many.many_arrays import ManyLosses, ManyProducts
from snapml.solvers.many.many_columns import ModelColumns
from snapml.solvers.many.many_preconditioners import (
    Diagonals,
    ScaledGrams,
    SharedGram,
    precondition,
)
from snapml.solvers.threads import limit_blas_threads

__all__ = ["ManyResult", "ManyTargets", "solve"]

# Share of the gradient, in the preconditioner's norm, that a step may leave.
_RESIDUAL = 0.3
_MOST_PRODUCTS = 200  # a step
# Share of the penalty that a gain hidden by rounding may have where a model counts as converged.
_EXACT = 1e-8
# Share of the slope that a step must gain, and how often it is halved before the model gives up.
_ARMIJO, _MOST_HALVINGS = 1e-4, 30


@dataclass(frozen=True)
class ManyTargets:
    """What models that share a matrix do not share.

    Attributes
    ----------
    labels : ndarray of shape (n_rows, n_label_columns), the matrix's dtype
        Labels of the rows; class numbers for the softmax.
    weights : ndarray of shape (n_rows, n_weight_columns), the matrix's dtype
        Weights of the rows, at least 0.
    label_columns, weight_columns : ndarray of shape (n_models,), int
        Which of them are a model's.
    factors : ndarray of shape (n_models,)
        Factor on a model's weights.
    """

    labels: np.ndarray
    weights: np.ndarray
    label_columns: np.ndarray
    weight_columns: np.ndarray
    factors: np.ndarray

    def take(self, models: np.ndarray) -> ManyTargets:
        """Return those of some models, in their order."""
        return ManyTargets(
            self.labels,
            self.weights,
            self.label_columns[models],
            self.weight_columns[models],
            self.factors[models],
        )


@dataclass(frozen=True)
class ManyResult:
    """The models. Of the softmax, model m has the columns m n_classes to (m + 1) n_classes - 1.

    Attributes
    ----------
    vectors : ndarray of shape (n_features + 1, n_models * n_outputs), the matrix's dtype
        Coefficients, the intercepts last.
    margins : ndarray of shape (n_rows, n_models * n_outputs), the matrix's dtype
        Of all rows, those of weight zero too.
    has_converged : ndarray of shape (n_models,), bool
        Whether the last step was expected to gain no more than the tolerance.
    n_products : ndarray of shape (n_models,), int
        Products with its Hessian that each took part in.
    """

    vectors: np.ndarray
    margins: np.ndarray
    has_converged: np.ndarray
    n_products: np.ndarray


def solve(
    problem: Problem,
    products: ManyProducts,
    targets: ManyTargets,
    tol: float,
    *,
    rounding_tol: float | None = None,
    max_steps: int = 50,
    most_products: float = math.inf,
    start: np.ndarray | None = None,
    shared: SharedGram | None = None,
    is_over: Callable[[], bool] = bool,
) -> ManyResult:
    """Minimise the objective of every model.

    Parameters
    ----------
    problem : Problem
        A smooth loss, the intercept, and an L2 penalty. The softmax takes products of the host.
    products : ManyProducts
        Of finite rows, wherever they are.
    targets : ManyTargets
        Labels and weights.
    tol : float
        A model ends with the step that is expected to gain at most this share of its penalty
        ``||w||^2 / 2``: w is then about sqrt(tol) of its length from the minimum, or closer.
    rounding_tol : float, default=None
        What is enough where rounding keeps a model from `tol`; None means `tol`.
    max_steps : int, default=50
        Most Newton steps.
    most_products : float, default=inf
        Products after which a model is given up, since factors of its own Hessian cost less.
    start : ndarray of shape (n_features + 1, n_models * n_outputs), default=None
        Coefficients to start from; None starts at 0.
    shared : SharedGram, default=None
        Keeps what other solves of the same rows can use.
    is_over : callable, default=bool
        Asked before each step: True ends all models where they are.

    Returns
    -------
    ManyResult
        In the order of the targets.
    """
    with limit_blas_threads(1), np.errstate(all="ignore"):
        shared = shared or SharedGram()
        descent = _Descent(problem, products, targets, start, shared, most_products)
        for _ in range(max_steps):
            if not len(descent.models) or is_over():
                break
            descent.step(tol, tol if rounding_tol is None else rounding_tol)
        return descent.result()


class _Descent:
    """The models that still move, side by side, and those that have ended."""

    def __init__(
        self,
        problem: Problem,
        products: ManyProducts,
        targets: ManyTargets,
        start: np.ndarray | None,
        shared: SharedGram,
        most_products: float,
    ) -> None:
        self._shared, self._most_products = shared, most_products
        self._problem, self._products, self._targets = problem, products, targets
        self._arrays = products.arrays
        self._tables = self._arrays.given(targets.labels), self._arrays.given(targets.weights)
        n_rows, n_features = products.shape
        n_models = len(targets.factors)
        n_outputs = problem.loss.n_outputs
        self._columns = ModelColumns(n_outputs, products.fewest)
        self._vectors = np.zeros((n_features + 1, n_models * n_outputs), dtype=products.dtype)
        self._margins = np.zeros((n_rows, n_models * n_outputs), dtype=products.dtype)
        self._has_converged = np.zeros(n_models, dtype=bool)
        self._n_products = np.zeros(n_models, dtype=np.int64)
        self._gains = np.full(n_models, np.inf)  # of their last steps
        self._l2, self._bias_l2 = _penalties_of(problem)
        penalty = np.full((n_features + 1, 1), self._l2, dtype=products.dtype)
        penalty[-1] = self._bias_l2
        self._penalty = self._arrays.given(penalty)
        self._has_intercept = problem.intercept is not Intercept.NONE
        self.models = np.arange(n_models)  # those that still move
        self._n_places = self._columns.n_places(n_models)
        width = self._columns.width(self._n_places)
        first = np.zeros((n_features + 1, width), dtype=products.dtype)
        if start is not None:
            first[:, : n_models * n_outputs] = start
        self._w = self._arrays.given(first)
        if start is not None and start.any():
            self._z = products.margins(self._w)
        else:
            self._z = self._arrays.xp.zeros((n_rows, width), dtype=products.dtype)
        self._losses = self._losses_of(self.models)

    def result(self) -> ManyResult:
        """Return all models, whether they have ended or not."""
        self._keep(np.ones(len(self.models), dtype=bool))
        return ManyResult(self._vectors, self._margins, self._has_converged, self._n_products)

    def step(self, tol: float, rounding_tol: float) -> None:
        """Take one Newton step of every model, and put those aside that end with it."""
        losses, slopes, curvatures = self._losses.tangents(self._z)
        values = losses + 0.5 * self._penalties(self._w, self._w)
        gradient = self._products.adjoint(slopes)
        del slopes  # as many numbers as the margins, as are the diagonals
        gradient += self._penalty * self._w
        if not self._has_intercept:
            gradient[-1] = 0.0
        n_active = len(self.models)
        # Columns that fill a panel stay where they are.
        gradient[:, n_active * self._columns.n_outputs :] = 0.0
        strengths = self._l2, self._bias_l2
        diagonals = self._losses.diagonals(curvatures)
        scaling = precondition(
            self._products,
            self._shared,
            diagonals,
            strengths,
            self._has_intercept,
            self._losses.mixing(curvatures),
        )
        intercept_curvature = self._arrays.totals(diagonals) + self._bias_l2
        del diagonals
        n_before = self._n_products.copy()
        direction, rest = self._direction(gradient, scaling, curvatures, intercept_curvature)
        most = int((self._n_products - n_before).max(initial=0))
        if self._problem.loss.kinks == "none":  # else rows at rest would be missed where they move
            self._shared.see(most, self._products.shape)
        is_spent = self._n_products[self.models] >= self._most_products
        slope = self._dots(direction, gradient, self._n_places)
        has_moved = self._advance(direction, values, slope)
        half_penalties = 0.5 * self._penalties(self._w, self._w)
        floor = 8.0 * float(np.finfo(self._w.dtype).eps) * np.abs(values)  # below it is rounding
        # What the exact direction would gain is that of this one and of what it left.
        gain = 0.5 * (rest - slope)
        # A gain within rounding ends a model too, but does not say how far the minimum is.
        exact = np.minimum(floor, _EXACT * half_penalties) if tol > 0.0 else 0.0 * floor
        is_close = (gain <= np.maximum(tol * half_penalties, exact)) & np.isfinite(values)
        is_falling = gain[:n_active] <= 0.5 * self._gains[self.models]
        self._gains[self.models] = gain[:n_active]
        is_stuck = (gain <= floor)[:n_active] & ~is_falling
        is_near = is_stuck & (gain <= rounding_tol * half_penalties)[:n_active]
        self._has_converged[self.models] = is_close[:n_active] | is_near
        has_ended = (is_close | ~has_moved)[:n_active] | is_stuck | is_spent
        if has_ended.any():
            self._keep(has_ended)
            self._narrow(np.flatnonzero(~has_ended))

    def _direction(
        self,
        gradient: Any,
        scaling: Diagonals | ScaledGrams,
        curvatures: Any,
        intercept_curvature: np.ndarray,
    ) -> tuple[Any, np.ndarray]:
        """Return an approximate Newton direction of every model, and about what it leaves.

        That is r^T H^-1 r of the residual r: a bound, with the penalty in the place of H (on an
        intercept without one, with its own entry of H), or what a factor of the Hessian says.
        """
        arrays, columns = self._arrays, self._columns
        direction = arrays.xp.zeros_like(gradient)
        residual = -gradient
        n_places = self._n_places
        at = np.arange(n_places)  # of the present places
        scaled = self._scaled(scaling, residual, at < len(self.models))
        search = scaled.copy()
        square = self._dots(residual, scaled, n_places)
        whole = arrays.dots(residual, residual)
        rest = self._bounds(whole, residual, intercept_curvature, scaling, square)
        enough = _RESIDUAL**2 * square
        for _ in range(_MOST_PRODUCTS):
            is_open = square > enough
            if not is_open.any():
                break
            kept = columns.kept(np.flatnonzero(is_open), len(at))
            if columns.width(len(kept)) < columns.width(len(at)):
                taken = columns.taken(kept)
                part = (residual, scaled, search, curvatures)
                residual, scaled, search, curvatures = (arrays.take(p, taken) for p in part)
                scaling, intercept_curvature = scaling.take(taken), intercept_curvature[taken]
                square, enough, at, is_open = square[kept], enough[kept], at[kept], is_open[kept]
            product = self._products.hessian(curvatures, search, columns.n_outputs)
            if not self._has_intercept:
                product[-1] = 0.0  # as is that of `search`
            is_model = at < len(self.models)
            self._n_products[self.models[at[is_model]]] += 1
            bend = columns.sums(arrays.bends(search, self._penalty, product), len(at))
            step = np.where(is_open & (bend > 0.0), square / bend, 0.0)
            steps = columns.spread(step)
            if len(at) == n_places:
                arrays.add_scaled(direction, steps, search)
            else:
                own = columns.columns(at)
                moved = arrays.factors(steps, search) * search
                direction[:, arrays.given(own)] += moved[:, : len(own)]
            whole = arrays.subtract(residual, steps, product)
            is_open = step.astype(search.dtype) > 0.0
            scaled = self._scaled(scaling, residual, is_open)
            following = self._dots(residual, scaled, len(at))
            bounds = self._bounds(whole, residual, intercept_curvature, scaling, following)
            rest[at[is_open]] = bounds[is_open]
            ratio = np.where(square > 0.0, following / square, 0.0)
            square = np.where(is_open, following, 0.0)
            arrays.scale_and_add(search, columns.spread(ratio), scaled)
        return direction, rest

    def _scaled(self, scaling: Diagonals | ScaledGrams, residual: Any, is_open: np.ndarray) -> Any:
        """Return what a preconditioner makes of the open places' residuals."""
        scaled = scaling.solve(residual, self._columns.spread(is_open))
        return self._columns.centre(scaled, len(is_open))

    def _dots(self, left: Any, right: Any, n_places: int) -> np.ndarray:
        """Return the inner products of models, shape (n_places,)."""
        return self._columns.sums(self._arrays.dots(left, right), n_places)

    def _bounds(
        self,
        whole: np.ndarray,
        residual: Any,
        intercept_curvature: np.ndarray,
        scaling: Diagonals | ScaledGrams,
        square: np.ndarray,
    ) -> np.ndarray:
        """Return at least r^T H^-1 r of every model's r, or an estimate where that is less."""
        columns, n_places = self._columns, len(square)
        last = self._arrays.to_host(residual[-1]).astype(np.float64) ** 2
        whole = (whole - last) / self._l2
        whole += np.where(last > 0.0, last / intercept_curvature, 0.0)
        estimates = columns.largest(scaling.spread, n_places) * square
        return np.fmin(columns.sums(whole, n_places), estimates)

    def _advance(self, direction: Any, values: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Move along the directions as far as they lead down; return which models moved."""
        moves = self._products.margins(direction)
        mixed, square = self._penalties(self._w, direction), self._penalties(direction, direction)
        own = 0.5 * self._penalties(self._w, self._w)
        steps = np.where(slope < 0.0, 1.0, 0.0)
        for _ in range(_MOST_HALVINGS):
            ahead = self._losses.ahead(self._z, moves, self._arrays.factors(steps, moves))
            ahead += own + steps * mixed + 0.5 * steps * steps * square
            # What rounding hides of a gain is no loss.
            slack = 8.0 * np.finfo(moves.dtype).eps * np.abs(values)
            is_good = ahead <= values + _ARMIJO * steps * slope + slack
            if (is_good | (steps == 0.0)).all():
                break
            steps = np.where(is_good, steps, 0.5 * steps)
        else:
            steps = np.where(is_good, steps, 0.0)
        taken = self._arrays.factors(self._columns.spread(steps), moves)
        direction *= taken
        moves *= taken
        self._w += direction
        self._z += moves
        return steps > 0.0

    def _penalties(self, left: Any, right: Any) -> np.ndarray:
        """Return the inner products of the penalty, float64."""
        arrays = self._arrays
        last = arrays.to_host(left[-1]).astype(np.float64) * arrays.to_host(right[-1])
        found = arrays.dots(left, right) - (1.0 - self._bias_l2) * last
        return self._columns.sums(found, self._n_places)

    def _keep(self, ended: np.ndarray) -> None:
        """Store the models at these places."""
        at = np.flatnonzero(ended)
        arrays, own = self._arrays, self._columns.columns(at)
        whose = self._columns.columns(self.models[at])
        self._vectors[:, whose] = arrays.to_host(arrays.take(self._w, own))
        self._margins[:, whose] = arrays.to_host(arrays.take(self._z, own))

    def _narrow(self, left: np.ndarray) -> None:
        """Go on with the models at these places."""
        self.models = self.models[left]
        if not len(left):
            return
        kept = self._columns.kept(left, self._n_places)
        taken = self._columns.taken(kept)
        self._w = self._arrays.take(self._w, taken)
        self._z = self._arrays.take(self._z, taken)
        self._n_places = len(kept)
        self._losses = self._losses_of(self.models)

    def _losses_of(self, models: np.ndarray) -> ManyLosses:
        """Return the losses of some models; places that fill a panel have no weight."""
        of, dtype = self._targets.take(models), self._products.dtype
        more = self._n_places - len(models)
        return self._products.losses(
            self._problem.loss,
            *self._tables,
            np.pad(of.label_columns, (0, more)).astype(np.int32),
            np.pad(of.weight_columns, (0, more)).astype(np.int32),
            np.pad(of.factors, (0, more)).astype(dtype),
        )


def _penalties_of(problem: Problem) -> tuple[float, float]:
    """Return the strength of the L2 penalty on features, and on the constant column."""
    is_penalised = problem.intercept is Intercept.PENALISED
    # The intercept is the constant column's value times its coefficient.
    last = problem.penalty.l2 / problem.bias_column**2 if is_penalised else 0.0
    return problem.penalty.l2, last
