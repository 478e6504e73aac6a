"""Reference optima that owe nothing to the libraries, each with a certificate, in float64.

All methods may start from coefficients that a library found, and then only polish them; their
certificates, from `objective.duality_gap`, do not depend on where they started.

Smooth loss, L2: Newton's method. Up to `EXPLICIT_HESSIAN_FEATURES` columns the Hessian is formed
and factorised; above, and for the multinomial loss, the step is solved by conjugate gradients,
preconditioned by the Hessian's diagonal or, a class at a time, by its diagonal blocks.

L1 norm in the penalty: the same on a working set of columns, each quadratic model solved by
coordinate descent and then exactly on its support.

Hinge: the dual, a quadratic over a box, by a primal-dual interior-point method up to
`EXPLICIT_HESSIAN_FEATURES` columns, else by SciPy's L-BFGS-B; the certificate is P - D.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, optimize, sparse
from scipy.linalg import blas

from benchmarks.objective import (
    LOSSES,
    FloatArray,
    Loss,
    duality_gap,
    float64_copy,
    penalty,
    primal_objective,
)
from benchmarks.problems import Problem
from benchmarks.synthetic_data import Matrix

EXPLICIT_HESSIAN_FEATURES = 5000
_MAX_BLOCK_FEATURES = 2500
_RELATIVE_GAP = 1e-13
_MAX_STEPS = 100
_MAX_CG_STEPS = 1000
_MAX_INTERIOR_STEPS = 80
_MAX_WORKING_SET = 4000
_SWEEPS = 10


@dataclass(frozen=True)
class Reference:
    """A reference point and its certificate.

    Parameters
    ----------
    coef : ndarray of shape `Problem.coef_shape`
        The point.
    objective : float
        P at the point.
    gap : float
        Certified bound on P - P*.
    n_iter : int
        Iterations taken.
    method : str
        How it was found.
    """

    coef: FloatArray
    objective: float
    gap: float
    n_iter: int
    method: str


def find_reference(problem: Problem, start: FloatArray, budget_s: float) -> Reference | None:
    """Find a certified reference point.

    Parameters
    ----------
    problem : Problem
        Data, loss, penalty and C.
    start : ndarray of shape `Problem.coef_shape`
        Coefficients to start from, where the method can use them.
    budget_s : float
        Seconds after which the best point so far is returned.

    Returns
    -------
    Reference or None
        None with an intercept, or where a float64 copy of X would be too large.
    """
    X = float64_copy(problem.X)
    if problem.fit_intercept or X is None:
        return None
    deadline = time.perf_counter() + budget_s
    if LOSSES[problem.loss].is_smooth:
        return _descend(problem, _SmoothProblem(problem, X), start, deadline)
    if X.shape[1] <= EXPLICIT_HESSIAN_FEATURES:
        return _solve_hinge_by_interior_point(problem, X, deadline)
    return _solve_hinge_dual(problem, X, deadline)


class _SmoothProblem:
    """Values, slopes and step directions of a problem with a smooth loss."""

    def __init__(self, problem: Problem, X: Matrix) -> None:
        self.X: Matrix = X
        self.y: FloatArray = problem.signed_labels
        self.C: float = problem.C
        self.l1_ratio: float = problem.l1_ratio
        self.ridge: float = 1.0 - problem.l1_ratio
        self.loss: Loss = LOSSES[problem.loss]
        self.problem = problem

    def margins(self, coef: FloatArray) -> FloatArray:
        margins: FloatArray = self.X @ coef.T
        return margins

    def value(self, coef: FloatArray, margins: FloatArray) -> float:
        loss_sum = float(np.sum(self.loss.value(margins, self.y)))
        return self.C * loss_sum + penalty(self.problem, coef)

    def gradient(self, coef: FloatArray, margins: FloatArray) -> FloatArray:
        """Gradient of all but the L1 norm."""
        image = (self.X.T @ self.loss.slope(margins, self.y)).T
        gradient: FloatArray = self.ridge * coef + self.C * image
        return gradient

    def step(
        self, coef: FloatArray, margins: FloatArray, gradient: FloatArray, deadline: float
    ) -> FloatArray:
        """Minimise the quadratic model around a point, at least roughly."""
        curvature = self.loss.curvature(margins, self.y)
        if self.l1_ratio:
            return self._proximal_step(coef, self.C * curvature, gradient)
        if coef.ndim == 2:
            return self._multinomial_step(curvature, gradient, deadline)
        weights = self.C * curvature
        if self.X.shape[1] <= EXPLICIT_HESSIAN_FEATURES:
            factor = linalg.cho_factor(_gram(self.X, weights, self.ridge))
            step: FloatArray = linalg.cho_solve(factor, -gradient)
            return step
        diagonal = self.ridge + _squares_sum(self.X, weights)
        return _conjugate_gradients(
            lambda direction: self.ridge * direction + self.X.T @ (weights * (self.X @ direction)),
            lambda residual: residual / diagonal,
            gradient,
            deadline,
        )

    def _multinomial_step(
        self, shares: FloatArray, gradient: FloatArray, deadline: float
    ) -> FloatArray:
        def apply_hessian(direction: FloatArray) -> FloatArray:
            image = shares * (self.X @ direction.T)
            image -= shares * image.sum(axis=1, keepdims=True)
            product: FloatArray = self.ridge * direction + self.C * (self.X.T @ image).T
            return product

        weights = [self.C * share * (1.0 - share) for share in shares.T]
        if self.X.shape[1] > _MAX_BLOCK_FEATURES:
            diagonal = self.ridge + np.stack([_squares_sum(self.X, w) for w in weights])
            return _conjugate_gradients(
                apply_hessian, lambda residual: residual / diagonal, gradient, deadline
            )
        factors = [linalg.cho_factor(_gram(self.X, w, self.ridge)) for w in weights]

        def solve_blocks(residual: FloatArray) -> FloatArray:
            pairs = zip(factors, residual, strict=True)
            return np.stack([linalg.cho_solve(factor, part) for factor, part in pairs])

        return _conjugate_gradients(apply_hessian, solve_blocks, gradient, deadline)

    def _proximal_step(
        self, coef: FloatArray, weights: FloatArray, gradient: FloatArray
    ) -> FloatArray:
        columns = _working_set(coef, gradient, self.l1_ratio)
        hessian = _gram(self.X[:, columns], weights, self.ridge)
        step = np.zeros_like(coef)
        step[columns] = _solve_l1_model(hessian, gradient[columns], coef[columns], self.l1_ratio)
        return step


def _descend(
    problem: Problem, smooth: _SmoothProblem, start: FloatArray, deadline: float
) -> Reference:
    """Newton's method with halved steps, until the certificate is at rounding level."""
    coef = start.astype(np.float64)
    margins = smooth.margins(coef)
    value = smooth.value(coef, margins)
    n_steps = 0
    while n_steps < _MAX_STEPS and time.perf_counter() < deadline:
        gradient = smooth.gradient(coef, margins)
        if _gap_is_small(problem, coef, gradient, value):
            break
        step = smooth.step(coef, margins, gradient, deadline)
        slope = float(np.sum(gradient * step))
        slope += smooth.l1_ratio * float(np.abs(coef + step).sum() - np.abs(coef).sum())
        size = _armijo_size(smooth, coef, margins, step, slope, value)
        if size == 0.0:  # no decrease left that float64 can see
            break
        coef = coef + size * step
        margins = smooth.margins(coef)
        value = smooth.value(coef, margins)
        n_steps += 1
        if size == 1.0 and -slope <= 1e-15 * abs(value):  # the step was all that was missing
            break
    gap = duality_gap(problem, coef)
    assert gap is not None  # smooth and without intercept, checked by the caller
    method = "proximal newton" if problem.l1_ratio else "newton"
    return Reference(coef, primal_objective(problem, coef), gap, n_steps, f"{method}-float64")


