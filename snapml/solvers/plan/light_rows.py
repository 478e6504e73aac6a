"""Dense rows that are mostly zeros are solved as sparse ones, as dummy variables are."""

from __future__ import annotations

from dataclasses import replace

from snapml.data import Dataset, DenseMatrix, Matrix
from snapml.data.dataset import MOST_NUMBERS
from snapml.problems import Problem
from snapml.solvers.communicator import Communicator
from snapml.solvers.fit_settings import Settings

__all__ = ["entries_of", "lighter"]

# Numbers of which a look costs more than it saves.
_LEAST_SIZE = 1 << 15
# Share of numbers that are not zero of a quadratic loss: what BLAS makes of whole rows, it makes
# once.
_MOST_OF_SQUARES = 0.06


def lighter(
    problem: Problem, dataset: Dataset, communicator: Communicator, settings: Settings
) -> Dataset:
    """Return the rows without their zeros, where solvers are faster on entries.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows, labels and weights.
    communicator : Communicator
        The other shards, whose layouts would have to agree: then rows stay as they are.
    settings : Settings
        GPUs take rows as they are.

    Returns
    -------
    Dataset
        The same where rows are not dense ones in memory, or have too few zeros.
    """
    loss, penalty = problem.loss, problem.penalty
    if communicator.size > 1 or settings.device_ids:
        return dataset
    if loss.is_quadratic and (penalty.is_none or not penalty.is_smooth):
        return dataset  # the columns' products are all that is needed of the rows
    matrix = entries_of(dataset.matrix, _MOST_OF_SQUARES if loss.is_quadratic else MOST_NUMBERS)
    return dataset if matrix is dataset.matrix else replace(dataset, matrix=matrix)


def entries_of(matrix: Matrix, most: float = MOST_NUMBERS) -> Matrix:
    """Return rows without their zeros, where they are dense ones in memory and not small.

    Parameters
    ----------
    matrix : Matrix
        The rows.
    most : float, default=MOST_NUMBERS
        Share of numbers that are not zero, up to which.

    Returns
    -------
    Matrix
        The same where they are others.
    """
    if not isinstance(matrix, DenseMatrix) or matrix.n_stored < _LEAST_SIZE:
        return matrix
    if matrix.share_of_numbers > most:
        return matrix
    form = matrix.sparse_form
    return matrix if form is None else form
