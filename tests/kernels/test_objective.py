"""Sums behind the certificate on the device, against plain NumPy."""

import numpy as np
import pytest
from reference.data import rounding

from snapml.problems import Logistic

from .descent_case import DescentCase
from .emulator import EmulatedDevice

WIDE = dict(rtol=1000 * rounding(np.dtype(np.float64)), atol=1000 * rounding(np.dtype(np.float64)))


def scattered(loss, dtype="float64", **options):
    """Return a case whose states are legal numbers far from the start."""
    case = DescentCase(loss, dtype=dtype, **options)
    numbers = np.random.default_rng(4).normal(size=case.n_rows)
    if case.oracle.states is not None:
        numbers = np.clip(np.abs(numbers), *case.oracle.states)
    elif loss.core_name == "SquaredHinge":
        numbers = case.y * (1 - np.abs(numbers))
    elif loss.core_name == "Huber":
        numbers = case.y + np.clip(numbers, -1, 1)
    case.duals[:] = numbers
    return case


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.25, 1.0), (1.0, 0.0)])
@pytest.mark.parametrize("is_weighted", [True, False])
def test_dual_sums_equal_the_plain_ones(loss, scales, is_weighted):
    case = scattered(loss, is_weighted=is_weighted)
    beta = np.full(case.n_rows, np.nan)
    terms, positive, negative = case.sums.dual(case.duals, *scales, beta)
    plain = case.beta
    scaled = plain * np.where(plain > 0, *scales)
    np.testing.assert_allclose(beta, scaled, **WIDE)
    sums = np.maximum(plain, 0).sum(), np.minimum(plain, 0).sum()
    np.testing.assert_allclose((positive, negative), sums, **WIDE)
    used = case.c > 0
    c = case.c[used]
    conjugates = c * case.oracle.conjugate(-scaled[used] / c, case.y[used])
    np.testing.assert_allclose(terms, -conjugates.sum(), **WIDE)


@pytest.mark.parametrize("is_weighted", [True, False])
def test_line_between_states_is_straight_in_the_dual_variables(loss, is_weighted):
    case = scattered(loss, is_weighted=is_weighted)
    kept = case.duals.copy()
    if loss.core_name == "SquaredHinge":  # its states keep y s <= 1
        case.duals[:] = case.y * np.minimum(2 * kept * case.y, 1.0)
    elif loss.core_name == "Huber":  # its states keep |y - s| <= 1
        case.duals[:] = 2 * case.y - kept
    else:
        case.duals[:] = kept[::-1]
    ends = [case.oracle.dual(states, case.y) for states in (kept, case.duals)]

    def terms(step):
        shares = np.clip(
            (1 - step) * ends[0] + step * ends[1], np.minimum(*ends), np.maximum(*ends)
        )
        return -case.c @ (case.oracle.conjugate(-shares, case.y) + 0.5 * shares)

    slope = (terms(0.25 + 1e-6) - terms(0.25 - 1e-6)) / 2e-6
    assert case.sums.line_slope(kept, case.duals, 0.25, 0.5) == pytest.approx(slope, rel=1e-6)
    case.sums.go_to(kept, case.duals, 0.25)
    found = case.oracle.dual(case.duals, case.y)
    np.testing.assert_allclose(found, 0.75 * ends[0] + 0.25 * ends[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shift", [0.0, -0.75, 50.0])
def test_loss_and_its_slopes_equal_the_plain_sums(loss, shift):
    case = DescentCase(loss)
    margins = np.linspace(-4, 4, case.n_rows)
    for given, z in ((margins, margins + shift), (None, np.full(case.n_rows, shift))):
        found = case.sums.loss(given, shift)
        functions = case.oracle.value, case.oracle.gradient, case.oracle.curvature
        np.testing.assert_allclose(found, [case.c @ f(z, case.y) for f in functions], **WIDE)


def test_gradients_and_curvatures_are_filled_in(loss):
    case = DescentCase(loss)
    margins = np.linspace(-4, 4, case.n_rows)
    filled = [np.full(case.n_rows, np.nan) for _ in range(2)]
    sums = case.sums.loss(margins, -0.75, *filled)
    for array, function in zip(filled, (case.oracle.gradient, case.oracle.curvature), strict=True):
        np.testing.assert_allclose(array, case.c * function(margins - 0.75, case.y), **WIDE)
    assert sums == case.sums.loss(margins, -0.75)
    only = np.full(case.n_rows, np.nan)
    case.sums.loss(margins, -0.75, None, only)
    np.testing.assert_array_equal(only, filled[1])


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_dual_terms_of_gradients_equal_the_plain_ones(loss, scale):
    case = DescentCase(loss)
    gradients = case.c * case.oracle.gradient(np.linspace(-4, 4, case.n_rows), case.y)
    used = case.c > 0
    c = case.c[used]
    conjugates = c * case.oracle.conjugate(scale * gradients[used] / c, case.y[used])
    found = case.sums.gradient_terms(gradients, scale)
    np.testing.assert_allclose(found, -conjugates.sum(), **WIDE)


def test_sums_over_many_blocks_do_not_depend_on_the_order_of_threads():
    n_rows = 5000
    entries = np.ones((n_rows, 1))
    found = {
        scattered(
            Logistic(), "float32", entries=entries, device=EmulatedDevice(**options)
        ).sums.loss(np.random.default_rng(0).normal(size=n_rows), 0.1)
        for options in (dict(n_workers=1), dict(n_workers=4, seed=3))
    }
    assert len(found) == 1


@pytest.mark.parametrize("size", [1, 1000])
def test_penalty_and_its_conjugate_are_half_the_squared_norm(size):
    vector = np.linspace(-2, 3, size)
    found = DescentCase().sums.penalty(vector)
    np.testing.assert_allclose(found, vector @ vector / 2, **WIDE)
