"""Many models of rows in a GPU's memory are those of the host."""

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice
from real_device import real_device, with_real_device

from snapml.kernels.products import many_rows
from snapml.problems import Intercept, Logistic, Problem, SquaredHinge
from snapml.solvers.many import many_preconditioners
from snapml.solvers.many.gpu_many_rows import device_products, most_models
from snapml.solvers.many.many_chunks import many_products
from snapml.solvers.many.many_models import solve
from snapml.solvers.many.many_rows import PANEL

from .test_many_models import N_FEATURES, N_ROWS, make_correlated_rows, make_rows, make_targets

pytestmark = pytest.mark.pairwise


@pytest.fixture(params=with_real_device(["emulated"]))
def device(request):
    return real_device() if request.param == "gpu" else StrictDevice()


def test_panels_are_those_of_the_kernels():
    assert many_rows.PANEL == PANEL


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_products_are_those_of_the_host(device, is_sparse, dtype):
    _, matrix = make_rows(dtype, is_sparse)
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((N_FEATURES + 1, 2 * PANEL)).astype(dtype)
    scales = rng.random((N_ROWS, 2 * PANEL)).astype(dtype)
    host = many_products(matrix, 1)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"atol": 1e-12}
    with device.use():
        there = device_products(device, matrix)
        on_device, scales_there = device.to_device(vectors), device.to_device(scales)
        pairs = [
            (there.margins(on_device), host.margins(vectors)),
            (there.adjoint(scales_there), host.adjoint(scales)),
            (there.hessian(scales_there, on_device), host.hessian(scales, vectors)),
            (
                there.adjoint(scales_there, squares_entries=True),
                host.adjoint(scales, squares_entries=True),
            ),
        ]
        if not is_sparse:
            pairs.append((there.row_squares(), host.row_squares()))
            weights = np.ascontiguousarray(scales[:, 0])
            gram = there.gram(device.to_device(weights))
            np.testing.assert_allclose(gram, host.gram(weights), **close)
        for found, expected in pairs:
            np.testing.assert_allclose(device.to_host(found), expected, **close)
        assert (there.shape, there.dtype, there.is_dense) == (host.shape, dtype, not is_sparse)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()])
def test_models_are_those_of_the_host(device, loss, intercept, is_sparse):
    X, matrix = make_rows(np.float64, is_sparse)
    problem, targets = Problem(loss, intercept, 2.0), make_targets(X)
    expected = solve(problem, many_products(matrix), targets, 1e-14)
    with device.use():
        found = solve(problem, device_products(device, matrix), targets, 1e-14)
    assert found.has_converged.all()
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-9)
    np.testing.assert_allclose(found.margins, expected.margins, atol=1e-9)


def test_the_gram_matrix_is_shared_there_too(device, monkeypatch):
    monkeypatch.setattr(many_preconditioners, "_FEWEST_COLUMNS", 1)
    matrix, targets = make_correlated_rows(np.float64)
    problem, shared = Problem(Logistic(), Intercept.FREE), many_preconditioners.SharedGram()
    expected = solve(problem, many_products(matrix), targets, 1e-14)
    with device.use():
        products = device_products(device, matrix)
        found = solve(problem, products, targets, 1e-14, shared=shared)
    assert shared.gram is not None
    assert found.has_converged.all()
    np.testing.assert_array_equal(found.n_products, expected.n_products)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-9)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_models_go_by_as_many_as_the_memory_holds(is_sparse):
    _, matrix = make_rows(np.float64, is_sparse)

    class SmallDevice(StrictDevice):
        free = 0

        def free_bytes(self):
            return self.free

    device = SmallDevice()
    found = []
    for device.free in range(0, 2_000_000, 10_000):
        found.append(most_models(device, matrix, 4))
    assert found[0] == 0
    assert found == sorted(found)
    assert set(np.diff(found)) >= {0, PANEL}
