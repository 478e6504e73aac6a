"""Nodes of a tree that parts categories, beside scikit-learn's nodes, which cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.tree._tree import Tree

from snapml import _native
from snapml.solvers.threads import resolve_n_threads

__all__ = ["CODE_BYTES", "CategoricalTree"]

CODE_BYTES = 32
"""Of a set of codes from 0 to 255, as bits."""

_SHARED = frozenset(
    {
        "capacity",
        "children_left",
        "children_right",
        "compute_feature_importances",
        "feature",
        "impurity",
        "max_depth",
        "max_n_classes",
        "missing_go_to_left",
        "n_classes",
        "n_features",
        "n_leaves",
        "n_node_samples",
        "n_outputs",
        "node_count",
        "value",
        "weighted_n_node_samples",
    }
)


class CategoricalTree:
    """What scikit-learn's ``Tree`` offers, but for thresholds, which splits of categories lack.

    Attributes that are not listed are those of ``nodes``.

    Parameters
    ----------
    nodes : sklearn.tree._tree.Tree
        The nodes; thresholds of those that part categories are rows of `left_codes`.
    n_codes : ndarray of shape (n_features,), int32
        How many categories a column has, whose codes it holds; 0 for columns of numbers.
    left_codes : ndarray of shape (n_sets, 32), uint8
        The codes that go left, as bits, the lowest first.
    """

    def __init__(self, nodes: Tree, n_codes: np.ndarray, left_codes: np.ndarray) -> None:
        self.nodes = nodes
        self.n_codes = n_codes
        self.left_codes = left_codes

    def __getattr__(self, name: str) -> Any:
        if name in _SHARED:
            return getattr(self.nodes, name)
        if name == "threshold":
            raise AttributeError(
                "threshold: this tree parts columns of categories, and such splits have none; "
                "categorical_features=None grows a tree of thresholds"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def left_categories(self, node: int) -> np.ndarray:
        """Return the codes that go left.

        Parameters
        ----------
        node : int
            One that parts categories.

        Returns
        -------
        ndarray of shape (n_codes,), int64
            Positions in the estimator's ``categories_`` of the node's column. Missing and unknown
            values go where ``missing_go_to_left`` says.

        Raises
        ------
        ValueError
            If the node does not part categories.
        """
        nodes = self.nodes
        if nodes.children_left[node] < 0 or not self.n_codes[nodes.feature[node]]:
            raise ValueError(f"node: expected one that parts categories, got {node}")
        bits = np.unpackbits(self.left_codes[int(nodes.threshold[node])], bitorder="little")
        return np.flatnonzero(bits)

    def apply(self, X: np.ndarray, n_threads: int | None = None) -> np.ndarray:
        """Return the leaf that each row comes to.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features), float32
            Rows, with codes in the place of categories.
        n_threads : int or None, default=None
            As `snapml.solvers.threads.resolve_n_threads` reads it.

        Returns
        -------
        ndarray of shape (n_rows,), int64
            Numbers of nodes.

        Raises
        ------
        TypeError
            If rows are sparse.
        """
        if issparse(X):
            raise TypeError("X: expected dense rows for columns of categories, got sparse ones")
        leaves = np.empty(len(X), np.int64)
        nodes = self.nodes
        _native.find_leaves_of_codes(
            _native.ThreadPool(resolve_n_threads(n_threads, len(X) * max(self.max_depth, 1))),
            _native.Rows.dense(X),
            np.ascontiguousarray(nodes.children_left),
            np.ascontiguousarray(nodes.children_right),
            np.ascontiguousarray(nodes.feature),
            np.ascontiguousarray(nodes.threshold),
            np.ascontiguousarray(nodes.missing_go_to_left),
            self.left_codes,
            self.n_codes,
            leaves,
        )
        return leaves

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the values of the leaves that rows come to.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features), float32
            Rows, with codes in the place of categories.

        Returns
        -------
        ndarray of shape (n_rows, max_n_classes), float64
            Shares of classes, or means.
        """
        return self.nodes.value[:, 0, :].take(self.apply(X), axis=0)

    def decision_path(self, X: np.ndarray) -> csr_matrix:
        """Return the nodes that each row passes.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features), float32
            Rows, with codes in the place of categories.

        Returns
        -------
        csr_matrix of shape (n_rows, node_count), int64
            1 where a row passes a node.
        """
        parents = np.full(self.nodes.node_count, -1)
        for children in (self.nodes.children_left, self.nodes.children_right):
            inner = np.flatnonzero(children >= 0)
            parents[children[inner]] = inner
        at, rows = self.apply(X), np.arange(len(X))
        passed = []
        while len(at):
            passed.append((rows, at))
            at = parents[at]
            rows, at = rows[at >= 0], at[at >= 0]
        row, node = (np.concatenate([pair[k] for pair in passed]) for k in range(2))
        shape = (len(X), self.nodes.node_count)
        return csr_matrix((np.ones(len(row), np.int64), (row, node)), shape=shape)
