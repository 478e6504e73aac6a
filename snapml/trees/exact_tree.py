"""Between arrays and the compiled builder of exact splits."""

from __future__ import annotations

import numpy as np
from sklearn.tree._tree import Tree

from snapml import _native
from snapml.data.memory_limit import available_bytes
from snapml.solvers.threads import resolve_n_threads
from snapml.trees.histogram_tree import (
    NODE_ARRAYS,
    VALUES_SHARE,
    GrowthRules,
    Targets,
    empty_tree,
)

__all__ = ["CRITERIA", "grow_exact_tree"]

CRITERIA = ("gini", "entropy", "squared_error")
"""What the builder can split by, in the terms of `GrowthRules`."""

# A number and its row, for each entry of X.
_ENTRY_BYTES = 8


def grow_exact_tree(
    X: np.ndarray,
    kept: np.ndarray | None,
    targets: Targets,
    rules: GrowthRules,
    n_threads: int | None,
) -> Tree | None:
    """Grow the tree that scikit-learn's builder grows.

    Parameters
    ----------
    X : ndarray of shape (n_given, n_features), float32 or float64
        Rows, in any order; NaN is a missing value.
    kept : ndarray of shape (n_rows,), int64, or None
        The rows to grow on; None means all.
    targets : Targets
        Of the rows to grow on.
    rules : GrowthRules
        When to split; the seed is that of scikit-learn's splitter.
    n_threads : int or None
        As `snapml.solvers.threads.resolve_n_threads` reads it.

    Returns
    -------
    sklearn.tree._tree.Tree or None
        None if X holds an infinity in float32.

    Raises
    ------
    MemoryError
        If the sorted columns do not fit into the memory that is free.
    ValueError
        If the classes are too many for it, or the numbers too large for sums.
    """
    _check_sums(targets)
    n_rows = len(X) if kept is None else len(kept)
    needed, free = _ENTRY_BYTES * n_rows * X.shape[1], available_bytes()
    if needed > free:
        raise MemoryError(
            f"splitter='best' sorts all columns: expected {needed} bytes of free memory, got "
            f"{free}; splitter='hist' takes an eighth"
        )
    arrays = _native.grow_exact_tree(
        _native.ThreadPool(resolve_n_threads(n_threads, X.size)),
        _native.Rows.dense(X),
        kept,
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
        int(VALUES_SHARE * (free - needed) / 8),
    )
    n_nodes = len(arrays["feature"])
    if n_nodes == 0:
        return None
    tree = empty_tree(n_nodes, X.shape[1], targets.n_classes)
    tree.max_depth = arrays["max_depth"]
    for name in NODE_ARRAYS:
        own = getattr(tree, name)
        own[:] = arrays.pop(name).reshape(own.shape)
    return tree


def _check_sums(targets: Targets) -> None:
    if targets.n_classes > 1:
        return
    with np.errstate(over="ignore"):
        sizes = np.abs(targets.values)
        total = sizes.sum() if targets.weights is None else sizes @ targets.weights
    if not np.isfinite(total):
        raise ValueError(
            "y, sample_weight: expected numbers whose sum of products is finite in float64"
        )
