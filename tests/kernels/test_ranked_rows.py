"""Products of compressed rows against plain NumPy, with few, some and all columns in a block."""

import math
from fractions import Fraction

import numpy as np
import pytest
from reference.data import make_rows, rounding
from scipy import sparse

from snapml.kernels import CompressedRows, RankedRows
from snapml.kernels.matrices import ranking
from snapml.kernels.products import ranked_rows
from snapml.kernels.products.ranked_rows import ranked_margins, ranked_products

from .emulator import EmulatedDevice
from .layouts import compressed

pytestmark = pytest.mark.pairwise

EPS = rounding(np.float64)
LAYOUTS = ["int32", "int64", "constant"]
HOT = [0, 3, 2**16]


def make_csr(n_rows=70, n_cols=30, *, values="normal"):
    """Return rows of every kind: empty, long, with a column stored twice; some columns are rare."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, min(12, n_cols), n_rows)
    lengths[::7] = 0
    if n_rows > 3:
        lengths[3] = 3 * n_cols
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    indices = (n_cols * rng.random(indptr[-1]) ** 4).astype(np.int32)[::-1]
    data = np.full(indptr[-1], 0.5) if values == "constant" else rng.normal(size=indptr[-1])
    return sparse.csr_array((data, indices, indptr), shape=(n_rows, n_cols))


def make_ranked(X, layout, dtype=np.float64, **options):
    return RankedRows.make(EmulatedDevice(), compressed(X, layout, dtype), **options)


def products(device, matrix, vectors, **options):
    out = np.full((len(vectors), matrix.shape[1] + 1), 7.0)
    ranked_products(device, matrix, vectors, out, **options)
    np.testing.assert_array_equal(out[:, -1], 7.0)
    return out[:, :-1]


def exact_products(X, vector):
    """Return X^T s as fractions."""
    sums = [Fraction(0)] * X.shape[1]
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    for i, j, x in zip(rows, X.indices, X.data, strict=True):
        sums[j] += Fraction(float(vector[i])) * Fraction(float(x))
    return sums


@pytest.mark.parametrize("most_hot", HOT)
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (70, 30), (9, 300), (300, 5)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_are_those_of_the_rows(device, layout, shape, most_hot, dtype):
    X = make_csr(*shape, values=layout)
    matrix = make_ranked(X, layout, dtype)
    X.data = X.data.astype(dtype).astype(float)  # csr_array.astype adds up what is stored twice
    rng = np.random.default_rng(0)
    coef, vectors = rng.normal(size=(2, shape[1] + 1)), rng.normal(size=(2, shape[0]))
    found = ranked_margins(device, matrix, coef, 0.5, most_hot=most_hot)
    np.testing.assert_allclose(found, coef[:, :-1] @ X.T + 0.5 * coef[:, -1:], atol=200 * EPS)
    found = products(device, matrix, vectors, most_hot=most_hot)
    np.testing.assert_allclose(found, vectors @ X, atol=200 * EPS)
    squares = sparse.csr_array((X.data**2, X.indices, X.indptr), shape=X.shape)
    found = products(device, matrix, vectors, is_squared=True, most_hot=most_hot)
    np.testing.assert_allclose(found, vectors @ squares, atol=200 * EPS)


def test_margins_are_added_in_the_type_of_the_coefficients(device):
    X = make_csr()
    coef = np.random.default_rng(0).normal(size=(1, 31)).astype(np.float32)
    found = ranked_margins(device, make_ranked(X, "int32", np.float32), coef, 0.5)
    error = np.abs(found - (X @ coef[0, :-1].astype(float) + 0.5 * float(coef[0, -1])))
    bound = abs(X) @ np.abs(coef[0, :-1]) + 1
    assert np.all(error <= 50 * rounding(np.float32) * bound)
    assert error.max() > 10 * EPS


@pytest.mark.parametrize("most_hot", HOT)
@pytest.mark.parametrize("team_entries", [0, 5, 1024])
def test_rows_that_blocks_take_are_counted_once(device, monkeypatch, team_entries, most_hot):
    monkeypatch.setattr(ranked_rows, "TEAM_ENTRIES", team_entries)
    X = make_csr()
    matrix = make_ranked(X, "int32")
    assert len(matrix.long_rows) == np.sum(np.diff(X.indptr) > team_entries)
    coef, vectors = np.linspace(-1, 1, 31)[None, :], np.linspace(-2, 1, 70)[None, :]
    found = ranked_margins(device, matrix, coef, 0.5, most_hot=most_hot)
    np.testing.assert_allclose(found[0], X @ coef[0, :-1] + 0.5 * coef[0, -1], atol=100 * EPS)
    found = products(device, matrix, vectors, most_hot=most_hot)
    np.testing.assert_allclose(found[0], vectors[0] @ X, atol=100 * EPS)


@pytest.mark.parametrize("mean_length", [1, 3, 7, 8, 16, 40, 130])
def test_every_number_of_threads_a_row_and_rows_longer_than_a_block(device, mean_length):
    rng = np.random.default_rng(1)
    lengths = rng.poisson(mean_length, 40)
    lengths[7] = 1500
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    indices = rng.integers(0, 200, indptr[-1])
    X = sparse.csr_array((rng.normal(size=len(indices)), indices, indptr), shape=(40, 200))
    matrix = make_ranked(X, "int32")
    assert list(matrix.long_rows) == [7]
    coef, vectors = rng.normal(size=(1, 201)), rng.normal(size=(1, 40))
    found = ranked_margins(device, matrix, coef, 0.0)
    np.testing.assert_allclose(found[0], X @ coef[0, :-1], atol=1e4 * EPS)
    np.testing.assert_allclose(products(device, matrix, vectors)[0], vectors[0] @ X, atol=1e4 * EPS)


def test_ranks_of_more_columns_than_32_bits_number(device, monkeypatch):
    monkeypatch.setattr(ranking, "rank_type", lambda n_cols: np.dtype(np.int64))
    X = make_csr()
    matrix = make_ranked(X, "int64")
    assert matrix.rows.indices.dtype == np.int64
    coef, vectors = np.linspace(-1, 1, 31)[None, :], np.linspace(-2, 1, 70)[None, :]
    np.testing.assert_allclose(
        ranked_margins(device, matrix, coef, 0.0)[0], X @ coef[0, :-1], atol=100 * EPS
    )
    np.testing.assert_allclose(products(device, matrix, vectors)[0], vectors[0] @ X, atol=100 * EPS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("may_overwrite", [False, True])
def test_columns_are_ranked_by_frequency_and_come_back_as_they_were(layout, may_overwrite, dtype):
    X = make_csr(values=layout)
    X.data *= 1.0 if layout == "constant" else 10.0 ** (X.indices % 30 - 15)
    given = compressed(X, layout, dtype)
    arrays = [given.indptr, given.indices] + ([] if given.values is None else [given.values])
    before = [array.copy() for array in arrays]
    matrix = RankedRows.make(EmulatedDevice(), given, may_overwrite=may_overwrite)
    counts = np.bincount(X.indices, minlength=30)
    order = matrix.column_of[:-1]
    assert np.all(np.diff(counts[order]) <= 0)
    np.testing.assert_array_equal(matrix.counts, counts[order])
    np.testing.assert_array_equal(matrix.rank_of[order], np.arange(30))
    assert matrix.rows.indices.dtype == np.int32
    columns, values = matrix.unranked(EmulatedDevice())
    np.testing.assert_array_equal(columns, before[1])
    expected = np.full(len(columns), 0.5) if layout == "constant" else before[2]
    np.testing.assert_array_equal(values, expected.astype(dtype))
    if layout != "constant":
        assert np.abs(matrix.rows.values).max() <= 1
    if not may_overwrite:
        for array, copy in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, copy)
    elif layout != "int64":
        assert matrix.rows.indices is given.indices
        assert matrix.rows.values is given.values


@pytest.mark.parametrize("most_hot", HOT)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_have_the_same_bits_whatever_the_order_of_threads(layout, most_hot):
    X = make_csr(300, 20, values=layout)
    matrix = make_ranked(X, layout)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2, 300)) * 10.0 ** rng.integers(-9, 9, (2, 300))
    coef = rng.normal(size=(2, 21))
    devices = [EmulatedDevice(2, 2, n_workers=1)]
    devices += [EmulatedDevice(2, 2, seed=seed, n_workers=4) for seed in (3, 4, 5)]
    found = {products(d, matrix, vectors, most_hot=most_hot).tobytes() for d in devices}
    assert len(found) == 1
    found = {ranked_margins(d, matrix, coef, 0.5, most_hot=most_hot).tobytes() for d in devices}
    assert len(found) == 1


@pytest.mark.parametrize("most_hot", HOT)
@pytest.mark.parametrize("size", [1e-320, 1e-300, 1.0, 1e300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_any_size_are_as_exact_as_said(device, most_hot, size, dtype):
    """Columns of any scale: what is lost of each addend is a share of its column's largest."""
    X = make_csr()
    limits, limits_of_sums = np.finfo(dtype), np.finfo(np.float64)
    exponents = np.linspace(np.log2(limits.tiny), np.log2(limits.max) - 3, 30).astype(int)
    X.data *= 2.0 ** exponents[X.indices]
    X.data = X.data.astype(dtype).astype(float)
    matrix = make_ranked(X, "int32", dtype)
    vectors = np.random.default_rng(0).normal(size=(1, 70)) * size
    with np.errstate(over="ignore"):
        found = products(device, matrix, vectors, most_hot=most_hot)[0]
    counts = np.bincount(X.indices, minlength=30)
    # The unit, which is no smaller than 2^-1022 of the column's scale, and the rounding of the sum.
    least = Fraction(2) ** -1022
    unit = max(Fraction(2) ** -58 * int(counts.max()) * Fraction(np.abs(vectors).max()), least)
    for j, exact in enumerate(exact_products(X, vectors[0])):
        largest = Fraction(np.abs(X.data[X.indices == j]).max(initial=0.0))
        allowed = int(counts[j]) * unit * largest + abs(exact) / 2**51 + Fraction(5e-324)
        if abs(exact) <= Fraction(limits_of_sums.max):
            assert abs(Fraction(found[j]) - exact) <= allowed
        else:
            assert found[j] == (math.inf if exact > 0 else -math.inf)


