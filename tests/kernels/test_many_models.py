"""Products and losses of many models, against plain NumPy and to the same bits every time."""

import numpy as np
import pytest
from reference.data import make_rows, rounding
from reference.losses import ORACLES
from scipy import sparse

from snapml.kernels.losses.many_losses import ManyMarginLosses
from snapml.kernels.products.many_rows import PANEL, ManyRows

from .emulator import EmulatedDevice
from .layouts import LAYOUTS, compressed

pytestmark = pytest.mark.pairwise

COMPRESSED = [layout for layout in LAYOUTS if layout != "dense"]


def make_compressed(layout, dtype, n_rows=45, n_cols=70):
    X = make_rows(n_rows, n_cols, density=0.3)
    X[::5] = 0.0
    X[7:8] = 1.0
    if layout == "constant":
        X = np.where(X != 0, 0.5, 0.0)
    return compressed(sparse.csr_array(X), layout, dtype), X.astype(dtype).astype(np.float64)


@pytest.mark.parametrize("is_squared", [False, True], ids=["plain", "squared"])
@pytest.mark.parametrize("most_entries", [4096, 20], ids=["short", "long"])
@pytest.mark.parametrize("layout", COMPRESSED)
def test_products_are_those_of_the_rows(device, layout, most_entries, is_squared, dtype):
    rows, X = make_compressed(layout, dtype)
    vectors = np.random.default_rng(0).normal(size=(70, 3 * PANEL)).astype(dtype)
    found = ManyRows(device, rows, most_entries).product(vectors, is_squared=is_squared)
    exact = (X * X if is_squared else X) @ vectors.astype(np.float64)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact, rtol=8 * rounding(dtype), atol=70 * rounding(dtype))
    assert not found[::5].any()


def test_products_of_no_rows_are_none(device):
    rows, _ = make_compressed("int32", np.float64, n_rows=0)
    found = ManyRows(device, rows).product(np.ones((70, PANEL)))
    assert found.shape == (0, PANEL)


def test_products_have_the_same_bits_whatever_the_order_of_threads():
    rows, _ = make_compressed("int32", np.float32)
    vectors = np.random.default_rng(0).normal(size=(70, PANEL)).astype(np.float32)
    found = {
        ManyRows(EmulatedDevice(**options), rows, 20).product(vectors).tobytes()
        for options in (dict(n_workers=1), dict(n_workers=4, seed=3), dict(n_workers=3, seed=4))
    }
    assert len(found) == 1


def test_vectors_of_another_shape_are_refused(device):
    rows, _ = make_compressed("int32", np.float64)
    with pytest.raises(ValueError, match="expected a multiple of 16 models, got 17"):
        ManyRows(device, rows).product(np.ones((70, PANEL + 1)))
    with pytest.raises(ValueError, match=r"vectors: expected shape \(70, None\)"):
        ManyRows(device, rows).product(np.ones((71, PANEL)))
    with pytest.raises(TypeError, match="vectors: expected float64, got float32"):
        ManyRows(device, rows).product(np.ones((70, PANEL), np.float32))


def expected_losses(loss, z, y, c):
    """Values, slopes and curvatures; nothing where there is no weight."""
    oracle = ORACLES[loss]
    found = oracle.value(z, y), oracle.gradient(z, y), oracle.curvature(z, y)
    return tuple(np.where(c == 0.0, 0.0, c * one) for one in found)


@pytest.mark.parametrize("loss", ORACLES)
@pytest.mark.parametrize("n_rows", [0, 1, 77])
def test_losses_are_those_of_the_margins(device, loss, n_rows, dtype):
    rng, n_models = np.random.default_rng(1), 2 * PANEL
    least = 0.0 if ORACLES[loss].labels == "count" else -1.0
    labels = np.where(rng.random((n_rows, 2)) < 0.5, least, 1.0).astype(dtype)
    weights = rng.integers(0, 3, (n_rows, 3)).astype(dtype)
    columns = np.arange(n_models, dtype=np.int32) % 2, np.arange(n_models, dtype=np.int32) % 3
    factors = rng.random(n_models).astype(dtype)
    factors[-3:] = 0.0
    margins, moves = rng.normal(size=(2, n_rows, n_models)).astype(dtype)
    margins[: n_rows // 3, -1] = np.inf  # of a model without weight
    steps = rng.random(n_models).astype(dtype)
    losses = ManyMarginLosses(device, loss, labels, weights, *columns, factors)
    y, c = labels[:, columns[0]].astype(float), weights[:, columns[1]] * factors.astype(float)
    with np.errstate(all="ignore"):
        values, slopes, curvatures = expected_losses(loss, margins.astype(float), y, c)
        moved = margins.astype(float) + steps.astype(float) * moves
        ahead = expected_losses(loss, moved, y, c)[0].sum(axis=0)
    found = losses.tangents(margins)
    # Curvatures of these two are differences of what nearly cancels.
    digits = 64 if loss in ("Probit", "ComplementaryLogLog") else 8
    close = dict(rtol=digits * rounding(dtype), atol=digits * rounding(dtype))
    np.testing.assert_allclose(found[0], values.sum(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found[1], slopes, **close)
    np.testing.assert_allclose(found[2], curvatures, **close)
    np.testing.assert_allclose(losses.ahead(margins, moves, steps), ahead, rtol=1e-12, atol=1e-12)


def test_columns_that_the_tables_lack_are_refused(device):
    ones, zeros = np.ones((5, 2)), np.zeros(PANEL, np.int32)
    with pytest.raises(ValueError, match="columns of a table of 2: got 0, 2"):
        ManyMarginLosses(
            device, "Logistic", ones, ones, zeros, np.arange(PANEL, dtype=np.int32) % 3, np.ones(16)
        )
    with pytest.raises(ValueError, match="int32 columns of a multiple of 16 models, got int64"):
        ManyMarginLosses(
            device, "Logistic", ones, ones, zeros.astype(np.int64), zeros, np.ones(PANEL)
        )
