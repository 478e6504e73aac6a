"""Epochs on the device: one row at a time as on the CPU, many in rounds or at once."""

import numpy as np
import pytest
from reference.data import rounding

from snapml import _native
from snapml.problems import Logistic, Squared

from .descent_case import LAYOUTS, DescentCase
from .emulator import EmulatedDevice

pytestmark = pytest.mark.pairwise


def assert_equal_to_slow(case, slow, sums, shared, tolerance):
    found = case.duals, shared, [sums.gap, sums.slope, sums.single]
    exact = slow.duals, slow.shared, [slow.gap, slow.slope, slow.single]
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("n_rows", "block_rows"), [(1, 16), (45, 16), (48, 4), (7, 1), (300, 8)])
def test_order_is_that_of_the_cpu(n_rows, block_rows):
    case = DescentCase(n_rows=n_rows)
    order = case.descent.order(7, 3, block_rows)
    expected = []
    for block in _native.core_permutation(7, 3, -(-n_rows // block_rows)):
        first = block * block_rows
        count = min(block_rows, n_rows - first)
        inside = _native.core_block_order(7, 2**64 - 1 - 3, block, count)
        expected += [*(first + j for j in inside), *[-1] * (block_rows - count)]
    np.testing.assert_array_equal(order, expected)


@pytest.mark.parametrize("at_once", [False, True], ids=["in rounds", "at once"])
@pytest.mark.parametrize("layout", ["dense", "int32"])
def test_one_row_at_a_time_is_the_serial_epoch(loss, layout, at_once):
    case = DescentCase(loss, layout)
    slow = case.slow
    for epoch in range(2):
        options = dict(stiffness=0.75, outer=1.5)
        order, sums, shared = case.run(epoch, at_once=at_once, **options)
        slow.run(order, 1, offset=case.offset, **options)
        assert_equal_to_slow(case, slow, sums, shared, 1e-9)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [3, 40, 100])
def test_rows_of_a_round_step_from_the_same_vector(layout, rows):
    """Dense rows are added up in teams of 32; 100 are more than there are."""
    case = DescentCase(Logistic(), layout, n_features=40)
    slow = case.slow
    for epoch in range(2):
        order, sums, shared = case.run(epoch, rows=rows, stiffness=5.0)
        slow.run(order, rows, offset=case.offset, stiffness=5.0)
        assert_equal_to_slow(case, slow, sums, shared, 1e-9)


@pytest.mark.parametrize("layout", ["dense", "int32"])
def test_epoch_in_float32_follows_the_slow_epoch(layout):
    case = DescentCase(Squared(), layout, "float32")
    slow = case.slow
    order, sums, shared = case.run(rows=8, stiffness=3.0)
    slow.run(order, 8, offset=case.offset, stiffness=3.0)
    assert_equal_to_slow(case, slow, sums, shared, 1e-4)


DEVICES = [dict(n_workers=1), dict(n_workers=3, seed=1), dict(n_workers=4, seed=2)]


@pytest.mark.parametrize("layout", ["dense", "int32"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounds_give_the_same_bits_whatever_the_order_of_threads(layout, dtype):
    results = set()
    for options in DEVICES:
        case = DescentCase(Logistic(), layout, dtype, device=EmulatedDevice(**options))
        for epoch in range(2):
            _, sums, shared = case.run(epoch, rows=12, stiffness=4.0)
        results.add((case.duals.tobytes(), shared.tobytes(), sums))
    assert len(results) == 1


def test_order_varies_with_seed_and_epoch():
    shared = [DescentCase().run(epoch, seed=seed)[2] for epoch, seed in [(0, 0), (1, 0), (0, 1)]]
    assert len({vector.tobytes() for vector in shared}) == 3


@pytest.mark.parametrize("layout", ["dense", "int32"])
@pytest.mark.parametrize("at_once", [False, True], ids=["in rounds", "at once"])
def test_shared_vector_is_the_image_of_the_dual_variables(layout, at_once):
    """No update is lost, whoever else is at work."""
    case = DescentCase(Logistic(), layout, device=EmulatedDevice(seed=3, n_workers=4))
    for epoch in range(3):
        _, _, shared = case.run(epoch, rows=16, at_once=at_once, stiffness=16.0)
    image = case.descent_X.T @ case.beta
    assert np.abs(image).max() > 0.1
    np.testing.assert_allclose(shared, image, atol=1000 * rounding(np.dtype(np.float64)))


def test_rows_of_weight_zero_take_no_part():
    case = DescentCase()
    start = case.duals.copy()
    case.run(rows=4)
    unused = case.c == 0
    assert unused.any()
    np.testing.assert_array_equal(case.duals[unused], start[unused])
    assert np.all(case.duals[~unused] != start[~unused])


def test_common_weight_equals_a_vector_of_it():
    one, other = DescentCase(is_weighted=False), DescentCase(is_weighted=False)
    other.descent._rows = (
        other.labels,
        np.full(other.n_rows, 0.5),
        np.float64(0),
        None,
        one.facts.norms_sq,
    )
    for case in (one, other):
        case.run(rows=4)
    np.testing.assert_array_equal(one.duals, other.duals)


@pytest.mark.parametrize("sigma", [1.0, 32.0])
def test_parallel_rows_need_the_factor_that_their_number_says(sigma):
    """32 equal rows that step at once all take the whole way: 32 times too far."""
    X = np.full((32, 3), 2.0)
    case = DescentCase(Squared(), "int32", entries=X, tau=0.0, offset=0.0, is_weighted=False)
    case.labels[:] = case.duals[:] = case.y[:] = 1.0
    before, _, _ = case.sums.dual(case.duals)
    _, sums, shared = case.run(rows=32, stiffness=sigma)
    after, _, _ = case.sums.dual(case.duals)
    joint = shared @ shared - 2 * sums.slope  # the vector began at zero
    assert joint / sums.single == pytest.approx(32)
    gain = after - before - shared @ shared / 2
    assert gain > 0 if sigma == 32.0 else gain < 0
