"""The quasi-Newton solver on an emulated GPU finds what it finds on the CPU."""

from functools import partial

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice

from snapml.data import Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Penalty, Problem, Softmax, Squared, SquaredHinge
from snapml.solvers import curvature, quasi_newton, sampled_curvature
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.curvature import DenseCurvature, HotCurvature
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.thread_shards import row_shards, solve_together

from .cases import Case
from .primal_engines import on_cpu, on_emulated_gpu

SERIAL = SerialCommunicator()


def both(problem, dataset, rule, **options):
    """Return the results of the CPU and of the emulated device."""
    return [
        quasi_newton.solve(make(problem, dataset), SERIAL, rule, **options)
        for make in (on_cpu, on_emulated_gpu)
    ]


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), SquaredHinge()], ids=str)
def test_objective_is_the_cpus_and_the_certificate_holds(loss, intercept, is_sparse, dtype):
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
def test_softmax_is_the_cpus(kind, most_joint, monkeypatch):
    monkeypatch.setattr(curvature, "MOST_JOINT_COLUMNS", most_joint)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X[:, :4] @ rng.normal(size=(4, 3)) + rng.normal(size=(300, 3))).argmax(axis=1)
    dataset = Dataset(DenseMatrix(X), y.astype(float), None, 0.1)
    cpu, gpu = both(Problem(Softmax(3), kind), dataset, StoppingRule(1e-9, 100))
    assert gpu.objective == pytest.approx(cpu.objective, rel=1e-8)
    assert gpu.has_converged
    assert gpu.gap <= 1e-8 * gpu.objective


def test_outputs_share_the_reads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 5))
    labels = np.sign(X[:, :3] + 0.5 * rng.normal(size=(250, 3))).T.copy()
    weights = rng.integers(0, 3, labels.shape).astype(float)
    dataset = Dataset(DenseMatrix(X), labels, weights, 1.0)
    cpu, gpu = both(Problem(Logistic(), Intercept.FREE), dataset, StoppingRule(1e-9, 100))
    assert gpu.coef.shape == (3, 5)
    np.testing.assert_allclose(gpu.coef, cpu.coef, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("n_features", [6, 300])
def test_curvature_of_a_sample_leads_to_the_same_answer(n_features, monkeypatch):
    monkeypatch.setattr(
        sampled_curvature, "sample_rows", lambda engine, total: min(total, 2 * engine.n_features)
    )
    case = Case(Logistic(), Intercept.FREE, "float32", n_rows=1000, n_features=n_features)
    cpu, gpu = both(case.problem, case.dataset(), StoppingRule(1e-6, 200))
    assert "curvature from" in gpu.description
    assert gpu.n_iter == pytest.approx(cpu.n_iter, abs=3)
    assert gpu.objective == pytest.approx(cpu.objective, rel=1e-5)


def test_wide_sparse_rows_take_steps_from_products_with_the_hessian(dtype):
    case = Case(Logistic(), Intercept.FREE, dtype.name, is_sparse=True, n_rows=150, n_features=600)
    tol = 1e-8 if dtype == np.float64 else 1e-6
    cpu, gpu = both(case.problem, case.dataset(), StoppingRule(tol, 100))
    assert gpu.has_converged
    assert gpu.objective == pytest.approx(cpu.objective, rel=10 * tol)
    assert "conjugate gradients" in gpu.description


def test_block_and_diagonal_of_wide_sparse_rows_are_the_cpus():
    """They serve losses whose curvature jumps, and fits without a penalty."""
    case = Case(SquaredHinge(), Intercept.FREE, is_sparse=True, n_rows=150, n_features=600)
    gradient = np.random.default_rng(0).normal(size=(1, 601))
    steps = []
    for make in (on_cpu, on_emulated_gpu):
        engine = make(case.problem, case.dataset())
        engine.fused_pass(np.zeros((1, 601)))
        engine.accept()
        steps.append(HotCurvature(engine, SERIAL).solve(gradient))
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-9)


