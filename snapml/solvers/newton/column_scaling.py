"""A curvature that costs nothing: each column's own, as if columns had nothing in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import PrimalEngine, own_curvatures
from snapml.solvers.newton.curvature import ScaledColumns
from snapml.solvers.newton.descent import Descent

__all__ = ["ColumnScaling"]

_TINY = float(np.finfo(np.float64).tiny)


class ColumnScaling:
    """The diagonal of the Hessian in centred columns, times what the last step saw of it.

    Parameters
    ----------
    engine : PrimalEngine
        Shard of the rows.
    communicator : Communicator
        Adds up over the shards.

    Attributes
    ----------
    share : float
        What the diagonal says of the curvature along the last step, beside what that saw: small
        where columns have much in common. Of the first step 1.
    """

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
        self._columns = ScaledColumns(engine, communicator)
        self._engine, self._communicator = engine, communicator
        self.share = 1.0

    def learn(self, descent: Descent) -> None:
        """See the curvature at the descent's point, and along its last step."""
        own = self._communicator.allreduce_sum(own_curvatures(self._engine).sum(axis=1))
        self._diagonal = np.maximum(own[:, None] + self._columns.ridge, _TINY)
        self.share = 1.0
        last = descent.last_pair
        if last is not None:
            step, change = last
            scaled = self.solve(change)
            self.share = float(np.vdot(step, change) / max(np.vdot(change, scaled), _TINY))

    def solve(self, gradient: Any) -> Any:
        """Return a step for a gradient.

        Parameters
        ----------
        gradient : array of shape (n_outputs, n_features + 1), float64
            The gradient.

        Returns
        -------
        array of shape (n_outputs, n_features + 1), float64
            The step.
        """
        scaled = self._columns.scaled(gradient)
        return self._columns.step_in_columns(self.share * scaled / self._diagonal)
