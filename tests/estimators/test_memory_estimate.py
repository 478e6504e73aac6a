"""Estimates against what child processes were seen to take, and what they refuse to tell."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix

import snapml
from snapml import (
    ElasticNet,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    estimate,
)
from snapml.data import ChunkedDataset, ChunkWriter, CompressedMatrix
from snapml.solvers.plan import device_room

# Written by a child, so that the parent's memory, which a child starts from, stays small.
SCRIPT = """
import re, resource, sys, warnings
import numpy as np
from scipy.sparse import csr_matrix
import snapml
from snapml.data import ChunkWriter, CompressedMatrix

kind, folder = sys.argv[1:]
rng = np.random.default_rng(0)


def compressed(n_rows, n_columns, each, has_values):
    columns = (n_columns * rng.random((n_rows, each)) ** 3).astype(np.int32)
    columns.sort(axis=1)
    values = np.ones(columns.size, np.float32) if has_values else None
    offsets = np.arange(n_rows + 1, dtype=np.int32) * each
    return CompressedMatrix(offsets, columns.ravel(), n_columns, values)


def batches():
    for _ in range(100):
        if kind in ("dense", "dense store", "classes store", "counts", "counts store"):
            X = rng.normal(size=(5_000, 40)).astype(np.float32)
            first = X[:, : 4 if kind == "classes store" else 2]
        else:
            X = compressed(3_000, *((200_000, 30, False) if "wide" in kind else (300, 30, True)))
            first = X.indices.reshape(3_000, -1)[:, :2] / 300.0
        yield X, (first + rng.normal(size=first.shape)).argmax(axis=1)


if folder.endswith("write"):
    with ChunkWriter(folder[:-5] + "store", chunk_bytes=2_000_000) as writer:
        for X, y in batches():
            writer.append(X, y)
    sys.exit()
warnings.simplefilter("ignore")
small = rng.normal(size=(3000, 20)).astype(np.float32)
for rows in (small, csr_matrix(small)):
    snapml.LogisticRegression(max_iter=2).fit(rows, rng.integers(0, 2, 3000))
pages = int(open("/proc/self/statm").read().split()[1])
# On wide sparse rows coordinate ascent comes first, and takes less.
model = snapml.LogisticRegression(solver="pqn", max_iter=8, n_threads=2, memory_limit="16MB")
if "counts" in kind:
    model = snapml.PoissonRegressor(max_iter=8, n_threads=2, memory_limit="16MB")
y = None
if kind in ("dense", "counts"):
    X, y = np.empty((500_000, 40), np.float32), np.empty(500_000, np.int64)
    for number, (rows, labels) in enumerate(batches()):
        part = slice(5_000 * number, 5_000 * (number + 1))
        X[part], y[part] = rows, labels
    pages += y.nbytes // resource.getpagesize()  # which is the user's
else:
    X = folder + "store"
