"""Whole trees: beside scikit-learn's exact ones, on any number of threads, in any layout."""

import lzma
import pickle
from functools import partial

import numpy as np
import pytest
import sklearn.tree
from sklearn.datasets import load_svmlight_file
from sklearn.tree import export_text

import snapml
from tests.reference.data import public_file

DecisionTreeClassifier = partial(snapml.DecisionTreeClassifier, splitter="hist")
DecisionTreeRegressor = partial(snapml.DecisionTreeRegressor, splitter="hist")


def make_rows(n_rows, n_features=6, n_values=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    if n_values is not None:
        X = rng.integers(0, n_values, size=X.shape).astype(np.float32)
    noise = rng.normal(size=n_rows)
    target = X[:, 0] * X[:, 1] + X[:, 2] + noise
    return X, target


def public_rows(name, part):
    with lzma.open(public_file(f"{name}.{part}.svm.xz")) as stream:
        X, y = load_svmlight_file(stream, n_features=127)
    return X.toarray(), y


def assert_same_tree(a, b):
    state, other = a.tree_.__getstate__(), b.tree_.__getstate__()
    assert state["max_depth"] == other["max_depth"]
    np.testing.assert_array_equal(state["nodes"], other["nodes"])
    np.testing.assert_array_equal(state["values"], other["values"])


@pytest.mark.parametrize("max_features", [None, 3])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("kind", [DecisionTreeClassifier, DecisionTreeRegressor])
def test_threads_do_not_change_a_bit(kind, is_weighted, max_features):
    X, target = make_rows(300_000)
    y = target if kind is DecisionTreeRegressor else (target > 0).astype(int)
    w = np.random.default_rng(1).random(len(y)) if is_weighted else None
    one, three = (
        kind(n_threads=n, random_state=0, max_features=max_features).fit(X, y, sample_weight=w)
        for n in (1, 3)
    )
    assert one.tree_.node_count > 10_000
    assert_same_tree(one, three)


@pytest.mark.parametrize(
    ("ours", "theirs", "criterion"),
    [
        (DecisionTreeClassifier, sklearn.tree.DecisionTreeClassifier, "gini"),
        (DecisionTreeClassifier, sklearn.tree.DecisionTreeClassifier, "entropy"),
        (DecisionTreeRegressor, sklearn.tree.DecisionTreeRegressor, "squared_error"),
        (DecisionTreeRegressor, sklearn.tree.DecisionTreeRegressor, "poisson"),
    ],
)
def test_tree_of_few_values_is_scikit_learns(ours, theirs, criterion):
    X, target = make_rows(20_000, n_values=40)
    y = np.exp(target / 1600) if ours is DecisionTreeRegressor else np.digitize(target, [20, 300])
    rules = {"criterion": criterion, "max_depth": 6, "min_samples_leaf": 200}
    model = ours(**rules).fit(X, y)
    expected = theirs(**rules, random_state=0).fit(X, y)
    for name in ("feature", "threshold", "n_node_samples", "missing_go_to_left"):
        np.testing.assert_array_equal(getattr(model.tree_, name), getattr(expected.tree_, name))
    np.testing.assert_allclose(model.tree_.impurity, expected.tree_.impurity, atol=1e-12)
    np.testing.assert_allclose(model.tree_.value, expected.tree_.value)
    np.testing.assert_allclose(model.feature_importances_, expected.feature_importances_)
    assert export_text(model) == export_text(expected)


def test_values_that_a_sample_misses_have_bins_of_their_own():
    x = np.zeros(200_000, np.float32)
    x[777], x[123_456] = 5, np.nan
    y = (x == 5).astype(int)
    model = DecisionTreeClassifier().fit(x[:, None], y)
    assert model.tree_.threshold[0] == 2.5
    np.testing.assert_array_equal(model.predict(x[:, None]), y)


@pytest.mark.parametrize("name", ["a9a", "agaricus"])
@pytest.mark.parametrize("max_depth", [4, 8, None])
def test_accuracy_is_that_of_exact_trees(name, max_depth):
    (X, y), (X_test, y_test) = public_rows(name, "train"), public_rows(name, "test")
    model = DecisionTreeClassifier(max_depth=max_depth).fit(X, y)
    exact = sklearn.tree.DecisionTreeClassifier(max_depth=max_depth, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) == pytest.approx(exact.score(X_test, y_test), abs=0.006)


def test_accuracy_on_continuous_columns_is_that_of_exact_trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 6)).astype(np.float32)
    y = X[:, 0] + np.abs(X[:, 1]) + X[:, 2] * (X[:, 3] > 0) + rng.normal(size=len(X)) > 1
    fit, test = slice(0, 30_000), slice(30_000, None)
    model = DecisionTreeClassifier(max_depth=8).fit(X[fit], y[fit])
    exact = sklearn.tree.DecisionTreeClassifier(max_depth=8, random_state=0).fit(X[fit], y[fit])
    ours, theirs = (tree.score(X[test], y[test]) for tree in (model, exact))
    assert ours == pytest.approx(theirs, abs=0.005)


