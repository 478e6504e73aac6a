"""Callbacks that a script sets on scikit-learn's class look on at the fit by snapml."""

import numpy as np
import pytest
import sklearn.linear_model
from sklearn.model_selection import GridSearchCV

import snapml
from snapml.accel import accelerated, classes

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 has no callbacks")


class Recorder:
    """Writes down what it is told; raises or ends the fit where it is asked to."""

    def __init__(self, *, raises=None, at="on_fit_task_end", ends=False):
        self.raises, self.at, self.ends = raises, at, ends
        self.seen = []

    def _tell(self, hook, estimator, context):
        self.seen.append((hook, type(estimator), type(context), context.task_name))
        if self.raises is not None and hook == self.at:
            raise self.raises

    def setup(self, estimator, context):
        self._tell("setup", estimator, context)

    def on_fit_task_begin(self, estimator, context):
        self._tell("on_fit_task_begin", estimator, context)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.fitted = fitted_estimator
        self._tell("on_fit_task_end", estimator, context)
        return self.ends and context.task_name == "pass"

    def teardown(self, estimator, context):
        self._tell("teardown", estimator, context)


class Propagated(Recorder):
    """One that searches hand down to their candidates."""

    max_propagation_depth = None


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    return X, (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=300) > 1).astype(int)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(accelerated, "_said", set())


def test_they_see_snapmls_estimator_and_the_passes_of_its_fit(rows, caplog):
    X, y = rows
    recorder = Recorder()
    model = classes.LogisticRegression().set_callbacks(recorder).fit(X, y)
    assert model.gap_ >= 0
    assert caplog.messages == []
    hooks = [hook for hook, *_ in recorder.seen]
    assert (hooks[0], hooks[-1]) == ("setup", "teardown")
    assert {cls for _, cls, *_ in recorder.seen} == {snapml.LogisticRegression}
    assert {context for _, _, context, _ in recorder.seen} == {callback.CallbackContext}
    assert {task for *_, task in recorder.seen} == {"fit", "pass"}
    np.testing.assert_array_equal(recorder.fitted.predict(X), model.predict(X))


def test_scikit_learns_monitor_has_a_score_for_each_pass(rows):
    X, y = rows
    monitor = callback.ScoringMonitor(scoring="neg_log_loss")
    model = classes.LogisticRegression().set_callbacks(monitor).fit(X, y)
    scores = [row["neg_log_loss"] for row in monitor.get_logs().data if row["task_name"] == "pass"]
    assert len(scores) >= model.n_iter_[0] >= 1
    assert scores[-1] > scores[0]


def test_one_that_ends_the_fit_ends_it(rows, caplog):
    caplog.set_level("INFO", logger="snapml")
    recorder = Recorder(ends=True)
    model = classes.LogisticRegression(C=100.0).set_callbacks(recorder).fit(*rows)
    ended = [
        hook for hook, *_, task in recorder.seen if (hook, task) == ("on_fit_task_end", "pass")
    ]
    assert len(ended) == 2  # the pass that it ended the fit at, and the empty one of the protocol
    assert model.gap_ > 0
    assert "a callback ended the fit" in caplog.text


@pytest.mark.parametrize("at", ["setup", "on_fit_task_begin", "on_fit_task_end", "teardown"])
@pytest.mark.parametrize("kind", [ValueError, TypeError, NotImplementedError, RuntimeError])
def test_their_errors_reach_the_caller_and_are_no_refusals(rows, caplog, kind, at):
    error = kind("of the callback")
    recorder = Recorder(raises=error, at=at)
    model = classes.LogisticRegression().set_callbacks(recorder)
    with pytest.raises(kind) as raised:
        model.fit(*rows)
    assert raised.value is error
    assert not hasattr(model, "coef_")
    assert {cls for _, cls, *_ in recorder.seen} == {snapml.LogisticRegression}  # no second fit
    assert caplog.messages == []


def test_parameters_that_stay_scikit_learns_take_their_callbacks_along(rows, caplog):
    recorder = Recorder()
    model = classes.LogisticRegression(warm_start=True).set_callbacks(recorder).fit(*rows)
    assert not hasattr(model, "gap_")
    assert {cls for _, cls, *_ in recorder.seen} == {classes.LogisticRegression}
    assert "each fit starts anew" in caplog.text


def test_a_fit_that_snapml_gives_up_is_made_anew_by_scikit_learn(rows, caplog, monkeypatch):
    class Refusing(snapml.LogisticRegression):
        def _run(self, *_):
            raise ValueError("rows: expected others")  # after callbacks were told that it begins

    monkeypatch.setattr(classes.LogisticRegression, "ours", Refusing)
    X, y = rows
    recorder = Recorder()
    model = classes.LogisticRegression().set_callbacks(recorder).fit(X, y)
    theirs = sklearn.linear_model.LogisticRegression().fit(X, y)
    np.testing.assert_array_equal(model.coef_, theirs.coef_)
    assert caplog.messages == ["LogisticRegression stays scikit-learn's: rows: expected others"]
    both = [cls for hook, cls, *_ in recorder.seen if hook in ("setup", "teardown")]
    assert both == [Refusing] * 2 + [classes.LogisticRegression] * 2


def test_they_see_the_steps_of_a_search_and_the_passes_of_its_choice(rows, caplog):
    recorder = Recorder()
    options = {"use_legacy_attributes": False, "l1_ratios": (0,), "scoring": "neg_log_loss"}
    model = classes.LogisticRegressionCV(Cs=2, cv=2, **options).set_callbacks(recorder)
    model.fit(*rows)
    assert model.gap_ >= 0
    assert caplog.messages == []
    assert {cls for _, cls, *_ in recorder.seen} == {snapml.LogisticRegressionCV}
    assert {task for *_, task in recorder.seen} == {"fit", "step", "pass"}


def test_searches_hand_theirs_down_and_the_fits_are_below_their_tasks(rows):
    X, y = rows
    recorder = Propagated()
    search = GridSearchCV(classes.LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    search.set_callbacks(recorder).fit(X, y)
    inner = [hook for hook, cls, *_ in recorder.seen if cls is snapml.LogisticRegression]
    assert "on_fit_task_end" in inner
    assert "setup" not in inner  # the search has set it up, once
    assert [hook for hook, *_ in recorder.seen].count("setup") == 1
    assert search.best_estimator_.gap_ >= 0
    assert "_parent_callback_ctx" not in vars(search.best_estimator_)
