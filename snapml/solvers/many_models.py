"""Many models of one matrix: Newton steps by conjugate gradients, of all models at once.

Models differ in the weights of the rows (a fold's are zero where it leaves rows out), in a factor
on them (C), and in labels. Each product with the Hessians reads the matrix once for all of them;
steps, lengths and ends are each model's own. docs/algorithms.md, section 18.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.problems import Intercept, Problem
from snapml.solvers.many_arrays import ManyLosses, ManyProducts
from snapml.solvers.many_preconditioners import Diagonals, ScaledGrams, SharedGram, precondition
from snapml.solvers.many_rows import PANEL
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
        Labels of the rows.
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
    """The models.

    Attributes
    ----------
    vectors : ndarray of shape (n_features + 1, n_models), the matrix's dtype
        Coefficients, the intercepts last.
    margins : ndarray of shape (n_rows, n_models), the matrix's dtype
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
    max_steps: int = 50,
    start: np.ndarray | None = None,
    shared: SharedGram | None = None,
    is_over: Callable[[], bool] = bool,
) -> ManyResult:
    """Minimise the objective of every model.

    Parameters
    ----------
    problem : Problem
        A smooth loss that has one margin a row, the intercept, and an L2 penalty.
    products : ManyProducts
        Of finite rows, wherever they are.
    targets : ManyTargets
        Labels and weights.
    tol : float
        A model ends with the step that is expected to gain at most this share of its penalty
        ``||w||^2 / 2``: w is then about sqrt(tol) of its length from the minimum, or closer.
    max_steps : int, default=50
        Most Newton steps.
    start : ndarray of shape (n_features + 1, n_models), default=None
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
    with limit_blas_threads(products.n_threads), np.errstate(all="ignore"):
        descent = _Descent(problem, products, targets, start, shared or SharedGram())
        for _ in range(max_steps):
            if not len(descent.models) or is_over():
                break
            descent.step(tol)
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
    ) -> None:
        self._shared = shared
        self._problem, self._products, self._targets = problem, products, targets
        self._arrays = products.arrays
        self._tables = self._arrays.given(targets.labels), self._arrays.given(targets.weights)
        n_rows, n_features = products.shape
        n_models = len(targets.factors)
        self._vectors = np.zeros((n_features + 1, n_models), dtype=products.dtype)
        self._margins = np.zeros((n_rows, n_models), dtype=products.dtype)
        self._has_converged = np.zeros(n_models, dtype=bool)
        self._n_products = np.zeros(n_models, dtype=np.int64)
        self._gains = np.full(n_models, np.inf)  # of their last steps
        self._l2, self._bias_l2 = _penalties_of(problem)
        penalty = np.full((n_features + 1, 1), self._l2, dtype=products.dtype)
        penalty[-1] = self._bias_l2
        self._penalty = self._arrays.given(penalty)
        self._has_intercept = problem.intercept is not Intercept.NONE
        self.models = np.arange(n_models)  # those that still move
        size = self._padded(n_models)
        first = np.zeros((n_features + 1, size), dtype=products.dtype)
        if start is not None:
            first[:, :n_models] = start
        self._w = self._arrays.given(first)
        if start is not None and start.any():
            self._z = products.margins(self._w)
        else:
            self._z = self._arrays.xp.zeros((n_rows, size), dtype=products.dtype)
        self._losses = self._losses_of(self.models, size)

    def result(self) -> ManyResult:
        """Return all models, whether they have ended or not."""
        self._keep(np.ones(len(self.models), dtype=bool))
        return ManyResult(self._vectors, self._margins, self._has_converged, self._n_products)

    def step(self, tol: float) -> None:
        """Take one Newton step of every model, and put those aside that end with it."""
        losses, slopes, curvatures = self._losses.tangents(self._z)
        values = losses + 0.5 * self._penalties(self._w, self._w)
        gradient = self._products.adjoint(slopes)
        gradient += self._penalty * self._w
        if not self._has_intercept:
            gradient[-1] = 0.0
        n_active = len(self.models)
        gradient[:, n_active:] = 0.0  # columns that fill a panel stay where they are
        strengths = self._l2, self._bias_l2
        scaling = precondition(
            self._products, self._shared, curvatures, strengths, self._has_intercept
        )
        intercept_curvature = self._arrays.totals(curvatures) + self._bias_l2
        direction, rest = self._direction(gradient, scaling, curvatures, intercept_curvature)
        slope = self._arrays.dots(direction, gradient)
        has_moved = self._advance(direction, values, slope)
        enough = tol * 0.5 * self._penalties(self._w, self._w)
        floor = 8.0 * float(np.finfo(self._w.dtype).eps) * np.abs(values)  # below it is rounding
        # What the exact direction would gain is that of this one and of what it left.
        gain = 0.5 * (rest - slope)
        # A gain within rounding ends a model too, but does not say how far the minimum is.
        exact = np.minimum(floor, _EXACT / tol * enough) if tol > 0.0 else 0.0 * floor
        is_close = (gain <= np.maximum(enough, exact)) & np.isfinite(values)
        self._has_converged[self.models] = is_close[:n_active]
        is_falling = gain[:n_active] <= 0.5 * self._gains[self.models]
        self._gains[self.models] = gain[:n_active]
        is_stuck = (gain <= floor)[:n_active] & ~is_falling
        has_ended = (is_close | ~has_moved)[:n_active] | is_stuck
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
        arrays = self._arrays
        direction = arrays.xp.zeros_like(gradient)
        residual = -gradient
        scaled = scaling.solve(residual, np.arange(residual.shape[1]) < len(self.models))
        search = scaled.copy()
        square = arrays.dots(residual, scaled)
        rest = self._bounds(residual, intercept_curvature, scaling.spread * square)
        enough = _RESIDUAL**2 * square
        at = np.arange(gradient.shape[1])  # of the present columns
        for _ in range(_MOST_PRODUCTS):
            is_open = square > enough
            if not is_open.any():
                break
            if self._padded(int(is_open.sum())) < len(at):
                left = self._whole_panels(np.flatnonzero(is_open), len(at))
                part = (residual, scaled, search, curvatures)
                residual, scaled, search, curvatures = (arrays.take(p, left) for p in part)
                scaling = scaling.take(left)
                square, enough, at, is_open = square[left], enough[left], at[left], is_open[left]
            product = self._products.hessian(curvatures, search)
            product += self._penalty * search
            if not self._has_intercept:
                product[-1] = 0.0
            is_model = at < len(self.models)
            self._n_products[self.models[at[is_model]]] += 1
            bend = arrays.dots(search, product)
            step = np.where(is_open & (bend > 0.0), square / bend, 0.0)
            taken = arrays.factors(step, search)
            if len(at) == direction.shape[1]:
                direction += taken * search
            else:
                direction[:, arrays.given(at)] += taken * search
            product *= taken
            residual -= product
            is_open = step.astype(search.dtype) > 0.0
            scaled = scaling.solve(residual, is_open)
            following = arrays.dots(residual, scaled)
            bounds = self._bounds(residual, intercept_curvature[at], scaling.spread * following)
            rest[at[is_open]] = bounds[is_open]
            ratio = np.where(square > 0.0, following / square, 0.0)
            square = np.where(is_open, following, 0.0)
            search *= arrays.factors(ratio, search)
            search += scaled
        return direction, rest

    def _bounds(
        self, residual: Any, intercept_curvature: np.ndarray, estimates: np.ndarray
    ) -> np.ndarray:
        """Return at least r^T H^-1 r of every column r, or the estimates where they are less."""
        last = self._arrays.to_host(residual[-1]).astype(np.float64) ** 2
        whole = (self._arrays.dots(residual, residual) - last) / self._l2
        whole += np.where(last > 0.0, last / intercept_curvature, 0.0)
        return np.fmin(whole, estimates)

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
        taken = self._arrays.factors(steps, moves)
        direction *= taken
        moves *= taken
        self._w += direction
        self._z += moves
        return steps > 0.0

    def _penalties(self, left: Any, right: Any) -> np.ndarray:
        """Return the inner products of the penalty, float64."""
        arrays = self._arrays
        last = arrays.to_host(left[-1]).astype(np.float64) * arrays.to_host(right[-1])
        return arrays.dots(left, right) - (1.0 - self._bias_l2) * last

    def _keep(self, ended: np.ndarray) -> None:
        """Store the models at these places."""
        at = np.flatnonzero(ended)
        arrays = self._arrays
        self._vectors[:, self.models[at]] = arrays.to_host(arrays.take(self._w, at))
        self._margins[:, self.models[at]] = arrays.to_host(arrays.take(self._z, at))

    def _narrow(self, left: np.ndarray) -> None:
        """Go on with the models at these places."""
        self.models = self.models[left]
        if not len(left):
            return
        size = self._padded(len(left))
        if size < self._w.shape[1]:
            order = self._whole_panels(left, self._w.shape[1])
        else:
            order = np.concatenate([left, np.setdiff1d(np.arange(size), left)])
        self._w = self._arrays.take(self._w, order)
        self._z = self._arrays.take(self._z, order)
        self._losses = self._losses_of(self.models, size)

    def _padded(self, n_models: int) -> int:
        """Return the number of columns of so many models: whole panels, or the fewest."""
        fewest = self._products.fewest
        return fewest if n_models <= fewest else -(-n_models // PANEL) * PANEL

    def _whole_panels(self, columns: np.ndarray, n_columns: int) -> np.ndarray:
        """Return the columns, and others after them that fill a panel."""
        others = np.setdiff1d(np.arange(n_columns), columns)
        return np.concatenate([columns, others[: self._padded(len(columns)) - len(columns)]])

    def _losses_of(self, models: np.ndarray, size: int) -> ManyLosses:
        """Return the losses of some models; columns that fill a panel have no weight."""
        of, dtype = self._targets.take(models), self._products.dtype
        more = size - len(models)
        return self._products.losses(
            self._problem.loss.core_name,
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
