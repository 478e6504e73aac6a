"""One model for each group: the models of a loop, errors by group, predictions."""

import logging
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
from scipy.sparse import csr_matrix
from sklearn.exceptions import FitFailedWarning

import snapml
from snapml import LogisticRegression, fit_many
from snapml.estimators import many_fits


def make_groups(n_groups=7, n_rows=60, n_columns=4, dtype=np.float64):
    rng = np.random.default_rng(0)
    groups = np.repeat([f"shop {k}" for k in range(n_groups)], n_rows)
    X = rng.normal(size=(len(groups), n_columns)).astype(dtype)
    own = rng.normal(size=(n_groups, n_columns))
    y = (X * np.repeat(own, n_rows, axis=0)).sum(axis=1) + rng.logistic(size=len(X)) > 0
    return X, np.where(y, "yes", "no"), groups


@pytest.fixture
def data():
    return make_groups()


def fitted(estimator, X, y, groups, key, **kwargs):
    own = groups == key
    kwargs = {name: values[own] for name, values in kwargs.items()}
    return estimator.fit(X[own], y[own], **kwargs)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        LogisticRegression(C=0.1, fit_intercept=False),
        LogisticRegression(l1_ratio=1.0, C=0.5),
        LogisticRegression(l1_ratio=0.5, tol=1e-9),
        LogisticRegression(solver="liblinear"),
    ],
    ids=repr,
)
def test_models_are_those_of_a_loop_to_the_last_bit(estimator, dtype, n_threads):
    X, y, groups = make_groups(dtype=dtype)
    models = fit_many(estimator, X, y, groups, n_threads=n_threads)
    assert list(models) == models.keys_ == sorted(set(groups))
    for key in models:
        alone = fitted(LogisticRegression(**estimator.get_params()), X, y, groups, key)
        model = models[key]
        assert model.coef_.dtype == dtype
        np.testing.assert_array_equal(model.coef_, alone.coef_)
        np.testing.assert_array_equal(model.intercept_, alone.intercept_)
        np.testing.assert_array_equal(model.n_iter_, alone.n_iter_)
        assert (model.gap_, model.objective_) == (alone.gap_, alone.objective_)
        assert vars(model).keys() == vars(alone).keys()
    np.testing.assert_array_equal(models.gap_, [models[key].gap_ for key in models])
    np.testing.assert_array_equal(models.coef_, [models[key].coef_ for key in models])
    assert (models.gap_ <= 1e-6 * models.objective_).all()


def test_they_are_found_in_one_call(data, monkeypatch):
    monkeypatch.setattr(LogisticRegression, "fit", lambda *args: pytest.fail("a fit by itself"))
    assert len(fit_many(LogisticRegression(), *data)) == 7


def test_rows_in_any_order_weights_and_sparse_rows(data):
    X, y, groups = data
    order = np.random.default_rng(1).permutation(len(y))
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    sparse = csr_matrix(X[order])
    models = fit_many(
        LogisticRegression(), sparse, y[order], groups[order], sample_weight=weights[order]
    )
    for key in models:
        alone = fitted(LogisticRegression(), X, y, groups, key, sample_weight=weights)
        np.testing.assert_allclose(models[key].coef_, alone.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(class_weight="balanced"),
        LogisticRegression(solver="pqn"),
        LogisticRegression(C=np.inf),
        snapml.LinearSVC(),
        sklearn.linear_model.LogisticRegression(),
    ],
    ids=repr,
)
def test_other_estimators_are_fitted_one_by_one(data, estimator):
    X, y, groups = data
    models = fit_many(estimator, X, y, groups)
    for key in models:
        alone = fitted(type(estimator)(**estimator.get_params()), X, y, groups, key)
        np.testing.assert_array_equal(models[key].coef_, alone.coef_)


def test_regressors_and_their_predictions(data):
    X, _, groups = data
    targets = X @ np.array([1.0, 2.0, 0.0, -1.0]) + (groups == "shop 3")
    models = fit_many(snapml.Ridge(alpha=1e-6), X, targets, groups)
    np.testing.assert_allclose(models.predict(X, groups), targets, atol=1e-5)
    assert models.intercept_.shape == (7,)
    assert models.intercept_[3] == pytest.approx(1.0, abs=1e-5)


def test_predictions_are_those_of_each_groups_model(data):
    X, y, groups = data
    models = fit_many(LogisticRegression(), X, y, groups)
    order = np.random.default_rng(1).permutation(len(y))[:50]
    labels, shares = (
        predict(X[order], groups[order]) for predict in (models.predict, models.predict_proba)
    )
    for k, row in enumerate(order):
        model = models[groups[row]]
        assert labels[k] == model.predict(X[row : row + 1])[0]
        np.testing.assert_array_equal(shares[k], model.predict_proba(X[row : row + 1])[0])


