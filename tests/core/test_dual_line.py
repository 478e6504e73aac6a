"""The line between two dual points of one row, against longdouble."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from reference.data import rounding
from reference.losses import ORACLES

from snapml import _native

from .scalars import labels_of, legal_label, legal_state, quantity, steepest

NUMBERS = st.floats(-100, 100, width=32)
STEPS = st.floats(0, 1, width=32)


def line(loss, first, last, y, step, dtype):
    """Return the state at `step`, and the slope of the dual's term there."""
    return _native.core_line(loss.core_name, first, last, y, step, dtype == np.float64)


def with_edges(test):
    for edge in (
        dict(a=80.0, b=-3.0, label=1.0, step=0.25),
        dict(a=80.0, b=-80.0, label=-1.0, step=0.5),
        dict(a=1.0, b=1.0, label=1.0, step=0.75),
        dict(a=-80.0, b=-79.0, label=1.0, step=0.125),
        dict(a=0.0, b=100.0, label=-1.0, step=2.0**-20),
        dict(a=-8.0, b=-9.0, label=0.0, step=0.5),
    ):
        test = example(**edge)(test)
    return given(a=NUMBERS, b=NUMBERS, label=NUMBERS, step=STEPS)(test)


@with_edges
def test_dual_variable_is_linear_in_the_step(loss, dtype, a, b, label, step):
    y = legal_label(loss, label)
    first, last = legal_state(loss, a, y), legal_state(loss, b, y)
    state, _ = line(loss, first, last, y, step, dtype)
    dual = ORACLES[loss.core_name].dual
    # In float64 a dual variable beside y has lost the digits that this is about.
    low, high, found = (dual(np.longdouble(s), np.longdouble(y)) for s in (first, last, state))
    exact = (1 - step) * low + step * high
    # A state is as coarse as its type; a logistic dual variable of few digits is not.
    tolerance = 16 * rounding(dtype) * (1 + abs(first) + abs(last) + abs(y))
    scale = min(abs(exact), abs(y - exact)) if "Logistic" in loss.core_name else 1.0
    if loss.link in ("log", "cloglog"):
        scale = steepest(loss, first, last)
    # The oracle itself has lost digits of a dual variable beside y.
    lost = 4 * float(np.finfo(np.longdouble).eps) * max(1.0, abs(y))
    assert abs(found - exact) <= tolerance * scale + lost
    assert min(first, last) <= state <= max(first, last)


@pytest.mark.parametrize("step", [0.0, 1.0])
@given(a=NUMBERS, b=NUMBERS, label=NUMBERS)
@example(a=80.0, b=-3.0, label=1.0)
def test_ends_of_the_line_are_the_states_themselves(loss, dtype, step, a, b, label):
    y = legal_label(loss, label)
    first, last = legal_state(loss, a, y), legal_state(loss, b, y)
    assert line(loss, first, last, y, step, dtype)[0] == (last if step else first)


def test_slope_is_the_derivative_of_the_dual_term(loss):
    oracle = ORACLES[loss.core_name]
    for y in labels_of(loss):
        for number in (0.3, 0.7, 2.5):
            state = legal_state(loss, number, y)
            beta = quantity(loss, "dual", state, y, np.dtype("float64"))
            width = 1e-5 * (1 + abs(beta))
            ends = [-oracle.conjugate(-(np.longdouble(beta) + side), y) for side in (-width, width)]
            _, slope = line(loss, state, state, y, 0.5, np.dtype("float64"))
            assert slope == pytest.approx(float((ends[1] - ends[0]) / (2 * width)), rel=1e-6)
