"""The logistic loss with an offset in the label, against the plain one of the shifted margin."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from reference.data import rounding
from reference.losses import ORACLES

from snapml import _native
from snapml.problems import Logistic, OffsetLogistic

from .scalars import quantity, step

ORACLE = ORACLES["OffsetLogistic"]
OFFSETS = (-60.0, -3.0, -0.001, 0.0, 0.5, 7.0, 60.0)
SIDES = (-1.0, 1.0)
MARGINS = (-50.0, -4.0, -0.25, 0.0, 1.0, 9.0, 70.0)


def label(side, offset, dtype):
    """Return the label that an estimator makes, and the offset that it carries."""
    y = float(dtype.type(side * np.exp(offset)))
    return y, float(np.log(np.abs(np.float64(y))))


@pytest.mark.parametrize("name", ["value", "gradient", "curvature", "tangent_value"])
def test_function_of_the_margin_is_that_of_the_shifted_one(dtype, name):
    for side in SIDES:
        for y, offset in (label(side, o, dtype) for o in OFFSETS):
            for z in MARGINS:
                exact = quantity(Logistic(), name, z + offset, side, np.dtype(np.float64))
                # A rounding of margin or offset moves the sum by as much.
                tolerance = 8 * rounding(dtype) * (1 + abs(z) + abs(offset)) * (1 + abs(exact))
                found = quantity(OffsetLogistic(), name, z, y, dtype)
                assert found == pytest.approx(exact, rel=0, abs=tolerance)


def test_offset_survives_its_way_through_the_label(dtype):
    """By as much as its own rounding, and never by less than that of 1."""
    for side in SIDES:
        for offset in OFFSETS:
            _, carried = label(side, offset, dtype)
            assert carried == pytest.approx(offset, rel=0, abs=rounding(dtype))


def test_conjugate_is_the_supremum_over_margins(dtype):
    z = np.linspace(-30, 30, 600_001)
    for side in SIDES:
        for y, _ in (label(side, o, dtype) for o in (-3.0, 0.5, 7.0)):
            values = ORACLE.value(z, np.float64(y))
            for share in (0.01, 0.25, 0.5, 0.75, 0.99):
                found = quantity(OffsetLogistic(), "conjugate", -share * side, y, dtype)
                supremum = np.max(-share * side * z - values)
                assert found == pytest.approx(supremum, abs=1e-6 + 100 * rounding(dtype))
            assert quantity(OffsetLogistic(), "conjugate", side * 0.1, y, dtype) == np.inf


@given(
    state=st.floats(-90, 90, width=32),
    z=st.floats(-90, 90, width=32),
    side=st.sampled_from(SIDES),
    offset=st.floats(-60, 60, width=32),
    k=st.floats(0, 1000, width=32),
)
@example(state=80.0, z=0.0, side=1.0, offset=0.0, k=1.0)
@example(state=-80.0, z=50.0, side=-1.0, offset=60.0, k=0.0)
@example(state=3.0, z=2.0, side=1.0, offset=-7.0, k=100.0)
def test_step_and_gap_of_a_row_are_those_of_the_shifted_margin(dtype, state, z, side, offset, k):
    y, carried = label(side, offset, dtype)
    shifted = float(dtype.type(z) + dtype.type(carried))
    found = step(OffsetLogistic(), state, z, y, k, dtype)
    plain = step(Logistic(), state, shifted, side, k, dtype)
    slack = 64 * rounding(dtype) * (1 + abs(z) + abs(offset) + abs(state))
    assert found == pytest.approx(plain, rel=0.03, abs=slack)
    assert float(ORACLE.gap(*np.longdouble([state, z, y]))) == pytest.approx(
        found.gap, rel=1e-2, abs=slack
    )


@pytest.mark.parametrize("offset", [-20.0, 0.5, 20.0])
def test_slope_of_the_dual_term_takes_the_offset_off_the_state(offset):
    y = float(-np.exp(offset))
    for state in (-2.0, 0.0, 3.0):
        beta = float(ORACLE.dual(state, y))
        ends = [-ORACLE.conjugate(-(np.longdouble(beta) + side), y) for side in (-1e-5, 1e-5)]
        _, slope = _native.core_line("OffsetLogistic", state, state, y, 0.5, True)
        assert slope == pytest.approx(float((ends[1] - ends[0]) / 2e-5), rel=1e-6, abs=1e-6)


def test_states_start_where_the_dual_variable_is_zero(dtype):
    for side in SIDES:
        for y, _ in (label(side, o, dtype) for o in OFFSETS):
            start = quantity(OffsetLogistic(), "start", 0.0, y, dtype)
            assert abs(quantity(OffsetLogistic(), "dual", start, y, dtype)) < 1e-30
