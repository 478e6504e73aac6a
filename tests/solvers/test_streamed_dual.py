"""Coordinate ascent on rows of a store: the answer of rows in memory, by about as many reads."""

import shutil
import tempfile
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from snapml.data import (
    ChunkedDataset,
    ChunkedMatrix,
    ChunkWriter,
    CompressedMatrix,
    Dataset,
    DenseMatrix,
)
from snapml.problems import Hinge, Intercept, Logistic, Problem, Squared, SquaredHinge
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent import cpu_engine
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.dual_coordinate_ascent import solve
from snapml.solvers.dual_ascent.streamed_dual_engine import StreamedDualEngine
from snapml.solvers.stopping import StoppingRule

from .cases import Case

pytestmark = pytest.mark.pairwise

LOSSES = [
    (Hinge(), Intercept.PENALISED),
    (Logistic(), Intercept.FREE),
    (SquaredHinge(), Intercept.NONE),
    (Squared(), Intercept.FREE),
]


def as_matrix(X):
    if isinstance(X, np.ndarray):
        return DenseMatrix(X)
    return CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data)


def streamed(dataset, n_chunks=12, limit=0):
    """Return the dataset with its rows in files, which live as long as it does."""
    matrix = dataset.matrix
    folder = tempfile.mkdtemp()
    is_sparse = isinstance(matrix, CompressedMatrix)
    n_bytes = matrix.n_stored * (matrix.dtype.itemsize + 4 * is_sparse)
    with ChunkWriter(folder, chunk_bytes=max(1, n_bytes // n_chunks)) as writer:
        writer.append(matrix if is_sparse else matrix.values)
    moved = replace(dataset, matrix=ChunkedMatrix(ChunkedDataset.open(folder), limit))
    assert moved.matrix.n_chunks > 2
    weakref.finalize(moved, shutil.rmtree, folder)
    return moved


def in_memory(problem, dataset, **options):
    engine = CpuEngine(problem, dataset, n_threads=1, **options)
    engine.free_visits = 0  # as on a store: no epochs beyond the tolerance
    return engine


def fit(engine, tol=1e-6, max_iter=400):
    return solve(engine, SerialCommunicator(), StoppingRule(tol, max_iter))


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("loss", "intercept"), LOSSES, ids=str)
def test_fit_reaches_the_optimum_and_its_certificate_is_true(loss, intercept, is_sparse, dtype):
    case = Case(
        loss,
        intercept,
        is_sparse=is_sparse,
        n_rows=200,
        scale=0.25,
        intercept_scaling=1.0,
        dtype=np.dtype(dtype).name,
    )
    data = streamed(case.dataset())
    tol = 1e-6 if dtype == np.float64 else 1e-4
    result = fit(StreamedDualEngine(case.problem, data, n_threads=1), tol)
    optimum = case.optimum.objective
    assert result.has_converged
    slack = 1e-12 if dtype == np.float64 else 1e-6
    assert -slack * optimum <= case.suboptimality(result) <= result.gap + slack * optimum
    assert result.gap <= 1.000001 * tol * optimum


def clustered(kind, is_sparse, dtype):
    """Return rows in the worst of orders: sorted by label, or neighbours that are alike."""
    rng = np.random.default_rng(0)
    n, d = (1600, 200) if is_sparse else (1600, 12)
    cluster = np.arange(n) // 8 * 8 if kind == "alike" else np.arange(n)
    if is_sparse:
        X = csr_matrix(random_array((n, d), density=0.05, rng=rng))[cluster]
        X.data = X.data * (1 + 0.05 * rng.normal(size=X.nnz)) * 0.3
    else:
        X = rng.normal(size=(n, d))[cluster] + 0.05 * rng.normal(size=(n, d))
        X /= np.sqrt(d)
    z = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    order = np.argsort(z, kind="stable") if kind == "sorted" else np.arange(n)
    return X[order].astype(dtype), z[order]


@pytest.mark.parametrize("kind", ["sorted", "alike"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("loss", "intercept"), LOSSES, ids=str)
def test_few_more_epochs_than_in_memory(loss, intercept, is_sparse, kind, monkeypatch):
    monkeypatch.setattr(cpu_engine, "_MOST_MOVING", 0.0)  # epochs of equal work are compared
    dtype = np.float32 if is_sparse else np.float64
    X, z = clustered(kind, is_sparse, dtype)
    y = (np.where(z > 0, 1, -1) if loss.labels == "sign" else z).astype(dtype)
    problem, whole = Problem(loss, intercept), Dataset(as_matrix(X), y, None, 1.0)
    tol = 1e-2 if isinstance(loss, Hinge) else 1e-4
    expected = fit(in_memory(problem, whole), tol)
    found = fit(StreamedDualEngine(problem, streamed(whole, 6), n_threads=1), tol)
    assert expected.has_converged
    assert found.has_converged
    assert found.objective == pytest.approx(expected.objective, rel=2 * tol)
    assert found.n_iter <= 1.5 * expected.n_iter + 1


def test_result_does_not_depend_on_what_stays_in_memory():
    case = Case(Hinge(), Intercept.PENALISED, is_sparse=True, n_rows=300)
    results = []
    for limit in (0, 10_000, 10**9):
        data = streamed(case.dataset(), limit=limit)
        results.append(fit(StreamedDualEngine(case.problem, data, n_threads=1), 0.0, 6))
    for other in results[1:]:
        np.testing.assert_array_equal(other.coef, results[0].coef)
        np.testing.assert_array_equal(other.duals, results[0].duals)
        assert other.n_iter == results[0].n_iter


@pytest.mark.parametrize("deterministic", [True, False])
def test_two_threads_reach_the_optimum(deterministic, monkeypatch):
    monkeypatch.setattr("snapml.solvers.threads._ENTRIES_PER_THREAD", 1)
    case = Case(Logistic(), Intercept.FREE, is_sparse=True, n_rows=400, scale=0.25)
    engine = StreamedDualEngine(
        case.problem, streamed(case.dataset()), n_threads=2, deterministic=deterministic
    )
    result = fit(engine)
    assert engine.n_threads == 2
    assert result.has_converged
    assert case.suboptimality(result) <= result.gap


def test_fit_goes_on_where_another_ended():
    case = Case(Logistic(), Intercept.FREE, n_rows=200, offset=3.0)
    first = fit(in_memory(case.problem, case.dataset()), 1e-8)
    options = {"duals": first.duals.copy(), "offset": first.offset}
    # The first ends with its best model and lower bound, which need not be those of its states.
    again = fit(StreamedDualEngine(case.problem, streamed(case.dataset()), **options), 2e-8)
    assert again.n_iter == 0
    assert again.objective == pytest.approx(first.objective, rel=2e-8)


def test_entries_stored_twice_are_one_long_entry():
    case = Case(Squared(), is_sparse=True, n_rows=100)
    data = case.dataset()
    one = data.matrix
    parts = 4
    doubled = CompressedMatrix(
        parts * one.indptr,
        np.repeat(one.indices, parts),
        one.n_features,
        np.repeat(one.values / parts, parts),
    )
    twice = streamed(replace(data, matrix=doubled))
    result = fit(StreamedDualEngine(case.problem, twice, n_threads=1))
    assert result.has_converged
    assert case.suboptimality(result) <= result.gap


def test_every_row_is_read_once_an_epoch_in_another_order():
    case = Case(Hinge(), n_rows=300)
    engine = StreamedDualEngine(case.problem, streamed(case.dataset()), n_threads=1)
    orders = []
    for epoch in (0, 1, 0):
        places = [place for group, _ in engine._groups.groups(epoch) for place in group]
        orders.append(np.concatenate([np.arange(place.start, place.stop) for place in places]))
    np.testing.assert_array_equal(np.sort(orders[0]), np.arange(300))
    assert (orders[0] != orders[1]).any()
    np.testing.assert_array_equal(orders[0], orders[2])


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("limit", [0, 10**9])
def test_groups_hold_the_rows_that_they_say(is_sparse, limit):
    case = Case(Hinge(), is_sparse=is_sparse, n_rows=300)
    engine = StreamedDualEngine(case.problem, streamed(case.dataset(), limit=limit), n_threads=1)
    X = case.objective.X
    n_groups = 0
    for places, matrix in engine._groups.groups(3):
        rows = np.concatenate([np.arange(place.start, place.stop) for place in places])
        held = matrix.values if not is_sparse else csr_of(matrix).toarray()
        np.testing.assert_array_equal(held, X[rows])
        n_groups += 1
    assert n_groups > 2


def csr_of(matrix):
    return csr_matrix((matrix.values, matrix.indices, matrix.indptr), shape=matrix.shape)


def test_only_rows_of_a_store_are_taken():
    with pytest.raises(TypeError, match="expected a ChunkedMatrix, got DenseMatrix"):
        StreamedDualEngine(Case().problem, Case().dataset())


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("the disk is gone")], ids=repr)
def test_error_in_a_read_ends_the_fit_and_its_thread(error, monkeypatch):
    case = Case(Hinge(), n_rows=300)
    engine = StreamedDualEngine(case.problem, streamed(case.dataset()), n_threads=1)
    plain, reads = ChunkedDataset.run, []

    def rows(self, *args):
        reads.append(args)
        if len(reads) == 400:
            raise error
        return plain(self, *args)

    monkeypatch.setattr(ChunkedDataset, "run", rows)
    with pytest.raises(error if isinstance(error, type) else type(error)):
        fit(engine, 1e-4)
    assert not [thread for thread in threading.enumerate() if "snapml" in thread.name]
    assert fit(engine, 1e-4).has_converged


def test_file_that_changed_is_noticed(tmp_path):
    case = Case(Hinge(), n_rows=300, is_sparse=True)
    data = streamed(case.dataset())
    engine = StreamedDualEngine(case.problem, data, n_threads=1)
    store = data.matrix._store
    path = store._folder / store.manifest.chunks[0].file
    content = path.read_bytes()
    path.write_bytes(content[:4096])
    with pytest.raises(ValueError, match="the chunk has been cut short"):
        fit(engine)
    path.write_bytes(b"\xff" * len(content))
    with pytest.raises(ValueError, match="the checksum of indptr is wrong"):
        fit(engine)


def test_damaged_chunk_is_refused_before_its_pieces_are_used():
    case = Case(Hinge(), n_rows=300)
    data = streamed(case.dataset())
    store = data.matrix._store
    path = store._folder / store.manifest.chunks[1].file
    content = bytearray(path.read_bytes())
    content[9] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="the checksum of values is wrong"):
        store.run(1, 0, 2)
    with pytest.raises(ValueError, match="the checksum of values is wrong"):
        StreamedDualEngine(case.problem, data)
