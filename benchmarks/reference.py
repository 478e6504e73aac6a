"""Reference optima that owe nothing to the libraries, each with a certificate, in float64.

Smooth losses: Newton's method from the best coefficients that any library found, so that it only
polishes; the certificate 1/2 ||grad P||^2 does not depend on where it started. Up to
`EXPLICIT_HESSIAN_FEATURES` columns the Hessian is formed and factorised; above, the step is
solved by conjugate gradients with the Hessian's diagonal as preconditioner.

Hinge: the dual, a quadratic over a box, by SciPy's L-BFGS-B; the certificate is P - D.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, sparse

from benchmarks.objective import LOSSES, FloatArray, Loss, gradient_gap, primal_objective
from benchmarks.problems import Problem
from benchmarks.synthetic_data import Matrix

EXPLICIT_HESSIAN_FEATURES = 5000
_MAX_COPY_BYTES = 6_000_000_000
_RELATIVE_GAP = 1e-14
_MAX_STEPS = 100
_MAX_CG_STEPS = 500


@dataclass(frozen=True)
class Reference:
    """A reference point and its certificate.

    Parameters
    ----------
    objective : float
        P at the point.
    gap : float
        Certified bound on P - P*.
    n_iter : int
        Iterations taken.
    method : str
        How it was found.
    """

    objective: float
    gap: float
    n_iter: int
    method: str


class _SmoothProblem:
    """Objective, gradient and Hessian of a smooth problem without intercept, X in float64."""

    def __init__(self, problem: Problem) -> None:
        self.X: Matrix = problem.X.astype(np.float64)
        self.y: FloatArray = problem.signed_labels
        self.C: float = problem.C
        self.loss: Loss = LOSSES[problem.loss]

    def value(self, coef: FloatArray, margins: FloatArray) -> float:
        loss_sum = float(np.sum(self.loss.value(margins, self.y)))
        return self.C * loss_sum + 0.5 * float(coef @ coef)

    def gradient(self, coef: FloatArray, margins: FloatArray) -> FloatArray:
        gradient: FloatArray = coef + self.C * (self.X.T @ self.loss.slope(margins, self.y))
        return gradient

    def newton_step(self, margins: FloatArray, gradient: FloatArray, deadline: float) -> FloatArray:
        weights = self.C * self.loss.curvature(margins, self.y)
        if self.X.shape[1] <= EXPLICIT_HESSIAN_FEATURES:
            return self._solve_explicitly(weights, gradient)
        return self._solve_by_conjugate_gradients(weights, gradient, deadline)

    def _solve_explicitly(self, weights: FloatArray, gradient: FloatArray) -> FloatArray:
        if sparse.issparse(self.X):
            hessian = (self.X.T @ sparse.diags_array(weights) @ self.X).toarray()
        else:
            hessian = self.X.T @ (weights[:, None] * self.X)
        hessian[np.diag_indices_from(hessian)] += 1.0
        step: FloatArray = linalg.cho_solve(linalg.cho_factor(hessian), -gradient)
        return step

    def _solve_by_conjugate_gradients(
        self, weights: FloatArray, gradient: FloatArray, deadline: float
    ) -> FloatArray:
        diagonal = 1.0 + self.X.power(2).T @ weights if sparse.issparse(self.X) else 1.0
        step = np.zeros_like(gradient)
        residual = -gradient
        scaled = residual / diagonal
        direction = scaled.copy()
        energy = float(residual @ scaled)
        target = energy * min(1e-2, float(np.linalg.norm(gradient)) * 1e-2) ** 2
        for _ in range(_MAX_CG_STEPS):
            image = direction + self.X.T @ (weights * (self.X @ direction))
            length = energy / float(direction @ image)
            step += length * direction
            residual -= length * image
            scaled = residual / diagonal
            previous, energy = energy, float(residual @ scaled)
            if energy <= target or time.perf_counter() > deadline:
                break
            direction = scaled + (energy / previous) * direction
        return step


def find_reference(problem: Problem, start: FloatArray, budget_s: float) -> Reference | None:
    """Find a certified reference point.

    Parameters
    ----------
    problem : Problem
        Data, loss and C.
    start : ndarray of shape (n_features,)
        Coefficients to start from, where the method can use them.
    budget_s : float
        Seconds after which the best point so far is returned.

    Returns
    -------
    Reference or None
        None with an intercept, or where a float64 copy of X would be too large.
    """
    if problem.fit_intercept or 16 * problem.n_nonzeros > _MAX_COPY_BYTES:
        return None
    if LOSSES[problem.loss].is_smooth:
        return _polish_by_newton(problem, start, budget_s)
    return _solve_hinge_dual(problem, budget_s)


def _solve_hinge_dual(problem: Problem, budget_s: float) -> Reference:
    """Maximise sum(a) - 1/2 ||X^T (y a)||^2 over 0 <= a <= C."""
    signed_X: Matrix = problem.X.astype(np.float64)
    y = problem.signed_labels
    signed_X = (
        sparse.diags_array(y) @ signed_X if sparse.issparse(signed_X) else y[:, None] * signed_X
    )
    deadline = time.perf_counter() + budget_s

    def negative_dual(duals: FloatArray) -> tuple[float, FloatArray]:
        coef = signed_X.T @ duals
        return 0.5 * float(coef @ coef) - float(duals.sum()), signed_X @ coef - 1.0

    def stop_in_time(_: FloatArray) -> None:
        if time.perf_counter() > deadline:
            raise StopIteration

    n_rows = problem.X.shape[0]
    result = optimize.minimize(
        negative_dual,
        np.full(n_rows, 0.5 * problem.C),
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(0.0, problem.C),
        callback=stop_in_time,
        options={"maxiter": 100_000, "maxfun": 200_000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-12},
    )
    value = primal_objective(problem, signed_X.T @ result.x)
    return Reference(value, value + float(result.fun), int(result.nit), "hinge dual, L-BFGS-B")


def _polish_by_newton(problem: Problem, start: FloatArray, budget_s: float) -> Reference:
    """Newton's method with halved steps, until the certificate is at rounding level."""
    smooth = _SmoothProblem(problem)
    deadline = time.perf_counter() + budget_s
    coef = start.copy()
    margins = smooth.X @ coef
    value = smooth.value(coef, margins)
    n_steps = 0
    while n_steps < _MAX_STEPS and time.perf_counter() < deadline:
        gradient = smooth.gradient(coef, margins)
        if 0.5 * float(gradient @ gradient) <= _RELATIVE_GAP * value:
            break
        step = smooth.newton_step(margins, gradient, deadline)
        size = _armijo_size(smooth, coef, margins, step, float(gradient @ step), value)
        if size == 0.0:  # no decrease left that float64 can see
            break
        coef = coef + size * step
        margins = smooth.X @ coef
        value = smooth.value(coef, margins)
        n_steps += 1
    gap = gradient_gap(problem, coef)
    assert gap is not None  # smooth and without intercept, checked above
    return Reference(primal_objective(problem, coef), gap, n_steps, "newton-float64")


def _armijo_size(
    smooth: _SmoothProblem,
    coef: FloatArray,
    margins: FloatArray,
    step: FloatArray,
    slope: float,
    value: float,
) -> float:
    """Return the first of 1, 1/2, 1/4, ... that decreases enough, or 0; X is read once."""
    margin_step = smooth.X @ step
    size = 1.0
    # At the optimum the decrease drowns in rounding: allow for that much noise once.
    noise = 1e-15 * abs(value)
    while size > 1e-10:
        trial = smooth.value(coef + size * step, margins + size * margin_step)
        if trial <= value + 1e-4 * size * slope + noise:
            return size
        size *= 0.5
    return 0.0
