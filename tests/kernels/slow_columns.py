"""Sweeps over columns in rounds, in plain NumPy: the oracle of column_descent.cu."""

import numpy as np


class SlowColumns:
    """The quadratic slopes.x + h.u^2 / 2 + R(coef + x) with u = X x, at x = 0 to begin with.

    With an intercept the model is minimised over it too, after every step.
    """

    def __init__(
        self, X, slopes, h, coef, *, l1=0.0, l2=0.0, is_positive=False, has_intercept=True
    ):
        self.X, self.slopes, self.h = X, slopes, h
        self.start, self.coef = coef.copy(), coef.copy()
        self.l1, self.l2, self.is_positive = l1, l2, is_positive
        mean = h @ X / h.sum() if has_intercept else np.zeros(X.shape[1])
        self.centred = X - mean
        self.squares = h @ self.centred**2
        self.slope = self.single = 0.0

    def penalty(self, w):
        if self.is_positive and np.any(w < 0):
            return np.inf
        return self.l1 * np.abs(w).sum() + 0.5 * self.l2 * w @ w

    def value(self):
        u = self.centred @ (self.coef - self.start)
        linear = self.slopes @ (self.coef - self.start)
        return linear + 0.5 * self.h @ u**2 + self.penalty(self.coef)

    def sweep(self, at_once, damping=1.0, resting=None):
        self.slope = self.single = 0.0
        for first in range(0, len(self.coef), at_once):
            u = self.centred @ (self.coef - self.start)
            steps = np.zeros(len(self.coef))
            for j in range(first, min(first + at_once, len(self.coef))):
                if resting is not None and resting[j]:
                    continue
                slope = self.slopes[j] + self.centred[:, j] @ (self.h * u)
                steps[j] = self._minimiser(j, slope, damping * self.squares[j]) - self.coef[j]
                self.slope += steps[j] * slope
                self.single += steps[j] ** 2 * self.squares[j]
            self.coef += steps

    def _minimiser(self, j, slope, curvature):
        pull = curvature * self.coef[j] - slope
        size = pull if self.is_positive else abs(pull)
        if size <= self.l1:
            return 0.0
        total = curvature + self.l2
        return np.sign(pull) * (size - self.l1) / total if total > 0 else self.coef[j]
