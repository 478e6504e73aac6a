"""A point of a smooth problem with its gradient, and steps from it that see the data once."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snapml.problems import Intercept
from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.inner_products import all_finite, inner, inner_products
from snapml.solvers.newton.curvature import Curvature
from snapml.solvers.range_checks import check_range
from snapml.solvers.result import overflow_error

__all__ = ["Descent"]

_MEMORY = 10
_ARMIJO = 1e-4
# Mean loss below which a classifier without penalty has separated the classes.
_VANISHED = 1e-8


@dataclass
class Descent:
    """A point with its objective and gradient, and the steps that led there.

    Points, steps and gradients are arrays of the engine's `vectors`.
    """

    engine: PrimalEngine
    communicator: Communicator
    coef: Any
    loss: float = math.nan
    value: float = math.nan
    loss_gradient: Any = field(default_factory=lambda: np.empty(0))
    gradient: Any = field(default_factory=lambda: np.empty(0))
    stiffness: float = 0.0
    total_weight: float = 0.0
    n_rows: int = 0
    n_stored: int = 0
    n_passes: int = 0
    _pairs: deque[tuple[Any, Any, float]] = field(default_factory=lambda: deque(maxlen=_MEMORY))

    def begin(self) -> None:
        """Evaluate the first point, and see whether the data are fit to be worked with."""
        self.loss, self.loss_gradient, self.stiffness = self._pass(self.coef, True)
        engine, ridge = self.engine, self._ridge(self.coef)
        self.value = self.loss + 0.5 * inner(engine, ridge, self.coef)
        self.gradient = self.loss_gradient + ridge
        own = [engine.total_weight, float(engine.n_rows), float(engine.n_stored)]
        total_weight, n_rows, n_stored = self.communicator.allreduce_sum(np.array(own)).tolist()
        self.total_weight, self.n_rows, self.n_stored = total_weight, int(n_rows), int(n_stored)
        is_finite = math.isfinite(self.value) and all_finite(engine, self.gradient)
        if not (is_finite and math.isfinite(self.stiffness)):
            engine.check_finite()
        check_range(self.stiffness, engine.dtype)
        if not is_finite:
            raise overflow_error(engine.dtype)
        self.engine.accept()

    def state(self) -> dict[str, Any]:
        """Return what `resume` takes, on the host."""
        to_host = self.engine.to_host
        pairs = [[to_host(s), to_host(y), float(rho)] for s, y, rho in self._pairs]
        return {"coef": to_host(self.coef), "n_passes": self.n_passes, "pairs": pairs}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where another descent was; the read that evaluates its point does not count."""
        to_vectors = self.engine.to_vectors
        self.coef = to_vectors(state["coef"])
        self.begin()
        self.n_passes = state["n_passes"]
        self._pairs.clear()
        self._pairs.extend((to_vectors(s), to_vectors(y), rho) for s, y, rho in state["pairs"])

    @property
    def n_steps(self) -> int:
        """How many of the last steps are known, with the gradient's change along them."""
        return len(self._pairs)

    @property
    def last_pair(self) -> tuple[Any, Any] | None:
        """The last step, and the gradient's change along it; None before the first."""
        return self._pairs[-1][:2] if self._pairs else None

    def direction(self, curvature: Curvature) -> Any:
        """Return the quasi-Newton direction, by the two-loop recursion; the host reads nothing."""
        vdot = self.engine.vectors.vdot
        q = self.gradient.copy()
        factors = []
        for s, y, rho in reversed(self._pairs):
            factor = rho * vdot(s, q)
            factors.append(factor)
            q -= factor * y
        q = curvature.solve(q)
        for (s, y, rho), factor in zip(self._pairs, reversed(factors), strict=True):
            q += (factor - rho * vdot(y, q)) * s
        return -q

    def advance(self, direction: Any) -> bool:
        """Move along a direction, and say whether the objective fell."""
        slope = inner(self.engine, self.gradient, direction)
        if not slope < 0.0:
            return False
        if self._try(direction, slope):
            return True
        step = self._line_search(direction, slope)
        return step > 0.0 and self._try(step * direction, step * slope)

    @property
    def has_no_minimum(self) -> bool:
        """Whether the loss, without a penalty, falls towards zero: the classes are separable."""
        is_classification = self.engine.problem.loss.labels == "sign"
        is_unpenalised = self.engine.problem.penalty.l2 <= 0.0
        vanishes = self.loss <= _VANISHED * self.total_weight
        return is_classification and is_unpenalised and vanishes

    def value_at(self, coef: Any) -> float:
        """Return the objective at another point, by one read; the present one stays."""
        point = coef.astype(np.float64)
        loss, _, _ = self._pass(point, False)
        return loss + 0.5 * inner(self.engine, self._ridge(point), point)

    def forget(self) -> None:
        """Drop the steps: a new curvature knows better."""
        self._pairs.clear()

    def _try(self, step: Any, slope: float) -> bool:
        coef = self.coef + step
        loss, loss_gradient, _ = self._pass(coef, False)
        ridge = self._ridge(coef)
        gradient = loss_gradient + ridge
        change = gradient - self.gradient
        penalty, product = inner_products(self.engine, (ridge, coef), (step, change))
        value = loss + 0.5 * penalty
        rounding = 4.0 * np.finfo(np.float64).eps * abs(self.value)
        if not value <= self.value + _ARMIJO * slope + rounding:
            return False
        if product > 1e-12 * abs(slope):
            self._pairs.append((step, change, 1.0 / product))
        self.coef, self.loss, self.value = coef, loss, value
        self.loss_gradient, self.gradient = loss_gradient, gradient
        self.engine.accept()
        return True

    def _line_search(self, direction: Any, first_slope: float) -> float:
        """Return a step below 1 near the minimum along the direction, without the matrix."""
        low, high = 0.0, 1.0
        for _ in range(40):
            step = 0.5 * (low + high)
            sums = np.array(self.engine.line_point(step))
            slope = float(self.communicator.allreduce_sum(sums)[1])
            slope += inner(self.engine, self._ridge(self.coef + step * direction), direction)
            # At least as far as the slope has fallen by half, short of where it has turned.
            if not slope <= 0.0:
                high = step
            elif slope < 0.5 * first_slope:
                low = step
            else:
                return step
        return low

    def _pass(self, coef: Any, wants_stiffness: bool) -> tuple[float, Any, float]:
        self.n_passes += 1
        loss, gradient, stiffness = self.engine.fused_pass(coef, wants_stiffness=wants_stiffness)
        sums = self.communicator.allreduce_sum(np.array([loss, stiffness]))
        return float(sums[0]), self.communicator.allreduce_sum(gradient), float(sums[1])

    def _ridge(self, coef: Any) -> Any:
        """Return the gradient of the penalty."""
        ridge = self.engine.problem.penalty.l2 * coef
        if self.engine.problem.intercept is not Intercept.PENALISED:
            ridge[:, -1] = 0.0
        return ridge
