"""What every registered loss must satisfy, in float32 and in float64."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from reference.data import rounding
from reference.losses import ORACLES

from snapml import _native
from snapml.problems import Logistic, Loss, NegativeBinomial, Softmax, Tweedie

from .scalars import labels_of, legal_label, legal_margin, legal_state, quantity


@pytest.fixture(
    scope="module",
    params=[cls for cls in Loss.__subclasses__() if cls is not Softmax],
    ids=lambda cls: cls.__name__,
)
def loss(request):
    """Return each loss, those without a coordinate step too."""
    return request.param()


NUMBERS = st.floats(-1e4, 1e4, width=32)


def margins_off_kinks(loss, y):
    z = np.linspace(-9, 1 if loss.link in ("log", "cloglog") else 9, 61)
    kinks = ORACLES[loss.core_name].kinks(y)
    return [m for m in z if all(abs(m - kink) > 0.05 for kink in kinks)]


def central_difference(loss, name, z, y, dtype):
    """Return the slope of a quantity and the rounding and truncation it may suffer."""
    eps = rounding(dtype)
    width = eps ** (1 / 3) * (1 + abs(z))
    low, high = (float(dtype.type(z + side * width)) for side in (-1, 1))
    values = [quantity(loss, name, x, y, dtype) for x in (low, high)]
    slope = (values[1] - values[0]) / (high - low)
    return slope, 8 * eps ** (2 / 3) * (1 + np.abs(values).max())


@pytest.mark.parametrize("name", ["value", "gradient", "curvature"])
def test_function_of_the_margin_equals_the_textbook_formula(loss, dtype, name):
    for y in labels_of(loss):
        for z in margins_off_kinks(loss, y):
            exact = getattr(ORACLES[loss.core_name], name)(np.float64(dtype.type(z)), y)
            # A rounding of y z shifts the margin by as much.
            tolerance = 8 * rounding(dtype) * (1 + abs(y) + abs(z)) * (1 + abs(exact))
            assert quantity(loss, name, z, y, dtype) == pytest.approx(exact, rel=0, abs=tolerance)


def test_conjugate_equals_the_textbook_formula(loss, dtype):
    for y in labels_of(loss):
        for u in np.linspace(-3, 3, 25):
            exact = ORACLES[loss.core_name].conjugate(u, y)
            tolerance = 8 * rounding(dtype) * (1 + abs(u) + abs(y)) ** 2
            assert quantity(loss, "conjugate", u, y, dtype) == pytest.approx(exact, abs=tolerance)


@pytest.mark.parametrize(("name", "derivative"), [("value", "gradient"), ("gradient", "curvature")])
def test_derivative_is_the_slope_of_what_it_derives(loss, dtype, name, derivative):
    for y in labels_of(loss):
        for z in margins_off_kinks(loss, y):
            slope, tolerance = central_difference(loss, name, z, y, dtype)
            assert quantity(loss, derivative, z, y, dtype) == pytest.approx(slope, abs=tolerance)


@given(z=NUMBERS, other=NUMBERS, number=NUMBERS)
@example(z=0.0, other=1.0, number=1.0)
@example(z=1.0, other=-1.0, number=-1.0)
@example(z=-1e4, other=1e4, number=1e4)
def test_value_and_conjugate_never_add_up_to_less_than_the_product(loss, dtype, z, other, number):
    y, z, other = legal_label(loss, number), legal_margin(loss, z), legal_margin(loss, other)
    u = quantity(loss, "gradient", other, y, dtype)
    value = quantity(loss, "value", z, y, dtype)
    conjugate = quantity(loss, "conjugate", u, y, dtype)
    scale = value + abs(conjugate) + abs(z * u) + abs(y * u) + y * y
    lost = 8 * rounding(dtype) * scale + float(np.finfo(dtype).tiny)  # what underflows
    assert value + conjugate - z * u >= -lost


@given(z=NUMBERS, number=NUMBERS)
@example(z=0.0, number=1.0)
@example(z=1.0, number=1.0)
@example(z=1e4, number=-1e4)
def test_value_and_conjugate_add_up_to_the_product_at_the_gradient(loss, dtype, z, number):
    y, z = legal_label(loss, number), legal_margin(loss, z)
    u = quantity(loss, "gradient", z, y, dtype)
    value = quantity(loss, "value", z, y, dtype)
    conjugate = quantity(loss, "conjugate", u, y, dtype)
    eps = rounding(dtype)
    # The gradient's own rounding moves the conjugate by that times its slope, which is z; where
    # the gradient rounds to a bound, by the entropy of one rounding.
    scale = value + abs(conjugate) + (1 + abs(z) + abs(y)) * (1 + abs(u)) - np.log(eps)
    assert abs(value + conjugate - z * u) <= 8 * eps * scale


@given(x=NUMBERS, number=NUMBERS)
@example(x=0.0, number=1.0)
@example(x=1.0, number=-1.0)
@example(x=-1e4, number=1e4)
def test_dual_variable_is_the_negative_gradient_at_its_state(loss, dtype, x, number):
    y = legal_label(loss, number)
    if ORACLES[loss.core_name].is_smooth:
        x = legal_margin(loss, x)
        gradient = quantity(loss, "gradient", x, y, dtype)
        assert quantity(loss, "dual", x, y, dtype) == -gradient
    elif loss.labels != "sign":  # the state is the dual variable itself, between the gradients
        state = legal_state(loss, x, y)
        assert quantity(loss, "dual", state, y, dtype) == state
        sides = [-quantity(loss, "gradient", y + side, y, dtype) for side in (1.0, -1.0)]
        assert sides == pytest.approx(ORACLES[loss.core_name].states)
    else:  # the state is a share of the way from one one-sided gradient at the kink to the other
        share = legal_state(loss, x, y)
        (kink,) = ORACLES[loss.core_name].kinks(y)
        below, above = (quantity(loss, "gradient", z, y, dtype) for z in (kink - y, kink + y))
        mixed = -(share * below + (1 - share) * above)
        assert quantity(loss, "dual", share, y, dtype) == pytest.approx(mixed, abs=1e-15)


def test_least_value_is_zero(loss, dtype):
    """Bounds of gaps begin with it, and scaled dual variables count on it."""
    for y in labels_of(loss):
        margins = [*np.linspace(-180, 90, 271), y, -y, *([np.log(y)] if y > 0 else [])]
        values = [quantity(loss, "value", z, y, dtype) for z in margins]
        assert min(values) >= 0.0
        assert min(values) <= rounding(dtype) ** 2
        assert quantity(loss, "conjugate", 0.0, y, dtype) == pytest.approx(0.0, abs=1e-30)


def test_start_is_the_state_of_a_dual_variable_of_zero(loss, dtype):
    for y in labels_of(loss):
        start = quantity(loss, "start", 0.0, y, dtype)
        # Zero to working precision: squared, it is lost beside any other number.
        assert abs(quantity(loss, "dual", start, y, dtype)) <= rounding(dtype) ** 2
        assert float(dtype.type(start)) == start


@pytest.mark.parametrize("name", ["value", "gradient", "curvature", "dual"])
def test_huge_margins_stay_finite(loss, dtype, name):
    # The square of more than 1e19 leaves float32.
    for size in (80.0, 1e4, 1e30 if dtype == np.float64 else 1e15):
        # The mean of a log link leaves float32 behind 88, and some losses of it on both sides.
        low = -min(size, 80.0) if loss.struct == "Tweedie" else -size
        for z in (low, min(size, 80.0) if loss.link in ("log", "cloglog") else size):
            for y in labels_of(loss):
                assert np.isfinite(quantity(loss, name, z, y, dtype))


def test_logistic_value_keeps_its_relative_precision_far_from_the_margin(dtype):
    for m in (20.0, 60.0, 80.0):
        found = quantity(Logistic(), "value", m, 1.0, dtype)
        assert found == pytest.approx(np.exp(-m), rel=m * rounding(dtype))


@pytest.mark.parametrize("made", [Tweedie(1.0 + 2**-10), Tweedie(1.9), NegativeBinomial(1e-3)])
@pytest.mark.parametrize("y", [0.0, 0.3, 2.0, 1e4])
def test_other_parameters_have_the_same_contract(made, y):
    wide = np.dtype(np.float64)
    for z in (-30.0, -1.0, 0.0, 2.5, 9.0):
        value, slope = (quantity(made, name, z, y, wide) for name in ("value", "gradient"))
        conjugate = quantity(made, "conjugate", slope, y, wide)
        scale = value + abs(conjugate) + abs(z * slope) + y
        assert value >= 0.0
        assert abs(value + conjugate - z * slope) <= 1e-12 * scale


@pytest.mark.parametrize("y", [1e-6, 0.3, 2.0, 1e4])
@pytest.mark.parametrize("t", [-9.0, -1.5, -0.3, 0.3, 1.5, 9.0])
def test_tweedie_loss_goes_over_into_poissons_and_gammas(y, t):
    """Near its ends one of its two terms is a small number divided by another."""
    wide, z = np.dtype(np.float64), np.log(y) + t
    ends = {1.0: y * (np.exp(t) - 1.0 - t), 2.0: np.exp(-t) - 1.0 + t}
    slopes = {1.0: y * np.expm1(t), 2.0: -np.expm1(-t)}
    for end, away in ((1.0, 1e-12), (2.0, -1e-12)):
        made = Tweedie(end + away)
        assert quantity(made, "value", z, y, wide) == pytest.approx(ends[end], rel=1e-9)
        assert quantity(made, "gradient", z, y, wide) == pytest.approx(slopes[end], rel=1e-9)


@pytest.mark.parametrize(("name", "fault"), [("Tweedie", "brackets"), ("Tweedie(x)", "brackets")])
def test_missing_parameter_is_an_error(name, fault):
    with pytest.raises(ValueError, match=fault):
        _native.core_loss(name, "value", 0.0, 1.0, True)
