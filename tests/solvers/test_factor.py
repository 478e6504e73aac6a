"""Factors of semidefinite matrices: those of the host and of a device solve alike."""

import numpy as np
import pytest

from snapml.data import Dataset, DenseMatrix
from snapml.problems import Problem, Squared
from snapml.solvers.newton.factor import DeviceFactor, Factor, make_factor

from .primal_engines import GPUS, on_cpu

SIZE = 12


def matrix_of(least):
    """Return a matrix of very different scales whose least eigenvalue, scaled, is about `least`."""
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(SIZE, SIZE)))[0]
    values = np.linspace(1.0, 2.0, SIZE)
    values[0] = least
    scale = 2.0 ** np.linspace(-2, 2, SIZE)
    return scale[:, None] * ((vectors * values) @ vectors.T) * scale


def engine_of(make):
    return make(Problem(Squared()), Dataset(DenseMatrix(np.ones((2, 3))), np.ones(2), None, 1.0))


@pytest.mark.parametrize("is_penalised", [False, True])
@pytest.mark.parametrize("least", [1.0, 1e-4, 2e-15, 0.0, -1e-3])
@pytest.mark.parametrize("n_vectors", [None, 2])
@pytest.mark.parametrize("on_gpu", GPUS.values(), ids=GPUS)
def test_device_solves_as_the_host(on_gpu, n_vectors, least, is_penalised):
    """Whether a factor serves or eigenvalues do, it is the same on both."""
    matrix, engine = matrix_of(least), engine_of(on_gpu)
    shape = SIZE if n_vectors is None else (SIZE, n_vectors)
    vectors = np.random.default_rng(1).normal(size=shape)
    host = Factor(matrix, is_penalised)
    device = DeviceFactor(engine, engine.to_rows(matrix), is_penalised)
    assert (device.null_space is None) == (host.null_space is None)
    found = device.solve(engine.to_vectors(vectors))
    assert isinstance(found, engine.vectors.ndarray)
    expected = host.solve(vectors)
    if least >= 1e-4 or not is_penalised:
        tolerance = 1e-8 * np.abs(expected).max()
        np.testing.assert_allclose(engine.to_host(found), expected, rtol=1e-8, atol=tolerance)


def test_small_matrices_of_a_device_are_factored_on_the_host_unless_vectors_are_there():
    for make, small, large in (
        (on_cpu, Factor, Factor),
        (GPUS["host vectors"], Factor, DeviceFactor),
        (GPUS["device vectors"], DeviceFactor, DeviceFactor),
    ):
        engine = engine_of(make)
        for size, kind in ((128, small), (129, large)):
            assert type(make_factor(engine, engine.to_rows(np.eye(size)), True)) is kind
