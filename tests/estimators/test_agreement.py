"""Coefficients, predictions and certificates against scikit-learn and against NumPy."""

import functools
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from sklearn import linear_model, svm
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_class_weight

from snapml import LinearSVC, LogisticRegression, Ridge

from .conftest import (
    BINARY_DATA,
    as_layout,
    binary_data,
    iris_data,
    margins_of,
    objective,
    regression_data,
    relative_error,
    standardised,
    unconverged,
)

pytestmark = pytest.mark.pairwise


@dataclass(frozen=True)
class Pair:
    """One of our models, scikit-learn's with the same objective, and what that objective is."""

    ours: partial
    theirs: partial
    loss: str
    intercept_scaling: float | None = None


PAIRS = {
    "logistic": Pair(
        partial(LogisticRegression),
        partial(linear_model.LogisticRegression, solver="newton-cholesky", tol=1e-12),
        "logistic",
    ),
    "logistic_liblinear": Pair(
        partial(LogisticRegression, solver="liblinear"),
        partial(linear_model.LogisticRegression, solver="liblinear", tol=1e-14, max_iter=100_000),
        "logistic",
        1.0,
    ),
    "logistic_liblinear_10": Pair(
        partial(LogisticRegression, solver="liblinear", intercept_scaling=10),
        partial(
            linear_model.LogisticRegression,
            solver="liblinear",
            intercept_scaling=10,
            tol=1e-14,
            max_iter=100_000,
        ),
        "logistic",
        10.0,
    ),
    "squared_hinge": Pair(
        partial(LinearSVC),
        partial(svm.LinearSVC, dual=False, tol=1e-14, max_iter=100_000),
        "squared_hinge",
        1.0,
    ),
    "hinge": Pair(
        partial(LinearSVC, loss="hinge", solver="sdca"),
        partial(svm.LinearSVC, loss="hinge", tol=1e-10, max_iter=2_000_000, random_state=0),
        "hinge",
        1.0,
    ),
    "hinge_10": Pair(
        partial(LinearSVC, loss="hinge", solver="sdca", intercept_scaling=10),
        partial(
            svm.LinearSVC,
            loss="hinge",
            intercept_scaling=10,
            tol=1e-10,
            max_iter=2_000_000,
            random_state=0,
        ),
        "hinge",
        10.0,
    ),
}
LAYOUTS = [(layout, dtype) for layout in ("dense", "csr") for dtype in ("float32", "float64")]


def tight_tol(dtype, loss, C=1):
    """Return a relative gap near the rounding of the dtype.

    Where the loss has a kink, the rounding of a dual variable counts C times and not squared.
    """
    if dtype == "float64":
        return 1e-12
    return 3e-6 * max(1, C) ** 0.75 if loss == "hinge" else 1e-7


def coef_rtol(dtype):
    """Return what a fit to `tight_tol` owes: 200 and 3 square roots of the dtype's rounding."""
    return 3e-6 if dtype == "float64" else 1e-3


