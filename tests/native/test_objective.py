"""Sums behind the certificate, against plain NumPy, in every layout."""

import numpy as np
import pytest
from reference.data import rounding

from snapml import _native

from .shards import LAYOUTS, Shard

pytestmark = pytest.mark.pairwise

FLOAT64 = np.dtype(np.float64)
# Both sides work in float64, whatever the type of the data; only the order of sums differs.
TOLERANCE = dict(rtol=1000 * rounding(FLOAT64), atol=1000 * rounding(FLOAT64))


@pytest.fixture(params=[1, 2], ids=["1-thread", "2-threads"])
def n_threads(request):
    return request.param


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.25, 1.0), (1.0, 0.0)])
def test_exact_sweep_equals_the_plain_sums(loss, dtype, layout, n_threads, scales):
    shard = Shard(loss, dtype, layout, n_threads, tau=0.5, offset=3.0)
    shard.scatter()
    margins = np.full(shard.n_rows, np.nan)
    adjoints = np.full((n_threads, len(shard.shared)), np.nan)
    terms = _native.exact_sweep(*shard.arguments, *scales, margins, adjoints)

    # The rows as the user gave them, and the offset left out: the certificate has its own shift.
    np.testing.assert_allclose(margins, shard.X @ shard.shared.astype(np.float64), **TOLERANCE)
    beta = shard.beta * np.where(shard.beta > 0, *scales)
    image = shard.X[:, :-1].T @ beta
    np.testing.assert_allclose(adjoints[0], np.append(image, beta.sum()), **TOLERANCE)
    c = np.where(shard.c > 0, shard.c, 1.0)
    conjugates = np.where(shard.c > 0, shard.c * shard.oracle.conjugate(-beta / c, shard.y), 0.0)
    np.testing.assert_allclose(terms, -conjugates.sum(), **TOLERANCE)


@pytest.mark.parametrize("shift", [0.0, -0.75, 50.0])
@pytest.mark.parametrize("is_weighted", [True, False])
def test_loss_and_its_slopes_equal_the_plain_sums(loss, dtype, n_threads, shift, is_weighted):
    shard = Shard(loss, dtype, n_threads=n_threads, is_weighted=is_weighted)
    margins = np.linspace(-4, 4, shard.n_rows)
    z = margins + shift
    value = _native.loss_value(*shard.arguments, margins, shift)
    slopes = _native.loss_slope(*shard.arguments, margins, shift)
    np.testing.assert_allclose(value, shard.c @ shard.oracle.value(z, shard.y), **TOLERANCE)
    exact = [shard.c @ f(z, shard.y) for f in (shard.oracle.gradient, shard.oracle.curvature)]
    np.testing.assert_allclose(slopes, exact, **TOLERANCE)


def test_dual_mass_equals_the_plain_sums(loss, dtype, n_threads):
    shard = Shard(loss, dtype, n_threads=n_threads)
    shard.scatter()
    mass = _native.dual_mass(*shard.arguments)
    exact = np.maximum(shard.beta, 0).sum(), np.minimum(shard.beta, 0).sum()
    np.testing.assert_allclose(mass, exact, **TOLERANCE)


@pytest.mark.parametrize("name", ["penalty_value", "penalty_conjugate"])
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_penalty_and_its_conjugate_are_half_the_squared_norm(dtype, n_threads, name, size):
    w = np.linspace(-2, 3, size).astype(dtype)
    found = getattr(_native, name)(_native.ThreadPool(n_threads), w)
    wide = w.astype(np.float64)
    np.testing.assert_allclose(found, wide @ wide / 2, **TOLERANCE)


def test_sums_of_many_float32_numbers_are_float64():
    """A float32 accumulator would stop at 2^24."""
    n = 2**24 + 2**20
    ones = np.ones(n, dtype=np.float32)
    assert _native.penalty_value(_native.ThreadPool(1), ones) == n / 2


def test_rows_of_weight_zero_do_not_count(loss, n_threads):
    """Not even where their loss or their dual term is not finite."""
    shard = Shard(loss, FLOAT64, n_threads=n_threads)
    margins = np.where(shard.c > 0, 0.5, 1e200)
    value = _native.loss_value(*shard.arguments, margins, 0.0)
    used = shard.c > 0
    exact = shard.c[used] @ shard.oracle.value(margins[used], shard.y[used])
    np.testing.assert_allclose(value, exact, **TOLERANCE)
