"""Newton steps by conjugate gradients: on wide sparse rows, alone and on several shards."""

import numpy as np
import pytest
from reference.data import make_rows, make_weights
from reference.softmax import softmax_objective, softmax_optimum
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset
from snapml.problems import Intercept, Problem, Softmax, Squared, SquaredHinge
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import quasi_newton
from snapml.solvers.newton.newton_steps import NewtonSteps
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.stopping import StoppingRule

from .simulated import solve_shards

N_CLASSES, N_ROWS, N_FEATURES = 3, 60, 8


def make_case(weight=2.0):
    """Return sparse rows of columns with very different scales, classes and weights."""
    X = make_rows(N_ROWS, N_FEATURES, density=0.5) * 4.0 ** np.arange(-4, 4)
    scores = X / (1.0 + np.abs(X).max(axis=0)) @ np.random.default_rng(1).normal(size=(8, 3))
    y = np.argmax(scores + 0.3 * np.random.default_rng(2).gumbel(size=scores.shape), axis=1)
    return X, y, weight * make_weights(N_ROWS)


def make_engine(X, y, c, intercept):
    rows = csr_matrix(X)
    matrix = CompressedMatrix(rows.indptr, rows.indices, X.shape[1], rows.data)
    problem = Problem(Softmax(N_CLASSES), intercept)
    return CpuPrimalEngine(problem, Dataset(matrix, y.astype(float), c, 1.0), n_threads=1)


@pytest.fixture
def every_sparse_matrix_is_wide(monkeypatch):
    monkeypatch.setattr(quasi_newton, "HOT_COLUMNS", N_FEATURES - 1)


@pytest.mark.usefixtures("every_sparse_matrix_is_wide")
@pytest.mark.parametrize("weight", [0.01, 2.0, 1000.0])
@pytest.mark.parametrize("intercept", [Intercept.NONE, Intercept.FREE], ids=lambda k: k.value)
def test_fit_is_within_its_certified_gap(intercept, weight):
    X, y, c = make_case(weight)
    best = softmax_optimum(X, y, c, has_intercept=intercept is Intercept.FREE)
    engine = make_engine(X, y, c, intercept)
    for max_iter in (1, 5, 500):
        result = quasi_newton.solve(engine, SerialCommunicator(), StoppingRule(1e-9, max_iter))
        objective = softmax_objective(result.coef, result.intercept, X, y, c)
        assert "conjugate gradients" in result.description
        assert result.objective == pytest.approx(objective, rel=1e-12)
        assert -1e-12 * best <= objective - best <= result.gap + 1e-12 * best
    assert result.gap <= 1e-9 * result.objective


@pytest.mark.parametrize(
    ("n_rows", "few", "takes_products"), [(53, 26, True), (54, 26, False), (53, 27, False)]
)
def test_classes_of_few_rows_take_products_and_so_do_shards_of_these(
    n_rows, few, takes_products, monkeypatch
):
    # 27 coefficients, twice as many rows
    monkeypatch.setattr(quasi_newton, "_ROWS_A_COEF", 2)
    monkeypatch.setattr(quasi_newton, "_FEW_COEFS", few)
    X, y, c = (each[:n_rows] for each in make_case())
    parts = [slice(0, 30), slice(30, n_rows)]
    engines = [lambda at=at: make_engine(X[at], y[at], c[at], Intercept.FREE) for at in parts]
    engine = make_engine(X, y, c, Intercept.FREE)
    assert quasi_newton.suits_products(engine, n_rows) == takes_products
    alone = quasi_newton.solve(engine, SerialCommunicator(), StoppingRule(1e-9, 500))
    for result in [alone, *solve_shards(engines, StoppingRule(1e-9, 500), quasi_newton.solve)]:
        assert result.has_converged
        assert ("conjugate gradients" in result.description) == takes_products


@pytest.mark.usefixtures("every_sparse_matrix_is_wide")
@pytest.mark.parametrize("intercept", Intercept, ids=lambda k: k.value)
def test_shards_hold_the_model_of_all_rows(intercept):
    X, y, c = make_case()
    parts = [slice(0, 7), slice(7, N_ROWS)]
    engines = [lambda at=at: make_engine(X[at], y[at], c[at], intercept) for at in parts]
    rule = StoppingRule(1e-9, 500)
    first, second = solve_shards(engines, rule, quasi_newton.solve)
    alone = quasi_newton.solve(make_engine(X, y, c, intercept), SerialCommunicator(), rule)
    assert first.has_converged
    assert first.coef.tobytes() == second.coef.tobytes()
    assert first.objective == pytest.approx(alone.objective, rel=1e-8)


