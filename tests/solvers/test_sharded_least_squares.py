"""Least squares on rows of several shards: NumPy's answer on all rows, whatever their rank."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, DenseMatrix
from snapml.solvers.least_squares import least_squares
from snapml.solvers.least_squares.least_squares import solve_least_squares

from .simulated import solve_shards

CUTS = {"two": (11,), "three, one of them empty": (5, 5), "a row each": (1, 2, 3)}


def solve(X, Y, weights, has_intercept, cuts, **options):
    """Return what each shard holds in the end."""
    parts = [slice(*bounds) for bounds in pairwise([0, *cuts, len(Y)])]

    def run(rows, communicator, rule):
        matrix = DenseMatrix(np.ascontiguousarray(X[rows]))
        if options.get("is_sparse"):
            stored = csr_matrix(X[rows])
            matrix = CompressedMatrix(stored.indptr, stored.indices, X.shape[1], stored.data)
        return solve_least_squares(
            matrix,
            Y[rows],
            None if weights is None else weights[rows],
            has_intercept,
            is_positive=options.get("is_positive", False),
            communicator=communicator,
        )

    results = solve_shards([lambda at=at: at for at in parts], None, run)
    for other in results[1:]:
        assert other.coef.tobytes() == results[0].coef.tobytes()
        assert other.intercept.tobytes() == results[0].intercept.tobytes()
        assert other.gap.tobytes() == results[0].gap.tobytes()
    return results[0]


def data(shape, *, is_collinear=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) + 3.0
    if is_collinear:
        X[:, 2] = 2.0 * X[:, 0] - X[:, 1]
    return X, rng.normal(size=(shape[0], 2)) + X[:, :1], rng.uniform(0.5, 2.0, shape[0])


def centred(X, Y, weights, has_intercept):
    s = np.ones(len(X)) if weights is None else weights
    means = (s @ X / s.sum(), s @ Y / s.sum()) if has_intercept else (0.0, 0.0)
    root = np.sqrt(s)[:, None]
    return root * (X - means[0]), root * (Y - means[1])


@pytest.mark.parametrize("shape", [(40, 6), (8, 20)], ids=["tall", "wide"])
@pytest.mark.parametrize("is_collinear", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_model_is_that_of_least_norm(shape, is_collinear, is_sparse, has_intercept, cuts):
    cuts = tuple(min(cut, 7) for cut in cuts)
    X, Y, weights = data(shape, is_collinear=is_collinear)
    found = solve(X, Y, weights, has_intercept, cuts, is_sparse=is_sparse)
    A, B = centred(X, Y, weights, has_intercept)
    expected, _, rank, singular = np.linalg.lstsq(A, B, rcond=1e-6)
    np.testing.assert_allclose(found.coef.T, expected, rtol=1e-8, atol=1e-9)
    residual = B - A @ expected
    objective = 0.5 * np.sum(residual**2, axis=0)
    np.testing.assert_allclose(found.objective, objective, rtol=1e-9, atol=1e-20)
    # Rows that are met exactly leave rounding, of another size on another CPU.
    assert (found.gap >= found.objective - objective - (1e-12 * objective + 1e-20)).all()
    assert found.rank == rank
    np.testing.assert_allclose(found.singular[:rank], singular[:rank], rtol=1e-9)


@pytest.mark.parametrize("is_collinear", [False, True])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_positive_model_is_that_of_active_sets(is_collinear, cuts):
    X, Y, weights = data((40, 6), is_collinear=is_collinear)
    found = solve(X, Y, weights, True, cuts, is_positive=True)
    A, B = centred(X, Y, weights, True)
    for k in range(2):
        _, norm = nnls(A, B[:, k])
        assert found.objective[k] == pytest.approx(0.5 * norm**2, rel=1e-10)
        assert found.objective[k] - 0.5 * norm**2 <= found.gap[k] + 1e-12
        assert found.gap[k] <= 1e-9 * found.objective[k]
    assert (found.coef >= 0.0).all()


def test_too_many_columns_are_refused(monkeypatch):
    monkeypatch.setattr(least_squares, "_MOST_COLUMNS_OF_SHARDS", 5)
    X, Y, _ = data((40, 6))
    with pytest.raises(NotImplementedError, match="least squares of 6 columns on several ranks"):
        solve(X, Y, None, True, (20,))
