"""Exact splits: the very trees of scikit-learn, whatever random_state breaks their ties."""

import lzma
import time

import numpy as np
import pandas as pd
import pytest
import sklearn.tree
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_svmlight_file

from snapml import DecisionTreeClassifier, DecisionTreeRegressor
from tests.reference.data import public_file

KINDS = {"classes": (DecisionTreeClassifier, sklearn.tree.DecisionTreeClassifier)}
KINDS["numbers"] = (DecisionTreeRegressor, sklearn.tree.DecisionTreeRegressor)


def assert_same_tree(X, y, kind="classes", sample_weight=None, n_threads=None, **params):
    own, its = KINDS[kind]
    ours = own(splitter="best", n_threads=n_threads, **params).fit(X, y, sample_weight)
    assert ours.builder_ == "exact"
    theirs = its(**params).fit(X, y, sample_weight)
    got, expected = ours.tree_.__getstate__(), theirs.tree_.__getstate__()
    assert got["max_depth"] == expected["max_depth"]
    assert got["node_count"] == expected["node_count"] > 1
    for name in sklearn.tree._tree.NODE_DTYPE.names:
        if name == "missing_go_to_left":  # means nothing in leaves
            inner = expected["nodes"]["left_child"] >= 0
            np.testing.assert_array_equal(got["nodes"][name][inner], expected["nodes"][name][inner])
        elif name == "impurity":
            np.testing.assert_allclose(got["nodes"][name], expected["nodes"][name], atol=1e-9)
        else:
            np.testing.assert_array_equal(got["nodes"][name], expected["nodes"][name], name)
    np.testing.assert_allclose(got["values"], expected["values"], atol=1e-12)


RULES = [
    {},
    {"criterion": "entropy"},
    {"criterion": "log_loss", "max_features": "sqrt"},
    {"max_features": 1, "max_depth": 6},
    {"min_samples_leaf": 5, "min_samples_split": 0.05},
    {"min_impurity_decrease": 0.01},
    {"min_weight_fraction_leaf": 0.02, "class_weight": {0: 2.0}},
    {"ccp_alpha": 0.005},
]


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("load", [load_digits, load_iris, load_breast_cancer])
def test_tree_is_scikit_learns(load, rules):
    X, y = load(return_X_y=True)
    for random_state in range(3):
        assert_same_tree(X, y, random_state=random_state, **rules)


def of_svmlight(name, n_features):
    with lzma.open(public_file(name)) as file:
        X, y = load_svmlight_file(file, n_features=n_features)
    return X.toarray(), y


def of_table(name, target, **read):
    table = pd.read_csv(public_file(name), **read).dropna()
    y = table.pop(target)
    return table.select_dtypes("number").to_numpy(), y.to_numpy()


def of_arrays(name):
    arrays = np.load(public_file(name))
    return arrays["X"], arrays["y"]


PUBLIC = {
    "a9a": lambda: of_svmlight("a9a.train.svm.xz", 123),
    "letter": lambda: of_table("letter.csv.gz", "lettr"),
    "magic": lambda: of_table("magic04.csv.gz", "class"),
    "madelon": lambda: of_arrays("madelon.npz"),
    "covtype": lambda: of_arrays("covtype_20k.npz"),
}


@pytest.mark.parametrize("data", PUBLIC)
def test_tree_of_public_data_is_scikit_learns(data):
    X, y = PUBLIC[data]()
    assert_same_tree(X, y, random_state=0, n_threads=2)
    assert_same_tree(X, y, random_state=1, max_depth=8, criterion="entropy")


def test_numbers_whose_sums_are_exact_give_scikit_learns_tree():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8))
    y = np.round(4 * (X[:, 0] * X[:, 1] + X[:, 2])) + rng.integers(-2, 3, size=len(X))
    for random_state in range(3):
        assert_same_tree(X, y, "numbers", random_state=random_state)
        assert_same_tree(X, y, "numbers", random_state=random_state, max_depth=5, max_features=3)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_missing_values_weights_and_layouts(order, dtype, is_weighted):
    rng = np.random.default_rng(1)
    X = np.asarray(rng.normal(size=(3000, 6)).round(1), dtype, order)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X)) > 0).astype(int)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 5] = np.where(y, np.nan, 1.0)  # parted from all others by being missing
    weights = rng.integers(0, 4, len(X)).astype(float) if is_weighted else None
    assert_same_tree(X[:, :5], y, sample_weight=weights, random_state=0)
    assert_same_tree(X[:, :5], y, sample_weight=weights, random_state=1, min_samples_leaf=20)
    assert_same_tree(X, y, sample_weight=weights, random_state=0)


