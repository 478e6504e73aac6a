"""Searches over regressors of counts and amounts: paths in each fold, scores of single fits."""

import numpy as np
import pytest
import sklearn.model_selection
from scipy.sparse import csr_matrix
from sklearn.metrics import make_scorer, mean_poisson_deviance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from snapml import (
    GammaRegressor,
    GeneralizedLinearRegressor,
    NegativeBinomialRegressor,
    PoissonRegressor,
    TweedieRegressor,
)
from snapml.model_selection import GridSearchCV

RNG = np.random.default_rng(4)
N, P = 260, 5
X = RNG.standard_normal((N, P))
MEANS = np.exp(X @ np.resize([0.5, -0.4, 0.0], P))
WEIGHTS = RNG.uniform(0.5, 2.0, N)
COUNTS, AMOUNTS = RNG.poisson(MEANS).astype(float), RNG.gamma(2.0, MEANS)
EXACT = dict(tol=1e-13, max_iter=5000)
MODELS = {
    "poisson": (PoissonRegressor, {}, COUNTS),
    "gamma": (GammaRegressor, {}, AMOUNTS),
    "tweedie": (TweedieRegressor, {"power": 1.6}, COUNTS),
    "negative binomial": (NegativeBinomialRegressor, {"theta": 0.4}, COUNTS),
    "by name": (GeneralizedLinearRegressor, {"family": "binomial"}, (COUNTS > 0).astype(float)),
}


@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_single_fits(name, is_sparse, ratio):
    make, parameters, y = MODELS[name]
    rows = csr_matrix(X) if is_sparse else X
    model = make(**parameters, l1_ratio=ratio, **EXACT)
    grid, params = {"alpha": [0.01, 1.0, 0.1]}, {"sample_weight": WEIGHTS}
    ours = GridSearchCV(model, grid, cv=3, return_train_score=True).fit(rows, y, **params)
    theirs = sklearn.model_selection.GridSearchCV(model, grid, cv=3, return_train_score=True)
    theirs.fit(rows, y, **params)
    assert ours.n_shared_ == 9
    for which in ("test", "train"):
        key = f"mean_{which}_score"
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], atol=1e-6)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_array_equal(ours.best_estimator_.coef_, theirs.best_estimator_.coef_)


def test_pipelines_and_scorers_are_as_always():
    scorer = make_scorer(mean_poisson_deviance, greater_is_better=False)
    pipeline = make_pipeline(StandardScaler(), PoissonRegressor(**EXACT))
    grid = {"poissonregressor__alpha": [0.01, 1.0], "poissonregressor__l1_ratio": [0.0, 0.5]}
    ours = GridSearchCV(pipeline, grid, cv=3, scoring=scorer).fit(X, COUNTS)
    theirs = sklearn.model_selection.GridSearchCV(pipeline, grid, cv=3, scoring=scorer)
    theirs.fit(X, COUNTS)
    assert ours.n_shared_ == 12
    key = "mean_test_score"
    np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:theta. the estimate is")
@pytest.mark.parametrize(
    "model",
    [
        NegativeBinomialRegressor(),  # an estimate of theta is part of each fit
        PoissonRegressor(solver="pqn"),
        PoissonRegressor(warm_start=True),
        PoissonRegressor(max_time_s=9.0),
    ],
    ids=str,
)
def test_what_belongs_to_single_fits_is_fitted_alone(model):
    search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=3).fit(X, COUNTS)
    assert search.n_shared_ == 0


def test_fold_without_events_fails_as_it_does_alone():
    y = np.where(np.arange(N) < 60, COUNTS + 1.0, 0.0)
    folds = [(np.arange(60, N), np.arange(60)), (np.arange(100), np.arange(100, N))]
    search = GridSearchCV(PoissonRegressor(), {"alpha": [0.1, 1.0]}, cv=folds, error_score=-7.0)
    with pytest.warns(Warning, match="expected counts of which one is above 0"):
        search.fit(X, y)
    np.testing.assert_array_equal(search.cv_results_["split0_test_score"], -7.0)
    assert search.n_shared_ == 2
