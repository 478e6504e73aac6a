"""What linear models under Snap ML's names share: the way to this library's estimators and back."""

from __future__ import annotations

import math
import numbers
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from snapml.data import ChunkedDataset

__all__ = ["LinearModel"]

_HISTORIES = (None, "summary", "full")


class LinearModel(BaseEstimator):
    """Base of the linear models: checks, preparation of rows, history.

    Subclasses say in ``_estimator`` which estimator of this library solves the same problem.
    """

    max_iter: int
    regularizer: float
    device_ids: Any
    verbose: bool
    use_gpu: bool
    n_jobs: int
    num_threads: int | None
    tol: float
    generate_training_history: str | None
    fit_intercept: bool
    intercept_scaling: float
    normalize: bool
    kernel: Literal["linear", "rbf"]
    gamma: float
    n_components: int
    random_state: Any
    dual: bool = True
    penalty: Literal["l1", "l2"] = "l2"
    privacy: bool = False

    def fit(self, X_train: Any, y_train: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X_train : {array-like, sparse matrix} of shape (n_rows, n_features), or ChunkedDataset
            Rows, or a partition: what ``load_from_svmlight_format`` and its like return.
        y_train : array-like of shape (n_rows,), default=None
            Labels or targets; None takes those of the partition.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described.
        NotImplementedError
            For ``privacy=True``, and for ``normalize`` or ``kernel`` with a partition.
        """
        self._check()
        prepared = self._prepare(X_train)
        n_rows = prepared.shape[0] if hasattr(prepared, "shape") else len(prepared)
        estimator = self._estimator(n_rows)
        estimator.fit(prepared, y_train)
        self.estimator_ = estimator
        self.coef_ = np.atleast_2d(estimator.coef_)
        self.intercept_ = estimator.intercept_
        self.n_iter_ = int(np.max(estimator.n_iter_))
        self.n_features_in_ = int(
            X_train.shape[1] if hasattr(X_train, "shape") else len(X_train[0])
        )
        if self.penalty == "l1":
            self.support_ = np.flatnonzero(self.coef_.any(axis=0)).astype(np.int32)
        if self.generate_training_history is not None:
            scale = self._objective_scale(n_rows)
            self.training_history_ = self._history(estimator, scale)
        return self

    def predict(self, X: Any, n_jobs: int | None = None) -> Any:
        """Predict labels or targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or ChunkedDataset
            Rows, or a partition.
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
        ValueError
            If X has another number of features than in fit, or is not finite.
        """
        return self._fitted().predict(self._transformed(X))

    def _estimator(self, n_rows: int) -> Any:
        """Return the estimator of this library, unfitted."""
        raise NotImplementedError

    def _objective_scale(self, n_rows: int) -> float:
        """Return what Snap ML's objective is of the estimator's."""
        return float(self.regularizer)

    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    def _check(self) -> None:
        if self.privacy:
            raise NotImplementedError(
                "privacy=True: this library does not train with differential privacy; leave it "
                "out, or use a library made for it"
            )
        regularizer: Any = self.regularizer
        is_number = isinstance(regularizer, numbers.Real) and not isinstance(regularizer, bool)
        if not is_number or not 0 < regularizer < math.inf:
            raise ValueError(f"regularizer: expected a finite number > 0, got {regularizer!r}")
        for name, known in (
            ("generate_training_history", _HISTORIES),
            ("kernel", ("linear", "rbf")),
            ("penalty", ("l1", "l2")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}: expected one of {known}, got {getattr(self, name)!r}")
        if self.penalty == "l1" and self.dual:
            raise ValueError("penalty='l1': expected dual=False with it, got dual=True")

    def _common(self) -> dict[str, Any]:
        """Return the parameters that all estimators of this library have in common."""
        ids = () if self.device_ids is None else self.device_ids
        return {
            "tol": self.tol,
            "max_iter": self.max_iter,
            "fit_intercept": bool(self.fit_intercept),
            "n_threads": self.n_jobs if self.num_threads is None else self.num_threads,
            "device_ids": ([int(each) for each in ids] or [0]) if self.use_gpu else None,
            "random_state": self.random_state,
            "verbose": int(self.verbose),
        }

    def _prepare(self, X: Any) -> Any:
        """Learn how rows are scaled and mapped, and return them so."""
        steps: list[Any] = []
        if self.normalize:
            steps += [MaxAbsScaler() if issparse(X) else StandardScaler(), Normalizer()]
        if self.kernel == "rbf":
            # The map is the same in every fit where no seed is asked for.
            seed = 0 if self.random_state is None else self.random_state
            steps.append(
                RBFSampler(gamma=self.gamma, n_components=self.n_components, random_state=seed)
            )
        self._steps = make_pipeline(*steps) if steps else None
        if self._steps is None:
            return X
        self._refuse_partition(X)
        return self._steps.fit_transform(check_array(X, accept_sparse="csr"))

    def _transformed(self, X: Any) -> Any:
        if self._steps is None:
            return X
        self._refuse_partition(X)
        return self._steps.transform(check_array(X, accept_sparse="csr"))

    def _refuse_partition(self, X: Any) -> None:
        if isinstance(X, ChunkedDataset):
            raise NotImplementedError(
                "normalize and kernel: expected rows in memory with them, got a ChunkedDataset; "
                "its load() returns them"
            )

    def _history(self, estimator: Any, scale: float) -> list[dict[str, Any]]:
        """Return what was measured where the objective was certified, and at the end."""
        known = [each for each in estimator.history_ if math.isfinite(each["objective"])]
        if self.generate_training_history == "summary":
            elapsed = estimator.history_[-1]["time_s"]
            objective = scale * float(estimator.objective_)
            return [{"epochs": self.n_iter_, "t_elap_sec": elapsed, "train_obj": objective}]
        return [
            {
                "epochs": [each["epoch"] for each in known],
                "t_elap_sec": [each["time_s"] for each in known],
                "train_obj": [scale * each["objective"] for each in known],
            }
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
