"""Columns of categories: no parting is worth more, and rows go where the training rows went."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn.tree
from scipy.sparse import csr_matrix
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.tree import export_text

import snapml
from snapml import DecisionTreeClassifier, DecisionTreeRegressor, _native
from tests.trees import oracle

CRITERIA = ("gini", "entropy", "squared_error", "poisson")


def make_data(criterion="squared_error", n_rows=300, *, n_categories=6, missing=0.0, n_classes=2):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, n_categories, n_rows)
    X = np.stack([rng.integers(0, 4, n_rows), codes], axis=1).astype(float)
    y = np.round(4 * rng.random(n_categories)[codes] + rng.random(n_rows) * (1 + X[:, 0]))
    X[rng.random(n_rows) < missing, 1] = np.nan
    return X, y % n_classes if criterion in ("gini", "entropy") else y


def make_tree(criterion, **parameters):
    kind = DecisionTreeClassifier if criterion in CRITERIA[:2] else DecisionTreeRegressor
    return kind(criterion=criterion, splitter="hist", categorical_features=[1], **parameters)


def partings(x):
    """Yield the rows that go left, of all ways to part categories and missing values."""
    values = [x == v for v in np.unique(x[~np.isnan(x)])]
    values += [np.isnan(x)] if np.isnan(x).any() else []
    for size in range(1, len(values)):
        for chosen in itertools.combinations(values, size):
            yield np.logical_or.reduce(chosen)


def decrease(criterion, y, w, left):
    after = [w[s].sum() * oracle.impurity(criterion, y[s], w[s]) for s in (left, ~left)]
    return oracle.impurity(criterion, y, w) - sum(after) / w.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_parting_of_a_node_is_worth_more(criterion, missing, weighted):
    X, y = make_data(criterion, missing=missing)
    w = np.arange(len(y)) % 3 + 1.0 if weighted else np.ones(len(y))
    model = make_tree(criterion, max_depth=3).fit(X, y, sample_weight=w if weighted else None)
    tree, passed = model.tree_, model.decision_path(X).toarray() > 0
    n_parted = 0
    for node in np.flatnonzero(tree.children_left >= 0):
        rows = passed[:, node]
        of_node = {"y": y[rows], "w": w[rows]}
        taken = decrease(criterion, **of_node, left=passed[rows, tree.children_left[node]])
        splits = oracle.splits(X[rows][:, :1], y[rows], w[rows], criterion, 1).values()
        worths = [worth for worth, _ in splits]
        for left in partings(X[rows, 1]):
            worths.append(decrease(criterion, **of_node, left=left))
        assert taken >= max(w for w in worths if np.isfinite(w)) - 1e-12
        n_parted += tree.feature[node] == 1
    assert n_parted > 0
    assert tree.n_node_samples.tolist() == passed.sum(axis=0).tolist()


def test_rows_go_where_sets_say():
    X, y = make_data(missing=0.2)
    model = make_tree("squared_error").fit(X, y)
    tree, passed = model.tree_, model.decision_path(X).toarray() > 0
    for node in np.flatnonzero((tree.children_left >= 0) & (tree.feature == 1)):
        codes = X[passed[:, node], 1]
        is_left = np.isin(codes, model.categories_[1][tree.left_categories(node)])
        is_left[np.isnan(codes)] = tree.missing_go_to_left[node]
        np.testing.assert_array_equal(is_left, passed[passed[:, node], tree.children_left[node]])
    np.testing.assert_array_equal(model.predict(X), tree.value[model.apply(X), 0, 0])
    np.testing.assert_array_equal(model.predict(X[:3]), model.predict(X)[:3])


def test_unknown_categories_go_where_missing_ones_go():
    X, y = make_data()
    model = make_tree("squared_error").fit(X, y)
    unknown, missing = (np.tile([[2.0, code]], (100, 1)) for code in (77.0, np.nan))
    np.testing.assert_array_equal(model.apply(unknown), model.apply(missing))


def test_what_is_no_number_is_unknown_among_numbers():
    X, y = make_data()
    model = make_tree("squared_error").fit(pd.DataFrame(X, columns=["a", "b"]), y)
    missing = model.apply(pd.DataFrame({"a": [2.0], "b": [np.nan]}))[0]
    for column in (
        ["3", "k3", "3"], [None, "3", pd.Timestamp(0)], pd.Categorical(["3", "k3", "3"]),
        pd.array([77, None, 78], "Int64"), pd.array(["3", None, "3"], "string"),
    ):  # fmt: skip
        assert set(model.apply(pd.DataFrame({"a": 2.0, "b": column}))) == {missing}
    mixed = pd.DataFrame({"a": 2.0, "b": pd.Series([3, "3", 3.0], dtype=object)})
    plain = pd.DataFrame({"a": 2.0, "b": [3, np.nan, 3]})
    np.testing.assert_array_equal(model.apply(mixed), model.apply(plain))


@pytest.mark.parametrize("kind", [np.array, np.ndarray.tolist, pd.DataFrame])
def test_whole_numbers_are_told_apart_beyond_float32(kind):
    X = 2**24 + np.arange(90)[:, None] % 3
    y = np.array([0, 1, 0])[X[:, 0] - 2**24]
    model = DecisionTreeClassifier(splitter="hist", categorical_features=[0]).fit(kind(X), y)
    assert model.categories_[0].tolist() == [2**24, 2**24 + 1, 2**24 + 2]
    np.testing.assert_array_equal(model.predict(kind(X)), y)


def test_frames_lists_masks_and_names_are_the_same_columns():
    X, y = make_data(missing=0.1)
    text = pd.Series(X[:, 1]).map(lambda code: None if np.isnan(code) else f"k{code:.0f}")
    orders = [sorted, lambda names: [*sorted(names, reverse=True), "never seen"]]
    frames = [
        pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(text, order(set(text.dropna())))})
        for order in orders
    ]
    named = pd.DataFrame(X, columns=["a", "b"])
    expected = make_tree("squared_error").fit(X, y).predict(X)
    for rows, asked in [
        (X, [False, True]), (X.tolist(), [1]), (X.astype(np.float32, order="F"), [1]),
        (named, ["b"]), (frames[0], "from_dtype"), (frames[1], "from_dtype"),
        (named.astype({"b": "Int64"}), ["b"]), (named.astype({"b": "category"}), "from_dtype"),
        (frames[0].astype({"b": object}), ["b"]),
    ]:  # fmt: skip
        model = DecisionTreeRegressor(categorical_features=asked).fit(rows, y)
        assert model.builder_ == "hist"
        np.testing.assert_array_equal(model.predict(rows), expected)
    np.testing.assert_array_equal(model.predict(frames[1]), expected)
    assert model.categories_[0] is None
    assert model.categories_[1].tolist() == [f"k{code}" for code in range(6)]


def test_without_an_order_fewer_levels_do():
    """Every other category has the same mean: one split, as in scikit-learn's boosting."""
    codes = np.arange(4000) % 40
    y, X = (codes % 2).astype(float), codes[:, None].astype(float)
    model = DecisionTreeRegressor(splitter="hist", categorical_features=[0]).fit(X, y)
    assert model.get_depth() == 1
    boosted = HistGradientBoostingRegressor(max_iter=1, learning_rate=1.0, categorical_features=[0],
                                            early_stopping=False).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(model.predict(X), boosted.predict(X), atol=1e-6)


