"""Elastic nets on sums of products: minima, certificates, and sums without some of the rows."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml._validation import as_matrix
from snapml.problems import Penalty
from snapml.solvers.least_squares.normal_equations import RowSums

STRENGTHS = np.geomspace(0.3, 1e-3, 6)


def make_rows(kind, n_rows=90, n_columns=25, seed=0):
    """Return rows, targets and weights; two columns are nearly alike, and one is constant."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns)) + rng.standard_normal((n_rows, 1))
    X[:, 3] = X[:, 2] + 1e-5 * rng.standard_normal(n_rows)
    X[:, 5] = 4.0
    if kind == "far":
        X += 1e4
    if kind in ("sparse", "nearly dense"):
        X *= rng.random(X.shape) < (0.05 if kind == "sparse" else 0.6)
    if kind == "float32":
        X = X.astype(np.float32)
    y = X[:, :6] @ rng.standard_normal(6) + rng.standard_normal(n_rows)
    weights = rng.random(n_rows) * (rng.random(n_rows) < 0.9) if kind == "weights" else None
    return X, y, weights


def sums_of(X, y, weights, rows=slice(None), kind="dense", has_intercept=True):
    origin = np.zeros(X.shape[1] + 1)
    if has_intercept and kind not in ("sparse", "nearly dense"):
        origin[:-1] = X.mean(axis=0)
    if has_intercept:
        origin[-1] = y.mean()
    part = X[rows]
    matrix = as_matrix(csr_matrix(part) if "dense" in kind or kind == "sparse" else part)
    own = None if weights is None else weights[rows]
    return RowSums.of_rows(matrix, y[rows], own, origin)


def objective(X, y, weights, w, b, penalty):
    c = np.ones(len(y)) if weights is None else weights
    residuals = X.astype(np.float64) @ w + b - y
    mean = c @ residuals**2 / (2.0 * c.sum())
    return mean + penalty.l1 * np.abs(w).sum() + 0.5 * penalty.l2 * w @ w


@pytest.mark.parametrize("share", [1.0, 0.5], ids=["lasso", "elastic net"])
@pytest.mark.parametrize("is_positive", [False, True], ids=["free", "positive"])
@pytest.mark.parametrize(
    ("kind", "has_intercept"),
    [("far", True)]  # without an intercept such columns are one and the same
    + [
        (kind, has_intercept)
        for kind in ("dense", "float32", "weights", "sparse", "nearly dense")
        for has_intercept in (True, False)
    ],
)
def test_models_obey_the_optimality_conditions(kind, is_positive, share, has_intercept):
    X, y, weights = make_rows(kind)
    sums = sums_of(X, y, weights, kind=kind, has_intercept=has_intercept)
    scale = np.abs(X.astype(np.float64)).max()
    penalties = [Penalty(a * scale * share, a * (1.0 - share), is_positive) for a in STRENGTHS]
    found = sums.equations(has_intercept=has_intercept).path(penalties, 1e-10)
    assert found.is_solved
    c = np.ones(len(y)) if weights is None else weights
    c = c / c.sum()
    for w, b, value, gap, penalty in zip(
        found.coef, found.intercept + sums.origin[-1], found.objective, found.gap, penalties,
        strict=True,
    ):  # fmt: skip
        assert value == pytest.approx(objective(X, y, weights, w, b, penalty), rel=1e-6)
        assert 0.0 <= gap <= 1e-10 * value
        residuals = X.astype(np.float64) @ w + b - y
        slopes = X.T.astype(np.float64) @ (c * residuals) + penalty.l2 * w
        atol = 1e-4 * penalty.l1
        if has_intercept:
            assert abs(c @ residuals) <= 1e-9 * np.abs(y).max()
        np.testing.assert_allclose(slopes[w != 0], -penalty.l1 * np.sign(w[w != 0]), atol=atol)
        assert (w >= 0.0).all() or not is_positive
        beyond = -slopes if is_positive else np.abs(slopes)
        assert (beyond <= penalty.l1 + atol).all()


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_gaps_bound_the_distance_from_the_minimum(tol):
    X, y, _ = make_rows("dense", n_rows=60, n_columns=50, seed=3)
    equations = sums_of(X, y, None, kind="rows").equations(has_intercept=True)
    penalties = [Penalty(a, 0.0) for a in STRENGTHS]
    rough, exact = equations.path(penalties, tol), equations.path(penalties, 1e-13)
    assert rough.is_solved
    above = rough.objective - exact.objective
    assert (above <= rough.gap + 1e-12 * rough.objective).all()
    assert (rough.gap <= tol * rough.objective).all()


def test_a_start_leads_to_the_same_models():
    X, y, _ = make_rows("dense")
    equations = sums_of(X, y, None, kind="rows").equations(has_intercept=True)
    penalties = [Penalty(a, 0.0) for a in STRENGTHS]
    whole = equations.path(penalties, 1e-12)
    rest = equations.path(penalties[3:], 1e-12, whole.coef[2])
    np.testing.assert_allclose(rest.coef, whole.coef[3:], atol=1e-8)


@pytest.mark.parametrize("kind", ["rows", "weights", "far", "sparse", "nearly dense"])
def test_sums_without_some_rows_are_those_of_the_others(kind):
    X, y, weights = make_rows(kind)
    origin_of_all = sums_of(X, y, weights, kind=kind)
    left_out = np.arange(0, 90, 4)
    rest = np.setdiff1d(np.arange(90), left_out)
    matrices = [as_matrix(csr_matrix(X[r]) if "dense" in kind or kind == "sparse" else X[r])
                for r in (left_out, rest)]  # fmt: skip
    own = [None if weights is None else weights[r] for r in (left_out, rest)]
    origin = origin_of_all.origin
    part = RowSums.of_rows(matrices[0], y[left_out], own[0], origin)
    direct = RowSums.of_rows(matrices[1], y[rest], own[1], origin)
    found = origin_of_all.without(part)
    atol = 1e-9 * np.abs(direct.products).max()
    np.testing.assert_allclose(found.products, direct.products, atol=atol)
    np.testing.assert_allclose(found.sums, direct.sums, atol=atol)
    assert found.weight == pytest.approx(direct.weight)


def test_numbers_beyond_float64_are_left_to_others():
    X, y, _ = make_rows("dense")
    with np.errstate(all="ignore"):
        sums = sums_of(X * 1e160, y, None, kind="rows")
        assert sums.equations(has_intercept=True) is None
