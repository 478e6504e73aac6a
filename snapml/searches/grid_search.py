"""scikit-learn's grid search, in which fits that differ in C or fold share their reads of X."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from sklearn import model_selection
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length, column_or_1d, indexable

from snapml._validation import (
    check_classes,
    check_fit_input,
    check_positive,
    check_sample_weight,
    distinct,
    is_routing_enabled,
)
from snapml.data import ChunkedDataset, Matrix
from snapml.data.store.temporary_store import removing_temporary_stores
from snapml.estimators.base import all_or_nothing
from snapml.estimators.fit_call import refit_of, search_control_of
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.row_sources import is_row_source, opened
from snapml.estimators.support_vector_machine import LinearSVC
from snapml.searches.pipelines import is_shareable, solve_pipelines
from snapml.searches.shared.family_paths import FAMILIES
from snapml.searches.shared.fits import can_share, solve_shared
from snapml.searches.shared.models import SharedFit
from snapml.searches.shared.regressions import REGRESSIONS
from snapml.searches.stand_in import (
    SharedSearch,
    StandIn,
    for_row_numbers,
    last_step,
    parameters_of,
)
from snapml.searches.stored_search import (
    StoredSearch,
    check_stored_search,
    stored_rows,
)
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.rows.cpu_rows import check_rows

__all__ = ["GridSearchCV"]


class GridSearchCV(model_selection.GridSearchCV):
    """scikit-learn's ``GridSearchCV``, faster for our linear models.

    Fits of `LogisticRegression` and of `LinearSVC` with the squared hinge and an L2 penalty are
    columns of one solve where they differ in C, class weights, class or fold: each read of X serves
    all of them, folds are weights of rows, and weaker penalties start from stronger ones; X may be
    in memory, in a store or on one GPU (there multinomial models are single fits). Values of alpha
    of `Ridge` and `RidgeClassifier` share the Gram matrix of each fold; those of `Lasso` and
    `ElasticNet`, of the regressors of counts and amounts, and values of C of the classifiers' other
    penalties, a path of warm starts. A pipeline may end in one of them: its transformers are fitted
    once for each fold and setting.
    Everything else (other estimators, the hinge, metadata routing) is evaluated by scikit-learn as
    always. The results are the same object.

    Parameters
    ----------
    estimator : estimator
        What to fit.
    param_grid : dict or list of dict
        Names of parameters, and values to try.
    scoring : str, callable, list, tuple, dict or None, default=None
        As in scikit-learn, one metric or several.
    n_jobs : int or None, default=None
        Fits at the same time, of those that share nothing; the others use `n_threads` of the
        estimator.
    refit : bool, str or callable, default=True
        As in scikit-learn. The best candidate is fitted to all rows by the estimator itself, to
        its own `tol`, with a certificate.
    cv : int, splitter, iterable or None, default=None
        As in scikit-learn.
    verbose : int, default=0
        As in scikit-learn.
    pre_dispatch : int or str, default='2*n_jobs'
        As in scikit-learn.
    error_score : 'raise' or float, default=nan
        As in scikit-learn.
    return_train_score : bool, default=False
        As in scikit-learn.
    search_tol : float, default=1e-2
        How exact the shared fits are: one ends with a Newton step that can gain at most this share
        of ``||w||^2 / 2`` in the quadratic model, a tenth of it for more than two classes;
        that is no certificate. 0 shares nothing.
    max_time_s : float or None, default=None
        Seconds for judging candidates; what is under way then ends first. Fits that have not come
        to their end fail with a TimeoutError, which `error_score` makes a score: candidates with
        such a fold have a mean of NaN, and rank last. The refit has the estimator's own
        ``max_time_s``. For searches that share reads of X.

    Attributes
    ----------
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, \
refit_time_, multimetric_, classes_, n_features_in_, feature_names_in_ : object
        As in scikit-learn. ``mean_fit_time`` of shared fits is their time together, divided.
    n_shared_ : int
        Fits that shared their reads of X.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml import LogisticRegression
    >>> from snapml.model_selection import GridSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> search = GridSearchCV(LogisticRegression(), {"C": [1e-3, 1e-1, 10]}).fit(X, y)
    >>> search.best_params_, search.n_shared_
    ({'C': 0.1}, 15)
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        error_score: Any = np.nan,
        return_train_score: bool = False,
        search_tol: float = 1e-2,
        max_time_s: float | None = None,
    ) -> None:
        super().__init__(
            estimator,
            param_grid,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.search_tol = search_tol
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, **params: Any) -> GridSearchCV:
        """Evaluate all candidates, and fit the best to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), store, path or stream
            Training data. With rows in a store, and those of a file or stream, which are written to
            a temporary one, a fold is a weight of each row for all linear models of snapml.
        y : array-like of shape (n_samples,), default=None
            Targets; None takes the store's.
        **params : object
            As in scikit-learn: `sample_weight` for the fits, `groups` for the splitter.

        Returns
        -------
        self
            The search.

        Raises
        ------
        ValueError
            As in scikit-learn; or if `search_tol` is negative, or `max_time_s` not positive.
        TypeError
            As in scikit-learn; or if X is a store, and the estimator or the scoring need rows in
            memory.
        TimeoutError
            If `max_time_s` is over and `error_score` is 'raise'.
        NotImplementedError
            If there is `max_time_s`, and nothing of the search can be shared.
        """
        self._validate_params()  # before a search of ours could fail in another's name
        check_positive("search_tol", self.search_tol, allow_zero=True)
        if self.max_time_s is not None:
            check_positive("max_time_s", self.max_time_s)
        self.n_shared_ = 0
        X = opened(X)
        if isinstance(X, ChunkedDataset) or is_row_source(X):
            with removing_temporary_stores():
                self._search_store(X, y, params)
            return self
        data = self._data_to_share(X, y, params)
        if data is None and self.max_time_s is not None:
            raise NotImplementedError(
                "max_time_s: expected a search whose fits can share their reads of X (see What is "
                "shared in the guide), got one that scikit-learn evaluates fit by fit"
            )
        if data is None:
            super().fit(X, y, **params)
            return self
        matrix, labels, weights = data
        # As scikit-learn: sparse rows of formats that have no rows to take become CSR.
        search = SharedSearch(
            indexable(X)[0],
            distinct(labels) if is_classifier(self.estimator) else np.empty(0),
            self._folds(X, y, params),
            control=search_control_of(self),
            refit_of=partial(refit_of, self),
        )
        others = {name: value for name, value in params.items() if name != "groups"}
        self._search(search, matrix, (labels, weights), y, others)
        return self

    def _search_store(self, X: Any, y: Any, params: dict[str, Any]) -> None:
        """Evaluate all candidates on rows in a store, and fit the best to all of them."""
        check_stored_search(self.estimator, self.scoring, params)
        if getattr(self.estimator, "_skl_callbacks", ()) or is_routing_enabled():
            raise NotImplementedError(
                "X is a store: expected an estimator without callbacks, and no metadata routing"
            )
        given = stored_rows(self.estimator, X, y, params.get("sample_weight"))
        classes = distinct(given.y) if is_classifier(self.estimator) else np.empty(0)
        search = StoredSearch(
            given.matrix,  # whose chunks in memory serve all fits
            classes,
            self._folds(given.y, given.y, params),
            control=search_control_of(self),
            refit_of=partial(refit_of, self),
            y=given.y,
            weights=given.weights,
        )
        # scikit-learn's scores weigh rows as fits do; a store's weights are no others.
        weighted = {} if given.weights is None else {"sample_weight": given.weights}
        self._search(search, given.matrix, (given.y, given.weights), given.y, weighted)
        if given.feature_names is not None and hasattr(self, "best_estimator_"):
            names = np.asarray(given.feature_names, dtype=object)
            self.feature_names_in_ = self.best_estimator_.feature_names_in_ = names
        if given.encoding is not None and hasattr(self, "best_estimator_"):
            self.best_estimator_.encoding_ = dict(given.encoding)

    def _folds(self, X: Any, y: Any, params: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Return numbers of rows to train and to judge on."""
        numbers = np.arange(len(y))
        splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        parts = splitter.split(X, y, params.get("groups"))
        return [(numbers[train], numbers[test]) for train, test in parts]

    def _search(
        self,
        search: SharedSearch,
        matrix: Matrix | None,
        targets: tuple[np.ndarray, np.ndarray | None],
        y: Any,
        params: dict[str, Any],
    ) -> None:
        """Fit what can be shared, let scikit-learn judge it all, and take its results."""
        seconds = self._solve(search, matrix, *targets)
        inner = _RowSearch(
            StandIn(self.estimator, search),
            self.param_grid,
            scoring=for_row_numbers(self.scoring, search),
            refit=self.refit,
            cv=search.folds,
            verbose=self.verbose,
            error_score=self.error_score,
            return_train_score=self.return_train_score,
        )
        inner.fit(np.arange(len(y)), y, **params)
        self._take(inner, search, seconds)

    def _data_to_share(
        self, X: Any, y: Any, params: dict[str, Any]
    ) -> tuple[Matrix | None, np.ndarray, np.ndarray | None] | None:
        """Return checked rows, labels and weights; None where nothing can be shared.

        Data that are not as they should be are left to the ordinary evaluation, which says so.
        """
        last = last_step(self.estimator)
        is_ours = type(last) in (LogisticRegression, LinearSVC, *REGRESSIONS, *FAMILIES)
        if not is_ours or y is None or self.search_tol == 0 or is_routing_enabled():
            return None
        if any(getattr(one, "_skl_callbacks", ()) for one in (self.estimator, last)):
            return None  # whom the ordinary evaluation tells of each pass of each candidate
        weights_name = "sample_weight"
        if last is not self.estimator:
            weights_name = f"{self.estimator.steps[-1][0]}__{weights_name}"
        if not set(params) <= {weights_name, "groups"}:
            return None
        try:
            matrix, labels = self._checked_rows(X, y)
            weights = params.get(weights_name)
            if matrix is not None:
                weights = check_sample_weight(weights, matrix)
            elif weights is not None:
                check_consistent_length(labels, weights)
                weights = column_or_1d(weights)
            if labels.ndim > 1:
                return None  # several targets
            classes = check_classes(last, labels) if is_classifier(last) else np.empty(0)
        except (TypeError, ValueError, NonFiniteError):
            return None
        able = [_is_able(one, matrix, classes) for one in self._candidates()]
        # Ordinary fits on row numbers would leave n_jobs without effect.
        is_enough = all(able) or (any(able) and self.n_jobs in (None, 1))
        return (matrix, labels, weights) if is_enough else None

    def _checked_rows(self, X: Any, y: Any) -> tuple[Matrix | None, np.ndarray]:
        """Return rows and labels; no rows for pipelines, whose first step knows what they are."""
        if type(self.estimator) is Pipeline:
            check_consistent_length(X, y)
            return None, column_or_1d(y)
        is_numeric = is_regressor(self.estimator)
        matrix, labels = check_fit_input(clone(self.estimator), X, y, y_numeric=is_numeric)
        check_rows(matrix, self.estimator.n_threads)
        return matrix, labels

    def _candidates(self) -> list[Any]:
        """Return an estimator for each candidate."""
        return [
            clone(self.estimator).set_params(**clone(given, safe=False))
            for given in ParameterGrid(self.param_grid)
        ]

    def _solve(
        self,
        search: SharedSearch,
        matrix: Matrix | None,
        labels: np.ndarray,
        weights: np.ndarray | None,
    ) -> float:
        """Fit what can be shared; return the seconds that took."""
        began = time.perf_counter()
        able = [one for one in self._candidates() if _is_able(one, matrix, search.classes)]
        if self.search_tol == 0:
            able = []
        if matrix is None:
            solve_pipelines(able, search, labels, weights, self.search_tol)
        else:
            self._solve_plain(able, search, matrix, labels, weights)
        self.n_shared_ = len(search.models)
        return time.perf_counter() - began

    def _solve_plain(
        self,
        able: list[Any],
        search: SharedSearch,
        matrix: Matrix,
        labels: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        """Fit estimators on the folds of one matrix."""
        fits = [SharedFit(one, number) for one in able for number in range(len(search.folds))]
        trains = [train for train, _ in search.folds]
        kept = None if self.return_train_score else [np.unique(test) for _, test in search.folds]
        models = solve_shared(
            fits, trains, matrix, labels, weights, self.search_tol, search.is_over, kept
        )
        for fit, model in zip(fits, models, strict=True):
            if model is not None:
                search.models[parameters_of(fit.estimator), fit.fold] = model

    def _take(
        self, inner: model_selection.GridSearchCV, search: SharedSearch, seconds: float
    ) -> None:
        """Take the results of the search over row numbers."""
        for name, value in vars(inner).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(self, name, value)
        if hasattr(inner, "best_estimator_"):
            self.best_estimator_ = inner.best_estimator_.estimator
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        scorer = check_scoring(self.estimator, self.scoring)  # of estimators and rows
        self.scorer_ = getattr(scorer, "_scorers", scorer)
        share = seconds / max(1, self.n_shared_)
        for at, one in enumerate(self._candidates()):
            name = parameters_of(one)
            n_own = sum((name, number) in search.models for number in range(len(search.folds)))
            self.cv_results_["mean_fit_time"][at] += share * n_own / len(search.folds)


def _is_able(estimator: Any, matrix: Matrix | None, classes: np.ndarray) -> bool:
    """Return whether a candidate can share, as far as that can be told before it is fitted."""
    if matrix is None and not is_shareable(estimator):
        return False
    return can_share(last_step(estimator), matrix, classes, with_paths=True)


class _RowSearch(model_selection.GridSearchCV):
    """A search of stand-ins over row numbers."""

    def _run_search(self, evaluate_candidates: Any) -> None:
        evaluate_candidates(ParameterGrid(self.param_grid))
        self.estimator.search.is_searching = False
