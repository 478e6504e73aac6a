"""Between arrays and the compiled builder: a scikit-learn tree from rows, leaves of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.tree._tree import NODE_DTYPE, Tree

from snapml import _native
from snapml.data.memory_limit import available_bytes
from snapml.solvers.threads import resolve_n_threads
from snapml.trees.categorical_tree import CODE_BYTES, CategoricalTree

__all__ = [
    "NODE_ARRAYS",
    "VALUES_SHARE",
    "GrowthRules",
    "Targets",
    "empty_tree",
    "find_leaves",
    "grow_tree",
]

NODE_ARRAYS = (
    "children_left",
    "children_right",
    "feature",
    "threshold",
    "impurity",
    "n_node_samples",
    "weighted_n_node_samples",
    "missing_go_to_left",
    "value",
)
"""What scikit-learn's tree says of its nodes; the arrays are views of its memory."""

# Of the memory that is free: the values of nodes are copied once, histograms are a stack of a few.
VALUES_SHARE = 0.4
_HISTOGRAM_SHARE = 1 / 32


@dataclass(frozen=True)
class Targets:
    """What the rows of a tree are to be told apart by.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
        Classes as int32 from 0, or numbers as float64.
    weights : ndarray of shape (n_rows,), float64, or None
        Positive; None where all are one.
    n_classes : int
        1 for numbers.
    """

    values: np.ndarray
    weights: np.ndarray | None
    n_classes: int


@dataclass(frozen=True)
class GrowthRules:
    """The parameters of a tree, resolved against its data.

    Attributes
    ----------
    criterion : {"gini", "entropy", "squared_error", "poisson"}
        What makes a split good.
    max_depth, min_samples_split, min_samples_leaf, max_features : int
        As scikit-learn's parameters.
    min_weight_leaf : float
        Least weight of a leaf.
    min_impurity_decrease : float
        Least decrease of impurity, times the node's share of the weight.
    max_bins : int
        Bins of a column, 2 to 65,535, beside one for missing values.
    seed : int
        Of the columns drawn where `max_features` is less than all.
    max_leaf_nodes : int
        Most leaves, those of the best splits; 0 means any number.
    monotonic : ndarray of shape (n_features,), int32, or None, default=None
        1 where values rise from the left side of a split to the right one, -1 where they fall,
        0 where they may do both. Of two classes it is the first one's share.
    n_codes : ndarray of shape (n_features,), int32, or None, default=None
        How many categories a column has, whose codes it holds; 0 for columns of numbers.
    """

    criterion: str
    max_depth: int
    min_samples_split: int
    min_samples_leaf: int
    max_features: int
    min_weight_leaf: float
    min_impurity_decrease: float
    max_bins: int
    seed: int
    max_leaf_nodes: int
    monotonic: np.ndarray | None = None
    n_codes: np.ndarray | None = None


def grow_tree(
    X: Any,
    kept: np.ndarray | None,
    targets: Targets,
    rules: GrowthRules,
    n_threads: int | None,
) -> Tree | CategoricalTree | None:
    """Grow a tree on histograms.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_given, n_features), float32 or float64
        Rows, in any order; NaN is a missing value.
    kept : ndarray of shape (n_rows,), int64, or None
        The rows to grow on; None means all.
    targets : Targets
        Of the rows to grow on.
    rules : GrowthRules
        When to split.
    n_threads : int or None
        As `snapml.solvers.threads.resolve_n_threads` reads it.

    Returns
    -------
    sklearn.tree._tree.Tree, CategoricalTree or None
        None if X holds an infinity in float32.

    Raises
    ------
    ValueError
        If the classes are too many for the memory, or the numbers too large for sums.
    """
    pool = _native.ThreadPool(resolve_n_threads(n_threads, X.size))
    used, monotonic = None, rules.monotonic
    binned: _native.BinTable
    if issparse(X):
        columns = _as_columns(X, kept)
        if rules.max_features >= X.shape[1]:
            used = _used_columns(columns)
            monotonic = None if monotonic is None else monotonic[used]
        binned = _binned_columns(columns, used, rules.max_bins, pool)
    else:
        binned = _native.bin_rows(pool, _native.Rows.dense(X), rules.max_bins, kept)
    if not binned.is_finite:
        return None
    free = available_bytes()
    grown = _native.grow_tree(
        pool,
        binned,
        targets.values,
        targets.weights,
        targets.n_classes,
        rules.criterion,
        rules.max_depth,
        rules.min_samples_split,
        rules.min_samples_leaf,
        rules.min_weight_leaf,
        rules.min_impurity_decrease,
        rules.max_features,
        rules.seed,
        rules.max_leaf_nodes,
        int(VALUES_SHARE * free / 8),
        int(_HISTOGRAM_SHARE * free),
        monotonic,
        rules.n_codes,
    )
    del binned  # before there is the tree, which may be larger
    tree = empty_tree(grown.n_nodes, X.shape[1], targets.n_classes)
    tree.max_depth, left_codes = _native.write_tree(
        pool,
        grown,
        targets.values,
        targets.weights,
        **{name: getattr(tree, name) for name in NODE_ARRAYS},
    )
    if used is not None:
        columns_of_nodes = tree.feature
        is_inner = columns_of_nodes >= 0
        columns_of_nodes[is_inner] = used[columns_of_nodes[is_inner]]
    if rules.n_codes is None:
        return tree
    return CategoricalTree(tree, rules.n_codes, left_codes.reshape(-1, CODE_BYTES))


