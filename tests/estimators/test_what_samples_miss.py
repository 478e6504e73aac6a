"""Rare classes, rare columns and concentrated weights: what a sample of the rows does not see."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml import LinearSVC, LogisticRegression


def objective(X, y, weights, l2, point):
    """Return the logistic objective at (coef, intercept)."""
    margins = X @ point[:-1] + point[-1]
    losses = np.logaddexp(0.0, -np.where(y > 0, 1.0, -1.0) * margins)
    return weights @ losses + 0.5 * l2 * (point[:-1] @ point[:-1])


def newton(X, y, weights, l2):
    """Return the least objective, by damped Newton steps on all rows in float64."""
    Z = np.column_stack([X, np.ones(len(X))])
    ridge = np.append(np.full(X.shape[1], l2), 0.0)
    point = np.zeros(Z.shape[1])
    value = objective(X, y, weights, l2, point)
    for _ in range(200):
        p = 1.0 / (1.0 + np.exp(-np.clip(Z @ point, -700.0, 700.0)))
        gradient = Z.T @ (weights * (p - (y > 0))) + ridge * point
        hessian = (Z * (weights * p * (1.0 - p))[:, None]).T @ Z + np.diag(ridge)
        root = np.sqrt(np.maximum(hessian.diagonal(), 1e-300))
        step = np.linalg.lstsq(hessian / root / root[:, None], gradient / root, rcond=1e-13)[0]
        step /= root
        length = 1.0
        while length > 1e-9:
            trial = objective(X, y, weights, l2, point - length * step)
            if trial <= value - 1e-4 * length * (gradient @ step):
                break
            length /= 2.0
        if length <= 1e-9 or not gradient @ step > 1e-13 * value:
            break
        point, value = point - length * step, trial
    return value


def rare_class(n_rows=20_000, n_features=10, n_positive=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    y = np.zeros(n_rows, int)
    y[np.argsort(-2.0 * X[:, 0] - rng.gumbel(size=n_rows))[:n_positive]] = 1
    return X, y


def rare_column(n_set, outcome, n_rows=20_000):
    """Return rows whose first column is set in a few, of which a share `outcome` is positive."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n_rows, 6))
    X[:, 0] = 0.0
    rows = rng.choice(n_rows, n_set, replace=False)
    X[rows, 0] = 1.0
    y = (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-X[:, 1]))).astype(int)
    y[rows] = 0
    y[rows[: round(outcome * n_set)]] = 1
    return X, y


def check(model, X, y, weights, l2):
    least = newton(X, y, weights, l2)
    point = np.append(model.coef_[0].astype(float), float(model.intercept_[0]))
    value = objective(X, y, weights, l2, point)
    assert model.objective_ == pytest.approx(value, rel=1e-6)
    assert value - least <= 1e-6 * least + 1e-9
    assert model.gap_ >= value - least - 1e-9 * least


@pytest.mark.parametrize("layout", [np.asarray, csr_matrix])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_positive", [2, 10, 50])
def test_balanced_weights_of_a_rare_class_meet_the_tolerance(layout, dtype, n_positive):
    X, y = rare_class(n_positive=n_positive)
    X = X.astype(dtype)
    model = LogisticRegression(class_weight="balanced").fit(layout(X), y)
    weights = np.where(y == 1, len(y) / 2 / n_positive, len(y) / 2 / (len(y) - n_positive))
    check(model, X.astype(float), y, weights, 1.0)
    assert (model.predict(X)[y == 1] == 1).mean() > 0.5


def test_a_rare_class_without_weights_meets_the_tolerance():
    X, y = rare_class(n_positive=3)
    check(LogisticRegression().fit(X, y), X, y, np.ones(len(y)), 1.0)


@pytest.mark.parametrize("layout", [np.asarray, csr_matrix])
@pytest.mark.parametrize(("n_set", "outcome"), [(10, 0.8), (30, 0.5)])
def test_a_rare_column_without_a_penalty_has_its_coefficient(layout, n_set, outcome):
    X, y = rare_column(n_set, outcome)
    check(LogisticRegression(C=np.inf).fit(layout(X), y), X, y, np.ones(len(y)), 0.0)


def test_a_rare_column_that_separates_is_fitted_as_far_as_the_tolerance_asks():
    """Its coefficient grows until its rows' loss is rounding; it is not taken for a flat one."""
    X, y = rare_column(6, 1.0, n_rows=3000)
    model = LogisticRegression(C=np.inf).fit(X, y)
    assert model.coef_[0, 0] > 5.0
    check(model, X, y, np.ones(len(y)), 0.0)


@pytest.mark.parametrize("C", [1.0, np.inf])
def test_weights_on_few_rows_are_seen(C):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 3))
    y = (X[:, 0] + rng.logistic(size=len(X)) > 0).astype(int)
    weights = np.zeros(len(X))
    weights[rng.choice(len(X), 80, replace=False)] = 1.0
    model = LogisticRegression(C=C).fit(X, y, sample_weight=weights)
    check(model, X, y, weights, 1.0 if C == 1.0 else 0.0)


def test_equal_columns_share_a_coefficient_beside_a_rare_one():
    """The shortest solution is taken along directions in which no margin changes, and no other."""
    X, y = rare_column(6, 1.0, n_rows=3000)
    model = LogisticRegression(C=np.inf).fit(np.column_stack([X, X[:, 1]]), y)
    alone = LogisticRegression(C=np.inf).fit(X, y)
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-6)
    assert model.coef_[0, 1] == pytest.approx(model.coef_[0, 6], rel=1e-6)
    assert model.coef_[0, 0] > 5.0


def test_a_fit_that_may_not_look_at_all_rows_claims_nothing():
    """Without a penalty, the curvature of a sample bounds no gap."""
    X, y = rare_column(10, 0.8)
    with pytest.warns(UserWarning, match="was not reached"):
        model = LogisticRegression(C=np.inf, max_iter=1).fit(X, y)
    assert model.gap_ >= model.objective_ - newton(X, y, np.ones(len(y)), 0.0)


@pytest.mark.parametrize("multi_class", ["multinomial", "ovr"])
def test_rare_ones_of_several_classes_are_learned(multi_class):
    X, y = rare_class(n_positive=20)
    y[np.argsort(X[:, 1])[:12]] = 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticRegression(class_weight="balanced", multi_class=multi_class).fit(X, y)
    assert np.all(model.gap_ <= 1e-6 * model.objective_)
    assert (model.predict(X)[y > 0] == y[y > 0]).mean() > 0.9


def test_a_squared_hinge_with_a_rare_class_meets_its_tolerance():
    X, y = rare_class(n_positive=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearSVC(class_weight="balanced").fit(X, y)
    assert (model.predict(X)[y == 1] == 1).all()
