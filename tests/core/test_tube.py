"""The squared loss with a tube: steps into it, out of it and across, against a bisection."""

import numpy as np
import pytest
from reference.data import rounding
from reference.losses import squared_epsilon_insensitive

from snapml import _native

EPSILON = 0.5
ORACLE = squared_epsilon_insensitive(EPSILON)
NAME = f"SquaredEpsilonInsensitive({EPSILON})"
POINTS = (-40.0, -3.0, -0.5, -0.125, 0.0, 0.375, 0.5, 0.75, 2.0, 100.0)


def best_beta(beta, z, y, k):
    """Return the b at which the margin z + k (b - beta) has it as its dual variable."""
    low, high = sorted((beta, float(ORACLE.dual(z, y))))
    for _ in range(200):
        b = (low + high) / 2
        low, high = (b, high) if ORACLE.dual(z + k * (b - beta), y) > b else (low, b)
    return (low + high) / 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [0.0, 0.25, 3.0, 1e4])
@pytest.mark.parametrize("y", [0.0, 1.5, -20.0])
def test_step_ends_where_the_dual_variable_is_that_of_the_margin(y, k, dtype):
    for state in (y + np.array(POINTS)).tolist():
        for z in (y + np.array(POINTS)).tolist():
            beta = float(ORACLE.dual(state, y))
            new, change, gap = _native.core_step(NAME, state, z, y, k, dtype == np.float64)
            size = rounding(dtype) * (1 + abs(state) + abs(z) + abs(y))
            wanted = best_beta(beta, z, y, k)
            assert min(state, z) - size <= new <= max(state, z) + size
            assert ORACLE.dual(new, y) == pytest.approx(wanted, rel=0, abs=16 * size)
            assert change == pytest.approx(wanted - beta, rel=0, abs=16 * size)
            terms = ORACLE.value(z, y) + ORACLE.conjugate(-beta, y) + beta * z
            assert gap == pytest.approx(terms, rel=0, abs=64 * size * (1 + abs(beta) + abs(z - y)))
            assert gap >= 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_line_between_two_points_is_straight_in_the_dual_variable(dtype):
    y = 1.0
    for first in POINTS:
        for last in POINTS:
            for step in (0.0, 0.3, 1.0):
                args = (NAME, y + first, y + last, y, step, dtype == np.float64)
                state, _ = _native.core_line(*args)
                ends = ORACLE.dual(y + first, y), ORACLE.dual(y + last, y)
                wanted = (1 - step) * ends[0] + step * ends[1]
                size = rounding(dtype) * (2 + abs(first) + abs(last))
                assert ORACLE.dual(state, y) == pytest.approx(wanted, rel=0, abs=16 * size)
