"""How many rows the curvature is made from, and that it takes more where they show too little."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml import LogisticRegression
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Penalty, Problem, Softmax
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import curvature, quasi_newton
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
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
