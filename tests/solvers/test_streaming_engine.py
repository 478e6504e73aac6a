"""Fits on rows of a store: the model of the same rows in memory, by as many reads."""

import re

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml.data import (
    ChunkedDataset,
    ChunkedMatrix,
    ChunkWriter,
    CompressedMatrix,
    Dataset,
    DenseMatrix,
)
from snapml.problems import Intercept, Logistic, Problem, Softmax, Squared, SquaredHinge
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import newton_steps, quasi_newton
from snapml.solvers.rows.streaming_engine import StreamingEngine
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .primal_engines import on_cpu, on_store

SERIAL = SerialCommunicator()


def solved(make, problem, dataset, tol=1e-9):
    return quasi_newton.solve(make(problem, dataset), SERIAL, StoppingRule(tol, 100))


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), SquaredHinge()], ids=str)
def test_certified_model_is_that_of_rows_in_memory(loss, intercept, is_sparse):
    case = Case(loss, intercept, is_sparse=is_sparse, n_rows=300, n_features=8)
    whole, streamed = (solved(make, case.problem, case.dataset()) for make in (on_cpu, on_store))
    assert streamed.objective == pytest.approx(whole.objective, rel=1e-8)
    assert streamed.has_converged
    assert streamed.n_iter <= whole.n_iter + 1
    assert case.suboptimality(streamed) <= streamed.gap + 1e-13 * streamed.objective


def test_softmax_shares_the_reads():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 6)), rng.integers(0, 3, 300).astype(float)
    problem, dataset = Problem(Softmax(3)), Dataset(DenseMatrix(X), y, None, 0.1)
    whole, streamed = (solved(make, problem, dataset) for make in (on_cpu, on_store))
    assert streamed.objective == pytest.approx(whole.objective, rel=1e-8)
    assert streamed.gap <= 1e-8 * streamed.objective


def test_many_sparse_columns_are_solved_by_products(monkeypatch):
    monkeypatch.setattr(quasi_newton, "HOT_COLUMNS", 5)
    case = Case(Logistic(), Intercept.FREE, is_sparse=True, n_rows=300, n_features=20)
    products = []
    plain = newton_steps.NewtonSteps._product
    monkeypatch.setattr(
        newton_steps.NewtonSteps, "_product", lambda *args: (products.append(1), plain(*args))[1]
    )
    whole, streamed = (solved(make, case.problem, case.dataset()) for make in (on_cpu, on_store))
    assert streamed.objective == pytest.approx(whole.objective, rel=1e-8)
    assert len(products) > 2


def test_description_says_what_stays_in_memory():
    engine = on_store(Case().problem, Case(n_rows=300).dataset())
    n_resident, n_chunks = re.fullmatch(
        r"1 thread, (\d+) of (\d+) chunks in memory", engine.description
    ).groups()
    assert 0 < int(n_resident) < int(n_chunks)


def test_only_rows_of_a_store_are_taken():
    with pytest.raises(TypeError, match="expected a ChunkedMatrix, got DenseMatrix"):
        StreamingEngine(Case().problem, Case().dataset())


def test_interrupt_ends_a_fit_between_chunks_and_the_next_fit_works(monkeypatch):
    case = Case(n_rows=300)
    engine = on_store(case.problem, case.dataset())
    plain, reads = ChunkedDataset.matrix, []

    def matrix(self, number, buffer=None):
        reads.append(number)
        if len(reads) == 12:
            raise KeyboardInterrupt
        return plain(self, number, buffer)

    monkeypatch.setattr(ChunkedDataset, "matrix", matrix)
    rule = StoppingRule(1e-9, 100)
    with pytest.raises(KeyboardInterrupt):
        quasi_newton.solve(engine, SERIAL, rule)
    assert quasi_newton.solve(engine, SERIAL, rule).has_converged


def test_store_that_changes_between_fits_is_noticed(tmp_path):
    X = CompressedMatrix(*(getattr(csr_matrix(np.eye(4)), a) for a in ("indptr", "indices")), 4)
    with ChunkWriter(tmp_path / "store") as writer:
        writer.append(X)
    store = ChunkedDataset.open(tmp_path / "store")
    dataset = Dataset(ChunkedMatrix(store, 0), np.ones(4, np.float32), None, 1.0)
    engine = StreamingEngine(Problem(Squared()), dataset, n_threads=1)
    engine.fused_pass(np.zeros((1, 5)))
    chunk = tmp_path / "store" / store.manifest.chunks[0].file
    content = bytearray(chunk.read_bytes())
    content[4096 + 3] = 0x7F  # an index far outside
    chunk.write_bytes(content)
    with pytest.raises(ValueError, match="chunk-00000000: the checksum of indices is wrong"):
        engine.fused_pass(np.zeros((1, 5)))
