"""The quasi-Newton solver on an emulated GPU finds what it finds on the CPU."""

from dataclasses import replace

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Penalty, Problem, Softmax, Squared, SquaredHinge
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import curvature, quasi_newton, sampled_curvature
from snapml.solvers.newton.curvature import DenseCurvature, HotCurvature
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .primal_engines import GPUS, on_cpu, with_device_vectors

pytestmark = pytest.mark.pairwise

SERIAL = SerialCommunicator()


@pytest.fixture(params=GPUS.values(), ids=GPUS)
def on_gpu(request):
    return request.param


@pytest.fixture
def both(on_gpu):
    """Return the results of the CPU and of the emulated device."""

    def solve(problem, dataset, rule):
        return [
            quasi_newton.solve(make(problem, dataset), SERIAL, rule) for make in (on_cpu, on_gpu)
        ]

    return solve


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), SquaredHinge()], ids=str)
def test_objective_is_the_cpus_and_the_certificate_holds(both, loss, intercept, is_sparse, dtype):
    case = Case(loss, intercept, dtype.name, is_sparse=is_sparse, n_rows=200, n_features=8)
    tol = 1e-9 if dtype == np.float64 else 1e-6
    cpu, gpu = both(case.problem, case.dataset(), StoppingRule(tol, 100))
    agreement = 1e-8 if dtype == np.float64 else 1e-5
    assert gpu.objective == pytest.approx(cpu.objective, rel=agreement)
    assert gpu.has_converged
    assert case.suboptimality(gpu) <= gpu.gap + 1e-13 * case.optimum.objective
    assert gpu.gap <= 2 * tol * gpu.objective
    assert gpu.description == cpu.description.replace("1 thread", "emulated device")


@pytest.mark.parametrize("kind", [Intercept.NONE, Intercept.FREE], ids=lambda kind: kind.value)
@pytest.mark.parametrize("most_joint", [1200, 0], ids=["all classes at once", "class by class"])
def test_softmax_is_the_cpus(both, kind, most_joint, monkeypatch):
    monkeypatch.setattr(curvature, "MOST_JOINT_COLUMNS", most_joint)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X[:, :4] @ rng.normal(size=(4, 3)) + rng.normal(size=(300, 3))).argmax(axis=1)
    dataset = Dataset(DenseMatrix(X), y.astype(float), None, 0.1)
    cpu, gpu = both(Problem(Softmax(3), kind), dataset, StoppingRule(1e-9, 100))
    assert gpu.objective == pytest.approx(cpu.objective, rel=1e-8)
    assert gpu.has_converged
    assert gpu.gap <= 1e-8 * gpu.objective


def test_outputs_share_the_reads(both):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 5))
    labels = np.sign(X[:, :3] + 0.5 * rng.normal(size=(250, 3))).T.copy()
    weights = rng.integers(0, 3, labels.shape).astype(float)
    dataset = Dataset(DenseMatrix(X), labels, weights, 1.0)
    cpu, gpu = both(Problem(Logistic(), Intercept.FREE), dataset, StoppingRule(1e-9, 100))
    assert gpu.coef.shape == (3, 5)
    np.testing.assert_allclose(gpu.coef, cpu.coef, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("n_features", [6, 300])
def test_curvature_of_a_sample_leads_to_the_same_answer(both, n_features, monkeypatch):
    monkeypatch.setattr(
        sampled_curvature, "sample_rows", lambda engine, total: min(total, 2 * engine.n_features)
    )
    monkeypatch.setattr(sampled_curvature, "_WORTH_WAITING", np.inf)  # a host might do without
    case = Case(Logistic(), Intercept.FREE, "float32", n_rows=1000, n_features=n_features)
    cpu, gpu = both(case.problem, case.dataset(), StoppingRule(1e-6, 200))
    assert "curvature from" in gpu.description
    # Products cost less there, so that a sample grows sooner.
    assert gpu.n_iter <= cpu.n_iter + 3
    assert gpu.objective == pytest.approx(cpu.objective, rel=1e-5)


def test_wide_sparse_rows_take_steps_from_products_with_the_hessian(both, dtype):
    case = Case(Logistic(), Intercept.FREE, dtype.name, is_sparse=True, n_rows=150, n_features=600)
    tol = 1e-8 if dtype == np.float64 else 1e-6
    cpu, gpu = both(case.problem, case.dataset(), StoppingRule(tol, 100))
    assert gpu.has_converged
    assert gpu.objective == pytest.approx(cpu.objective, rel=10 * tol)
    assert "conjugate gradients" in gpu.description


def test_wide_sparse_rows_without_a_penalty_take_steps_from_a_block(both):
    case = Case(Logistic(), Intercept.FREE, is_sparse=True, n_rows=150, n_features=600)
    problem = replace(case.problem, penalty=Penalty(0.0, 0.0))
    cpu, gpu = both(problem, case.dataset(), StoppingRule(1e-8, 12))
    assert gpu.n_iter == cpu.n_iter
    assert gpu.objective == pytest.approx(cpu.objective, rel=1e-6)
    assert gpu.gap == pytest.approx(cpu.gap, rel=1e-6)
    assert "curvature from" in gpu.description


def test_block_and_diagonal_of_wide_sparse_rows_are_the_cpus(on_gpu):
    """They serve fits without a penalty."""
    case = Case(SquaredHinge(), Intercept.FREE, is_sparse=True, n_rows=150, n_features=600)
    gradient = np.random.default_rng(0).normal(size=(1, 601))
    steps = []
    for make in (on_cpu, on_gpu):
        engine = make(case.problem, case.dataset())
        engine.fused_pass(np.zeros((1, 601)))
        engine.accept()
        step = HotCurvature(engine, SERIAL).solve(engine.to_vectors(gradient))
        steps.append(engine.to_host(step))
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-9)


