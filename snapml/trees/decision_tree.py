"""Decision trees as scikit-learn's, with a threaded builder on histograms."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import sklearn.tree
from sklearn.utils.multiclass import check_classification_targets

from snapml.trees.base_tree import CONSTRAINTS, BaseTree
from snapml.trees.labels import encode_labels

__all__ = ["DecisionTreeClassifier", "DecisionTreeRegressor"]


class DecisionTreeClassifier(BaseTree, sklearn.tree.DecisionTreeClassifier):
    """A decision tree for classes, grown on histograms.

    A drop-in for :class:`sklearn.tree.DecisionTreeClassifier`: ``tree_`` is scikit-learn's own, and
    what is said of parameters and attributes there holds here. See docs/trees.md.

    Parameters
    ----------
    criterion : {"gini", "entropy", "log_loss"}, default="gini"
        Impurity.
    splitter : {"auto", "hist", "best", "random"}, default="auto"
        ``"hist"`` looks at splits between bins of equal weight, or between all values of columns
        that have at most `max_bins`, on all threads. ``"best"`` looks at splits between any two
        values and finds scikit-learn's own tree; it is left to scikit-learn's builder for criteria
        other than gini, entropy, log_loss and squared_error, for sparse rows, several outputs,
        `max_leaf_nodes`, `monotonic_cst` and negative weights. ``"random"`` always is. ``"auto"``
        is ``"best"`` for up to 10,000 rows and for what ``"hist"`` refuses, else ``"hist"``.
    max_depth : int or None, default=None
        Most levels below the root.
    min_samples_split : int or float, default=2
        Least rows, or share of rows, of a node that is split.
    min_samples_leaf : int or float, default=1
        Least rows, or share of rows, of a leaf.
    min_weight_fraction_leaf : float, default=0.0
        Least share of the weight in a leaf.
    max_features : int, float, {"sqrt", "log2"} or None, default=None
        Columns, drawn for each node, that are looked at.
    random_state : int, RandomState instance or None, default=None
        Draws columns where `max_features` is less than all. ``"best"`` also breaks ties by it, as
        scikit-learn does; ``"hist"`` takes the lower column.
    max_leaf_nodes : int or None, default=None
        Most leaves: those of the splits that lessen the impurity most.
    min_impurity_decrease : float, default=0.0
        Least decrease of impurity of a split, times the node's share of the weight.
    class_weight : dict, list of dict, "balanced" or None, default=None
        Weights of classes; "balanced" counts rows, whatever their weights, as in scikit-learn.
    ccp_alpha : float, default=0.0
        Complexity parameter of minimal cost-complexity pruning.
    monotonic_cst : array-like of int of shape (n_features,) or None, default=None
        1 for columns that predictions rise with, -1 for those they fall with, 0 for others; for two
        classes: the probability of the second one.
    categorical_features : "from_dtype", array-like of bool, int or str, or None, \
