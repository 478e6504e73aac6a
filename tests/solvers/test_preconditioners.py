"""What conjugate gradients on the softmax are scaled by, and rows that products leave out."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Penalty, Problem, Softmax, SquaredHinge
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import curvature, newton_steps, preconditioners, quasi_newton
from snapml.solvers.newton.descent import Descent
from snapml.solvers.newton.newton_steps import NewtonSteps
from snapml.solvers.newton.preconditioners import KroneckerCurvature
from snapml.solvers.stopping import StoppingRule

from .primal_engines import GPUS, on_cpu
from .simulated import solve_shards

SERIAL = SerialCommunicator()
N_CLASSES, N_ROWS, N_FEATURES = 4, 90, 6
PLACES = {"cpu": on_cpu, **GPUS}


def make_rows(is_sparse=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * 3.0 ** np.arange(-3, 3) + 1.0
    X[rng.random(X.shape) < 0.3] = 0.0
    y = (X[:, :N_CLASSES] + rng.normal(size=(N_ROWS, N_CLASSES))).argmax(axis=1).astype(float)
    rows = csr_matrix(X)
    sparse = CompressedMatrix(rows.indptr, rows.indices, N_FEATURES, rows.data)
    return X, Dataset(sparse if is_sparse else DenseMatrix(X), y, rng.uniform(1, 3, N_ROWS), 1.0)


def hessian_at_zero(X, c, bias, problem):
    """Return the objective's Hessian where all classes are as likely: a product, exactly."""
    mixing = np.eye(N_CLASSES) / N_CLASSES - 1.0 / N_CLASSES**2
    columns = np.column_stack([X, np.full(N_ROWS, bias)])
    ridge = np.full(N_FEATURES + 1, problem.penalty.l2)
    if problem.intercept is Intercept.FREE:
        ridge[-1] = 0.0
    return np.kron(mixing, (columns.T * c) @ columns) + np.kron(np.eye(N_CLASSES), np.diag(ridge))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
def test_where_the_hessian_is_a_product_its_inverse_is_exact(
    intercept, is_sparse, place, monkeypatch
):
    monkeypatch.setattr(preconditioners, "_ALIKE", 1.0 + 1e-12)
    X, dataset = make_rows(is_sparse)
    problem = Problem(Softmax(N_CLASSES), intercept, penalty=Penalty(l2=0.5))
    engine = PLACES[place](problem, dataset)
    _, gradient, _ = engine.fused_pass(engine.vectors.zeros((N_CLASSES, N_FEATURES + 1)))
    engine.accept()
    found = engine.to_host(KroneckerCurvature(engine, SERIAL).solve(gradient))
    slope, hessian = (
        engine.to_host(gradient),
        hessian_at_zero(X, dataset.row_weights, engine.bias_column, problem),
    )
    # What all classes have in common has no slope, and where there is no penalty no curvature.
    exact = np.linalg.lstsq(hessian, slope.ravel(), rcond=1e-12)[0]
    np.testing.assert_allclose(found.ravel(), exact, rtol=1e-6, atol=1e-8 * abs(exact).max())


def test_shared_factors_are_right_to_the_root_of_their_ratio():
    _, dataset = make_rows()
    problem = Problem(Softmax(N_CLASSES), Intercept.FREE)
    engine = on_cpu(problem, dataset)
    _, gradient, _ = engine.fused_pass(np.zeros((N_CLASSES, N_FEATURES + 1)))
    engine.accept()
    own = KroneckerCurvature(engine, SERIAL)
    shared = float(np.vdot(gradient, own.solve(gradient)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preconditioners, "_ALIKE", 1.0 + 1e-12)
        own.update(engine, SERIAL)
    exact = float(np.vdot(gradient, own.solve(gradient)))
    assert exact / np.sqrt(2) <= shared <= exact * np.sqrt(2)
    assert shared != exact


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30))
@example([0.0, 0.0])
@example([1e-9, 1.0, 1.9, 2.0])
def test_strengths_of_a_group_are_alike(values):
    strengths = np.sort(values)
    groups = preconditioners._groups(strengths)
    members = [k for group in groups for k in range(len(strengths))[group.members]]
    assert members == list(range(len(strengths)))
    for shared, own, scales in groups:
        raised = np.maximum(strengths[own], 1e-6 * strengths[-1])
        assert scales.shape == (len(raised), 1) != (0, 1)
        assert scales[:, 0] * raised == pytest.approx(np.full(len(raised), shared))
        assert (scales >= 0.7).all()
        assert (scales <= 1.42).all()


