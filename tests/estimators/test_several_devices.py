"""Coordinate ascent on several emulated GPUs of one process: one model, and one end."""

import signal
import threading
import time

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice
from scipy.sparse import csr_matrix
from sklearn.base import clone

from snapml import LinearSVC, LogisticRegression
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.solvers.plan import device_choice
from snapml.solvers.plan.thread_shards import dealt_rows, rows_of

pytestmark = pytest.mark.pairwise


@pytest.fixture
def devices(monkeypatch):
    """Emulated devices in the place of CUDA's, one for each number; returns those made."""
    made = {}
    monkeypatch.setattr(
        device_choice, "make_device", lambda number: made.setdefault(number, StrictDevice())
    )
    return made


def example(dtype=np.float64, n_classes=2, *, is_sparse=False):
    """Return rows sorted by label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 7)) * (rng.random((240, 7)) < 0.5 if is_sparse else 1.0)
    scores = X[:, :n_classes] + 0.3 * rng.normal(size=(240, n_classes))
    y = scores.argmax(axis=1)
    order = np.argsort(y, kind="stable")
    X = X[order].astype(dtype)
    return (csr_matrix(X) if is_sparse else X), y[order]


ASCENTS = {
    "hinge": (LinearSVC(loss="hinge", solver="sdca", C=0.01, tol=1e-2), 2),
    "hinges": (LinearSVC(loss="hinge", solver="sdca", C=0.01, tol=1e-2), 3),
    "logistic": (LogisticRegression(solver="sdca", C=0.01, tol=1e-2), 2),
    "asynchronous": (
        LogisticRegression(solver="sdca", C=0.01, tol=1e-2, deterministic=False),
        2,
    ),
}


@pytest.mark.parametrize("device_ids", [[0, 1], [0, 0], [2, 0, 1]], ids=str)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ASCENTS)
def test_certified_answer_is_the_cpus(devices, name, is_sparse, device_ids, dtype):
    model, n_classes = ASCENTS[name]
    X, y = example(dtype, n_classes, is_sparse=is_sparse)
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    best = clone(model).set_params(tol=1e-6, max_iter=10_000).fit(X, y, weights)
    gpu = clone(model).set_params(device_ids=device_ids).fit(X, y, weights)
    assert set(devices) == set(device_ids)
    assert gpu.gap_ <= model.tol * gpu.objective_
    assert gpu.objective_ - gpu.gap_ <= best.objective_ * (1 + 1e-6)
    assert best.objective_ - best.gap_ <= gpu.objective_ * (1 + 1e-6)
    assert gpu.solver_.startswith("dual coordinate ascent, emulated device")
    assert gpu.solver_.split(":")[0].count("emulated device") == len(device_ids)


@pytest.mark.parametrize("device_ids", [[0, 1], [0, 0], [2, 0, 1]], ids=str)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_continuation_of_the_hinge_is_that_of_one_device(devices, is_sparse, device_ids, dtype):
    X, y = example(dtype, 2, is_sparse=is_sparse)
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = LinearSVC(loss="hinge", solver="pqn", C=0.1, tol=1e-5)
    one = clone(model).set_params(device_ids=[0]).fit(X, y, weights)
    several = clone(model).set_params(device_ids=device_ids).fit(X, y, weights)
    assert several.solver_.split(":")[0].count("emulated device") == len(device_ids)
    assert several.gap_ <= model.tol * several.objective_
    assert several.objective_ == pytest.approx(one.objective_, rel=2 * model.tol)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_rows_sorted_by_label_take_no_more_epochs_than_others(devices, is_sparse):
    X, y = example(is_sparse=is_sparse)
    mixed = np.random.default_rng(1).permutation(len(y))
    model = LinearSVC(loss="hinge", solver="sdca", C=0.01, tol=1e-2, device_ids=[0, 1])
    n_mixed = clone(model).fit(X[mixed], y[mixed]).n_iter_
    assert model.fit(X, y).n_iter_ <= 1.5 * n_mixed


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_dual_states_come_back_in_the_order_of_the_rows(devices, is_sparse):
    X, y = example(is_sparse=is_sparse)
    model = LogisticRegression(
        solver="sdca", C=0.01, tol=1e-3, warm_start=True, device_ids=[0, 1, 2]
    ).fit(X, y)
    n_iter = model.n_iter_[0]
    assert n_iter > 0
    for device_ids in ([0], [0, 1], [0, 1, 2]):  # each goes on where the last one ended
        assert model.set_params(device_ids=device_ids).fit(X, y).n_iter_[0] == 0


def test_equal_fits_give_equal_bits(devices):
    X, y = example()
    model = LinearSVC(loss="hinge", solver="sdca", C=0.01, tol=1e-2, device_ids=[0, 1])
    coefs = {clone(model).fit(X, y).coef_.tobytes() for _ in range(3)}
    assert len(coefs) == 1


def dataset_of(n_rows, *, is_sparse, has_values=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5)) * (rng.random((n_rows, 5)) < 0.4)
    y, c = rng.normal(size=(2, n_rows))
    if not is_sparse:
        return X, Dataset(DenseMatrix(X), y, c, 1.0)
    S = csr_matrix(X)
    values = S.data if has_values else None
    if not has_values:
        S.data[:] = 1.0
    return S.toarray(), Dataset(
        CompressedMatrix(S.indptr, S.indices, 5, values, np.float64), y, c, 1.0
    )


@pytest.mark.parametrize("has_values", [True, False])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("n_rows", "n_shards"), [(1, 1), (2, 5), (7, 2), (400, 3), (1000, 2)])
def test_every_row_is_dealt_once(n_rows, n_shards, is_sparse, has_values):
    X, dataset = dataset_of(n_rows, is_sparse=is_sparse, has_values=has_values)
    dealt = dealt_rows(dataset, n_shards)
    assert len(dealt) == min(n_shards, n_rows)
    numbers = [np.arange(n_rows)[rows] for rows in dealt]
    np.testing.assert_array_equal(np.sort(np.concatenate(numbers)), np.arange(n_rows))
    sizes = [len(rows) for rows in numbers]
    assert max(sizes) - min(sizes) <= max(1, n_rows // (64 * n_shards))
    for rows in dealt:
        shard = rows_of(dataset, rows)
        matrix = shard.matrix
        if is_sparse:
            values = np.ones(matrix.n_stored) if matrix.values is None else matrix.values
            parts = (values, matrix.indices, matrix.indptr)
            np.testing.assert_array_equal(csr_matrix(parts, matrix.shape).toarray(), X[rows])
            assert matrix.indptr.dtype == matrix.indices.dtype == dataset.matrix.indices.dtype
        else:
            np.testing.assert_array_equal(matrix.values, X[rows])
            assert np.shares_memory(matrix.values, dataset.matrix.values)
        np.testing.assert_array_equal(shard.labels, dataset.labels[rows])
        np.testing.assert_array_equal(shard.row_weights, dataset.row_weights[rows])


class SlowDevice(StrictDevice):
    """Takes its time for every launch, and counts those that run."""

    n_running = 0
    first_launch = threading.Event()

    def launch(self, *args):
        type(self).n_running += 1
        self.first_launch.set()
        try:
            time.sleep(0.02)
            super().launch(*args)
        finally:
            type(self).n_running -= 1


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(
    "model",
    [LinearSVC(loss="hinge", solver="sdca"), LinearSVC(loss="hinge"), LogisticRegression()],
    ids=["coordinate ascent", "continuation", "pqn"],
)
def test_interrupt_ends_all_shards(monkeypatch, model, after_s):
    monkeypatch.setattr(device_choice, "make_device", lambda _: SlowDevice())
    SlowDevice.first_launch.clear()
    model = clone(model).set_params(device_ids=[0, 1, 2], tol=0, max_iter=10**6)
    before = vars(model).copy()
    sent, has_ended = [], threading.Event()

    def interrupt():
        SlowDevice.first_launch.wait()
        time.sleep(after_s)
        sent.append(time.perf_counter())
        # Python forgets an interrupt that meets a destructor or a callback of C: once more, then.
        while not has_ended.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            has_ended.wait(3.0)

    n_threads = threading.active_count()
    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*example())
    has_ended.set()
    late_s = time.perf_counter() - sent[0]
    sender.join()
    assert late_s < 10.0  # at most the read that the others are in
    assert threading.active_count() == n_threads
    assert SlowDevice.n_running == 0
    assert vars(model) == before
