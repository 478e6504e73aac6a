"""Logistic regression along values of C on folds of the rows, and how well each model does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from snapml._validation import distinct
from snapml.data import ChunkedMatrix, Matrix
from snapml.estimators.fit_call import as_part
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.offsets import WithOffset
from snapml.kernels import ResidentMatrix
from snapml.searches.fold_scores import rows_of
from snapml.searches.search_watch import SearchWatch, has_ended
from snapml.searches.shared.fits import can_share, solve_shared
from snapml.searches.shared.fold_rows import fold_rows
from snapml.searches.shared.models import SharedFit, SharedModel, fitted
from snapml.solvers.control import Control
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.rows.cpu_rows import check_rows

__all__ = ["FoldPath", "LogisticPaths", "is_sound"]

# The intercept of a class that a fold has not seen: its best value is minus infinity, but this one
# can be averaged.
_UNSEEN = -1e6
# Entries of rows that are worth a few steps more, and how exact models then are.
_SMALL, _FINEST = 100_000, 1e-13

Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class FoldPath:
    """Models of one fold and one l1_ratio, for every C.

    Attributes
    ----------
    coefs : ndarray of shape (n_Cs, n_outputs, n_features + 1)
        Without the last column where there is no intercept.
    scores : ndarray of shape (n_Cs,)
        On the rows left out.
    n_iter : ndarray of shape (n_Cs,)
        Reads of the data.
    is_done : ndarray of shape (n_Cs,), bool
        Where the search has come to the fit's end; elsewhere coefficients and scores are NaN.
    """

    coefs: np.ndarray
    scores: np.ndarray
    n_iter: np.ndarray
    is_done: np.ndarray


class LogisticPaths:
    """Fits and scores models on folds.

    Parameters
    ----------
    matrix : Matrix
        All rows, wherever they are.
    y : ndarray of shape (n_samples,)
        Their labels.
    weights : ndarray of shape (n_samples,) or None
        Their weights, those of the classes within.
    classes : ndarray of shape (n_classes,)
        Labels that occur.
    model_of : callable
        Returns the unfitted `LogisticRegression` of a C and an l1_ratio.
    watch : SearchWatch
        May end the search.
    offset : ndarray of shape (n_samples,), default=None
        Of the rows; with one, each fit reads its own.
    """

    def __init__(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        classes: np.ndarray,
        model_of: Callable[[float, Any], LogisticRegression],
        watch: SearchWatch,
        offset: np.ndarray | None = None,
    ) -> None:
        self._matrix, self.rows = matrix, fold_rows(matrix, y, weights, offset)
        self._y, self._weights, self._classes = y, weights, classes
        self._model_of, self._watch, self._offset = model_of, watch, offset

    def solve_shared(
        self, folds: list[Fold], Cs: np.ndarray, ratios: list[Any], tol: float
    ) -> dict[tuple[int, Any], dict[int, SharedModel]]:
        """Return the models that one solve finds for all folds.

        Parameters
        ----------
        folds : list of (train, test)
            Row numbers.
        Cs : ndarray of shape (n_Cs,)
            Values to try.
        ratios : list of float or None
            Values of l1_ratio to try.
        tol : float
            As of `many_models.solve`; 0 shares nothing.

        Returns
        -------
        dict
            By fold and l1_ratio a dict by C's place; without those that one by one have to find.
        """
        found: dict[tuple[int, Any], dict[int, SharedModel]] = {}
        if self._offset is not None:
            return found
        trains, kept = [train for train, _ in folds], [np.unique(test) for _, test in folds]
        for ratio in ratios:
            models = [self._model_of(float(C), ratio) for C in Cs]
            if not (tol > 0 and all(can_share(m, self._matrix, self._classes) for m in models)):
                continue
            if not is_sound(self._matrix, models[0].n_threads):
                return {}  # an ordinary fit says what is wrong
            fits = [SharedFit(m, number) for number in range(len(folds)) for m in models]
            # As an ordinary fit, which goes on with small data.
            finest = min(tol, _FINEST) if self._matrix.n_stored <= _SMALL else tol
            rows = self._matrix, self._y, self._weights
            is_over = self._watch.is_over
            solved = iter(
                solve_shared(fits, trains, *rows, finest, is_over, kept, rounding_tol=tol)
            )
            for number in range(len(folds)):
                path = {at: next(solved) for at in range(len(Cs))}
                found[number, ratio] = {at: m for at, m in path.items() if m is not None}
        return found

    def follow(
        self,
        fold: Fold,
        Cs: np.ndarray,
        ratio: Any,
        scorer: Any,
        score_params: dict[str, Any],
        shared: dict[int, SharedModel],
    ) -> FoldPath:
        """Score one fold for all C; fit what was not in rising order, each from the one before.

        Parameters
        ----------
        fold : (train, test)
            Row numbers.
        Cs : ndarray of shape (n_Cs,)
            Values to try.
        ratio : float or None
            l1_ratio.
        scorer : callable
            Of estimators, rows and labels.
        score_params : dict
            For the scorer: what has as many rows as the data is cut to those left out.
        shared : dict
            Models there are already, by C's place.

        Returns
        -------
        FoldPath
            In the order of `Cs`.
        """
        train, test = fold
        scorer = _knowing_all_classes(scorer, self._classes)
        of_test = {name: rows_of(value, test, len(self._y)) for name, value in score_params.items()}
        model = self._model_of(1.0, ratio).set_params(warm_start=True)
        n_outputs = 1 if len(self._classes) == 2 else len(self._classes)
        n_dof = self._matrix.shape[1] + bool(model.fit_intercept)
        coefs = np.full((len(Cs), n_outputs, n_dof), np.nan, self._matrix.dtype)
        scores, n_iter = np.full(len(Cs), np.nan), np.zeros(len(Cs), dtype=np.int32)
        is_done = np.zeros(len(Cs), dtype=bool)
        judge, control = self.rows.judge_of(test), self._watch.path()
        for at in np.argsort(Cs):
            judged: LogisticRegression | None
            if at in shared:
                judged = fitted(self._model_of(float(Cs[at]), ratio), shared[at], self._classes)
                n_iter[at] = shared[at].n_products
            else:
                model.set_params(C=float(Cs[at]))
                judged, n_iter[at] = self._fit_next(model, train, control)
            if judged is None:
                continue
            is_done[at] = True
            seen, rows = judge(judged, shared.get(at))
            if self._offset is not None:
                seen = WithOffset(seen, self._offset[test])
            scores[at] = scorer(seen, rows, self._y[test], **of_test)
            coefs[at, :, : judged.n_features_in_] = judged.coef_
            if judged.fit_intercept:
                coefs[at, :, -1] = judged.intercept_
        return FoldPath(coefs, scores, n_iter, is_done)

    def _fit_next(
        self, model: LogisticRegression, train: np.ndarray, control: Control
    ) -> tuple[LogisticRegression | None, int]:
        """Fit a model to rows; return what knows all classes, None if ended; and its reads."""
        if has_ended(control):
            return None, 0
        seen = distinct(self._y[train])
        if len(seen) == 1:
            return self._constant_model(model, seen[0]), 0
        with as_part(model, control):
            self.rows.fit(model, train)
        n_iter = int(np.max(model.n_iter_))
        if control.reason:
            return None, n_iter
        has_all = len(seen) == len(self._classes)
        return (model if has_all else _with_all_classes(model, self._classes)), n_iter

    def _constant_model(self, like: LogisticRegression, label: Any) -> LogisticRegression:
        """Return the model of a fold that has seen one class only."""
        model = LogisticRegression(**like.get_params())
        model.classes_ = self._classes
        model.n_features_in_ = self._matrix.shape[1]
        n_outputs = 1 if len(self._classes) == 2 else len(self._classes)
        model.coef_ = np.zeros((n_outputs, model.n_features_in_))
        model.intercept_ = np.zeros(n_outputs)
        if model.fit_intercept:
            model.intercept_[self._classes[-n_outputs:] != label] = _UNSEEN
            if n_outputs == 1 and label == self._classes[1]:
                model.intercept_[0] = -_UNSEEN
        return model


def is_sound(matrix: Matrix, n_threads: int | None) -> bool:
    """Return whether entries are finite, and indices lead into the matrix; reads it once.

    Parameters
    ----------
    matrix : Matrix
        Rows, wherever they are.
    n_threads : int or None
        Threads to read them on.

    Returns
    -------
    bool
        If not, a fit says what is wrong.
    """
    if isinstance(matrix, ChunkedMatrix):
        return True  # which whoever wrote the store has seen to
    if isinstance(matrix, ResidentMatrix):
        return matrix.is_finite() and matrix.has_legal_indices()
    try:
        check_rows(matrix, n_threads)
    except (NonFiniteError, ValueError):
        return False
    return True


def _knowing_all_classes(scorer: Any, classes: np.ndarray) -> Any:
    """Return the scorer, told of classes that a fold's rows may lack."""
    function = getattr(scorer, "_score_func", None)
    if function is None or "labels" not in inspect.signature(function).parameters:
        return scorer
    more = {"labels": classes, **scorer._kwargs}
    if len(classes) == 2 and "pos_label" in inspect.signature(function).parameters:
        more["pos_label"] = classes[1]
    return make_scorer(
        function,
        greater_is_better=scorer._sign == 1,
        response_method=scorer._response_method,
        **more,
    )


def _with_all_classes(model: LogisticRegression, classes: np.ndarray) -> LogisticRegression:
    """Return a copy of a model that gives the classes it has not seen no chance."""
    full = LogisticRegression(**model.get_params())
    for name, value in vars(model).items():
        setattr(full, name, value)
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if len(model.classes_) == 2:  # the same probabilities with one row per class
        scale = 1.0 if model.multi_class == "ovr" else 0.5
        coef = scale * np.vstack([-coef, coef])
        intercept = scale * np.append(-intercept, intercept)
    at = np.searchsorted(classes, model.classes_)
    full.coef_ = np.zeros((len(classes), coef.shape[1]), dtype=coef.dtype)
    full.intercept_ = np.full(len(classes), _UNSEEN if model.fit_intercept else 0.0)
    full.coef_[at], full.intercept_[at] = coef, intercept
    full.classes_ = classes
    return full
