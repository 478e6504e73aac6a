"""Sums over the rows of a task that describe a model: deviances, moments, information."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.stats import binom

from snapml.data import CompressedMatrix
from snapml.distributed.spark.tasks.batches import RowBatch, rows_of
from snapml.distributed.spark.tasks.request import FamilyName, FitRequest
from snapml.distributed.spark.tasks.targets import family_of

__all__ = ["Deviances", "Information", "LogDensities", "column_moments", "label_moments", "run"]


def run(
    batches: Iterable[Any], request: FitRequest, sums: Callable[[RowBatch], np.ndarray]
) -> Iterator[Any]:
    """Add up what batches of a task's rows give.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        The rows.
    request : FitRequest
        Names their columns.
    sums : callable
        Returns an array of float64 of a batch; of the same shape for all.

    Yields
    ------
    pyarrow.RecordBatch
        The bytes of the sums in one row; none where there are no rows.
    """
    import pyarrow as pa

    total = None
    for batch in batches:
        for part in rows_of(batch, request) if batch.num_rows else ():
            own = sums(part)
            total = own if total is None else total + own
    if total is not None:
        values = np.ascontiguousarray(total, np.float64).tobytes()
        yield pa.RecordBatch.from_arrays([pa.array([values], pa.binary())], names=["sums"])


@dataclass(frozen=True)
class Deviances:
    """Sums of rows, weights, deviances and Pearson's statistic.

    Attributes
    ----------
    family : FamilyName
        Of the model.
    coef : ndarray of shape (n_features,)
        Of the model.
    intercept, null : float
        That of the model, and of the one without columns.
    """

    family: FamilyName
    coef: np.ndarray
    intercept: float
    null: float

    def __call__(self, part: RowBatch) -> np.ndarray:
        """Return rows, weights, their logarithms, deviance, null deviance and Pearson's sum."""
        family, w = family_of(self.family), _weights(part)
        margins = _margins(part, self.coef, self.intercept)
        means = family.means(margins)
        null = family.means(_offsets(part) + self.null)
        counted = w > 0.0
        squares = np.square(part.y - means) / family.variances(means)
        return np.array(
            [
                len(w),
                w.sum(),
                np.log(w[counted]).sum(),
                2.0 * (w @ family.half_deviances(part.y, means)),
                2.0 * (w @ family.half_deviances(part.y, null)),
                w @ squares,
            ]
        )


@dataclass(frozen=True)
class LogDensities:
    """The logarithm of the likelihood, as Spark's AIC has it.

    Attributes
    ----------
    family : FamilyName
        'binomial', 'poisson' or 'gamma'.
    coef : ndarray of shape (n_features,)
        Of the model.
    intercept : float
        Of the model.
    scale : float
        Dispersion of 'gamma'.
    """

    family: FamilyName
    coef: np.ndarray
    intercept: float
    scale: float

    def __call__(self, part: RowBatch) -> np.ndarray:
        """Return the sum; weights of 'binomial' are numbers of trials."""
        family, w = family_of(self.family), _weights(part)
        means = family.means(_margins(part, self.coef, self.intercept))
        if self.family.name == "binomial":
            trials = np.round(w)
            return np.array([binom.logpmf(np.round(part.y * w), trials, means).sum()])
        scales = np.full(len(w), self.scale)
        return np.array([w @ family.log_densities(part.y, means, scales)])


def label_moments(part: RowBatch) -> np.ndarray:
    """Return the sums of weights, and of weighted labels and their squares.

    Parameters
    ----------
    part : RowBatch
        Rows.

    Returns
    -------
    ndarray of shape (3,)
        In this order.
    """
    w = _weights(part)
    return np.array([w.sum(), w @ part.y, w @ np.square(part.y)])


def column_moments(part: RowBatch) -> np.ndarray:
    """Return the sums of weights, and of weighted entries and their squares by columns.

    Parameters
    ----------
    part : RowBatch
        Rows.

    Returns
    -------
    ndarray of shape (2 * n_features + 1,)
        One behind the other.
    """
    X, w = _rows(part), _weights(part)
    squares = X.multiply(X) if isinstance(X, csr_matrix) else X * X
    return np.concatenate([[w.sum()], X.T @ w, squares.T @ w])


@dataclass(frozen=True)
class Information:
    """The weighted Gram matrix of centred and scaled columns, and of a constant one behind them.

    Attributes
    ----------
    family : FamilyName
        Of the model.
    coef : ndarray of shape (n_features,)
        Of the model.
    intercept : float
        Of the model.
    mean, scale : ndarray of shape (n_features,)
        Of the columns.
    """

    family: FamilyName
    coef: np.ndarray
    intercept: float
    mean: np.ndarray
    scale: np.ndarray

    def __call__(self, part: RowBatch) -> np.ndarray:
        """Return the sum over the rows, by the expected curvature of each."""
        family = family_of(self.family)
        means = family.means(_margins(part, self.coef, self.intercept))
        weights = _weights(part) * family.working_weights(means)
        X = _rows(part)
        rows = X.toarray() if isinstance(X, csr_matrix) else X
        joint = np.column_stack([(rows - self.mean) / self.scale, np.ones(len(rows))])
        return np.asarray(joint.T @ (weights[:, None] * joint))


def _rows(part: RowBatch) -> Any:
    if not isinstance(part.X, CompressedMatrix):
        return part.X
    X = part.X
    values = np.ones(X.n_stored) if X.values is None else X.values
    return csr_matrix((values, X.indices, X.indptr), X.shape)


def _weights(part: RowBatch) -> np.ndarray:
    return np.ones(len(part.y)) if part.weights is None else part.weights


def _offsets(part: RowBatch) -> np.ndarray:
    return np.zeros(len(part.y)) if part.offsets is None else part.offsets


def _margins(part: RowBatch, coef: np.ndarray, intercept: float) -> np.ndarray:
    return np.asarray(_rows(part) @ coef) + intercept + _offsets(part)
