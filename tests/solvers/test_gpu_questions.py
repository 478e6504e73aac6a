"""How much is asked of a device in a pass: launches, copies and waits cost more than arithmetic."""

from collections import Counter

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import quasi_newton
from snapml.solvers.newton.primal_certificate import lower_bound
from snapml.solvers.rows.device_dataset import DeviceDataset
from snapml.solvers.rows.gpu_primal_engine import GpuPrimalEngine
from snapml.solvers.stopping import StoppingRule


class CountingDevice(StrictDevice):
    """A device that counts what it is asked for."""

    def __init__(self):
        super().__init__(4, 4, n_workers=1)
        self.counts = Counter()

    def launch(self, *args, **kwargs):
        self.counts["launches"] += 1
        super().launch(*args, **kwargs)

    def to_device(self, array):
        self.counts["sent"] += 1
        return super().to_device(array)

    def to_host(self, array, out=None):
        self.counts["waits"] += 1
        return super().to_host(array, out)


def rows_of(kind, n_rows, n_features):
    rng = np.random.default_rng(0)
    if kind == "dense":
        return DenseMatrix(rng.normal(size=(n_rows, n_features)).astype(np.float32))
    indices = rng.integers(0, n_features, (n_rows, 4)).astype(np.int32)
    offsets = np.arange(n_rows + 1, dtype=np.int32) * 4
    return CompressedMatrix(offsets, np.sort(indices, axis=1).ravel(), n_features, None, np.float32)


def engine_on(device, kind, n_rows=3000, n_features=20):
    labels = np.where(np.random.default_rng(1).random(n_rows) < 0.4, 1, -1).astype(np.float32)
    problem = Problem(Logistic(), Intercept.FREE)
    dataset = Dataset(rows_of(kind, n_rows, n_features), labels, None, 1.0)
    return GpuPrimalEngine(problem, DeviceDataset.upload(device, problem, dataset), device)


@pytest.mark.parametrize(("kind", "most_launches"), [("dense", 2), ("sparse", 8)])
def test_a_pass_and_its_certificate_ask_little(kind, most_launches):
    device = CountingDevice()
    with device.use():
        engine = engine_on(device, kind)
        coef = np.full((1, 21), 0.1)
        for _ in range(2):  # the first asks for what stays
            device.counts.clear()
            loss, gradient, _ = engine.fused_pass(coef)
            engine.accept()
            lower_bound(engine, SerialCommunicator(), coef, loss, gradient)
    assert device.counts["launches"] <= most_launches
    assert device.counts["sent"] <= 2
    assert device.counts["waits"] <= 3  # sums, margins that are looked at, largest slopes


def test_a_fit_asks_less_than_ten_things_a_read():
    device = CountingDevice()
    with device.use():
        engine = engine_on(device, "dense", n_rows=8000)
        device.counts.clear()
        result = quasi_newton.solve(engine, SerialCommunicator(), StoppingRule(1e-6, 100))
    assert result.has_converged
    n_passes = len(result.history) + 10  # those over the sample, about
    assert device.counts["launches"] <= 4 * n_passes
    assert device.counts["waits"] + device.counts["sent"] <= 6 * n_passes


def test_far_rows_that_certificates_ask_for_are_the_data_s():
    device = StrictDevice()
    with device.use():
        for kind in ("dense", "sparse"):
            engine = engine_on(device, kind)
            exact = engine.host_rows()
            exact = exact if isinstance(exact, np.ndarray) else exact.toarray()
            looked_at = np.arange(0, 3000, 2)[[5, 900, 7]]
            for rows in (looked_at, np.array([1, 2, 3])):
                factors = np.array([[1.0, -2.0, 0.5]])
                for _ in range(2):
                    found = engine.weighted_rows(rows, factors)
                    np.testing.assert_allclose(found, factors @ exact[rows], rtol=1e-12, atol=1e-12)
                    assert engine.labels(rows).shape == (1, 3)
                    assert engine.curvatures(rows).shape == (1, 3)
