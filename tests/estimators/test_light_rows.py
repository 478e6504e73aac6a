"""Dense rows that are mostly zeros: solved as sparse ones, with the same answers."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import snapml
from snapml.model_selection import GridSearchCV
from snapml.solvers.plan import light_rows

pytestmark = pytest.mark.pairwise

CLASSIFIERS = {
    "logistic": snapml.LogisticRegression(),
    "L1": snapml.LogisticRegression(l1_ratio=1.0),
    "squared hinge": snapml.LinearSVC(),
    "hinge": snapml.LinearSVC(loss="hinge"),
    "cross-validated": snapml.LogisticRegressionCV(
        Cs=3, cv=3, l1_ratios=(0,), scoring="accuracy", use_legacy_attributes=True
    ),
    "grid": GridSearchCV(snapml.LinearSVC(), {"C": [0.1, 1.0]}, cv=3),
}
REGRESSORS = {
    "tube": snapml.LinearSVR(),
    "Huber": snapml.HuberRegressor(),
    "Poisson": snapml.PoissonRegressor(),
    "ridge": snapml.Ridge(),
}


@pytest.fixture
def dummies(dtype):
    """Dummy variables of six columns of twenty levels, as a frame's encoder makes them."""
    rng = np.random.default_rng(0)
    levels = rng.integers(20, size=(400, 6)) + 20 * np.arange(6)
    X = np.zeros((400, 120), dtype=dtype)
    X[np.arange(400)[:, None], levels] = 1.0
    return X, X @ rng.normal(size=120) + 0.1 * rng.normal(size=400)


def margins(model, X):
    own = getattr(model, "best_estimator_", model)
    return X @ np.ravel(own.coef_).astype(np.float64) + float(np.ravel(own.intercept_)[0])


@pytest.mark.parametrize("name", CLASSIFIERS | REGRESSORS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_answers_are_those_of_whole_rows_and_of_sparse_ones(name, order, dummies, monkeypatch):
    X, target = dummies
    estimator = (CLASSIFIERS | REGRESSORS)[name]
    y = (target > 0).astype(int) if name in CLASSIFIERS else np.round(np.exp(0.2 * target))
    X = np.asarray(X, order=order)
    light = margins(estimator.fit(X, y), X)
    assert getattr(estimator, "best_estimator_", estimator).coef_.dtype == X.dtype
    sparse = margins(estimator.fit(csr_matrix(X), y), X)
    np.testing.assert_allclose(light, sparse, atol=1e-5 * np.abs(sparse).max())
    monkeypatch.setattr(light_rows, "_LEAST_SIZE", X.size + 1)
    whole = margins(estimator.fit(X, y), X)
    np.testing.assert_allclose(light, whole, atol=5e-3 * np.abs(whole).max())


def test_rows_of_many_numbers_and_of_few_stay_as_they_are(dummies):
    X, _ = dummies
    shown = np.ones_like(X)
    shown[:, : X.shape[1] // 2] = X[:, : X.shape[1] // 2]
    for values in (shown, X[:20]):
        matrix = snapml.data.DenseMatrix(values)
        assert light_rows.entries_of(matrix) is matrix
    assert light_rows.entries_of(snapml.data.DenseMatrix(X)).n_stored == np.count_nonzero(X)


def test_numbers_that_the_sample_misses_are_counted(dtype):
    """Whole rows among empty ones: a share of a few rows is not that of all."""
    X = np.zeros((5120, 40), dtype=dtype)
    X[1::20] = 0.0
    X[[i for i in range(5120) if i % 20]] = 1.0
    matrix = snapml.data.DenseMatrix(X)
    assert matrix.share_of_numbers == 0.0
    assert light_rows.entries_of(matrix) is matrix
