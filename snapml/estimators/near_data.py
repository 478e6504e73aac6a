"""Least squares of numbers far from zero: solved in centred ones, judged as it will be stored.

Beside a free intercept the means of columns and targets mean nothing. Far ones hide what the data
say in the rounding of sums about zero, and that of a stored intercept may be all of the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Penalty
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.least_squares.exact_sums import sum_with_products
from snapml.solvers.result import FitResult, StartModel
from snapml.solvers.stopping import StoppingRule

__all__ = ["NearData", "near_data"]

# Means beyond so many times the spread are subtracted: of targets, and of dense columns, a copy of
# which that takes. Up to there float64 keeps what counts.
_FAR_TARGETS, _FAR_COLUMNS = 100.0, 1000.0
# Rows that tell whether columns are far.
_LOOKED_AT = 64
_BLOCK_ENTRIES = 2**20
# Roundings of a residual, in units of those of its terms.
_NOISE = 8.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class NearData:
    """A dataset without its means, and how its models are those of the given one.

    Attributes
    ----------
    dataset : Dataset
        Centred; float64 where columns were.
    dtype : numpy dtype
        Of the given matrix: models are stored in it.
    column_means, column_rests : ndarray of shape (n_features,), float64
        What was subtracted, one after the other, since a mean far from zero is rounded; zeros where
        columns are near.
    target_mean, target_rest : float
        What was subtracted.
    communicator : Communicator
        Adds up over the shards.
    """

    dataset: Dataset
    dtype: np.dtype
    column_means: np.ndarray
    column_rests: np.ndarray
    target_mean: float
    target_rest: float
    communicator: Communicator

    def start(self, start: FitResult | StartModel | None) -> FitResult | StartModel | None:
        """Return a model to start from, as one of the centred data."""
        if start is None:
            return None
        intercept = start.intercept + self.column_means @ start.coef - self.target_mean
        if isinstance(start, StartModel):
            return start._replace(intercept=float(intercept))
        return replace(start, intercept=float(intercept))

    def rule(self, rule: StoppingRule) -> StoppingRule:
        """Return a rule whose onlookers see models of the given data."""
        view = partial(_interim, column_means=self.column_means, target_mean=self.target_mean)
        return replace(rule, control=rule.control.through(view))

    def stored(self, result: FitResult, penalty: Penalty) -> FitResult:
        """Return a model of the given data in their type, with the objective that it has there.

        Parameters
        ----------
        result : FitResult
            Of the centred data.
        penalty : Penalty
            Of its problem.

        Returns
        -------
        FitResult
            What rounding costs is added to the gap.
        """
        coef = result.coef.astype(self.dtype)
        wide, means = coef.astype(np.float64), self.column_means
        # Means far from zero are subtracted from each other here.
        rest = float(self.column_rests @ wide)
        terms = [self.target_mean, self.target_rest, -rest]
        exact = sum_with_products([float(result.intercept), *terms], -means, wide)
        intercept = float(np.asarray(exact).astype(self.dtype))
        shift = sum_with_products([intercept, *(-term for term in terms)], means, wide)
        objective, noise = self._evaluate(wide, shift, penalty)
        if not np.isfinite(objective):  # rows that are not on the host: rounding of the intercept
            weight = self._total(self.dataset.total_weight)
            cost = 0.5 * weight * (shift - float(result.intercept)) ** 2
            objective, noise = result.objective + cost, 0.0
        gap = result.gap + max(0.0, objective - result.objective) + noise
        return replace(result, coef=coef, intercept=intercept, objective=objective, gap=gap)

    def is_met(self, result: FitResult, rule: StoppingRule) -> bool:
        """Return whether a stored model's gap is small enough.

        Where the targets are one number, all of the objective is its rounding.
        """
        tol = max(rule.tol, rule.resolution)
        if result.gap <= tol * abs(result.objective):
            return True
        labels = self.dataset.labels
        ends = self.communicator.exchange((labels.min(), labels.max()) if len(labels) else None)
        return len({end for pair in ends if pair is not None for end in pair}) <= 1

    def _evaluate(self, coef: np.ndarray, shift: float, penalty: Penalty) -> tuple[float, float]:
        """Return objective and rounding of its terms; NaN where the rows are elsewhere."""
        weights, labels = self.dataset.wide_weights, self.dataset.labels.astype(np.float64)
        squares = noise = 0.0
        for rows, block in _blocks(self.dataset):
            residual = block @ coef + (shift - labels[rows])
            terms = np.abs(block) @ np.abs(coef) + np.abs(labels[rows]) + abs(shift)
            squares += float(weights[rows] @ residual**2)
            noise += float(weights[rows] @ (terms * (np.abs(residual) + _NOISE * terms)))
        if not isinstance(self.dataset.matrix, DenseMatrix | CompressedMatrix):
            squares = np.nan
        sizes = penalty.l1 * np.abs(coef).sum() + 0.5 * penalty.l2 * (coef @ coef)
        return 0.5 * self._total(squares) + float(sizes), _NOISE * self._total(noise)

    def _total(self, value: float) -> float:
        return float(self.communicator.allreduce_sum(np.array([value]))[0])


def near_data(dataset: Dataset, communicator: Communicator) -> NearData | None:
    """Return centred data where those given are far from zero beside their spread.

    Parameters
    ----------
    dataset : Dataset
        Of one output, with a free intercept.
    communicator : Communicator
        Adds up over the shards.

    Returns
    -------
    NearData or None
        None where they are near.
    """
    labels, weights = dataset.labels.astype(np.float64), dataset.wide_weights
    with np.errstate(over="ignore", invalid="ignore"):
        target_mean, spread = _mean_and_spread(labels, weights, communicator)
        is_far = bool(abs(target_mean) > _FAR_TARGETS * spread)
        has_far_columns = any(communicator.exchange(_has_far_columns(dataset)))
    if not (is_far or has_far_columns):
        return None
    means, near = np.zeros(dataset.matrix.shape[1]), dataset
    rests = np.zeros_like(means)
    if has_far_columns and isinstance(dataset.matrix, DenseMatrix):
        sums = np.zeros(len(means))
        for _, block in _blocks(dataset):
            sums += block.sum(axis=0)
        own = np.append(sums, float(len(labels)))
        totals = communicator.allreduce_sum(own)
        means = totals[:-1] / totals[-1]
        values = dataset.matrix.values.astype(np.float64)
        values -= means
        rests = communicator.allreduce_sum(values.sum(axis=0)) / totals[-1]
        values -= rests
        given = None if dataset.row_weights is None else weights
        near = replace(dataset, matrix=DenseMatrix(values), row_weights=given)
    target_rest = 0.0
    if near.matrix.dtype == np.float64:
        target_rest, _ = _mean_and_spread(labels - target_mean, weights, communicator)
    else:  # the difference of two float32 numbers that are near each other is one
        target_mean = float(np.float32(target_mean))
    centred = (labels - target_mean - target_rest).astype(near.matrix.dtype)
    dtype, near = np.dtype(dataset.matrix.dtype), replace(near, labels=centred)
    return NearData(near, dtype, means, rests, target_mean, target_rest, communicator)


def _mean_and_spread(
    labels: np.ndarray, weights: np.ndarray, communicator: Communicator
) -> tuple[float, float]:
    """Return the weighted mean, or 0 where it is not finite, and the spread about it."""
    own = np.array([weights.sum(), weights @ labels])
    total, first = communicator.allreduce_sum(own).tolist()
    mean = first / total if total > 0.0 else 0.0
    square = float(communicator.allreduce_sum(np.array([weights @ (labels - mean) ** 2]))[0])
    if not np.isfinite(square):
        return 0.0, 0.0
    return mean, float(np.sqrt(square / max(total, np.finfo(np.float64).tiny)))


def _has_far_columns(dataset: Dataset) -> bool:
    """Return whether some rows of a dense matrix show a column far from zero, but no constant."""
    if not isinstance(dataset.matrix, DenseMatrix) or not len(dataset.labels):
        return False
    values = dataset.matrix.values
    step = max(1, len(values) // _LOOKED_AT)
    shown = values[::step].astype(np.float64)
    mean, spread = np.abs(shown.mean(axis=0)), shown.std(axis=0)
    is_constant = (shown == shown[0]).all(axis=0)
    return bool(np.any((mean > _FAR_COLUMNS * spread) & ~is_constant))


def _blocks(dataset: Dataset) -> Iterator[tuple[slice, np.ndarray | csr_matrix]]:
    """Return some rows after the other, in float64; none that are not on the host."""
    matrix = dataset.matrix
    if isinstance(matrix, DenseMatrix):
        rows: np.ndarray | csr_matrix = matrix.values
    elif isinstance(matrix, CompressedMatrix):
        values = np.ones(matrix.n_stored, matrix.dtype) if matrix.values is None else matrix.values
        rows = csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape)
    else:
        return
    step = max(1, _BLOCK_ENTRIES // max(1, matrix.shape[1]))
    for first in range(0, matrix.shape[0], step):
        here = slice(first, min(first + step, matrix.shape[0]))
        yield here, rows[here].astype(np.float64)


def _interim(model: Interim, column_means: np.ndarray, target_mean: float) -> Interim:
    moved = target_mean - model.coef @ column_means
    return replace(model, intercept=model.intercept + moved)
