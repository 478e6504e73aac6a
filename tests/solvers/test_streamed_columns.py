"""L1 penalties on rows of a store: optimal and certified, by few reads, in bounded memory."""

import numpy as np
import pytest
from reference.data import make_labels, make_rows, make_weights
from reference.elastic_net import ElasticNetObjective
from reference.losses import ORACLES
from scipy.sparse import csr_matrix

from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, CompressedMatrix, Dataset
from snapml.problems import (
    Huber,
    Intercept,
    Logistic,
    Penalty,
    Poisson,
    Problem,
    Squared,
    SquaredHinge,
)
from snapml.solvers.columns import column_packing
from snapml.solvers.columns.column_packing import ColumnPacker
from snapml.solvers.columns.cpu_column_engine import CpuColumnEngine
from snapml.solvers.columns.streamed_columns import StreamedColumns
from snapml.solvers.columns.streamed_gram import StreamedGram
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.quadratic_model import Model
from snapml.solvers.rows.cpu_rows import array_of
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.working_sets import streamed_descent
from snapml.solvers.working_sets.working_set_descent import solve

pytestmark = pytest.mark.pairwise

SERIAL = SerialCommunicator()
LOSSES = (Squared(), Logistic(), SquaredHinge(), Huber(), Poisson())
MOST_READS = {Squared(): 3, Huber(): 40}  # with Gram matrices
PENALTIES = {
    "l1": Penalty(2.0, 0.0),
    "elastic net": Penalty(1.0, 0.5),
    "positive": Penalty(1.0, 0.0, True),
    "positive ridge": Penalty(0.0, 0.5, True),
}


def rows(*, is_sparse, shape=(120, 30), dtype=np.float64, seed=0):
    X = make_rows(*shape, density=0.5 if is_sparse else 1.0, seed=seed).astype(dtype)
    return csr_matrix(X) if is_sparse else X


def chunked(folder, X, limit=0, chunk_bytes=4000):
    """Return the rows as a matrix of several chunks."""
    with ChunkWriter(folder, chunk_bytes=chunk_bytes) as writer:
        writer.append(X)
    matrix = ChunkedMatrix(ChunkedDataset.open(folder), limit)
    assert matrix.n_chunks > 3
    return matrix


def streamed_dataset(folder, X, loss, limit=0):
    dense = X.toarray() if isinstance(X, csr_matrix) else X
    labels = make_labels(dense, labels=loss.labels)
    weights = make_weights(len(dense)).astype(X.dtype)
    return Dataset(chunked(folder, X, limit), labels.astype(X.dtype), weights, 1.0)


def solved(problem, dataset, tol=1e-9, max_iter=100):
    engine = StreamedColumns(problem, dataset, n_threads=1)
    result = streamed_descent.solve(engine, SERIAL, StoppingRule(tol, max_iter))
    assert engine.n_reads == result.n_iter + 1 == len(result.history)
    return result


