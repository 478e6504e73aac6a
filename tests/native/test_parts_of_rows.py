"""Passes over parts of the rows: gradients go on from one part to the next, for every thread."""

import numpy as np
import pytest
from reference.data import make_rows
from scipy.sparse import csr_matrix

from snapml import _native


def rows_of(X, pool, *, is_sparse):
    if not is_sparse:
        return _native.Rows.dense(X)
    X = csr_matrix(X)
    is_double = X.dtype == np.float64
    return _native.Rows.compressed(pool, X.indptr, X.indices, X.data, 1.0, is_double, X.shape[1])


def targets_of(y):
    return _native.Targets.make(np.ascontiguousarray(y), None, 1.0, len(y), False, 1.0)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_parts_add_up_to_the_whole(dtype, is_sparse, n_outputs, n_threads):
    rng, pool = np.random.default_rng(0), _native.ThreadPool(n_threads)
    X = make_rows(90, 7, density=0.5).astype(dtype)
    y = np.where(rng.random((n_outputs, 90)) < 0.5, -1, 1).astype(dtype)
    coef, direction = rng.normal(size=(2, n_outputs, 8))
    sums = [np.full((n_threads, n_outputs, 8), np.nan) for _ in range(2)]  # filled
    parts = [np.zeros((n_threads, n_outputs, 8)) for _ in range(2)]  # added to
    squares = np.zeros((n_threads, n_outputs, 7))
    z = np.empty((n_outputs, 90))
    whole, targets = rows_of(X, pool, is_sparse=is_sparse), targets_of(y)
    loss, _ = _native.fused_pass(pool, whole, "Logistic", targets, coef, False, z, sums[0])
    _native.hessian_product(pool, whole, "Logistic", targets, z, direction, sums[1])
    total = 0.0
    for part in (slice(0, 37), slice(37, 38), slice(38, 90)):
        rows, own = rows_of(X[part], pool, is_sparse=is_sparse), targets_of(y[:, part])
        margins = np.empty((n_outputs, len(X[part])))
        names = (pool, rows, "Logistic", own)
        total += _native.fused_pass(*names, coef, False, margins, parts[0], is_part=True)[0]
        np.testing.assert_allclose(margins, z[:, part], rtol=1e-12)
        _native.hessian_product(*names, margins, direction, parts[1], is_part=True)
        weights = np.ascontiguousarray(np.abs(z[:, part]))
        _native.weighted_squares(pool, rows, weights, n_outputs, squares)
    assert total == pytest.approx(loss, rel=1e-12)
    for added, filled in zip(parts, sums, strict=True):
        np.testing.assert_allclose(added.sum(axis=0), filled[0], rtol=1e-10, atol=1e-12)
    expected = np.abs(z) @ X.astype(np.float64) ** 2
    np.testing.assert_allclose(squares.sum(axis=0), expected, rtol=1e-10)
