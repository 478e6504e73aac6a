"""Targets and columns far from zero: the answer is that of the centred data, or a warning comes."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from snapml import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    Ridge,
)


def rows(n_rows=300, n_features=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    return X, X @ rng.normal(size=n_features) + 0.3 * rng.normal(size=n_rows)


@pytest.mark.parametrize("shift", [-3e4, 2e8, 1e11])
@pytest.mark.parametrize(
    "model",
    [
        Lasso(alpha=0.05),
        ElasticNet(alpha=0.05),
        Lasso(alpha=0.05, positive=True),
        Lasso(alpha=0.05, bounds=(-0.5, 0.5)),
        Lasso(alpha=0.0, positive=True),
        LassoCV(cv=3),
        ElasticNetCV(cv=3),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:alpha=0 is least squares")
def test_a_far_target_moves_the_intercept_alone(model, shift):
    X, y = rows()
    far = y + shift
    near = far - shift  # exact, and rounded as the far ones are
    expected = model.fit(X, near)
    coef, intercept, objective = expected.coef_.copy(), expected.intercept_, expected.objective_
    found = model.fit(X, far)
    np.testing.assert_allclose(found.coef_, coef, rtol=1e-6, atol=1e-9)
    assert found.intercept_ == pytest.approx(intercept + shift, abs=4 * np.spacing(abs(shift)))
    assert found.objective_ == pytest.approx(objective, rel=1e-6)


def test_a_far_target_may_start_from_the_last_fit():
    X, y = rows()
    model = Lasso(alpha=0.05, warm_start=True).fit(X, y + 1e9)
    again = model.fit(X, y + 1e9)
    assert again.intercept_ == pytest.approx(1e9, rel=1e-6)
    assert again.n_iter_ <= 2


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_coordinate_ascent_ends_no_worse_than_the_zero_model(dtype):
    """Columns at 150 times their spread: its models swing for long."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = (rng.normal(size=(115, 17)) + 150.0 * rng.normal(size=17)).astype(dtype)
        y = (X[:, 0] + rng.normal(size=115) > np.median(X[:, 0])).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(C=100, solver="sdca").fit(X, y)
        assert model.objective_ <= 100 * len(y) * np.log(2.0) * (1.0 + 1e-6)
        assert np.isfinite(model.intercept_).all()
        assert np.isfinite(model.coef_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ridge_by_coordinate_ascent_takes_small_data_of_any_scale():
    """A gap that falls below the least number has no logarithm."""
    for seed in range(160):
        rng = np.random.default_rng(seed)
        shape = int(rng.integers(2, 30)), int(rng.integers(1, 8))
        X = rng.normal(size=shape) * rng.choice([1e-3, 1.0, 100.0])
        y = rng.normal(size=len(X)) * rng.choice([0.0, 1.0, 1e5])
        if seed % 3 == 0:
            X, y = np.round(X), np.round(y)
        alpha = float(rng.choice([1e-6, 1.0, 1e6]))
        X = X.astype(rng.choice(["f4", "f8"]))
        assert np.isfinite(Ridge(solver="sdca", alpha=alpha).fit(X, y).coef_).all()


def test_singular_values_taken_as_zero_are_told_where_they_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    X[:, 3] = X[:, 1] - X[:, 2]  # but for its rounding, which a large coefficient could use
    y = X[:, 0] + rng.normal(size=600)
    with pytest.warns(ConvergenceWarning, match="1 were taken as zero; a smaller tol keeps more"):
        model = LinearRegression().fit(X, y)
    assert model.rank_ == 3
    assert np.abs(model.coef_).max() < 2.0
