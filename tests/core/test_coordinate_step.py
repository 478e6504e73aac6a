"""One coordinate step against the one-dimensional problem it claims to solve."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from reference.data import rounding
from reference.losses import ORACLES

from .scalars import labels_of, legal_label, legal_margin, legal_state, quantity, steepest, step

NUMBERS = st.floats(-1e4, 1e4, width=32)
NEAR = st.floats(-20, 20, width=32)
STIFFNESS = st.floats(0, 2.0**20, width=32)
# A step that is iterated ends within this share of the way; the others are closed formulas.
ACCURACY = {"Logistic": 1e-2}
# The change of a logistic dual variable over a longer way is a plain difference of two sigmoids.
LONG_STEP = 4.0
# The logistic gap of a short way is a series of three terms; the next is d^3 / 60 of the first.
SERIES_REACH = 0.25
SERIES_ERROR = SERIES_REACH**3 / 60

EDGES = [
    dict(number=0.0, z=0.0, label=1.0, k=0.0),
    dict(number=80.0, z=0.0, label=1.0, k=1.0),
    dict(number=-80.0, z=30.0, label=-1.0, k=2.0**20),
    dict(number=1e4, z=-1e4, label=1.0, k=1e-3),
    dict(number=1e4, z=1.0, label=-1.0, k=0.0),
]


def with_edges(test):
    for edge in EDGES:
        test = example(**edge)(test)
    return given(number=NUMBERS, z=NUMBERS, label=NUMBERS, k=STIFFNESS)(test)


def wide(*numbers):
    return (np.longdouble(number) for number in numbers)


def wide_rounding():
    return float(np.finfo(np.longdouble).eps)


def state_tolerance(loss, state, z, dtype):
    """Return by how much a new state may miss: the stated accuracy, and rounding."""
    accuracy = ACCURACY.get(loss.core_name, 0.0)
    return accuracy * abs(z - state) + 16 * rounding(dtype) * (1 + abs(state) + abs(z))


def dual_gain(loss, new, state, z, y, k):
    """Return what the dual objective gains, over c, when the state moves to `new`."""
    oracle = ORACLES[loss.core_name]
    old_beta, beta = oracle.dual(state, y), oracle.dual(new, y)
    change = beta - old_beta
    terms = oracle.conjugate(-old_beta, y) - oracle.conjugate(-beta, y)
    return terms - z * change - k / 2 * change**2


def root_by_bisection(loss, state, z, y, k):
    """Return s with s = z + k (dual(s) - dual(state)); it lies between z and the state."""
    oracle = ORACLES[loss.core_name]
    if loss.labels == "count":
        y = 0.0  # which the difference does not depend on, but for its rounding
    state, z, y, k = wide(state, z, y, k)
    low, high = min(state, z), max(state, z)
    for _ in range(120):
        middle = (low + high) / 2
        is_above = middle - z - k * (oracle.dual(middle, y) - oracle.dual(state, y)) > 0
        low, high = (low, middle) if is_above else (middle, high)
    return float((low + high) / 2)


@with_edges
def test_step_solves_its_equation(loss, dtype, number, z, label, k):
    y, z = legal_label(loss, label), legal_margin(loss, z)
    state = legal_state(loss, number, y)
    if not ORACLES[loss.core_name].is_smooth:
        return  # has no equation, only the grid below
    root = root_by_bisection(loss, state, z, y, k)
    if loss.core_name == "SquaredHinge":  # all states beyond the kink stand for beta = 0
        root = y * min(1.0, y * root)
    if loss.core_name == "Huber":  # and beyond these for a slope of 1
        root = min(max(root, y - 1.0), y + 1.0)
    new = step(loss, state, z, y, k, dtype).state
    if loss.struct == "SquaredEpsilonInsensitive":  # and those within the tube for beta = 0
        new, root = (ORACLES[loss.core_name].dual(s, y) / 2 for s in (new, root))
    assert abs(new - root) <= state_tolerance(loss, state, z, dtype)


@with_edges
def test_step_stays_between_the_old_state_and_the_margin(loss, dtype, number, z, label, k):
    y, z = legal_label(loss, label), legal_margin(loss, z)
    state = legal_state(loss, number, y)
    new = step(loss, state, z, y, k, dtype).state
    if ORACLES[loss.core_name].is_smooth:
        slack = 2 * rounding(dtype) * (1 + abs(state) + abs(z))
        assert min(state, z) - slack <= new <= max(state, z) + slack
    else:
        least, largest = ORACLES[loss.core_name].states
        assert least <= new <= largest


@given(number=NEAR, z=NEAR, label=NEAR, k=STIFFNESS)
@example(number=0.0, z=0.0, label=1.0, k=0.0)
@example(number=-20.0, z=20.0, label=1.0, k=1.0)
@example(number=15.0, z=-0.5, label=-1.0, k=100.0)
def test_no_point_of_a_fine_grid_gains_more_than_the_step(loss, dtype, number, z, label, k):
    y, z = legal_label(loss, label), legal_margin(loss, z)
    states = ORACLES[loss.core_name].states
    state = legal_state(loss, number if states is None else 500 * number, y)
    if states is not None:
        grid = np.linspace(*states, 2001)
    else:
        grid = np.linspace(min(state, z) - 1, max(state, z) + 1, 2001)
    if loss.core_name == "SquaredHinge":
        grid = y * np.minimum(1, y * grid)
    if loss.core_name == "Huber":
        grid = np.clip(grid, y - 1, y + 1)
    new = step(loss, state, z, y, k, dtype).state
    gain = dual_gain(loss, np.array(new), state, z, y, k)
    best = np.max(dual_gain(loss, grid, state, z, y, k))
    curvature = max(1.0, steepest(loss, state, z))
    # Near the maximum the gain is flat: what is lost is of second order in the miss. What rounding
    # of the stored state adds, the stiffness multiplies.
    miss = state_tolerance(loss, state, z, dtype)
    stored = curvature * rounding(dtype) * (1 + abs(new))
    tolerance = curvature * miss**2 + (1 + k) * stored**2 + 1e-13 * (1 + abs(best))
    if states is not None:  # at a bound it is of first order
        tolerance += rounding(dtype) * (abs(1 - y * z) if loss.labels == "sign" else abs(y - z))
    assert gain >= best - tolerance


@given(
    number=NEAR,
    way=st.floats(-1, 1, width=32).filter(lambda way: abs(way) > 1e-3),
    label=NEAR,
    k=STIFFNESS,
)
@example(number=0.0, way=1.0, label=1.0, k=1.0)
@example(number=-20.0, way=-1.0, label=1.0, k=2.0**20)
def test_short_step_loses_little_of_the_gain(loss, number, way, label, k):
    y = legal_label(loss, label)
    state = legal_state(loss, number if loss.core_name != "Hinge" else 500 * number, y)
    oracle = ORACLES[loss.core_name]
    if not oracle.is_smooth or oracle.curvature(np.float64(state), y) < 1e-6:
        return  # nothing to gain that float64 could tell from rounding
    z = state + way
    new = step(loss, state, z, y, k, np.dtype(np.float64)).state
    root = root_by_bisection(loss, state, z, y, k)
    gain, best = (dual_gain(loss, s, state, z, y, k) for s in (np.float64(new), np.float64(root)))
    # The square of the accuracy if the curvature were constant; over a way of 1 it changes by e at
    # most, at either end of the way.
    lost = np.e**2 * ACCURACY.get(loss.core_name, 0.0) ** 2
    assert gain >= best * (1 - lost) - 1e-13 * (1 + k + abs(best))


@with_edges
def test_change_is_the_difference_of_the_dual_variables(loss, dtype, number, z, label, k):
    y, z = legal_label(loss, label), legal_margin(loss, z)
    state = legal_state(loss, number, y)
    oracle = ORACLES[loss.core_name]
    new, change, _ = step(loss, state, z, y, k, dtype)
    difference = oracle.dual(np.longdouble(new), y) - oracle.dual(np.longdouble(state), y)
    # The rounding of a state moves its dual variable by that times the curvature there.
    moved = sum(float(oracle.curvature(np.float64(s), y)) * (1 + abs(s)) for s in (state, new))
    scale = abs(change) + (moved if oracle.is_smooth else 0.0)
    tolerance = 16 * rounding(dtype) * scale + 4 * wide_rounding()
    if abs(new - state) > LONG_STEP:
        tolerance += 2 * rounding(dtype)
    assert abs(change - difference) <= tolerance


@with_edges
def test_gap_of_a_row_is_never_negative(loss, dtype, number, z, label, k):
    y = legal_label(loss, label)
    assert step(loss, legal_state(loss, number, y), z, y, k, dtype).gap >= 0.0


@with_edges
@example(number=-12.0, z=-11.9, label=1.0, k=1.0)
@example(number=0.5, z=0.49, label=1.0, k=1.0)
@example(number=0.0, z=0.251, label=1.0, k=1.0)
@example(number=0.0, z=2.0**-52, label=91.0, k=0.0)
def test_gap_of_a_row_is_the_bregman_divergence(loss, dtype, number, z, label, k):
    y, z = legal_label(loss, label), legal_margin(loss, z)
    state = legal_state(loss, number, y)
    oracle = ORACLES[loss.core_name]
    exact = float(oracle.gap(*wide(state, z, y)))
    way = abs(z - state)
    if loss.core_name.endswith("Logistic"):
        # Short ways keep their relative precision; the logarithm of a long one is rounded like
        # the way itself.
        near = way < SERIES_REACH
        tolerance = SERIES_ERROR * exact if near else 4 * rounding(dtype) * (1 + way)
    elif oracle.is_smooth:
        miss = rounding(dtype) * (1 + abs(state) + abs(z) + abs(y))
        # Several roundings of numbers as large as the label enter before the square.
        tolerance = 16 * steepest(loss, state, z) * (way * miss + miss**2)
    else:
        tolerance = rounding(dtype) * (1 + abs(z))
    # The oracle is a difference of terms as large as the loss, which is (z - y)^2 / 2 for labels
    # that are no classes.
    terms = 1 + abs(z) + abs(state) + (0 if loss.labels == "sign" else (abs(z) + abs(y)) ** 2)
    terms += steepest(loss, state, z) * (1 + abs(z) + abs(state))
    tolerance += 8 * rounding(dtype) * exact + 4 * wide_rounding() * terms
    assert step(loss, state, z, y, k, dtype).gap == pytest.approx(exact, rel=0, abs=tolerance)


def test_huge_margins_and_stiffness_leave_a_step_finite(loss, dtype):
    largest = 1e30 if dtype == np.float64 else 1e15  # squares of more leave the type
    for size in (80.0, 1e4, largest):
        for y in labels_of(loss):
            starts = {quantity(loss, "start", 0.0, y, dtype), legal_state(loss, 1e4, y)}
            starts |= {legal_state(loss, side * min(size, 1e4), y) for side in (-1, 1)}
            for state in starts:
                for z in (-size, size):  # a mean that leaves float32 has a gap that does
                    if loss.link in ("log", "cloglog"):
                        z = min(z, 80.0)
                    for k in (0.0, 1e-6, 1.0, 1e6):
                        assert np.isfinite(step(loss, state, z, y, k, dtype)).all()


def test_row_of_zeros_moves_to_the_margin(loss, dtype):
    """Stiffness 0: nothing holds the dual variable back."""
    for y in labels_of(loss):
        old = quantity(loss, "start", 0.0, y, dtype)
        new = step(loss, old, 0.0, y, 0.0, dtype).state
        expected = -quantity(loss, "gradient", 0.0, y, dtype)
        accuracy = ACCURACY.get(loss.core_name, 0.0) * abs(old) + 4 * rounding(dtype)
        assert quantity(loss, "dual", new, y, dtype) == pytest.approx(expected, abs=accuracy)


def test_step_at_its_solution_changes_nothing(loss, dtype):
    oracle = ORACLES[loss.core_name]
    for y in labels_of(loss):
        for x in (-3.0, 0.25, 0.875):
            state = legal_state(loss, x, y) if oracle.is_smooth else 0.5
            z = state if oracle.is_smooth else y
            assert step(loss, state, z, y, 3.0, dtype) == (state, 0.0, 0.0)
