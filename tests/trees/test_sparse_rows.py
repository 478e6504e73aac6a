"""Trees on sparse rows: bit for bit those of the same rows written out."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn.tree
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix

import snapml
from snapml import _native
from tests.trees.test_histogram_tree import assert_same_tree, public_rows

Classifier = partial(snapml.DecisionTreeClassifier, splitter="hist")
Regressor = partial(snapml.DecisionTreeRegressor, splitter="hist")


def make_rows(n_rows, n_features, *, seed=0, density=0.2, n_values=None, has_missing=False):
    """Return rows with zeros in all columns but the first, and noisy targets."""
    rng = np.random.default_rng([4, seed])
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    if n_values is not None:
        X = np.round(X * n_values / 4)
    X[:, 1:] *= rng.random((n_rows, n_features - 1)) < density
    target = X[:, -1] - np.abs(X).sum(axis=1) + rng.normal(size=n_rows)
    if has_missing:
        X[rng.random(X.shape) < 0.05] = np.nan
    return X, target


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        (Classifier, {}),
        (Classifier, {"criterion": "entropy", "min_samples_leaf": 7}),
        (Classifier, {"max_leaf_nodes": 30, "class_weight": "balanced"}),
        (Classifier, {"max_features": "sqrt"}),
        (Regressor, {"monotonic_cst": [1, -1] + 10 * [0], "max_depth": 12}),
        (Regressor, {"max_depth": 9}),
        (Regressor, {"max_leaf_nodes": 50, "min_weight_fraction_leaf": 0.001}),
        (Regressor, {"max_features": 3, "min_impurity_decrease": 0.001}),
    ],
)
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("n_values", [None, 6])
def test_tree_is_that_of_dense_rows(kind, rules, is_weighted, n_values):
    X, target = make_rows(6000, 12, n_values=n_values, has_missing=True)
    y = target if kind is Regressor else np.digitize(target, [-3, -1, 1])
    weights = np.arange(len(y)) % 4 / 2 if is_weighted else None
    dense = kind(random_state=0, **rules).fit(X, y, sample_weight=weights)
    assert dense.get_n_leaves() >= 30
    sparse = kind(random_state=0, **rules).fit(csr_matrix(X), y, sample_weight=weights)
    assert sparse.builder_ == "hist"
    assert_same_tree(sparse, dense)
    np.testing.assert_array_equal(sparse.predict(csr_matrix(X)), dense.predict(X))


@pytest.mark.parametrize(
    ("kind", "rules"),
    [(Classifier, {"min_samples_leaf": 5}), (Regressor, {}), (Regressor, {"max_features": 9})],
)
def test_threads_do_not_change_a_bit(kind, rules):
    X, target = make_rows(40_000, 60, density=0.3, has_missing=True)
    y = target if kind is Regressor else np.digitize(target, [-20, -15])
    dense, one, two = (
        kind(n_threads=n_threads, max_depth=10, random_state=0, **rules).fit(rows, y)
        for n_threads, rows in ((2, X), (1, csc_matrix(X)), (2, csc_matrix(X)))
    )
    assert one.get_n_leaves() > 200
    assert_same_tree(one, dense)
    assert_same_tree(two, dense)


@example(seed=0, n_rows=2, n_columns=1, density=0.0, n_values=None)
@example(seed=3, n_rows=150, n_columns=9, density=1.0, n_values=3)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(2, 200),
    n_columns=st.integers(1, 9),
    density=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    n_values=st.sampled_from([None, 3, 20]),
)
def test_any_tree_is_that_of_dense_rows(seed, n_rows, n_columns, density, n_values):
    X, target = make_rows(
        n_rows, n_columns, seed=seed, density=density, n_values=n_values, has_missing=seed % 2 == 0
    )
    for model in (Classifier(max_bins=16), Classifier(min_samples_leaf=3, max_features=0.5)):
        y, model.random_state = target > 0, seed
        sparse = sklearn.clone(model).fit(csr_matrix(X), y)
        assert_same_tree(sparse, model.fit(X, y))


@pytest.mark.parametrize("seen", ["zero", "another"])
def test_values_that_a_sample_misses_have_the_bins_of_dense_rows(seen):
    X = np.zeros((150_000, 3), np.float32)
    X[777, 0], X[123_456, 0] = 5, np.nan
    X[:, 1] = np.random.default_rng(0).integers(1, 255, size=len(X))
    X[[5, 99_999, 120_001], 1] = 1000, 0 if seen == "zero" else 999, 998
    X[:, 2] = 4
    X[149_999, 2] = 0
    y = (X[:, 0] == 5) * 3 + X[:, 1] % 2 + X[:, 2]
    rules = {"max_depth": 12, "min_samples_leaf": 1}
    assert_same_tree(Regressor(**rules).fit(csr_matrix(X), y), Regressor(**rules).fit(X, y))


@pytest.mark.parametrize("change", [csc_matrix, csr_array, coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_layout_does_not_change_the_tree(change, dtype):
    X, target = make_rows(1000, 6, n_values=9)
    X = X.astype(dtype)
    assert_same_tree(Regressor().fit(change(X), target), Regressor().fit(X, target))


def test_wide_indices_duplicates_and_stored_zeros_are_taken():
    X, target = make_rows(1000, 6, n_values=9)
    rows, columns = np.nonzero(np.ones_like(X))
    halves = np.concatenate([X.ravel(), X.ravel()]) / 2
    stored = csc_matrix((len(X), 6), dtype=np.float32)
    order = np.argsort(np.tile(columns, 2), kind="stable")
    stored.indptr = np.arange(7, dtype=np.int64) * 2 * len(X)
    stored.indices = np.tile(rows, 2)[order].astype(np.int64)
    stored.data = halves[order]
    before = stored.indices.copy(), stored.data.copy()
    model = Regressor().fit(stored, target)
    assert_same_tree(model, Regressor().fit(X, target))
    np.testing.assert_array_equal(stored.indices, before[0])
    np.testing.assert_array_equal(stored.data, before[1])
    wide = csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.testing.assert_array_equal(model.predict(wide), model.predict(X))
    np.testing.assert_array_equal(model.apply(wide), model.tree_.apply(X))


def test_tree_of_few_values_is_scikit_learns():
    X, target = make_rows(20_000, 8, n_values=8)
    rules = {"max_depth": 6, "min_samples_leaf": 100}
    y = np.digitize(target, [-3, 0])
    model = Classifier(**rules).fit(csc_matrix(X), y)
    theirs = sklearn.tree.DecisionTreeClassifier(**rules, random_state=0).fit(csc_matrix(X), y)
    for name in ("feature", "threshold", "n_node_samples"):
        np.testing.assert_array_equal(getattr(model.tree_, name), getattr(theirs.tree_, name))
    np.testing.assert_allclose(model.predict_proba(csr_matrix(X)), theirs.predict_proba(X))


def test_text_comes_to_the_tree_of_dense_columns():
    X, y = public_rows("a9a", "train")
    assert_same_tree(Classifier().fit(csr_matrix(X), y), Classifier().fit(X, y))


def test_infinity_is_refused():
    X = csr_matrix(np.array([[0, 1e300], [np.nan, 0]]))
    with pytest.raises(ValueError, match="infinity"):
        Classifier().fit(X, [0, 1])
    twice = np.array([3e38, 3e38, 1], np.float32), np.array([0, 0, 0]), np.array([0, 2, 3])
    with pytest.raises(ValueError, match="infinity"):
        Classifier().fit(csr_matrix(twice, shape=(2, 1)), [0, 1])


def test_missing_values_are_refused_by_paths_that_would_not_see_them():
    X, target = make_rows(100, 3, has_missing=True)
    model = Regressor().fit(csr_matrix(X), target)
    with pytest.raises(ValueError, match="NaN"):
        model.decision_path(csr_matrix(X))


def test_bindings_refuse_rows_that_do_not_ascend():
    pool = _native.ThreadPool(1)
    indptr, indices, values = np.array([0, 2], np.int32), np.array([1, 1], np.int32), np.ones(2)
    columns = _native.Rows.compressed(pool, indptr, indices, values, 0.0, True, 3, False)
    with pytest.raises(ValueError, match="ascending rows, got 1 after 1"):
        _native.bin_columns(pool, columns, 255)
    with pytest.raises(ValueError, match="expected compressed ones"):
        _native.bin_columns(pool, _native.Rows.dense(np.ones((2, 2))), 255)


def test_columns_that_store_nothing_keep_their_numbers():
    X, target = make_rows(1000, 9)
    X[:, [0, 3, 4, 8]] = 0
    rules = {"max_depth": 5, "monotonic_cst": [0, 0, 1, 0, -1, 0, -1, 0, 0]}
    model = Regressor(**rules).fit(csr_matrix(X), target)
    assert {-2, 1, 5, 7} <= set(model.tree_.feature) <= {-2, 1, 2, 5, 6, 7}
    assert_same_tree(model, Regressor(**rules).fit(X, target))
    empty = Classifier().fit(csr_matrix((6, 5)), [0, 1] * 3)
    assert empty.tree_.node_count == 1


@pytest.mark.parametrize(
    ("n_rows", "rules", "builder"),
    [
        (10_001, {}, "hist"),
        (10_001, {"max_features": 5}, "hist"),
        (10_001, {"max_features": 2}, "scikit-learn"),
        (10_000, {}, "scikit-learn"),
    ],
)
def test_auto_takes_many_rows_of_all_columns(n_rows, rules, builder):
    X, target = make_rows(n_rows, 5, n_values=4)
    model = snapml.DecisionTreeRegressor(max_depth=3, **rules).fit(csr_matrix(X), target)
    assert model.builder_ == builder


@pytest.mark.parametrize("splitter", ["hist", "best"])
@pytest.mark.parametrize("layout", [csr_matrix, csc_matrix])
@pytest.mark.parametrize(
    ("name", "at", "bad"), [("indptr", 1, 10**6), ("indptr", -1, 0), ("indices", 0, -5)]
)
def test_arrays_that_do_not_fit_each_other_are_refused(splitter, layout, name, at, bad):
    rows, y = layout(np.eye(6)), np.arange(6) % 2
    model = snapml.DecisionTreeClassifier(splitter=splitter).fit(rows, y)
    getattr(rows, name)[at] = bad
    with pytest.raises(ValueError, match=r"indptr|indices"):
        snapml.DecisionTreeClassifier(splitter=splitter).fit(rows, y)
    with pytest.raises(ValueError, match=r"indptr|indices"):
        model.predict(rows)


@pytest.mark.parametrize("splitter", ["auto", "hist", "best"])
def test_sparse_frames_are_sparse_rows(splitter):
    frame = pd.DataFrame(np.eye(6)).astype(pd.SparseDtype("float64", 0))
    model = snapml.DecisionTreeClassifier(splitter=splitter).fit(frame, np.arange(6) % 2)
    np.testing.assert_array_equal(model.predict(frame), np.arange(6) % 2)