@functools.cache
def reference(pair_name, data_name, C, fit_intercept, class_weight=None, weighted=False):
    """Fit scikit-learn's model once for all layouts and dtypes of ours."""
    X, y = binary_data(data_name)
    weight = dict(class_weight) if isinstance(class_weight, tuple) else class_weight
    model = PAIRS[pair_name].theirs(C=C, fit_intercept=fit_intercept, class_weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tolerances at rounding level may not be met in full
        return model.fit(X, y, sample_weight=weights_for(y) if weighted else None)


def weights_for(y):
    """Return weights between 0 and 3, exact in float32."""
    return np.random.default_rng(7).integers(0, 13, size=len(y)) / 4.0


def assert_agrees(model, theirs, pair, X, y, row_weights, dtype):
    """Compare two models of one problem: fixed tolerances, and the bound that the gap gives."""
    rtol = coef_rtol(dtype)
    assert model.coef_.dtype == model.intercept_.dtype == np.dtype(dtype)
    assert relative_error(model.coef_, theirs.coef_) <= rtol
    scale = max(1.0, np.linalg.norm(theirs.coef_))
    assert abs(model.intercept_[0] - np.ravel(theirs.intercept_)[0]) <= rtol * scale

    # ||w - w'|| <= sqrt(2 (P(w) - D)) + sqrt(2 (P(w') - D)), as P is strongly convex in w.
    scaling = pair.intercept_scaling if model.fit_intercept else None
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    value = partial(
        objective, pair.loss, X=X, y=signs, row_weights=row_weights, intercept_scaling=scaling
    )
    dual = model.objective_ - model.gap_
    rounding = 4 * np.finfo(dtype).eps * model.objective_
    theirs_gap = max(0.0, value(theirs.coef_, theirs.intercept_) - dual)
    reach = np.sqrt(2 * (model.gap_ + rounding)) + np.sqrt(2 * (theirs_gap + rounding))
    assert np.linalg.norm(model.coef_ - theirs.coef_) <= reach
    assert model.objective_ == pytest.approx(
        value(model.coef_, model.intercept_), rel=1e-12 if dtype == "float64" else 1e-6
    )

    decision = theirs.decision_function(X)
    np.testing.assert_allclose(
        model.decision_function(as_layout(X, "dense", dtype)),
        decision,
        rtol=0,
        atol=rtol * np.linalg.norm(theirs.coef_) * max(1.0, np.linalg.norm(X, axis=1).max()),
    )
    clear = np.abs(decision) > 10 * rtol * np.abs(decision).max()
    np.testing.assert_array_equal(model.predict(X[clear]), theirs.predict(X[clear]))
    assert clear.mean() > 0.9
    if hasattr(theirs, "predict_proba"):
        np.testing.assert_allclose(
            model.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=10 * rtol * scale
        )


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
@pytest.mark.parametrize("C", [0.01, 1])
@pytest.mark.parametrize("data_name", BINARY_DATA)
@pytest.mark.parametrize(
    ("pair_name", "fit_intercept"),
    [(name, True) for name in PAIRS] + [(name, False) for name in PAIRS if name[-3:] != "_10"],
)
def test_binary_model_is_scikit_learns(pair_name, fit_intercept, data_name, C, layout, dtype):
    pair, (X, y) = PAIRS[pair_name], binary_data(data_name)
    theirs = reference(pair_name, data_name, C, fit_intercept)
    tol = tight_tol(dtype, pair.loss)
    model = pair.ours(C=C, fit_intercept=fit_intercept, tol=tol, max_iter=100_000)
    model.fit(as_layout(X, layout, dtype), y)
    assert_agrees(model, theirs, pair, X, y, C, dtype)


@pytest.mark.parametrize(("layout", "dtype"), [("dense", "float64"), ("csr", "float32")])
@pytest.mark.parametrize("data_name", BINARY_DATA)
@pytest.mark.parametrize("pair_name", ["logistic", "logistic_liblinear", "squared_hinge", "hinge"])
def test_binary_model_is_scikit_learns_at_weak_regularisation(pair_name, data_name, layout, dtype):
    pair, (X, y) = PAIRS[pair_name], binary_data(data_name)
    theirs = reference(pair_name, data_name, 100, True)
    tol = tight_tol(dtype, pair.loss, 100)
    model = pair.ours(C=100, tol=tol, max_iter=200_000).fit(as_layout(X, layout, dtype), y)
    assert_agrees(model, theirs, pair, X, y, 100, dtype)


@pytest.mark.parametrize(("layout", "dtype"), [("dense", "float64"), ("csr", "float32")])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", ["balanced", ((0, 0.5), (1, 2.0)), ((1, 3.0),), None])
@pytest.mark.parametrize("data_name", BINARY_DATA)
@pytest.mark.parametrize("pair_name", ["logistic", "logistic_liblinear", "squared_hinge", "hinge"])
def test_weighted_model_is_scikit_learns(
    pair_name, data_name, class_weight, weighted, layout, dtype
):
    pair, (X, y) = PAIRS[pair_name], binary_data(data_name)
    theirs = reference(pair_name, data_name, 0.3, True, class_weight, weighted)
    given = dict(class_weight) if isinstance(class_weight, tuple) else class_weight
    sample_weight = weights_for(y) if weighted else None
    model = pair.ours(
        C=0.3, class_weight=given, tol=tight_tol(dtype, pair.loss), max_iter=100_000
    ).fit(as_layout(X, layout, dtype), y, sample_weight)
    factors = compute_class_weight(
        given, classes=np.array([0, 1]), y=y, sample_weight=sample_weight
    )
    row_weights = 0.3 * factors[y] * (sample_weight if weighted else 1.0)
    assert_agrees(model, theirs, pair, X, y, row_weights, dtype)


@pytest.mark.parametrize("data_name", BINARY_DATA)
def test_logistic_regression_is_lbfgs_as_far_as_lbfgs_goes(data_name):
    X, y = binary_data(data_name)
    theirs = linear_model.LogisticRegression(tol=1e-8, max_iter=10_000).fit(X, y)
    model = LogisticRegression(tol=1e-12, max_iter=10_000).fit(X, y)
    assert relative_error(model.coef_, theirs.coef_) <= 1e-5
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("solver", ["newton-cg", "newton-cholesky", "sag", "saga"])
def test_solver_names_of_scikit_learn_give_the_lbfgs_answer(solver):
    X, y = binary_data("breast_cancer")
    expected = LogisticRegression(max_iter=1000).fit(X, y)
    model = LogisticRegression(solver=solver, max_iter=1000).fit(X, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)


@functools.cache
def multi_class_reference(loss, scaling, C):
    pair = PAIRS[loss]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pair.theirs(C=C, intercept_scaling=scaling).fit(*iris_data())


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
@pytest.mark.parametrize("C", [0.01, 1])
@pytest.mark.parametrize("scaling", [1, 10])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_multi_class_svm_is_scikit_learns(loss, scaling, C, layout, dtype):
    X, y = iris_data()
    theirs = multi_class_reference(loss, scaling, C)
    model = LinearSVC(
        loss=loss,
        solver="sdca" if loss == "hinge" else "auto",
        C=C,
        intercept_scaling=scaling,
        tol=tight_tol(dtype, loss),
        max_iter=200_000,
    ).fit(as_layout(X, layout, dtype), y)
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    rtol = coef_rtol(dtype)
    assert relative_error(model.coef_, theirs.coef_) <= rtol
    assert relative_error(model.intercept_, theirs.intercept_) <= 3 * rtol
    expected = theirs.decision_function(X)
    np.testing.assert_allclose(
        model.decision_function(X), expected, atol=10 * rtol * np.abs(expected).max()
    )
    first, second = np.sort(expected, axis=1)[:, [-1, -2]].T
    clear = first - second > 20 * rtol * np.abs(expected).max()
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(model.predict(X)[clear], theirs.predict(X)[clear])
    total = sum(
        objective(loss, w, b, X, np.where(y == label, 1.0, -1.0), C, intercept_scaling=scaling)
        for label, w, b in zip(model.classes_, model.coef_, model.intercept_, strict=True)
    )
    assert model.objective_ == pytest.approx(total, rel=1e-12 if dtype == "float64" else 1e-6)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.5}])
