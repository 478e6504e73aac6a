"""What both trees share: from parameters and data to a grown tree, and rows to its leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import _fit_context
from sklearn.tree import BaseDecisionTree
from sklearn.utils import check_random_state, column_or_1d, compute_sample_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_n_features, _check_sample_weight, validate_data

from snapml._dates import refuse_dates
from snapml._validation import raise_non_finite, refuse_rows_elsewhere
from snapml.trees.categorical_tree import CategoricalTree
from snapml.trees.categories import categorical_mask, code_counts, known_categories, with_codes
from snapml.trees.constraints import SEVERAL_OUTPUTS, checked_signs
from snapml.trees.exact_tree import CRITERIA as EXACT_CRITERIA
from snapml.trees.exact_tree import grow_exact_tree
from snapml.trees.exports import ExportedTree
from snapml.trees.histogram_tree import GrowthRules, Targets, find_leaves, grow_tree
from snapml.trees.rows import check_stored, infinity_in, is_large, is_sparse, shape_of

__all__ = ["CONSTRAINTS", "BaseTree"]

CONSTRAINTS: dict[str, list[Any]] = {
    "splitter": [StrOptions({"auto", "hist", "best", "random"})],
    "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    "max_bins": [Interval(Integral, 2, 65_535, closed="both")],
    "n_threads": [Integral, None],
}
"""What scikit-learn checks of the parameters that it does not have, or not so."""

_CRITERIA = {"log_loss": "entropy", "friedman_mse": "squared_error"}
# Of fewer rows, setting up the walk takes longer than scikit-learn's.
_FEW_ROWS = 64


class BaseTree(ExportedTree, BaseDecisionTree):
    """What both trees do instead of scikit-learn, except for what is left to it."""

    splitter: str
    _encode: Callable[[np.ndarray], tuple[np.ndarray, int]]

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, check_input: bool = True
    ) -> Any:
        """Grow a tree.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows; entries count as float32, NaN is a missing value. Sparse rows with indices of
            either width; NaN in them with ``"hist"`` only.
        y : array-like of shape (n_rows,)
            Targets; None is refused. Several outputs not with ``"hist"``.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights. Rows of weight zero take no part; negative weights not with ``"hist"``.
        check_input : bool, default=True
            Whether X and y are checked and converted.

        Returns
        -------
        self
            Fitted.

        Raises
        ------
        ValueError
            If X, y, weights or parameters are not as above.
        NotImplementedError
            If a parameter asks for what ``"hist"`` does not do yet.
        """
        return self._fit(X, y, sample_weight, check_input)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        check_input: bool = True,
        missing_values_in_feature_mask: Any = None,
    ) -> Any:
        before = dict(vars(self))
        try:
            mask = missing_values_in_feature_mask
            return self._grow(X, y, sample_weight, check_input, mask)
        except BaseException:
            # A tree of before may have other categories: it stays whole, or there is none.
            self.__dict__ = before
            raise

    def _grow(self, X: Any, y: Any, sample_weight: Any, check_input: bool, mask: Any) -> Any:
        refuse_rows_elsewhere(self, X)
        check_stored(X)
        refuse_dates(X, "X")
        refuse_dates(y, "y")
        X = self._coded(X)
        self.builder_ = self._builder(X, y, sample_weight)
        if self.builder_ == "scikit-learn":
            with self._named_as_in_scikit_learn():
                return super()._fit(X, y, sample_weight, check_input, mask)
        if self.builder_ == "hist":
            self._refuse_absolute_error()
        X, y = self._checked(X, y, check_input)
        values, n_classes = self._encode(y)
        weights = self._weights(X, y, sample_weight)
        kept = None
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            values, weights = values[kept], weights[kept]
        rules = self._rules(X.shape, weights, n_classes)
        grow = grow_tree if self.builder_ == "hist" else grow_exact_tree
        tree = grow(X, kept, Targets(values, weights, n_classes), rules, self.n_threads)
        if tree is None:
            raise_non_finite(self, infinity_in(X))
        self.tree_ = tree
        self._prune_tree()
        return self

    def _coded(self, X: Any) -> Any:
        """Learn the categories of X; return it with their codes."""
        self.is_categorical_: np.ndarray | None = None
        self.categories_: list[np.ndarray | None] | None = None
        asked = self.categorical_features
        is_by_dtype = isinstance(asked, str)
        if is_by_dtype and self.splitter in ("best", "random"):
            return X
        if is_sparse(X) and asked is not None and not is_by_dtype:
            raise TypeError("categorical_features: expected dense rows with it, got sparse ones")
        self.is_categorical_ = categorical_mask(X, asked)
        if self.is_categorical_ is None:
            return X
        if self.splitter in ("best", "random"):
            raise ValueError(
                "categorical_features: expected splitter='hist' or 'auto' with it, got "
                f"{self.splitter!r}"
            )
        self.categories_ = known_categories(X, self.is_categorical_, self.max_bins)
        return with_codes(X, self.categories_)

    def _prune_tree(self) -> None:
        grown = self.tree_
        if not isinstance(grown, CategoricalTree):
            super()._prune_tree()
            return
        self.tree_ = grown.nodes
        super()._prune_tree()
        self.tree_ = CategoricalTree(self.tree_, grown.n_codes, grown.left_codes)

    def _builder(self, X: Any, y: Any, sample_weight: Any) -> str:
        """Return who grows the tree: scikit-learn what neither builder here does."""
        if self.splitter == "hist" or self.is_categorical_ is not None:
            return "hist"
        is_plain = (
            self.splitter != "random"
            and shape_of(y)[1:] in ((), (1,))
            and not _has_negative(sample_weight)
            and not self._has_negative_class()
        )
        if self.splitter == "auto" and is_plain and is_large(X) and not self._draws_of_many(X):
            return "scikit-learn" if self.criterion == "absolute_error" else "hist"
        is_exact = (
            is_plain
            and not is_sparse(X)
            and self.monotonic_cst is None
            and self.max_leaf_nodes is None
            and self.criterion in (*EXACT_CRITERIA, "log_loss")
        )
        return "exact" if is_exact else "scikit-learn"

    def _has_negative_class(self) -> bool:
        by_class = getattr(self, "class_weight", None)
        return isinstance(by_class, dict) and any(map(_has_negative, by_class.values()))

    def _draws_of_many(self, X: Any) -> bool:
        """Whether nodes look at some sparse columns only, where scikit-learn parts no others."""
        if not is_sparse(X) or self.max_features is None:
            return False
        return _resolve_max_features(self.max_features, X.shape[1]) < X.shape[1]

    @contextmanager
    def _named_as_in_scikit_learn(self) -> Iterator[None]:
        """Let `splitter` be one of those that scikit-learn looks up by this name."""
        splitter: str = self.splitter
        self.splitter = "best" if splitter == "auto" else splitter
        try:
            yield
        finally:
            self.splitter = splitter

    def _refuse_absolute_error(self) -> None:
        if self.criterion == "absolute_error":
            raise NotImplementedError(
                "criterion='absolute_error': not supported by splitter='hist' in this version; "
                f"{self._instead()}"
            )

    def _instead(self) -> str:
        """Return what takes what histograms do not."""
        if self.is_categorical_ is None:
            return "splitter='best' takes it"
        return "splitter='best' takes it, without categorical_features"

    def _checked(self, X: Any, y: Any, check_input: bool) -> tuple[Any, np.ndarray]:
        """Return rows in their type, float32 or float64, and targets as one column."""
        if check_input:
            x_checks = {
                "dtype": [np.float32, np.float64],
                "accept_sparse": "csc",
                "ensure_all_finite": False,
            }
            y_checks = {"ensure_2d": False, "dtype": None}
            X, y = validate_data(self, X, y, validate_separately=(x_checks, y_checks))
        y = np.atleast_1d(y)
        if y.ndim == 2 and y.shape[1] > 1:
            if self.monotonic_cst is not None:
                raise ValueError(SEVERAL_OUTPUTS)
            raise ValueError(
                f"y: expected one output, got {y.shape[1]}: several are not supported by "
                f"splitter='hist' in this version; {self._instead()}"
            )
        y = column_or_1d(y, warn=True)
        if len(y) != X.shape[0]:
            raise ValueError(
                f"Number of labels={len(y)} does not match number of samples={X.shape[0]}"
            )
        self.n_features_in_ = X.shape[1]
        self.n_outputs_ = 1
        return X, y

    def _weights(self, X: Any, y: np.ndarray, sample_weight: Any) -> np.ndarray | None:
        """Return weights of rows and classes together, None where all are one."""
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
            self._check_weights("sample_weight", weights)
        if getattr(self, "class_weight", None) is not None:
            by_class = compute_sample_weight(self.class_weight, y)
            self._check_weights("class_weight", by_class)
            with np.errstate(over="ignore"):
                weights = by_class if weights is None else weights * by_class
            self._check_weights("sample_weight, class_weight", weights)
        if weights is None or (weights == 1).all():
            return None
        if not weights.any():
            raise ValueError(
                "sample_weight, class_weight: expected a positive weight, got zeros only"
            )
        return np.ascontiguousarray(weights)

    def _check_weights(self, name: str, weights: np.ndarray) -> None:
        if (weights < 0).any():
            raise ValueError(
                f"{name}: expected no negative weights, got {weights.min()}; {self._instead()}"
            )
        with np.errstate(over="ignore"):
            total = weights.sum()
        if not np.isfinite(total):
            raise ValueError(f"{name}: expected weights with a finite sum, got {total}")

    def _rules(
        self, shape: tuple[int, int], weights: np.ndarray | None, n_classes: int
    ) -> GrowthRules:
        n_rows, n_features = shape
        leaf, split = self.min_samples_leaf, self.min_samples_split
        if not isinstance(leaf, Integral):
            leaf = math.ceil(leaf * n_rows)
        if not isinstance(split, Integral):
            split = max(2, math.ceil(split * n_rows))
        total = n_rows if weights is None else weights.sum()
        self.max_features_ = _resolve_max_features(self.max_features, n_features)
        random = check_random_state(self.random_state)
        return GrowthRules(
            criterion=str(_CRITERIA.get(self.criterion, self.criterion)),
            max_depth=self._most_levels(),
            min_samples_split=min(max(split, 2 * leaf), np.iinfo(np.int64).max),
            min_samples_leaf=min(leaf, np.iinfo(np.int64).max),
            max_features=self.max_features_,
            min_weight_leaf=float(self.min_weight_fraction_leaf * total),
            min_impurity_decrease=float(self.min_impurity_decrease),
            max_bins=self.max_bins,
            seed=int(random.randint(np.iinfo(np.int32).max)),
            max_leaf_nodes=min(self.max_leaf_nodes or 0, np.iinfo(np.int64).max),
            monotonic=checked_signs(
                self.monotonic_cst, n_features, n_classes, self.is_categorical_
            ),
            n_codes=None if self.categories_ is None else code_counts(self.categories_),
        )

    def _most_levels(self) -> int:
        limits = [np.iinfo(np.int32).max, self.max_depth, self.max_leaf_nodes]
        return int(min(limit for limit in limits if limit is not None))

    def _takes_rows(self, X: Any) -> bool:
        """Whether rows walk here, rather than in scikit-learn's tree, which also refuses them."""
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if not hasattr(self, "tree_") or self.n_outputs_ != 1 or len(shape) != 2:
            return False
        return issparse(X) or bool(shape[0] > max(_FEW_ROWS, self.tree_.node_count // 8))

    def _leaves(self, X: Any, check_input: bool) -> np.ndarray:
        """Return the leaf of each row; numbers are looked at while they walk."""
        if not check_input or self.categories_ is not None or not self._is_numbers(X):
            return find_leaves(self.tree_, self._rows_to_predict(X, check_input), self.n_threads)[0]
        leaves, is_finite = find_leaves(self.tree_, X, self.n_threads)
        if not is_finite:
            super()._validate_X_predict(X, check_input)
        return leaves

    def _validate_X_predict(self, X: Any, check_input: bool) -> Any:
        """Look at numbers only where nothing else can be wrong: of one row, checks are the cost."""
        check_stored(X)
        known = self.categories_
        if known is not None:
            _check_n_features(self, X, reset=False)
            X = with_codes(X, known)
        if check_input and self._is_numbers(X):
            with np.errstate(over="ignore", invalid="ignore"):
                rows = X.astype(np.float32, copy=False)
                if np.isfinite(rows.sum()):
                    return rows
        refuse_dates(X, "X")
        return super()._validate_X_predict(X, check_input)

    def _rows_to_predict(self, X: Any, check_input: bool) -> Any:
        """Return checked rows; scikit-learn refuses missing values and wide indices if sparse."""
        if not issparse(X):
            return self._validate_X_predict(X, check_input)
        check_stored(X)
        if check_input:
            checks = {"accept_sparse": "csr", "dtype": np.float32, "ensure_all_finite": "allow-nan"}
            return validate_data(self, X, reset=False, **checks)
        _check_n_features(self, X, reset=False)
        return X.tocsr()

    def _is_numbers(self, X: Any) -> bool:
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in (np.float32, np.float64)
            and X.flags.aligned
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )

    def apply(self, X: Any, check_input: bool = True) -> np.ndarray:
        """Return the leaf of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows; entries count as float32.
        check_input : bool, default=True
            Whether X is checked and converted.

        Returns
        -------
        ndarray of shape (n_rows,), int64
            Numbers of nodes of ``tree_``.
        """
        if not self._takes_rows(X):
            return super().apply(X, check_input)
        return self._leaves(X, check_input)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.splitter == "hist":
            tags.target_tags.multi_output = False
            if tags.classifier_tags is not None:
                tags.classifier_tags.multi_label = False
        return tags


def _has_negative(weights: Any) -> bool:
    """Whether there are negative numbers; what is no number is refused elsewhere."""
    weights = np.asarray(weights)
    if weights.dtype.kind == "O":
        weights = weights.astype(np.float64)
    return weights.dtype.kind in "if" and bool((weights < 0).any())


def _resolve_max_features(max_features: Any, n_features: int) -> int:
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, int(np.sqrt(n_features)))
    if max_features == "log2":
        return max(1, int(np.log2(n_features)))
    if isinstance(max_features, Integral):
        return min(int(max_features), n_features)
    return max(1, int(max_features * n_features))