@pytest.mark.parametrize(
    "change",
    [np.asfortranarray, lambda X: X.astype(np.float64), lambda X: np.repeat(X, 2, axis=1)[:, ::2]],
    ids=["by columns", "float64", "strides"],
)
def test_layout_does_not_change_the_tree(change):
    X, target = make_rows(2000)
    assert_same_tree(
        DecisionTreeRegressor().fit(X, target), DecisionTreeRegressor().fit(change(X), target)
    )


def test_rows_of_weight_zero_take_no_part():
    X, target = make_rows(3000)
    weights = np.arange(3000) % 3
    some = weights > 0
    everyone = DecisionTreeRegressor(max_depth=6).fit(X, target, sample_weight=weights)
    others = DecisionTreeRegressor(max_depth=6).fit(
        X[some], target[some], sample_weight=weights[some]
    )
    assert_same_tree(everyone, others)


def test_predictions_are_those_of_scikit_learns_walk():
    X, target = make_rows(20_000)
    X[::7, 0] = np.nan
    y = np.digitize(target, [-1, 1])
    model = DecisionTreeClassifier(max_depth=9).fit(X, y)
    leaves = model.tree_.apply(X)
    assert len(np.unique(leaves)) > 100
    np.testing.assert_array_equal(model.apply(X), leaves)
    np.testing.assert_array_equal(model.apply(X[:3]), leaves[:3])
    np.testing.assert_array_equal(model.predict_proba(X), model.tree_.value[leaves, 0])
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_pruning_is_scikit_learns():
    X, target = make_rows(2000, n_values=10)
    y = (target > 8).astype(int)
    path = DecisionTreeClassifier().cost_complexity_pruning_path(X, y)
    alpha = path.ccp_alphas[-5]
    pruned = DecisionTreeClassifier(ccp_alpha=alpha).fit(X, y)
    assert 1 < pruned.tree_.node_count <= 11
    np.testing.assert_array_equal(pruned.apply(X), pruned.tree_.apply(X))


@pytest.mark.parametrize(
    "parameters",
    [
        {"min_samples_leaf": 50},
        {"min_samples_leaf": 0.05},
        {"min_samples_split": 300},
        {"min_weight_fraction_leaf": 0.1},
        {"min_impurity_decrease": 0.002},
        {"class_weight": "balanced", "max_depth": 4},
        {"class_weight": {0: 3.0, 1: 0.5}, "max_depth": 4},
    ],
)
def test_limits_cut_where_scikit_learns_do(parameters):
    X, target = make_rows(2000, n_values=30)
    y = (target > 150).astype(int)
    model = DecisionTreeClassifier(**parameters).fit(X, y)
    exact = sklearn.tree.DecisionTreeClassifier(**parameters, random_state=0).fit(X, y)
    assert model.tree_.node_count == exact.tree_.node_count
    np.testing.assert_array_equal(model.tree_.feature, exact.tree_.feature)


def test_columns_are_drawn_by_the_seed():
    X, target = make_rows(2000)
    first, same, other = (
        DecisionTreeRegressor(max_features=1, max_depth=5, random_state=seed).fit(X, target)
        for seed in (0, 0, 1)
    )
    assert_same_tree(first, same)
    assert (first.tree_.feature[:15] != other.tree_.feature[:15]).any()
    assert len(np.unique(first.tree_.feature)) == 7  # all six, and the mark of leaves


@pytest.mark.parametrize("max_leaf_nodes", [2, 7, 40, 300])
def test_few_leaves_do_not_depend_on_threads(max_leaf_nodes):
    """What is grown beyond these leaves does."""
    X, target = make_rows(9000, n_features=60)
    weights = np.random.default_rng(2).random(len(X))
    first, *others = (
        DecisionTreeRegressor(max_leaf_nodes=max_leaf_nodes, n_threads=n_threads).fit(
            X, target, sample_weight=weights
        )
        for n_threads in (1, 2, 5)
    )
    assert first.get_n_leaves() == max_leaf_nodes
    for other in others:
        assert_same_tree(first, other)


@pytest.mark.parametrize("max_leaf_nodes", [2, 7, 40])
def test_few_leaves_are_scikit_learns(max_leaf_nodes):
    X, target = make_rows(20_000, n_values=40)
    rules = {"max_leaf_nodes": max_leaf_nodes, "min_samples_leaf": 50}
    model = DecisionTreeRegressor(**rules, splitter="hist").fit(X, target)
    expected = sklearn.tree.DecisionTreeRegressor(**rules, random_state=0).fit(X, target)
    assert model.get_n_leaves() == max_leaf_nodes
    for name in ("children_left", "children_right", "feature", "threshold", "n_node_samples"):
        np.testing.assert_array_equal(getattr(model.tree_, name), getattr(expected.tree_, name))
    np.testing.assert_allclose(model.tree_.value, expected.tree_.value)
    np.testing.assert_array_equal(model.apply(X), expected.apply(X))
