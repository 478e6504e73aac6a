"""Callbacks in scikit-learn's protocol, in every iterative solver."""

import logging
import pickle
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from snapml import Lasso, LinearSVC, LogisticRegression, Ridge
from snapml.callbacks import EarlyStopping
from tests.estimators.test_time_budget import FITS, Y3, X, Y

VALID = np.random.default_rng(1).standard_normal((200, X.shape[1]))
SUMS = VALID[:, :5].sum(axis=1)

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")


class Recorder:
    """Keeps what it is called with; raises or stops after some passes."""

    def __init__(self, stops_after=None, raises_after=None):
        self.stops_after, self.raises_after = stops_after, raises_after
        self.calls, self.models, self.data = [], [], []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(
        self, estimator, context, *, fitted_estimator=None, X=None, y=None, metadata=None
    ):
        self.calls.append(f"end {context.task_name}")
        if context.task_name == "pass" and fitted_estimator is not None:
            self.models.append(fitted_estimator)
            self.data.append((X, y, metadata))
        if self.raises_after is not None and len(self.models) >= self.raises_after:
            raise ZeroDivisionError("of the callback")
        return self.stops_after is not None and len(self.models) >= self.stops_after

    def teardown(self, estimator, context):
        self.calls.append("teardown")


def fitted(made, rows, targets, *callbacks, **parameters):
    model = clone(made).set_params(**parameters).set_callbacks(*callbacks)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "relative duality gap")  # at rounding level
        return model.fit(rows, targets)


@pytest.mark.parametrize("name", FITS)
def test_callbacks_see_models_on_the_way_that_end_at_the_fitted_one(name):
    made, rows, targets = FITS[name]
    seen = Recorder()
    model = fitted(made, rows, targets, seen)
    plain = fitted(made, rows, targets)
    np.testing.assert_array_equal(model.coef_, plain.coef_)  # looking on changes nothing
    assert len(seen.models) >= 2
    assert seen.calls[:3] == ["setup", "begin fit", "begin pass"]
    assert seen.calls[-3:] == ["end pass", "end fit", "teardown"]
    assert seen.calls.count("begin pass") == seen.calls.count("end pass") == len(seen.models) + 1
    assert all(given == (rows, targets, None) for given in seen.data[:1])
    last = seen.models[-1]
    assert np.shape(last.coef_) == np.shape(model.coef_)
    assert np.shape(last.intercept_) == np.shape(model.intercept_)
    scale = np.abs(model.coef_).max()
    np.testing.assert_allclose(last.coef_, model.coef_, rtol=0, atol=2e-2 * scale)
    np.testing.assert_allclose(last.intercept_, model.intercept_, rtol=0, atol=2e-2 * scale)
    assert np.shape(last.predict(rows)) == np.shape(model.predict(rows))
    assert np.abs(seen.models[0].coef_ - model.coef_).max() > 1e-3 * scale


@pytest.mark.parametrize("name", ["quasi-Newton", "working sets", "softmax", "lasso"])
def test_models_on_the_way_bring_certificates_that_hold(name):
    made, rows, targets = FITS[name]
    seen = Recorder()
    best = fitted(made, rows, targets, seen).objective_
    for model in seen.models:
        assert model.objective_ - model.gap_ <= best * (1 + 1e-9)
        assert best <= model.objective_ * (1 + 1e-9)


@pytest.mark.parametrize("name", FITS)
def test_callback_ends_a_fit_without_a_warning_and_with_a_line_in_the_log(name, caplog):
    made, rows, targets = FITS[name]
    with caplog.at_level(logging.INFO, "snapml"), warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(made).set_callbacks(Recorder(stops_after=1)).fit(rows, targets)
    assert "a callback ended the fit after" in caplog.text
    assert np.max(model.n_iter_) <= 2
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("name", FITS)
def test_error_of_a_callback_reaches_the_caller_and_leaves_the_estimator_as_it_was(name):
    made, rows, targets = FITS[name]
    seen = Recorder(raises_after=1)
    model = clone(made).set_callbacks(seen)
    before, n_threads = dict(vars(model)), threading.active_count()
    with pytest.raises(ZeroDivisionError, match="of the callback"):
        model.fit(rows, targets)
    assert vars(model) == before
    assert seen.calls[-1] == "teardown"
    assert threading.active_count() <= n_threads


def test_error_of_a_callback_leaves_no_files_of_a_source(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    n_threads = threading.active_count()
    model = LogisticRegression(memory_limit=10_000).set_callbacks(Recorder(raises_after=2))
    with pytest.raises(ZeroDivisionError):
        model.fit(iter([(X[:300], Y[:300]), (X[300:], Y[300:])]))
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() <= n_threads


def happens(condition, within_s=10.0):
    """Return whether a condition becomes true in time."""
    end_s = time.monotonic() + within_s
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.01)
    return condition()