def test_multi_class_svm_with_weights_is_scikit_learns(class_weight):
    X, y = iris_data()
    weights = weights_for(y)
    theirs = PAIRS["squared_hinge"].theirs(class_weight=class_weight).fit(X, y, weights)
    model = LinearSVC(tol=1e-12, max_iter=200_000, class_weight=class_weight)
    model.fit(X, y, weights)
    assert relative_error(model.coef_, theirs.coef_) <= 3e-6


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [100.0, 1.0, 0.25, [0.5, 2.0, 50.0]])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_ridge_is_scikit_learns(n_targets, alpha, weighted, fit_intercept, layout, dtype):
    X, Y = regression_data()
    y = Y if n_targets == 3 else Y[:, 0]
    if n_targets == 1 and isinstance(alpha, list):
        alpha = alpha[:1]
    weights = weights_for(Y) if weighted else None
    theirs = linear_model.Ridge(alpha=alpha, fit_intercept=fit_intercept, solver="cholesky")
    theirs.fit(X, y, weights)
    tol = 1e-13 if dtype == "float64" else 1e-7
    model = Ridge(alpha=alpha, fit_intercept=fit_intercept, tol=tol, max_iter=100_000)
    model.fit(as_layout(X, layout, dtype), y, weights)

    assert model.coef_.dtype == np.dtype(dtype)
    assert np.shape(model.coef_) == np.shape(theirs.coef_)
    assert np.shape(model.intercept_) == (() if n_targets == 1 or not fit_intercept else (3,)) or (
        not fit_intercept
    )
    rtol = coef_rtol(dtype)
    assert relative_error(model.coef_, theirs.coef_) <= rtol
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, rtol=rtol, atol=rtol)
    expected = theirs.predict(X)
    np.testing.assert_allclose(
        model.predict(X), expected, rtol=0, atol=rtol * np.abs(expected).max()
    )
    total = 0.0
    for k, (a, target) in enumerate(
        zip(np.broadcast_to(alpha, n_targets), Y.T[:n_targets], strict=True)
    ):
        coef = np.atleast_2d(model.coef_)[k]
        intercept = np.broadcast_to(model.intercept_, n_targets)[k]
        c = (1.0 if weights is None else weights) / a
        total += objective("squared", coef, intercept, X, target, c)
    assert model.objective_ == pytest.approx(total, rel=1e-12 if dtype == "float64" else 1e-6)
    assert model.gap_ <= tol * model.objective_


