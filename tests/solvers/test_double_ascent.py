"""Coordinate ascent that goes on in double precision where rounding ends it."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

from snapml import LinearSVC, LinearSVR
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import EpsilonInsensitive, Intercept, Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent import double_ascent
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.stopping import StoppingRule

pytestmark = pytest.mark.usefixtures("no_polish")

TOL = 1e-5


def rows_and_targets(is_sparse=False, n_rows=60, n_features=300):
    """Return rows of float32 that are fewer than columns, and numbers that all can be met."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    if is_sparse:
        X[rng.random(X.shape) < 0.7] = 0.0
    return X, rng.normal(size=n_rows)


def solve_tube(X, y, C, max_iter=1000):
    matrix = DenseMatrix(X)
    if (X == 0.0).any():
        csr = csr_matrix(X)
        matrix = CompressedMatrix(csr.indptr, csr.indices, csr.shape[1], csr.data)
    dataset = Dataset(matrix, y.astype(X.dtype), None, C)
    return double_ascent.solve(
        Problem(EpsilonInsensitive(0.1), Intercept.PENALISED),
        dataset,
        SerialCommunicator(),
        StoppingRule(tol=TOL, max_iter=max_iter),
        Settings(n_threads=1),
        Start(),
    )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_tubes_that_rounding_leaves_open_are_met_in_double_precision(is_sparse):
    X, y = rows_and_targets(is_sparse)
    y = y.astype(np.float32).astype(np.float64)
    C = 5.0 if is_sparse else 1.0
    result, wide = (solve_tube(X.astype(dtype), y, C) for dtype in (np.float32, np.float64))
    assert "by double precision" in result.description
    assert "double precision" not in wide.description
    assert result.has_converged
    assert wide.has_converged
    assert result.coef.dtype == result.duals.dtype == np.float32
    assert result.n_iter == len(result.history) < 100
    assert [entry["epoch"] for entry in result.history] == list(range(1, result.n_iter + 1))
    # Both certificates hold for the same problem.
    assert result.objective - result.gap <= wide.objective
    assert wide.objective - wide.gap <= result.objective


def test_what_rounding_the_answer_leaves_is_certified_and_final():
    X, y = rows_and_targets()
    y = y.astype(np.float32).astype(np.float64)
    result, wide = (solve_tube(X.astype(dtype), y, 1e4) for dtype in (np.float32, np.float64))
    assert result.is_rounded
    assert not result.has_converged
    assert result.gap > TOL * result.objective
    assert result.objective - result.gap <= wide.objective <= result.objective
    # The objective is that of the rounded model.
    model = result.coef.astype(np.float64), float(result.intercept)
    residuals = np.abs(y - X.astype(np.float64) @ model[0] - model[1])
    objective = 0.5 * (model[0] @ model[0] + model[1] ** 2)
    objective += 1e4 * np.sum(np.maximum(0.0, residuals - 0.1))
    assert result.objective == pytest.approx(objective, rel=1e-9)


def test_rows_that_have_no_room_stay_in_single_precision(monkeypatch):
    monkeypatch.setattr(double_ascent, "_MOST_ENTRIES", 0)
    X, y = rows_and_targets()
    result = solve_tube(X, y, 1.0, max_iter=60)
    assert "double precision" not in result.description
    assert not result.has_converged
    assert not result.is_rounded


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("n_rows", [60, 200])
def test_hinge_of_float32_takes_about_as_many_epochs(n_rows, C):
    X, y = rows_and_targets(n_rows=n_rows, n_features=1000)
    model = LinearSVC(loss="hinge", C=C)
    wide = model.fit(X.astype(np.float64), y > 0).n_iter_
    narrow = model.fit(X, y > 0)
    assert narrow.gap_ <= narrow.tol * narrow.objective_
    assert narrow.n_iter_ <= 2 * wide + 20


def test_warning_says_that_rounding_is_what_is_left():
    X, y = rows_and_targets()
    with pytest.warns(ConvergenceWarning, match="to float32 leaves that: pass rows of float64"):
        LinearSVR(epsilon=0.1, C=1e4).fit(X, y)
