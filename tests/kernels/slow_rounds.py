"""Epochs in rounds, written out in NumPy and float64: the oracle of coordinate_descent.cu."""

import numpy as np

from snapml import _native


class SlowRounds:
    """States and shared vector of dense rows, whose last column is the intercept's."""

    def __init__(self, loss, X, y, c):
        self.loss, self.X, self.y, self.c = loss, X, y, c
        name = loss.core_name
        starts = [_native.core_loss(name, "start", 0.0, float(label), True) for label in y]
        self.duals = np.array(starts)
        self.shared = np.zeros(X.shape[1])
        self.gap = self.slope = self.single = 0.0

    def run(self, order, rows_in_flight, *, offset=0.0, stiffness=1.0, outer=1.0):
        """Visit the rows of `order`, of which -1 is none; keep the sums of the epoch."""
        self.gap = self.slope = self.single = 0.0
        for first in range(0, len(order), rows_in_flight):
            seen = self.shared.copy()
            for i in order[first : first + rows_in_flight]:
                if i >= 0 and self.c[i] > 0:
                    self._visit(i, seen, offset, stiffness, outer)

    def _visit(self, i, seen, offset, stiffness, outer):
        x, y, c = self.X[i], self.y[i], self.c[i]
        margin = x @ seen
        step = self.loss.core_name, self.duals[i], margin + offset, y, stiffness * c * (x @ x), True
        self.duals[i], change, gap = _native.core_step(*step)
        self.shared += outer * c * change * x
        self.gap += c * gap
        self.slope += c * change * margin
        self.single += (c * change) ** 2 * (x @ x)