@pytest.mark.parametrize("limit", [0, 10**9], ids=["gram", "packed"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
def test_solution_is_optimal_and_certified(tmp_path, loss, penalty, intercept, is_sparse, limit):
    X = rows(is_sparse=is_sparse)
    dataset = streamed_dataset(tmp_path, X, loss, limit)
    problem = Problem(loss, intercept, 2.0, PENALTIES[penalty])
    result = solved(problem, dataset)
    assert result.has_converged
    assert ("packed columns" if limit else "Gram matrices") in result.description
    objective = ElasticNetObjective(
        ORACLES[loss.core_name],
        X.toarray() if is_sparse else X,
        dataset.labels,
        dataset.row_weights,
        problem.penalty.l1,
        problem.penalty.l2,
        problem.penalty.is_positive,
        intercept.value,
        2.0,
    )
    value = objective.primal(result.coef, result.intercept)
    assert result.objective == pytest.approx(value, rel=1e-12)
    assert value - objective.minimum() <= result.gap + 1e-13 * abs(value)
    assert result.n_iter + 1 <= (8 if limit else MOST_READS.get(loss, 30))


def test_working_columns_that_do_not_fit_are_packed_best_first(tmp_path, monkeypatch):
    monkeypatch.setattr(streamed_descent, "_FIRST_COLUMNS", 10)
    monkeypatch.setattr(streamed_descent, "_FEW_COLUMNS", 0)
    X = rows(is_sparse=True, shape=(300, 400))
    dataset = streamed_dataset(tmp_path, X, Logistic())
    problem = Problem(Logistic(), penalty=Penalty(12.0, 0.0))
    engine = StreamedColumns(problem, dataset, n_threads=1)
    engine.packed_limit = int(0.2 * 2 * 12 * X.nnz)
    result = streamed_descent.solve(engine, SERIAL, StoppingRule(1e-7, 100))
    assert result.has_converged
    assert "packed columns" in result.description
    assert engine.packed is not None
    assert len(engine.packed.columns) < 100


def test_too_many_columns_for_either_say_what_they_need(tmp_path, monkeypatch):
    monkeypatch.setattr(streamed_descent, "_MOST_GRAM_COLUMNS", 3)
    monkeypatch.setattr(streamed_descent, "_FEW_COLUMNS", 3)
    monkeypatch.setattr(streamed_descent, "_FIRST_COLUMNS", 3)
    dataset = streamed_dataset(tmp_path, rows(is_sparse=False), Logistic())
    says = r"columns to work on: expected memory for them, \d+ bytes, .* leaves \d+ bytes"
    with pytest.raises(MemoryError, match=says):
        solved(Problem(Logistic(), penalty=Penalty(0.01, 0.0)), dataset)


@pytest.mark.parametrize("limit", [0, 10**9], ids=["gram", "packed"])
def test_entries_stored_twice_add_up(tmp_path, limit):
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 12, (200, 8), dtype=np.int32)
    indptr, values = np.arange(0, 1601, 8, dtype=np.int32), rng.normal(size=1600)
    matrix = CompressedMatrix(indptr, indices.ravel(), 12, values)
    labels = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    labels[:100] = np.sign(array_of(matrix).toarray()[:100, 0] + 0.1)
    problem = Problem(Logistic(), penalty=Penalty(1.0, 0.0))
    whole_engine = CpuColumnEngine(problem, Dataset(matrix, labels, None, 1.0), n_threads=1)
    whole = solve(whole_engine, SERIAL, StoppingRule(1e-10, 100))
    result = solved(problem, Dataset(chunked(tmp_path, matrix, limit), labels, None, 1.0), 1e-10)
    np.testing.assert_allclose(result.coef, whole.coef, atol=1e-6)
    assert result.n_iter + 1 <= 25


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_gram_matrix_is_that_of_the_columns(tmp_path, is_sparse, intercept, n_threads):
    X = rows(is_sparse=is_sparse)
    dataset = streamed_dataset(tmp_path, X, Logistic())
    problem = Problem(Logistic(), intercept, 2.0)
    engine = StreamedColumns(problem, dataset, n_threads=n_threads)
    h = np.random.default_rng(0).random(120)
    has_constant = intercept is Intercept.PENALISED
    asked = np.array([1, 4, 7, 20] + [30] * has_constant)
    gram = StreamedGram(engine, asked, h)
    engine.form(gram)
    dense = np.column_stack([X.toarray() if is_sparse else X, np.full(120, 2.0)])
    taken = dense[:, asked[1:]]
    if intercept is Intercept.FREE:
        taken = taken - h @ taken / h.sum()
    expected = (taken.T * h) @ taken
    np.testing.assert_allclose(
        gram.matrix(asked[1:], Model(np.empty(0), None, h, Penalty())),
        expected,
        rtol=1e-11,
        atol=1e-12,
    )
    assert engine.n_reads == 1
    engine.form(gram)
    assert engine.n_reads == 1


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_packed_columns_are_those_of_the_rows(tmp_path, monkeypatch, is_sparse):
    monkeypatch.setattr(column_packing, "_BLOCK_ENTRIES", 7)
    X = rows(is_sparse=is_sparse, dtype=np.float32)
    matrix, columns = chunked(tmp_path, X, chunk_bytes=2000), np.array([0, 3, 4, 29])
    dense = X.toarray() if is_sparse else X
    packer = ColumnPacker(matrix, columns, int(np.count_nonzero(dense[:, columns])))
    for number, chunk in matrix.chunks():
        packer.add(matrix.rows_of(number), chunk)
    packed = array_of(packer.matrix())
    packed = packed.toarray() if is_sparse else packed
    assert packed.dtype == np.float32
    np.testing.assert_array_equal(packed, dense[:, columns])


def test_memory_is_left_to_packed_columns(tmp_path):
    matrix = chunked(tmp_path, rows(is_sparse=False), 10**9)
    store = ChunkedDataset.open(tmp_path)
    n_bytes = store.manifest.n_bytes
    assert matrix.share_memory() == matrix.share_memory() == 10**9 - n_bytes
    assert matrix.n_resident == matrix.n_chunks
    small = ChunkedMatrix(store, n_bytes)
    list(small.chunks())
    assert small.share_memory() == n_bytes - 3 * store.largest_chunk
    assert small.n_resident == 0
    assert ChunkedMatrix(store, 0).share_memory() == store.largest_chunk
