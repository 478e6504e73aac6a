"""Fits on rows that stream to an emulated device: the model of the same rows in its memory."""

import re
from dataclasses import replace

import numpy as np
import pytest
from kernels.emulator.memory import OutOfMemory, watched
from kernels.emulator.strict_arrays import StrictDevice

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
from snapml.solvers.rows.gpu_primal_engine import GpuPrimalEngine
from snapml.solvers.rows.streamed_dataset import StreamedDataset
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .primal_engines import least_pieces, on_cpu, on_emulated_gpu, streamed_to_gpu

pytestmark = pytest.mark.pairwise

SERIAL = SerialCommunicator()
LAYOUTS = pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])


def from_memory(problem, dataset, *, device=None, room=None, **options):
    """Return an engine of rows that stream from the host's memory."""
    device = device or StrictDevice()
    room = 6 * dataset.matrix.n_stored if room is None else room
    with least_pieces(), device.use():
        data = StreamedDataset(device, problem, dataset, room)
        return GpuPrimalEngine(problem, data, device, **options)


def solved(make, problem, dataset, tol=1e-9, max_iter=100, **options):
    engine = make(problem, dataset, **options)
    with engine.device.use():
        return quasi_newton.solve(engine, SERIAL, StoppingRule(tol, max_iter))


def sent(engine):
    """Return how many chunks stream in each pass, and how many there are."""
    found = re.search(r"to which (\d+) of (\d+) chunks of the rows stream", engine.description)
    return tuple(map(int, found.groups()))


@pytest.mark.parametrize("make", [streamed_to_gpu, from_memory])
@LAYOUTS
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=str)
def test_certified_model_is_that_of_rows_on_the_device(make, loss, is_sparse):
    case = Case(loss, Intercept.FREE, is_sparse=is_sparse, n_rows=80, n_features=6)
    whole = solved(on_emulated_gpu, case.problem, case.dataset())
    streamed = solved(make, case.problem, case.dataset())
    np.testing.assert_allclose(streamed.coef, whole.coef, rtol=1e-7, atol=1e-10)
    assert streamed.has_converged
    assert streamed.n_iter == whole.n_iter
    assert case.suboptimality(streamed) <= streamed.gap + 1e-13 * streamed.objective


@LAYOUTS
def test_a_pass_is_that_of_rows_on_the_device(is_sparse, dtype):
    """One read of the rows brings loss, gradient and stiffness, of several outputs at once."""
    case = Case(Logistic(), Intercept.FREE, dtype.name, is_sparse=is_sparse, n_rows=120)
    labels = np.sign(np.random.default_rng(0).normal(size=(3, 120))).astype(dtype)
    dataset = Dataset(case.dataset().matrix, labels, None, 0.1)
    coef = np.random.default_rng(1).normal(size=(3, dataset.matrix.shape[1] + 1))
    found = []
    for make in (on_emulated_gpu, streamed_to_gpu, from_memory):
        engine = make(case.problem, dataset)
        with engine.device.use():
            loss, gradient, stiffness = engine.fused_pass(coef, wants_stiffness=True)
            engine.accept()
            engine.fused_pass(coef + 1.0)
            line = engine.line_point(0.3)
            product = engine.hessian_product(coef)
        found.append(np.concatenate(([loss, stiffness, *line], gradient.ravel(), product.ravel())))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-11, atol=1e-11)


@LAYOUTS
def test_some_chunks_stay_and_the_others_are_sent_each_pass(is_sparse):
    case = Case(Squared(), is_sparse=is_sparse, n_rows=120, n_features=8)
    for make in (streamed_to_gpu, from_memory):
        n_sent, n_chunks = sent(make(case.problem, case.dataset()))
        assert 0 < n_sent < n_chunks
    engine = streamed_to_gpu(case.problem, case.dataset(), room=10**6)
    assert "keeps all" in engine.description
    engine.fused_pass(np.zeros((1, 9)))
    assert engine._data._stream is None  # nothing more will come


def test_softmax_shares_the_reads():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 6)), rng.integers(0, 3, 300).astype(float)
    problem, dataset = Problem(Softmax(3)), Dataset(DenseMatrix(X), y, None, 0.1)
    makers = (on_cpu, streamed_to_gpu)
    whole, streamed = (
        quasi_newton.solve(make(problem, dataset), SERIAL, StoppingRule(1e-9, 100))
        for make in makers
    )
    assert streamed.objective == pytest.approx(whole.objective, rel=1e-8)
    assert streamed.gap <= 1e-8 * streamed.objective


@pytest.mark.parametrize("has_values", [True, False])
def test_many_sparse_columns_are_solved_by_products(monkeypatch, has_values):
    monkeypatch.setattr(quasi_newton, "HOT_COLUMNS", 5)
    case = Case(Logistic(), Intercept.FREE, is_sparse=True, n_rows=60, n_features=10)
    dataset = case.dataset()
    if not has_values:
        given = dataset.matrix
        matrix = CompressedMatrix(given.indptr, given.indices, 10, None, np.float64)
        dataset = Dataset(matrix, dataset.labels, None, 1.0)
    products = []
    plain = newton_steps.NewtonSteps._product
    monkeypatch.setattr(
        newton_steps.NewtonSteps, "_product", lambda *args: (products.append(1), plain(*args))[1]
    )
    whole = solved(on_emulated_gpu, case.problem, dataset, 1e-6)
    streamed = solved(streamed_to_gpu, case.problem, dataset, 1e-6)
    assert streamed.objective == pytest.approx(whole.objective, rel=1e-6)
    assert len(products) > 2