def _gap_is_small(problem: Problem, coef: FloatArray, gradient: FloatArray, value: float) -> bool:
    """Whether the certificate has reached rounding level; cheap for the L2 penalty."""
    if problem.l1_ratio == 0.0:
        return 0.5 * float(np.sum(gradient**2)) <= _RELATIVE_GAP * value
    gap = duality_gap(problem, coef)
    return gap is not None and gap <= _RELATIVE_GAP * value


def _armijo_size(
    smooth: _SmoothProblem,
    coef: FloatArray,
    margins: FloatArray,
    step: FloatArray,
    slope: float,
    value: float,
) -> float:
    """Return the first of 1, 1/2, 1/4, ... that decreases enough, or 0; X is read once."""
    margin_step = smooth.margins(step)
    size = 1.0
    # At the optimum the decrease drowns in rounding: allow for that much noise once.
    noise = 1e-15 * abs(value)
    while size > 1e-10:
        trial = smooth.value(coef + size * step, margins + size * margin_step)
        if trial <= value + 1e-4 * size * slope + noise:
            return size
        size *= 0.5
    return 0.0


def _gram(X: Matrix, weights: FloatArray, ridge: float) -> FloatArray:
    """X^T diag(weights) X + ridge I; of a dense X only the upper triangle is filled."""
    gram: FloatArray
    if sparse.issparse(X):
        gram = (X.T @ sparse.diags_array(weights) @ X).toarray()
    else:
        gram = blas.dsyrk(1.0, (np.sqrt(weights)[:, None] * X).T)
    gram[np.diag_indices_from(gram)] += ridge
    return gram


