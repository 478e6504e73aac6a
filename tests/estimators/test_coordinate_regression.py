"""Lasso, ElasticNet, their paths and cross-validation, against scikit-learn's."""

import numpy as np
import pytest
import sklearn.linear_model as reference
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

import snapml
from snapml import ElasticNet, ElasticNetCV, Lasso, LassoCV, enet_path, lasso_path

from .conftest import regression_data

TIGHT = {"tol": 1e-12, "max_iter": 100_000}


def data():
    X, Y = regression_data()
    return X, Y[:, 0]


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.05])
@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_equal_scikit_learns(is_sparse, fit_intercept, alpha, l1_ratio, weighted):
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y)) if weighted else None
    parameters = {"alpha": alpha, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    ours = ElasticNet(**parameters).fit(csr_matrix(X) if is_sparse else X, y, weights)
    theirs = reference.ElasticNet(**parameters, **TIGHT).fit(X, y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-5)
    assert ours.predict(X) == pytest.approx(theirs.predict(X), abs=1e-4)


def test_objective_and_gap_are_on_scikit_learns_scale():
    X, y = data()
    model = Lasso(alpha=2.0).fit(X, y)
    residual = y - model.predict(X)
    expected = residual @ residual / (2 * len(y)) + 2.0 * np.abs(model.coef_).sum()
    assert model.objective_ == pytest.approx(expected, rel=1e-12)
    assert 0 < model.dual_gap_ == model.gap_ <= 1e-8 * expected
    assert model.sparse_coef_.nnz == np.count_nonzero(model.coef_)


def test_lasso_is_the_elastic_net_without_l2():
    X, y = data()
    a, b = Lasso(alpha=0.7).fit(X, y), ElasticNet(alpha=0.7, l1_ratio=1.0).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_positive_coefficients_equal_scikit_learns():
    X, y = data()
    ours = Lasso(alpha=0.5, positive=True).fit(X, y)
    theirs = reference.Lasso(alpha=0.5, positive=True, **TIGHT).fit(X, y)
    assert ours.coef_.min() >= 0
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def test_several_targets_are_fitted_one_by_one():
    X, Y = regression_data()
    both = Lasso(alpha=1.0).fit(X, Y)
    assert both.coef_.shape == (Y.shape[1], X.shape[1])
    assert both.predict(X).shape == Y.shape
    for k, target in enumerate(Y.T):
        alone = Lasso(alpha=1.0).fit(X, target)
        np.testing.assert_array_equal(both.coef_[k], alone.coef_)
        assert both.dual_gap_[k] == alone.dual_gap_


def test_weight_zero_is_a_row_left_out():
    X, y = data()
    weights = np.ones(len(y))
    weights[::3] = 0
    with_zeros = Lasso(alpha=1.0).fit(X, y, weights)
    without = Lasso(alpha=1.0).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(with_zeros.coef_, without.coef_, atol=1e-7)


def test_warm_start_reads_less():
    X, y = data()
    model = Lasso(alpha=1.0, warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ == 0 < first


@pytest.mark.parametrize("weights", [None, "random"])
def test_paths_equal_scikit_learns(weights):
    X, y = data()
    X, y = X - X.mean(axis=0), y - y.mean()
    ours = enet_path(X, y, l1_ratio=0.7, alphas=20, return_n_iter=True)
    theirs = reference.enet_path(X, y, l1_ratio=0.7, alphas=20, **TIGHT)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-10)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-4)
    assert ours[2].shape == (20,)
    assert len(ours[3]) == 20
    short = lasso_path(X, y, alphas=[0.1, 1.0])
    np.testing.assert_array_equal(short[0], [1.0, 0.1])
    expected = reference.Lasso(alpha=0.1, fit_intercept=False, **TIGHT).fit(X, y).coef_
    np.testing.assert_allclose(short[1][:, 1], expected, atol=1e-5)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_validation_chooses_as_scikit_learn_does(is_sparse, weighted):
    X, y = data()
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    ours = LassoCV(alphas=15, cv=3).fit(csr_matrix(X) if is_sparse else X, y, weights)
    theirs = reference.LassoCV(alphas=15, cv=3, **TIGHT).fit(X, y, weights)
    assert ours.alpha_ == pytest.approx(theirs.alpha_, rel=1e-10)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-4)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