@LAYOUTS
def test_equal_fits_give_equal_bits(is_sparse):
    case = Case(Logistic(), Intercept.FREE, is_sparse=is_sparse, n_rows=80, n_features=6)
    coefs = {
        solved(
            streamed_to_gpu, case.problem, case.dataset(), 1e-4, device=StrictDevice(seed=seed)
        ).coef.tobytes()
        for seed in (0, 1)
    }
    assert len(coefs) == 1


@LAYOUTS
def test_columns_of_a_wrong_number_are_found_before_a_kernel_trusts_them(is_sparse):
    matrix = CompressedMatrix(
        np.arange(0, 301, 3), np.random.default_rng(0).integers(0, 5, 300), 5, np.ones(300)
    )
    matrix.indices[123] = 5
    if not is_sparse:
        matrix.indptr[7] = 10**6
    dataset = Dataset(matrix, np.ones(100), None, 1.0)
    message = "column indices must lie in" if is_sparse else "indptr must not decrease"
    with pytest.raises(ValueError, match=message):
        from_memory(Problem(Squared()), dataset)


def test_columns_that_change_after_the_first_read_are_found():
    matrix = CompressedMatrix(
        np.arange(0, 301, 3), np.random.default_rng(0).integers(0, 5, 300), 5, np.ones(300)
    )
    engine = from_memory(Problem(Squared()), Dataset(matrix, np.ones(100), None, 1.0))
    engine.fused_pass(np.zeros((1, 6)))
    matrix.indices[299] = 1_000_000
    with pytest.raises(ValueError, match=r"must lie in \[0, 5\).*have changed"):
        engine.fused_pass(np.zeros((1, 6)))


@LAYOUTS
def test_pieces_are_halved_until_they_fit(is_sparse, caplog):
    case = Case(Logistic(), Intercept.FREE, is_sparse=is_sparse, n_rows=80, n_features=6)

    def fitted():  # as far as two steps: pieces are made before the first
        return solved(streamed_to_gpu, case.problem, case.dataset(), max_iter=2)

    with watched() as memory:
        expected = fitted()
        n_allocations = memory.n_allocations
    halved = 0
    for n_allowed in range(0, n_allocations, 1 + n_allocations // 12):
        caplog.clear()
        with watched(n_allowed) as memory:
            try:
                result = fitted()
            except OutOfMemory:
                continue  # of what does not come in pieces
            halved += "is short of memory" in caplog.text
            np.testing.assert_allclose(result.coef, expected.coef, rtol=1e-6, atol=1e-9)
            assert memory.alive == 0
    assert halved >= 3


class Counting(StrictDevice):
    """Counts the bytes of chunks that are copied."""

    n_copied = 0

    def copy_stream(self):
        stream, device = super().copy_stream(), self
        copy = stream.copy

        def counted(source, target):
            device.n_copied += source.nbytes
            copy(source, target)

        stream.copy = counted
        return stream


@pytest.mark.parametrize(("storage", "n_bytes"), [("bfloat16", 2), ("uint8", 1)])
def test_rounded_rows_travel_as_they_are_stored(tmp_path, storage, n_bytes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 12)).astype(np.float32)
    y = np.where(X[:, 0] + rng.normal(size=600) > 0.0, 1.0, -1.0).astype(np.float32)
    with ChunkWriter(tmp_path / "store", chunk_bytes=4000 * n_bytes, storage=storage) as writer:
        writer.append(X)
    store = ChunkedDataset.open(tmp_path / "store", memory_limit=0)
    problem, rule = Problem(Logistic(), Intercept.FREE), StoppingRule(1e-9, 100)
    rounded = Dataset(DenseMatrix(store.load()[0]), y, None, 1.0)
    whole = quasi_newton.solve(on_cpu(problem, rounded), SERIAL, rule)
    device = Counting()
    with least_pieces(), device.use():
        dataset = replace(rounded, matrix=ChunkedMatrix(store))
        data = StreamedDataset(device, problem, dataset, 24_000)
        engine = GpuPrimalEngine(problem, data, device)
        before = device.n_copied
        engine.fused_pass(np.zeros((1, 13)))
        n_copied = device.n_copied - before
        streamed = quasi_newton.solve(engine, SERIAL, rule)
    n_sent, n_chunks = sent(engine)
    assert 1 < n_sent <= n_chunks == store.n_chunks
    of_columns = 2 * 12 * 4 * 40  # scales and offsets, with each of a few pieces
    assert n_sent / n_chunks * n_bytes * X.size * 0.5 < n_copied
    assert n_copied < n_bytes * X.size + of_columns < X.nbytes
    np.testing.assert_allclose(streamed.coef, whole.coef, rtol=1e-6)


def test_rounded_rows_that_stay_are_widened_once(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    with ChunkWriter(tmp_path / "store", chunk_bytes=1500, storage="uint8") as writer:
        writer.append(X)
    store = ChunkedDataset.open(tmp_path / "store", memory_limit=0)
    dataset = Dataset(ChunkedMatrix(store), np.sign(X[:, 0]), None, 1.0)
    device, problem = Counting(), Problem(Squared(), Intercept.FREE)
    with least_pieces(), device.use():
        data = StreamedDataset(device, problem, dataset, 10**6)
        engine = GpuPrimalEngine(problem, data, device)
        first = engine.fused_pass(np.ones((1, 7)))[1]
        n_copied = device.n_copied
        again = engine.fused_pass(np.ones((1, 7)))[1]
    assert n_copied == device.n_copied > 0
    np.testing.assert_array_equal(first, again)
