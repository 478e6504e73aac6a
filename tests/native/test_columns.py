"""Products, packed columns and descents of the extension against plain NumPy."""

import numpy as np
import pytest
from reference.data import make_rows, rounding
from scipy.sparse import csr_matrix

from snapml import _native
from snapml.data import CompressedMatrix, DenseMatrix
from snapml.solvers.rows.cpu_rows import native_rows

from .test_threads import Alarm, run_with_alarm

N_ROWS, N_COLS = 300, 7
LAYOUTS = ("C", "F", "strided", "csr32", "csr64", "ones")


def make_matrix(layout, dtype):
    """Return the matrix in a layout, and the same as dense float64."""
    X = make_rows(N_ROWS, N_COLS, density=0.4 if layout in ("csr32", "csr64", "ones") else 1.0)
    if layout == "ones":
        X = (X != 0).astype(np.float64)
    if layout == "C":
        return DenseMatrix(np.ascontiguousarray(X, dtype=dtype)), X
    if layout == "F":
        return DenseMatrix(np.asfortranarray(X, dtype=dtype)), X
    if layout == "strided":
        return DenseMatrix(np.repeat(X, 2, axis=1).astype(dtype)[::-1, ::2][::-1]), X
    stored = csr_matrix(X.astype(dtype))
    index = np.int64 if layout == "csr64" else np.int32
    values = None if layout == "ones" else stored.data
    indptr, indices = stored.indptr.astype(index), stored.indices.astype(index)
    return CompressedMatrix(indptr, indices, N_COLS, values, dtype), X


@pytest.fixture(params=[1, 3])
def pool(request):
    return _native.ThreadPool(request.param)


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


def test_products_from_both_sides_equal_numpy(layout, dtype, pool):
    matrix, X = make_matrix(layout, dtype)
    rows = native_rows(matrix, pool)
    rng = np.random.default_rng(0)
    w, r = rng.normal(size=N_COLS), rng.normal(size=N_ROWS)
    margins, sums = np.empty(N_ROWS), np.empty((pool.size, N_COLS))
    _native.product(pool, rows, w, margins)
    _native.adjoint_product(pool, rows, r, sums)
    np.testing.assert_allclose(margins, X @ w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sums[0], X.T @ r, rtol=0, atol=1e-12)


