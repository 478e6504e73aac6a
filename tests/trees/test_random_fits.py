"""Trees of random data by random rules keep to both; CI also runs this under ASan and UBSan."""

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix

from snapml import DecisionTreeClassifier, DecisionTreeRegressor

N_CASES = 40
LARGE = np.float32(3e38)


def column(rng, n_rows):
    """Return numbers of one of the kinds that columns are of."""
    kind = rng.integers(7)
    if kind == 0:
        return np.full(n_rows, rng.normal())
    if kind == 1:
        return rng.integers(-3, 3, size=n_rows)
    if kind == 2:
        return rng.choice([-LARGE, -1e-44, -0.0, 0.0, 1e-45, 1e-44, LARGE], size=n_rows)
    if kind == 3:
        return np.where(rng.random(n_rows) < 0.9, 0.0, rng.normal(size=n_rows))
    if kind == 4:
        return np.full(n_rows, np.nan)
    return rng.normal(size=n_rows) * 10.0 ** rng.integers(-40, 38)


def rows(rng):
    n_rows = int(rng.choice([1, 2, 3, 40, 300, 3000], p=[0.1, 0.1, 0.1, 0.2, 0.3, 0.2]))
    columns = [column(rng, n_rows) for _ in range(rng.integers(1, 7))]
    X = np.stack(columns, axis=1).astype(float)
    X = X[rng.integers(n_rows, size=n_rows)] if rng.random() < 0.3 else X
    X[rng.random(X.shape) < rng.choice([0, 0.2])] = np.nan
    return X.astype(rng.choice([np.float32, np.float64]), order=rng.choice(["C", "F"]))


def targets(rng, n_rows, criterion):
    if criterion in ("gini", "entropy"):
        return rng.integers(rng.choice([1, 2, 3, 40]), size=n_rows)
    if criterion == "poisson":
        return rng.poisson(1.0, size=n_rows) + (np.arange(n_rows) == 0)
    return rng.normal(size=n_rows) * 10.0 ** rng.choice([-300, -3, 0, 3, 150])


def weights(rng, n_rows):
    drawn = rng.choice([0.0, 1.0, 2.5, 1e-9, 1e9], size=n_rows) + (np.arange(n_rows) == 0)
    return [None, np.ones(n_rows), drawn, drawn * 1e-290][rng.integers(4)]


def rules(rng, n_features, n_classes, splitter):
    drawn = {
        "splitter": splitter,
        "max_depth": rng.choice([None, 1, 5]),
        "min_samples_leaf": int(rng.choice([1, 1, 7])),
        "min_weight_fraction_leaf": rng.choice([0.0, 0.1]),
        "min_impurity_decrease": rng.choice([0.0, 0.01]),
        "max_features": rng.choice([None, 1]),
        "ccp_alpha": rng.choice([0.0, 0.01]),
        "random_state": int(rng.integers(1000)),
    }
    if splitter == "hist":
        drawn["max_bins"] = int(rng.choice([2, 3, 16, 255, 300, 65_535]))
        drawn["max_leaf_nodes"] = rng.choice([None, 2, 9])
        if n_classes <= 2 and rng.random() < 0.3:
            drawn["monotonic_cst"] = rng.integers(-1, 2, size=n_features)
    return drawn


def layout(rng, X, splitter):
    if splitter != "hist" or rng.random() < 0.6:
        return X
    stored = (csr_matrix if rng.random() < 0.5 else csc_matrix)(np.where(X == 0, 0, X))
    if rng.random() < 0.5:
        stored.indices, stored.indptr = stored.indices.astype("i8"), stored.indptr.astype("i8")
    return stored


def assert_is_a_tree_of(model, X, w, rules):
    tree, present = model.tree_, slice(None) if w is None else w > 0
    leaves = model.apply(X)
    assert (tree.children_left[leaves] == -1).all()
    counts = np.bincount(leaves[present], minlength=tree.node_count)
    inner = np.flatnonzero(tree.children_left >= 0)
    for node in inner[::-1]:
        counts[node] += counts[tree.children_left[node]] + counts[tree.children_right[node]]
    np.testing.assert_array_equal(tree.n_node_samples, counts)
    assert len(inner) == 0 or counts.min() >= rules["min_samples_leaf"]
    assert tree.max_depth <= (rules["max_depth"] or np.inf)
    assert tree.n_leaves <= (rules.get("max_leaf_nodes") or np.inf)
    assert np.isfinite(tree.value).all()
    some = slice(0, 5)
    np.testing.assert_array_equal(model.predict(X)[some], model.predict(X[some]))


# Of scikit-learn's checks: sums of large numbers, and many classes.
@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
@pytest.mark.parametrize("splitter", ["hist", "best"])
@pytest.mark.parametrize("seed", range(N_CASES))
def test_tree_keeps_to_its_data_and_rules(seed, splitter):
    rng = np.random.default_rng(seed)
    X = rows(rng)
    kinds = ["gini", "entropy", "squared_error"] + ["poisson"] * (splitter == "hist")
    criterion = rng.choice(kinds)
    kind = DecisionTreeClassifier if criterion in kinds[:2] else DecisionTreeRegressor
    y, w = targets(rng, len(X), criterion), weights(rng, len(X))
    n_classes = len(np.unique(y)) if kind is DecisionTreeClassifier else 1
    drawn = rules(rng, X.shape[1], n_classes, splitter)
    if splitter == "hist" and rng.random() < 0.2 and "monotonic_cst" not in drawn:
        X[:, 0] = rng.integers(min(9, drawn["max_bins"]), size=len(X))
        drawn["categorical_features"] = [0]
    given = X if "categorical_features" in drawn else layout(rng, X, splitter)
    one, three = (kind(criterion=criterion, n_threads=n, **drawn).fit(given, y, w) for n in (1, 3))
    for name, array in one._to_file(vars(one))["tree_"].items():
        np.testing.assert_array_equal(three._to_file(vars(three))["tree_"][name], array)
    assert_is_a_tree_of(three, given.tocsr() if given is not X else X, w, drawn)
