"""Sample weights mean repetition; class weights and zero weights mean what that implies."""

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml import (
    GeneralizedLinearRegressor,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)

from .conftest import ESTIMATORS, example, iris_data, regression_data, relative_error, unconverged

TIGHT = {"tol": 1e-13, "max_iter": 100_000}
MODELS = {
    "logistic": partial(LogisticRegression, **TIGHT),
    "logistic_liblinear": partial(LogisticRegression, solver="liblinear", **TIGHT),
    "logistic_no_intercept": partial(LogisticRegression, fit_intercept=False, **TIGHT),
    "squared_hinge": partial(LinearSVC, **TIGHT),
    "hinge": partial(LinearSVC, loss="hinge", solver="sdca", **TIGHT),
    "ridge": partial(Ridge, **TIGHT),
    "ridge_no_intercept": partial(Ridge, fit_intercept=False, **TIGHT),
}
CLASSIFIERS = {name: make for name, make in MODELS.items() if not name.startswith("ridge")}
# sqrt(2 * tol * objective) / ||coef||, rounded up: how far two fits within tol can lie apart.
RTOL = 3e-6


def assert_same_model(one, other, rtol=RTOL):
    assert relative_error(one.coef_, other.coef_) <= rtol
    scale = max(1.0, float(np.abs(other.intercept_).max()))
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=0, atol=10 * rtol * scale)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-11)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
@pytest.mark.parametrize("name", MODELS)
def test_weight_k_equals_k_copies(name, container):
    X, y = example(80)
    times = np.random.default_rng(2).integers(0, 4, size=len(y))
    weighted = MODELS[name]().fit(container(X), y, sample_weight=times)
    repeated = MODELS[name]().fit(container(np.repeat(X, times, axis=0)), np.repeat(y, times))
    assert_same_model(weighted, repeated)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
@pytest.mark.parametrize("name", MODELS)
def test_weight_zero_equals_removal(name, container):
    X, y = example(80)
    keep = np.random.default_rng(4).random(len(y)) < 0.6
    weighted = MODELS[name]().fit(container(X), y, sample_weight=keep.astype(float))
    removed = MODELS[name]().fit(container(X[keep]), y[keep])
    assert_same_model(weighted, removed)


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_weight_zero_may_hold_any_finite_number(name):
    X, y = example(80)
    keep = np.arange(80) % 3 != 0
    wild = np.where(keep[:, None], X, 1e6)
    weighted = MODELS[name]().fit(wild, y, sample_weight=keep.astype(float))
    removed = MODELS[name]().fit(X[keep], y[keep])
    assert_same_model(weighted, removed)


@pytest.mark.parametrize("name", MODELS)
def test_all_weights_one_equal_no_weights(name):
    X, y = example(80)
    assert_same_model(MODELS[name]().fit(X, y, np.ones(80)), MODELS[name]().fit(X, y))


@pytest.mark.parametrize("name", MODELS)
def test_scalar_weight_scales_every_row(name):
    X, y = example(80)
    scalar = MODELS[name]().fit(X, y, sample_weight=2.0)
    vector = MODELS[name]().fit(X, y, sample_weight=np.full(80, 2))
    unweighted = MODELS[name]().fit(X, y)
    assert_same_model(scalar, vector)
    assert relative_error(scalar.coef_, unweighted.coef_) > 1e-3


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_scaling_the_weights_is_scaling_C(name):
    X, y = example(80)
    weights = np.random.default_rng(6).random(80)
    one = CLASSIFIERS[name](C=0.5).fit(X, y, 4 * weights)
    other = CLASSIFIERS[name](C=2.0).fit(X, y, weights)
    assert_same_model(one, other)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_balanced_class_weight_counts_weights_not_rows(name):
    X, y = example(120)
    times = np.where(y == 1, 3, 1)
    make = partial(CLASSIFIERS[name], class_weight="balanced")
    weighted = make().fit(X, y, sample_weight=times)
    repeated = make().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_same_model(weighted, repeated)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_balanced_class_weight_is_the_formula_of_the_documentation(name):
    X, y = example(120)
    keep = (y == 0) | (np.arange(120) % 4 == 0)
    X, y = X[keep], y[keep]
    balanced = CLASSIFIERS[name](class_weight="balanced").fit(X, y)
    factor = {label: len(y) / (2 * np.sum(y == label)) for label in (0, 1)}
    given = CLASSIFIERS[name](class_weight=factor).fit(X, y)
    as_weights = CLASSIFIERS[name]().fit(X, y, [factor[label] for label in y])
    assert_same_model(balanced, given)
    assert_same_model(balanced, as_weights)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_class_weight_of_zero_and_one_class_left_raises(name):
    X, y = example()
    with pytest.raises(ValueError, match="class"):
        CLASSIFIERS[name](class_weight={0: 0.0, 1: 1.0}).fit(X, y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_class_weight_keys_are_the_users_labels(name):
    X, y = example()
    labels = np.array(["down", "up"])[y]
    by_name = CLASSIFIERS[name](class_weight={"down": 0.5, "up": 4.0}).fit(X, labels)
    by_number = CLASSIFIERS[name](class_weight={0: 0.5, 1: 4.0}).fit(X, y)
    np.testing.assert_array_equal(by_name.coef_, by_number.coef_)


@pytest.mark.parametrize("name", ["ridge", "ridge_no_intercept"])
def test_weights_of_ridge_hold_for_every_target(name):
    X, Y = regression_data()
    times = np.random.default_rng(8).integers(0, 3, size=len(X))
    weighted = MODELS[name](alpha=[1.0, 5.0, 25.0]).fit(X, Y, sample_weight=times)
    repeated = MODELS[name](alpha=[1.0, 5.0, 25.0]).fit(
        np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0)
    )
    assert_same_model(weighted, repeated)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_class_without_weight_leaves_the_models_of_the_others_as_they_were(loss, class_weight):
    X, y = iris_data()
    make = partial(LinearSVC, loss=loss, class_weight=class_weight, solver="sdca", **TIGHT)
    model = make().fit(X, y, sample_weight=(y != 2).astype(float))
    pair = make().fit(X[y != 2], y[y != 2])
    assert np.isfinite(model.gap_)
    assert np.all(np.isfinite(model.coef_))
    if class_weight is None:
        np.testing.assert_allclose(model.coef_[1], pair.coef_[0], atol=1e-5)
    np.testing.assert_array_equal(model.predict(X[y != 2]), pair.predict(X[y != 2]))


