"""Least squares under Snap ML's names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.base import RegressorMixin

import snapml
from snapml.compat.base import LinearModel, without
from snapml.compat.metrics import targets_of
from snapml.problems import Intercept, Problem

__all__ = ["LinearRegression"]


class JointRidge(snapml.Ridge):
    """Ridge regression whose intercept is one more column, penalised like any other."""

    joint_scaling: float

    def _make_problem(self) -> Problem:
        problem = super()._make_problem()
        return replace(problem, intercept=Intercept.PENALISED, intercept_scaling=self.joint_scaling)

    def _is_direct(self, *_: Any) -> bool:
        return False  # the linear equations here leave the intercept free


class LinearRegression(RegressorMixin, LinearModel):
    """Linear least squares with a penalty under Snap ML's names.

    Minimises ``regularizer/2 ||w||^2``, or ``regularizer ||w||_1``, plus half the sum of squares.

    Parameters
    ----------
    regularizer : float, default=1.0
        Strength of the penalty; `snapml.Ridge` has ``alpha = regularizer``, and `snapml.Lasso`
        ``alpha = regularizer / n_rows``.
    max_iter, device_ids, verbose, use_gpu, dual, n_jobs, penalty, tol
        As in `LogisticRegression`.
    generate_training_history, privacy, eta, batch_size, privacy_epsilon, grad_clip
        As in `LogisticRegression`.
    fit_intercept, intercept_scaling, normalize, kernel, gamma, n_components, random_state
        As in `LogisticRegression`.
    num_threads : int or None, default=None
        Former name of `n_jobs`; taken before it where given.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Coefficients.
    intercept_ : float
        Intercept.
    n_iter_, support_, training_history_, n_features_in_, feature_names_in_
        As in `LogisticRegression`.
    estimator_ : snapml.Ridge or snapml.Lasso
        The fitted estimator, with its certificate and ``save``. With `normalize` or a kernel it
        takes rows that are scaled and mapped already, and so does what it saves.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from snapml.compat import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearRegression(regularizer=0.1, dual=False, fit_intercept=True).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.51
    """

    def __init__(
        self,
        max_iter: int = 1000,
        regularizer: float = 1.0,
        device_ids: Any = (),
        verbose: bool = False,
        use_gpu: bool = False,
        dual: bool = True,
        n_jobs: int = 1,
        penalty: Any = "l2",
        tol: float = 0.001,
        generate_training_history: str | None = None,
        privacy: bool = False,
        eta: float = 0.3,
        batch_size: int = 100,
        privacy_epsilon: float = 10,
        grad_clip: float = 1,
        fit_intercept: bool = False,
        intercept_scaling: float = 1.0,
        normalize: bool = False,
        kernel: Any = "linear",
        gamma: float = 1.0,
        n_components: int = 100,
        random_state: Any = None,
        num_threads: int | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.regularizer = regularizer
        self.device_ids = device_ids
        self.verbose = verbose
        self.use_gpu = use_gpu
        self.dual = dual
        self.n_jobs = n_jobs
        self.penalty = penalty
        self.tol = tol
        self.generate_training_history = generate_training_history
        self.privacy = privacy
        self.eta = eta
        self.batch_size = batch_size
        self.privacy_epsilon = privacy_epsilon
        self.grad_clip = grad_clip
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.normalize = normalize
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state
        self.num_threads = num_threads

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or ChunkedDataset
            Rows, or a partition.
        y : array-like of shape (n_rows,), default=None
            Targets; None takes those of the partition.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights.

        Returns
        -------
        float
            At most 1.
        """
        return float(super().score(X, targets_of(X, y), sample_weight))

    def _estimator(self, n_rows: int) -> Any:
        if self.penalty == "l1":
            return snapml.Lasso(alpha=self.regularizer / n_rows, **self._common())
        if not (self.dual and self.fit_intercept):
            return snapml.Ridge(alpha=self.regularizer, **self._common())
        model = JointRidge(alpha=self.regularizer, **self._common())
        model.joint_scaling = float(self.intercept_scaling)
        return model

    def _learned(self, estimator: Any, seen: Any, n_rows: int) -> dict[str, Any]:
        learned = super()._learned(estimator, seen, n_rows)
        if isinstance(estimator, JointRidge):
            learned["estimator_"] = without(estimator, snapml.Ridge, "joint_scaling")
        return learned

    def _objective_scale(self, n_rows: int) -> float:
        return float(n_rows) if self.penalty == "l1" else float(self.regularizer)
