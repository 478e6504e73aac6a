"""L1 for the softmax, jointly or class by class: optimal, with a certificate that holds."""

from dataclasses import replace

import numpy as np
import pytest
from reference.data import make_rows, make_weights
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Penalty, Problem, Softmax
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.plan.choice import fit
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.working_sets import multinomial_descent

from .simulated import solve_shards

pytestmark = pytest.mark.pairwise

N_CLASSES = 3
PENALTIES = {
    "l1": Penalty(1.0, 0.0),
    "elastic net": Penalty(0.5, 0.5),
    "positive": Penalty(0.5, 0.0, True),
}


def make_data(*, density=1.0, shape=(90, 7)):
    X = make_rows(*shape, density=density)
    scores = X @ np.random.default_rng(1).normal(size=(shape[1], N_CLASSES))
    noise = np.random.default_rng(2).gumbel(size=scores.shape)
    return X, np.argmax(2.0 * scores + noise, axis=1), make_weights(len(X))


def make_dataset(X, y, c, dtype=np.float64, is_sparse=None):
    if (X == 0.0).any() if is_sparse is None else is_sparse:
        rows = csr_matrix(X.astype(dtype))
        matrix = CompressedMatrix(rows.indptr, rows.indices, X.shape[1], rows.data)
    else:
        matrix = DenseMatrix(X.astype(dtype))
    return Dataset(matrix, y.astype(dtype), c.astype(dtype), 1.0)


def solve(X, y, c, penalty, intercept, *, dtype=np.float64, tol=1e-9, start=None):
    problem = Problem(Softmax(N_CLASSES), intercept, 2.0, penalty)
    dataset = make_dataset(X, y, c, dtype)
    rule = StoppingRule(tol, 2000)
    settings = Settings(n_threads=1)
    begin = Start() if start is None else Start(coef=start)
    return fit(problem, dataset, SerialCommunicator(), rule, settings, begin)


def objective(X, y, c, penalty, intercept, coef, bias):
    z = X @ coef.T + bias
    loss = c @ (logsumexp(z, axis=1) - z[np.arange(len(y)), y])
    w = np.column_stack([coef, bias / 2.0]) if intercept is Intercept.PENALISED else coef
    return loss + penalty.l1 * np.abs(w).sum() + 0.5 * penalty.l2 * (w**2).sum()