BAD_WEIGHTS = {
    "negative": lambda n: np.r_[-1.0, np.ones(n - 1)],
    "all zero": np.zeros,
    "zero scalar": lambda n: 0.0,
    "negative scalar": lambda n: -1.0,
    "nan": lambda n: np.r_[np.nan, np.ones(n - 1)],
    "inf": lambda n: np.r_[np.inf, np.ones(n - 1)],
    "too short": lambda n: np.ones(n - 1),
    "too long": lambda n: np.ones(n + 1),
    "two columns": lambda n: np.ones((n, 2)),
    "strings": lambda n: np.full(n, "a"),
    "complex": lambda n: np.full(n, 1j),
    "overflowing": lambda n: np.full(n, 1e308),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", BAD_WEIGHTS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_sample_weights_raise(estimator, kind, dtype):
    X, y = example()
    model = ESTIMATORS[estimator]()
    with pytest.raises(ValueError, match=r"(?i)weight|complex|convert"):
        model.fit(X.astype(dtype), y, sample_weight=BAD_WEIGHTS[kind](len(y)))
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("estimator", ["LogisticRegression", "LinearSVC"])
def test_weights_that_leave_one_class_raise(estimator):
    X, y = example()
    with pytest.raises(ValueError, match="one class"):
        ESTIMATORS[estimator]().fit(X, y, sample_weight=(y == 1).astype(float))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kind", [int, bool, np.float32, list])
def test_weights_of_other_types_are_numbers_all_the_same(estimator, kind):
    X, y = example()
    weights = np.random.default_rng(9).integers(0, 2, size=len(y))
    given = weights.tolist() if kind is list else weights.astype(kind)
    expected = ESTIMATORS[estimator]().fit(X, y, weights.astype(float))
    np.testing.assert_array_equal(ESTIMATORS[estimator]().fit(X, y, given).coef_, expected.coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weights_are_not_modified(estimator):
    X, y = example()
    weights = np.random.default_rng(9).random(len(y))
    before = weights.copy()
    with unconverged():
        ESTIMATORS[estimator](max_iter=5).fit(X, y, weights)
    np.testing.assert_array_equal(weights, before)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "make",
    [
        partial(LogisticRegression, C=np.inf),
        partial(PoissonRegressor, alpha=0.0),
        partial(GeneralizedLinearRegressor, alpha=0.0),
    ],
    ids=["labels", "counts", "numbers"],
)
def test_columns_that_only_rows_of_no_weight_have_change_nothing(make, container):
    """Without a penalty their coefficients are free: those that are shortest leave the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 3] = 7.0 * (np.arange(300) < 30) + 2.0
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(float)
    weights = np.where(np.arange(300) < 30, 0.0, 1.0 + rng.integers(0, 3, 300))
    kept = weights > 0.0
    model = make(tol=1e-10).fit(container(X), y, weights)
    alone = make(tol=1e-10).fit(container(X[kept]), y[kept], weights[kept])
    np.testing.assert_allclose(np.ravel(model.coef_)[:3], np.ravel(alone.coef_)[:3], atol=1e-6)
    np.testing.assert_allclose(np.ravel(model.coef_)[3], 0.0, atol=1e-9)
    np.testing.assert_allclose(model.predict(X[kept]), alone.predict(X[kept]), rtol=1e-6)
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-9)


def test_interpolated_rows_keep_their_intercept_beside_rows_of_no_weight():
    rng = np.random.default_rng(0)
    X, y = rng.random((15, 30)), rng.integers(0, 3, 15).astype(float)
    counts = rng.integers(0, 5, 15)
    assert 0 in counts
    weighted = GeneralizedLinearRegressor().fit(X, y, counts)
    repeated = GeneralizedLinearRegressor().fit(X.repeat(counts, axis=0), y.repeat(counts))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-9)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, abs=1e-9)
    assert weighted.objective_ - weighted.gap_ <= 1e-20
