"""The area under the ROC curve of scores that are spread over ranks."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from snapml.solvers.communicator import Communicator

__all__ = ["CountedScores", "area_under_curve"]

# Scores that travel at a time: 16 MB with their weights.
_BLOCK = 2**20


class CountedScores(NamedTuple):
    """Scores without repetition.

    Attributes
    ----------
    scores : ndarray
        Ascending.
    weights : ndarray, float64
        How often each occurs, or the sum of the weights with which it does.
    """

    scores: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, weights: np.ndarray | None) -> CountedScores:
        """Count scores.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            In any order.
        weights : ndarray of shape (n,) or None
            Of each; None counts them.

        Returns
        -------
        CountedScores
            Those with a weight.
        """
        if weights is not None:
            scores, weights = scores[weights != 0], weights[weights != 0]
        distinct, numbers = np.unique(scores, return_inverse=True)
        counts = np.bincount(numbers, weights=weights, minlength=len(distinct))
        return cls(distinct, counts.astype(np.float64))

    def below(self, scores: np.ndarray) -> np.ndarray:
        """Return the weight of the scores below each of some, and half that of equal ones.

        Parameters
        ----------
        scores : ndarray
            To compare with.

        Returns
        -------
        ndarray of the same shape
            Of each.
        """
        sums = np.concatenate([[0.0], np.cumsum(self.weights)])
        places = [np.searchsorted(self.scores, scores, side) for side in ("left", "right")]
        return 0.5 * (sums[places[0]] + sums[places[1]])


def area_under_curve(
    communicator: Communicator, positive: CountedScores, negative: CountedScores
) -> float:
    """Return the share of pairs of rows in which the positive one has the larger score.

    The scores of the class with fewer distinct ones pass by all ranks in blocks; each compares them
    with its own of the other class.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    positive, negative : CountedScores
        This rank's.

    Returns
    -------
    float
        The same on all ranks; ties count half. NaN, with a warning, where a class has no weight.
    """
    both = (positive, negative)
    totals = communicator.allreduce_sum(np.array([part.weights.sum() for part in both]))
    if not (totals > 0.0).all():
        warnings.warn(
            "a class has no rows with a weight: the area under the ROC curve is not defined",
            UndefinedMetricWarning,
            stacklevel=4,
        )
        return float("nan")
    lengths = communicator.exchange(tuple(len(part.scores) for part in both))
    passing = int(np.argmin(np.sum(lengths, axis=0)))
    mine, kept, n_kept = both[passing], both[1 - passing], float(both[1 - passing].weights.sum())
    wins = 0.0
    for rank, own_lengths in enumerate(lengths):
        for begin in range(0, own_lengths[passing], _BLOCK):
            here = slice(begin, begin + _BLOCK)
            own = (mine.scores[here], mine.weights[here]) if rank == communicator.rank else None
            scores, weights = communicator.exchange(own)[rank]
            below = kept.below(scores)
            wins += float(weights @ (below if passing == 0 else n_kept - below))
    return float(communicator.allreduce_sum(np.array([wins]))[0] / totals[0] / totals[1])
