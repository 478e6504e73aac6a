"""Ridge regression and classification that choose their penalty by cross-validation."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import check_scoring, get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import check_scalar, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import _num_samples

from snapml._validation import (
    check_fit_input,
    check_sample_weight,
    is_routing_enabled,
    raise_for_routed_params,
    raise_non_finite,
    refuse_rows_elsewhere,
)
from snapml.data import Matrix
from snapml.estimators.base import LinearEstimator, all_or_nothing, callers_level
from snapml.estimators.fit_call import CallbackSupport, as_part
from snapml.estimators.linear_regression import LinearRegressor, least_squares_fit
from snapml.estimators.offsets import check_index, check_offset, offset_vector, targets_without
from snapml.estimators.ridge import Ridge, RidgeClassifier, RidgeLabels
from snapml.searches.fold_scores import fold_scores, takes_weights
from snapml.searches.search_watch import SearchWatch
from snapml.solvers.control import Interim
from snapml.solvers.least_squares.leave_one_out import LeaveOneOut
from snapml.solvers.range_checks import NonFiniteError

__all__ = ["RidgeCV", "RidgeClassifierCV"]


class _GivenPredictions(RegressorMixin, BaseEstimator):
    """A regressor whose X are its predictions: what a scorer needs."""

    def predict(self, X: Any) -> Any:
        """Return X."""
        return X


class _GivenDecisions(ClassifierMixin, BaseEstimator):
    """A classifier whose X are its decision values."""

    def __init__(self, classes: Any, is_multilabel: bool) -> None:
        self.classes_ = classes
        self.is_multilabel = is_multilabel

    def decision_function(self, X: Any) -> Any:
        """Return X."""
        return X[:, 0] if X.shape[1] == 1 and not self.is_multilabel else X

    def predict(self, X: Any) -> Any:
        """Return the class, or the labels, that X decides for."""
        if self.is_multilabel:
            return (X > 0).astype(int)
        chosen = (X[:, 0] > 0).astype(int) if X.shape[1] == 1 else X.argmax(axis=1)
        return self.classes_[chosen]


class _CrossValidatedRidge(CallbackSupport, LinearEstimator):
    """Base of both: the choice of alpha."""

    alphas: Any
    fit_intercept: bool
    scoring: Any
    cv: Any
    store_cv_results: bool
    n_threads: int | None
    gcv_mode: Any = None
    alpha_per_target: bool = False

    def get_metadata_routing(self) -> MetadataRouter:
        """Return where scikit-learn sends the metadata given to fit.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
            To the scorer and the splitter.
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                scorer=self._get_scorer(),
                method_mapping=MethodMapping().add(caller="fit", callee="score"),
            )
            .add(
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def _get_scorer(self) -> Any:
        """Return the scorer, with weights where they are routed and none is named."""
        if is_routing_enabled() and self.scoring is None:
            name = "accuracy" if isinstance(self, ClassifierMixin) else "r2"
            return get_scorer(name).set_score_request(sample_weight=True)
        if isinstance(self.scoring, list | tuple | set | dict):
            raise ValueError(f"scoring: expected one metric, got {self.scoring!r}")
        return check_scoring(estimator=self, scoring=self.scoring, allow_none=True)

    def _checked_alphas(self) -> np.ndarray:
        """Return the penalties to try: positive, or at least zero with folds."""
        bounds = "neither" if self.cv is None else "left"
        values = [self.alphas] if np.ndim(self.alphas) == 0 else list(self.alphas)
        for index, alpha in enumerate(values):
            name = "alphas" if len(values) == 1 else f"alphas[{index}]"
            check_scalar(alpha, name, numbers.Real, min_val=0.0, include_boundaries=bounds)
        if not values:
            raise ValueError("alphas: expected at least one number, got none")
        return np.array(values, dtype=np.float64)

    def _interim_attributes(self, model: Interim) -> dict[str, Any]:
        attributes = super()._interim_attributes(model)
        return attributes | ({"coef_": model.coef[0]} if len(model.coef) == 1 else {})

    def _routed(
        self, sample_weight: Any, params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the splitter is to be given, and the scorer beside predictions and truth."""
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        if is_routing_enabled():
            routed = process_routing(self, "fit", **given, **params)
            return dict(routed.splitter.split), dict(routed.scorer.score)
        return {}, given

    def _fit_leave_one_out(
        self,
        X: Any,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        score_params: dict[str, Any],
        offset: np.ndarray | None = None,
    ) -> None:
        """Choose alpha by the errors of the rows left out, and fit all of them."""
        alphas = self._checked_alphas()
        by_svd = self.gcv_mode == "svd"
        if by_svd and issparse(X):
            warnings.warn(
                "The 'svd' mode is not supported for sparse X, we fallback to gcv_mode='eigen'",
                FutureWarning,
                stacklevel=callers_level(),
            )
            by_svd = False
        targets = targets_without(y, offset).reshape(matrix.shape[0], -1)
        try:
            if self.fit_intercept and matrix.shape[0] < 2:
                raise ValueError(
                    "leave-one-out with an intercept: expected 2 samples or more, got n_samples = 1"
                )
            left_out = LeaveOneOut(
                matrix,
                targets,
                weights,
                bool(self.fit_intercept),
                alphas.tolist(),
                by_svd=by_svd,
                n_threads=self.n_threads,
            )
        except NonFiniteError:
            raise_non_finite(self, X)
        results: list[np.ndarray] = []
        scores: list[Any] = []
        watch, is_done = SearchWatch(self), np.zeros((1, len(alphas)), dtype=bool)
        for at, alpha in enumerate(alphas):
            if watch.is_over():
                break
            is_done[0, at] = True
            if self.scoring is None:
                result = left_out.residuals(alpha) ** 2
                scores.append(-result.mean(axis=0 if self.alpha_per_target else None))
            else:
                result = left_out.predictions(alpha)
                if offset is not None:
                    result = result + offset[:, None]
                scores.append(self._score_predictions(result, y, score_params))
            if self.store_cv_results:
                results.append(result.astype(matrix.dtype))
        watch.judged(is_done)
        table = np.array(scores)
        best = table.argmax(axis=0)
        chosen = alphas[best]
        is_per_target = self.alpha_per_target and targets.shape[1] > 1
        self.alpha_ = chosen if is_per_target else float(np.ravel(chosen)[0])
        top = table.max(axis=0)
        self.best_score_ = top if is_per_target else float(np.ravel(top)[0])
        if self.store_cv_results:
            unknown = np.full_like(results[0], np.nan)
            results += [unknown] * (len(alphas) - len(results))
            stacked = np.stack(results, axis=-1)
            self.cv_results_ = stacked[:, 0] if y.ndim == 1 else stacked
        fitted = least_squares_fit(
            self,
            X,
            matrix,
            targets,
            weights,
            alphas=np.broadcast_to(self.alpha_, targets.shape[1]),
            tol=0.0,
            rows=left_out.rows,
        )
        self.coef_ = fitted.coef[0] if targets.shape[1] == 1 else fitted.coef
        self.intercept_ = fitted.intercept[0] if y.ndim == 1 else fitted.intercept
        self.gap_ = float((fitted.gap / self.alpha_).sum())
        self.objective_ = float((fitted.objective / self.alpha_).sum())
        self.solver_ = fitted.description

    def _score_predictions(
        self, predictions: np.ndarray, y: np.ndarray, score_params: dict[str, Any]
    ) -> Any:
        """Return the scorer's verdict, or one per target."""
        scorer, judge = self._get_scorer(), _GivenPredictions()
        if self.alpha_per_target:
            targets = y.reshape(len(y), -1)
            pairs = zip(predictions.T, targets.T, strict=True)
            return np.array([scorer(judge, p, t, **score_params) for p, t in pairs])
        shaped = predictions[:, 0] if y.ndim == 1 else predictions
        return scorer(judge, shaped, y, **score_params)

    def _fit_folds(
        self,
        model: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        params: dict[str, Any],
        offset: np.ndarray | None = None,
    ) -> None:
        """Choose alpha by cross-validation over folds, an alpha on all folds after the other."""
        if self.store_cv_results:
            raise ValueError("cv!=None and store_cv_results=True are incompatible")
        if self.alpha_per_target:
            raise ValueError("cv!=None and alpha_per_target=True are incompatible")
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        alphas, scorer, watch = self._checked_alphas(), self._get_scorer(), SearchWatch(self)
        split_params, score_params = self._routed(sample_weight, params)
        if given and not is_routing_enabled() and not takes_weights(scorer):
            score_params = {}
        splitter = check_cv(self.cv, y, classifier=isinstance(self, ClassifierMixin))
        folds = list(splitter.split(*indexable(X, y), **split_params))
        scores, is_done = fold_scores(
            model, alphas, X, y, folds, scorer, given, score_params, watch, offset
        )
        kept = watch.judged(is_done)
        means = scores[:, kept].mean(axis=0)
        at = np.where(np.isnan(means), -np.inf, means).argmax()
        self.alpha_, self.best_score_ = float(alphas[kept[at]]), float(means[at])
        with as_part(model.set_params(alpha=self.alpha_), watch.refit()) as best:
            best.fit(X, y, **given, **({} if offset is None else {"offset": offset}))
        for name in ("coef_", "intercept_", "gap_", "objective_", "solver_", "n_features_in_"):
            setattr(self, name, getattr(best, name))
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_


class RidgeCV(_CrossValidatedRidge, LinearRegressor):
    """Ridge regression that chooses alpha by leave-one-out or by folds.

    Leaving out every row once costs one decomposition for all of them and all alphas [1]_, or a
    factor for each of few alphas.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Penalties to try; positive, or at least 0 where `cv` is given.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    scoring : str, callable or None, default=None
        None is the negative mean squared error if `cv` is None, else R^2.
    cv : int, splitter, iterable or None, default=None
        None leaves out one row at a time.
    gcv_mode : {'auto', 'svd', 'eigen'} or None, default=None
        'svd' decomposes dense X, the others the products of its rows or columns.
    store_cv_results : bool, default=False
        Whether to keep ``cv_results_``; only without `cv`.
    alpha_per_target : bool, default=False
        Whether every target gets an alpha of its own; only without `cv`.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, one on small data.
    max_time_s : float or None, default=None
        Seconds for judging penalties, asked after each, and with `cv` as many again for the fit of
        the choice to all rows. Those that there was no time for are not chosen; a
        ``ConvergenceWarning`` says how many. None sets no bound.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_targets,)
        The penalty with the best score.
    best_score_ : float or ndarray of shape (n_targets,)
        Its score.
    cv_results_ : ndarray of shape (n_samples, n_alphas) or (n_samples, n_targets, n_alphas)
        Squared errors of the rows left out, times their weights; their predictions, where
        `scoring` is given. NaN where the search has ended before.
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        w.
    intercept_ : float or ndarray of shape (n_targets,)
        b.
    gap_, objective_, solver_
        As in `Ridge`.
    has_offset_ : bool
        Whether fit had an offset, which predictions then need as well.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] Golub, Heath and Wahba, "Generalized cross-validation as a method for choosing a good
       ridge parameter", Technometrics 21, 1979.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from snapml import RidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> RidgeCV(alphas=[1e-3, 1e-2, 1e-1, 1]).fit(X, y).alpha_
    0.01
    """

    def __init__(
        self,
        alphas: Any = (0.1, 1.0, 10.0),
        *,
        fit_intercept: bool = True,
        scoring: Any = None,
        cv: Any = None,
        gcv_mode: Any = None,
        store_cv_results: bool = False,
        alpha_per_target: bool = False,
        n_threads: int | None = None,
        max_time_s: float | None = None,
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.gcv_mode = gcv_mode
        self.store_cv_results = store_cv_results
        self.alpha_per_target = alpha_per_target
        self.n_threads = n_threads
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None, **params: Any
    ) -> RidgeCV:
        """Choose alpha and fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weight k counts as k copies of the row, weight 0 as none.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's prediction as it is, with a coefficient of 1, on folds as on all
            rows.
        **params : object
            For the scorer and the splitter, with scikit-learn's metadata routing only.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        TimeoutError
            If `max_time_s` is over before any penalty was judged.
        RuntimeError
            If a callback has ended the search before that.
        """
        raise_for_routed_params(params, self, "fit")
        if self.cv is not None:
            model = Ridge(fit_intercept=self.fit_intercept, n_threads=self.n_threads)
            check_index(offset, X)
            offsets = None if offset is None else offset_vector(offset, _num_samples(X))
            self._fit_folds(model, X, y, sample_weight, params, offsets)
            self.has_offset_ = offset is not None
            return self
        matrix, y = check_fit_input(self, X, y, multi_output=True, y_numeric=True)
        offsets = check_offset(offset, matrix, X)
        self.has_offset_ = offsets is not None
        weights = check_sample_weight(sample_weight, matrix)
        _, score_params = self._routed(sample_weight, params)
        self._fit_leave_one_out(X, matrix, y, weights, score_params, offsets)
        return self


class RidgeClassifierCV(_CrossValidatedRidge, RidgeLabels):
    """Ridge classification that chooses alpha by leave-one-out or by folds.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Penalties to try; positive, or at least 0 where `cv` is given.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    scoring : str, callable or None, default=None
        None is the negative mean squared error if `cv` is None, else accuracy.
    cv : int, splitter, iterable or None, default=None
        None leaves out one row at a time.
    class_weight : dict or 'balanced', default=None
        Weights of the classes; 'balanced' gives every class the same total weight of rows, which
        `sample_weight` then multiplies, as in scikit-learn.
    store_cv_results : bool, default=False
        Whether to keep ``cv_results_``; only without `cv`.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, one on small data.
    max_time_s : float or None, default=None
        Seconds for judging penalties, asked after each, and with `cv` as many again for the fit of
        the choice to all rows. Those that there was no time for are not chosen; a
        ``ConvergenceWarning`` says how many. None sets no bound.

    Attributes
    ----------
    alpha_ : float
        The penalty with the best score.
    best_score_ : float
        Its score.
    cv_results_ : ndarray of shape (n_samples, n_targets, n_alphas)
        As in `RidgeCV`.
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        w, without the first axis for two classes, as in scikit-learn.
    intercept_ : ndarray of shape (n_targets,)
        b.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    gap_, objective_, solver_
        As in `Ridge`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml import RidgeClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> round(RidgeClassifierCV(alphas=[1e-3, 1e-2, 1e-1, 1]).fit(X, y).score(X, y), 2)
    0.96
    """

    def __init__(
        self,
        alphas: Any = (0.1, 1.0, 10.0),
        *,
        fit_intercept: bool = True,
        scoring: Any = None,
        cv: Any = None,
        class_weight: Any = None,
        store_cv_results: bool = False,
        n_threads: int | None = None,
        max_time_s: float | None = None,
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.class_weight = class_weight
        self.store_cv_results = store_cv_results
        self.n_threads = n_threads
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> RidgeClassifierCV:
        """Choose alpha and fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weight k counts as k copies of the row, weight 0 as none.
        **params : object
            For the scorer and the splitter, with scikit-learn's metadata routing only.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        TimeoutError
            If `max_time_s` is over before any penalty was judged.
        RuntimeError
            If a callback has ended the search before that.
        """
        raise_for_routed_params(params, self, "fit")
        refuse_rows_elsewhere(self, X)
        matrix, labels, targets, weights = self._binarised(X, y, sample_weight)
        if self.cv is not None:
            model = RidgeClassifier(fit_intercept=self.fit_intercept, n_threads=self.n_threads)
            self._fit_folds(model, X, labels, weights, params)
            return self
        _, score_params = self._routed(weights, params)
        self._fit_leave_one_out(X, matrix, targets, weights, score_params)
        return self

    def _score_predictions(
        self, predictions: np.ndarray, y: np.ndarray, score_params: dict[str, Any]
    ) -> Any:
        """Return the scorer's verdict on classes or labels."""
        judge = _GivenDecisions(self.classes_, self._is_multilabel)
        return self._get_scorer()(judge, predictions, judge.predict(y), **score_params)