default="from_dtype"
        Columns whose values are categories, with ``"hist"``: those of dtype category in a pandas
        frame, or a mask, numbers or names of columns.
    max_bins : int, default=255
        Bins of a column with ``"hist"``, 2 to 65,535, beside one for missing values. An entry takes
        two bytes where a column has more than 255.
    n_threads : int or None, default=None
        Threads of fits and predictions; None means all that the process may use, fewer on
        small data. The tree does not depend on it.

    Attributes
    ----------
    tree_ : sklearn.tree._tree.Tree or CategoricalTree
        The nodes; scikit-learn's own unless columns hold categories.
    is_categorical_ : ndarray of shape (n_features,), bool, or None
        Which columns do.
    categories_ : list of (ndarray or None), or None
        Their different values, by column.
    builder_ : {"hist", "exact", "scikit-learn"}
        Who has grown them.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    n_classes_ : int
        Their number.
    max_features_ : int
        What `max_features` came to.
    n_features_in_, feature_names_in_, n_outputs_, feature_importances_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import DecisionTreeClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> DecisionTreeClassifier(max_depth=1).fit(X, ["a", "a", "b", "b"]).predict([[1.4], [1.6]])
    array(['a', 'b'], dtype='<U1')
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **sklearn.tree.DecisionTreeClassifier._parameter_constraints,
        **CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        criterion: str = "gini",
        splitter: str = "auto",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: Any = None,
        random_state: Any = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        class_weight: Any = None,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        categorical_features: Any = "from_dtype",
        max_bins: int = 255,
        n_threads: int | None = None,
    ) -> None:
        super().__init__(
            criterion=criterion,
            splitter=splitter,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            min_weight_fraction_leaf=min_weight_fraction_leaf,
            max_features=max_features,
            random_state=random_state,
            max_leaf_nodes=max_leaf_nodes,
            min_impurity_decrease=min_impurity_decrease,
            class_weight=class_weight,
            ccp_alpha=ccp_alpha,
            monotonic_cst=monotonic_cst,
        )
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.n_threads = n_threads

    def _encode(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        is_whole = y.dtype.kind in "biu"
        if not is_whole:
            check_classification_targets(y)
        self.classes_, codes = encode_labels(y)
        # The check sorts y. Of whole numbers it only warns, and only if most of them differ.
        if is_whole and 2 * len(self.classes_) > len(y):
            check_classification_targets(y)
        self.n_classes_ = np.intp(len(self.classes_))
        return codes, len(self.classes_)

    def predict(self, X: Any, check_input: bool = True) -> np.ndarray:
        """Return the class of most weight in each row's leaf.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows; entries count as float32.
        check_input : bool, default=True
            Whether X is checked and converted.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels.
        """
        if not self._takes_rows(X):
            return super().predict(X, check_input)
        of_nodes = self.classes_.take(self.tree_.value[:, 0, :].argmax(axis=1))
        return of_nodes.take(self._leaves(X, check_input))

    def predict_proba(self, X: Any, check_input: bool = True) -> np.ndarray:
        """Return the classes' shares of the weight in each row's leaf.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows; entries count as float32.
        check_input : bool, default=True
            Whether X is checked and converted.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), float64
            Shares, in the order of `classes_`.
        """
        if not self._takes_rows(X):
            return super().predict_proba(X, check_input)
        return self.tree_.value[:, 0, :].take(self._leaves(X, check_input), axis=0)


class DecisionTreeRegressor(BaseTree, sklearn.tree.DecisionTreeRegressor):
    """A decision tree for numbers, grown on histograms.

    A drop-in for :class:`sklearn.tree.DecisionTreeRegressor`: ``tree_`` is scikit-learn's own, and
    what is said of parameters and attributes there holds here. See docs/trees.md.

    Parameters
    ----------
    criterion : {"squared_error", "friedman_mse", "poisson", "absolute_error"}, \
default="squared_error"
        What splits lessen; the last one not with ``"hist"``.
    splitter : {"auto", "hist", "best", "random"}, default="auto"
        As in :class:`DecisionTreeClassifier`.
    max_depth : int or None, default=None
        Most levels below the root.
    min_samples_split : int or float, default=2
        Least rows, or share of rows, of a node that is split.
    min_samples_leaf : int or float, default=1
        Least rows, or share of rows, of a leaf.
    min_weight_fraction_leaf : float, default=0.0
        Least share of the weight in a leaf.
    max_features : int, float, {"sqrt", "log2"} or None, default=None
        Columns, drawn for each node, that are looked at.
    random_state : int, RandomState instance or None, default=None
        Draws columns where `max_features` is less than all. ``"best"`` also breaks ties by it, as
        scikit-learn does; ``"hist"`` takes the lower column.
    max_leaf_nodes : int or None, default=None
        Most leaves: those of the splits that lessen the impurity most.
    min_impurity_decrease : float, default=0.0
        Least decrease of impurity of a split, times the node's share of the weight.
    ccp_alpha : float, default=0.0
        Complexity parameter of minimal cost-complexity pruning.
    monotonic_cst : array-like of int of shape (n_features,) or None, default=None
        1 for columns that predictions rise with, -1 for those they fall with, 0 for others.
    categorical_features : "from_dtype", array-like of bool, int or str, or None, \
default="from_dtype"
        Columns whose values are categories, with ``"hist"``: those of dtype category in a pandas
        frame, or a mask, numbers or names of columns.
    max_bins : int, default=255
        Bins of a column with ``"hist"``, 2 to 65,535, beside one for missing values. An entry takes
        two bytes where a column has more than 255.
    n_threads : int or None, default=None
        Threads of fits and predictions; None means all that the process may use, fewer on
        small data. The tree does not depend on it.

    Attributes
    ----------
    tree_ : sklearn.tree._tree.Tree or CategoricalTree
        The nodes; scikit-learn's own unless columns hold categories.
    is_categorical_ : ndarray of shape (n_features,), bool, or None
        Which columns do.
    categories_ : list of (ndarray or None), or None
        Their different values, by column.
    builder_ : {"hist", "exact", "scikit-learn"}
        Who has grown them.
    max_features_ : int
        What `max_features` came to.
    n_features_in_, feature_names_in_, n_outputs_, feature_importances_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import DecisionTreeRegressor
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> DecisionTreeRegressor(max_depth=1).fit(X, [1.0, 1.0, 5.0, 6.0]).predict([[1.4], [1.6]])
    array([1. , 5.5])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **sklearn.tree.DecisionTreeRegressor._parameter_constraints,
        **CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        criterion: str = "squared_error",
        splitter: str = "auto",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: Any = None,
        random_state: Any = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        categorical_features: Any = "from_dtype",
        max_bins: int = 255,
        n_threads: int | None = None,
    ) -> None:
        super().__init__(
            criterion=criterion,
            splitter=splitter,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            min_weight_fraction_leaf=min_weight_fraction_leaf,
            max_features=max_features,
            random_state=random_state,
            max_leaf_nodes=max_leaf_nodes,
            min_impurity_decrease=min_impurity_decrease,
            ccp_alpha=ccp_alpha,
            monotonic_cst=monotonic_cst,
        )
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.n_threads = n_threads

    def _encode(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        values = np.ascontiguousarray(y, np.float64)
        if self.criterion == "poisson":
            if (values < 0).any():
                raise ValueError(
                    "Some value(s) of y are negative which is not allowed for Poisson regression."
                )
            if values.sum() <= 0:
                raise ValueError(
                    "Sum of y is not positive which is necessary for Poisson regression."
                )
        return values, 1

    def predict(self, X: Any, check_input: bool = True) -> np.ndarray:
        """Return the mean target in each row's leaf.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows; entries count as float32.
        check_input : bool, default=True
            Whether X is checked and converted.

        Returns
        -------
        ndarray of shape (n_rows,), float64
            Predictions.
        """
        if not self._takes_rows(X):
            return super().predict(X, check_input)
        return self.tree_.value[:, 0, 0].take(self._leaves(X, check_input))