@pytest.mark.parametrize("solver", ["svd", "cholesky", "lsqr", "sparse_cg"])
def test_ridge_solver_names_of_scikit_learn_give_the_auto_answer(solver):
    X, Y = regression_data()
    expected = Ridge().fit(X, Y[:, 0])
    np.testing.assert_array_equal(Ridge(solver=solver).fit(X, Y[:, 0]).coef_, expected.coef_)


@pytest.mark.parametrize("solver", ["sag", "saga", "sdca", "pqn"])
def test_ridge_of_epochs_gives_the_auto_answer_within_its_gap(solver):
    X, Y = regression_data()
    expected = Ridge().fit(X, Y[:, 0])
    model = Ridge(solver=solver, max_iter=10_000).fit(X, Y[:, 0])
    assert ("coordinate ascent" if solver == "sdca" else "quasi-Newton") in model.solver_
    distance = np.linalg.norm(model.coef_ - expected.coef_)
    assert distance <= np.sqrt(2 * model.gap_) + np.sqrt(2 * expected.gap_)


# --- the certificate -------------------------------------------------------------------------


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
@pytest.mark.parametrize(
    ("max_iter", "fit_intercept"), [(0, True), (1, False), (2, True), (5, False), (20, True)]
)
@pytest.mark.parametrize("data_name", BINARY_DATA)
@pytest.mark.parametrize("pair_name", PAIRS)
def test_gap_bounds_the_distance_to_the_optimum_however_early_the_fit_ends(
    pair_name, data_name, fit_intercept, max_iter, layout, dtype
):
    pair, (X, y) = PAIRS[pair_name], binary_data(data_name)
    C = 0.75  # exact in float32, so that both dtypes pose the same problem
    theirs = reference(pair_name, data_name, C, fit_intercept)
    scaling = pair.intercept_scaling if fit_intercept else None
    signs = np.where(y == 1, 1.0, -1.0)
    optimum = objective(pair.loss, theirs.coef_, theirs.intercept_, X, signs, C, scaling)
    model = pair.ours(C=C, fit_intercept=fit_intercept, max_iter=max_iter, tol=0)
    with unconverged():
        model.fit(as_layout(X, layout, dtype), y)
    recomputed = objective(pair.loss, model.coef_, model.intercept_, X, signs, C, scaling)
    assert model.objective_ == pytest.approx(recomputed, rel=1e-12 if dtype == "float64" else 1e-6)
    assert model.gap_ > 0
    assert model.gap_ >= model.objective_ - optimum - 1e-12 * optimum


