"""Objective (1) of docs/notation.md, its dual, and its exact optimum on small problems."""

from dataclasses import dataclass

import numpy as np

from reference.losses import LossOracle


@dataclass(frozen=True)
class Objective:
    """P(w, b) = sum_i c_i l(x_i.w + b, y_i) + ||w||^2 / 2 in float64.

    Attributes
    ----------
    loss : LossOracle
        The loss l.
    X : ndarray of shape (n_rows, n_features)
        Dense rows.
    y, c : ndarray of shape (n_rows,)
        Labels and row weights.
    intercept : {"none", "free", "penalised"}
        Whether b is 0, free, or penalised by (b / scaling)^2 / 2.
    scaling : float
        See `intercept`.
    """

    loss: LossOracle
    X: np.ndarray
    y: np.ndarray
    c: np.ndarray
    intercept: str = "none"
    scaling: float = 1.0

    def primal(self, w: np.ndarray, b: float = 0.0) -> float:
        """Return P(w, b)."""
        w = np.asarray(w, dtype=np.float64)
        penalty = w @ w / 2
        if self.intercept == "penalised":
            penalty += (b / self.scaling) ** 2 / 2
        return float(self.c @ self.loss.value(self.X @ w + b, self.y) + penalty)

    def dual(self, beta: np.ndarray) -> float:
        """Return D(beta), -inf where beta is not feasible for the loss.

        The constraint sum(beta) = 0 of a free intercept is left to the caller.
        """
        weighted = self.c > 0
        c = self.c[weighted]
        terms = c * self.loss.conjugate(-beta[weighted] / c, self.y[weighted])
        v = self.X.T @ beta
        penalty = v @ v / 2
        if self.intercept == "penalised":
            penalty += (self.scaling * beta.sum()) ** 2 / 2
        return float(-terms.sum() - penalty)

    def gap(self, w: np.ndarray, b: float, beta: np.ndarray) -> float:
        """Return P(w, b) - D(beta)."""
        return self.primal(w, b) - self.dual(beta)


@dataclass(frozen=True)
class Optimum:
    """The minimiser of an `Objective`."""

    coef: np.ndarray
    intercept: float
    objective: float


def find_optimum(problem: Objective) -> Optimum:
    """Minimise P; an AssertionError means that this reference, not the library, failed."""
    if problem.loss.is_smooth:
        return _newton(problem)
    return _box_dual(problem)


def _design(problem: Objective) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with the intercept's column, and each column's penalty."""
    n_rows, n_features = problem.X.shape
    penalty = np.ones(n_features)
    if problem.intercept == "none":
        return problem.X, penalty
    is_free = problem.intercept == "free"
    column = np.full((n_rows, 1), 1.0 if is_free else problem.scaling)
    return np.hstack([problem.X, column]), np.append(penalty, 0.0 if is_free else 1.0)


def _as_optimum(problem: Objective, u: np.ndarray) -> Optimum:
    n_features = problem.X.shape[1]
    b = 0.0
    if problem.intercept != "none":
        b = float(u[-1]) * (problem.scaling if problem.intercept == "penalised" else 1.0)
    w = u[:n_features]
    return Optimum(w, b, problem.primal(w, b))


def _newton(problem: Objective) -> Optimum:
    """Newton's method with halved steps; for the squared loss one step solves it."""
    A, penalty = _design(problem)
    y, c, loss = problem.y, problem.c, problem.loss

    def value(u: np.ndarray) -> float:
        return c @ loss.value(A @ u, y) + penalty @ u**2 / 2

    u = np.zeros(A.shape[1])
    for _ in range(100):
        z = A @ u
        gradient = A.T @ (c * loss.gradient(z, y)) + penalty * u
        hessian = A.T @ ((c * loss.curvature(z, y))[:, None] * A) + np.diag(penalty)
        step = np.linalg.lstsq(hessian, -gradient)[0]
        length = 1.0
        while value(u + length * step) > value(u) * (1 + 1e-14) and length > 1e-10:
            length /= 2
        u = u + length * step
        if np.abs(step).max() <= 1e-14 * (1 + np.abs(u).max()):
            break
    gradient = A.T @ (c * loss.gradient(A @ u, y)) + penalty * u
    scale = np.abs(A).T @ (c * np.abs(loss.gradient(A @ u, y))) + penalty * np.abs(u)
    # P - P* <= ||gradient||^2 / 2 where the penalty has curvature 1: far below any tolerance.
    assert np.all(np.abs(gradient) <= 1e-10 * (1 + scale)), "the reference did not converge"
    return _as_optimum(problem, u)