def pixels(n_rows=500, size=8, n_classes=5, seed=0):
    """Return correlated columns without negative entries, as images have them, and classes."""
    rng = np.random.default_rng(seed)
    steps = np.arange(size)
    blur = np.exp(-0.5 * ((steps[:, None] - steps) / 2.0) ** 2)
    y = rng.integers(0, n_classes, n_rows)
    images = 0.1 * rng.normal(size=(n_classes, size, size))[y]  # the classes overlap
    images += rng.normal(size=(n_rows, size, size))
    X = np.clip(40.0 * (blur @ images @ blur.T), 0.0, 255.0).reshape(n_rows, -1)
    return X, y.astype(float)


def solved(problem, dataset, make=on_cpu, tol=1e-8, max_iter=200):
    """Return the result of Newton's steps by products, and how many products they took."""
    products = []
    with pytest.MonkeyPatch.context() as patch:
        for module in (curvature, quasi_newton):
            patch.setattr(module, "MOST_JOINT_COLUMNS", 0)
        plain = NewtonSteps._product
        patch.setattr(NewtonSteps, "_product", lambda *args: (products.append(1), plain(*args))[1])
        result = quasi_newton.solve(make(problem, dataset), SERIAL, StoppingRule(tol, max_iter))
    return result, len(products)


def test_correlated_columns_take_a_third_of_the_products(monkeypatch):
    X, y = pixels()
    problem, dataset = Problem(Softmax(5), Intercept.FREE), Dataset(DenseMatrix(X), y, None, 1.0)
    monkeypatch.setattr(newton_steps, "products_of_factors", lambda *args: 3.0)
    result, count = solved(problem, dataset)
    monkeypatch.setattr(KroneckerCurvature, "suits", staticmethod(lambda engine: False))
    plain, plain_count = solved(problem, dataset, max_iter=2000)
    assert result.has_converged
    assert "conjugate gradients" in result.description
    assert 3 * count < plain_count
    assert result.objective - result.gap <= plain.objective + 1e-12 * plain.objective


@pytest.mark.parametrize("place", GPUS)
def test_devices_take_the_same_steps(place, monkeypatch):
    X, y = pixels(n_rows=60, size=4)
    problem, dataset = Problem(Softmax(5), Intercept.FREE), Dataset(DenseMatrix(X), y, None, 1e-3)
    monkeypatch.setattr(newton_steps, "products_of_factors", lambda *args: 3.0)
    cpu, cpu_count = solved(problem, dataset, tol=1e-6)
    gpu, gpu_count = solved(problem, dataset, GPUS[place], tol=1e-6)
    assert cpu.has_converged
    assert gpu.has_converged
    assert gpu_count == cpu_count > 6
    assert gpu.objective == pytest.approx(cpu.objective, rel=1e-9)


def test_shards_have_the_model_of_all_rows(monkeypatch):
    X, y = pixels()
    problem = Problem(Softmax(5), Intercept.FREE)
    for module in (curvature, quasi_newton):
        monkeypatch.setattr(module, "MOST_JOINT_COLUMNS", 0)
    monkeypatch.setattr(newton_steps, "products_of_factors", lambda *args: 3.0)
    parts = [slice(0, 80), slice(80, None)]
    engines = [
        lambda at=at: on_cpu(problem, Dataset(DenseMatrix(X[at]), y[at], None, 1.0)) for at in parts
    ]
    rule = StoppingRule(1e-9, 500)
    first, second = solve_shards(engines, rule, quasi_newton.solve)
    alone, _ = solved(problem, Dataset(DenseMatrix(X), y, None, 1.0), tol=1e-9)
    assert first.has_converged
    assert first.coef.tobytes() == second.coef.tobytes()
    assert first.objective == pytest.approx(alone.objective, rel=1e-8)


