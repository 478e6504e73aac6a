"""Logistic regression along values of C on folds of the rows, and how well each model does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml._validation import distinct
from snapml.data import ChunkedMatrix, Matrix
from snapml.estimators.fit_call import as_part
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.kernels import ResidentMatrix
from snapml.searches.fold_judge import FoldJudge
from snapml.searches.search_watch import SearchWatch, has_ended
from snapml.searches.shared.fits import can_share, solve_shared
from snapml.searches.shared.fold_rows import fold_rows
from snapml.searches.shared.models import SharedFit, SharedModel
from snapml.solvers.control import Control
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.rows.cpu_rows import check_rows

__all__ = ["FoldPath", "LogisticPaths", "is_sound"]

# The intercept of a class that a fold has not seen: its best value is minus infinity, but this one
# can be averaged.
_UNSEEN = -1e6
# Entries of rows that are worth a few steps more, and how exact models then are.
_SMALL, _FINEST = 100_000, 1e-9

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
    n_features : int
        Without the intercept.
    """

    coefs: np.ndarray
    scores: np.ndarray
    n_iter: np.ndarray
    is_done: np.ndarray
    n_features: int

    def keep(self, at: int, coef: np.ndarray, intercept: Any, score: float) -> None:
        """Keep the model of one C.

        Parameters
        ----------
        at : int
            Its place.
        coef : ndarray of shape (n_features,) or (n_outputs, n_features)
            w.
        intercept : float or ndarray of shape (n_outputs,)
            b.
        score : float
            On the rows left out.
        """
        self.coefs[at, :, : self.n_features] = coef
        if self.coefs.shape[2] > self.n_features:
            self.coefs[at, :, -1] = intercept
        self.scores[at], self.is_done[at] = score, True


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
        rows = self.rows, test, self._y, self._classes
        judge = FoldJudge(*rows, scorer, score_params, self._offset)
        model = self._model_of(1.0, ratio).set_params(warm_start=True)
        n_outputs = 1 if len(self._classes) == 2 else len(self._classes)
        n_dof = self._matrix.shape[1] + bool(model.fit_intercept)
        path, control = _empty_path(len(Cs), (n_outputs, n_dof), self._matrix), self._watch.path()
        for at in np.argsort(Cs):
            model.set_params(C=float(Cs[at]))
            found = shared.get(at)
            if found is not None:
                unfitted = self._model_of(model.C, ratio)
                path.n_iter[at] = found.n_products
                path.keep(at, found.coef, found.intercept, judge.score_shared(unfitted, found))
                continue
            fit, path.n_iter[at] = self._fit_next(model, train, control)
            if fit is not None:
                path.keep(at, fit.coef_, fit.intercept_, judge.score(fit))
        return path

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


def _empty_path(n_Cs: int, shape: tuple[int, int], matrix: Matrix) -> FoldPath:
    coefs = np.full((n_Cs, *shape), np.nan, matrix.dtype)
    scores, n_iter = np.full(n_Cs, np.nan), np.zeros(n_Cs, dtype=np.int32)
    return FoldPath(coefs, scores, n_iter, np.zeros(n_Cs, dtype=bool), matrix.shape[1])


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