@pytest.mark.parametrize("max_iter", [0, 1, 3, 10])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [0.5, 64.0])
def test_gap_of_ridge_bounds_the_distance_to_the_optimum(alpha, dtype, max_iter):
    X, Y = regression_data()
    y = Y[:, 0]
    theirs = linear_model.Ridge(alpha=alpha, solver="cholesky").fit(X, y)
    optimum = objective("squared", theirs.coef_, theirs.intercept_, X, y, 1 / alpha)
    with unconverged():
        model = Ridge(alpha=alpha, max_iter=max_iter, tol=0).fit(X.astype(dtype), y)
    assert model.gap_ >= model.objective_ - optimum - 1e-12 * optimum


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("pair_name", PAIRS)
def test_gap_is_within_tol_of_the_objective_when_nothing_warns(pair_name, tol):
    X, y = binary_data("breast_cancer")
    model = PAIRS[pair_name].ours(tol=tol, max_iter=100_000).fit(X, y)
    assert model.gap_ <= tol * model.objective_


def test_fit_that_misses_tol_warns():
    X, y = binary_data("breast_cancer")
    with pytest.warns(ConvergenceWarning):
        model = LogisticRegression(max_iter=3, tol=1e-6).fit(X, y)
    assert model.gap_ > 1e-6 * model.objective_


@pytest.mark.parametrize("C", [0.01, 1, 100])
@pytest.mark.parametrize(
    "make",
    [LogisticRegression, LinearSVC, partial(LinearSVC, loss="hinge", solver="sdca")],
)
@pytest.mark.parametrize("data_name", BINARY_DATA)
def test_default_tol_gives_three_digits_of_the_coefficients(data_name, make, C):
    X, y = binary_data(data_name)
    X = standardised(X)
    optimum = make(C=C, tol=1e-11, max_iter=100_000).fit(X, y)
    model = make(C=C, max_iter=100_000).fit(X, y)
    assert relative_error(model.coef_, optimum.coef_) <= 1e-3


@pytest.mark.parametrize("alpha", [100.0, 1.0, 0.1])
def test_default_tol_gives_three_digits_of_the_ridge_coefficients(alpha):
    X, Y = regression_data()
    optimum = linear_model.Ridge(alpha=alpha, solver="cholesky").fit(X, Y)
    model = Ridge(alpha=alpha, max_iter=100_000).fit(X, Y)
    assert relative_error(model.coef_, optimum.coef_) <= 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [100.0, 1.0, 0.1])
def test_default_tol_of_ridge_can_be_met_in_either_dtype(alpha, dtype):
    X, Y = regression_data()
    model = Ridge(alpha=alpha, max_iter=50_000).fit(X.astype(dtype), Y[:, 0])
    assert model.gap_ <= 1e-8 * model.objective_


def test_margins_are_summed_in_float64_whatever_the_dtype():
    X, y = binary_data("digits_1_8")
    model = LogisticRegression().fit(X.astype(np.float32), y)
    expected = margins_of(X, model.coef_, model.intercept_)[:, 0]
    got = model.decision_function(X.astype(np.float32))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, expected.astype(np.float32))
