"""What fits that share their work are asked for, and what they have found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from snapml.estimators.base import LinearClassifier

__all__ = ["SharedFit", "SharedModel", "fitted", "is_single_work"]


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
    coef : ndarray of shape (n_features,)
        w.
    intercept : float
        b.
    margins : ndarray of shape (n_kept,)
        Of all rows, those that the fold leaves out too, or of those that were asked for.
    n_products : int
        Products with its Hessian that it took part in, or reads of the data.
    transformers : Pipeline or None, default=None
        The fitted steps before it, where it is the last of a pipeline.
    rows : ndarray of shape (n_kept,) or None, default=None
        Sorted numbers of the rows that margins are of; None means all.
    """

    coef: np.ndarray
    intercept: float
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


def is_single_work(estimator: Any) -> bool:
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


def fitted(estimator: Any, model: SharedModel, classes: np.ndarray) -> Any:
    """Return a copy of an estimator that holds a model, to predict with.

    Parameters
    ----------
    estimator : estimator
        With its parameters; `shared_fits.can_share` holds.
    model : SharedModel
        Its model.
    classes : ndarray of shape (2,)
        Labels, of a classifier.

    Returns
    -------
    estimator
        With ``coef_``, ``intercept_``, ``n_iter_`` (reads of the data, or products with the
        Hessian) and ``classes_``; without a certificate.
    """
    copy = clone(estimator)
    copy.n_features_in_ = len(model.coef)
    copy.n_iter_ = np.array([model.n_products], dtype=np.int32)
    copy.coef_, copy.intercept_ = model.coef, model.coef.dtype.type(model.intercept)
    if isinstance(copy, LinearClassifier):
        copy.classes_ = classes
        copy.coef_, copy.intercept_ = copy.coef_[None], np.array([copy.intercept_])
    return copy
