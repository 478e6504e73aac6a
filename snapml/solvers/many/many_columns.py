"""Which columns of a solve of many models are whose: a model has one, or one for each class.

Places are models in their order. Columns of one output fill panels with more places, of no
weight; those of several stand side by side, class after class, and the rest of the last panel
stands behind them.
"""

from __future__ import annotations

import numpy as np

from snapml.solvers.many.many_rows import PANEL

__all__ = ["ModelColumns"]


class ModelColumns:
    """The columns of models that have equally many outputs.

    Parameters
    ----------
    n_outputs : int
        Columns of a model.
    fewest : int
        Fewest columns that products take; more are a multiple of `PANEL`.
    """

    def __init__(self, n_outputs: int, fewest: int) -> None:
        self.n_outputs, self._fewest = n_outputs, fewest

    def n_places(self, n_models: int) -> int:
        """Return how many places models take up."""
        return self._padded(n_models) if self.n_outputs == 1 else n_models

    def width(self, n_places: int) -> int:
        """Return how many columns places take up."""
        return n_places if self.n_outputs == 1 else self._padded(n_places * self.n_outputs)

    def kept(self, places: np.ndarray, n_places: int) -> np.ndarray:
        """Return these places, and others after them that fill a panel."""
        is_other = np.ones(n_places, dtype=bool)
        is_other[places] = False
        others = np.flatnonzero(is_other)
        return np.concatenate([places, others[: self.n_places(len(places)) - len(places)]])

    def columns(self, places: np.ndarray) -> np.ndarray:
        """Return the columns of places, shape (n_places * n_outputs,)."""
        found: np.ndarray = places[:, None] * self.n_outputs + np.arange(self.n_outputs)
        return found.ravel()

    def taken(self, places: np.ndarray) -> np.ndarray:
        """Return columns to take for these places alone: theirs, and any that fill the panel."""
        own = self.columns(places)
        more = self.width(len(places)) - len(own)
        return np.concatenate([own, np.zeros(more, dtype=own.dtype)])

    def sums(self, numbers: np.ndarray, n_places: int) -> np.ndarray:
        """Return the sums of columns' numbers, shape (n_places,)."""
        return self._by_place(numbers, n_places).sum(axis=1)

    def largest(self, numbers: np.ndarray, n_places: int) -> np.ndarray:
        """Return the largest of columns' numbers, shape (n_places,)."""
        found: np.ndarray = self._by_place(numbers, n_places).max(axis=1)
        return found

    def spread(self, numbers: np.ndarray) -> np.ndarray:
        """Return places' numbers for each column; False or zero behind the last place's."""
        if self.n_outputs == 1:
            return numbers
        out = np.zeros(self.width(len(numbers)), dtype=numbers.dtype)
        out[: len(numbers) * self.n_outputs] = np.repeat(numbers, self.n_outputs)
        return out

    def centre(self, array: np.ndarray, n_places: int) -> np.ndarray:
        """Subtract each model's mean over its classes, in place; nothing with one output.

        The softmax is blind to what all classes have in common, and with an L2 penalty no minimum
        has any of it.
        """
        if self.n_outputs > 1:
            own = array[:, : n_places * self.n_outputs].reshape(len(array), n_places, -1)
            own -= own.mean(axis=2, keepdims=True)
        return array

    def _by_place(self, numbers: np.ndarray, n_places: int) -> np.ndarray:
        own: np.ndarray = numbers[: n_places * self.n_outputs].reshape(n_places, -1)
        return own

    def _padded(self, n_columns: int) -> int:
        """Return the next number of columns that products take."""
        return self._fewest if n_columns <= self._fewest else -(-n_columns // PANEL) * PANEL
