"""What scikit-learn's search fits and scores where fits share X: a stand-in for each estimator.

The search hands it row numbers in the place of rows. A fit that was shared is looked up; any other
takes its rows and goes to the estimator itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics._scorer import _BaseScorer
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _check_feature_names

from snapml.searches.search_watch import has_ended
from snapml.searches.shared.models import SharedModel, fitted, of_margins
from snapml.solvers.control import UNBOUNDED, Control

__all__ = ["SharedSearch", "StandIn", "for_row_numbers", "last_step", "parameters_of"]

_PREDICTIONS = frozenset(
    {"predict", "predict_proba", "predict_log_proba", "decision_function", "score"}
)


@dataclass
class SharedSearch:
    """The data of a search and the fits that were shared.

    Attributes
    ----------
    X : object
        The user's rows.
    classes : ndarray of shape (2,)
        Labels.
    folds : list of (train, test)
        Row numbers.
    models : dict
        Of parameters and fold: what was found.
    is_searching : bool
        Whether candidates are being judged; then comes the refit, which is the estimator's own.
    control : Control
        What may end the judging of candidates.
    refit_of : callable
        Returns the context to fit the chosen estimator in.
    """

    X: Any
    classes: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]
    models: dict[tuple[str, int], SharedModel] = field(default_factory=dict)
    is_searching: bool = True
    control: Control = UNBOUNDED
    refit_of: Callable[[Any], AbstractContextManager[None]] = nullcontext

    def is_over(self) -> bool:
        """Let callbacks see a step of the shared fits; return whether the search ends there."""
        return bool(self.control.reason) or has_ended(self.control)

    def refuse_late_fits(self) -> None:
        """Raise an error where candidates that are not judged yet have no time.

        Callbacks are not asked: scikit-learn's search would make a score of their errors.
        """
        if not self.is_searching or not (self.control.reason or self.control.left_s <= 0.0):
            return
        if self.control.reason and not self.control.is_out_of_time:
            raise RuntimeError("a callback ended the search before this fit came to its end")
        raise TimeoutError(f"max_time_s: the search's {self.control.max_time_s:g} s are over")

    def model(self, estimator: Any, rows: np.ndarray) -> SharedModel | None:
        """Return the model of an estimator on a fold's training rows, None without one."""
        if not self.is_searching:
            return None
        name = parameters_of(estimator)
        for number, (train, _) in enumerate(self.folds):
            if np.array_equal(train, rows):
                return self.models.get((name, number))
        return None

    def fit_alone(self, estimator: Any, rows: np.ndarray, y: Any, params: dict[str, Any]) -> None:
        """Fit an estimator to some rows."""
        estimator.fit(self.rows(rows), y, **params)

    def predictions(
        self, estimator: Any, name: str, rows: np.ndarray, *others: Any, **params: Any
    ) -> Any:
        """Return what a method of a fitted estimator says about some rows."""
        return getattr(estimator, name)(self.rows(rows), *others, **params)

    def rows(self, numbers: np.ndarray) -> Any:
        """Return rows by their numbers: X itself for all of them in order."""
        n_rows = self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)
        if np.array_equal(numbers, np.arange(n_rows)):
            return self.X
        return _safe_indexing(self.X, numbers)


def parameters_of(estimator: Any) -> str:
    """Return a text that is the same for equal parameters, those of a pipeline's steps as well."""
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return _text(estimator)


def _text(value: Any) -> str:
    if hasattr(value, "get_params") and not isinstance(value, type):
        return f"{type(value)}{_text(value.get_params(deep=False))}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(sorted(f'{key!r}:{_text(one)}' for key, one in value.items()))}}}"
    return repr(value)


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, or the estimator itself where it is none."""
    return estimator.steps[-1][1] if type(estimator) is Pipeline else estimator


class StandIn(BaseEstimator):
    """Stands for an estimator in a search over row numbers.

    Parameters
    ----------
    estimator : estimator
        With its parameters; this object takes and gives them as its own.
    search : SharedSearch
        The data, and what was found.
    """

    def __init__(self, estimator: Any, search: SharedSearch) -> None:
        self.estimator, self.search = estimator, search
        self._model: SharedModel | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the estimator's parameters."""
        return dict(self.estimator.get_params(deep))

    def set_params(self, **params: Any) -> StandIn:
        """Set the estimator's parameters."""
        self.estimator.set_params(**params)
        return self

    def __sklearn_clone__(self) -> StandIn:
        return StandIn(clone(self.estimator), self.search)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, rows: np.ndarray, y: Any = None, **params: Any) -> StandIn:
        """Look the fit up, or fit the estimator.

        Parameters
        ----------
        rows : ndarray of shape (n_rows,)
            Row numbers.
        y : array-like of shape (n_rows,)
            Their labels.
        **params : object
            For the estimator's fit; those of a shared one are in it already.

        Returns
        -------
        self
            Ready for predictions.

        Raises
        ------
        TimeoutError, RuntimeError
            If it was not shared, and the search's time is over or a callback has ended it.
        """
        self._model = self.search.model(self.estimator, rows)
        if self._model is None:
            self.search.refuse_late_fits()
            is_refit = not self.search.is_searching
            with self.search.refit_of(self.estimator) if is_refit else nullcontext():
                self.search.fit_alone(self.estimator, rows, y, params)
        return self

    def fitted_estimator(self) -> Any:
        """Return the estimator with its coefficients."""
        if self._model is None:
            return self.estimator
        found = fitted(last_step(self.estimator), self._model, self.search.classes)
        before = self._model.transformers
        if before is None:
            _check_feature_names(found, self.search.X, reset=True)
            return found
        pipeline = clone(self.estimator)
        pipeline.steps = [*before.steps, (pipeline.steps[-1][0], found)]
        return pipeline

    def __getattr__(self, name: str) -> Any:
        """Return a method of the estimator that takes row numbers, or its classes."""
        if name == "classes_" and is_classifier(self.__dict__.get("estimator")):
            return self.search.classes if self._model is not None else self.estimator.classes_
        if name not in _PREDICTIONS or not hasattr(self.__dict__.get("estimator"), name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._of_rows(name)

    def _of_rows(self, name: str) -> Callable[..., Any]:
        """Return a method of predictions: of margins that are known, where the fit was shared."""

        @wraps(getattr(self.estimator, name))  # scikit-learn asks its signature for sample_weight
        def predictions(rows: np.ndarray, *others: Any, **params: Any) -> Any:
            margins = None if self._model is None else self._model.margins_of(rows)
            if margins is None:
                model = self.fitted_estimator()
                return self.search.predictions(model, name, rows, *others, **params)
            judge, known = of_margins(last_step(self.estimator), margins, self.search.classes)
            return getattr(judge, name)(known, *others, **params)

        return predictions


def for_row_numbers(scoring: Any, search: SharedSearch) -> Any:
    """Return scoring for stand-ins: callables of the user's get estimators and rows.

    Parameters
    ----------
    scoring : str, callable, list, tuple, dict or None
        As scikit-learn takes it.
    search : SharedSearch
        The data.

    Returns
    -------
    object
        Scoring of the same kind. scikit-learn's own scorers ask for predictions only.
    """
    if isinstance(scoring, dict):
        return {name: for_row_numbers(one, search) for name, one in scoring.items()}
    if not callable(scoring) or isinstance(scoring, _BaseScorer):
        return scoring

    @wraps(scoring)  # scikit-learn asks its signature for sample_weight
    def score(stand_in: StandIn, rows: np.ndarray, *others: Any, **params: Any) -> Any:
        return scoring(stand_in.fitted_estimator(), search.rows(rows), *others, **params)

    return score