def _squares_sum(X: Matrix, weights: FloatArray) -> FloatArray:
    """Diagonal of X^T diag(weights) X."""
    squares = X.power(2) if sparse.issparse(X) else X**2
    diagonal: FloatArray = squares.T @ weights
    return diagonal


def _conjugate_gradients(
    apply_hessian: Any, precondition: Any, gradient: FloatArray, deadline: float
) -> FloatArray:
    """Solve H step = -gradient, the more tightly the smaller the gradient."""
    step = np.zeros_like(gradient)
    residual = -gradient
    scaled = precondition(residual)
    direction = scaled.copy()
    energy = float(np.sum(residual * scaled))
    target = energy * min(1e-2, float(np.linalg.norm(gradient)) * 1e-2) ** 2
    for _ in range(_MAX_CG_STEPS):
        image = apply_hessian(direction)
        length = energy / float(np.sum(direction * image))
        step += length * direction
        residual -= length * image
        scaled = precondition(residual)
        previous, energy = energy, float(np.sum(residual * scaled))
        if energy <= target or time.perf_counter() > deadline:
            break
        direction = scaled + (energy / previous) * direction
    return step


def _working_set(coef: FloatArray, gradient: FloatArray, rho: float) -> Any:
    """Columns that are not zero, and those that would not stay zero, the steepest first."""
    is_used = coef != 0.0
    steepness = np.where(is_used, np.inf, np.abs(gradient) - rho)
    n_used = int(is_used.sum())
    n_columns = min(int((steepness > 0.0).sum()), max(2 * n_used, 200), _MAX_WORKING_SET)
    return np.sort(np.argsort(-steepness)[: max(n_columns, 1)])


def _solve_l1_model(
    hessian: FloatArray, gradient: FloatArray, start: FloatArray, rho: float
) -> FloatArray:
    """Minimise g.d + d^T H d / 2 + rho ||start + d||_1 over d."""
    upper = np.triu(hessian)
    hessian = upper + np.triu(hessian, 1).T
    point = start.copy()
    tolerance = 1e-11 * (rho + float(np.abs(gradient).max()))
    for _ in range(30):
        slope = gradient + hessian @ (point - start)
        point = _sweep(hessian, slope, point, rho)
        point = _solve_on_support(hessian, gradient, start, point, rho)
        slope = gradient + hessian @ (point - start)
        violation = np.where(
            point != 0.0, np.abs(slope + rho * np.sign(point)), np.abs(slope) - rho
        )
        if violation.max() <= tolerance:
            break
    step: FloatArray = point - start
    return step


def _sweep(hessian: FloatArray, slope: FloatArray, point: FloatArray, rho: float) -> FloatArray:
    """Cyclic coordinate descent on the quadratic model."""
    point = point.copy()
    diagonal = hessian.diagonal()
    for _ in range(_SWEEPS):
        for j in range(point.size):
            target = point[j] - slope[j] / diagonal[j]
            shrunk = np.sign(target) * max(abs(target) - rho / diagonal[j], 0.0)
            change = shrunk - point[j]
            if change != 0.0:
                point[j] = shrunk
                slope += change * hessian[j]
    return point


def _solve_on_support(
    hessian: FloatArray, gradient: FloatArray, start: FloatArray, point: FloatArray, rho: float
) -> FloatArray:
    """Solve exactly for the coordinates that are not zero, dropping those that change sign."""
    while True:
        support = np.flatnonzero(point)
        if support.size == 0:
            return point
        shift = np.where(point != 0.0, 0.0, -start)
        right = -(gradient + hessian @ shift)[support] - rho * np.sign(point[support])
        try:
            factor = linalg.cho_factor(hessian[np.ix_(support, support)])
        except linalg.LinAlgError:
            return point
        target = start[support] + linalg.cho_solve(factor, right)
        crosses = target * point[support] <= 0.0
        if not crosses.any():
            exact = np.zeros_like(point)
            exact[support] = target
            return exact
        here = point[support]
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = np.where(crosses, here / (here - target), np.inf)
        length = float(lengths.min())
        moved = here + length * (target - here)
        moved[lengths <= length] = 0.0
        point = point.copy()
        point[support] = moved


