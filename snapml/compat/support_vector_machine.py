"""Support vector machines under Snap ML's names."""

from __future__ import annotations

from typing import Any

import numpy as np

import snapml
from snapml.compat.base import without
from snapml.compat.linear_classifier import LinearClassifier
from snapml.data import Dataset
from snapml.estimators.placement import with_host_predictions
from snapml.problems import Problem

__all__ = ["SupportVectorMachine"]


class SupportedSVC(snapml.LinearSVC):
    """Knows after its fit which rows the model is a sum of."""

    is_support: np.ndarray
    _solved: tuple[Dataset, np.ndarray | None]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        super().fit(X, y, sample_weight)
        dataset, states = self._solved
        del self._solved
        if states is None or self.loss != "hinge":  # which has another state, docs/notation.md
            if states is None:
                (rows,) = with_host_predictions(X)
                states = self.decision_function(rows).T
            is_support = dataset.labels * states < 1.0
        else:
            is_support = states > 0.0
        if dataset.row_weights is not None:
            is_support &= dataset.row_weights > 0.0
        self.is_support = is_support if is_support.ndim == 1 else is_support.any(axis=0)
        return self

    def _run(self, X: Any, problem: Problem, dataset: Dataset, *args: Any, **kwargs: Any) -> Any:
        result = super()._run(X, problem, dataset, *args, **kwargs)
        self._solved = dataset, result.duals
        return result


class SupportVectorMachine(LinearClassifier):
    """Linear support vector machine under Snap ML's names.

    Minimises ``regularizer/2 ||w||^2`` plus the sum of hinge losses, or of their squares.

    Parameters
    ----------
    loss : {'hinge', 'squared_hinge'}, default='hinge'
        The loss.
    regularizer : float, default=1.0
        Strength of the penalty; `snapml.LinearSVC` has ``C = 1 / regularizer``.
    max_iter, device_ids, verbose, use_gpu, class_weight, n_jobs, tol
        As in `LogisticRegression`.
    generate_training_history, normalize, kernel, gamma, n_components, random_state, num_threads
        As in `LogisticRegression`.
    fit_intercept, intercept_scaling
        As in `LogisticRegression`; the intercept is penalised.

    Attributes
    ----------
    coef_, intercept_, classes_, n_iter_, training_history_, n_features_in_, feature_names_in_
        As in `LogisticRegression`.
    support_ : ndarray, int64
        Rows with a dual variable above zero, of any class; in ascending order. Where the solver has
        no dual variables, rows with a margin below one: those of the certificate are zero for all
        others.
    n_support_ : int
        How many they are.
    estimator_ : snapml.LinearSVC
        The fitted estimator, with its certificate and ``save``. With `normalize` or a kernel it
        takes rows that are scaled and mapped already, and so does what it saves.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml.compat import SupportVectorMachine
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> round(SupportVectorMachine(normalize=True, fit_intercept=True).fit(X, y).score(X, y), 2)
    0.98
    """

    def __init__(
        self,
        loss: str = "hinge",
        max_iter: int = 1000,
        regularizer: float = 1.0,
        device_ids: Any = (),
        verbose: bool = False,
        use_gpu: bool = False,
        class_weight: Any = None,
        n_jobs: int = 1,
        tol: float = 0.001,
        generate_training_history: str | None = None,
        fit_intercept: bool = False,
        intercept_scaling: float = 1.0,
        normalize: bool = False,
        kernel: Any = "linear",
        gamma: float = 1.0,
        n_components: int = 100,
        random_state: Any = None,
        num_threads: int | None = None,
    ) -> None:
        self.loss = loss
        self.max_iter = max_iter
        self.regularizer = regularizer
        self.device_ids = device_ids
        self.verbose = verbose
        self.use_gpu = use_gpu
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.tol = tol
        self.generate_training_history = generate_training_history
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.normalize = normalize
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state
        self.num_threads = num_threads

    def decision_function(self, X: Any, n_jobs: int | None = None) -> Any:
        """Return the signed margin of each row: positive means the second class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or ChunkedDataset
            Rows, or a partition.
        n_jobs : int or None, default=None
            Has no effect.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            Margins.
        """
        return self._fitted().decision_function(self._transformed(X))

    def _estimator(self, n_rows: int) -> Any:
        return SupportedSVC(
            C=1.0 / float(self.regularizer),
            loss=self.loss,
            intercept_scaling=self.intercept_scaling,
            class_weight=self.class_weight,
            **self._common(),
        )

    def _learned(self, estimator: Any, seen: Any, n_rows: int) -> dict[str, Any]:
        learned = super()._learned(estimator, seen, n_rows)
        learned["support_"] = np.flatnonzero(estimator.is_support)
        learned["n_support_"] = len(learned["support_"])
        learned["estimator_"] = without(estimator, snapml.LinearSVC, "is_support")
        return learned