def _box_dual(problem: Objective) -> Optimum:
    """Find which rows lie on a corner, then solve the optimality conditions exactly.

    Of the hinge, or of losses whose one corner is at the label.
    """
    weighted = problem.c > 0
    A, penalty = _design(problem)
    y, c = problem.y[weighted], problem.c[weighted]
    is_sign = problem.loss.labels == "sign"
    sign = y if is_sign else np.ones(len(y))  # beta = sign * alpha
    signed = sign[:, None] * A[weighted]
    kernel = (signed * penalty) @ signed.T
    is_free = problem.intercept == "free"
    constraint = sign[None, :] if is_free else np.empty((0, len(y)))  # sum(beta) = 0
    linear = np.ones(len(y)) if is_sign else y
    low, high = (bound * c for bound in problem.loss.states)

    start = np.zeros(len(y))
    if is_sign:
        positive = c[y > 0].sum()
        share = min(positive, c.sum() - positive) / 2
        start = np.where(y > 0, share / positive, share / (c.sum() - positive)) * c
    alpha = _central_path(kernel, constraint, linear, (low, high), start)
    # Rows strictly between their bounds are on the corner, which determines their alpha, and b.
    margin = 1e-4 * (high - low)
    on_corner = (alpha > low + margin) & (alpha < high - margin)
    alpha = np.where(on_corner, 0.0, np.where(alpha > (low + high) / 2, high, low))
    slack = linear - kernel @ alpha
    system = _bordered(kernel[np.ix_(on_corner, on_corner)], constraint[:, on_corner])
    solution = np.linalg.lstsq(system, np.append(slack[on_corner], -constraint @ alpha))[0]
    alpha[on_corner] = solution[: on_corner.sum()]
    u = signed.T @ alpha
    if is_free:
        u[-1] = solution[-1]

    optimum = _as_optimum(problem, u)
    beta = np.zeros(len(problem.y))
    beta[weighted] = sign * np.clip(alpha, low, high)
    gap = optimum.objective - problem.dual(beta)
    assert abs(gap) <= 1e-12 * optimum.objective, "the reference did not converge"
    return optimum


def _central_path(
    kernel: np.ndarray,
    constraint: np.ndarray,
    linear: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    start: np.ndarray,
) -> np.ndarray:
    """Minimise alpha.kernel.alpha / 2 - linear.alpha inside a box, by a log barrier."""
    alpha, barrier = start, 1.0
    while barrier > 1e-9:
        for _ in range(20):
            below, above = alpha - box[0], box[1] - alpha
            gradient = kernel @ alpha - linear - barrier / below + barrier / above
            hessian = kernel + np.diag(barrier / below**2 + barrier / above**2)
            right = np.append(-gradient, np.zeros(len(constraint)))
            step = np.linalg.solve(_bordered(hessian, constraint), right)[: len(alpha)]
            reach = np.max(np.where(step > 0, step / above, -step / below))  # 1: to the bound
            alpha = alpha + min(1.0, 0.9 / reach) * step
            if reach < 1e-3:
                break
        barrier /= 10
    return alpha


def _bordered(matrix: np.ndarray, constraint: np.ndarray) -> np.ndarray:
    corner = np.zeros((len(constraint), len(constraint)))
    return np.block([[matrix, constraint.T], [constraint, corner]])
