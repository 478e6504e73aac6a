"""What is said of a fit's memory before it, against what it takes."""

import numpy as np
import pytest
import scipy.sparse
from kernels.emulator.memory import watched
from kernels.emulator.strict_arrays import StrictDevice
from sklearn.base import clone

from snapml import LinearSVC, LogisticRegression
from snapml.solvers.newton import newton_steps, preconditioners
from snapml.solvers.plan import device_choice, device_room

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.pairwise,
]

SOME = dict(C=0.01, tol=1e-3, max_iter=3)
MODELS = {
    "quasi-Newton": (LogisticRegression(**SOME), 2),
    "one against the rest": (LogisticRegression(multi_class="ovr", max_iter=6), 4),
    "softmax": (LogisticRegression(**SOME), 4),
    "coordinate ascent": (LinearSVC(loss="hinge", solver="sdca", **SOME), 2),
    "continuation": (LinearSVC(loss="hinge", solver="pqn", **SOME | dict(max_iter=30)), 2),
}
SHAPES = [(20_000, 30), (3_000, 400)]
# Parts of launches and vectors of the columns, which small data hardly need.
FIXED = 2**20


def example(n_rows, n_features, n_classes, dtype, *, is_sparse):
    rng = np.random.default_rng(0)
    if is_sparse:
        shape, density = (n_rows, n_features), min(1.0, 20 / n_features)
        X = scipy.sparse.random(*shape, density, format="csr", dtype=dtype, random_state=1)
    else:
        X = rng.normal(size=(n_rows, n_features)).astype(dtype)
    return X, rng.integers(0, n_classes, n_rows)


@pytest.fixture
def told(monkeypatch):
    """Bytes that the fits say they need, of all shards together."""
    said = []

    def listen(devices, needed):
        said.append(sum(needed))
        device_room.check_room(devices, needed)

    monkeypatch.setattr(device_choice, "check_room", listen)
    return said


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_fit_takes_what_was_said(monkeypatch, told, name, shape, is_sparse):
    model, n_classes = MODELS[name]
    monkeypatch.setattr(device_choice, "make_device", lambda _: StrictDevice())
    # Steps of few products take no factors, and alike classes share one; what is said is the most.
    monkeypatch.setattr(newton_steps, "products_of_factors", lambda *_: 1.0)
    monkeypatch.setattr(newton_steps, "_FEW_PRODUCTS", 0)
    monkeypatch.setattr(preconditioners, "_ALIKE", 1.0)
    X, y = example(*shape, n_classes, np.float32, is_sparse=is_sparse)
    with watched() as memory:
        clone(model).set_params(device_ids=[0], tol=1e-9).fit(X, y)
    assert memory.peak <= min(told)
    # At most: not every fit makes a second curvature, beside the first one's factors.
    assert min(told) <= 1.4 * memory.peak + FIXED


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["quasi-Newton", "coordinate ascent"])
def test_shards_on_one_card_are_added_up(monkeypatch, told, name, is_sparse):
    model, n_classes = MODELS[name]
    device = StrictDevice()
    monkeypatch.setattr(device_choice, "make_device", lambda _: device)
    X, y = example(4_000, 30, n_classes, np.float64, is_sparse=is_sparse)
    model = clone(model).set_params(device_ids=[0, 0], max_iter=1)
    with watched() as memory:
        model.fit(X, y)
    assert memory.peak <= told[0]
    monkeypatch.setattr(device, "free_bytes", lambda: told[0] - 1)
    if name == "quasi-Newton":
        assert "stream in each pass" in model.fit(X, y).solver_
    else:
        with pytest.raises(MemoryError, match="GB free"):
            model.fit(X, y)
    monkeypatch.setattr(device, "free_bytes", lambda: told[0])
    assert "stream" not in model.fit(X, y).solver_


@pytest.mark.parametrize("name", ["quasi-Newton", "coordinate ascent", "working sets"])
def test_data_too_large_are_refused_with_both_sizes_before_a_copy(monkeypatch, name):
    # Rows of a smooth loss would stream, but what is left of the fit has no room either.
    n_free = 1_000_000 if name == "quasi-Newton" else 2_000_000

    class SmallDevice(StrictDevice):
        def free_bytes(self):
            return n_free

    monkeypatch.setattr(device_choice, "make_device", lambda _: SmallDevice())
    X, y = example(24_000, 10, 2, np.float64, is_sparse=False)
    model = LogisticRegression(l1_ratio=1.0, **SOME) if name == "working sets" else MODELS[name][0]
    model = clone(model).set_params(device_ids=[0])
    has = rf"{n_free / 1e9:.3g} GB free; .*device_ids=None"
    says = rf"needs 0.00\d+ GB of emulated device, which has {has}"
    with watched() as memory, pytest.raises(MemoryError, match=says):
        model.fit(X, y)
    assert memory.n_allocations == 0
    model.set_params(max_iter=1).fit(X[:500], y[:500])


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_working_sets_come_on_top_of_what_was_said(monkeypatch, told, shape, is_sparse):
    monkeypatch.setattr(device_choice, "make_device", lambda _: StrictDevice())
    X, y = example(*shape, 2, np.float32, is_sparse=is_sparse)
    with watched() as memory:
        LogisticRegression(l1_ratio=1.0, device_ids=[0], **SOME).fit(X, y)
    assert 0.3 * memory.peak <= min(told) <= 1.1 * memory.peak + FIXED
