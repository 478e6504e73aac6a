"""Elastic net problems: objective, dual, and an independent optimum by accelerated gradients."""

from dataclasses import dataclass

import numpy as np

from reference.losses import LossOracle


@dataclass(frozen=True)
class ElasticNetObjective:
    """P(w, b) = sum_i c_i l(x_i.w + b, y_i) + l1 ||w||_1 + l2 ||w||^2 / 2 in float64.

    A penalised intercept is the coefficient u of one more column of value `scaling`, b = scaling u.
    """

    loss: LossOracle
    X: np.ndarray
    y: np.ndarray
    c: np.ndarray
    l1: float
    l2: float = 0.0
    is_positive: bool = False
    intercept: str = "none"
    scaling: float = 1.0

    def penalty(self, w: np.ndarray) -> float:
        if self.is_positive and np.any(w < 0):
            return np.inf
        return float(self.l1 * np.abs(w).sum() + self.l2 * w @ w / 2)

    def primal(self, w: np.ndarray, b: float = 0.0) -> float:
        """Return P(w, b)."""
        w, b = np.asarray(w, dtype=np.float64), float(np.ravel(b)[0])
        loss = self.c @ self.loss.value(self.X @ w + b, self.y)
        extra = [b / self.scaling] if self.intercept == "penalised" else []
        return float(loss + self.penalty(np.append(w, extra)))

    def minimum(self, n_steps: int = 100_000) -> float:
        """Return min P, by FISTA with restarts on normalised columns."""
        columns = [self.X]
        if self.intercept != "none":
            value = self.scaling if self.intercept == "penalised" else 1.0
            columns.append(np.full((len(self.X), 1), value))
        A = np.hstack(columns)
        is_penalised = np.ones(A.shape[1])
        if self.intercept == "free":
            is_penalised[-1] = 0.0
        square = np.linalg.norm(np.sqrt(self.c)[:, None] * A, 2) ** 2
        curvature = self.loss.max_curvature * square + self.l2
        if is_unbounded := not np.isfinite(curvature):
            curvature = 0.0
        u, v, t = np.zeros(A.shape[1]), np.zeros(A.shape[1]), 1.0
        for _ in range(n_steps):
            if is_unbounded:  # twice what was met so far
                met = float(np.max(self.loss.curvature(A @ v, self.y)))
                curvature = max(curvature, 2.0 * met * square + self.l2)
            slope = A.T @ (self.c * self.loss.gradient(A @ v, self.y)) + self.l2 * is_penalised * v
            x = v - slope / curvature
            shrink = self.l1 * is_penalised / curvature
            new = np.sign(x) * np.maximum(np.abs(x) - shrink, 0.0)
            if self.is_positive:
                new = np.where(is_penalised > 0, np.maximum(x - shrink, 0.0), x)
            if (v - new) @ (new - u) > 0:  # the momentum points uphill
                t = 1.0
            t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
            v = new + (t - 1) / t_next * (new - u)
            step, u, t = np.abs(new - u).max(), new, t_next
            if step <= 1e-15 * (1e-3 + np.abs(u).max()):
                break
        value = self.c @ self.loss.value(A @ u, self.y)
        return float(value + self.penalty(u[is_penalised > 0]))