def test_threads_share_the_columns_of_large_nodes():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40_000, 5)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + rng.normal(size=len(X)) > 0).astype(int)
    for n_threads in (1, 3):
        assert_same_tree(X, y, random_state=0, n_threads=n_threads)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("max_features", [None, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_grow_ahead_of_the_draws_wait_at_ties(kind, max_features, n_threads):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(9000, 24)).astype(np.float32)
    X[:, 6:18] = X[:, 6:18].round()
    X[:, 20:] = X[:, [0, 6, 1, 7]] * [1, 1, -1, -1]  # copies, and mirrors that swap sides
    X[:, 19] = 1
    X[rng.random(len(X)) < 0.1, 2] = np.nan
    y = np.round(3 * X[:, 0] * X[:, 1] + X[:, 6] + X[:, 7] + rng.normal(size=len(X)))
    if kind == "classes":
        y = np.digitize(y, [-2, 2])
    weights = rng.integers(0, 3, len(X)).astype(float)
    for sample_weight in (None, weights):
        rules = {"random_state": 5, "max_features": max_features, "sample_weight": sample_weight}
        assert_same_tree(X, y, kind, n_threads=n_threads, **rules)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (DecisionTreeClassifier, {"max_leaf_nodes": 8}),
        (DecisionTreeClassifier, {"monotonic_cst": [1, 0, 0, 0]}),
        (DecisionTreeRegressor, {"criterion": "poisson"}),
        (DecisionTreeRegressor, {"criterion": "absolute_error", "max_depth": 2}),
    ],
)
def test_what_the_exact_builder_leaves_to_scikit_learn_is_said(kind, params):
    X, y = load_iris(return_X_y=True)
    y = (y > 0).astype(int)
    ours = kind(splitter="best", random_state=0, **params).fit(X, y)
    assert ours.builder_ == "scikit-learn"
    theirs = getattr(sklearn.tree, kind.__name__)(random_state=0, **params).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_infinities_are_refused():
    X = np.array([[0.0], [np.inf], [1.0]])
    with pytest.raises(ValueError, match="infinity"):
        DecisionTreeClassifier(splitter="best").fit(X, [0, 1, 1])
    X[1] = 1e300  # in float32
    with pytest.raises(ValueError, match="infinity"):
        DecisionTreeClassifier(splitter="best").fit(X, [0, 1, 1])


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
@pytest.mark.parametrize("n_threads", [1, 2])
def test_classes_whose_values_cannot_fit_are_refused_before_nodes_are_split(n_threads):
    n_rows = 1_000_000
    rng = np.random.default_rng(6)
    X = np.column_stack([np.zeros(n_rows), rng.permutation(n_rows)]).astype(np.float32)
    model = DecisionTreeClassifier(splitter="best", n_threads=n_threads)
    start = time.process_time()
    with pytest.raises(ValueError, match=r"values of \d+ nodes for 1000000 classes do not fit"):
        model.fit(X, np.arange(n_rows))
    assert time.process_time() - start < 20  # a root alone takes a tenth, all that fits minutes


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_many_classes_are_numbered_anew_in_branches(criterion):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(10_000, 8)).astype(np.float32)
    y = np.digitize(X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=len(X)), np.linspace(-2, 2, 300))
    rules = {"criterion": criterion, "random_state": 0, "max_depth": 5, "n_threads": 2}
    assert_same_tree(X, y, **rules)
    assert_same_tree(X, y, sample_weight=y % 3 + 1.0, **rules)


def test_the_default_sorts_small_data_and_counts_large_data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(10_001, 3))
    y = X[:, 0] > 0
    assert DecisionTreeClassifier(max_depth=2).fit(X[1:], y[1:]).builder_ == "exact"
    assert DecisionTreeClassifier(max_depth=2).fit(X, y).builder_ == "hist"
    assert DecisionTreeClassifier(max_leaf_nodes=3).fit(X, y).builder_ == "hist"
    assert DecisionTreeClassifier(monotonic_cst=[1, 0, 0]).fit(X, y).builder_ == "hist"
    model = DecisionTreeRegressor(criterion="absolute_error", max_depth=1).fit(X, y)
    assert (model.builder_, model.splitter) == ("scikit-learn", "auto")
