"""Searches of the CV classes: their time, who looks on, and what is left where they end early."""

import logging
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from snapml import (
    ElasticNetCV,
    GeneralizedLinearRegressorCV,
    LassoCV,
    LogisticRegressionCV,
    RidgeClassifierCV,
    RidgeCV,
)
from snapml.callbacks import EarlyStopping
from snapml.estimators import fit_call
from snapml.solvers import control
from tests.estimators.test_callbacks import Recorder

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 20))
MARGINS = X[:, :5].sum(axis=1) + RNG.standard_normal(200)
Y = (MARGINS > 0).astype(int)
Y3 = np.digitize(MARGINS, [-1.0, 1.0])
ALPHAS = np.logspace(3, -3, 7)
LOGISTIC = {
    "Cs": np.logspace(-3, 3, 7), "cv": 3, "l1_ratios": (0,), "scoring": "neg_log_loss",
    "use_legacy_attributes": False, "max_iter": 1000,
}  # fmt: skip

ELASTIC_NET = {"l1_ratios": (0.5,), "solver": "saga"}  # shares no reads


def logistic(**others):
    return LogisticRegressionCV(**LOGISTIC | others)


def families(**others):
    return GeneralizedLinearRegressorCV(family="poisson", alphas=ALPHAS, cv=3, **others)


# Each with the seconds after which a clock that ticks at every question ends it half way.
SEARCHES = {
    "shared folds": (logistic(), Y, 10),
    "shared folds of three classes": (logistic(), Y3, 12),
    "three classes": (logistic(**ELASTIC_NET), Y3, 200),
    "L1": (logistic(l1_ratios=(1.0,), solver="saga"), Y, 150),
    "folds on threads": (logistic(**ELASTIC_NET, n_jobs=2), Y3, 100),
    "average of the folds": (logistic(**ELASTIC_NET, refit=False), Y3, 200),
    "lasso": (LassoCV(alphas=ALPHAS / 1e3, cv=3), MARGINS, 30),
    "elastic nets": (ElasticNetCV(l1_ratio=[0.5, 0.9], alphas=ALPHAS / 1e3, cv=3), MARGINS, 100),
    "L2 alone": (ElasticNetCV(l1_ratio=0.0, alphas=ALPHAS, cv=3), MARGINS, 60),
    "counts": (families(), Y, 100),
    "counts, L1": (families(l1_ratio=[0.5, 1.0]), Y, 100),
    "ridge": (RidgeCV(ALPHAS, cv=3), MARGINS, 34),
    "ridge classifier": (RidgeClassifierCV(ALPHAS, cv=3), Y3, 34),
    "rows left out": (RidgeCV(ALPHAS, store_cv_results=True), MARGINS, 4),
}
pytestmark = pytest.mark.filterwarnings("ignore:relative duality gap")


@pytest.fixture
def ticking(monkeypatch):
    """Let every question about the time take a second."""

    class Clock:
        now = 0.0

        def monotonic(self):
            self.now += 1.0
            return self.now

    clock = Clock()
    monkeypatch.setattr(control, "time", clock)
    monkeypatch.setattr(fit_call, "time", clock)
    return clock


def tables(model):
    """Return what a search says of each candidate, in its shapes."""
    names = ("scores_", "mse_path_", "cv_results_", "coefs_paths_", "deviance_path_")
    return [getattr(model, name) for name in names if hasattr(model, name)]