@pytest.mark.usefixtures("every_sparse_matrix_is_wide")
@pytest.mark.parametrize("tol", [1e-4, 1e-10])
@pytest.mark.parametrize("intercept", Intercept, ids=lambda k: k.value)
def test_a_quadratic_loss_takes_one_step_to_the_gap_asked_for(intercept, tol):
    X, _, c = make_case()
    y = X @ np.arange(N_FEATURES) + np.random.default_rng(0).standard_normal(N_ROWS)
    rows = csr_matrix(X)
    matrix = CompressedMatrix(rows.indptr, rows.indices, N_FEATURES, rows.data)
    problem = Problem(Squared(), intercept, intercept_scaling=3.0)
    engine = CpuPrimalEngine(problem, Dataset(matrix, y, c, 1.0), n_threads=1)
    result = quasi_newton.solve(engine, SerialCommunicator(), StoppingRule(tol, 100))
    assert result.has_converged
    assert len(result.history) == 2
    column = np.full((N_ROWS, 1), {"none": 0.0, "free": 1.0, "penalised": 3.0}[intercept.value])
    wide = np.hstack([X, column])
    ridge = np.ones(N_FEATURES + 1)
    ridge[-1] = float(intercept is not Intercept.FREE)
    best = np.linalg.solve((wide.T * c) @ wide + np.diag(ridge), wide.T @ (c * y))
    least = 0.5 * c @ (wide @ best - y) ** 2 + 0.5 * ridge @ best**2
    assert least * (1.0 - 1e-12) <= result.objective <= least + result.gap + 1e-12 * least
    assert result.gap <= tol * result.objective


class OnePoint:
    """A descent that takes every step, and keeps it."""

    def __init__(self, coef, gradient):
        self.coef, self.gradient, self.n_passes, self.value = coef, gradient, 1, np.inf

    def advance(self, direction):
        self.taken = direction
        self.coef = self.coef + direction
        return True

    def forget(self):
        pass


def test_exact_step_solves_the_newton_equations(monkeypatch):
    for name in ("_RESIDUAL", "_LEAST_RESIDUAL"):
        monkeypatch.setattr(f"snapml.solvers.newton.newton_steps.{name}", 1e-12)
    X, y, c = make_case()
    engine = make_engine(X, y, c, Intercept.NONE)
    coef = np.zeros((N_CLASSES, N_FEATURES + 1))
    _, gradient, _ = engine.fused_pass(coef)
    engine.accept()
    point = OnePoint(coef, gradient)
    steps = NewtonSteps(engine, SerialCommunicator(), 1000, 1e-8)
    decrement = steps.step(point, np.inf)
    curvature = np.full((N_CLASSES, N_CLASSES), -1 / 9) + np.eye(N_CLASSES) / 3
    hessian = np.kron(curvature, (X.T * c) @ X) + np.eye(N_CLASSES * N_FEATURES)
    exact = -np.linalg.solve(hessian, gradient[:, :-1].ravel())
    np.testing.assert_allclose(point.taken[:, :-1].ravel(), exact, rtol=1e-6, atol=1e-9)
    assert decrement == pytest.approx(-exact @ gradient[:, :-1].ravel(), rel=1e-6)
    assert steps.n_reads(point) == 1  # ten products count as one


@pytest.mark.parametrize("weight", [1.0, 100.0])
def test_jumps_of_the_curvature_are_no_obstacle(weight):
    """Columns of very different frequency, almost separable classes, a loss with a kink in l'."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, 601)
    rows = rng.choice(600, size=(3000, 12), p=frequency / frequency.sum())
    X = csr_matrix((np.ones(36_000), rows.ravel(), np.arange(0, 36_001, 12)), (3000, 600))
    z = X @ rng.normal(size=600)
    y = np.sign(z - np.median(z) + 0.3 * rng.normal(size=3000))
    matrix = CompressedMatrix(X.indptr, X.indices, 600, X.data)
    dataset = Dataset(matrix, y, None, weight)
    engine = CpuPrimalEngine(Problem(SquaredHinge(), Intercept.FREE), dataset, n_threads=1)
    result = quasi_newton.solve(engine, SerialCommunicator(), StoppingRule(1e-5, 3000))
    assert "conjugate gradients" in result.description
    assert result.has_converged
    slack = np.maximum(0.0, 1.0 - y * (X @ result.coef + result.intercept))
    objective = weight * slack @ slack + result.coef @ result.coef / 2
    assert result.objective == pytest.approx(objective, rel=1e-9)
    assert result.gap <= 1e-5 * objective
