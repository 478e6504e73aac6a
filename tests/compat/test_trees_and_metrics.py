"""Trees and metrics under Snap ML's names."""

import inspect

import numpy as np
import pytest
from sklearn import metrics
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris

import snapml
from snapml import compat

NAMES = [
    "criterion",
    "splitter",
    "max_depth",
    "min_samples_leaf",
    "max_features",
    "random_state",
    "n_jobs",
    "use_histograms",
    "hist_nbins",
    "use_gpu",
    "gpu_id",
    "verbose",
]
KINDS = [
    (compat.DecisionTreeClassifier, snapml.DecisionTreeClassifier, load_iris),
    (compat.DecisionTreeRegressor, snapml.DecisionTreeRegressor, load_diabetes),
]


@pytest.mark.parametrize(("kind", "ours", "data"), KINDS)
@pytest.mark.parametrize("use_histograms", [False, True])
def test_trees_are_this_librarys(kind, ours, data, use_histograms):
    X, y = data(return_X_y=True)
    weights = np.arange(len(y)) % 3
    assert list(inspect.signature(kind).parameters) == NAMES
    model = clone(kind(max_depth=4, use_histograms=use_histograms, random_state=0, n_jobs=2))
    model.fit(X, y, weights)
    own = ours(max_depth=4, splitter="hist" if use_histograms else "best", random_state=0)
    own.fit(X, y, weights)
    np.testing.assert_array_equal(model.predict(X, n_jobs=1), own.predict(X))
    np.testing.assert_array_equal(model.feature_importances_, own.feature_importances_)
    assert model.score(X, y) > 0.4
    assert model.estimator_.n_threads == 2
    if kind is compat.DecisionTreeClassifier:
        np.testing.assert_array_equal(model.predict_proba(X), own.predict_proba(X))
        assert model.n_classes_ == 3


def test_auto_features_are_the_root_for_classes_and_all_for_numbers():
    for (kind, _, _), expected in zip(KINDS, ("sqrt", None), strict=True):
        assert kind(max_features="auto")._estimator().max_features == expected
        assert kind(max_features=0.5)._estimator().max_features == 0.5


def test_bins_fit_a_byte_by_default():
    assert compat.DecisionTreeClassifier()._estimator().max_bins == 255
    assert compat.DecisionTreeClassifier(hist_nbins=16)._estimator().max_bins == 16


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"use_gpu": True}, NotImplementedError, "trees grow on the CPU"),
        ({"splitter": "random"}, ValueError, "splitter: expected 'best'"),
        ({"criterion": "entropy"}, ValueError, "criterion: expected 'gini'"),
    ],
)
def test_what_snap_ml_or_this_library_lacks_is_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        compat.DecisionTreeClassifier(**parameters).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("name", ["RandomForestClassifier", "BoostingMachineRegressor"])
def test_names_that_are_not_here_say_where_to_look(name):
    with pytest.raises(ImportError, match=f"{name} of Snap ML is not in this library: .*XGBoost"):
        exec(f"from snapml.compat import {name}", {})
    with pytest.raises(ImportError, match="cannot import name 'Forest'"):
        exec("from snapml.compat import Forest", {})
    assert not hasattr(compat, "forest")


def test_metrics_are_scikit_learns_of_labels_or_of_a_partition(tmp_path):
    rng = np.random.default_rng(0)
    y, margins = rng.integers(0, 2, 50), rng.normal(size=50)
    compat.dump_to_snap_format(margins[:, None], y, tmp_path / "rows.snap")
    partition = compat.load_from_snap_format(tmp_path / "rows.snap")
    share = 1 / (1 + np.exp(-margins))
    cases = {
        "accuracy_score": margins > 0,
        "hinge_loss": margins,
        "log_loss": np.column_stack([1 - share, share]),
        "mean_squared_error": margins,
        "r2_score": margins,
    }
    for name, prediction in cases.items():
        expected = getattr(metrics, name)(y, prediction)
        for data in (y, y.tolist(), partition):
            assert getattr(compat, name)(data, prediction) == pytest.approx(expected)
        with pytest.raises(ValueError, match=r"inconsistent|length|Shape"):
            getattr(compat, name)(y[:40], prediction)


def test_a_partition_without_labels_has_no_metrics(tmp_path):
    snapml.io.convert(iter([np.ones((3, 2))]), tmp_path / "store")
    data = snapml.data.ChunkedDataset.open(tmp_path / "store")
    with pytest.raises(ValueError, match="expected a partition with labels"):
        compat.accuracy_score(data, [0, 0, 0])
