"""Rows in a basis of their span: margins, lengths, starts, and when a fit goes there."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from snapml import HuberRegressor, LinearSVC, LogisticRegression, PoissonRegressor
from snapml._validation import as_matrix
from snapml.data import Dataset
from snapml.problems import Intercept, Logistic, Penalty, Problem
from snapml.solvers.newton import row_space
from snapml.solvers.newton.row_space import RowSpace

N_ROWS, N_COLUMNS = 30, 200


def make_rows(seed=0, n_rows=N_ROWS, n_columns=N_COLUMNS, is_dependent=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns)) + 2.0
    if is_dependent:
        X[5] = X[4]
    return X, np.where(X[:, :5].sum(axis=1) + rng.standard_normal(n_rows) > 10.0, 1.0, -1.0)


def space_of(X, y, intercept, l2):
    problem = Problem(Logistic(), intercept, 1.0, Penalty(0.0, l2))
    return RowSpace(problem, Dataset(as_matrix(X), y, None, 1.0))


@pytest.mark.parametrize("is_dependent", [False, True], ids=["rows", "two rows alike"])
@pytest.mark.parametrize("layout", [np.asarray, csr_matrix, np.float32], ids=["d", "s", "f"])
@pytest.mark.parametrize("intercept", [Intercept.FREE, Intercept.NONE])
@pytest.mark.parametrize("l2", [1.0, 0.0], ids=["triangle", "eigenvectors"])
def test_coefficients_of_the_basis_have_the_margins_and_the_length(
    l2, intercept, layout, is_dependent
):
    X, y = make_rows(is_dependent=is_dependent)
    rows = layout(X)
    space = space_of(rows, y, intercept, l2)
    inner = space.dataset.matrix.values
    assert isinstance(space._basis, row_space._Triangle) == (l2 > 0.0)
    rng = np.random.default_rng(1)
    coef = np.column_stack([rng.standard_normal((2, N_ROWS)) @ X, [0.5, -0.25]])  # in the span
    if intercept is Intercept.FREE:
        coef[:, :-1] = rng.standard_normal((2, N_ROWS)) @ (X - X.mean(axis=0))
    found = space.in_basis(coef)
    margins = X @ coef[:, :-1].T + coef[:, -1]
    scale = np.abs(margins).max()
    np.testing.assert_allclose(inner @ found[:, :-1].T + found[:, -1], margins, atol=1e-5 * scale)
    lengths = np.linalg.norm(coef[:, :-1], axis=1)
    np.testing.assert_allclose(np.linalg.norm(found[:, :-1], axis=1), lengths, rtol=1e-5)
    again = space.coefficients(found)
    np.testing.assert_allclose(X @ again[:, :-1].T + again[:, -1], margins, atol=1e-5 * scale)


def test_columns_are_made_wide_some_at_a_time(monkeypatch):
    X, y = make_rows()
    whole = space_of(X, y, Intercept.FREE, 1.0).dataset.matrix.values
    monkeypatch.setattr(row_space, "_COLUMNS_AT_ONCE", 7)
    parts = space_of(X, y, Intercept.FREE, 1.0).dataset.matrix.values
    np.testing.assert_allclose(parts[:-1], whole[:-1], atol=1e-9)


def test_a_weak_penalty_takes_the_eigenvectors():
    X, y = make_rows()
    basis = space_of(X, y, Intercept.FREE, 1e-9)._basis
    assert isinstance(basis, row_space._Eigenvectors)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_another_fit_begins_where_the_last_one_ended(C):
    X, y = make_rows(n_columns=800)
    model = LogisticRegression(C=C, solver="pqn", warm_start=True).fit(X, y)
    assert "in the span of the rows" in model.solver_
    first = model.n_iter_.max()
    assert model.fit(X, y).n_iter_.max() <= 3 < first + 2
    assert model.gap_ <= 1e-6 * model.objective_


def test_what_ascent_leaves_is_solved_in_the_span_of_the_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((102, 1233))
    for j in range(1, X.shape[1]):
        X[:, j] = 0.99 * X[:, j - 1] + 0.14 * X[:, j]
    y = rng.random(102) < 0.5
    model = LogisticRegression(C=0.01).fit(X, y)
    assert "in the span of the rows: after" in model.solver_
    assert model.gap_ <= 1e-6 * model.objective_


def test_scales_of_huber_continue_in_the_span_of_the_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 300))
    y = X[:, :5].sum(axis=1) + rng.standard_t(2, 80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = HuberRegressor(solver="pqn").fit(X, y)  # 'auto' interpolates these rows
    assert "scales" in model.solver_
    assert int(model.solver_.split(";")[1].split()[0]) <= 20  # of at most 50 before it gives up


# Of larger ones, or under a weaker penalty, the last digit of a margin is more than the gap asked.
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_large_labels_are_fitted_as_exactly(size):
    X, _ = make_rows(n_columns=800)
    rng = np.random.default_rng(3)
    counts = rng.poisson(size * np.exp(0.1 * (X[:, 0] - 2.0))).astype(float)
    model = PoissonRegressor(alpha=0.1, tol=1e-9).fit(X, counts)
    assert "in the span of the rows" in model.solver_
    assert model.gap_ <= 1e-8 * abs(model.objective_)


def test_rows_whose_products_overflow_are_refused():
    X, y = make_rows()
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="overflow in float64"):
        space_of(X * 1e200, y, Intercept.FREE, 1.0)


@pytest.mark.parametrize(
    ("estimator", "shape", "way"),
    [
        (LogisticRegression(), (150, 300), "in the span of the rows"),
        (LogisticRegression(), (250, 300), "the rows stay in the cache"),
        (LogisticRegression(), (90, 180), "the rows stay in the cache"),
        (LinearSVC(), (250, 300), "dual coordinate ascent"),
        (LinearSVC(), (70, 140), "the rows stay in the cache"),
    ],
)
def test_few_rows_beside_their_columns_need_no_hessian_of_these(estimator, shape, way):
    rng = np.random.default_rng(3)
    X = rng.normal(size=shape)
    y = X[:, :5].sum(axis=1) + rng.normal(size=len(X)) > 0
    model = estimator.fit(X, y)
    assert way in model.solver_
    assert model.gap_ <= 1e-5 * model.objective_
    other = clone(estimator).set_params(solver="pqn", tol=1e-10).fit(X, y)
    assert model.objective_ == pytest.approx(other.objective_, rel=2e-5)
