"""The branch-free functions of the fused pass, against extended precision."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference.data import rounding

from snapml import _native


def scalar(name, x, dtype):
    return _native.core_scalar(name, x, dtype == np.float64)


def roundings_off(found, exact, dtype):
    """Return the error in units of the last place of the exact value."""
    return abs(np.longdouble(found) - exact) / (rounding(dtype) * abs(exact))


@given(x=st.floats(-700.0, 0.0))
@example(x=0.0)
@example(x=-5e-324)
@example(x=-np.log(2) / 2)
@example(x=-np.log(2))
def test_exponential_is_exact_to_a_few_roundings(x):
    exact = np.exp(np.longdouble(x))
    assert roundings_off(scalar("exp_nonpositive", x, np.float64), exact, np.float64) <= 3


@given(x=st.floats(-85.0, 0.0, width=32))
@example(x=0.0)
@example(x=-85.0)
def test_exponential_of_float32_is_exact_to_a_few_roundings(x):
    exact = np.exp(np.longdouble(x))
    assert roundings_off(scalar("exp_nonpositive", x, np.float32), exact, np.float32) <= 3


def test_exponential_is_exact_on_both_sides_of_every_change_of_its_exponent():
    halves = -np.log(2) * (np.arange(1000) + 0.5)
    for x in np.concatenate([np.nextafter(halves, 0), np.nextafter(halves, -np.inf)]):
        exact = np.exp(np.longdouble(x))
        assert roundings_off(scalar("exp_nonpositive", x, np.float64), exact, np.float64) <= 3


def test_exponential_of_float32_is_exact_on_both_sides_of_every_change_of_its_exponent():
    halves = (-np.log(2) * (np.arange(124) + 0.5)).astype(np.float32)
    for x in np.concatenate([halves, np.nextafter(halves, 0, dtype=np.float32)]):
        exact = np.exp(np.longdouble(x))
        assert roundings_off(scalar("exp_nonpositive", x, np.float32), exact, np.float32) <= 3


@pytest.mark.parametrize("x", [-87.0, -88.5, -104.0, -1e4, -1e30, -np.inf])
def test_exponential_of_float32_far_out_is_a_tiny_normal_number(x):
    found = scalar("exp_nonpositive", x, np.float32)
    assert np.finfo(np.float32).tiny <= found <= 1.01 * np.exp(-87.0)


@pytest.mark.parametrize("x", [-708.0, -709.0, -745.2, -1e4, -1e300, -np.inf])
def test_exponential_far_out_is_a_tiny_normal_number(x):
    found = scalar("exp_nonpositive", x, np.float64)
    assert np.finfo(np.float64).tiny <= found <= 1.01 * np.exp(-708.0)


@pytest.mark.parametrize("x", [-1.0, -80.0, -709.0, -1e4, -np.inf])
def test_exponential_that_vanishes_is_zero_where_the_other_is_flat(x, dtype):
    found = scalar("exp_vanishing", x, dtype)
    if x < (-708.0 if dtype == np.float64 else -87.0):
        assert found == 0.0
    else:
        assert found == scalar("exp_nonpositive", x, dtype)


@pytest.mark.parametrize("name", ["exp_nonpositive", "exp_wide"])
def test_exponential_of_zero_is_one(name, dtype):
    assert scalar(name, 0.0, dtype) == 1.0


@given(x=st.floats(-708.0, 709.75))
@example(x=709.0)
@example(x=-708.0)
@example(x=1e-300)
@example(x=355.0 * np.log(2))
def test_exponential_of_any_number_is_exact_to_a_few_roundings(x):
    exact = np.exp(np.longdouble(x))
    assert roundings_off(scalar("exp_wide", x, np.float64), exact, np.float64) <= 3


@given(x=st.floats(-87.0, 88.625, width=32))
@example(x=88.625)
@example(x=-87.0)
def test_exponential_of_any_float32_is_exact_to_a_few_roundings(x):
    exact = np.exp(np.longdouble(x))
    assert roundings_off(scalar("exp_wide", x, np.float32), exact, np.float32) <= 3


@pytest.mark.parametrize("x", [-709.0, -740.0, -745.1, -745.2, -746.0, -1e4, -1e300, -np.inf])
def test_exponential_below_all_normal_numbers_is_the_nearest_one(x):
    assert abs(scalar("exp_wide", x, np.float64) - np.exp(np.float64(x))) <= 5e-324 * 2**4


@pytest.mark.parametrize("x", [709.79, 710.0, 1e4, 1e300, np.inf])
def test_exponential_above_all_numbers_is_infinite(x):
    assert scalar("exp_wide", x, np.float64) == np.inf
    assert scalar("exp_wide", x / 8, np.float32) == np.inf


@given(t=st.floats(-0.5, 0.5, width=32))
@example(t=0.5)
@example(t=-0.5)
@example(t=0.0)
def test_exponential_beyond_its_line_is_exact_to_a_few_roundings(dtype, t):
    exact = series_beyond_line(np.longdouble(t))
    assert roundings_off(scalar("exp_beyond_linear", t, dtype), exact, dtype) <= 3


def series_beyond_line(t):
    """Return (exp(t) - 1 - t) / t^2 by more terms than anybody needs."""
    term, total = np.longdouble(0.5), np.longdouble(0.0)
    for n in range(3, 40):
        total += term
        term *= t / n
    return total


@given(x=st.floats(2.0**-149, 2.0**127, width=32))
@example(x=1.0)
@example(x=2.0**-126)
@example(x=2.0**-149)
@example(x=float(np.nextafter(np.float32(1), np.float32(0))))
@example(x=float(np.float32(np.sqrt(2))))
@example(x=float(np.nextafter(np.float32(np.sqrt(0.5)), np.float32(0))))
def test_logarithm_of_a_positive_number_is_exact_to_a_few_roundings(dtype, x):
    exact = np.log(np.longdouble(x))
    if x == 1.0:
        assert scalar("log_positive", x, dtype) == 0.0
    else:
        assert roundings_off(scalar("log_positive", x, dtype), exact, dtype) <= 3


@pytest.mark.parametrize("x", [5e-324, 1e-310, 2.3e-308, 1e-200, 1.7e308])
def test_logarithm_of_the_smallest_and_largest_numbers(x):
    found = scalar("log_positive", x, np.float64)
    assert roundings_off(found, np.log(np.longdouble(x)), np.float64) <= 3


@pytest.mark.parametrize("name", ["exp_nonpositive", "exp_vanishing", "exp_wide", "log1p_unit"])
def test_what_is_not_a_number_stays_so(name, dtype):
    assert np.isnan(scalar(name, np.nan, dtype))


@given(e=st.floats(0.0, 1.0, width=32))
@example(e=1.0)
@example(e=2.0**-60)
@example(e=2.0**-126)
def test_logarithm_is_exact_to_a_few_roundings(dtype, e):
    if e == 0.0:
        assert scalar("log1p_unit", e, dtype) == 0.0
    elif e >= np.finfo(np.float32).tiny:  # below, a rounding is larger than the last place
        exact = np.log1p(np.longdouble(e))
        assert roundings_off(scalar("log1p_unit", e, dtype), exact, dtype) <= 3


def test_unknown_function_is_refused():
    with pytest.raises(ValueError, match="unknown function 'tan'"):
        scalar("tan", 0.0, np.float64)
