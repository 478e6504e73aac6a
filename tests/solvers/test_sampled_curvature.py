"""How many rows the curvature is made from, and that it takes more where they show too little."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml import LogisticRegression
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Penalty, Problem, Softmax
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import curvature, quasi_newton, sampled_curvature
from snapml.solvers.newton.curvature import DenseCurvature
from snapml.solvers.newton.descent import Descent
from snapml.solvers.newton.sampled_curvature import SampledCurvature
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.scaled_rows import ScaledRows
from snapml.solvers.stopping import StoppingRule


def rare_columns(n_rows=30_000, n_columns=60):
    """Return binary columns, most of them filled in fewer rows than a small sample would show."""
    rng = np.random.default_rng(3)
    shares = np.geomspace(0.5, 4.0 / n_rows, n_columns)
    X = (rng.random((n_rows, n_columns)) < shares).astype(np.float64)
    margins = X @ (2.0 * rng.standard_normal(n_columns))
    y = np.where(rng.random(n_rows) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
    return X, y


def test_the_sample_grows_where_it_shows_too_little():
    X, y = rare_columns()
    sparse = csr_matrix(X)
    matrix = CompressedMatrix(sparse.indptr, sparse.indices, X.shape[1], sparse.data)
    dataset = Dataset(matrix, y, None, 1e4)
    problem = Problem(Logistic(), Intercept.NONE)
    engine = CpuPrimalEngine(problem, dataset, n_threads=1)
    result = quasi_newton.solve(engine, SerialCommunicator(), StoppingRule(1e-9, 300))
    assert result.has_converged
    assert f"curvature from {len(X)} rows" in result.description
    assert result.n_iter <= 40


def test_curvature_of_each_class_alone_does_not_replace_the_pairs(monkeypatch):
    """It is not the Hessian: with it alone this takes 78 reads."""
    monkeypatch.setattr(curvature, "MOST_JOINT_COLUMNS", 0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = (0.5 * X[:, :3] + rng.gumbel(size=(400, 3))).argmax(axis=1).astype(float)
    problem = Problem(Softmax(3), Intercept.FREE, penalty=Penalty(0.0, 0.0))
    engine = CpuPrimalEngine(problem, Dataset(DenseMatrix(X), y, None, 1.0), n_threads=1)
    result = quasi_newton.solve(engine, SerialCommunicator(), StoppingRule(1e-9, 300))
    assert result.has_converged
    assert result.n_iter <= 25


def softmax_engine(strength=1.0, weight=1.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = (strength * X[:, :3] + rng.gumbel(size=(400, 3))).argmax(axis=1).astype(float)
    problem = Problem(Softmax(3), Intercept.FREE, penalty=Penalty(0.0, 1.0))
    return X, CpuPrimalEngine(problem, Dataset(DenseMatrix(X), y, None, weight), n_threads=1)


@pytest.mark.parametrize("is_at_start", [True, False])
def test_where_rows_have_equal_chances_one_gram_matrix_serves_all_pairs(is_at_start, monkeypatch):
    X, engine = softmax_engine()
    coef = np.zeros((3, 7))
    coef[:, -1] = [0.5, -0.3, 0.1]  # class frequencies alone leave the chances equal
    if not is_at_start:
        coef[:, :-1] = np.random.default_rng(1).standard_normal((3, 6))
    engine.fused_pass(coef)
    engine.accept()
    grams, gram = [], ScaledRows.gram
    monkeypatch.setattr(ScaledRows, "gram", lambda *args: grams.append(1) or gram(*args))
    made = DenseCurvature(engine, SerialCommunicator())
    assert len(grams) == (1 if is_at_start else 6)
    gradient = np.random.default_rng(2).standard_normal((3, 7))
    gradient[:, -1] -= gradient[:, -1].mean()
    A = np.column_stack([X, np.ones(len(X))])
    z = A @ coef.T
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    hessian = np.zeros((21, 21))
    for k in range(3):
        for j in range(3):
            c = p[:, k] * ((k == j) - p[:, j])
            hessian[7 * k : 7 * k + 7, 7 * j : 7 * j + 7] = (A.T * c) @ A
    ridge = np.tile(np.append(np.ones(6), 0.0), 3)
    expected = np.linalg.lstsq(hessian + np.diag(ridge), gradient.ravel(), rcond=None)[0]
    found = made.solve(gradient)
    np.testing.assert_allclose(found[:, :-1], expected.reshape(3, 7)[:, :-1], rtol=1e-8)


def test_a_hessian_is_made_anew_only_where_that_costs_less_than_the_reads_left(monkeypatch):
    monkeypatch.setattr(sampled_curvature, "CHEAP_COLUMNS", 0)
    made, update = [], DenseCurvature.update
    monkeypatch.setattr(DenseCurvature, "update", lambda *args: made.append(1) or update(*args))
    counts, found = [], []
    for price in (0.0, 1e6):
        monkeypatch.setattr(SampledCurvature, "_reads_of_update", lambda *_, price=price: price)
        _, engine = softmax_engine(strength=10.0, weight=10.0)
        made.clear()
        found.append(quasi_newton.solve(engine, SerialCommunicator(), StoppingRule(1e-9, 300)))
        counts.append(len(made))
    assert all(result.has_converged for result in found)
    assert counts[0] > counts[1] >= 1
    assert found[0].n_iter < found[1].n_iter


def test_the_price_of_a_softmax_counts_pairs_of_classes():
    _, engine = softmax_engine()
    one = CpuPrimalEngine(
        Problem(Logistic()),
        Dataset(DenseMatrix(np.ones((400, 6))), np.ones(400), None, 1.0),
        n_threads=1,
    )
    prices = []
    for own in (engine, one):
        made = SampledCurvature(own, SerialCommunicator(), 1e-6, uses_sample=False)
        descent = Descent(own, SerialCommunicator(), np.zeros((own.n_outputs, 7)))
        descent.begin()
        made.update()
        prices.append(made._reads_of_update(descent))
    assert prices[0] == pytest.approx(2.0 * prices[1])


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_reported_objective_is_that_of_the_rounded_coefficients(C):
    rng = np.random.default_rng(0)
    # Two nearly equal columns of large numbers: rounding their coefficients is seen in the loss.
    X = np.abs(rng.standard_normal((500, 8))) * np.geomspace(1e-3, 1e5, 8)
    X[:, 6] = X[:, 7] * (1.0 + 1e-4 * rng.standard_normal(500))
    X = X.astype(np.float32)
    y = np.where(rng.random(500) < 0.5, 1, -1)
    model = LogisticRegression(C=C, tol=1e-6).fit(X, y)
    coef = model.coef_[0].astype(np.float64)
    margins = y * (X.astype(np.float64) @ coef + model.intercept_[0])
    objective = C * np.logaddexp(0.0, -margins).sum() + 0.5 * coef @ coef
    assert model.objective_ == pytest.approx(objective, rel=1e-8)