def test_column_moments_equal_numpy(layout, dtype, pool):
    matrix, X = make_matrix(layout, dtype)
    weights = np.random.default_rng(1).random(N_ROWS).astype(dtype)
    out = np.empty((pool.size, 2, N_COLS))
    _native.column_moments(pool, native_rows(matrix, pool), weights, 1.0, out)
    c = weights.astype(np.float64)
    np.testing.assert_allclose(out[0], [c @ X, c @ X**2], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("dense", ["C", "F", "strided"])
def test_packed_columns_are_copies_and_the_constant(dense, by_columns, dtype, pool):
    matrix, X = make_matrix(dense, dtype)
    columns = np.array([4, 1, N_COLS], dtype=np.int64)
    out = np.empty((3, N_ROWS) if by_columns else (N_ROWS, 3), dtype=dtype)
    _native.pack_dense(pool, native_rows(matrix, pool), columns, 2.5, by_columns, out)
    expected = np.column_stack([X[:, [4, 1]], np.full(N_ROWS, 2.5)])
    np.testing.assert_array_equal(out.T if by_columns else out, expected)


def test_columns_outside_the_matrix_are_refused(pool):
    matrix, _ = make_matrix("C", np.float32)
    rows, out = native_rows(matrix, pool), np.empty((N_ROWS, 1), dtype=np.float32)
    for column in (-1, N_COLS + 1):
        with pytest.raises(ValueError, match="columns: expected numbers from 0 to 7"):
            _native.pack_dense(pool, rows, np.array([column]), 1.0, False, out)


def test_loss_derivatives_equal_the_oracle(loss, dtype, pool):
    from reference.losses import ORACLES

    oracle = ORACLES[loss.core_name]
    rng = np.random.default_rng(2)
    least = 0.0 if loss.labels == "count" else -1.0
    y = np.where(rng.random(N_ROWS) > 0.4, 1.0, least).astype(dtype)
    c = rng.random(N_ROWS).astype(dtype)
    c[:5] = 0
    z = rng.normal(size=N_ROWS) * 3
    gradients, curvatures = np.empty(N_ROWS), np.empty(N_ROWS)
    name = loss.core_name
    sums = _native.loss_derivatives(pool, name, y, c, 1.0, z, 0.25, gradients, curvatures)
    label, weight = y.astype(float), c.astype(float)
    for found, total, formula in (
        (gradients, sums[1], oracle.gradient),
        (curvatures, sums[2], oracle.curvature),
    ):
        expected = weight * formula(z + 0.25, label)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        assert total == pytest.approx(expected.sum(), rel=1e-12)
    assert sums[0] == pytest.approx(weight @ oracle.value(z + 0.25, label), rel=1e-12)


def test_penalty_and_conjugate_add_up_to_the_product_only_at_the_slope():
    rng = np.random.default_rng(3)
    for l1, l2, is_positive in ((0.7, 0.5, False), (0.7, 0.5, True), (0.0, 2.0, True)):
        for v in rng.normal(size=50) * 2:
            conjugate = _native.elastic_net_conjugate(
                np.array([v]), l1, l2, is_positive, None, None
            )
            grid = np.linspace(0 if is_positive else -20, 20, 40001)
            values = grid * v - l1 * np.abs(grid) - l2 * grid**2 / 2
            assert conjugate == pytest.approx(values.max(), abs=1e-5)
    assert _native.elastic_net_value(np.array([-1e-9]), 1.0, 0.0, True, None, None) == np.inf
    assert _native.elastic_net_conjugate(np.array([1.1]), 1.0, 0.0, False, None, None) == np.inf
    assert _native.elastic_net_conjugate(np.array([-9.0]), 1.0, 0.0, True, None, None) == 0.0


@pytest.mark.parametrize("l2", [0.0, 0.5])
@pytest.mark.parametrize("ends", [(-0.5, 2.0), (0.0, 1.5), (-3.0, 0.0), (0.0, 0.0), (-1.0, 1.0)])
def test_conjugate_within_bounds_is_the_supremum_within_them(ends, l2):
    w = np.linspace(*ends, 200_001)
    for l1 in (0.0, 1.0):
        for v in (-9.0, -1.2, -0.7, 0.0, 0.4, 1.3, 7.0):
            bounds = [np.array([end]) for end in ends]
            terms = l1, l2, False, *bounds
            found = _native.elastic_net_conjugate(np.array([v]), *terms)
            assert found == pytest.approx(np.max(v * w - l1 * np.abs(w) - l2 * w * w / 2), abs=1e-9)
            for outside in (ends[0] - 1e-9, ends[1] + 1e-9):
                assert _native.elastic_net_value(np.array([outside]), *terms) == np.inf


def test_conjugate_within_one_bound_is_infinite_on_the_other_side():
    lower, upper = np.array([-np.inf]), np.array([2.0])
    for v, exact in ((-1.5, np.inf), (-1.0, 0.0), (1.0, 0.0), (3.0, 4.0)):
        found = _native.elastic_net_conjugate(np.array([v]), 1.0, 0.0, False, lower, upper)
        assert found == exact
    with pytest.raises(ValueError, match="both bounds or none"):
        _native.elastic_net_value(np.array([0.0]), 1.0, 0.0, False, lower, None)


@pytest.mark.parametrize("is_positive", [False, True])
def test_gram_descent_reaches_the_optimality_conditions(dtype, is_positive):
    rng = np.random.default_rng(4)
    A = rng.normal(size=(40, 8))
    gram = (A.T @ A).astype(dtype)
    start, q = np.zeros(8), rng.normal(size=8) * 30
    l1, l2, w, gradient = 5.0, 0.3, start.copy(), q.copy()
    sweeps, is_done = _native.gram_descent(
        gram, np.zeros(8), l1, l2, is_positive, None, None, w, gradient, 1000, 1e-12
    )
    assert is_done
    assert sweeps < 1000
    slope = q + gram.astype(np.float64) @ w + l2 * w
    # A gap of 1e-12 leaves slopes up to the root of 2 l2 1e-12 off.
    eps = max(1e-6, 1e3 * rounding(dtype))
    np.testing.assert_allclose(slope[w > 0], -l1, rtol=eps)
    assert not np.any(w < 0) or not is_positive
    np.testing.assert_allclose(slope[w < 0], l1, rtol=eps)
    at_rest = -slope[w == 0] if is_positive else np.abs(slope[w == 0])
    assert np.all(at_rest <= l1 * (1 + eps))


def test_column_descent_moves_only_the_columns_that_it_may(dtype):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 5)).astype(dtype)
    packed = np.ascontiguousarray(X.T)
    columns = _native.Columns.dense(packed, len(X))
    y = rng.normal(size=60) * 3
    states = np.zeros(60, dtype=dtype)
    slopes, squares = -(X.T.astype(float) @ y), (X.astype(float) ** 2).sum(axis=0)
    among, w, l1 = np.array([3, 1]), np.array([0.5, 0.0, 0.0, 0.0, -0.5]), 1.0
    start = w.copy()
    enough = 1e3 * rounding(dtype)
    parts = (slopes, squares, None, 1.0, w, l1, 0.0, False, 1000, enough)
    _, is_done = _native.column_descent(columns, states, 1.0, *parts, among)
    assert is_done
    np.testing.assert_array_equal(w[[0, 2, 4]], start[[0, 2, 4]])
    slope = (slopes + X.T.astype(float) @ (X.astype(float) @ (w - start)))[among]
    np.testing.assert_allclose(slope, -l1 * np.sign(w[among]), atol=1e4 * rounding(dtype))
    with pytest.raises(ValueError, match="among: expected numbers from 0 to 4"):
        _native.column_descent(columns, states, 1.0, *parts, np.array([5]))


