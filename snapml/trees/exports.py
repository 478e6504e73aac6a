"""Grown trees elsewhere: as plain arrays of a model file, and as scikit-learn's own estimators."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.tree._tree import NODE_DTYPE, Tree
from sklearn.utils.validation import check_is_fitted

from snapml.models.linear_exports import genuine_class, parameters_from_sklearn, sklearn_class
from snapml.models.portable import PortableModel
from snapml.trees.categorical_tree import CategoricalTree

__all__ = ["ExportedTree"]


class ExportedTree(PortableModel):
    """What a tree can be turned into."""

    def to_sklearn(self) -> Any:
        """Return the same tree as scikit-learn's own estimator, for skl2onnx, treelite and others.

        Returns
        -------
        sklearn.tree.DecisionTreeClassifier or sklearn.tree.DecisionTreeRegressor
            Fitted, with this one's parameters; a fit of it grows by ``splitter="best"`` where
            this one's splitter is none of scikit-learn's. It shares no memory with this model.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        TypeError
            If the tree parts categories.
        """
        check_is_fitted(self)
        if isinstance(self.tree_, CategoricalTree):
            raise TypeError(
                "to_sklearn: expected a tree of thresholds, got one that parts categories, which "
                "scikit-learn's trees cannot hold"
            )
        theirs = sklearn_class(type(self))
        known = theirs._get_param_names()
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k in known}
        if parameters["splitter"] in ("auto", "hist"):
            parameters["splitter"] = "best"
        model = theirs(**copy.deepcopy(parameters))
        own = {*self.get_params(deep=False), "builder_", "is_categorical_", "categories_"}
        learned = {k: v for k, v in vars(self).items() if k not in own}
        vars(model).update(copy.deepcopy(learned))
        return model

    @classmethod
    def from_sklearn(cls, model: Any) -> Any:
        """Return a tree of this class with the nodes of scikit-learn's.

        Parameters
        ----------
        model : sklearn.tree.DecisionTreeClassifier or sklearn.tree.DecisionTreeRegressor
            Fitted, of the class of the same name.

        Returns
        -------
        estimator
            Fitted, with the parameters of `model`; it predicts the same, on all threads, and
            ``save`` writes it. It shares no memory with `model`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If `model` is not fitted.
        TypeError
            If it is of another class, a subclass among these.
        ValueError
            If a parameter has a value that this class has no parameter for.
        """
        if genuine_class(type(model)) is not sklearn_class(cls):
            raise TypeError(
                f"model: expected a sklearn.tree.{cls.__name__}, got a "
                f"{type(model).__module__}.{type(model).__name__}"
            )
        check_is_fitted(model)
        parameters = parameters_from_sklearn(cls, model)
        made: Any = cls(**parameters)
        learned = {k: copy.deepcopy(v) for k, v in vars(model).items() if k not in parameters}
        own = {"builder_": "scikit-learn", "is_categorical_": None, "categories_": None}
        vars(made).update(learned | own)
        return made

    def _to_file(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return attributes with plain arrays in the place of the nodes."""
        tree, sets = attributes["tree_"], {}
        if isinstance(tree, CategoricalTree):
            sets = {"n_codes": tree.n_codes, "left_codes": tree.left_codes}
            tree = tree.nodes
        state = tree.__getstate__()
        nodes = {name: np.ascontiguousarray(state["nodes"][name]) for name in NODE_DTYPE.names}
        outputs = np.asarray(tree.n_classes, np.int64)
        plain = {**nodes, "values": state["values"], "n_classes": outputs, **sets}
        return {**attributes, "tree_": plain}

    def _from_file(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return attributes with nodes, no walk through which can leave them."""
        plain = attributes["tree_"]
        left, right = plain["left_child"], plain["right_child"]
        n_features = int(attributes["n_features_in_"])
        depth = _checked_depth(left, right, plain["feature"], n_features)
        nodes = np.zeros(len(left), NODE_DTYPE)
        for name in NODE_DTYPE.names:
            if plain[name].dtype != NODE_DTYPE[name] or plain[name].shape != left.shape:
                raise ValueError(f"nodes: expected {name} of {left.shape} {NODE_DTYPE[name]}")
            nodes[name] = plain[name]
        n_classes = plain["n_classes"].astype(np.intp)
        if n_classes.ndim != 1 or not len(n_classes) or n_classes.min() < 1:
            raise ValueError(f"expected a number of classes for each output, got {n_classes}")
        tree = Tree(n_features, n_classes, len(n_classes))
        state = {"max_depth": depth, "node_count": len(nodes), "nodes": nodes}
        tree.__setstate__({**state, "values": plain["values"]})
        if "left_codes" in plain:
            tree = CategoricalTree(tree, plain["n_codes"], plain["left_codes"])
        return {**attributes, "tree_": tree}


def _checked_depth(
    left: np.ndarray, right: np.ndarray, feature: np.ndarray, n_features: int
) -> int:
    """Return the levels below the root; refuse nodes that are no tree from the first one on."""
    n_nodes = len(left)
    numbers = np.arange(n_nodes)
    inner = left != -1
    children = np.concatenate([left[inner], right[inner]])
    is_tree = (
        n_nodes > 0
        and np.array_equal(inner, right != -1)
        and np.array_equal(np.sort(children), numbers[1:])
        and bool((left[inner] > numbers[inner]).all() and (right[inner] > numbers[inner]).all())
        and bool(((feature[inner] >= 0) & (feature[inner] < n_features)).all())
    )
    if not is_tree:
        raise ValueError("expected nodes with two later ones or none below them, and one above")
    depth, level = 0, np.zeros(1, np.int64)
    while True:
        level = level[inner[level]]
        if not len(level):
            return depth
        level = np.concatenate([left[level], right[level]])
        depth += 1
