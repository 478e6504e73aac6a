"""Offsets of several classes: a number for each row and class, on every place."""

import numpy as np
import pytest
import scipy.optimize
from kernels.emulator.strict_arrays import StrictDevice
from scipy.sparse import csr_matrix

import snapml
from snapml import LogisticRegression
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.solvers.plan import device_choice

RNG = np.random.default_rng(0)
N, P, K = 300, 4, 3
X = RNG.normal(size=(N, P))
OFFSETS = RNG.normal(size=(N, K))
Y = (X @ RNG.normal(size=(P, K)) + OFFSETS + RNG.gumbel(size=(N, K))).argmax(axis=1)


def objective(coef, intercept, *, l1=0.0, l2=1.0, C=1.0):
    z = X @ coef.T + intercept + OFFSETS
    loss = (np.logaddexp.reduce(z, axis=1) - z[np.arange(N), Y]).sum()
    return C * loss + l1 * np.abs(coef).sum() + l2 * (coef**2).sum() / 2


@pytest.fixture(scope="module")
def least():
    def at(joint):
        joint = joint.reshape(K, P + 1)
        return objective(joint[:, :P], joint[:, P])

    start = np.zeros(K * (P + 1))
    return scipy.optimize.minimize(at, start, method="BFGS", options={"gtol": 1e-6}).fun


@pytest.mark.parametrize("container", [np.asarray, csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("far", [0.0, 1e3])
def test_softmax_finds_the_minimum_with_the_offsets_of_classes(least, container, dtype, far):
    offset = OFFSETS + far * np.array([1.0, -2.0, 0.5])
    rows = container(X.astype(dtype))
    model = LogisticRegression(tol=1e-9 if dtype == np.float64 else 1e-5)
    model.fit(rows, Y, offset=offset)
    slack = least * (1e-9 if dtype == np.float64 else 1e-5)
    assert model.objective_ == pytest.approx(least, abs=slack)
    assert model.objective_ - model.gap_ <= least + slack
    moved = model.intercept_ + far * np.array([1.0, -2.0, 0.5])
    assert objective(model.coef_.astype(float), moved) == pytest.approx(least, abs=2e-4 * least)
    p = model.predict_proba(rows, offset=offset)
    z = X @ model.coef_.T + model.intercept_ + offset
    expected = np.exp(z - np.logaddexp.reduce(z, axis=1)[:, None])
    np.testing.assert_allclose(p, expected, atol=1e-3 if dtype == np.float32 else 1e-9)


def test_l1_has_them_too():
    model = LogisticRegression(l1_ratio=1.0, C=0.3, tol=1e-9).fit(X, Y, offset=OFFSETS)
    found = objective(model.coef_, model.intercept_, l1=1.0, l2=0.0, C=0.3)
    assert model.objective_ == pytest.approx(found, rel=1e-10)
    for step in 1e-3 * np.random.default_rng(1).normal(size=(50, K, P + 1)):
        moved = model.coef_ + step[:, :P], model.intercept_ + step[:, P]
        assert objective(*moved, l1=1.0, l2=0.0, C=0.3) >= found - model.gap_


def test_one_against_the_rest_takes_a_column_each():
    model = LogisticRegression(multi_class="ovr", tol=1e-10).fit(X, Y, offset=OFFSETS)
    for k in range(K):
        one = LogisticRegression(tol=1e-10).fit(X, k == Y, offset=OFFSETS[:, k])
        np.testing.assert_allclose(model.coef_[k], one.coef_[0], atol=1e-5)


def test_stores_devices_and_files_have_them(least, tmp_path, monkeypatch):
    monkeypatch.setattr(device_choice, "make_device", lambda _: StrictDevice())
    with ChunkWriter(tmp_path / "store", chunk_bytes=2000) as writer:
        writer.append(X, Y)
    store = ChunkedDataset.open(tmp_path / "store", memory_limit=0)
    for model in (
        LogisticRegression(tol=1e-9).fit(store, offset=OFFSETS),
        LogisticRegression(tol=1e-9, device_ids=[0]).fit(X, Y, offset=OFFSETS),
        LogisticRegression(tol=1e-9, device_ids=[0, 1]).fit(X, Y, offset=OFFSETS),
    ):
        assert model.objective_ == pytest.approx(least, rel=1e-8)
    model.save(tmp_path / "model")
    again = snapml.load(tmp_path / "model")
    with pytest.raises(ValueError, match="offset: expected that of each row"):
        again.predict(X)
    found = again.decision_function(X, offset=OFFSETS)
    np.testing.assert_allclose(found, X @ model.coef_.T + model.intercept_ + OFFSETS, rtol=1e-12)


@pytest.mark.parametrize("wrong", [OFFSETS[:, 0], OFFSETS[:, :2], OFFSETS[:5]])
def test_another_shape_is_refused(wrong):
    with pytest.raises(ValueError, match="a number for each row and class"):
        LogisticRegression().fit(X, Y, offset=wrong)