def minimum(X, y, c, penalty, intercept):
    """Minimise over positive and negative parts with bounds: smooth, and by a general method."""
    tau = {Intercept.NONE: 0.0, Intercept.FREE: 1.0, Intercept.PENALISED: 2.0}[intercept]
    A = np.column_stack([X, np.full(len(X), tau)])
    shape = (N_CLASSES, A.shape[1])
    is_penalised = np.ones(shape, bool)
    is_penalised[:, -1] = intercept is Intercept.PENALISED
    onehot = np.eye(N_CLASSES)[y]

    def value(parts):
        up, down = parts.reshape(2, *shape)
        w = up - down
        z = A @ w.T
        log_sum = logsumexp(z, axis=1)
        total = c @ (log_sum - z[np.arange(len(y)), y])
        slope = (c[:, None] * (np.exp(z - log_sum[:, None]) - onehot)).T @ A
        slope = slope + is_penalised * penalty.l2 * w
        total += 0.5 * penalty.l2 * (w[is_penalised] ** 2).sum()
        total += penalty.l1 * (up + down)[is_penalised].sum()
        slopes = [slope + penalty.l1 * is_penalised, -slope + penalty.l1 * is_penalised]
        return total, np.concatenate([part.ravel() for part in slopes])

    down = [(0.0, 0.0) if penalty.is_positive and p else (0.0, None) for p in is_penalised.ravel()]
    bounds = [(0.0, None)] * is_penalised.size + down
    options = {"maxiter": 20000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(value, np.zeros(2 * is_penalised.size), jac=True, bounds=bounds,
                     method="L-BFGS-B", options=options)  # fmt: skip
    return found.fun


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("density", [1.0, 0.5])
def test_solution_is_optimal_and_certified(penalty, intercept, density):
    penalty = PENALTIES[penalty]
    data = make_data(density=density)
    result = solve(*data, penalty, intercept)
    value = objective(*data, penalty, intercept, result.coef, result.intercept)
    assert result.has_converged
    assert result.objective == pytest.approx(value, rel=1e-12)
    assert value - minimum(*data, penalty, intercept) <= result.gap + 1e-9 * value


@pytest.mark.parametrize("most_joint", [0, 24], ids=["class by class", "working sets"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
def test_more_coefficients_than_joint_steps_take(monkeypatch, most_joint, penalty, intercept):
    data = make_data(shape=(90, 15))
    penalty = replace(PENALTIES[penalty], l1=8.0)
    jointly = solve(*data, penalty, intercept)
    monkeypatch.setattr(multinomial_descent, "_MOST_JOINT", most_joint)
    monkeypatch.setattr(multinomial_descent, "_FIRST_COORDINATES", 10)
    result = solve(*data, penalty, intercept)
    assert result.has_converged
    assert 0 < np.count_nonzero(result.coef) <= 22
    assert result.objective == pytest.approx(jointly.objective, rel=1e-8)


@pytest.mark.parametrize(
    ("penalty", "intercept"), list(zip(PENALTIES, Intercept, strict=True)), ids=str
)
@pytest.mark.parametrize("is_joint", [True, False], ids=["jointly", "class by class"])
@pytest.mark.parametrize("density", [1.0, 0.5])
def test_shards_find_the_model_of_all_rows(monkeypatch, density, intercept, is_joint, penalty):
    """Rows are sorted by class: the first shard has one class only, the second no row."""
    if not is_joint:
        monkeypatch.setattr(multinomial_descent, "_MOST_JOINT", 0)
    X, y, c = make_data(density=density)
    order = np.argsort(y, kind="stable")
    X, y, c = X[order], y[order], c[order]
    penalty = PENALTIES[penalty]
    problem = Problem(Softmax(N_CLASSES), intercept, 2.0, penalty)
    parts = [slice(0, 20), slice(20, 20), slice(20, 90)]
    is_sparse = density < 1.0
    datasets = [
        lambda at=at: make_dataset(X[at], y[at], c[at], is_sparse=is_sparse) for at in parts
    ]

    def run(dataset, communicator, rule):
        return multinomial_descent.solve(problem, dataset, communicator, rule, n_threads=1)

    first, *others = solve_shards(datasets, StoppingRule(1e-6, 200), run)
    best = minimum(X, y, c, penalty, intercept)
    assert first.has_converged
    for other in others:
        assert first.coef.tobytes() == other.coef.tobytes()
    assert -1e-8 * best <= first.objective - best <= first.gap + 1e-9 * best
    assert first.gap <= 1e-6 * first.objective


def test_every_gap_bounds_the_error():
    data = make_data()
    result = solve(*data, PENALTIES["l1"], Intercept.FREE)
    best = minimum(*data, PENALTIES["l1"], Intercept.FREE)
    assert 3 < len(result.history) <= result.n_iter + 1
    for entry in result.history:
        assert entry["objective"] - best <= entry["gap"] + 1e-9 * best


def test_float32_data_and_a_warm_start():
    data = make_data()
    first = solve(*data, PENALTIES["l1"], Intercept.FREE, dtype=np.float32, tol=1e-7)
    assert first.coef.dtype == np.float32
    start = np.column_stack([first.coef, first.intercept]).astype(float)
    again = solve(*data, PENALTIES["l1"], Intercept.FREE, dtype=np.float32, tol=1e-6, start=start)
    assert first.has_converged
    assert again.n_iter == 0


def test_strong_penalty_leaves_no_coefficient():
    result = solve(*make_data(), Penalty(1e9), Intercept.FREE)
    assert result.has_converged
    assert not result.coef.any()
