"""Every node against the oracle: column, threshold, side of missing values, impurity, value."""

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import snapml
from tests.trees import oracle

CLASSIFICATION = ("gini", "entropy")
CRITERIA = (*CLASSIFICATION, "squared_error", "poisson")
# Decreases that differ by less are taken for equal.
ROUNDING = 1e-12

DecisionTreeClassifier = partial(snapml.DecisionTreeClassifier, splitter="hist")
DecisionTreeRegressor = partial(snapml.DecisionTreeRegressor, splitter="hist")


def make_data(seed, criterion, *, n_rows=60, n_classes=3, missing=0.0, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 7, size=(n_rows, 4)).astype(np.float32) ** 2
    X[rng.random(X.shape) < missing] = np.nan
    if criterion in CLASSIFICATION:
        y = rng.permutation(np.arange(n_rows) % n_classes)
    else:
        y = rng.integers(0, 9, size=n_rows).astype(float)
    w = rng.integers(1, 4, size=n_rows).astype(float) if weighted else np.ones(n_rows)
    return X, y, w


def make_tree(criterion, **parameters):
    kind = DecisionTreeClassifier if criterion in CLASSIFICATION else DecisionTreeRegressor
    return kind(criterion=criterion, **parameters)


def assert_is_oracles(model, X, y, w, criterion, max_depth, min_samples_leaf=1):
    """Follow the tree from its root: no split is worth more than the one taken."""
    tree, left, right = model.tree_, model.tree_.children_left, model.tree_.children_right
    open_nodes = [(0, np.arange(len(y)), 0)]
    n_seen = 0
    while open_nodes:
        node, rows, depth = open_nodes.pop()
        n_seen += 1
        assert_describes(tree, node, y[rows], w[rows], criterion)
        splits = {}
        if depth < max_depth and (y[rows] != y[rows[0]]).any():
            splits = oracle.splits(X[rows], y[rows], w[rows], criterion, min_samples_leaf)
        if not splits:
            assert left[node] == -1
            continue
        column, threshold = tree.feature[node], tree.threshold[node]
        is_missing_here = np.isnan(X[rows, column]).any()
        missing_left = bool(is_missing_here and tree.missing_go_to_left[node])
        decrease, is_left = splits[column, threshold, missing_left]
        assert decrease >= max(worth for worth, _ in splits.values()) - ROUNDING
        if not is_missing_here:
            assert tree.missing_go_to_left[node] == (is_left.sum() > (~is_left).sum())
        open_nodes.append((left[node], rows[is_left], depth + 1))
        open_nodes.append((right[node], rows[~is_left], depth + 1))
    assert n_seen == tree.node_count


def assert_describes(tree, node, y, w, criterion):
    """Compare what a node says of its rows."""
    assert tree.n_node_samples[node] == len(y)
    assert tree.weighted_n_node_samples[node] == pytest.approx(w.sum())
    impurity = oracle.impurity(criterion, y, w)
    assert tree.impurity[node] == pytest.approx(impurity if np.isfinite(impurity) else 0, abs=1e-12)
    if criterion in CLASSIFICATION:
        shares = [w[y == k].sum() / w.sum() for k in range(tree.max_n_classes)]
        assert tree.value[node, 0] == pytest.approx(shares)
    else:
        assert tree.value[node, 0, 0] == pytest.approx(np.average(y, weights=w))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_node_is_the_oracles(criterion, missing, weighted):
    X, y, w = make_data(3, criterion, missing=missing, weighted=weighted)
    model = make_tree(criterion, max_depth=5, min_samples_leaf=2)
    model.fit(X, y, sample_weight=w if weighted else None)
    assert_is_oracles(model, X, y, w, criterion, 5, 2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_every_node_of_two_classes_is_the_oracles(missing, weighted):
    X, y, w = make_data(4, "gini", n_classes=2, missing=missing, weighted=weighted)
    model = DecisionTreeClassifier().fit(X, y, sample_weight=w if weighted else None)
    assert_is_oracles(model, X, y, w, "gini", 100)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_nodes_with_histograms_are_the_oracles(criterion):
    """More rows than a column has bins: sums of siblings come by subtraction."""
    X, y, w = make_data(5, criterion, n_rows=400, missing=0.1)
    model = make_tree(criterion, max_depth=4).fit(X, y)
    assert_is_oracles(model, X, y, w, criterion, 4)


@given(
    seed=st.integers(0, 2**32 - 1),
    criterion=st.sampled_from(CRITERIA),
    n_rows=st.integers(2, 40),
    missing=st.sampled_from([0.0, 0.5]),
    weighted=st.booleans(),
)
@example(seed=0, criterion="gini", n_rows=2, missing=0.5, weighted=True)
def test_any_small_tree_is_the_oracles(seed, criterion, n_rows, missing, weighted):
    X, y, w = make_data(seed, criterion, n_rows=n_rows, n_classes=2, missing=missing,
                        weighted=weighted)  # fmt: skip
    if criterion == "poisson" and y.sum() == 0:
        y[0] = 1
    model = make_tree(criterion, max_depth=4).fit(X, y, sample_weight=w)
    assert_is_oracles(model, X, y, w, criterion, 4)


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, DecisionTreeRegressor])
def test_ties_go_to_the_lowest_column_and_threshold(kind):
    """The same column again, and one that parts the same rows the other way round."""
    x = np.arange(8.0)
    y = np.array([0, 1, 1, 0, 0, 1, 1, 0])
    model = kind(max_depth=1).fit(np.stack([-x, x, x], axis=1), y)
    assert (model.tree_.feature[0], model.tree_.threshold[0]) == (0, -6.5)
