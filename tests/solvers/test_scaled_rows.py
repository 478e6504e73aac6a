"""Gram matrices of centred and scaled columns, against NumPy's from their definition."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dense_products import MOST_SHARED_COLUMNS
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.scaled_rows import ScaledRows, part_rows

from .primal_engines import on_store

N_ROWS, N_COLS = 300, 12


def engine_of(X, layout, intercept):
    matrix = DenseMatrix(X)
    if layout == "sparse":
        rows = csr_matrix(X)
        matrix = CompressedMatrix(rows.indptr, rows.indices, X.shape[1], rows.data)
    y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)
    return CpuPrimalEngine(Problem(Logistic(), intercept), Dataset(matrix, y, None, 1.0))


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("mean", [0.0, 1.0, 1e7], ids=["no mean", "mean", "far mean"])
def test_gram_is_that_of_the_columns_by_definition(layout, intercept, mean):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((N_ROWS, N_COLS)) < 0.1, rng.normal(size=(N_ROWS, N_COLS)), 0.0)
    X[:, 3] = mean + rng.normal(size=N_ROWS)  # one full column keeps the rest sparse
    weights = rng.random(N_ROWS)
    engine = engine_of(X, layout, intercept)
    rows = ScaledRows(engine, SerialCommunicator())
    A = np.column_stack([(X - rows.mean) / rows.scale, np.full(N_ROWS, engine.bias_column)])
    expected = (A * weights[:, None]).T @ A
    np.testing.assert_allclose(rows.gram(weights), expected, rtol=1e-9, atol=1e-9 * N_ROWS)
    if intercept is Intercept.FREE:
        np.testing.assert_allclose(rows.mean, X.mean(axis=0))
    np.testing.assert_allclose(rows.scale, np.sqrt(np.mean((X - rows.mean) ** 2, axis=0)))


@pytest.mark.parametrize("has_weights", [True, False])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("layout", ["C", "F", "every other column"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows_are_scaled_as_numpy_does(dtype, layout, n_threads, has_weights):
    rng = np.random.default_rng(6)
    X = (5.0 + rng.normal(size=(N_ROWS, 2 * N_COLS))).astype(dtype)
    X = X[:, ::2] if layout == "every other column" else np.asarray(X[:, :N_COLS], order=layout)
    weights = rng.random(N_ROWS) if has_weights else None
    y = np.ones(N_ROWS, dtype)
    problem = Problem(Logistic(), Intercept.FREE)
    engine = CpuPrimalEngine(problem, Dataset(DenseMatrix(X), y, None, 1.0), n_threads=n_threads)
    wide, whole = X.astype(float), slice(0, N_ROWS)
    mean, scale = wide.mean(axis=0), wide.std(axis=0)
    np.testing.assert_allclose(engine.column_sums(whole), wide.sum(axis=0), rtol=1e-13)
    squares = ((wide - mean) ** 2).sum(axis=0)
    np.testing.assert_allclose(engine.column_sums(whole, mean), squares, rtol=1e-12)
    root = np.sqrt(np.ones(N_ROWS) if weights is None else weights)[:, None]
    exact = np.column_stack([(wide - mean) / scale, np.full(N_ROWS, engine.bias_column)]) * root
    for out_type in {dtype, np.float64}:
        out = np.full(exact.shape, np.nan, out_type)
        engine.scale_rows(whole, mean, scale, weights, out)
        np.testing.assert_allclose(out, exact, rtol=4 * np.finfo(out_type).eps, atol=1e-14)
    picked = np.array([0, 17, N_ROWS - 1])
    out = np.empty((3, N_COLS + 1))
    engine.scale_rows(picked, mean, scale, None if weights is None else weights[picked], out)
    np.testing.assert_allclose(out, exact[picked], rtol=1e-13, atol=1e-14)


def test_parts_are_some_for_every_thread_but_no_smaller_than_their_sums_are_worth():
    assert part_rows(100, 10_000, 1000, 1) == 200
    assert part_rows(100, 100_000, 100_000, 1) == 1000
    assert part_rows(100, 1600, 100_000, 4) == 100
    assert part_rows(100, 160, 100_000, 4) == 50
    assert part_rows(MOST_SHARED_COLUMNS + 1, 160, 100_000, 4) == 2 * MOST_SHARED_COLUMNS + 2


def unsorted_rows(dtype):
    """Return rows whose entries come in any order, some of one place twice, and their array."""
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 9, N_ROWS)
    indptr = np.append(0, np.cumsum(lengths)).astype(np.int32)
    indices = rng.integers(0, N_COLS, indptr[-1]).astype(np.int32)
    values = rng.normal(size=indptr[-1]).astype(dtype)
    X = csr_matrix((values, indices, indptr), shape=(N_ROWS, N_COLS)).toarray().astype(float)
    return CompressedMatrix(indptr, indices, N_COLS, values), X


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_by_entries_takes_rows_in_any_order(dtype, n_threads):
    matrix, X = unsorted_rows(dtype)
    y = np.ones(N_ROWS, dtype)
    problem = Problem(Logistic(), Intercept.FREE)
    engine = CpuPrimalEngine(problem, Dataset(matrix, y, None, 1.0), n_threads=n_threads)
    weights = np.random.default_rng(3).integers(0, 3, N_ROWS).astype(float)
    A = np.column_stack([X, np.ones(N_ROWS)])
    exact = (A * weights[:, None]).T @ A
    rounding = 20 * np.finfo(dtype).eps  # what is stored twice is added up in its type above
    columns = np.zeros(N_COLS), np.ones(N_COLS)
    found = engine.scaled_gram(weights, *columns)
    np.testing.assert_allclose(found, exact, rtol=0, atol=rounding * exact.max())
    np.testing.assert_array_equal(engine.scaled_gram(weights, *columns), found)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_sums_of_sparse_columns_know_of_zeros(n_threads):
    rng = np.random.default_rng(4)
    X = np.where(rng.random((N_ROWS, N_COLS)) < 0.3, 1e3 + rng.normal(size=(N_ROWS, N_COLS)), 0.0)
    rows = csr_matrix(X)
    matrix = CompressedMatrix(rows.indptr, rows.indices, N_COLS, rows.data)
    problem, y = Problem(Logistic(), Intercept.FREE), np.ones(N_ROWS)
    engine = CpuPrimalEngine(problem, Dataset(matrix, y, None, 1.0), n_threads=n_threads)
    whole, centre = slice(0, N_ROWS), X.mean(axis=0)
    np.testing.assert_allclose(engine.column_sums(whole), X.sum(axis=0), rtol=1e-13)
    squares = ((X - centre) ** 2).sum(axis=0)
    np.testing.assert_allclose(engine.column_sums(whole, centre), squares, rtol=1e-12)
    part = slice(10, 20)
    np.testing.assert_allclose(engine.column_sums(part), X[part].sum(axis=0), rtol=1e-13)


def test_dense_rows_have_no_gram_by_entries():
    engine = engine_of(np.ones((4, 2)), "dense", Intercept.FREE)
    with pytest.raises(ValueError, match="expected compressed rows, got dense ones"):
        engine.scaled_gram(np.ones(4), np.zeros(2), np.ones(2))


def test_gram_of_a_store_is_that_of_its_rows_in_memory():
    rng = np.random.default_rng(5)
    X = np.where(rng.random((N_ROWS, N_COLS)) < 0.2, 5.0 + rng.normal(size=(N_ROWS, N_COLS)), 0.0)
    rows, weights = csr_matrix(X), rng.random(N_ROWS)
    matrix = CompressedMatrix(rows.indptr, rows.indices, N_COLS, rows.data)
    dataset = Dataset(matrix, np.ones(N_ROWS), None, 1.0)
    problem = Problem(Logistic(), Intercept.FREE)
    kept = ScaledRows(on_store(problem, dataset), SerialCommunicator())
    own = ScaledRows(CpuPrimalEngine(problem, dataset), SerialCommunicator())
    np.testing.assert_allclose(kept.mean, own.mean, rtol=1e-13)
    np.testing.assert_allclose(kept.scale, own.scale, rtol=1e-13)
    np.testing.assert_allclose(kept.gram(weights), own.gram(weights), rtol=0, atol=1e-10)
