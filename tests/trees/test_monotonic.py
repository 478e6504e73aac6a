"""Monotonic constraints on histograms: scikit-learn's trees under them, predictions in order."""

import numpy as np
import pytest
import sklearn.tree
from hypothesis import example, given
from hypothesis import strategies as st

from snapml import DecisionTreeClassifier, DecisionTreeRegressor

SIGNS = np.array([1, -1, 0, 1])
KINDS = {
    "gini": (DecisionTreeClassifier, sklearn.tree.DecisionTreeClassifier),
    "entropy": (DecisionTreeClassifier, sklearn.tree.DecisionTreeClassifier),
    "squared_error": (DecisionTreeRegressor, sklearn.tree.DecisionTreeRegressor),
    "poisson": (DecisionTreeRegressor, sklearn.tree.DecisionTreeRegressor),
}


def make_data(criterion, n_rows, *, missing=0.0, seed=0):
    """Return rows of few values, and targets that break the constraints here and there."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 30, size=(n_rows, len(SIGNS))).astype(np.float32)
    wave = np.sin(X / 4) * [2, 1, 4, 3] + X * SIGNS / 10
    y = np.round(4 * (wave.sum(axis=1) + rng.normal(size=n_rows)))
    X[rng.random(X.shape) < missing] = np.nan
    if criterion in ("gini", "entropy"):
        return X, np.where(y > np.median(y), "yes", "no")
    return X, y - y.min() if criterion == "poisson" else y


@pytest.mark.parametrize("parameters", [{"max_depth": 6}, {"max_leaf_nodes": 25}])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("criterion", KINDS)
def test_tree_of_few_values_is_scikit_learns(criterion, missing, weighted, parameters):
    X, y = make_data(criterion, 5000, missing=missing)
    w = np.arange(5000) % 3 if weighted else None
    rules = {"criterion": criterion, "min_samples_leaf": 50, "monotonic_cst": SIGNS, **parameters}
    ours, theirs = KINDS[criterion]
    model = ours(splitter="hist", **rules).fit(X, y, sample_weight=w)
    expected = theirs(random_state=0, **rules).fit(X, y, sample_weight=w)
    free = ours(splitter="hist", **{**rules, "monotonic_cst": None}).fit(X, y, sample_weight=w)
    assert free.tree_.node_count != expected.tree_.node_count or (
        (free.tree_.feature != expected.tree_.feature).any()
    )
    for name in ("feature", "threshold", "n_node_samples", "children_right"):
        np.testing.assert_array_equal(getattr(model.tree_, name), getattr(expected.tree_, name))
    np.testing.assert_allclose(model.tree_.impurity, expected.tree_.impurity, atol=1e-12)
    np.testing.assert_allclose(model.tree_.value, expected.tree_.value, atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), criterion=st.sampled_from(list(KINDS)))
@example(seed=0, criterion="squared_error")
def test_predictions_rise_and_fall_as_asked(seed, criterion):
    X, y = make_data(criterion, 300, seed=seed)
    X += np.random.default_rng(seed).random(X.shape, np.float32)
    model = KINDS[criterion][0](splitter="hist", max_bins=20, monotonic_cst=SIGNS).fit(X, y)
    grid = np.linspace(-1, 32, 100, dtype=np.float32)
    for column in np.flatnonzero(SIGNS):
        rows = np.repeat(X[:20], len(grid), axis=0)
        rows[:, column] = np.tile(grid, 20)
        if criterion in ("gini", "entropy"):
            values = model.predict_proba(rows)[:, 1]
        else:
            values = model.predict(rows)
        assert (np.diff(values.reshape(20, -1)) * SIGNS[column] >= 0).all()


def test_threads_do_not_change_a_bit():
    X, y = make_data("squared_error", 60_000)
    y = y + np.random.default_rng(1).random(len(y))
    one, three = (DecisionTreeRegressor(n_threads=n, monotonic_cst=SIGNS).fit(X, y) for n in (1, 3))
    assert one.builder_ == three.builder_ == "hist"
    assert one.tree_.node_count > 100
    state, other = one.tree_.__getstate__(), three.tree_.__getstate__()
    np.testing.assert_array_equal(state["nodes"], other["nodes"])
    np.testing.assert_array_equal(state["values"], other["values"])


@pytest.mark.parametrize(
    ("signs", "y", "message"),
    [
        ([1, 0, 0], [0, 1, 0, 1], "has shape 3 but the input data X has 2 features"),
        ([1, 0.5], [0, 1, 0, 1], r"array-like of -1, 0 or 1, but got \[0.5 1"),
        ([1, 0], [0, 1, 2, 1], "not supported with multiclass"),
        ([1, 0], [[0, 1], [1, 1], [0, 1], [1, 0]], "not supported with multiple outputs"),
    ],
)
def test_constraints_are_checked_as_in_scikit_learn(signs, y, message):
    X = np.arange(8.0).reshape(4, 2)
    for splitter in ("hist", "best"):
        with pytest.raises(ValueError, match=message):
            DecisionTreeClassifier(splitter=splitter, monotonic_cst=signs).fit(X, y)
