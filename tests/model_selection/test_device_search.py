"""Searches whose models share reads of X on an emulated GPU."""

import logging

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice
from real_device import real_device, with_real_device
from scipy.sparse import csr_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from snapml import LinearSVC, LogisticRegression, LogisticRegressionCV
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.model_selection import GridSearchCV
from snapml.searches.shared import fits as shared_fits
from snapml.solvers.many import gpu_many_rows
from snapml.solvers.plan import device_choice

GRID = {"C": [0.01, 0.1, 1.0], "class_weight": [None, "balanced"]}


@pytest.fixture(params=with_real_device(["emulated"]))
def asked(request, monkeypatch):
    """Numbers of the devices that were asked for."""
    numbers = []

    def make(device_id):
        numbers.append(device_id)
        return real_device() if request.param == "gpu" else StrictDevice()

    monkeypatch.setattr(device_choice, "make_device", make)
    return numbers


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 8)) * (rng.random((150, 8)) < 0.6)
    y = np.where(X[:, 0] - X[:, 1] + rng.normal(size=150) > 0, "yes", "no")
    return X, y


def assert_same(found, expected):
    assert found.best_params_ == expected.best_params_
    for name in ("mean_test_score", "std_test_score", "rank_test_score"):
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], atol=1e-12)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC])
def test_search_is_the_hosts(asked, data, make, is_sparse):
    X, y = data
    X = csr_matrix(X) if is_sparse else X
    options = dict(cv=3, scoring="neg_log_loss" if make is LogisticRegression else "roc_auc")
    options["search_tol"] = 1e-13
    expected = GridSearchCV(make(), GRID, **options).fit(X, y)
    found = GridSearchCV(make(device_ids=[2]), GRID, **options).fit(X, y)
    assert found.n_shared_ == expected.n_shared_ == 18
    assert_same(found, expected)
    assert set(asked) == {2}
    assert "emulated" in found.best_estimator_.solver_ or "(device" in found.best_estimator_.solver_
    np.testing.assert_allclose(found.best_estimator_.coef_, expected.best_estimator_.coef_, 1e-3)


def test_a_pipeline_ends_on_the_device(asked, data):
    X, y = data
    grid = {"logisticregression__C": [0.1, 1.0]}
    models = [LogisticRegression(device_ids=ids) for ids in (None, [0])]
    expected, found = (
        GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=3).fit(X, y)
        for model in models
    )
    assert found.n_shared_ == 6
    assert asked
    assert_same(found, expected)


def test_folds_of_logistic_regression_cv_share_there(asked, data, monkeypatch):
    X, y = data
    solved = []
    whole = shared_fits.device_products

    def counted(device, matrix):
        solved.append(matrix.shape)
        return whole(device, matrix)

    monkeypatch.setattr(shared_fits, "device_products", counted)
    options = dict(
        Cs=4, cv=3, l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False, tol=1e-10
    )
    expected = LogisticRegressionCV(**options).fit(X, y)
    found = LogisticRegressionCV(**options, device_ids=[0]).fit(X, y)
    assert solved == [(150, 8)]
    assert found.C_ == expected.C_
    np.testing.assert_allclose(found.scores_, expected.scores_, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{"device_ids": [0, 1]}, {"device_ids": [0], "memory_limit": "1GB"}], ids=str
)
def test_what_is_fitted_one_by_one(asked, data, options):
    X, y = data
    grid = {"C": [0.1, 1.0]}
    expected = GridSearchCV(LogisticRegression(tol=1e-10), grid, cv=2, search_tol=0).fit(X, y)
    found = GridSearchCV(LogisticRegression(tol=1e-10, **options), grid, cv=2).fit(X, y)
    assert found.n_shared_ == 0
    assert_same(found, expected)


def test_rows_of_a_store_stream_in_single_fits(asked, data, tmp_path):
    X, y = data
    with ChunkWriter(tmp_path / "rows") as writer:
        writer.append(X, (y == "yes").astype(float))
    store = ChunkedDataset.open(tmp_path / "rows")
    expected, found = (
        GridSearchCV(LogisticRegression(tol=1e-10, device_ids=ids), {"C": [0.1, 1.0]}, cv=2)
        .set_params(search_tol=1e-13)
        .fit(store)
        for ids in (None, [0])
    )
    assert (expected.n_shared_, found.n_shared_) == (4, 0)
    assert_same(found, expected)


def test_a_full_device_is_told_of_and_fits_follow_one_another(asked, data, monkeypatch, caplog):
    X, y = data
    monkeypatch.setattr(shared_fits, "most_models", lambda *_: 0)
    with caplog.at_level(logging.INFO, "snapml"):
        found = GridSearchCV(LogisticRegression(device_ids=[0]), {"C": [0.1, 1.0]}, cv=2).fit(X, y)
    assert found.n_shared_ == 0
    assert "has no room for rows and 16 models" in caplog.text


def test_numbers_that_name_no_device_are_refused(data):
    X, y = data
    search = GridSearchCV(LogisticRegression(device_ids=0), {"C": [0.1, 1.0]}, cv=2)
    search.set_params(error_score="raise")
    with pytest.raises(TypeError, match="device_ids=0: expected None or a list"):
        search.fit(X, y)


def test_an_error_there_reaches_the_caller_and_leaves_nothing(asked, data, monkeypatch):
    X, y = data

    def fail(*_):
        raise RuntimeError("the card is gone")

    monkeypatch.setattr(gpu_many_rows.ManyMarginLosses, "tangents", fail)
    search = GridSearchCV(LogisticRegression(device_ids=[0]), {"C": [0.1, 1.0]}, cv=2)
    with pytest.raises(RuntimeError, match="the card is gone") as caught:
        search.fit(X, y)
    assert not hasattr(search, "best_estimator_")
    frame = caught.traceback[-1].frame
    assert not frame.f_locals