@pytest.mark.parametrize("n_rows", [127, 128, 129])
@pytest.mark.parametrize("value", [1.0, -1.0, 1.5e308, 2.0**1023])
@pytest.mark.parametrize("most_hot", [0, 1])
def test_largest_sums_do_not_overflow(device, n_rows, value, most_hot):
    """All rows add the largest slope to one column: the sum that the unit was chosen for."""
    arrays = np.arange(n_rows + 1), np.zeros(n_rows, np.int32), np.full(n_rows, value)
    matrix = RankedRows.make(device, CompressedRows(*arrays, 1))
    vectors = np.full((1, n_rows), np.nextafter(1.0, 0.0) / n_rows)
    found = products(device, matrix, vectors, most_hot=most_hot)
    np.testing.assert_allclose(found, [[value]], rtol=2**-50)
    with np.errstate(over="ignore"):
        found = products(device, matrix, vectors, is_squared=True, most_hot=most_hot)
        np.testing.assert_allclose(found, [[np.float64(value) ** 2]], rtol=2**-49)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_never_a_number(device, bad):
    X = make_csr()
    vectors = np.ones((2, 70))
    vectors[1, 69] = bad
    found = products(device, make_ranked(X, "int32"), vectors)
    np.testing.assert_allclose(found[0], np.ones(70) @ X, atol=100 * EPS)
    assert np.isnan(found[1]).all()
    X.data[5] = bad
    matrix = make_ranked(X, "int32")
    assert not matrix.is_finite
    assert np.isnan(products(device, matrix, vectors[:1])).all()
    values = matrix.unranked(device)[1]
    np.testing.assert_array_equal(values, X.data)