@pytest.mark.parametrize("name", SEARCHES)
def test_search_with_time_enough_is_the_search_without_a_bound(name):
    made, y, _ = SEARCHES[name]
    plain = clone(made).fit(X, y)
    bounded = clone(made).set_params(max_time_s=1e6).fit(X, y)
    np.testing.assert_array_equal(bounded.coef_, plain.coef_)
    for ours, theirs in zip(tables(bounded), tables(plain), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", SEARCHES)
def test_search_out_of_time_chooses_among_what_was_judged_on_all_folds(name, ticking):
    made, y, seconds = SEARCHES[name]
    plain = clone(made).fit(X, y)
    model = clone(made).set_params(max_time_s=seconds)
    match = rf"max_time_s={seconds} ended the search with \d+ of its \d+ fits unfinished: their"
    with pytest.warns(ConvergenceWarning, match=match) as seen:
        model.fit(X, y)
    assert seen[0].filename == __file__
    assert np.isfinite(model.coef_).all()
    for ours, whole in zip(tables(model), tables(plain), strict=True):
        is_known = np.isfinite(ours)
        assert is_known.any()
        assert not is_known.all()
        np.testing.assert_allclose(ours[is_known], whole[is_known], rtol=1e-3, atol=1e-5)
    if hasattr(model, "scores_") and model.refit:
        means = model.scores_.mean(axis=(0, 1))
        assert model.Cs_[np.nanargmax(means)] == model.C_
    if hasattr(model, "mse_path_") and model.mse_path_.ndim == 2:
        assert model.alpha_ == model.alphas_[np.nanargmin(model.mse_path_.mean(axis=1))]


@pytest.mark.parametrize("name", SEARCHES)
def test_search_without_any_candidate_in_time_fails_and_leaves_nothing(name):
    made, y, _ = SEARCHES[name]
    model = clone(made).set_params(max_time_s=1e-9)
    before = dict(vars(model))
    with pytest.raises(TimeoutError, match=r"max_time_s=1e-09 ended the search with .* got none"):
        model.fit(X, y)
    assert vars(model) == before


@pytest.mark.parametrize("name", ["shared folds", "lasso", "ridge", "rows left out"])
@pytest.mark.parametrize("wrong", [0, -1.0, np.nan, "long"])
def test_limits_that_are_none_are_refused(name, wrong):
    made, y, _ = SEARCHES[name]
    with pytest.raises((ValueError, TypeError), match="max_time_s"):
        clone(made).set_params(max_time_s=wrong).fit(X, y)


def test_fit_of_the_choice_has_a_time_of_its_own(ticking):
    made, y, seconds = SEARCHES["lasso"]
    with pytest.warns(ConvergenceWarning) as seen:
        model = clone(made).set_params(max_time_s=seconds).fit(X, y)
    assert len(seen) == 1  # of the search alone
    assert model.gap_ <= model.tol * model.objective_


@pytest.mark.parametrize("name", ["shared folds", "three classes", "lasso"])
def test_fit_of_the_choice_ends_in_time_too(name, ticking):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")

    class Late(Recorder):
        def on_fit_task_begin(self, estimator, context):
            ticking.now += 1e4 * (context.task_name == "pass")

    made, y, _ = SEARCHES[name]
    model = clone(made).set_params(max_time_s=5e3).set_callbacks(Late())
    with pytest.warns(ConvergenceWarning, match="max_time_s=5000 ended the fit after") as seen:
        model.fit(X, y)
    assert [one.filename for one in seen] == [__file__]
    assert model.gap_ > 1e-8 * model.objective_


@pytest.mark.parametrize("name", ["three classes", "folds on threads", "lasso"])
def test_time_is_parted_among_folds(name, ticking):
    made, y, seconds = SEARCHES[name]
    with pytest.warns(ConvergenceWarning, match="ended the search"):
        model = clone(made).set_params(max_time_s=seconds).fit(X, y)
    table = model.scores_[:, 0].T if hasattr(model, "scores_") else model.mse_path_
    n_judged = np.isfinite(table).sum(axis=0)
    assert n_judged.min() >= 1
    assert n_judged.max() < len(table)


@pytest.mark.parametrize("name", SEARCHES)
def test_callbacks_see_steps_and_then_passes_of_the_choice(name):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    made, y, _ = SEARCHES[name]
    seen = Recorder()
    model = clone(made).set_callbacks(seen).fit(X, y)
    plain = clone(made).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)  # looking on changes nothing
    assert seen.calls[:3] == ["setup", "begin fit", "begin step"]
    assert seen.calls[-2:] == ["end fit", "teardown"]
    assert seen.calls.count("end step") > len(ALPHAS)
    assert seen.calls.count("begin step") == seen.calls.count("end step")
    assert seen.calls.count("begin pass") == seen.calls.count("end pass")
    if "begin pass" in seen.calls:
        assert "step" not in " ".join(seen.calls[seen.calls.index("begin pass") :])
    for last in seen.models[-1:]:
        assert np.shape(last.predict(X)) == np.shape(y)
        assert np.shape(last.coef_) == np.shape(model.coef_)
    direct = ("ridge", "ridge classifier", "rows left out", "average of the folds")
    assert bool(seen.models) == (name not in direct)
    assert not hasattr(model, "_callback_fit_ctx")


