"""What a fit leaves in a device's memory: nothing, however it ends."""

import gc
import warnings

import numpy as np
import pytest
from kernels.emulator.memory import OutOfMemory, watched
from kernels.emulator.strict_arrays import StrictDevice
from scipy.sparse import csr_matrix
from sklearn.base import clone

from snapml import Lasso, LinearSVC, LogisticRegression
from snapml.solvers.columns import gpu_columns
from snapml.solvers.plan import device_choice

FEW = dict(C=0.01, tol=0.1, max_iter=1)  # each read is some launches of the emulator
MODELS = {
    "quasi-Newton": (LogisticRegression(**FEW), 2),
    "unpenalised": (LogisticRegression(**FEW).set_params(C=np.inf), 2),
    "softmax": (LogisticRegression(**FEW), 3),
    "coordinate ascent": (LogisticRegression(solver="sdca", **FEW), 2),
    "asynchronous": (LinearSVC(loss="hinge", solver="sdca", deterministic=False, **FEW), 2),
    "continuation": (LinearSVC(loss="hinge", solver="pqn", **FEW), 2),
}
LAYOUTS = pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.pairwise,
]


@pytest.fixture(autouse=True)
def without_collections():
    """Only reference counts free what a fit has held."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


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


def example(n_classes, *, is_sparse, n_rows=24):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3)) * (rng.random((n_rows, 3)) < 0.6 if is_sparse else 1.0)
    y = np.arange(n_rows) % n_classes
    return (csr_matrix(X) if is_sparse else X), y


@pytest.mark.parametrize("device_ids", [[0], [0, 1], [0, 0]], ids=str)
@LAYOUTS
@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_left_after_a_fit(devices, name, is_sparse, device_ids):
    model, n_classes = MODELS[name]
    X, y = example(n_classes, is_sparse=is_sparse)
    model = clone(model).set_params(device_ids=device_ids)
    with watched() as memory:
        model.fit(X, y)
        assert memory.peak > 0
        assert memory.alive == 0


@pytest.mark.parametrize("name", ["quasi-Newton", "coordinate ascent"])
def test_two_hundred_fits_take_no_more_than_one(devices, name):
    model, n_classes = MODELS[name]
    X, y = example(n_classes, is_sparse=False)
    model = clone(model).set_params(device_ids=[0], warm_start=True)
    peaks = []
    for _ in range(200):
        with watched() as memory:
            model.fit(X, y)
        peaks.append(memory.peak)
        assert memory.alive == 0
    assert max(peaks[20:]) <= max(peaks[:20])


def state_of(model):
    return {name: np.array(value, copy=True) for name, value in vars(model).items()}


@pytest.mark.parametrize("device_ids", [[0], [0, 1]], ids=str)
@LAYOUTS
@pytest.mark.parametrize("name", MODELS)
def test_allocation_that_fails_leaves_nothing_wherever_it_is(devices, name, is_sparse, device_ids):
    """Every one, one fit each; of two shards, and of the slow softmax, some."""
    model, n_classes = MODELS[name]
    X, y = example(n_classes, is_sparse=is_sparse)
    model = clone(model).set_params(device_ids=device_ids)
    with watched() as memory:
        model.fit(X, y)
    fitted = model.coef_.copy()
    n_allocations = memory.n_allocations
    before = state_of(model)
    errors = []  # as a shell keeps the last
    for n_allowed in range(
        0, n_allocations, 17 if len(device_ids) > 1 else 5 if n_allocations > 200 else 1
    ):
        with watched(n_allowed) as memory:
            with pytest.raises(MemoryError, match="emulated device ran out of memory") as raised:
                model.fit(X, y)
            errors.append(raised.value)
            assert memory.alive == 0, f"allocation {n_allowed}"
        assert isinstance(errors[-1].__cause__, OutOfMemory)
    says = str(errors[-1])
    assert "Out of memory allocating" in says
    assert "17.2 GB are free" in says
    assert "device_ids=None" in says
    assert all(device.n_emptied >= len(errors) for device in devices.values())
    np.testing.assert_equal(state_of(model), before)
    np.testing.assert_array_equal(model.fit(X, y).coef_, fitted)


@pytest.mark.parametrize("way", ["gram", "columns"])
@pytest.mark.parametrize("model", [LinearSVC(penalty="l1", **FEW), Lasso(alpha=0.1)], ids=str)
def test_working_sets_leave_nothing_either(devices, monkeypatch, model, way):
    if way == "columns":
        monkeypatch.setattr(gpu_columns, "_MOST_SPARSE_GRAM", 0)
    X, y = example(2, is_sparse=True)
    model = clone(model).set_params(device_ids=[0], max_iter=1, tol=0.1)
    with watched() as memory:
        model.fit(X, y)
        assert memory.peak > 0
        assert memory.alive == 0
    errors = []
    for n_allowed in range(0, memory.n_allocations, 1 + memory.n_allocations // 8):
        with watched(n_allowed) as memory:
            with pytest.raises(MemoryError, match="emulated device ran out of memory") as raised:
                model.fit(X, y)
            errors.append(raised.value)
            assert memory.alive == 0, f"allocation {n_allowed}"


@pytest.mark.parametrize("device_ids", [[0], [0, 1]], ids=str)
@LAYOUTS
@pytest.mark.parametrize("name", ["quasi-Newton", "coordinate ascent"])
def test_data_that_are_refused_leave_nothing(devices, name, is_sparse, device_ids):
    model, n_classes = MODELS[name]
    X, y = example(n_classes, is_sparse=is_sparse)
    (X.data if is_sparse else X)[5] = np.nan
    with watched() as memory, pytest.raises(ValueError, match="contains NaN") as raised:
        clone(model).set_params(device_ids=device_ids).fit(X, y)
    assert raised.value is not None
    assert memory.alive == 0
    assert all(device.n_emptied == 0 for device in devices.values())


def test_error_of_the_host_is_not_blamed_on_the_device(devices, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr(StrictDevice, "to_host", fail)
    X, y = example(2, is_sparse=False)
    with pytest.raises(MemoryError, match=r"^Unable to allocate 3 TiB$"):
        LogisticRegression(device_ids=[0]).fit(X, y)


def test_memory_counts_buffers_once_and_forgets_them():
    xp = StrictDevice.xp
    with watched() as memory:
        whole = xp.zeros(1000, np.float64)
        view = whole[10:].reshape(-1, 2)
        assert (memory.alive, memory.n_allocations) == (8192, 1)
        other = whole + 1.0
        assert memory.alive == memory.peak == 2 * 8192
        del whole, other
        assert memory.alive == 8192
        del view
        assert (memory.alive, memory.peak) == (0, 2 * 8192)
    with watched(1), warnings.catch_warnings():
        first = xp.zeros(3, np.float64)
        with pytest.raises(OutOfMemory, match="24 bytes"):
            first + 1.0
