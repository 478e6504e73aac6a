"""What a gap may be where a model may leave nothing: a share of an objective of zero is none."""

from __future__ import annotations

import math

import numpy as np

from snapml.data import Dataset
from snapml.problems import Problem
from snapml.solvers.communicator import Communicator
from snapml.solvers.cpu_formulas import loss_quantity

__all__ = ["rounding_floor"]

# Share of what the targets alone would lose that is rounding, of losses that grow with the square
# of a margin's error and of those that grow with the error.
_SQUARES, _CORNERS = 1e-20, 1e-14


def rounding_floor(problem: Problem, dataset: Dataset, communicator: Communicator) -> float:
    """Return the gap below which a model is as good as the targets' rounding lets it be.

    Parameters
    ----------
    problem, dataset, communicator
        All of the problem.

    Returns
    -------
    float
        0 for losses that no model, or none with a penalty, brings to zero.
    """
    loss, floor = problem.loss, 0.0
    if loss.is_quadratic and problem.penalty.l2 <= 0.0:
        floor = _SQUARES * _half_squares(dataset, communicator)
    elif loss.link == "log":
        floor = _SQUARES * _half_curvatures(problem, dataset, communicator)
    elif loss.n_corners and loss.labels == "real":
        floor = _CORNERS * _summed(dataset, communicator, np.abs(dataset.labels))[0]
    return floor if math.isfinite(floor) else 0.0


def _half_squares(dataset: Dataset, communicator: Communicator) -> float:
    """Return the objective of least squares without coefficients."""
    squares = dataset.labels.astype(np.float64) ** 2
    return 0.5 * _summed(dataset, communicator, squares)[0]


def _half_curvatures(problem: Problem, dataset: Dataset, communicator: Communicator) -> float:
    """Return the losses of margins beside the targets' by 1, as if all were their mean."""
    total, weight = _summed(dataset, communicator, dataset.labels)
    if not (0.0 < total < math.inf and weight > 0.0):
        return 0.0
    mean = np.array([total / weight])
    return 0.5 * weight * float(loss_quantity(problem.loss, "curvature", np.log(mean), mean)[0])


def _summed(
    dataset: Dataset, communicator: Communicator, numbers: np.ndarray
) -> tuple[float, float]:
    """Return the weighted sum of a number of each row, and that of the weights."""
    if dataset.row_weights is None:
        own = [dataset.weight * float(numbers.sum(dtype=np.float64)), dataset.weight * numbers.size]
    else:
        weights = dataset.row_weights
        own = [
            float(np.sum(weights * numbers, dtype=np.float64)),
            float(weights.sum(dtype=np.float64)) * (numbers.size / max(1, weights.size)),
        ]
    total, weight = communicator.allreduce_sum(np.array(own)).tolist()
    return total, weight