needed = snapml.estimate(X, model, y=y).host_bytes
model.fit(X, y)
# Not ru_maxrss, which a child process takes over from its parent.
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(needed, peak - pages * resource.getpagesize())
"""


def run(kind, folder):
    command = [sys.executable, "-c", SCRIPT, kind, folder]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "dense",
        "dense store",
        "classes store",
        "wide sparse store",
        "sparse store",
        "counts",
        "counts store",
    ],
)
def test_estimate_covers_the_peak_and_not_much_more(tmp_path, kind):
    if kind not in ("dense", "counts"):
        run(kind, f"{tmp_path}/write")
    needed, peak = map(int, run(kind, f"{tmp_path}/").split())
    assert peak <= needed <= 1.5 * peak + 10e6  # what the loaded library has free varies


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(int)


def test_rows_in_memory_are_counted_where_they_are():
    X, y = rows()
    found = estimate(X, y=y)
    assert (found.n_rows, found.n_features, found.n_stored) == (400, 6, 2400)
    assert found.data_bytes == found.given_bytes == found.resident_bytes == X.nbytes
    assert found.new_bytes == found.working_bytes
    assert (found.n_chunks, found.streamed_bytes, found.buffer_bytes) == (0, 0, 0)
    assert estimate(X.astype(int)).given_bytes == 0  # converted to float64
    assert estimate(X.tolist()).data_bytes == 2 * X.nbytes
    sparse = csr_matrix(X)
    n_bytes = sparse.data.nbytes + sparse.indices.nbytes + sparse.indptr.nbytes
    assert estimate(sparse).given_bytes == estimate(sparse).data_bytes == n_bytes
    assert estimate(csc_matrix(X)).given_bytes == 0
    implicit = CompressedMatrix(sparse.indptr, sparse.indices, 6)
    assert estimate(implicit).data_bytes == n_bytes - sparse.data.nbytes


def test_frames_are_converted():
    pd = pytest.importorskip("pandas")
    found = estimate(pd.DataFrame(rows()[0].astype(float)))
    assert (found.n_rows, found.data_bytes) == (400, 400 * 6 * 8)


@pytest.mark.parametrize("limit", [0, 4000, "1GB"])
def test_chunks_that_stay_are_those_of_the_fit(tmp_path, limit):
    X, y = rows()
    with ChunkWriter(tmp_path / "store", chunk_bytes=1000) as writer:
        writer.append(X, y)
    model = LogisticRegression(memory_limit=limit)
    for source in (tmp_path / "store", ChunkedDataset.open(tmp_path / "store")):
        found = estimate(source, model)
        model.fit(source)
        assert f"{found.n_resident_chunks} of {found.n_chunks} chunks" in model.solver_
        assert found.given_bytes == 0
        n_bytes = ChunkedDataset.open(tmp_path / "store").manifest.n_bytes
        assert found.data_bytes == n_bytes
        assert found.streamed_bytes + found.resident_bytes == n_bytes
        assert (found.buffer_bytes == 0) == (limit == "1GB")


def test_more_of_anything_needs_more(tmp_path):
    X, y = rows()
    base = estimate(X, y=y).working_bytes
    assert estimate(np.vstack([X, X]), y=np.tile(y, 2)).working_bytes > base
    assert estimate(np.hstack([X, X]), y=y).working_bytes > base
    assert estimate(X, y=np.arange(400) % 5).working_bytes > base
    classes = np.arange(400) % 5
    weighted = estimate(X, LogisticRegression(class_weight="balanced"), y=classes)
    assert weighted.working_bytes > estimate(X, y=classes).working_bytes
    assert estimate(X, Ridge(), y=np.ones((400, 3))).working_bytes > base


def test_text_says_what_matters(tmp_path):
    X, y = rows()
    with ChunkWriter(tmp_path / "store", chunk_bytes=1000) as writer:
        writer.append(X, y)
    text = str(estimate(tmp_path / "store", LinearSVC(memory_limit=0)))
    assert "400 rows x 6 columns" in text
    assert "0 of " in text
    assert text.endswith("\nfits")


def test_too_little_memory_does_not_fit(monkeypatch):
    X, _ = rows()
    monkeypatch.setattr("snapml.estimators.memory_estimate.available_bytes", lambda: 1000)
    found = estimate(X)
    assert not found.fits
    assert str(found).endswith("does not fit")


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("device_ids", [None, [0], [0, 1], [0, 0]])
def test_gpus_that_are_not_here_are_planned_for(is_sparse, device_ids):
    X, y = rows()
    X = csr_matrix(X) if is_sparse else X
    model = LogisticRegression(device_ids=device_ids)
    found = estimate(X, model, y=y, device_bytes=10**9)
    assert found.device_available == (10**9 // 2 if device_ids == [0, 0] else 10**9)
    assert found.device_bytes > found.data_bytes / len(device_ids or [0])
    assert found.fits
    assert "a GPU" in str(found)
    assert not estimate(X, model, y=y, device_bytes=1000).fits


def test_gpu_estimate_is_that_of_the_fit(monkeypatch):
    """The same function that refuses a fit too large, asked with sizes instead of rows."""
    seen = []
    original = device_room.primal_bytes

    def spied(device, problem, dataset, n_shards=1):
        seen.append((problem, dataset))
        return original(device, problem, dataset, n_shards)

    monkeypatch.setattr(device_room, "primal_bytes", spied)
    X, y = rows()
    for given in (X, csr_matrix(X)):
        estimate(given, RidgeClassifier(), y=y, device_bytes=10**9)
    for _, dataset in seen:
        assert dataset.labels.nbytes == 4 * 400
        assert dataset.matrix.shape == (400, 6)


def test_gpu_that_is_missing_is_said_to_be_missing(monkeypatch):
    def missing(number):
        raise RuntimeError(f"no CUDA device {number}")

    monkeypatch.setattr(snapml.solvers.plan.device_choice, "make_device", missing)
    with pytest.raises(RuntimeError, match="no CUDA device 0"):
        estimate(rows()[0], LogisticRegression(device_ids=[0]))


@pytest.mark.parametrize(
    "model",
    [
        ElasticNet(),
        LinearSVC(loss="hinge"),
        LinearSVC(penalty="l1"),
        LogisticRegression(l1_ratio=0.5),
        LogisticRegression(solver="sdca"),
        LogisticRegressionCV(),
        Ridge(positive=True),
    ],
)
def test_what_is_not_foreseen_is_refused(model):
    with pytest.raises(NotImplementedError, match="cannot tell what others need"):
        estimate(rows()[0], model)


def test_what_holds_no_rows_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected rows in memory, a store or its path, got str"):
        estimate("nowhere")
    with pytest.raises(ValueError, match="expected rows in memory"):
        estimate(np.zeros(3))
    X, y = rows()
    with ChunkWriter(tmp_path / "store") as writer:
        writer.append(X, y)
    with pytest.raises(NotImplementedError, match="a store with device_ids"):
        estimate(tmp_path / "store", LogisticRegression(device_ids=[0]))
