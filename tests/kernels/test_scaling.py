"""Sums of columns, scaled rows and sums of long vectors against plain NumPy."""

import numpy as np
import pytest
from reference.data import rounding

from snapml.kernels.matrices.scaling import column_sums, scale_rows
from snapml.kernels.sums.reduce import vector_sums

SHAPES = ((1, 1), (300, 5), (700, 33), (40, 130), (0, 3))


def far_rows(dtype, n_rows, n_cols):
    """Return rows whose columns lie far from zero beside their widths."""
    rng = np.random.default_rng(n_rows)
    return (rng.normal(size=(n_rows, n_cols)) + 100 * rng.normal(size=n_cols)).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_columns_are_added_up(device, shape, dtype):
    X = far_rows(dtype, *shape)
    exact = X.astype(float).sum(axis=0)
    np.testing.assert_allclose(
        column_sums(device, X), exact, rtol=0, atol=np.abs(X).sum() * rounding(np.float64)
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_squares_are_taken_about_the_centre(device, shape, dtype):
    X = far_rows(dtype, *shape)
    centre = X.astype(float).mean(axis=0) if len(X) else np.ones(shape[1])
    exact = ((X - centre) ** 2).sum(axis=0)
    found = column_sums(device, X, centre)
    np.testing.assert_allclose(found, exact, rtol=100 * rounding(np.float64), atol=1e-300)


@pytest.mark.parametrize("has_weights", [True, False])
# No scaled copy is coarser than the data.
@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        (np.dtype(np.float32), np.float32),
        (np.dtype(np.float32), np.float64),
        (np.dtype(np.float64), np.float64),
    ],
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_are_centred_scaled_and_weighted(device, shape, wide, has_weights, dtype):
    X, rng = far_rows(dtype, *shape), np.random.default_rng(1)
    mean, scale = rng.normal(size=shape[1]), rng.uniform(0.5, 2, shape[1])
    weights = rng.uniform(0, 3, shape[0]) if has_weights else None
    out = device.xp.empty((shape[0], shape[1] + 1), wide)
    scale_rows(device, X, mean, scale, weights, 0.5, out)
    exact = np.column_stack(((X - mean) / scale, np.full(len(X), 0.5)))
    exact *= 1 if weights is None else np.sqrt(weights)[:, None]
    np.testing.assert_allclose(out, exact, rtol=10 * rounding(wide))


@pytest.mark.parametrize("size", [1, 255, 257, 100_000])
def test_long_vectors_are_added_up_and_equal_calls_give_equal_bits(device, size):
    vectors = np.random.default_rng(size).normal(size=(3, size))
    found = vector_sums(device, vectors)
    np.testing.assert_allclose(
        found, vectors.sum(axis=1), rtol=0, atol=size * 10 * rounding(np.float64)
    )
    np.testing.assert_array_equal(found, vector_sums(device, vectors))


def test_wrong_arrays_are_refused_with_what_was_expected(device):
    X = np.zeros((4, 3), np.float32)
    with pytest.raises(ValueError, match=r"centre: expected shape \(3,\), got \(2,\)"):
        column_sums(device, X, np.zeros(2))
    with pytest.raises(ValueError, match=r"out: expected shape \(4, 4\), got \(4, 3\)"):
        scale_rows(device, X, np.zeros(3), np.ones(3), None, 1.0, np.zeros((4, 3)))
