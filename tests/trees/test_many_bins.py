"""More than 255 bins: two bytes an entry, and the exact splits of columns of many values."""

import numpy as np
import pytest
import sklearn.tree
from scipy.sparse import csr_matrix

import snapml
from snapml import _native
from tests.trees.test_histogram_tree import DecisionTreeClassifier as Classifier
from tests.trees.test_histogram_tree import DecisionTreeRegressor as Regressor
from tests.trees.test_histogram_tree import assert_same_tree, make_rows

MOST = 65_535


def bin_rows(X, max_bins):
    return _native.bin_rows(_native.ThreadPool(1), _native.Rows.dense(X), max_bins, None)


@pytest.mark.parametrize("has_missing", [False, True])
def test_a_bin_for_each_value_gives_scikit_learns_tree(has_missing):
    X, target = make_rows(6000)
    if has_missing:
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    rules = {"max_depth": 8, "min_samples_leaf": 20}
    model = Regressor(max_bins=MOST, **rules).fit(X, target)
    exact = sklearn.tree.DecisionTreeRegressor(**rules, random_state=0).fit(X, target)
    for name in ("feature", "threshold", "n_node_samples"):
        np.testing.assert_array_equal(getattr(model.tree_, name), getattr(exact.tree_, name))


@pytest.mark.parametrize("max_bins", [256, 1000, 5000, MOST])
def test_layouts_and_threads_give_one_tree(max_bins):
    X, target = make_rows(140_000, 5)
    X[np.abs(X) < 0.5] = 0
    rules = {"max_depth": 9, "max_bins": max_bins}
    one, two, sparse = (
        Classifier(n_threads=n_threads, **rules).fit(rows, target > 0)
        for n_threads, rows in ((1, X), (2, X), (2, csr_matrix(X)))
    )
    assert one.get_n_leaves() > 100
    assert_same_tree(one, two)
    assert_same_tree(one, sparse)


def test_bins_take_two_bytes_where_a_column_has_many():
    X, _ = make_rows(3000, 3, n_values=255)
    assert isinstance(bin_rows(X, MOST), _native.BinnedRows)
    X[:, 1] = np.arange(3000)
    assert isinstance(bin_rows(X, 255), _native.BinnedRows)
    wide = bin_rows(X, MOST)
    assert isinstance(wide, _native.WideRows)
    assert wide.n_bins == sum(len(np.unique(x)) + 1 for x in X.T)


def test_values_that_the_sample_misses_make_bins_wide():
    X = np.zeros((600_000, 2), np.float32)
    rare = np.random.default_rng(0).choice(len(X), 400, replace=False)
    X[rare, 0] = np.arange(1, 401)
    y = X[:, 0] * (X[:, 0] < 300)
    assert isinstance(bin_rows(X, 2000), _native.WideRows)
    model = Regressor(max_bins=2000).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    assert_same_tree(model, Regressor(max_bins=2000).fit(csr_matrix(X), y))


def test_more_bins_than_values_change_nothing():
    X, target = make_rows(5000, n_values=100)
    few = snapml.DecisionTreeRegressor(splitter="hist").fit(X, target)
    assert_same_tree(few, Regressor(max_bins=MOST).fit(X, target))