def test_rows_taken_twice_do_not_overflow(device):
    """Columns of the taken rows may hold more entries than those of the matrix."""
    X = sparse.csr_array(np.eye(2))
    matrix = make_ranked(X, "int32")
    stored = CompressedRows(
        np.arange(1001), np.zeros(1000, np.int32), np.full(1000, 0.5), 2
    )  # scaled
    taken = matrix.with_rows(device, stored)
    np.testing.assert_array_equal(products(device, taken, np.ones((1, 1000))), [[1000.0, 0.0]])


def test_small_problems_keep_few_columns_and_use_all_multiprocessors():
    X = sparse.csr_array(make_rows(1000, 400, density=0.02))
    matrix = make_ranked(X, "int32")
    device = EmulatedDevice(8, 1)
    launch = ranked_rows._Launch.make(
        device, matrix, np.dtype(np.float64), "ranked_products", (2**16, 8, 0)
    )
    assert launch.n_hot <= matrix.rows.indices.size / 8
    assert launch.grid == (8,)
    assert launch.n_threads < ranked_rows.MOST_THREADS


def test_wrong_arrays_are_refused_with_what_was_expected(device):
    matrix = make_ranked(make_csr(4, 3), "int32")
    with pytest.raises(ValueError, match=r"coef: expected shape \(None, 4\), got \(1, 3\)"):
        ranked_margins(device, matrix, np.zeros((1, 3)), 0.0)
    with pytest.raises(TypeError, match="vectors: expected float64, got float32"):
        ranked_products(device, matrix, np.zeros((1, 4), np.float32), np.zeros((1, 4)))
    with pytest.raises(ValueError, match=r"out: expected shape \(1, 4\), got \(1, 3\)"):
        ranked_products(device, matrix, np.zeros((1, 4)), np.zeros((1, 3)))
