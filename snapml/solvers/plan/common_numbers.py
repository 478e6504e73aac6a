"""Problems of dense rows of which most columns have one number in most rows.

Standardised dummy variables are such: each column has two numbers. Without its more frequent one a
column is sparse, and a free intercept takes what that one adds to every margin: the problem, its
penalty and its minimum are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from snapml.data import CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.problems import Intercept, Problem
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["CommonNumbers", "common_of", "find_common"]

# Numbers of which a look costs more than it saves.
_LEAST_SIZE = 1 << 15


class CommonNumbers:
    """The more frequent number of each column, taken from rows.

    Parameters
    ----------
    matrix : CompressedMatrix
        What is left.
    numbers : ndarray of shape (n_features,), float64
        Zero where a column has none.
    """

    def __init__(self, matrix: CompressedMatrix, numbers: np.ndarray) -> None:
        self.matrix, self._numbers = matrix, numbers

    def free_intercept(self, coef: np.ndarray, intercept: Any) -> Any:
        """Return the intercepts beside the rows as they are, of models of what is left."""
        return intercept - coef.astype(np.float64) @ self._numbers

    def of_dataset(self, dataset: Dataset) -> Dataset:
        """Return what is left of the rows."""
        return replace(dataset, matrix=self.matrix)

    def of_start(self, start: Start) -> Start:
        """Return where to begin on what is left."""
        if start.coef is None:
            return start
        coef = start.coef.copy()
        coef[:, -1] += coef[:, :-1] @ self._numbers
        return replace(start, coef=coef)

    def of_rule(self, rule: StoppingRule) -> StoppingRule:
        """Return a rule whose control shows models of the rows as they are."""
        return replace(rule, control=rule.control.through(self._shown))

    def stored(self, result: FitResult) -> FitResult:
        """Return a model of what is left as one of the rows; dual variables stay behind."""
        intercept = self.free_intercept(result.coef, result.intercept)
        return replace(result, intercept=intercept, duals=None, offset=0.0)

    def _shown(self, model: Interim) -> Interim:
        return replace(model, intercept=self.free_intercept(model.coef, model.intercept))


def find_common(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    settings: Settings,
    start: Start,
) -> CommonNumbers | None:
    """Return what to take from the rows, where a fit on the rest is quicker.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows, labels and weights.
    communicator : Communicator
        The other shards.
    settings : Settings
        Which solver is asked for, and where.
    start : Start
        Where the fit begins.

    Returns
    -------
    CommonNumbers or None
        None where the intercept is not free or the loss is quadratic, which has its own ways; on
        several shards and on GPUs; where dual variables are there to begin with; and as
        `common_of` says.
    """
    if problem.intercept is not Intercept.FREE or problem.loss.is_quadratic:
        return None
    if start.duals is not None:
        return None
    return None if communicator.size > 1 or settings.device_ids else common_of(dataset.matrix)


def common_of(matrix: Matrix) -> CommonNumbers | None:
    """Return what to take from rows, where most of their numbers are their columns' frequent ones.

    Parameters
    ----------
    matrix : Matrix
        The rows.

    Returns
    -------
    CommonNumbers or None
        None of others than dense ones in float64, which rounds what is left by no more than sums
        are.
    """
    if not isinstance(matrix, DenseMatrix) or matrix.dtype != np.float64:
        return None
    if matrix.n_stored < _LEAST_SIZE or matrix.common_form is None:
        return None
    return CommonNumbers(*matrix.common_form)