def test_cross_validation_chooses_the_share_of_l1_too():
    X, y = data()
    parameters = {"l1_ratio": [0.2, 0.9], "alphas": 8, "cv": 3}
    ours = ElasticNetCV(**parameters).fit(X, y)
    theirs = reference.ElasticNetCV(**parameters, **TIGHT).fit(X, y)
    assert ours.l1_ratio_ == theirs.l1_ratio_
    assert ours.alpha_ == pytest.approx(theirs.alpha_, rel=1e-10)
    assert ours.mse_path_.shape == theirs.mse_path_.shape
    np.testing.assert_allclose(ours.alphas_, theirs.alphas_, rtol=1e-10)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": np.inf}, "alpha: expected a finite number"),
        ({"l1_ratio": 1.5}, "l1_ratio: expected a number from 0 to 1"),
        ({"selection": "greedy"}, "selection: expected 'cyclic' or 'random'"),
        ({"max_iter": -1}, "max_iter"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        ElasticNet(**parameters).fit(*data())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("make", [Lasso, ElasticNet])
def test_positive_coefficients_without_a_penalty_are_non_negative_least_squares(
    make, fit_intercept, container, dtype
):
    X, y = data()
    X, y = X.astype(dtype), y.astype(dtype)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(y)).astype(dtype)
    ours = make(alpha=0.0, positive=True, fit_intercept=fit_intercept)
    with pytest.warns(UserWarning, match="LinearRegression"):
        ours.fit(container(X), y, weights)
    theirs = reference.LinearRegression(positive=True, fit_intercept=fit_intercept)
    theirs.fit(X.astype(float), y.astype(float), weights.astype(float))
    rtol = 1e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=rtol, atol=rtol)
    assert 0 < np.sum(ours.coef_ == 0) < len(ours.coef_)
    assert 0 <= ours.gap_ <= 10 * np.finfo(dtype).eps * np.sum(y.astype(float) ** 2)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_an_l1_penalty_it_is_least_squares_or_ridge(container, fit_intercept):
    X, y = data()
    with pytest.warns(UserWarning, match="LinearRegression"):
        ours = Lasso(alpha=0.0, fit_intercept=fit_intercept).fit(container(X), y)
    theirs = reference.LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    ours = ElasticNet(alpha=0.1, l1_ratio=0.0, fit_intercept=fit_intercept).fit(container(X), y)
    theirs = reference.Ridge(alpha=0.1 * len(y), fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_entries_that_are_not_finite_are_refused(bad, is_sparse):
    X, y = data()
    X = X.copy()
    X[5, 3] = bad
    with pytest.raises(ValueError, match="Input X"):
        Lasso().fit(csr_matrix(X) if is_sparse else X, y)


def test_too_few_reads_warn():
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="reads of the data"):
        Lasso(alpha=0.1, max_iter=0).fit(X, y)


def test_constant_target_is_the_intercept():
    X, _ = data()
    model = Lasso(alpha=0.1).fit(X, np.full(len(X), 3.7))
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(3.7, rel=1e-15)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.3])
def test_dense_and_sparse_paths_agree_to_the_last_digits(l1_ratio):
    X, y = data()
    dense = enet_path(X, y, l1_ratio=l1_ratio, alphas=50)[1]
    sparse = enet_path(csr_matrix(X), y, l1_ratio=l1_ratio, alphas=50)[1]
    np.testing.assert_allclose(sparse, dense, rtol=1e-9, atol=1e-12)


def test_wrong_gram_matrix_is_refused():
    X, y = data()
    X = X - X.mean(axis=0)
    gram = X.T @ X
    Lasso(precompute=gram).fit(X, y)
    with pytest.raises(ValueError, match="did not pass validation"):
        Lasso(precompute=gram + 1.0).fit(X, y)
    with pytest.raises(ValueError, match="precompute: expected shape"):
        Lasso(precompute=gram[:2, :2]).fit(X, y)
    with pytest.raises(ValueError, match="precompute: expected 'auto'"):
        Lasso(precompute="always").fit(X, y)


def test_path_names_the_parameters_it_does_not_know():
    with pytest.raises(ValueError, match="Unexpected parameters"):
        enet_path(*data(), normalize=True)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_columns_whose_squares_overflow_are_refused(is_sparse):
    X, y = data()
    X = 1e200 * X
    with pytest.raises(ValueError, match="under-/overflow"):
        Lasso().fit(csr_matrix(X) if is_sparse else X, y)


def test_names_are_exported():
    assert {"Lasso", "ElasticNet", "LassoCV", "ElasticNetCV"} <= set(snapml.__all__)
