"""Arrays of the real libraries on a real card; skipped where there is none."""

import importlib

import numpy as np
import pytest

from snapml import LinearSVC, LogisticRegression, Ridge

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cupy():
    found = pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        found.cuda.runtime.getDeviceCount()
    except found.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"no card: {error}")
    return found


def example(dtype=np.float32, n_rows=3000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 20)).astype(dtype)
    return X, (X[:, 0] + 0.5 * rng.normal(size=n_rows) > 0).astype(np.int64)


def from_library(name, cupy, array):
    """Return an array of a library on the card, and its class."""
    on_card = cupy.asarray(array)
    if name == "cupy":
        return on_card
    library = importlib.import_module({"jax": "jax.numpy"}.get(name, name))
    found = library.from_dlpack(on_card)
    if found.__dlpack_device__()[0] != 2:
        pytest.skip(f"{name} without CUDA")
    return found


@pytest.fixture(params=["cupy", "torch", "jax"])
def make(request, cupy):
    """From an array of the host to one of a library on the card."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return lambda array: from_library(request.param, cupy, array)


MODELS = [
    LogisticRegression(),
    LogisticRegression(solver="sdca", C=0.01),
    LinearSVC(loss="hinge", C=0.01, tol=1e-3),
    Ridge(tol=1e-6),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_fit_and_predictions_are_those_of_rows_of_the_host(make, cupy, model):
    X, y = example()
    expected = type(model)(**model.get_params()).set_params(device_ids=[0]).fit(X, y)
    resident = make(X)
    model = type(model)(**model.get_params()).fit(resident, make(y))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.solver_ == expected.solver_
    found = model.predict(resident)
    assert type(found) is type(resident)
    assert found.__dlpack_device__() == resident.__dlpack_device__()
    on_host = cupy.asnumpy(cupy.from_dlpack(found))
    np.testing.assert_allclose(on_host, expected.predict(X), rtol=1e-4, atol=1e-4)
    assert model.score(resident, make(y)) == pytest.approx(expected.score(X, y), abs=1e-3)


def test_probabilities_of_several_classes(make, cupy):
    X, _ = example()
    y = X[:, :3].argmax(axis=1)
    model = LogisticRegression().fit(make(X), y)
    for name in ("predict_proba", "predict_log_proba"):
        found = cupy.asnumpy(cupy.from_dlpack(getattr(model, name)(make(X))))
        np.testing.assert_allclose(found, getattr(model, name)(X), rtol=1e-4, atol=1e-5)


def test_rows_are_used_in_place(cupy):
    X, y = example(n_rows=2_000_000)
    resident = cupy.asarray(X)
    before = resident.data.ptr
    pool = cupy.cuda.MemoryPool()  # counts what the fit allocates, from nothing
    with cupy.cuda.using_allocator(pool.malloc):
        LogisticRegression(max_iter=3, tol=0.5).fit(resident, y)
    assert pool.total_bytes() < X.nbytes
    assert resident.data.ptr == before
    np.testing.assert_array_equal(cupy.asnumpy(resident), X)


def test_work_queued_on_another_stream_is_waited_for():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("cupy", reason="CuPy is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch without CUDA")
    X, y = example(n_rows=200_000)
    expected = LogisticRegression(device_ids=[0]).fit(X, y)
    source = torch.from_numpy(X).pin_memory()
    with torch.cuda.stream(torch.cuda.Stream()):
        late = torch.zeros(X.shape, device="cuda")
        torch.cuda._sleep(100_000_000)
        late.copy_(source, non_blocking=True)
        model = LogisticRegression().fit(late, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)


@pytest.mark.parametrize("format_", ["csr", "csc"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_matrices(cupy, format_, index):
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    scipy_sparse = pytest.importorskip("scipy.sparse")
    X, y = example()
    host = scipy_sparse.csr_matrix(X * (np.random.default_rng(1).random(X.shape) < 0.3))
    expected = LogisticRegression(device_ids=[0]).fit(host, y)
    resident = getattr(sparse, f"{format_}_matrix")(host)
    resident.indices = resident.indices.astype(index)
    resident.indptr = resident.indptr.astype(index)
    model = LogisticRegression().fit(resident, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=1e-5)
    assert isinstance(model.predict_proba(resident), cupy.ndarray)


def test_gradients_and_bfloat16_say_what_to_do():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("cupy", reason="CuPy is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch without CUDA")
    X, y = example()
    tensor = torch.from_numpy(X).cuda()
    with pytest.raises(ValueError, match=r"X\.detach\(\)"):
        LogisticRegression().fit(tensor.clone().requires_grad_(), y)
    with pytest.raises(ValueError, match=r"X\.float\(\)"):
        LogisticRegression().fit(tensor.bfloat16(), y)
