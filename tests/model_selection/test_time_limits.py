"""Searches whose time ends: finished candidates are judged, the others have no score."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression as TheirLogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from snapml import LogisticRegression
from snapml.estimators import fit_call
from snapml.model_selection import GridSearchCV
from snapml.solvers import control
from snapml.solvers.many import many_models

GRID = {"C": np.logspace(-4, 3, 40)}  # more fits than go side by side


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


@pytest.fixture
def clock(monkeypatch):
    """Time stands still until `ends_after` solves have been made, and is over then.

    Of the many models of more rows than stay in a cache.
    """
    monkeypatch.setattr("snapml.solvers.newton.small_newton._MOST_ENTRIES", 0)

    class Clock:
        ends_after, n_solves = 1, 0

        def monotonic(self):
            return 1e9 if self.n_solves >= self.ends_after else 0.0

    clock, solve = Clock(), many_models.solve

    def counted(*arguments, **options):
        found = solve(*arguments, **options)
        clock.n_solves += 1
        return found

    monkeypatch.setattr(many_models, "solve", counted)
    for module in (control, fit_call):
        monkeypatch.setattr(module, "time", clock)
    return clock


def fitted_with_failures(search, X, y):
    with (
        pytest.warns(
            FitFailedWarning, match="TimeoutError: max_time_s: the search's 60 s are over"
        ),
        pytest.warns(UserWarning, match="are non-finite"),
    ):
        return search.fit(X, y)


def test_candidates_out_of_time_have_no_score_and_rank_last(data, clock):
    X, y = data
    search = fitted_with_failures(
        GridSearchCV(LogisticRegression(), GRID, cv=3, max_time_s=60), X, y
    )
    whole = GridSearchCV(LogisticRegression(), GRID, cv=3).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    is_judged = np.isfinite(scores)
    assert 0 < is_judged.sum() < 40
    assert is_judged[0]  # strong penalties go first
    assert not is_judged[-1]
    np.testing.assert_array_equal(
        scores[is_judged], whole.cv_results_["mean_test_score"][is_judged]
    )
    assert search.cv_results_["rank_test_score"][~is_judged].min() > is_judged.sum()
    assert search.best_score_ == scores[is_judged].max()
    assert search.best_estimator_.gap_ >= 0.0  # the refit has time of its own
    assert search.n_shared_ == 3 * is_judged.sum()


def test_pipelines_end_between_folds(data, clock):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=3, max_time_s=60)
    clock.ends_after = 3
    assert search.fit(X, y).n_shared_ == 6
    clock.ends_after, clock.n_solves = 1, 0
    with (
        pytest.warns(FitFailedWarning, match="4 fits failed out of a total of 6"),
        pytest.warns(UserWarning, match="are non-finite"),
    ):
        search.set_params(refit=False).fit(X, y)
    assert np.isfinite(search.cv_results_["split0_test_score"]).all()
    assert np.isnan(search.cv_results_["split1_test_score"]).all()


def test_search_without_any_finished_candidate_says_why(data, clock):
    clock.ends_after = 0
    clock.monotonic = iter([0.0, *[1e9] * 10_000]).__next__
    with pytest.raises(ValueError, match=r"(?s)All the 120 fits failed.*TimeoutError: max_time_s"):
        GridSearchCV(LogisticRegression(), GRID, cv=3, max_time_s=60).fit(*data)


def test_error_score_raise_raises_what_came(data, clock):
    search = GridSearchCV(LogisticRegression(), GRID, cv=3, max_time_s=60, error_score="raise")
    with pytest.raises(TimeoutError, match="the search's 60 s are over"):
        search.fit(*data)
    assert not hasattr(search, "cv_results_")


def test_enough_time_changes_nothing(data):
    search = GridSearchCV(LogisticRegression(), GRID, cv=3, max_time_s=1e6).fit(*data)
    plain = GridSearchCV(LogisticRegression(), GRID, cv=3).fit(*data)
    for name in ("mean_test_score", "rank_test_score"):
        np.testing.assert_array_equal(search.cv_results_[name], plain.cv_results_[name])


@pytest.mark.parametrize("wrong", [0, -1.0, np.nan, "long"])
def test_limits_that_are_none_are_refused(data, wrong):
    search = GridSearchCV(LogisticRegression(), GRID, max_time_s=wrong)
    with pytest.raises((ValueError, TypeError), match="max_time_s"):
        search.fit(*data)


@pytest.mark.parametrize(
    "estimator", [TheirLogisticRegression(), LogisticRegression(solver="sdca")]
)
def test_what_is_not_shared_has_no_limit(data, estimator):
    search = GridSearchCV(estimator, GRID, max_time_s=60)
    with pytest.raises(NotImplementedError, match="max_time_s: expected a search whose fits can"):
        search.fit(*data)