class Ends(Recorder):
    """Ends the search after some steps, or fails."""

    def __init__(self, after, error=None):
        super().__init__()
        self.after, self.error = after, error

    def on_fit_task_end(self, estimator, context, **_):
        self.calls.append(f"end {context.task_name}")
        if self.calls.count("end step") < self.after:
            return False
        if self.error is not None and context.task_name == "step":
            raise self.error
        return True


@pytest.mark.parametrize("name", SEARCHES)
def test_callback_ends_a_search_with_a_line_in_the_log(name, caplog):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    made, y, _ = SEARCHES[name]
    whole = Recorder()
    clone(made).set_callbacks(whole).fit(X, y)
    n_steps = whole.calls.count("end step") - 4  # the last candidate, of the last fold
    with caplog.at_level(logging.INFO, "snapml"), warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(made).set_callbacks(Ends(n_steps)).fit(X, y)
    assert "a callback ended the search with" in caplog.text
    assert np.isfinite(model.coef_).all()
    for table in tables(model):
        assert np.isnan(table).any()
        assert np.isfinite(table).any()


@pytest.mark.parametrize("name", SEARCHES)
def test_callback_that_ends_a_search_at_once_leaves_nothing_to_choose(name):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    made, y, _ = SEARCHES[name]
    model = clone(made).set_callbacks(Ends(1))
    before = dict(vars(model))
    with pytest.raises(RuntimeError, match=r"a callback ended the search with .* got none"):
        model.fit(X, y)
    assert vars(model) == before


@pytest.mark.parametrize("after", [1, 5])
@pytest.mark.parametrize("name", SEARCHES)
def test_error_of_a_callback_reaches_the_caller_and_leaves_the_estimator_as_it_was(name, after):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    made, y, _ = SEARCHES[name]
    seen = Ends(after, ZeroDivisionError("of the callback"))
    model = clone(made).set_callbacks(seen)
    before, n_threads = dict(vars(model)), threading.active_count()
    with pytest.raises(ZeroDivisionError, match="of the callback"):
        model.fit(X, y)
    assert vars(model) == before
    assert seen.calls[-1] == "teardown"
    ends = time.monotonic() + 10.0  # those of a pool end soon after it
    while threading.active_count() > n_threads and time.monotonic() < ends:
        time.sleep(0.01)
    assert threading.active_count() <= n_threads


def test_early_stopping_judges_the_choice_alone():
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    made, y, _ = SEARCHES["shared folds"]
    stopping = EarlyStopping(X[150:], y[150:], scoring="neg_log_loss", patience=1)
    model = clone(made).set_callbacks(stopping).fit(X[:150], y[:150])
    assert np.isfinite(model.scores_).all()
    assert stopping.scores_
    assert stopping.best_estimator_.predict_proba(X[150:]).shape == (50, 2)


def test_bar_of_scikit_learn_runs_over_a_search(capsys):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    made, y, _ = SEARCHES["shared folds"]
    clone(made).set_callbacks(callback.ProgressBar()).fit(X, y)
    assert "LogisticRegressionCV - fit" in capsys.readouterr().out
