"""The joint quadratic model of the softmax against the textbook's Hessian."""

import numpy as np
import pytest
from reference.data import make_rows, make_weights
from reference.softmax import softmax_probabilities
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Penalty, Problem, Softmax
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.working_sets.softmax_model import Coordinates, SoftmaxModel

N_CLASSES, N_ROWS, N_FEATURES = 4, 60, 5
TAU = {Intercept.NONE: 0.0, Intercept.FREE: 1.0, Intercept.PENALISED: 2.0}


def newton_point(A, y, c, coef, is_moving, penalised, damping):
    """Return the minimum of the quadratic model with a ridge on the coefficients that move."""
    p = softmax_probabilities(coef @ A.T)
    slopes = p.copy()
    slopes[y, np.arange(len(y))] -= 1.0
    gradient = (c * slopes) @ A + penalised * coef
    p = (1.0 - damping) * p + damping / len(p)
    size = A.shape[1]
    hessian = np.zeros((len(p), size, len(p), size))
    for i in range(len(y)):
        curvature = c[i] * (np.diag(p[:, i]) - np.outer(p[:, i], p[:, i]))
        hessian += np.einsum("kl,j,m->kjlm", curvature, A[i], A[i])
    flat = hessian.reshape(coef.size, coef.size) + np.diag(penalised.ravel())
    at = np.flatnonzero(is_moving)
    found = coef.ravel().copy()
    found[at] -= np.linalg.lstsq(flat[np.ix_(at, at)], gradient.ravel()[at])[0]
    return found.reshape(coef.shape)


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("share", [1.0, 0.6], ids=["all", "some"])
@pytest.mark.parametrize("density", [1.0, 0.5], ids=["dense", "sparse"])
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
def test_minimum_is_that_of_the_newton_step(intercept, density, share, damping):
    rng = np.random.default_rng(0)
    X, c = 3.0 + make_rows(N_ROWS, N_FEATURES), make_weights(N_ROWS)
    matrix = DenseMatrix(X)
    if density < 1.0:
        X = make_rows(N_ROWS, N_FEATURES, density=density)
        rows = csr_matrix(X)
        matrix = CompressedMatrix(rows.indptr, rows.indices, N_FEATURES, rows.data)
    y = rng.integers(0, N_CLASSES, N_ROWS)
    problem = Problem(Softmax(N_CLASSES), intercept, 2.0, Penalty(0.0, 1.0))
    engine = CpuPrimalEngine(problem, Dataset(matrix, y.astype(float), c, 1.0), n_threads=1)
    coef = 0.3 * rng.normal(size=(N_CLASSES, N_FEATURES + 1))
    penalised = np.ones(coef.shape)
    if intercept is not Intercept.PENALISED:
        penalised[:, -1] = 0.0
    if intercept is Intercept.NONE:
        coef[:, -1] = 0.0
    is_chosen = (rng.random(coef.shape) < share) & (penalised > 0.0)
    _, gradient, _ = engine.fused_pass(coef)
    engine.accept()
    model = SoftmaxModel(engine, SerialCommunicator(), Coordinates(is_chosen), gradient, damping)
    found = model.minimise(coef, problem.penalty, 1e-14)
    is_moving = is_chosen.copy()
    is_moving[:, -1] |= intercept is Intercept.FREE
    A = np.column_stack([X, np.full(N_ROWS, TAU[intercept])])
    exact = newton_point(A, y, c, coef, is_moving, penalised, damping)
    if intercept is Intercept.FREE:  # all intercepts moved alike are the same model
        found[:, -1] -= found[:, -1].mean()
        exact[:, -1] -= exact[:, -1].mean()
    np.testing.assert_allclose(found, exact, rtol=1e-7, atol=1e-7)