def test_three_classes_are_told_apart():
    X, y = make_data("gini", 600, n_categories=60, n_classes=3)
    X[:, 0], y = 0, X[:, 1] % 3
    model = make_tree("gini").fit(X, y)
    assert model.score(X, y) == 1
    assert model.get_n_leaves() == 3


def test_threads_do_not_change_a_bit():
    X, y = make_data(n_rows=60_000, n_categories=200, missing=0.1)
    y = y + np.random.default_rng(2).random(len(y))
    trees = [make_tree("squared_error", n_threads=n).fit(X, y).tree_ for n in (1, 3)]
    one, three = (tree.nodes.__getstate__() for tree in trees)
    assert one["nodes"].tobytes() == three["nodes"].tobytes()
    assert one["values"].tobytes() == three["values"].tobytes()
    assert trees[0].left_codes.tobytes() == trees[1].left_codes.tobytes()


def assert_means(model, X, y):
    means = pd.Series(y).groupby(model.apply(X)).transform("mean")
    np.testing.assert_allclose(model.predict(X), means)


def test_trees_of_categories_are_saved_pickled_and_pruned(tmp_path):
    X, y = make_data(missing=0.1)
    frame = pd.DataFrame(
        {"a": X[:, 0], "b": pd.Categorical(X[:, 1]).rename_categories(list("uvwxyz"))}
    )
    model = DecisionTreeRegressor(ccp_alpha=0.01).fit(frame, y)
    full = DecisionTreeRegressor().fit(frame, y)
    assert 1 < model.tree_.node_count < full.tree_.node_count
    assert_means(model, frame, y)
    model.save(tmp_path / "tree")
    for again in (snapml.load(tmp_path / "tree"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
        assert again.tree_.max_depth == model.get_depth()
    few = DecisionTreeRegressor(max_leaf_nodes=4).fit(frame, y)
    assert few.get_n_leaves() == 4
    assert_means(few, frame, y)


def test_trees_without_a_split_of_categories_come_back(tmp_path):
    X, y = make_data()
    X[:, 1] = 3
    model = make_tree("squared_error").fit(X, y)
    assert model.tree_.left_codes.shape == (0, 32)
    model.save(tmp_path / "tree")
    for again in (snapml.load(tmp_path / "tree"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_what_scikit_learns_nodes_cannot_hold_is_said():
    X, y = make_data()
    model = make_tree("squared_error").fit(X, y)
    assert model.feature_importances_.sum() == pytest.approx(1)
    with pytest.raises(TypeError, match="parts categories"):
        model.to_sklearn()
    with pytest.raises(AttributeError, match="columns of categories"):
        export_text(model)
    with pytest.raises(ValueError, match="parts categories, got"):
        model.tree_.left_categories(model.tree_.node_count - 1)


def test_rows_of_weight_zero_take_no_part():
    X, y = make_data()
    weights = (X[:, 1] != 2).astype(float)
    everyone = make_tree("squared_error").fit(X, y, sample_weight=weights)
    others = make_tree("squared_error").fit(X[weights > 0], y[weights > 0])
    np.testing.assert_array_equal(everyone.predict(X), others.predict(X))


def test_other_splitters_read_numbers_of_categories_as_scikit_learn_does():
    X, y = make_data()
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(X[:, 1])})
    model = DecisionTreeRegressor(splitter="best", random_state=0).fit(frame, y)
    theirs = sklearn.tree.DecisionTreeRegressor(random_state=0).fit(frame, y)
    np.testing.assert_array_equal(model.tree_.threshold, theirs.tree_.threshold)
    assert model.is_categorical_ is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"categorical_features": [2]}, r"integer indices must be in \[0, n_features - 1\]"),
        ({"categorical_features": [True]}, r"boolean mask must have shape \(n_features,\)"),
        ({"categorical_features": ["b"]}, "'b' which is not a valid feature name"),
        ({"categorical_features": [0.5]}, "array-like of bool, int or str, got: float64"),
        (
            {"max_bins": 5},
            "Categorical feature 1 .* cardinality <= 5 but actually has a cardinality of 6",
        ),
        ({"splitter": "best"}, "expected splitter='hist' or 'auto' with it, got 'best'"),
        ({"monotonic_cst": [0, 1]}, "Categorical features cannot have monotonic constraints"),
    ],
)
def test_bad_columns_are_refused(parameters, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        DecisionTreeRegressor(**{"categorical_features": [1], **parameters}).fit(X, y)


def test_sets_that_lead_nowhere_are_refused():
    X, y = make_data()
    model = make_tree("squared_error").fit(X, y)
    model.tree_.left_codes = model.tree_.left_codes[:1]
    with pytest.raises(ValueError, match="number of a set of codes, got 1"):
        model.predict(X)
    for n_codes in (-1, 256):
        model.tree_.n_codes = np.array([0, n_codes], np.int32)
        with pytest.raises(ValueError, match=f"n_codes: expected 0 to 255.* got {n_codes}"):
            model.predict(X)
    pool = _native.ThreadPool(1)
    binned = _native.bin_rows(pool, _native.Rows.dense(X), 255, None)
    rules = (1, "squared_error", 5, 2, 1, 0.0, 0.0, 2, 0, 0, 1 << 20, 1 << 20, None)
    for n_codes in (5, 256, -1):
        with pytest.raises(ValueError, match=rf"codes in \[0, {n_codes}\).* column 1"):
            _native.grow_tree(pool, binned, y, None, *rules, np.array([0, n_codes], np.int32))


def test_bad_rows_are_refused():
    X, y = make_data()
    with pytest.raises(TypeError, match="expected dense rows"):
        make_tree("squared_error").fit(csr_matrix(X), y)
    with pytest.raises(ValueError, match="Expected 2D array"):
        make_tree("squared_error").fit(X[:, 1], y)
    dates = pd.DataFrame({"a": X[:, 0], "b": pd.to_datetime(X[:, 1], unit="D")})
    with pytest.raises(TypeError, match="X, column 'b': expected numbers, got Datetime"):
        make_tree("squared_error").fit(dates, y)
    model = make_tree("squared_error").fit(X, y)
    with pytest.raises(TypeError, match="expected dense rows"):
        model.predict(csr_matrix(X))
    with pytest.raises(ValueError, match="features"):
        model.predict(np.ones((500, 3)))


def test_a_fit_that_fails_leaves_the_tree_of_before():
    X, y = make_data()
    many = np.stack([X[:, 0], np.arange(len(X), dtype=float)], axis=1)
    tree, unfitted = (make_tree("squared_error", max_depth=4) for _ in range(2))
    expected, before = tree.fit(X, y).predict(X), dict(vars(unfitted))
    for each in (tree, unfitted):
        with pytest.raises(ValueError, match="cardinality <= 255"):
            each.fit(many, y)
    np.testing.assert_array_equal(tree.predict(X), expected)
    assert vars(unfitted) == before


WIDE = [2**53, 2**53 + 1] * 20


@pytest.mark.parametrize(
    "rows",
    [
        np.array(WIDE)[:, None],
        [[number] for number in WIDE],
        pd.DataFrame({"a": WIDE}),
        pd.DataFrame({"a": pd.Series(WIDE, dtype=object)}),
        pd.DataFrame({"a": pd.Categorical(WIDE)}),
    ],
)
def test_whole_numbers_that_float64_rounds_are_refused(rows):
    with pytest.raises(ValueError, match=r"less than 2\^53"):
        DecisionTreeClassifier(categorical_features=[0]).fit(rows, [0, 1] * 20)


def test_whole_numbers_that_float64_rounds_are_unknown():
    least = -(2.0**53)
    model = DecisionTreeClassifier(categorical_features=[0]).fit([[1.0], [least]] * 9, [0, 1] * 9)
    unknown, known = model.predict_proba([[int(least) - 1]]), model.predict_proba([[np.nan]])
    np.testing.assert_array_equal(unknown, known)