# --- what leads outside the arrays, and what takes long -------------------------------------


def packing(pool):
    """Return compressed rows, positions of three columns, and room for what they hold."""
    matrix, X = make_matrix("csr32", np.float64)
    positions = np.full(N_COLS, -1, dtype=np.int64)
    positions[[1, 4, 5]] = np.arange(3)
    counts = np.empty((pool.size, 4), dtype=np.int64)
    rows = native_rows(matrix, pool)
    _native.count_entries(pool, rows, positions, 3, counts)
    counts[:, 0] = 0
    starts = np.append(0, counts.sum(axis=0).cumsum()[:-1])
    offsets = starts + np.vstack([np.zeros((1, 4), dtype=np.int64), counts[:-1].cumsum(axis=0)])
    n_stored = int(counts.sum())
    offsets[:, 0] = n_stored + np.arange(pool.size)
    size = n_stored + pool.size
    indices, values = np.zeros(size, dtype=np.int32), np.zeros(size)
    return rows, positions, offsets, indices, values, X[:, [1, 4, 5]]


def test_packed_compressed_columns_equal_numpy(pool):
    rows, positions, offsets, indices, values, expected = packing(pool)
    _native.fill_columns(pool, rows, positions, 3, offsets, indices, values)
    n_stored = len(values) - pool.size
    np.testing.assert_array_equal(indices[:n_stored], np.nonzero(expected.T)[1])
    np.testing.assert_array_equal(values[:n_stored], expected.T[expected.T != 0])


@pytest.mark.parametrize("wrong", [-(2**62), -1, 10**6, 2**62])
@pytest.mark.parametrize("column", [0, 1, 3])
def test_offsets_outside_the_arrays_are_refused(pool, column, wrong):
    rows, positions, offsets, indices, values, _ = packing(pool)
    offsets[-1, column] = wrong
    with pytest.raises(ValueError, match="offsets: expected places from 0 to"):
        _native.fill_columns(pool, rows, positions, 3, offsets, indices, values)


def test_offsets_that_run_out_of_the_arrays_are_refused(pool):
    rows, positions, offsets, indices, values, _ = packing(pool)
    offsets[-1, 3] = len(indices) - 1
    with pytest.raises(ValueError, match="offsets: expected places from 0 to"):
        _native.fill_columns(pool, rows, positions, 3, offsets, indices, values)


def test_long_sums_over_columns_end_soon_after_a_signal():
    values = np.ones((1600, 100_000), dtype=np.float32)
    states = np.ones((100_000, 2), dtype=np.float32)
    columns = _native.Columns.dense(values, 100_000)
    sums, squares = np.full(1600, np.nan), np.full(1600, np.nan)
    with pytest.raises(Alarm):
        run_with_alarm(lambda: _native.column_curvatures(columns, states, 0.0, sums, squares))
    assert np.isnan(sums[-1])


def test_long_blocks_of_rows_end_soon_after_a_signal():
    n_rows = 2_400_000  # several times what is done between two looks for signals
    rows = _native.Rows.dense(np.broadcast_to(np.ones(200, np.float32), (n_rows, 200)))
    out = np.full((n_rows, 200), np.nan, dtype=np.float32)
    pool = _native.ThreadPool(1)
    block = (rows, 0, n_rows, np.zeros(200), np.ones(n_rows), out)
    with pytest.raises(Alarm):
        run_with_alarm(lambda: _native.weighted_block(pool, *block))
    assert np.isnan(out[-1, -1])