def test_steps_go_on_from_a_state_as_they_would_have(monkeypatch):
    monkeypatch.setattr(newton_steps, "products_of_factors", lambda *args: 3.0)
    X, y = pixels()
    problem, dataset = Problem(Softmax(5), Intercept.FREE), Dataset(DenseMatrix(X), y, None, 1.0)

    def begun():
        engine = on_cpu(problem, dataset)
        steps = NewtonSteps(engine, SERIAL, 1000, 1e-8)
        return steps, Descent(engine, SERIAL, np.zeros((5, X.shape[1] + 1)))

    steps, descent = begun()
    descent.begin()
    for _ in range(5):
        steps.step(descent, np.inf)
    kept = steps.state(), descent.state()
    assert kept[0]["point"] is not None
    decrements = [steps.step(descent, np.inf) for _ in range(3)]
    again, other = begun()
    again.resume(kept[0])
    other.resume(kept[1])
    assert [again.step(other, np.inf) for _ in range(3)] == decrements
    np.testing.assert_array_equal(other.coef, descent.coef)


LOSSES = {"logistic": Logistic(), "squared hinge": SquaredHinge(), "softmax": Softmax(3)}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("share", [0.01, 0.5])
def test_products_without_flat_rows_are_near_those_with_them(share, unit, is_sparse, loss):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 5))
    rows = csr_matrix(unit * X)
    matrix = CompressedMatrix(rows.indptr, rows.indices, 5, rows.data)
    n_outputs = 3 if loss.is_joint else 1
    y = rng.integers(0, 3, 400).astype(float) if loss.is_joint else np.sign(X[:, 0])
    matrix = matrix if is_sparse else DenseMatrix(unit * X)
    problem = Problem(loss, Intercept.FREE, penalty=Penalty(l2=0.1))
    engine = on_cpu(problem, Dataset(matrix, y, rng.uniform(0.5, 2.0, 400), 1.0))
    coef = np.zeros((n_outputs, 6))
    coef[:2, 0] = (
        np.array([40.0, -40.0])[:n_outputs] / unit
    )  # most rows are far from where the loss bends
    engine.fused_pass(coef)
    engine.accept()
    directions = rng.normal(size=(20, n_outputs, 6)) / np.append(np.full(5, unit), 1.0)
    whole = [engine.hessian_product(d) for d in directions]
    engine.leave_flat_rows(share)
    assert engine._curved is not None
    assert engine._curved.n_rows < 200
    for direction, full in zip(directions, whole, strict=True):
        rest = np.vdot(direction, engine.hessian_product(direction))
        missing = np.vdot(direction, full) - rest
        penalty = 0.1 * np.vdot(direction[:, :-1], direction[:, :-1])
        # The intercept has no penalty: what is left of its own curvature stands for it.
        bias = np.vdot(direction[:, -1], direction[:, -1]) * engine.curvatures().sum()
        allowed = 2.0 * share * (penalty + bias)  # (a + b)^2 <= 2 a^2 + 2 b^2
        assert -1e-9 * abs(np.vdot(direction, full)) <= missing <= allowed + 1e-9 * abs(rest)
    engine.accept()
    assert engine._curved is None


def test_rows_stay_where_most_have_curvature():
    _, dataset = make_rows()
    engine = on_cpu(Problem(Softmax(N_CLASSES), Intercept.FREE), dataset)
    engine.fused_pass(np.zeros((N_CLASSES, N_FEATURES + 1)))
    engine.accept()
    engine.leave_flat_rows(0.01)
    assert engine._curved is None
