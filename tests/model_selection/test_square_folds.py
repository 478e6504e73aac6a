"""Folds of least squares by sums of products, beside the same folds by rows."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.model_selection import KFold, ShuffleSplit

from snapml import ElasticNetCV, LassoCV
from snapml._validation import as_matrix
from snapml.searches.shared.square_folds import SquareFolds, mean_squared_errors
from snapml.solvers.least_squares import normal_equations


def make_rows(n_rows=150, n_columns=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.7)
    return X, X[:, :4] @ np.array([3.0, -2.0, 1.0, 0.5]) + rng.standard_normal(n_rows)


class Resampled:
    """Folds whose rows stand in them several times, as a bootstrap draws them."""

    def __repr__(self):
        return "Resampled()"

    def split(self, X, y=None, groups=None):
        rng = np.random.default_rng(5)
        for _ in range(2):
            drawn = rng.integers(0, len(X), len(X))
            yield drawn, np.setdiff1d(np.arange(len(X)), drawn)

    def get_n_splits(self, X=None, y=None, groups=None):
        return 2


@pytest.mark.parametrize(
    ("made", "layout"),
    [
        (LassoCV(), "dense"),
        (LassoCV(cv=KFold(3, shuffle=True, random_state=0)), "float32"),
        (ElasticNetCV(l1_ratio=[0.3, 0.9]), "dense"),
        (ElasticNetCV(positive=True), "sparse"),
        (LassoCV(fit_intercept=False), "sparse"),
        (LassoCV(cv=ShuffleSplit(3, train_size=0.2, random_state=0)), "dense"),
        (LassoCV(cv=Resampled()), "dense"),
    ],
    ids=str,
)
@pytest.mark.parametrize("has_weights", [False, True], ids=["plain", "weights"])
def test_errors_are_those_of_folds_by_rows(made, layout, has_weights, monkeypatch):
    X, y = make_rows()
    X = {"dense": X, "float32": X.astype(np.float32), "sparse": csr_matrix(X)}[layout]
    weights = np.random.default_rng(1).random(len(y)) if has_weights else None
    calls, real = [], normal_equations.NormalEquations.path

    def counted(*args):
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(normal_equations.NormalEquations, "path", counted)
    found = made.fit(X, y, sample_weight=weights)
    errors, alpha = found.mse_path_, found.alpha_
    assert calls
    monkeypatch.setattr(SquareFolds, "path", lambda *args: None)
    expected = made.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(errors, expected.mse_path_, rtol=2e-3)
    assert alpha == expected.alpha_


def test_far_fewer_rows_than_columns_are_read_as_rows(monkeypatch):
    monkeypatch.setattr(normal_equations.RowSums, "of_rows", lambda *args: pytest.fail("sums"))
    X, y = make_rows(9, 200)
    assert LassoCV(alphas=5, cv=3).fit(X, y).alpha_ > 0.0


def test_a_strength_without_an_l1_norm_is_fitted_by_rows():
    X, y = make_rows()
    found = ElasticNetCV(l1_ratio=0.0, alphas=[1.0, 0.1], cv=3).fit(X, y)
    assert np.isfinite(found.mse_path_).all()


def test_errors_are_weighted_means_of_squares():
    X, y = make_rows()
    rng = np.random.default_rng(2)
    coef, intercept, weights = rng.normal(size=(3, 12)), rng.normal(size=3), rng.random(len(y))
    for rows in (X, csr_matrix(X)):
        found = mean_squared_errors(as_matrix(rows), y, weights, coef, intercept)
        squares = (X @ coef.T + intercept - y[:, None]) ** 2
        np.testing.assert_allclose(found, weights @ squares / weights.sum())


@pytest.mark.parametrize(
    ("fold", "message"),
    [
        ((np.arange(150), np.arange(0)), "cv: expected rows left out in each fold, got none"),
        ((np.zeros(150, dtype=bool), np.arange(150)), "cv: expected rows to fit to in each fold"),
        ((np.arange(50, 150), np.arange(50)), "sample_weight: expected a positive one among the "
         "rows left out in each fold, got none in fold 0"),
        ((np.arange(50), np.arange(50, 150)), "among the rows to fit to in each fold"),
    ],
)  # fmt: skip
def test_folds_that_nothing_can_be_fitted_to_are_refused(fold, message):
    X, y = make_rows()
    weights = np.where(np.arange(150) < 50, 0.0, 1.0)
    with pytest.raises(ValueError, match=message):
        LassoCV(cv=[fold]).fit(X, y, sample_weight=weights)