def _as_columns(X: Any, kept: np.ndarray | None) -> Any:
    columns = (X if kept is None else X[kept]).tocsc()
    if not columns.has_canonical_format:
        columns = columns.copy()
        columns.sum_duplicates()
    return columns


def _used_columns(columns: Any) -> np.ndarray:
    """Return the columns that store something, or the first one: the others split no node."""
    used = np.flatnonzero(np.diff(columns.indptr))
    return used if len(used) else np.zeros(1, np.intp)


def _binned_columns(
    columns: Any, used: np.ndarray | None, max_bins: int, pool: _native.ThreadPool
) -> _native.BinnedColumns:
    indptr = columns.indptr
    if used is not None:
        indptr = np.append(indptr[used], indptr[-1])
    stored = _compressed(indptr, columns, columns.shape[0], pool)
    return _native.bin_columns(pool, stored, max_bins)


def _compressed(
    indptr: np.ndarray, matrix: Any, n_minor: int, pool: _native.ThreadPool
) -> _native.Rows:
    is_float64 = matrix.dtype == np.float64
    return _native.Rows.compressed(
        pool, indptr, matrix.indices, matrix.data, 0.0, is_float64, n_minor, False
    )


def empty_tree(n_nodes: int, n_features: int, n_classes: int) -> Tree:
    """Return scikit-learn's tree of nodes that are still to be written, in its own memory.

    Parameters
    ----------
    n_nodes : int
        How many.
    n_features, n_classes : int
        Of the data; one class for numbers.

    Returns
    -------
    sklearn.tree._tree.Tree
        Its arrays, `NODE_ARRAYS`, hold zeros and can be written to.
    """
    tree = Tree(n_features, np.array([n_classes], np.intp), 1)
    # Zeros that nobody writes to take no memory.
    tree.__setstate__(
        {
            "max_depth": 0,
            "node_count": n_nodes,
            "nodes": np.zeros(n_nodes, NODE_DTYPE),
            "values": np.zeros((n_nodes, 1, n_classes)),
        }
    )
    return tree


def find_leaves(
    tree: Tree | CategoricalTree, X: Any, n_threads: int | None
) -> tuple[np.ndarray, bool]:
    """Return the leaf that each row comes to, and whether rows are finite.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree or CategoricalTree
        Nodes; children come after their parents.
    X : ndarray of float32 or float64, or CSR matrix of float32, of shape (n_rows, n_features)
        Rows, in any order; entries count as float32.
    n_threads : int or None
        As `snapml.solvers.threads.resolve_n_threads` reads it.

    Returns
    -------
    leaves : ndarray of shape (n_rows,), int64
        Numbers of nodes.
    is_finite : bool
        Whether no entry of dense rows is NaN or infinite as float32. True where nobody has looked:
        in sparse rows, and with categories.
    """
    if isinstance(tree, CategoricalTree):
        return tree.apply(X, n_threads), True
    n_rows = X.shape[0]
    leaves = np.empty(n_rows, np.int64)
    n_read = n_rows * max(tree.max_depth, 1) + (X.nnz if issparse(X) else 0)
    pool = _native.ThreadPool(resolve_n_threads(n_threads, n_read))
    rows = _compressed(X.indptr, X, X.shape[1], pool) if issparse(X) else _native.Rows.dense(X)
    nodes = tree.__getstate__()["nodes"][: tree.node_count]
    is_finite = _native.find_leaves(
        pool,
        rows,
        np.ascontiguousarray(nodes["left_child"]),
        np.ascontiguousarray(nodes["right_child"]),
        np.ascontiguousarray(nodes["feature"]),
        np.ascontiguousarray(nodes["threshold"]),
        np.ascontiguousarray(nodes["missing_go_to_left"]),
        leaves,
    )
    return leaves, is_finite