def test_group_of_one_class_is_told_and_the_others_are_fitted(data):
    X, y, groups = data
    y = np.where(groups == "shop 2", "yes", y)
    with pytest.warns(FitFailedWarning, match=r"1 of 7 groups .*'shop 2'.*one class"):
        models = fit_many(LogisticRegression(), X, y, groups)
    assert len(models) == 6
    assert "shop 2" not in models
    assert list(models.errors) == ["shop 2"]
    assert np.isnan(models.gap_[2])
    assert np.isnan(models.coef_[2]).all()
    assert not np.isnan(np.delete(models.coef_, 2, axis=0)).any()
    with pytest.raises(KeyError, match="has no model"):
        models["shop 2"]
    with pytest.raises(ValueError, match=r"got 'shop 2'.*one class"):
        models.predict(X, groups)


def test_rows_that_are_not_finite_concern_their_group_alone(data):
    X, y, groups = data
    X[groups == "shop 4", 1] = np.inf
    with pytest.warns(FitFailedWarning, match="'shop 4'.*infinity"):
        models = fit_many(LogisticRegression(), X, y, groups)
    assert list(models.errors) == ["shop 4"]
    assert len(models) == 6


def test_coefficients_of_several_shapes_are_not_stacked(data):
    X, y, groups = data
    y = np.where((groups == "shop 1") & (X[:, 0] > 1), "maybe", y)
    models = fit_many(LogisticRegression(), X, y, groups)
    assert models["shop 1"].coef_.shape == (3, 4)
    with pytest.raises(ValueError, match=r"coef_: expected models of one shape, got \[\(1, 4\), "):
        _ = models.coef_


def test_class_that_a_group_lacks_is_a_class_of_others(data):
    """Each group has its own classes, as in a loop."""
    X, y, groups = data
    y = np.where((groups == "shop 1") & (y == "no"), "maybe", y)
    models = fit_many(LogisticRegression(), X, y, groups)
    assert models["shop 1"].classes_.tolist() == ["maybe", "yes"]
    assert models["shop 0"].classes_.tolist() == ["no", "yes"]
    with pytest.raises(ValueError, match="same classes"):
        models.predict_proba(X, groups)


def test_frames_categories_and_names(data):
    X, y, groups = data
    names = [*sorted(set(groups)), "closed"]
    frame = pd.DataFrame(X, columns=list("abcd"))
    shops = pd.Series(pd.Categorical(groups, categories=names[::-1]))
    with pytest.warns(FitFailedWarning, match=r"'closed': expected rows, got none"):
        models = fit_many(LogisticRegression(), frame, pd.Series(y), shops)
    assert models.keys_ == names[-2::-1]
    assert models["shop 0"].feature_names_in_.tolist() == list("abcd")
    assert models.predict(frame, shops).shape == y.shape


def test_numbers_are_groups_too(data):
    X, y, groups = data
    numbers = np.array([int(name[-1]) for name in groups])
    models = fit_many(LogisticRegression(), X, y, numbers)
    assert list(models) == list(range(7))


def test_progress_is_logged(data, caplog):
    with caplog.at_level(logging.INFO, logger="snapml"):
        fit_many(snapml.LinearSVC(), *data, verbose=3)
    assert [record.message.split(",")[0] for record in caplog.records] == [
        "3 of 7 groups",
        "6 of 7 groups",
    ]


def test_models_are_pickled(data):
    X, y, groups = data
    models = pickle.loads(pickle.dumps(fit_many(LogisticRegression(), X, y, groups)))
    assert (models.predict(X, groups) == y).mean() > 0.7


def test_what_one_call_does_not_solve_is_fitted_alone(data, monkeypatch):
    real = many_fits.solve_groups

    def first_fails(*args):
        found = real(*args)
        found.has_converged[0] = False
        return found

    monkeypatch.setattr(many_fits, "solve_groups", first_fails)
    models = fit_many(LogisticRegression(), *data)
    assert len(models) == 7
    assert len(models["shop 0"].history_) > 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"groups": np.zeros(3)}, ValueError, "inconsistent numbers of samples"),
        ({"groups": np.full(420, np.nan)}, ValueError, r"a group for each row, got none in row 0"),
        ({"groups": [None] * 420}, ValueError, "got none in row 0"),
        ({"groups": np.zeros((420, 2))}, ValueError, r"one group a row, got shape \(420, 2\)"),
        ({"groups": np.array(["a", 1] * 210, dtype=object)}, TypeError, "several kinds"),
        ({"estimator": LogisticRegression(C=-1)}, ValueError, "C == -1"),
        ({"estimator": snapml.LinearSVC(C=-1)}, ValueError, "C == -1"),
        ({"X": np.full((420, 4), np.nan)}, ValueError, "NaN"),
        ({"n_threads": 0}, ValueError, "n_threads"),
        ({"verbose": -1}, ValueError, "verbose"),
        ({"sample_weight": np.ones(3)}, ValueError, "inconsistent"),
        ({"y": np.ones(420)}, ValueError, "class"),
    ],
)
def test_bad_input_says_what_was_expected(data, change, error, message):
    X, y, groups = data
    arguments = {"estimator": LogisticRegression(), "X": X, "y": y, "groups": groups} | change
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=message):
            fit_many(**arguments)


def test_unknown_groups_are_refused(data):
    X, y, groups = data
    models = fit_many(LogisticRegression(), X, y, groups)
    with pytest.raises(ValueError, match=r"got 'new': it was not in fit"):
        models.predict(X[:1], ["new"])
    with pytest.raises(KeyError):
        models["new"]