def test_scikit_learns_own_callbacks_run_and_leave_no_threads(capsys):
    monitor = callback.ScoringMonitor(scoring="neg_log_loss")
    n_threads = threading.active_count()
    model = LogisticRegression().set_callbacks(callback.ProgressBar(), monitor).fit(X, Y)
    # The monitor's listener lives as it does, and writes down what it hears in its own time.
    assert happens(lambda: threading.active_count() <= n_threads + 1)
    assert happens(lambda: len(monitor.get_logs().data) >= 3)
    scores = [entry["neg_log_loss"] for entry in monitor.get_logs().data]
    assert scores[1] < scores[0]  # the first pass, the whole fit
    assert "LogisticRegression - fit" in capsys.readouterr().out
    assert model.score(X, Y) > 0.8


def test_grid_search_hands_a_progress_bar_on(capsys):
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(X, Y)
    assert "LogisticRegression - fit" in capsys.readouterr().out
    assert not hasattr(search.best_estimator_, "_skl_callbacks")


def test_weights_reach_callbacks_as_scikit_learn_hands_them_on():
    seen, weights = Recorder(), np.arange(1.0, len(Y) + 1)
    LogisticRegression().set_callbacks(seen).fit(X, Y, sample_weight=weights)
    assert seen.data[0][2]["sample_weight"] is weights


def test_what_is_no_callback_is_refused():
    with pytest.raises(TypeError, match="FitCallback"):
        Ridge().set_callbacks(print)


def test_older_scikit_learn_refuses_callbacks_by_its_version():
    code = """
import importlib, sys, sklearn
import snapml.estimators.fit_call as fit_call
sys.modules["sklearn.callback"] = None
sklearn.__version__ = "1.8.0"
old = importlib.reload(fit_call)
assert old.with_callbacks(print) is print
try:
    old.CallbackSupport().set_callbacks(1)
except NotImplementedError as error:
    assert "expected scikit-learn 1.9 or newer, got 1.8.0" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.filterwarnings("ignore:relative duality gap")
@pytest.mark.parametrize(
    ("made", "rows", "targets", "validation"),
    [
        (LogisticRegression(C=10.0, solver="sdca", tol=1e-9), X, Y, (VALID, SUMS > 0)),
        (LinearSVC(C=10.0), X, Y3, (VALID, np.digitize(SUMS, [-1.0, 1.0]))),
    ],
)
def test_early_stopping_ends_a_fit_whose_score_has_settled(made, rows, targets, validation):
    stopping = EarlyStopping(*validation, patience=2)
    model = fitted(made, rows, targets, stopping)
    whole = fitted(made, rows, targets)  # each class by itself
    assert len(stopping.scores_) < (np.max(whole.n_iter_) + 1) * len(np.atleast_2d(whole.coef_))
    assert stopping.best_score_ == max(stopping.scores_)
    assert stopping.best_estimator_.score(*validation) == stopping.best_score_
    assert stopping.scores_.index(stopping.best_score_) == len(stopping.scores_) - 3
    assert np.isfinite(model.gap_)
    kept = pickle.loads(pickle.dumps(stopping.best_estimator_))
    np.testing.assert_array_equal(kept.predict(X), stopping.best_estimator_.predict(X))
    assert not hasattr(kept.fit(rows, targets), "_skl_callbacks")


def test_early_stopping_begins_anew_with_each_fit_and_minds_its_margin():
    stopping = EarlyStopping(X, X[:, 0], patience=1, min_delta=10.0)
    model = Lasso(alpha=0.01, tol=1e-12).set_callbacks(stopping)
    for _ in range(2):
        model.fit(X, X[:, 0])
        assert len(stopping.scores_) == 2  # no R^2 exceeds the first one by so much


@pytest.mark.parametrize("bad", [{"patience": 0}, {"patience": 1.5}, {"min_delta": -1}])
def test_early_stopping_refuses_what_makes_no_sense(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        EarlyStopping(X, Y, **bad)


def test_early_stopping_keeps_no_model_without_a_score_where_another_has_one():
    scores = iter([np.nan, -5.0, -3.0])
    stopping = EarlyStopping(X, Y, scoring=lambda *_: next(scores, -9.0), patience=2)
    fitted(LogisticRegression(), X, Y, stopping)
    assert len(stopping.scores_) > 3
    assert stopping.best_score_ == -3.0


def test_early_stopping_says_that_it_saw_no_pass():
    stopping = EarlyStopping(X, X[:, 0])
    with pytest.warns(UserWarning, match="saw no pass of Ridge"):
        Ridge().set_callbacks(stopping).fit(X, X[:, 0])
    assert stopping.best_estimator_ is None


def test_early_stopping_refuses_several_metrics():
    with pytest.raises(TypeError, match="scoring: expected a name"):
        EarlyStopping(X, Y, scoring=["accuracy", "roc_auc"])
