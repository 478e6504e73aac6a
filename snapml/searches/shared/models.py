"""What fits that share their work are asked for, and what they have found."""

from __future__ import annotations

import numbers
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_scalar

from snapml._validation import check_positive
from snapml.estimators.base import LinearClassifier
from snapml.estimators.ridge import RidgeLabels
from snapml.estimators.support_vector_machine import LinearSVC
from snapml.problems import Problem, Softmax
from snapml.solvers.stopping import StoppingRule

__all__ = [
    "SharedFit",
    "SharedModel",
    "fitted",
    "must_fit_alone",
    "of_margins",
    "problem_of",
    "rule_of",
]


@dataclass(frozen=True)
class SharedFit:
    """One fit among those that share X.

    Attributes
    ----------
    estimator : estimator
        With its parameters; `shared_fits.can_share` holds.
    fold : int
        Which of the folds it is fitted on.
    """

    estimator: Any
    fold: int


@dataclass(frozen=True)
class SharedModel:
    """What such a fit has found.

    Attributes
    ----------
    coef : ndarray of shape (n_features,) or (n_classes, n_features)
        w, of more than two classes one for each.
    intercept : float or ndarray of shape (n_classes,)
        b.
    margins : ndarray of shape (n_kept,) or (n_kept, n_classes)
        Of all rows, those that the fold leaves out too, or of those that were asked for.
    n_products : int
        Products with its Hessian that it took part in, or reads of the data.
    transformers : Pipeline or None, default=None
        The fitted steps before it, where it is the last of a pipeline.
    rows : ndarray of shape (n_kept,) or None, default=None
        Sorted numbers of the rows that margins are of; None means all.
    """

    coef: np.ndarray
    intercept: float | np.ndarray
    margins: np.ndarray
    n_products: int
    transformers: Any = None
    rows: np.ndarray | None = None

    def margins_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the margins of some rows, None unless those of all of them were kept."""
        if self.rows is None:
            return self.margins[rows]
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return self.margins[at] if np.array_equal(self.rows[at], rows) else None


def must_fit_alone(estimator: Any) -> bool:
    """Return whether parameters ask for what belongs to single fits.

    Parameters
    ----------
    estimator : estimator
        With its parameters.

    Returns
    -------
    bool
        True where it asks for a limit of time, for log lines, for somebody to be told of each pass,
        for a start from its last model, for bounds, or for random numbers whose state each fit
        changes.
    """
    names = ("verbose", "warm_start", "_skl_callbacks")
    if any(getattr(estimator, name, False) for name in names):
        return True
    if any(getattr(estimator, name, None) is not None for name in ("bounds", "max_time_s")):
        return True
    return isinstance(getattr(estimator, "random_state", None), np.random.RandomState)


def rule_of(estimator: Any) -> StoppingRule:
    """Check the bounds of a fit, and return them: nobody looks on, and nothing ends it early.

    Parameters
    ----------
    estimator : estimator
        With its parameters.

    Returns
    -------
    StoppingRule
        Tolerance and most reads.

    Raises
    ------
    TypeError, ValueError
        If they are not as they should be.
    """
    tol = check_positive("tol", estimator.tol, allow_zero=True)
    max_iter = sys.maxsize if estimator.max_iter is None else estimator.max_iter
    check_scalar(max_iter, "max_iter", numbers.Integral, min_val=0)
    return StoppingRule(tol, int(max_iter))


def problem_of(estimator: Any, n_classes: int) -> tuple[Problem, float]:
    """Return the problem and C of a classifier: of one class against the rest, or of all.

    Parameters
    ----------
    estimator : LogisticRegression or LinearSVC
        With its parameters.
    n_classes : int
        Labels that occur.

    Returns
    -------
    problem : Problem
        For C = 1.
    C : float
        1 where there is no penalty.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        If parameters are not as described.
    """
    if isinstance(estimator, LinearSVC):
        return estimator._make_problem(), check_positive("C", estimator.C)
    estimator._check_parameters()
    cost, penalty = estimator._cost_and_penalty()
    is_multinomial = n_classes > 2 and estimator.multi_class != "ovr"
    return estimator._problem(penalty, Softmax(n_classes) if is_multinomial else None), cost


def fitted(estimator: Any, model: SharedModel, classes: np.ndarray) -> Any:
    """Return a copy of an estimator that holds a model, to predict with.

    Parameters
    ----------
    estimator : estimator
        With its parameters; `shared_fits.can_share` holds.
    model : SharedModel
        Its model.
    classes : ndarray of shape (n_classes,)
        Labels, of a classifier.

    Returns
    -------
    estimator
        With ``coef_``, ``intercept_``, ``n_iter_`` (reads of the data, or products with the
        Hessian) and ``classes_``; without a certificate.
    """
    copy = clone(estimator)
    copy.n_features_in_ = model.coef.shape[-1]
    copy.n_iter_ = np.array([model.n_products], dtype=np.int32)
    copy.coef_, copy.intercept_ = model.coef, model.coef.dtype.type(model.intercept)
    if isinstance(copy, LinearClassifier):
        copy.classes_ = classes
        copy.intercept_ = np.atleast_1d(copy.intercept_)
        if isinstance(copy, RidgeLabels):
            copy._is_multilabel = False
        else:
            copy.coef_ = np.atleast_2d(copy.coef_)
    return copy


def of_margins(estimator: Any, margins: np.ndarray, classes: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return an estimator that predicts from known margins, and the rows it takes.

    Margins are its features and the identity its coefficients: what it makes of them is its own.

    Parameters
    ----------
    estimator : estimator
        With its parameters.
    margins : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Of some rows.
    classes : ndarray of shape (n_classes,)
        Labels, of a classifier.

    Returns
    -------
    estimator
        As of `fitted`.
    rows : ndarray of shape (n_rows, 1 or n_classes)
        The margins.
    """
    if margins.ndim == 1:
        unit = SharedModel(np.ones(1, margins.dtype), 0.0, np.empty(0), 0)
        return fitted(estimator, unit, classes), margins[:, None]
    n_classes = margins.shape[1]
    units = SharedModel(np.eye(n_classes, dtype=margins.dtype), np.zeros(n_classes), np.empty(0), 0)
    return fitted(estimator, units, classes), margins
