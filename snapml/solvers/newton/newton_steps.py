"""Newton steps by conjugate gradients, truncated, for problems of very many columns.

One product with the Hessian costs a read and serves all outputs; a factor of the Hessian would not
fit, and a block of it leaves too much of it out. Truncated Newton (Dembo and Steihaug 1983), scaled
by the diagonal, or by what is as easily factored once products have cost as much as that does; the
line search alone bounds a step, since a trust region of past steps' lengths is small after each
that met a jump of the curvature, and slow to grow again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from snapml.problems import Intercept
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import UNBOUNDED, Control
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.inner_products import inner
from snapml.solvers.newton.preconditioners import DiagonalCurvature, KroneckerCurvature
from snapml.solvers.newton.sample_size import products_of_factors

__all__ = ["NewtonSteps"]

# Share of the gradient that a step may leave, in the preconditioner's norm: this or, near the
# minimum, the root of the share that is left of the first gradient, but no less than the rows that
# products leave out may change.
_RESIDUAL, _LEAST_RESIDUAL = 0.5, 0.1
# Of a quadratic loss one step is all: share of the gap asked for that it may leave.
_LEFT_OF_GAP = 0.5
# A step. One that is cut short begins again with the slow part of what it was about to learn.
_MOST_PRODUCTS = 1000
# Products of rows in memory that count as one read towards the most that a fit may take: other
# programs count a step of up to 200 as one iteration. Those of a store are reads like others.
_PRODUCTS_A_READ = 50
# Share of a trial's products after which it is judged, and of the way to the gap asked for, in its
# logarithm, that must be gone by then.
_JUDGED, _LEAST_GONE = 0.25, 0.1
# Share of the Hessian that products may leave out with rows of next to no curvature.
_LEFT_OUT = 0.01
# Where the last step took fewer products, neither factors nor a copy of the other rows is worth it.
_FEW_PRODUCTS = 8


class Point(Protocol):
    """What a step needs of the descent."""

    coef: Any
    gradient: Any
    value: float
    n_passes: int

    def advance(self, direction: Any) -> bool:
        """Move along a direction, and say whether the objective fell."""

    def forget(self) -> None:
        """Drop the steps before."""


class NewtonSteps:
    """Steps that reduce the quadratic model by products with its Hessian.

    Parameters
    ----------
    engine : PrimalEngine
        Shard of the data, at the descent's point before each step.
    communicator : Communicator
        The other shards.
    most_reads : int
        Reads of the data after the first that all steps together may take.
    tol : float
        Share of the objective that its gap may be.
    control : Control, default=UNBOUNDED
        Whose time cuts a step short: it may read the data hundreds of times.
    most_products : float, default=inf
        After which another method is to go on.
    """

    def __init__(
        self,
        engine: PrimalEngine,
        communicator: Communicator,
        most_reads: int,
        tol: float,
        control: Control = UNBOUNDED,
        most_products: float = math.inf,
    ) -> None:
        self._left_to_others, self._first_gap = most_products, math.inf
        self._engine, self._communicator, self._control = engine, communicator, control
        self._most_reads, self._tol = most_reads, tol
        self._first_square = 0.0
        self._n_products = self._n_last = 0
        self._products_a_read = 1 if engine.is_streamed else _PRODUCTS_A_READ
        self.curvature: DiagonalCurvature | KroneckerCurvature | None = None
        self._price = math.inf  # of factors, in products
        if KroneckerCurvature.suits(engine):
            own = np.array([float(engine.n_rows), float(engine.n_stored)])
            n_rows, n_stored = communicator.allreduce_sum(own).tolist()
            self._price = products_of_factors(engine, n_rows, n_stored)
        self._n_paid = 0  # products before the present factors
        self._point: Any = None  # where these were made

    def state(self) -> dict[str, Any]:
        """Return what `resume` takes, on the host."""
        return {
            "first_square": self._first_square,
            "first_gap": self._first_gap,
            "n_products": self._n_products,
            "n_last": self._n_last,
            "n_paid": self._n_paid,
            "point": None if self._point is None else self._engine.to_host(self._point),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where other steps have ended; leaves the engine where their factors were made."""
        self._first_square, self._first_gap = state["first_square"], state["first_gap"]
        self._n_products = state["n_products"]
        self._n_last, self._n_paid = state["n_last"], state["n_paid"]
        if state["point"] is not None:
            self._point = self._engine.to_vectors(state["point"])
            self._engine.fused_pass(self._point)
            self._engine.accept()
            self.curvature = KroneckerCurvature(self._engine, self._communicator)

    @property
    def description(self) -> str:
        """What the steps are, and why."""
        n_features = self._engine.n_features
        return f"Newton's method by conjugate gradients ({n_features} columns are many to factor)"

    @property
    def n_products(self) -> int:
        """Products with the Hessian so far."""
        return self._n_products

    def is_spent(self, gap: float, allowed: float) -> bool:
        """Say whether the products that were to be tried are used up, or get nowhere.

        Parameters
        ----------
        gap, allowed : float
            Certified by now, and asked for.

        Returns
        -------
        bool
            Whether another method is to go on.
        """
        if math.isinf(self._first_gap):
            self._first_gap = gap
        if self._n_products < _JUDGED * self._left_to_others:
            return False
        way = math.log(max(self._first_gap, allowed) / allowed) if allowed > 0.0 else math.inf
        gone = math.log(self._first_gap / gap) if 0.0 < gap < self._first_gap else 0.0
        return self._n_products >= self._left_to_others or gone < _LEAST_GONE * way

    def n_reads(self, point: Point) -> int:
        """Return how many times the data was read after the first read.

        Of rows in memory fifty products count as one.
        """
        return point.n_passes - 1 + -(-self._n_products // self._products_a_read)

    def step(self, point: Point, before: float) -> float:
        """Move once; return the squared Newton decrement, 0 where nothing leads down.

        Parameters
        ----------
        point : Point
            The descent.
        before : float
            What the last step returned; not needed here.

        Returns
        -------
        float
            Twice what the step was expected to gain.
        """
        curvature = self._renewed(point)
        if self._n_last >= _FEW_PRODUCTS:
            self._engine.leave_flat_rows(_LEFT_OUT)
        before_step = self._n_products
        reads_left = self._most_reads - self.n_reads(point) - 1  # the step itself takes one
        most_products = max(1, reads_left * self._products_a_read)
        if math.isfinite(self._left_to_others):
            left = int(self._left_to_others) - self._n_products
            most_products = min(most_products, left, int(_JUDGED * self._left_to_others) + 1)
        direction = self._direction(point, curvature, most_products)
        self._n_last = self._n_products - before_step
        decrement = -inner(self._engine, direction, point.gradient)
        has_moved = point.advance(direction)
        point.forget()  # no step here is made from those before
        return decrement if has_moved else 0.0

    def _renewed(self, point: Point) -> DiagonalCurvature | KroneckerCurvature:
        """Return what the next step is scaled by.

        Factors are made, and made anew, once the products since have taken as long as they will, at
        worst twice as long as with the better of the two; and if steps take more than a few.
        """
        engine, shards, curvature = self._engine, self._communicator, self.curvature
        is_paid = self._n_products - self._n_paid >= self._price
        is_due = is_paid and self._n_last >= _FEW_PRODUCTS
        if is_due:
            self._n_paid, self._point = self._n_products, point.coef
        if curvature is None:
            curvature = DiagonalCurvature(engine, shards)
        elif is_due and isinstance(curvature, DiagonalCurvature):
            curvature = KroneckerCurvature(engine, shards)
        elif is_due or isinstance(curvature, DiagonalCurvature):
            curvature.update(engine, shards)
        self.curvature = curvature
        return curvature

    def _direction(
        self, point: Point, curvature: DiagonalCurvature | KroneckerCurvature, most_products: int
    ) -> Any:
        """Return an approximate minimum of the quadratic model."""
        engine, multiply = self._engine, self._engine.vectors.multiply
        direction, residual = engine.vectors.zeros_like(point.gradient), -point.gradient
        scaled = curvature.solve(residual)
        search, square = scaled.copy(), inner(engine, residual, scaled)
        room = scaled  # long arrays: new memory for each sum would take as long as the sum
        self._first_square = self._first_square or square
        left = math.sqrt(square / self._first_square) if square > 0.0 else 0.0
        enough, value = max(min(_RESIDUAL**2, left), _LEAST_RESIDUAL**2) * square, point.value
        for _ in range(min(_MOST_PRODUCTS, most_products)):
            is_near = self._is_solved(residual, value) if self._is_exact else not square > enough
            if is_near or self._control.is_time_over(self._communicator):
                break
            product = self._product(search)
            bend = inner(engine, search, product)
            if not bend > 0.0:
                break
            step = square / bend
            value -= 0.5 * step * square
            direction += multiply(search, step, out=room)
            residual -= multiply(product, step, out=room)
            scaled = curvature.solve(residual, out=room)
            following = inner(engine, residual, scaled)
            ratio, square = following / square, following
            search *= ratio
            search += scaled
        return direction

    @property
    def _is_exact(self) -> bool:
        """Whether the model is the objective: a step goes on until its gap is small enough."""
        return self._engine.problem.loss.is_quadratic

    def _is_solved(self, residual: Any, value: float) -> bool:
        """Return whether a gradient is so small that the gap, g.g / (2 l2), is."""
        problem = self._engine.problem
        own = residual if problem.intercept is Intercept.PENALISED else residual[:, :-1]
        allowed = 2.0 * problem.penalty.l2 * _LEFT_OF_GAP * self._tol * max(value, 0.0)
        return inner(self._engine, own, own) <= allowed

    def _product(self, direction: Any) -> Any:
        """Return the objective's Hessian times a direction."""
        self._n_products += 1
        product = self._communicator.allreduce_sum(self._engine.hessian_product(direction))
        problem = self._engine.problem
        is_penalised = problem.intercept is Intercept.PENALISED
        last = None if is_penalised else -1
        product[:, :last] += problem.penalty.l2 * direction[:, :last]
        return product
