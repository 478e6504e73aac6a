"""The bootstrap: models of resampled rows, as weights of the rows there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils import check_random_state, check_scalar

from snapml._validation import (
    check_fit_input,
    check_positive,
    check_sample_weight,
    distinct,
    raise_non_finite,
)
from snapml.data import Matrix
from snapml.estimators.base import LinearEstimator
from snapml.searches.shared.fits import can_share, solve_shared
from snapml.searches.shared.models import SharedFit, SharedModel, fitted
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.rows.cpu_rows import check_rows

__all__ = ["Bootstrap", "bootstrap"]

# Resamples whose weights are in memory at a time, and whose models go side by side.
_BATCH = 64


@dataclass(frozen=True)
class Bootstrap:
    """Models of resampled rows.

    Attributes
    ----------
    coef : ndarray of shape (n_resamples, n_features) or (n_resamples, n_outputs, n_features)
        Their coefficients.
    intercept : ndarray of shape (n_resamples,) or (n_resamples, n_outputs)
        Their intercepts.
    n_shared : int
        How many of the fits shared their reads of X.
    """

    coef: np.ndarray
    intercept: np.ndarray
    n_shared: int

    @property
    def standard_errors(self) -> np.ndarray:
        """Standard deviations of the coefficients, float64, in the shape of one model's."""
        errors: np.ndarray = self.coef.std(axis=0, ddof=1, dtype=np.float64)
        return errors

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return percentiles of the coefficients.

        Parameters
        ----------
        level : float, default=0.95
            Share of the resamples between both ends.

        Returns
        -------
        lower, upper : ndarray
            In the shape of one model's coefficients, float64.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.
        """
        if not 0.0 < check_positive("level", level) < 1.0:
            raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
        tails = 0.5 - 0.5 * level, 0.5 + 0.5 * level
        lower, upper = np.quantile(self.coef.astype(np.float64), tails, axis=0)
        return lower, upper


def bootstrap(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    n_resamples: int = 200,
    random_state: Any = None,
    tol: float = 1e-6,
) -> Bootstrap:
    """Fit a linear model to resampled rows, many times [1]_.

    A resample has as many rows as the data, drawn with replacement: a row counts as often as it is
    drawn, as its weight, and X is not copied. Where models can share their reads of X
    (docs/model_selection.md, "What is shared"), up to 64 are columns of one solve; the others are
    fitted one after the other, each to the estimator's own ``tol``.

    Parameters
    ----------
    estimator : estimator
        A linear model of snapml; its copies are fitted.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows in the host's memory.
    y : array-like of shape (n_samples,)
        Their labels, or targets.
    sample_weight : array-like of shape (n_samples,), default=None
        Of the rows, beside how often they are drawn.
    n_resamples : int, default=200
        How many models; at least 2.
    random_state : int, RandomState instance or None, default=None
        Draws the rows.
    tol : float, default=1e-6
        Models that share end with a step that can gain at most this share of ``||w||^2 / 2``: w is
        then within about its root, relative to its length.

    Returns
    -------
    Bootstrap
        In the order of the draws.

    Raises
    ------
    TypeError
        If the estimator is no linear model of snapml.
    ValueError
        If parameters or data are not as described, or a resample has rows of one class only.

    References
    ----------
    .. [1] B. Efron. Bootstrap methods: another look at the jackknife. Annals of Statistics 7(1),
       1-26, 1979.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml import LogisticRegression
    >>> from snapml.statistics import bootstrap
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> found = bootstrap(LogisticRegression(C=0.1), X, y, n_resamples=100, random_state=0)
    >>> found.coef.shape, found.n_shared
    ((100, 30), 100)
    >>> lower, upper = found.interval(0.9)
    >>> bool((lower < upper).all())
    True
    """
    if not isinstance(estimator, LinearEstimator):
        raise TypeError(
            f"estimator: expected a linear model of snapml, got {type(estimator).__name__}"
        )
    check_scalar(n_resamples, "n_resamples", int, min_val=2)
    check_positive("tol", tol)
    checked = clone(estimator)
    matrix, targets = check_fit_input(checked, X, y, y_numeric=is_regressor(estimator))
    try:
        check_rows(matrix, estimator.n_threads)
    except NonFiniteError:
        raise_non_finite(checked, X)
    weights = check_sample_weight(sample_weight, matrix)
    draws, n_rows = check_random_state(random_state), matrix.shape[0]
    models: list[tuple[np.ndarray, np.ndarray]] = []
    n_shared = 0
    for first in range(0, n_resamples, _BATCH):
        count = min(_BATCH, n_resamples - first)
        resamples = [draws.randint(n_rows, size=n_rows) for _ in range(count)]
        shared = _shared(estimator, resamples, matrix, targets, weights, tol)
        for rows, model in zip(resamples, shared, strict=True):
            if model is None:
                models.append(_alone(estimator, X, y, rows, weights))
            else:
                models.append(_numbers(fitted(estimator, model, distinct(targets))))
                n_shared += 1
    coefs, intercepts = zip(*models, strict=True)
    return Bootstrap(np.stack(coefs), np.stack(intercepts), n_shared)


def _shared(
    estimator: Any,
    resamples: list[np.ndarray],
    matrix: Matrix,
    y: np.ndarray,
    weights: np.ndarray | None,
    tol: float,
) -> list[SharedModel | None]:
    """Return the models that can be had together."""
    classes = np.empty(0) if is_regressor(estimator) else distinct(y)
    if not can_share(estimator, matrix, classes):
        return [None] * len(resamples)
    fits = [SharedFit(estimator, number) for number in range(len(resamples))]
    no_margins = [np.zeros(0, dtype=np.int64)] * len(resamples)
    return solve_shared(fits, resamples, matrix, y, weights, tol, kept=no_margins)


def _alone(
    estimator: Any, X: Any, y: Any, rows: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a copy to weighted rows."""
    drawn = np.bincount(rows, minlength=len(y)).astype(np.float64)
    if weights is not None:
        drawn *= weights
    try:
        return _numbers(clone(estimator).fit(X, y, sample_weight=drawn))
    except ValueError as error:
        if not is_regressor(estimator):
            _check_classes(np.asarray(y).ravel(), drawn, error)
        raise


def _check_classes(y: np.ndarray, drawn: np.ndarray, error: ValueError) -> None:
    """Name a class that a resample lacks, as what an error about the data comes from."""
    for label in np.setdiff1d(y, y[drawn > 0.0]):
        raise ValueError(
            f"y: expected rows of every class in each resample, got one without class {label!s}, "
            f"which {np.sum(y == label)} of {len(y)} rows are of: too few to draw from"
        ) from error


def _numbers(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercept, without the axis of outputs where there is one output."""
    coef = np.asarray(model.coef_)
    is_single = coef.ndim > 1 and len(coef) == 1
    return (coef[0] if is_single else coef), np.squeeze(np.asarray(model.intercept_))
