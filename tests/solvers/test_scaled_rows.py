"""Gram matrices of centred and scaled columns, against NumPy's from their definition."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.scaled_rows import ScaledRows

N_ROWS, N_COLS = 300, 12


def engine_of(X, layout, intercept):
    matrix = DenseMatrix(X)
    if layout == "sparse":
        rows = csr_matrix(X)
        matrix = CompressedMatrix(rows.indptr, rows.indices, X.shape[1], rows.data)
    y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)
    return CpuPrimalEngine(Problem(Logistic(), intercept), Dataset(matrix, y, None, 1.0))


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("mean", [0.0, 1.0, 1e7], ids=["no mean", "mean", "far mean"])
def test_gram_is_that_of_the_columns_by_definition(layout, intercept, mean):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((N_ROWS, N_COLS)) < 0.1, rng.normal(size=(N_ROWS, N_COLS)), 0.0)
    X[:, 3] = mean + rng.normal(size=N_ROWS)  # one full column keeps the rest sparse
    weights = rng.random(N_ROWS)
    engine = engine_of(X, layout, intercept)
    rows = ScaledRows(engine, SerialCommunicator())
    A = np.column_stack([(X - rows.mean) / rows.scale, np.full(N_ROWS, engine.bias_column)])
    expected = (A * weights[:, None]).T @ A
    np.testing.assert_allclose(rows.gram(weights), expected, rtol=1e-9, atol=1e-9 * N_ROWS)
    if intercept is Intercept.FREE:
        np.testing.assert_allclose(rows.mean, X.mean(axis=0))
    np.testing.assert_allclose(rows.scale, np.sqrt(np.mean((X - rows.mean) ** 2, axis=0)))
