"""Callbacks of searches whose fits share X: they see steps, and go down to the refit."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from snapml import LogisticRegression
from snapml.callbacks import EarlyStopping
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.model_selection import GridSearchCV

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
GRID = {"C": np.logspace(-4, 3, 40)}


class Recorder:
    """Writes down tasks; ends the search after some steps, or raises."""

    def __init__(self, ends_after=None, error=None):
        self.ends_after, self.error = ends_after, error
        self.calls, self.data = [], []

    def setup(self, estimator, context):
        self.calls.append(("setup", type(estimator).__name__, context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X=None, metadata=None):
        self.calls.append(("begin", type(estimator).__name__, context.task_name))
        self.data.append((X, metadata))

    def on_fit_task_end(self, estimator, context):
        self.calls.append(("end", type(estimator).__name__, context.task_name))
        n_steps = sum(call[0] == "end" for call in self.calls)
        if self.ends_after is None or n_steps < self.ends_after:
            return False
        if self.error is not None:
            raise self.error
        return True

    def teardown(self, estimator, context):
        self.calls.append(("teardown", type(estimator).__name__, context.task_name))

    def named(self, hook, estimator):
        return [call[2] for call in self.calls if call[:2] == (hook, estimator)]


class Propagated(Recorder):
    """One that goes down to inner estimators."""

    max_propagation_depth = None


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


@pytest.mark.parametrize("kind", [Recorder, Propagated])
def test_shared_fits_are_steps_and_the_refit_is_as_in_scikit_learn(data, kind):
    X, y = data
    weights = np.ones(len(y))
    seen = kind()
    search = GridSearchCV(LogisticRegression(), GRID, cv=3).set_callbacks(seen)
    search.fit(X, y, sample_weight=weights)
    plain = GridSearchCV(LogisticRegression(), GRID, cv=3).fit(X, y, sample_weight=weights)
    assert search.n_shared_ == plain.n_shared_ == 120
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(search.best_estimator_.coef_, plain.best_estimator_.coef_)
    assert seen.named("setup", "GridSearchCV") == seen.named("teardown", "GridSearchCV") == ["fit"]
    begun = seen.named("begin", "GridSearchCV")
    assert begun[0] == "fit"
    assert begun.count("step") > 5
    # The estimator itself tells those that go down to it of its fit.
    assert ("refit-with-best-params" in begun) == (kind is Recorder)
    assert set(begun) <= {"fit", "step", "refit-with-best-params"}
    assert seen.data[0][0] is X
    assert seen.data[0][1]["sample_weight"] is weights
    inner = seen.named("begin", "LogisticRegression")
    assert ("pass" in inner) == (kind is Propagated)
    assert seen.calls[-2][0] == "end"
    for one in (search, search.best_estimator_):
        assert not {"_callback_fit_ctx", "_parent_callback_ctx"} & set(vars(one))
    assert not hasattr(search.best_estimator_, "_skl_callbacks")


def test_bar_of_scikit_learn_shows_search_and_refit_and_shares(data, capsys):
    search = GridSearchCV(LogisticRegression(), GRID, cv=3)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(*data)
    assert search.n_shared_ == 120
    shown = capsys.readouterr().out
    assert "GridSearchCV - fit" in shown
    assert "LogisticRegression - fit" in shown


def test_pipelines_tell_callbacks_too(data):
    seen = Propagated()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=3)
    search.set_callbacks(seen).fit(*data)
    assert search.n_shared_ == 6
    assert "step" in seen.named("begin", "GridSearchCV")
    assert "pass" in seen.named("begin", "LogisticRegression")


def test_callback_ends_a_search_whose_best_of_the_judged_is_refitted(data):
    search = GridSearchCV(LogisticRegression(), GRID, cv=3).set_callbacks(Recorder(ends_after=6))
    with (
        pytest.warns(FitFailedWarning, match="RuntimeError: a callback ended the search before"),
        pytest.warns(UserWarning, match="are non-finite"),
    ):
        search.fit(*data)
    is_judged = np.isfinite(search.cv_results_["mean_test_score"])
    assert 0 < is_judged.sum() < 40
    assert search.best_estimator_.gap_ >= 0.0


@pytest.mark.parametrize("after", [1, 4])
@pytest.mark.parametrize("is_pipeline", [False, True])
def test_error_of_a_callback_reaches_the_caller_and_leaves_nothing(data, after, is_pipeline):
    seen = Recorder(after, ZeroDivisionError("of the callback"))
    made, grid = LogisticRegression(), GRID
    if is_pipeline:
        made = make_pipeline(StandardScaler(), made)
        grid = {"logisticregression__C": GRID["C"]}
    search = GridSearchCV(made, grid, cv=3).set_callbacks(seen)
    before = dict(vars(search))
    with pytest.raises(ZeroDivisionError, match="of the callback"):
        search.fit(*data)
    assert vars(search) == before
    assert seen.calls[-1][0] == "teardown"


def test_callbacks_of_the_estimator_itself_see_each_fit(data):
    X, y = data
    stopping = EarlyStopping(X, y)
    search = GridSearchCV(LogisticRegression().set_callbacks(stopping), {"C": [0.1, 1.0]}, cv=2)
    assert search.fit(X, y).n_shared_ == 0
    assert stopping.scores_


def test_searches_over_a_store_tell_callbacks_too(data, tmp_path):
    with ChunkWriter(tmp_path / "rows") as writer:
        writer.append(*data)
    store, seen = ChunkedDataset.open(tmp_path / "rows"), Propagated()
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=3).set_callbacks(seen)
    assert search.fit(store).n_shared_ == 6
    assert "step" in seen.named("begin", "GridSearchCV")
    assert "pass" in seen.named("begin", "LogisticRegression")
    assert seen.data[0][0] is store
    inner = LogisticRegression().set_callbacks(Recorder())
    with pytest.raises(NotImplementedError, match="expected an estimator without callbacks"):
        GridSearchCV(inner, {"C": [0.1, 1.0]}, cv=3).fit(store)


def test_search_that_shares_nothing_shows_scikit_learns_tasks(data):
    X, y = data
    seen = Recorder()
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, search_tol=0)
    assert search.set_callbacks(seen).fit(X, y).n_shared_ == 0
    assert seen.named("setup", "GridSearchCV") == seen.named("teardown", "GridSearchCV") == ["fit"]
    assert "step" not in seen.named("begin", "GridSearchCV")
