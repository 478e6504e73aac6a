"""Rows come to the leaves that scikit-learn's walk brings them to."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml import DecisionTreeClassifier, DecisionTreeRegressor, _native
from tests.trees.test_histogram_tree import make_rows


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_rows", [3001, 4096])
def test_deep_walks_with_values_missing_anywhere_are_scikit_learns(n_rows, order):
    """Of columns without missing values in training, they go where most rows went."""
    X, target = make_rows(20_000)
    X[::7, 0] = np.nan
    model = DecisionTreeRegressor(splitter="hist", n_threads=2).fit(X, target)
    assert model.get_depth() > 12
    assert 0 < model.tree_.missing_go_to_left[model.tree_.feature >= 0].mean() < 1
    rows = np.array(X[:n_rows], np.float32, order=order)
    rows[::2][np.random.default_rng(1).random(rows[::2].shape) < 0.2] = np.nan
    np.testing.assert_array_equal(model.apply(rows), model.tree_.apply(rows))


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
@pytest.mark.parametrize("n_rows", [500, 4097])
@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf, 1e300])
def test_float64_walks_as_float32(layout, n_rows, bad):
    """Bad entries anywhere are told from missing values; what overflows float32 is infinite."""
    X, target = make_rows(500)
    X[::9, 1] = np.nan
    model = DecisionTreeRegressor(splitter="hist", max_depth=6, n_threads=1).fit(X, target)
    rows = np.random.default_rng(2).normal(size=(2 * n_rows, 12))
    rows = rows[::2, ::2] if layout == "strided" else np.array(rows[:n_rows, :6], order=layout)
    rows[n_rows - 1, 5] = bad
    if bad > 1:
        with pytest.raises(ValueError, match=r"infinity or a value too large"):
            model.predict(rows)
    else:
        np.testing.assert_array_equal(model.apply(rows), model.tree_.apply(rows.astype(np.float32)))


def test_numbers_part_from_missing_values_at_infinity():
    """The only split is between numbers and missing values, which go to either side."""
    X = np.concatenate([np.full(200, np.nan), np.arange(200.0), [np.finfo(np.float32).max]])
    model = DecisionTreeClassifier(splitter="hist").fit(X[:, None], np.isnan(X))
    assert model.tree_.threshold[0] == np.inf
    np.testing.assert_array_equal(model.predict(X[:, None]), np.isnan(X))


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("n_rows", [1, 500])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, 1e300])
def test_predictions_refuse_infinities(n_rows, bad):
    X, target = make_rows(500)
    model = DecisionTreeRegressor(splitter="hist", max_depth=2).fit(X, target)
    rows = np.zeros((n_rows, 6))
    rows[0, 2] = bad
    with pytest.raises(ValueError, match=r"infinity or a value too large"):
        model.predict(rows)


@pytest.mark.parametrize("order", ["C", "F"])
def test_bindings_walk_at_the_ends_of_float32(order):
    """The root sends what is missing left; numbers are next to its threshold, or infinite."""
    most = np.finfo(np.float32).max
    x = np.array([np.nan, -np.inf, -most, -1e-45, -0.0, 0.0, 1e-45, 1, most, np.inf], np.float32)
    rows = np.asarray(np.stack([x, x], axis=1), order=order)
    for threshold in (-np.inf, -most, -1e-45, 0.0, 1e-46, 1e-45, 1 - 1e-12, most, np.inf):
        leaves = np.empty(len(x), np.int64)
        children = [np.array(a, np.int64) for a in ([1, -1, -1], [2, -1, -1], [1, -2, -2])]
        rest = [np.array([threshold, -2, -2]), np.array([1, 0, 0], np.uint8), leaves]
        _native.find_leaves(_native.ThreadPool(1), _native.Rows.dense(rows), *children, *rest)
        np.testing.assert_array_equal(leaves == 1, np.isnan(x) | (x.astype(float) <= threshold))


def naive_leaf(row, left, right, column, threshold, missing_left):
    at = 0
    while left[at] >= 0:
        x = row[column[at]]
        goes_left = missing_left[at] if np.isnan(x) else float(x) <= threshold[at]
        at = left[at] if goes_left else right[at]
    return at


@pytest.mark.parametrize("layout", ["rows", "columns", "compressed"])
def test_bindings_walk_by_any_thresholds(layout):
    """Nodes that come from elsewhere may send all rows one way, at any level."""
    rng = np.random.default_rng(3)
    n_nodes = 2**10 - 1
    numbers = np.arange(n_nodes)
    left, right = (np.where(numbers < n_nodes // 2, 2 * numbers + k, -1) for k in (1, 2))
    column = np.where(left >= 0, rng.integers(0, 3, n_nodes), -2)
    threshold = rng.choice([np.nan, np.inf, -np.inf, -0.5, 0.0, 0.5], n_nodes)
    missing_left = rng.integers(0, 2, n_nodes).astype(np.uint8)
    nodes = left, right, column, threshold, missing_left
    X = rng.choice(np.array([np.nan, -1, -0.5, 0, 0.2, 1], np.float32), (200, 3))
    X = np.repeat(X, 8, axis=0)  # those that walk together
    pool, found = _native.ThreadPool(1), np.empty(len(X), np.int64)
    if layout == "compressed":
        S = csr_matrix(X)
        rows = _native.Rows.compressed(pool, S.indptr, S.indices, S.data, 0.0, False, 3, False)
    else:
        rows = _native.Rows.dense(np.asarray(X, order="C" if layout == "rows" else "F"))
    _native.find_leaves(pool, rows, *nodes, found)
    expected = [naive_leaf(row, *nodes) for row in X]
    assert len(set(expected)) > 5
    np.testing.assert_array_equal(found, expected)
