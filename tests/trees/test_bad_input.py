"""What cannot be a tree is refused with what was expected and what came; odd data are served."""

from functools import partial

import numpy as np
import pytest

import snapml
from snapml import _native

X = np.arange(12, dtype=np.float32).reshape(6, 2)
y = np.array([0, 1, 0, 1, 1, 0])

DecisionTreeClassifier = partial(snapml.DecisionTreeClassifier, splitter="hist")
DecisionTreeRegressor = partial(snapml.DecisionTreeRegressor, splitter="hist")


def test_what_only_the_exact_builder_does_is_refused_by_name():
    parameters = {"criterion": "absolute_error"}
    with pytest.raises(NotImplementedError, match=r"absolute_error.*splitter='best'"):
        DecisionTreeRegressor(**parameters).fit(X, y)
    assert snapml.DecisionTreeRegressor(**parameters).fit(X, y).tree_.node_count > 1


def test_several_outputs_are_refused_by_name():
    with pytest.raises(ValueError, match=r"expected one output, got 2.*splitter='best'"):
        DecisionTreeClassifier().fit(X, np.stack([y, y], axis=1))


@pytest.mark.parametrize("max_bins", [1, 65_536, 2.5])
def test_bins_are_2_to_65535(max_bins):
    with pytest.raises(ValueError, match="max_bins"):
        DecisionTreeClassifier(max_bins=max_bins).fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinity_is_refused(dtype):
    bad = X.astype(dtype)
    bad[3, 1] = np.inf
    bad[2, 0] = np.nan
    with pytest.raises(ValueError, match="infinity"):
        DecisionTreeClassifier().fit(bad, y)


def test_what_is_too_large_for_float32_is_refused():
    bad = X.astype(np.float64)
    bad[3, 1] = 1e300
    with pytest.raises(ValueError, match="infinity"):
        DecisionTreeClassifier().fit(bad, y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1, 1, -1, 1, 1, 1], "no negative weights, got -1"), ([0] * 6, "zero"), ([1, 1], "shape")],
)
def test_weights_are_checked(weights, message):
    with pytest.raises(ValueError, match=message):
        DecisionTreeClassifier().fit(X, y, sample_weight=weights)


def test_weights_of_classes_are_checked():
    by_class = {0: 2.0, 1: -1.0}
    with pytest.raises(ValueError, match=r"class_weight: expected no negative weights, got -1"):
        DecisionTreeClassifier(class_weight=by_class).fit(X, y)
    model = snapml.DecisionTreeClassifier(class_weight=by_class).fit(X, y)
    assert model.builder_ == "scikit-learn"


@pytest.mark.parametrize("splitter", ["hist", "best"])
@pytest.mark.parametrize(
    ("by_class", "by_row", "message"),
    [
        ({0: np.nan}, None, "class_weight: expected weights with a finite sum, got nan"),
        (None, [1e308] * 6, "sample_weight: expected weights with a finite sum, got inf"),
        ({0: 1e200}, [1e200] + [0.0] * 5, "finite sum, got inf"),
        ({0: 0.0, 1: 0.0}, None, "a positive weight, got zeros only"),
        ({0: "a"}, None, "could not convert string to float"),
        (None, ["a"] * 6, "could not convert string to float"),
    ],
)
def test_weights_are_numbers_with_a_sum(splitter, by_class, by_row, message):
    model = snapml.DecisionTreeClassifier(splitter=splitter, class_weight=by_class)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sample_weight=by_row)


@pytest.mark.parametrize("splitter", ["hist", "best"])
def test_targets_beyond_sums_are_refused(splitter):
    model = snapml.DecisionTreeRegressor(splitter=splitter)
    with pytest.raises(ValueError, match="finite in float64"):
        model.fit(X, np.full(6, 1e308) * [1, -1, 1, -1, 1, -1])


@pytest.mark.parametrize("targets", [[1, -1, 0, 0, 0, 0], [0] * 6])
def test_poisson_needs_counts(targets):
    with pytest.raises(ValueError, match="Poisson regression"):
        DecisionTreeRegressor(criterion="poisson").fit(X, targets)


