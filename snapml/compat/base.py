"""What linear models under Snap ML's names share: the way to this library's estimators and back."""

from __future__ import annotations

import math
import numbers
import sys
from os import PathLike
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from snapml.compat.ranks import warn_of_ranks
from snapml.compat.training_history import training_history
from snapml.data import ChunkedDataset

__all__ = ["LinearModel", "without"]

_HISTORIES = (None, "summary", "full")
_FLAGS = ("verbose", "use_gpu", "fit_intercept", "normalize", "dual", "privacy")
# What a fit learns with some parameters or data only.
_NOT_ALWAYS = ("feature_names_in_", "support_", "training_history_")


class LinearModel(BaseEstimator):
    """Base of the linear models: checks, preparation of rows, history.

    Subclasses say in ``_estimator`` which estimator of this library solves the same problem.
    """

    estimator_: Any
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
        TypeError
            If `X_train` is a path.
        NotImplementedError
            For ``privacy=True``, and for ``normalize`` or ``kernel`` with a partition.
        """
        self._check()
        warn_of_ranks(type(self).__name__)
        if isinstance(X_train, str | PathLike):
            raise TypeError(
                f"X_train: expected rows or a partition, got the path {str(X_train)!r}; "
                "load_from_svmlight_format and load_from_snap_format make partitions of files"
            )
        steps, prepared, seen = self._prepare(X_train)
        n_rows = prepared.shape[0] if hasattr(prepared, "shape") else len(prepared)
        estimator = self._estimator(n_rows)
        estimator.fit(prepared, y_train)
        learned = self._learned(estimator, estimator if seen is None else seen, n_rows)
        # Nothing of a fit that fails stays, and nothing of the one before this.
        for name in _NOT_ALWAYS:
            self.__dict__.pop(name, None)
        self.__dict__.update(learned, _steps=steps)
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
        for name in _FLAGS:
            _check_flag(name, getattr(self, name))
        if self.privacy:
            raise NotImplementedError(
                "privacy=True: this library does not train with differential privacy; leave it "
                "out, or use a library made for it"
            )
        _check_positive("intercept_scaling", self.intercept_scaling)
        _check_positive("regularizer", self.regularizer)
        if float(self.regularizer) < 1 / sys.float_info.max:  # 1 / regularizer is C
            raise ValueError(
                f"regularizer: expected a finite number > 0 with a finite inverse, got "
                f"{self.regularizer!r}"
            )
        _check_devices(self.device_ids)
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

    def _prepare(self, X: Any) -> tuple[Any, Any, Any]:
        """Return how rows are scaled and mapped, the rows so, and what has seen their columns."""
        steps: list[Any] = []
        if self.normalize:
            steps += [MaxAbsScaler() if issparse(X) else StandardScaler(), Normalizer()]
        if self.kernel == "rbf":
            # The map is the same in every fit where no seed is asked for.
            seed = 0 if self.random_state is None else self.random_state
            steps.append(
                RBFSampler(gamma=self.gamma, n_components=self.n_components, random_state=seed)
            )
        if not steps:
            return None, X, None
        self._refuse_partition(X)
        seen = clone(self)
        X = validate_data(seen, X, accept_sparse="csr")
        pipeline = make_pipeline(*steps)
        return pipeline, pipeline.fit_transform(X), seen

    def _transformed(self, X: Any) -> Any:
        if self._steps is None:
            return X
        self._refuse_partition(X)
        return self._steps.transform(validate_data(self, X, reset=False, accept_sparse="csr"))

    def _refuse_partition(self, X: Any) -> None:
        if isinstance(X, ChunkedDataset):
            raise NotImplementedError(
                "normalize and kernel: expected rows in memory with them, got a ChunkedDataset; "
                "its load() returns them"
            )

    def _learned(self, estimator: Any, seen: Any, n_rows: int) -> dict[str, Any]:
        """Return the attributes of a fit; `seen` knows the columns before they were mapped."""
        learned = {
            "estimator_": estimator,
            "coef_": np.atleast_2d(estimator.coef_),
            "intercept_": estimator.intercept_,
            "n_iter_": int(np.max(estimator.n_iter_)),
            "n_features_in_": int(seen.n_features_in_),
        }
        if hasattr(seen, "feature_names_in_"):
            learned["feature_names_in_"] = seen.feature_names_in_
        if self.penalty == "l1":
            is_used = learned["coef_"].any(axis=0)
            learned["support_"] = np.flatnonzero(is_used).astype(np.int32)
        if self.generate_training_history is not None:
            learned["training_history_"] = training_history(
                estimator, self.generate_training_history, self._objective_scale(n_rows)
            )
        return learned

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def without(estimator: Any, public: Any, *names: str) -> Any:
    """Return a fitted estimator as one of its public class, which can be saved.

    Parameters
    ----------
    estimator : estimator
        Of a subclass with the same parameters.
    public : type
        The class.
    *names : str
        Attributes that the class does not have.

    Returns
    -------
    estimator
        Fitted, with all other attributes.
    """
    plain = public(**estimator.get_params())
    vars(plain).update({k: v for k, v in vars(estimator).items() if k not in names})
    return plain


def _check_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false; scripts have 0 and 1 for these, too."""
    is_number = isinstance(value, np.bool_ | numbers.Integral)
    if not is_number or value not in (0, 1):
        raise ValueError(f"{name}: expected True or False, got {value!r}")


def _check_positive(name: str, value: Any) -> None:
    is_number = not isinstance(value, bool) and isinstance(value, numbers.Real)
    if not is_number or not 0 < float(value) < math.inf:
        raise ValueError(f"{name}: expected a finite number > 0, got {value!r}")


def _check_devices(ids: Any) -> None:
    is_row = isinstance(ids, list | tuple | range) or (
        isinstance(ids, np.ndarray) and ids.ndim == 1
    )
    is_known = is_row and all(
        not isinstance(each, bool) and isinstance(each, numbers.Integral) and int(each) >= 0
        for each in ids
    )
    if ids is not None and not is_known:
        raise ValueError(f"device_ids: expected a list of integers >= 0, got {ids!r}")
