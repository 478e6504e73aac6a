"""Ridge on thin sparse rows: conjugate gradients, and equations where these do not get there."""

import numpy as np
import pytest
from scipy import sparse

from snapml import Ridge, RidgeClassifier
from snapml.estimators import ridge

N_COLUMNS = 700


def thin(n_rows=900, *, is_stiff=False):
    """Return indicators of ten factors, and targets; stiff ones are nearly the same columns."""
    rng = np.random.default_rng(4)
    size = N_COLUMNS // 10
    columns = rng.integers(0, size, (n_rows, 10)) + size * np.arange(10)
    X = np.zeros((n_rows, N_COLUMNS))
    np.put_along_axis(X, columns, 1.0, axis=1)
    if is_stiff:
        X[:, :size] = X[:, size : 2 * size] * (1.0 + 1e-5 * rng.standard_normal((n_rows, size)))
    y = X @ rng.standard_normal(N_COLUMNS) + rng.standard_normal(n_rows) + 7.0
    return sparse.csr_matrix(X), y


def optimum(X, y, alpha, weights=None):
    c = np.ones(len(y)) if weights is None else weights
    wide = np.hstack([X.toarray(), np.ones((len(y), 1))])
    ridge_ = np.append(np.full(X.shape[1], alpha), 0.0)
    best = np.linalg.solve((wide.T * c) @ wide + np.diag(ridge_), wide.T @ (c * y))
    return best[:-1], best[-1], 0.5 * (c @ (wide @ best - y) ** 2 + ridge_ @ best**2)


@pytest.mark.parametrize("alpha", [0.1, 10.0])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("n_rows", [900, 300], ids=["tall", "wide"])
def test_few_products_find_the_minimum(n_rows, is_weighted, alpha):
    X, y = thin(n_rows)
    weights = np.random.default_rng(0).random(n_rows) + 0.1 if is_weighted else None
    model = Ridge(alpha=alpha).fit(X, y, weights)
    assert "conjugate gradients" in model.solver_
    coef, intercept, least = optimum(X, y, alpha, weights)
    assert least / alpha * (1.0 - 1e-12) <= model.objective_ <= least / alpha + model.gap_
    assert model.gap_ <= 1e-8 * model.objective_
    # Objective (1) is curved by 1 at least.
    assert np.linalg.norm(model.coef_ - coef) <= np.sqrt(2.0 * model.gap_)
    assert model.intercept_ == pytest.approx(intercept, abs=1e-2)


def test_steps_that_crawl_are_left_for_equations(monkeypatch):
    monkeypatch.setattr(ridge, "_TRIAL_READS", 1)
    X, y = thin(is_stiff=True)
    model = Ridge(alpha=1e-4).fit(X, y)
    assert model.solver_.startswith("normal equations")
    _, _, least = optimum(X, y, 1e-4)
    assert model.objective_ == pytest.approx(least / 1e-4, rel=1e-9)
    assert model.gap_ <= 1e-12 * model.objective_


def test_a_fine_tolerance_asks_for_equations():
    X, y = thin()
    assert Ridge(tol=1e-13).fit(X, y).solver_.startswith("normal equations")


def test_each_class_takes_its_own_products():
    X, y = thin()
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    model = RidgeClassifier(alpha=1.0).fit(X, labels)
    assert "conjugate gradients" in model.solver_
    for number, coef in enumerate(model.coef_):
        expected, _, _ = optimum(X, 2.0 * (labels == number) - 1.0, 1.0)
        assert np.linalg.norm(coef - expected) <= np.sqrt(2.0 * model.gap_)