@pytest.mark.parametrize("is_singular", [False, True], ids=["definite", "singular"])
def test_fit_without_a_penalty_is_the_shortest(is_singular):
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
def test_step_of_the_curvature_is_the_cpus_where_columns_repeat(is_penalised):
    """An indefinite matrix makes the device's factor fail in silence: eigenvalues take over."""
    case = Case(Squared(), Intercept.FREE, n_rows=80, n_features=4)
    X = case.objective.X
    dataset = Dataset(DenseMatrix(np.column_stack([X, X, X])), case.objective.y, None, 1.0)
    problem = Problem(Squared(), Intercept.FREE, penalty=Penalty(0.0, float(is_penalised)))
    gradient = np.random.default_rng(0).normal(size=(1, 5))[:, [0, 1, 2, 3] * 3 + [4]]
    steps = []
    for make in (on_cpu, on_emulated_gpu):
        engine = make(problem, dataset)
        engine.fused_pass(np.zeros((1, 13)))
        engine.accept()
        steps.append(DenseCurvature(engine, SERIAL).solve(gradient))
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_shards_of_rows_are_the_rows(is_sparse):
    dataset = Case(Logistic(), is_sparse=is_sparse, n_rows=10).dataset()
    shards = row_shards(dataset, 3)
    assert [shard.matrix.shape[0] for shard in shards] == [3, 3, 4]
    whole = [on_cpu(Problem(Logistic()), part).host_rows() for part in (dataset, *shards)]
    dense = [rows.toarray() if is_sparse else rows for rows in whole]
    np.testing.assert_array_equal(np.vstack(dense[1:]), dense[0])
    np.testing.assert_array_equal(np.hstack([s.labels for s in shards]), dataset.labels)
    np.testing.assert_array_equal(np.hstack([s.row_weights for s in shards]), dataset.row_weights)


def test_shards_on_two_devices_hold_one_model():
    case = Case(Logistic(), Intercept.FREE, n_rows=120)
    coefs = []

    def solve(shard, communicator):
        engine = on_emulated_gpu(case.problem, shard, device=StrictDevice())
        result = quasi_newton.solve(engine, communicator, StoppingRule(1e-8, 100))
        coefs.append(result.coef.tobytes())
        return result

    shards = row_shards(case.dataset(), 2)
    result, _ = solve_together([partial(solve, shard) for shard in shards])
    assert coefs[0] == coefs[1]
    assert case.suboptimality(result) <= result.gap


def test_sum_that_all_came_to_reaches_those_who_wake_after_an_error():
    """A hundred times: the slow shards must see the sum, and fail for their own reason."""

    def solve(rank, communicator):
        for _ in range(3):
            total = communicator.allreduce_sum(np.array([1.0]))
        assert total[0] == 4.0
        raise (NonFiniteError if rank == 3 else ValueError)(f"shard {rank}")

    for _ in range(100):
        with pytest.raises(NonFiniteError, match="shard 3"):
            solve_together([partial(solve, rank) for rank in range(4)])


@pytest.mark.parametrize("failing", [0, 2])
def test_shards_do_not_wait_for_one_that_failed(failing):
    def solve(rank, communicator):
        if rank == failing:
            raise MemoryError("no room")
        communicator.allreduce_sum(np.zeros(2))

    with pytest.raises(MemoryError, match="no room"):
        solve_together([partial(solve, rank) for rank in range(4)])


def test_equal_fits_give_equal_bits_whatever_order_the_threads_run_in():
    case = Case(Logistic(), Intercept.FREE, is_sparse=True, n_rows=150)
    results = [
        quasi_newton.solve(
            on_emulated_gpu(case.problem, case.dataset(), device=StrictDevice(seed=seed)),
            SERIAL,
            StoppingRule(1e-8, 100),
        )
        for seed in (0, 1, 2)
    ]
    assert len({result.coef.tobytes() for result in results}) == 1