class _InteriorPoint:
    """A point inside 0 <= a <= C with the multipliers of both bounds, and Newton's steps from it.

    The distance to the upper bound is a variable of its own: C - a would cancel.
    """

    def __init__(self, Z: Matrix, C: float) -> None:
        self.Z = Z
        self.duals = np.full(Z.shape[0], 0.5 * C)
        self.room = self.duals.copy()
        self.coef: FloatArray = Z.T @ self.duals
        slack = Z @ self.coef - 1.0
        spread = 1.0 + float(np.abs(slack).mean())
        self.lower = np.maximum(slack, 0.0) + spread
        self.upper = np.maximum(-slack, 0.0) + spread

    def advance(self, margins: FloatArray) -> None:
        """Take one predictor and one corrector step."""
        weights = 1.0 / (self.lower / self.duals + self.upper / self.room)
        factor = linalg.cho_factor(_gram(self.Z, weights, 1.0))
        residual = margins - 1.0 - self.lower + self.upper
        zeros = np.zeros_like(margins)
        step, lower_step, upper_step = self._solve(factor, weights, residual, zeros, zeros)
        length = min(1.0, self._longest(step, lower_step, upper_step))
        mean = self._mean_product(0.0, step, lower_step, upper_step)
        ahead = self._mean_product(length, step, lower_step, upper_step)
        aim = mean * (ahead / mean) ** 3
        step, lower_step, upper_step = self._solve(
            factor, weights, residual, aim - step * lower_step, aim + step * upper_step
        )
        length = min(1.0, 0.995 * self._longest(step, lower_step, upper_step))
        self.duals = self.duals + length * step
        self.room = self.room - length * step
        self.lower = self.lower + length * lower_step
        self.upper = self.upper + length * upper_step
        self.coef = self.Z.T @ self.duals

    def _solve(
        self,
        factor: Any,
        weights: FloatArray,
        residual: FloatArray,
        from_lower: FloatArray,
        from_upper: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Linearise lower * duals = from_lower and upper * room = from_upper."""
        to_lower = from_lower / self.duals - self.lower
        to_upper = from_upper / self.room - self.upper
        right = to_lower - to_upper - residual
        step = weights * (right - self.Z @ linalg.cho_solve(factor, self.Z.T @ (weights * right)))
        lower_step = to_lower - self.lower / self.duals * step
        upper_step = to_upper + self.upper / self.room * step
        return step, lower_step, upper_step

    def _longest(self, step: FloatArray, lower_step: FloatArray, upper_step: FloatArray) -> float:
        """Length of the step to the nearest bound."""
        pairs = (
            (self.duals, step),
            (self.room, -step),
            (self.lower, lower_step),
            (self.upper, upper_step),
        )
        falls = [(point, change, change < 0.0) for point, change in pairs]
        return min(
            (float(np.min(-point[at] / change[at])) for point, change, at in falls if at.any()),
            default=np.inf,
        )

    def _mean_product(
        self, length: float, step: FloatArray, lower_step: FloatArray, upper_step: FloatArray
    ) -> float:
        """Mean of multiplier times distance, a step ahead."""
        at_lower = (self.lower + length * lower_step) @ (self.duals + length * step)
        at_upper = (self.upper + length * upper_step) @ (self.room - length * step)
        return float(at_lower + at_upper) / (2 * step.size)


def _solve_hinge_by_interior_point(problem: Problem, X: Matrix, deadline: float) -> Reference:
    """Maximise sum(a) - ||Z^T a||^2 / 2 over 0 <= a <= C by Mehrotra's method, Z = diag(y) X.

    Every step factorises I + Z^T diag(d) Z, which has a row for each column of X.
    """
    Z = _signed_rows(problem, X)
    state = _InteriorPoint(Z, problem.C)
    best_coef, best_primal, best_dual = state.coef, np.inf, -np.inf
    n_steps = 0
    while True:
        margins = Z @ state.coef
        ridge = 0.5 * float(state.coef @ state.coef)
        primal = problem.C * float(np.maximum(1.0 - margins, 0.0).sum()) + ridge
        best_dual = max(best_dual, float(state.duals.sum()) - ridge)
        if primal < best_primal:
            best_primal, best_coef = primal, state.coef
        is_done = best_primal - best_dual <= _RELATIVE_GAP * best_primal
        if is_done or n_steps == _MAX_INTERIOR_STEPS or time.perf_counter() > deadline:
            break
        try:
            state.advance(margins)
        except linalg.LinAlgError:  # rounding has the last word
            break
        n_steps += 1
    gap = max(best_primal - best_dual, 0.0)
    value = primal_objective(problem, best_coef)
    return Reference(best_coef, value, gap, n_steps, "interior point-float64")


def _solve_hinge_dual(problem: Problem, X: Matrix, deadline: float) -> Reference:
    """Maximise sum(a) - 1/2 ||X^T (y a)||^2 over 0 <= a <= C by L-BFGS-B."""
    signed_X = _signed_rows(problem, X)

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
    coef = signed_X.T @ result.x
    value = primal_objective(problem, coef)
    gap = value + float(result.fun)
    return Reference(coef, value, gap, int(result.nit), "hinge dual, L-BFGS-B")


def _signed_rows(problem: Problem, X: Matrix) -> Matrix:
    """diag(y) X."""
    y = problem.signed_labels
    return sparse.diags_array(y) @ X if sparse.issparse(X) else y[:, None] * X
