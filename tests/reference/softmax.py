"""The multinomial loss in plain NumPy, and the objective and optimum of its models."""

import numpy as np


def softmax_probabilities(z: np.ndarray) -> np.ndarray:
    """Return exp(z_k) / sum_j exp(z_j) of margins of shape (n_classes, n_rows)."""
    e = np.exp(z - z.max(axis=0))
    return e / e.sum(axis=0)


def softmax_loss(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return log(sum_j exp(z_j)) - z_y of every row."""
    top = z.max(axis=0)
    return top + np.log(np.exp(z - top).sum(axis=0)) - z[y, np.arange(z.shape[1])]


def softmax_objective(coef, intercept, X, y, c) -> float:
    """Return sum_i c_i l(z_i, y_i) + ||W||^2 / 2."""
    z = coef @ X.T + np.reshape(intercept, (-1, 1))
    return float(np.broadcast_to(c, len(y)) @ softmax_loss(z, y) + np.sum(coef**2) / 2)


def softmax_optimum(X, y, c, *, has_intercept: bool) -> float:
    """Return the least objective, by Newton's method on all coefficients at once."""
    n_classes, n_rows = int(y.max()) + 1, len(y)
    A = np.column_stack([X, np.ones(n_rows)]) if has_intercept else X
    size = A.shape[1]
    penalty = np.ones(size)
    if has_intercept:
        penalty[-1] = 0.0
    c = np.broadcast_to(c, n_rows)

    def value(u):
        return c @ softmax_loss(u @ A.T, y) + np.sum(penalty * u**2) / 2

    u = np.zeros((n_classes, size))
    for _ in range(100):
        p = softmax_probabilities(u @ A.T)
        slopes = p.copy()
        slopes[y, np.arange(n_rows)] -= 1
        gradient = (c * slopes) @ A + penalty * u
        hessian = np.zeros((n_classes, size, n_classes, size))
        for k in range(n_classes):
            for j in range(n_classes):
                curvature = c * p[k] * ((k == j) - p[j])
                hessian[k, :, j] = (A.T * curvature) @ A + (k == j) * np.diag(penalty)
        flat = hessian.reshape(n_classes * size, -1)
        step = np.linalg.lstsq(flat, -gradient.ravel())[0].reshape(u.shape)
        length = 1.0
        while value(u + length * step) > value(u) * (1 + 1e-14) and length > 1e-10:
            length /= 2
        u = u + length * step
        if np.abs(step).max() <= 1e-13 * (1 + np.abs(u).max()):
            break
    assert np.abs(gradient).max() <= 1e-9 * (1 + c.sum()), "the reference did not converge"
    return float(value(u))
