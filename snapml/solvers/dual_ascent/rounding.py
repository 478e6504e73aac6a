"""What single precision leaves of the gap of a loss with corners, and how to be rid of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from snapml.data import Dataset
from snapml.problems import Loss
from snapml.solvers.engine import Engine

__all__ = ["Rounding", "can_lengthen", "is_coarse", "level_of"]

# Epochs before which the running gap says little, and those over which it should have halved.
_FIRST, _WINDOW = 16, 8
# The same, as shares of the epochs so far.
_NEXT, _WINDOW_SHARE = 1.5, 0.25
# Of the loss without a model, what may be rounding.
_LEVEL = 2.0**-20


def is_coarse(loss: Loss, dtype: np.dtype) -> bool:
    """Return whether rounding of margins in a number type may outweigh a tolerance.

    Parameters
    ----------
    loss : Loss
        Whose corners they are near to.
    dtype : dtype
        Of the rows.

    Returns
    -------
    bool
        True for losses with corners in single precision.
    """
    return loss.n_corners > 0 and dtype == np.float32


def can_lengthen(loss: Loss, dtype: np.dtype) -> bool:
    """Return whether rounding is undone by models a millionth longer.

    Parameters
    ----------
    loss : Loss
        Of the margins.
    dtype : dtype
        Of the rows.

    Returns
    -------
    bool
        True for the hinge in single precision.
    """
    return is_coarse(loss, dtype) and loss.labels == "sign" and loss.n_corners == 1


def level_of(dataset: Dataset) -> float:
    """Return the running gap at which the rounding of float32 margins may be all that is left.

    Parameters
    ----------
    dataset : Dataset
        Labels, weights and offsets of one output in memory.

    Returns
    -------
    float
        A small share of the sum of weights times what margins have to be.
    """
    sizes = np.abs(dataset.labels.astype(np.float64))
    if dataset.offsets is not None:
        sizes += np.abs(dataset.offsets)
    return _LEVEL * float(np.dot(dataset.wide_weights, sizes))


class Rounding:
    """When to look closer at models in single precision: the loss has corners, the gap stays.

    Where all rows can be met, the objective is next to nothing but ||w||^2 / 2, and many margins
    are at a corner. Rounding takes half of them to the wrong side, which costs the sum of the
    weights times 1e-7, many times the tolerance. For the hinge a model longer by a millionth meets
    all of them, and the penalty grows by two millionths.

    Parameters
    ----------
    engine : Engine
        Loss and number type.

    Attributes
    ----------
    can_lengthen : bool
        Whether longer models may be better.
    """

    FACTORS: ClassVar[tuple[float, ...]] = tuple(
        1.0 + 2.0**-k for k in (21, 21, 20, 19, 18, 17, 16, 15)
    )
    """What lengths are multiplied by, one after the other: each doubles what the others added."""

    def __init__(self, engine: Engine) -> None:
        loss = engine.problem.loss
        self._is_coarse = is_coarse(loss, engine.shared.dtype)
        self.can_lengthen = can_lengthen(loss, engine.shared.dtype)
        self._next = _FIRST

    def is_due(self, history: Sequence[dict[str, float]]) -> bool:
        """Return whether the running gap seems to be what rounding leaves.

        Parameters
        ----------
        history : sequence of dict
            One for each epoch.

        Returns
        -------
        bool
            Rarely again, as a gap may also fall by fits and starts.
        """
        n_epochs = len(history)
        if not self._is_coarse or n_epochs < self._next:
            return False
        window = max(_WINDOW, int(_WINDOW_SHARE * n_epochs))
        gap, before = (history[i]["running_gap"] for i in (-1, -1 - window))
        if gap <= 0.5 * before:
            return False
        self._next = int(_NEXT * n_epochs)
        return True
