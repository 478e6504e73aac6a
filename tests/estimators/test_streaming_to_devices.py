"""Estimators on rows that their devices have no room for: streamed, and nothing is left there."""

import gc
import logging

import numpy as np
import pytest
from kernels.emulator.memory import OutOfMemory, watched
from kernels.emulator.strict_arrays import StrictDevice
from scipy.sparse import csr_matrix
from sklearn.base import clone

from snapml import LinearSVC, LogisticRegression, Ridge
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.solvers.plan import device_choice
from snapml.solvers.rows import streamed_dataset

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LIMIT = 4000  # of 9,600 bytes
LAYOUTS = pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
MODELS = {
    "logistic": (LogisticRegression(), 2),
    "multinomial": (LogisticRegression(), 3),
    "one against the rest": (LogisticRegression(multi_class="ovr"), 3),
    "squared hinge": (LinearSVC(), 2),
    "hinge": (LinearSVC(loss="hinge", solver="pqn"), 2),
    "ridge": (Ridge(tol=1e-8), 2),
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(streamed_dataset, "LEAST_PIECE_BYTES", 256)


@pytest.fixture
def devices(monkeypatch):
    """Emulated devices in the place of CUDA's, which live on from fit to fit."""
    made = {}
    monkeypatch.setattr(
        device_choice,
        "make_device",
        lambda number: made.setdefault(number, StrictDevice(2, 1, n_workers=1)),
    )
    return made


@pytest.fixture
def without_collections():
    """Only reference counts free what a fit has held."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def example(n_classes=2, *, is_sparse=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)) * (rng.random((200, 6)) < 0.6 if is_sparse else 1.0)
    y = (X[:, :n_classes] + 0.5 * rng.normal(size=(200, n_classes))).argmax(axis=1)
    return (csr_matrix(X) if is_sparse else X), y


def stored(folder, X, y):
    with ChunkWriter(folder, chunk_bytes=2000) as writer:
        writer.append(X, y)
    return ChunkedDataset.open(folder)


@pytest.mark.parametrize("device_ids", [[0], [0, 1], [0, 0]], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_model_is_that_of_rows_on_the_device(devices, tmp_path, name, device_ids):
    model, n_classes = MODELS[name]
    X, y = example(n_classes)
    model = clone(model).set_params(device_ids=device_ids)
    whole = clone(model).fit(X, y)
    for rows in (X, stored(tmp_path / "store", X, y)):
        streamed = clone(model).set_params(memory_limit=LIMIT).fit(rows, y)
        np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
        assert "chunks of the rows stream in each pass" in streamed.solver_
        assert "emulated device" in streamed.solver_


@pytest.mark.parametrize("device_ids", [[0], [0, 1]], ids=str)
def test_sparse_rows_stream_too(devices, tmp_path, device_ids):
    X, y = example(is_sparse=True)
    model = LogisticRegression(device_ids=device_ids, tol=1e-8)
    whole = clone(model).fit(X, y)
    streamed = clone(model).set_params(memory_limit=LIMIT)
    streamed.fit(stored(tmp_path / "store", X, y))
    np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    assert "chunks of the rows stream" in streamed.solver_


@pytest.mark.parametrize(
    ("is_sparse", "n_classes"), [(False, 3), (True, 2)], ids=["dense", "sparse"]
)
def test_the_hinge_streams_from_a_store_without_being_asked(
    devices, tmp_path, is_sparse, n_classes
):
    X, y = example(n_classes, is_sparse=is_sparse)
    model = LinearSVC(loss="hinge", C=0.1, tol=1e-4)
    best = clone(model).set_params(tol=1e-8).fit(X, y)
    streamed = clone(model).set_params(device_ids=[0], memory_limit=LIMIT)
    streamed.fit(stored(tmp_path / "store", X, y))
    assert "smoothed hinges" in streamed.solver_
    assert "chunks of the rows stream" in streamed.solver_
    assert streamed.coef_.shape == best.coef_.shape
    assert 0.0 <= streamed.gap_ <= model.tol * streamed.objective_
    assert streamed.objective_ <= best.objective_ + streamed.gap_ + best.gap_
    assert best.objective_ <= streamed.objective_ + best.gap_


class SmallDevice(StrictDevice):
    n_free = 0

    def free_bytes(self):
        return self.n_free


def test_rows_in_memory_that_the_card_has_no_room_for_stream_by_themselves(monkeypatch, caplog):
    device = SmallDevice(2, 1)
    monkeypatch.setattr(device_choice, "make_device", lambda _: device)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 10))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
    model = LogisticRegression(device_ids=[0], tol=1e-3, max_iter=3)
    device.n_free = 2**34
    with watched() as memory:
        whole = clone(model).fit(X, y)
    assert "stream" not in whole.solver_
    device.n_free = memory.peak - 1_000_000
    caplog.set_level(logging.INFO, "snapml")
    with watched() as memory:
        streamed = clone(model).fit(X, y)
    assert "chunks of the rows stream in each pass" in streamed.solver_
    assert "is sent there in each pass" in caplog.text
    assert memory.peak <= device.n_free
    np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    device.n_free = 1_000_000  # labels and margins alone take more
    with watched() as memory, pytest.raises(MemoryError, match=r"needs 0.\d+ GB.*has 0.001 GB"):
        clone(model).fit(X, y)
    assert memory.n_allocations == 0


@pytest.mark.parametrize("device_ids", [[0], [0, 1]], ids=str)
@pytest.mark.usefixtures("without_collections")
def test_nothing_is_left_wherever_an_allocation_fails(devices, device_ids):
    """What comes in pieces goes on with smaller ones; what does not, says so."""
    X, y = example()
    model = LogisticRegression(device_ids=device_ids, memory_limit=LIMIT, tol=0.1, C=0.01)
    with watched() as memory:
        model.fit(X, y)
        assert memory.alive == 0
    expected, n_went_on, errors = model.coef_.copy(), 0, []
    for n_allowed in range(0, memory.n_allocations, 1 + memory.n_allocations // 28):
        with watched(n_allowed) as memory:
            try:
                model.fit(X, y)
                np.testing.assert_allclose(model.coef_, expected, rtol=1e-7, atol=1e-10)
                n_went_on += 1
            except MemoryError as error:
                errors.append(error)  # as a shell keeps the last
        assert memory.alive == 0, f"allocation {n_allowed}"
    assert n_went_on >= 3
    assert len(errors) >= 3
    assert all("emulated device ran out of memory" in str(error) for error in errors)
    assert all(isinstance(error.__cause__, OutOfMemory) for error in errors)


@pytest.mark.usefixtures("devices", "without_collections")
def test_error_while_reading_leaves_nothing_and_names_the_chunk(tmp_path):
    store = stored(tmp_path / "store", *example())
    file = store.manifest.chunks[3].file
    content = bytearray((tmp_path / "store" / file).read_bytes())
    content[4100] ^= 1
    (tmp_path / "store" / file).write_bytes(content)
    model = LogisticRegression(device_ids=[0], memory_limit=LIMIT)
    with watched() as memory, pytest.raises(ValueError, match=rf"{file}: the checksum"):
        model.fit(store)
    assert memory.alive == 0
    assert not hasattr(model, "coef_")


@pytest.mark.usefixtures("devices", "without_collections")
def test_interrupt_leaves_nothing(tmp_path, monkeypatch):
    store = stored(tmp_path / "store", *example())
    plain, reads = ChunkedDataset.matrix, []

    def matrix(self, number, buffer=None):
        reads.append(number)
        if len(reads) == 20:
            raise KeyboardInterrupt
        return plain(self, number, buffer)

    monkeypatch.setattr(ChunkedDataset, "matrix", matrix)
    model = LogisticRegression(device_ids=[0], memory_limit=LIMIT)
    with watched() as memory, pytest.raises(KeyboardInterrupt):
        model.fit(store)
    assert memory.alive == 0
    assert model.fit(store).n_iter_[0] > 0


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize(
    ("model", "says"),
    [
        (LinearSVC(loss="hinge", solver="sdca"), "coordinate ascent"),
        (LogisticRegression(l1_ratio=1.0), "L1 penalty"),
    ],
)
def test_what_keeps_all_rows_on_the_device_refuses_a_limit_below_them(model, says):
    X, y = example()
    model = clone(model).set_params(device_ids=[0], memory_limit=LIMIT)
    with pytest.raises(MemoryError, match=rf"memory_limit.*4,000.*{says}"):
        model.fit(X, y)
    model.set_params(memory_limit=1_000_000, max_iter=1).fit(X, y)