@pytest.mark.parametrize(
    "rows",
    [np.ones((6, 3)), np.full((6, 3), np.nan), np.zeros((6, 1), np.float32)],
    ids=["equal", "missing", "zero"],
)
def test_rows_that_do_not_differ_are_one_leaf(rows):
    model = DecisionTreeClassifier().fit(rows, y)
    assert model.tree_.node_count == 1
    np.testing.assert_allclose(model.predict_proba(rows), 0.5)


def test_one_class_and_one_row_are_one_leaf():
    assert DecisionTreeClassifier().fit(X, np.zeros(6)).tree_.node_count == 1
    assert DecisionTreeRegressor().fit(X[:1], [3.0]).predict(X).tolist() == [3.0] * 6


@pytest.mark.parametrize("limit", ["max_depth", "max_leaf_nodes"])
def test_limits_beyond_any_sense_are_none(limit):
    n_rows = 2000  # each split takes one row from the end
    rows = np.arange(n_rows, dtype=np.float32)[:, None]
    targets = np.exp2(np.arange(n_rows) % 900)
    model = DecisionTreeRegressor(**{limit: 10**30}).fit(rows, targets)
    np.testing.assert_allclose(model.predict(rows).sum(), targets.sum())


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
def test_many_classes_are_refused_before_memory_is_gone():
    n_rows = 300_000
    rows = np.random.default_rng(0).normal(size=(n_rows, 3)).astype(np.float32)
    with pytest.raises(ValueError, match="fit into memory"):
        DecisionTreeClassifier().fit(rows, np.arange(n_rows))


def test_some_hundred_classes_are_told_apart():
    rows = np.arange(600, dtype=np.float32)[:, None] // 3
    labels = np.array([f"class {int(x)}" for x in rows[:, 0]])
    model = DecisionTreeClassifier().fit(rows, labels)
    assert (model.predict(rows) == labels).all()


def test_predictions_on_other_columns_are_refused():
    model = DecisionTreeClassifier().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(np.ones((500, 3)))


def pool_and_bins():
    pool = _native.ThreadPool(1)
    return pool, _native.bin_rows(pool, _native.Rows.dense(X), 255, None)


def test_bindings_refuse_what_would_leave_memory():
    pool, binned = pool_and_bins()
    rules = (2, "gini", 5, 2, 1, 0.0, 0.0, 2, 0, 0, 1 << 20, 1 << 20, None, None)
    classes = y.astype(np.int32)
    with pytest.raises(ValueError, match=r"classes in \[0, 2\)"):
        _native.grow_tree(pool, binned, classes + 1, None, *rules)
    with pytest.raises(ValueError, match="6 elements"):
        _native.grow_tree(pool, binned, classes[:5], None, *rules)
    with pytest.raises(ValueError, match="criterion"):
        _native.grow_tree(pool, binned, classes, None, 2, "other", *rules[2:])
    with pytest.raises(ValueError, match=r"monotonic: expected .* 2 elements, got 1"):
        _native.grow_tree(pool, binned, classes, None, *rules[:-2], np.ones(1, np.int32), None)
    with pytest.raises(ValueError, match="at most 2 classes, got 3"):
        _native.grow_tree(pool, binned, classes, None, 3, *rules[1:-2], np.ones(2, np.int32), None)
    with pytest.raises(ValueError, match=r"kept: expected rows in \[0, 6\)"):
        _native.bin_rows(pool, _native.Rows.dense(X), 255, np.array([6]))


def test_bindings_refuse_nodes_that_lead_nowhere():
    pool, leaves = _native.ThreadPool(1), np.empty(6, np.int64)
    nodes = [np.array(a, np.int64) for a in ([1, -1, -1], [3, -1, -1], [0, -2, -2])]
    rest = [np.zeros(3), np.zeros(3, np.uint8), leaves]
    with pytest.raises(ValueError, match="children after their parents"):
        _native.find_leaves(pool, _native.Rows.dense(X), *nodes, *rest)
    nodes = [np.array(a, np.int64) for a in ([1, 2, -1], [2, 2, -1], [0, 0, -2])]
    with pytest.raises(ValueError, match="one parent"):
        _native.find_leaves(pool, _native.Rows.dense(X), *nodes, *rest)
