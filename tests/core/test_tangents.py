"""Value and gradient as the fused pass takes them: together, and without branches."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference.data import rounding
from reference.losses import ORACLES

from snapml.problems import Logistic, SmoothedHinge, Squared, SquaredHinge

from .scalars import labels_of, legal_label, legal_margin, quantity

MARGINS = (*np.linspace(-9, 9, 145), -700.0, -80.0, -1e-9, 1e-9, 40.0, 80.0, 700.0, 800.0)


def assert_is_oracles(loss, oracle, name, z, y, dtype):
    """Assert a quantity of one margin; a rounding of the margin may move it by its slope."""
    exact = getattr(oracle, name.removeprefix("tangent_"))(np.longdouble(z), np.longdouble(y))
    steepness = max(1.0, abs(y))
    tolerance = 8 * rounding(dtype) * steepness * (1 + abs(z) + abs(y)) * (1 + abs(exact))
    found = quantity(loss, name, z, y, dtype)
    assert found == pytest.approx(float(exact), rel=0, abs=float(tolerance))


@pytest.mark.parametrize("name", ["tangent_value", "tangent_gradient"])
def test_tangent_equals_the_textbook_formula(loss, dtype, name):
    oracle = ORACLES[loss.core_name]
    for y in labels_of(loss):
        for z in (float(dtype.type(z)) for z in MARGINS):
            z = legal_margin(loss, z)
            if oracle.is_smooth or z not in oracle.kinks(y):
                assert_is_oracles(loss, oracle, name, z, y, dtype)


@given(z=st.floats(-1e4, 1e4, width=32), number=st.floats(-1e4, 1e4, width=32))
@example(z=1.0, number=1.0)
@example(z=-1.0, number=-1.0)
@example(z=0.0, number=-1.0)
@example(z=88.0, number=1.0)
def test_tangent_is_value_and_gradient(loss, dtype, z, number):
    y, z = legal_label(loss, number), legal_margin(loss, z)
    for name in ("value", "gradient"):
        apart = quantity(loss, name, z, y, dtype)
        together = quantity(loss, f"tangent_{name}", z, y, dtype)
        # exp_nonpositive is flat below -708, below -87 in float32, where the logistic loss is zero
        # to any purpose.
        flat = 1e-300 if dtype == np.float64 else 2e-38
        assert together == pytest.approx(apart, rel=8 * rounding(dtype), abs=flat)


def test_logistic_tangent_keeps_its_relative_precision_far_from_the_margin(dtype):
    for m in (20.0, 60.0, 80.0):
        for name, sign in (("tangent_value", 1), ("tangent_gradient", -1)):
            found = sign * quantity(Logistic(), name, m, 1.0, dtype)
            assert found == pytest.approx(np.exp(-m), rel=m * rounding(dtype))


@pytest.mark.parametrize("smooth", [Logistic(), Squared(), SquaredHinge(), SmoothedHinge()])
def test_tangent_of_what_is_not_a_number_is_not_a_number(smooth, dtype):
    for name in ("tangent_value", "tangent_gradient"):
        assert np.isnan(quantity(smooth, name, np.nan, 1.0, dtype))


@pytest.mark.parametrize(
    "name", ["value", "gradient", "curvature", "tangent_value", "tangent_gradient", "conjugate"]
)
def test_smoothed_hinge_equals_the_textbook_formula(dtype, name):
    """It has no dual step, so that the tests of all losses leave it out."""
    oracle, shares = ORACLES["SmoothedHinge"], (-1.5, -1.0, -0.75, -0.125, 0.0, 0.1)
    for y in (-1.0, 1.0):
        if name == "conjugate":
            for u in (share * y for share in shares):
                exact = float(oracle.conjugate(np.float64(u), y))
                assert quantity(SmoothedHinge(), name, u, y, dtype) == pytest.approx(exact)
            continue
        for z in (float(dtype.type(z)) for z in MARGINS):
            if all(abs(z - kink) > 1e-6 for kink in oracle.kinks(y)):
                assert_is_oracles(SmoothedHinge(), oracle, name, z, y, dtype)


def test_smoothed_hinge_is_the_best_of_duals_less_half_their_squares():
    duals = np.linspace(0, 1, 4097)
    for side in (-1.0, 1.0):
        for m in MARGINS:
            exact = np.max(duals * (1 - m) - duals**2 / 2)
            found = quantity(SmoothedHinge(), "value", side * m, side, np.dtype(np.float64))
            assert found == pytest.approx(exact, rel=1e-7, abs=1e-7)
