"""Decision trees under Snap ML's names."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from snapml.compat.ranks import warn_of_ranks

__all__ = ["DecisionTreeClassifier", "DecisionTreeRegressor"]

# Bins that one byte can number beside missing values.
_BYTE_BINS = 255


class DecisionTree(BaseEstimator):
    """What both trees share."""

    criterion: str
    max_features: Any
    _criteria: dict[str, str]
    _auto_features: str | None

    def __init__(
        self,
        criterion: str,
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_leaf: int = 1,
        max_features: Any = None,
        random_state: Any = None,
        n_jobs: int = 1,
        use_histograms: bool = True,
        hist_nbins: int = 256,
        use_gpu: bool = False,
        gpu_id: int = 0,
        verbose: bool = False,
    ) -> None:
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.use_histograms = use_histograms
        self.hist_nbins = hist_nbins
        self.use_gpu = use_gpu
        self.gpu_id = gpu_id
        self.verbose = verbose

    def fit(self, X_train: Any, y_train: Any = None, sample_weight: Any = None) -> Any:
        """Grow the tree.

        Parameters
        ----------
        X_train : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows; NaN is missing.
        y_train : array-like of shape (n_rows,)
            Labels or targets; None is refused.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described.
        NotImplementedError
            For ``use_gpu=True``.
        """
        warn_of_ranks(type(self).__name__)
        estimator = self._estimator().fit(X_train, y_train, sample_weight)
        self.estimator_ = estimator
        self.n_features_in_ = estimator.n_features_in_
        self.feature_importances_ = estimator.feature_importances_
        if hasattr(estimator, "classes_"):
            self.classes_, self.n_classes_ = estimator.classes_, estimator.n_classes_
        return self

    def predict(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Predict labels or targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows.
        n_jobs : int or None, default=None
            Has no effect.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        """
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict(X))

    def _estimator(self) -> Any:
        """Return the estimator of this library, unfitted."""
        from snapml import trees  # scikit-learn's trees take as long to import as all else

        if self.use_gpu:
            raise NotImplementedError(
                "use_gpu=True: trees grow on the CPU in this version, on n_jobs threads; "
                "use_gpu=False"
            )
        if self.splitter != "best":
            raise ValueError(f"splitter: expected 'best', got {self.splitter!r}")
        if self.criterion not in self._criteria:
            known = " or ".join(map(repr, self._criteria))
            raise ValueError(f"criterion: expected {known}, got {self.criterion!r}")
        bins = _BYTE_BINS if self.hist_nbins == _BYTE_BINS + 1 else self.hist_nbins
        is_auto = isinstance(self.max_features, str) and self.max_features == "auto"
        return getattr(trees, type(self).__name__)(
            criterion=self._criteria[self.criterion],
            splitter="hist" if self.use_histograms else "best",
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self._auto_features if is_auto else self.max_features,
            random_state=self.random_state,
            n_threads=self.n_jobs,
            **({"max_bins": bins} if self.use_histograms else {}),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


class DecisionTreeClassifier(ClassifierMixin, DecisionTree):
    """A decision tree for classes.

    Parameters
    ----------
    criterion : {'gini'}, default='gini'
        What splits are judged by.
    splitter : {'best'}, default='best'
        There is no other.
    max_depth : int or None, default=None
        Most levels below the root.
    min_samples_leaf : int or float, default=1
        Least rows of a leaf.
    max_features : int, float, {'auto', 'sqrt', 'log2'} or None, default=None
        Columns that a node looks at; 'auto' is 'sqrt' for classes, and all for numbers.
    random_state : int, RandomState instance or None, default=None
        Draws columns.
    n_jobs : int, default=1
        Threads. The tree does not depend on them.
    use_histograms : bool, default=True
        Whether columns are binned; False grows scikit-learn's exact tree.
    hist_nbins : int, default=256
        Most bins of a column; 256 is taken as 255, the most that a byte has room for.
    use_gpu : bool, default=False
        True is refused.
    gpu_id : int, default=0
        Has no effect.
    verbose : bool, default=False
        Has no effect.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, of the classifier.
    n_classes_ : int
        Their number, of the classifier.
    feature_importances_ : ndarray of shape (n_features,)
        Of columns.
    estimator_ : snapml.DecisionTreeClassifier or snapml.DecisionTreeRegressor
        The grown tree.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from snapml.compat import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> round(DecisionTreeClassifier(max_depth=2).fit(X, y).score(X, y), 2)
    0.96
    """

    _criteria = {"gini": "gini"}  # noqa: RUF012 - read only
    _auto_features = "sqrt"

    def __init__(
        self,
        criterion: str = "gini",
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_leaf: int = 1,
        max_features: Any = None,
        random_state: Any = None,
        n_jobs: int = 1,
        use_histograms: bool = True,
        hist_nbins: int = 256,
        use_gpu: bool = False,
        gpu_id: int = 0,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            criterion,
            splitter,
            max_depth,
            min_samples_leaf,
            max_features,
            random_state,
            n_jobs,
            use_histograms,
            hist_nbins,
            use_gpu,
            gpu_id,
            verbose,
        )

    def predict_proba(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows.
        n_jobs : int or None, default=None
            Has no effect.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Shares of the classes in the leaves.
        """
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict_proba(X))


class DecisionTreeRegressor(RegressorMixin, DecisionTree):
    """A decision tree for numbers.

    Parameters
    ----------
    criterion : {'mse', 'squared_error'}, default='mse'
        What splits are judged by; both are the same.
    splitter, max_depth, min_samples_leaf, max_features, random_state, n_jobs
        As in `DecisionTreeClassifier`.
    use_histograms, hist_nbins, use_gpu, gpu_id, verbose
        As in `DecisionTreeClassifier`.

    Attributes
    ----------
    feature_importances_, estimator_
        As in `DecisionTreeClassifier`.
    """

    _criteria = {"mse": "squared_error", "squared_error": "squared_error"}  # noqa: RUF012
    _auto_features = None

    def __init__(
        self,
        criterion: str = "mse",
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_leaf: int = 1,
        max_features: Any = None,
        random_state: Any = None,
        n_jobs: int = 1,
        use_histograms: bool = True,
        hist_nbins: int = 256,
        use_gpu: bool = False,
        gpu_id: int = 0,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            criterion,
            splitter,
            max_depth,
            min_samples_leaf,
            max_features,
            random_state,
            n_jobs,
            use_histograms,
            hist_nbins,
            use_gpu,
            gpu_id,
            verbose,
        )
