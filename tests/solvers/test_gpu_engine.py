"""What only the GPU's dual engine does: many rows at once, damped; the vector's two places."""

import numpy as np
import pytest
from kernels.emulator import EmulatedDevice

from snapml.problems import Intercept, Logistic, Squared
from snapml.solvers.certificate import certify
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent import gpu_engine
from snapml.solvers.dual_ascent.dual_coordinate_ascent import solve
from snapml.solvers.dual_ascent.gpu_engine import GpuEngine
from snapml.solvers.stopping import StoppingRule

from .cases import Case

pytestmark = pytest.mark.usefixtures("no_polish")

# Rows that point nearly the same way: undamped, 16 of them at once go many times too far.
PARALLEL = Case(Squared(), is_sparse=True, n_rows=64, n_features=4, scale=0.3, offset=1.0)


def make(case, *, n_workers=1, device_seed=0, **options):
    device = EmulatedDevice(4, 4, seed=device_seed, n_workers=n_workers)
    return GpuEngine(case.problem, case.dataset(), device, **options)


def dual_objective(engine):
    return certify(engine, SerialCommunicator()).lower_bound


def dual_objectives(engine, n_epochs):
    """Return the dual objective before every epoch and after the last."""
    found = [dual_objective(engine)]
    for epoch in range(n_epochs):
        engine.dual_epoch(epoch)
        found.append(dual_objective(engine))
    return np.array(found)


def test_undamped_rows_diverge_and_damped_ones_do_not(monkeypatch):
    monkeypatch.setattr(gpu_engine.Concurrency, "learn", lambda *_: None)
    damped = make(PARALLEL, rows_in_flight=16)
    assert damped._concurrency.sigma > 8
    assert np.all(np.diff(dual_objectives(damped, 3)) > 0)
    assert damped._concurrency.rows == 16  # nothing had to be undone

    undamped = make(PARALLEL, rows_in_flight=16)
    undamped._concurrency.sigma = 1.0
    monkeypatch.setattr(gpu_engine, "_ROUNDINGS", np.inf)  # nothing is undone
    found = dual_objectives(undamped, 3)
    assert not found[-1] > found[0] - 1e3 * abs(found[0])


def test_epoch_that_lowers_the_dual_objective_is_undone(monkeypatch):
    monkeypatch.setattr(gpu_engine, "measure_coupling", lambda *_: 0.0)  # says that all is well
    engine = make(PARALLEL, rows_in_flight=16)
    assert engine._concurrency.sigma == 1.0
    assert np.all(np.diff(dual_objectives(engine, 4)) > 0)
    assert engine._concurrency.sigma > 2.0


def test_factor_that_was_needed_is_measured():
    """Rows that share no column need none; the first guess is replaced by what is seen."""
    case = Case(Logistic(), is_sparse=True, n_rows=64, n_features=4)
    engine = make(case, rows_in_flight=8)
    engine._concurrency.sigma = 8.0
    for epoch in range(8):
        engine.dual_epoch(epoch)
    assert 1.0 <= engine._concurrency.sigma < 4.0


def test_equal_fits_give_equal_bits_whatever_the_order_of_threads():
    case = Case(Logistic(), Intercept.FREE, is_sparse=True, dtype="float32", scale=0.4)
    results = set()
    for n_workers, device_seed in [(1, 0), (3, 1), (4, 2)]:
        engine = make(case, n_workers=n_workers, device_seed=device_seed, rows_in_flight=16)
        result = solve(engine, SerialCommunicator(), StoppingRule(1e-3, 100))
        results.add((result.coef.tobytes(), result.intercept, result.gap, result.n_iter))
    assert len(results) == 1


def test_rows_at_once_reach_the_optimum():
    case = Case(Logistic(), Intercept.FREE, is_sparse=True, scale=0.4)
    engine = make(case, n_workers=4, deterministic=False)
    result = solve(engine, SerialCommunicator(), StoppingRule(1e-6, 100))
    assert result.has_converged
    assert case.suboptimality(result) <= result.gap
    assert "at once" in result.description


def test_shared_vector_is_the_image_of_the_dual_variables_after_many_epochs():
    """In fixed point nothing drifts, even in float32."""
    case = Case(Logistic(), is_sparse=True, dtype="float32")
    engine = make(case, rows_in_flight=16)
    for epoch in range(10):
        engine.dual_epoch(epoch)
    _, image = engine.exact_sweep(1.0, 1.0)
    found = engine._vector.wide()
    assert np.abs(image[:-1]).max() > 0.1
    np.testing.assert_allclose(found[:-1], image[:-1], atol=2e-6 * np.abs(image).max())


def test_what_is_written_into_the_shared_vector_reaches_the_device():
    case = Case(Squared(), is_sparse=True)
    engines = [make(case, rows_in_flight=4) for _ in range(2)]
    engines[0].shared[2] = 0.75
    for engine in engines:
        engine.dual_epoch(0)
    assert not np.array_equal(engines[0].shared, engines[1].shared)
    assert engines[0].shared[2] != engines[1].shared[2]


def test_shared_vector_that_is_only_read_stays_as_exact_as_it_is():
    case = Case(Logistic(), is_sparse=True, dtype="float32")
    engines = [make(case, rows_in_flight=4) for _ in range(2)]
    for epoch in range(2):
        for engine in engines:
            engine.dual_epoch(epoch)
        _ = engines[0].shared
    assert engines[0]._vector.entries.tobytes() == engines[1]._vector.entries.tobytes()


def test_states_may_be_replaced():
    case = Case(Squared(), is_sparse=True)
    engine = make(case)
    engine.duals = np.zeros(case.n_rows)
    np.testing.assert_array_equal(engine.duals, 0.0)
    c, y = case.objective.c, case.objective.y
    beta = c * y
    assert sum(engine.dual_mass()) == pytest.approx(beta.sum())
