"""Sweeps over columns on the device, in rounds, against plain NumPy."""

import numpy as np
import pytest
from reference.data import make_rows, rounding

from snapml.kernels.descent.column_descent import ColumnRounds, Quadratic
from snapml.kernels.sums.shared_vector import FixedVector

from .descent_case import CONSTANT_ENTRY, make_device_matrix
from .emulator import EmulatedDevice
from .slow_columns import SlowColumns

pytestmark = pytest.mark.pairwise

LAYOUTS = ["dense", "int32", "int64", "constant"]
PENALTIES = {
    "l1": dict(l1=1.0),
    "elastic net": dict(l1=0.5, l2=2.0),
    "positive": dict(l1=0.3, is_positive=True),
    "ridge": dict(l2=1.0),
    "none": dict(),
}


class Case:
    """Columns of a device, a model on them, and the oracle of both."""

    def __init__(self, X, layout="int32", dtype="float64", device=None, **options):
        device = device or EmulatedDevice()
        rng = np.random.default_rng(1)
        n_rows, n_columns = X.shape
        h = rng.uniform(0.1, 2.0, n_rows) * (rng.random(n_rows) < 0.9)
        coef = rng.normal(size=n_columns) * (rng.random(n_columns) < 0.5)
        coef = np.abs(coef) if options.get("is_positive") else coef
        slopes = 3.0 * rng.normal(size=n_columns)
        self.slow = slow = SlowColumns(X, slopes, h, coef, **options)
        has_intercept = options.get("has_intercept", True)
        columns = make_device_matrix(np.ascontiguousarray(X.T), layout, np.dtype(dtype))
        self.rounds = ColumnRounds(device, columns.rows)
        sums = h @ X if has_intercept else None
        penalty = (slow.l1, slow.l2, slow.is_positive)
        self.model = Quadratic(slopes, slow.squares, h, sums, h.sum(), *penalty)
        self.coef = coef.copy()
        self.change = FixedVector(device)
        self.change.clear(n_rows + 1, 100.0)

    def sweep(self, at_once, damping=1.0, resting=None):
        return self.rounds.sweep(
            self.model,
            self.coef,
            self.change,
            columns_at_once=at_once,
            damping=damping,
            resting=resting,
        )


def columns(layout, n_rows=45, n_columns=14):
    X = make_rows(n_rows, n_columns, density=1.0 if layout == "dense" else 0.3)
    X[:, 3] = 0.0
    return np.where(X != 0, CONSTANT_ENTRY, 0.0) if layout == "constant" else X


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("at_once", [1, 5, 100])
def test_columns_of_a_round_step_from_the_same_residual(layout, penalty, has_intercept, at_once):
    # A round is a launch, which takes the emulator longest: few columns where each has its own.
    X = columns(layout, n_columns=6 if at_once == 1 else 14)
    case = Case(X, layout, has_intercept=has_intercept, **PENALTIES[penalty])
    for damping in (5.0, 2.5):
        sums = case.sweep(at_once, damping)
        case.slow.sweep(at_once, damping)
        np.testing.assert_allclose(case.coef, case.slow.coef, rtol=1e-9, atol=1e-11)
        expected = case.slow.slope, case.slow.single
        np.testing.assert_allclose((sums.slope, sums.single), expected, rtol=1e-9)
    assert np.any(case.coef != case.slow.start)


@pytest.mark.parametrize("layout", ["dense", "int32"])
def test_resting_columns_stay(layout):
    case = Case(columns(layout), layout, l1=0.1)
    resting = (np.arange(14) % 3 == 0).astype(np.uint8)
    case.sweep(4, 3.0, resting)
    case.slow.sweep(4, 3.0, resting)
    np.testing.assert_allclose(case.coef, case.slow.coef, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(case.coef[::3], case.slow.start[::3])
    assert np.any(case.coef != case.slow.start)


@pytest.mark.parametrize("layout", ["dense", "int32"])
def test_columns_longer_than_a_piece_are_added_up(layout):
    X = make_rows(4200, 3, density=1.0)
    X[:, 1] *= np.arange(4200) % 400 == 0
    case = Case(X, layout, l1=0.1)
    for _ in range(2):
        case.sweep(2, 2.0)
        case.slow.sweep(2, 2.0)
    np.testing.assert_allclose(case.coef, case.slow.coef, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("layout", ["dense", "int32"])
def test_float32_columns_are_read_as_they_are(layout):
    X = columns(layout).astype(np.float32).astype(np.float64)
    case = Case(X, layout, "float32", l1=0.1)
    for _ in range(3):
        case.sweep(5, 4.0)
        case.slow.sweep(5, 4.0)
    np.testing.assert_allclose(case.coef, case.slow.coef, rtol=1e-9, atol=1e-11)


def test_rounds_give_the_same_bits_whatever_the_order_of_threads():
    found = set()
    for options in (dict(n_workers=1), dict(n_workers=3, seed=1), dict(n_workers=4, seed=2)):
        case = Case(columns("int32"), device=EmulatedDevice(3, 2, **options), l1=0.1)
        for _ in range(2):
            sums = case.sweep(6, 4.0)
        found.add((case.coef.tobytes(), case.change.entries.tobytes(), sums))
    assert len(found) == 1


@pytest.mark.parametrize("damping", [1.0, 32.0])
def test_equal_columns_need_the_factor_that_their_number_says(damping):
    """32 equal columns that step at once all take the whole way: 32 times too far."""
    X = np.repeat(make_rows(50, 1, density=1.0), 32, axis=1)
    case = Case(X, has_intercept=False)
    case.coef[:] = case.slow.coef[:] = case.slow.start[:] = 0.0
    case.model.slopes[:] = 1.0
    before = case.slow.value()
    sums = case.sweep(32, damping)
    case.slow.coef[:] = case.coef
    gain = before - case.slow.value()
    assert gain > 0 if damping == 32.0 else gain < 0
    joint = 2 * (-gain - sums.slope)
    assert joint / sums.single == pytest.approx(32)


def test_words_hold_the_weighted_changes_and_their_mean():
    case = Case(columns("int32"), l1=0.1)
    case.sweep(3, 2.0)
    u = case.slow.X @ (case.coef - case.slow.start)
    weighted = case.slow.h * u
    expected = np.append(weighted, weighted.mean())
    tolerance = 1000 * rounding(np.dtype(np.float64))
    np.testing.assert_allclose(case.change.wide(), expected, atol=100 * tolerance)