@pytest.mark.parametrize("is_singular", [False, True], ids=["definite", "singular"])
def test_fit_without_a_penalty_is_the_shortest(both, is_singular):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = np.sign(X @ rng.normal(size=5) + 2 * rng.normal(size=200))
    X = np.column_stack([X, X[:, 0]]) if is_singular else X
    problem = Problem(Logistic(), Intercept.FREE, penalty=Penalty(0.0, 0.0))
    cpu, gpu = both(problem, Dataset(DenseMatrix(X), y, None, 1.0), StoppingRule(1e-10, 100))
    np.testing.assert_allclose(gpu.coef, cpu.coef, rtol=1e-6)
    if is_singular:
        assert gpu.coef[0] == pytest.approx(gpu.coef[5])


@pytest.mark.parametrize("is_penalised", [False, True])
def test_step_of_the_curvature_is_the_cpus_where_columns_repeat(on_gpu, is_penalised):
    """An indefinite matrix makes the device's factor fail in silence: eigenvalues take over."""
    case = Case(Squared(), Intercept.FREE, n_rows=80, n_features=4)
    X = case.objective.X
    dataset = Dataset(DenseMatrix(np.column_stack([X, X, X])), case.objective.y, None, 1.0)
    problem = Problem(Squared(), Intercept.FREE, penalty=Penalty(0.0, float(is_penalised)))
    gradient = np.random.default_rng(0).normal(size=(1, 5))[:, [0, 1, 2, 3] * 3 + [4]]
    steps = []
    for make in (on_cpu, on_gpu):
        engine = make(problem, dataset)
        engine.fused_pass(np.zeros((1, 13)))
        engine.accept()
        step = DenseCurvature(engine, SERIAL).solve(engine.to_vectors(gradient))
        steps.append(engine.to_host(step))
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-9, atol=1e-12)


def test_equal_fits_give_equal_bits_whatever_order_the_threads_run_in(on_gpu):
    case = Case(Logistic(), Intercept.FREE, is_sparse=True, n_rows=150)
    results = [
        quasi_newton.solve(
            on_gpu(case.problem, case.dataset(), device=StrictDevice(seed=seed)),
            SERIAL,
            StoppingRule(1e-8, 100),
        )
        for seed in (0, 1, 2)
    ]
    assert len({result.coef.tobytes() for result in results}) == 1


class CountingDevice(StrictDevice):
    """Adds up what crosses the border."""

    n_bytes = 0

    def to_device(self, array):
        self.n_bytes += array.nbytes
        return super().to_device(array)

    def to_host(self, array, out=None):
        self.n_bytes += array.nbytes
        return super().to_host(array, out)


@pytest.mark.parametrize("penalty", [Penalty(), Penalty(0.0, 0.0)], ids=str)
def test_what_crosses_the_border_does_not_grow_with_the_columns(penalty):
    """By products with the Hessian, and by a block and a diagonal; entries a row stay the same."""
    rng = np.random.default_rng(0)
    per_pass = []
    for n_features in (700, 7000):
        indices = np.sort(rng.integers(0, n_features, (300, 10)), axis=1)
        matrix = CompressedMatrix(
            np.arange(0, 3001, 10, np.int32), indices.ravel().astype(np.int32), n_features,
            rng.normal(size=3000),
        )  # fmt: skip
        y = np.sign(rng.normal(size=300))
        device = CountingDevice()
        dataset = Dataset(matrix, y, None, 1.0)
        problem = Problem(Logistic(), Intercept.FREE, penalty=penalty)
        engine = with_device_vectors(problem, dataset, device=device)
        before = device.n_bytes
        result = quasi_newton.solve(engine, SERIAL, StoppingRule(1e-8, 12))
        coefficients = result.coef.nbytes + 8  # read once, at the end
        per_pass.append((device.n_bytes - before - coefficients) / (result.n_iter + 1))
    assert 0 < per_pass[1] < 1.5 * per_pass[0]
