"""A working set on whose Gram matrix the model is minimised, wherever its columns are."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from snapml.problems import Intercept, Problem
from snapml.solvers.columns.cpu_gram_model import minimise_on_gram
from snapml.solvers.quadratic_model import Model

__all__ = ["Chunk", "GramSet", "PackingEngine"]

# Share of the curvature that may have changed since a Gram matrix was formed: the step is then a
# little shorter of the minimum, and a new matrix costs far more than another step; but of few
# columns hardly more than a read of the data.
_MOST_DRIFT, _LITTLE_DRIFT, _FEW_COLUMNS = 0.15, 0.01, 40


class Chunk(Protocol):
    """Some columns, packed together."""

    n_cols: int

    def product(self, coef: np.ndarray) -> Any:
        """Return the columns' sum weighted by `coef`, one number per row."""

    def adjoint(self, vector: Any) -> np.ndarray:
        """Return the columns' products with a vector of one number per row."""


class PackingEngine(Protocol):
    """What packs columns, and multiplies them with each other."""

    problem: Problem
    dtype: np.dtype
    n_cols: int

    def pack(self, columns: np.ndarray) -> list[Any]:
        """Return the columns in one chunk or several, in their order."""

    def gram(
        self, old: list[Any], new: list[Any], curvatures: Any, means: list[np.ndarray]
    ) -> np.ndarray:
        """Return sum_i h_i (x_i - mean)(x_i - mean)^T, its columns being those of `new` alone.

        `means` holds a vector for each chunk of ``old + new``.
        """


class GramSet:
    """Columns and their Gram matrix: descents on it read no data (protocol `WorkingSet`).

    Parameters
    ----------
    engine : PackingEngine
        Where the columns come from.
    """

    def __init__(self, engine: PackingEngine) -> None:
        self._engine = engine
        self._chunks: list[Any] = []
        self.columns = np.empty(0, dtype=np.int64)
        self._gram: np.ndarray | None = None
        self._reference: Any = None  # curvatures of the Gram matrix
        self._n_formed = 0

    @classmethod
    def holding(cls, engine: PackingEngine, columns: np.ndarray, before: object) -> GramSet:
        """Return a set of the columns: the last one, extended, unless a fresh one is smaller.

        Parameters
        ----------
        engine : PackingEngine
            Where the columns come from.
        columns : ndarray
            Sorted numbers of columns.
        before : object
            The last working set, or None.

        Returns
        -------
        GramSet
            It may hold further columns.
        """
        if isinstance(before, cls):
            missing = np.setdiff1d(columns, before.columns)
            if len(missing) == 0:
                return before
            if len(before.columns) + len(missing) <= 1.5 * len(columns) + 50:
                before.extend(missing)
                return before
        fresh = cls(engine)
        fresh.extend(columns)
        return fresh

    def extend(self, columns: np.ndarray) -> None:
        """Add columns that are not yet in the set."""
        self._chunks += self._engine.pack(columns)
        self.columns = np.concatenate([self.columns, columns])

    @property
    def is_most_of_data(self) -> bool:
        """Whether these are all columns."""
        return len(self.columns) == self._engine.n_cols

    def product(self, coef: np.ndarray) -> Any:
        """Return the columns' sum weighted by `coef`, one number per row."""
        parts = np.split(coef, np.cumsum([chunk.n_cols for chunk in self._chunks])[:-1])
        total = self._chunks[0].product(parts[0])
        for chunk, part in zip(self._chunks[1:], parts[1:], strict=True):
            total += chunk.product(part)
        return total

    def adjoint(self, vector: Any) -> np.ndarray:
        """Return the columns' products with a vector of one number per row."""
        return np.concatenate(self._adjoints(vector))

    def _adjoints(self, vector: Any) -> list[np.ndarray]:
        products = []
        for chunk in self._chunks:  # no comprehension: it would keep the vector if a fit fails
            products.append(chunk.adjoint(vector))
        return products

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        """Return coefficients that minimise the model to within about `target`."""
        return minimise_on_gram(self._gram_for(model), model, coef, target)

    def _gram_for(self, model: Model) -> np.ndarray:
        """Return the Gram matrix of the model, an old one where curvatures have changed little."""
        if self._reference is not None:
            allowed = 0.0 if model.must_be_fresh else _allowed_drift(len(self.columns))
            if self._drift(model) > allowed:
                self._gram, self._n_formed = None, 0
        if self._gram is None:
            self._reference = model.curvatures.copy()
        n_old = self._n_formed
        widths = np.cumsum([0] + [chunk.n_cols for chunk in self._chunks])
        split = int(np.searchsorted(widths, n_old))
        if split < len(self._chunks):
            means = self._means(model)
            old, new = self._chunks[:split], self._chunks[split:]
            own = self._engine.gram(old, new, self._reference, means)
            fresh = model.total(own) if old else model.total_square(own)
            gram = np.empty((widths[-1], widths[-1]), dtype=self._engine.dtype)
            if self._gram is not None:
                gram[:n_old, :n_old] = self._gram
            gram[:, n_old:] = fresh
            gram[n_old:, :n_old] = fresh[:n_old].T
            self._gram, self._n_formed = gram, int(widths[-1])
        assert self._gram is not None
        return self._gram

    def _means(self, model: Model) -> list[np.ndarray]:
        """Return the columns' means under the curvatures, zeros where the intercept is not free."""
        if self._engine.problem.intercept is not Intercept.FREE:
            return [np.zeros(chunk.n_cols) for chunk in self._chunks]
        own = np.append(self.adjoint(self._reference), float(self._reference.sum()))
        sums = model.total(own)
        means = sums[:-1] / max(float(sums[-1]), np.finfo(np.float64).tiny)
        return np.split(means, np.cumsum([chunk.n_cols for chunk in self._chunks])[:-1])

    def _drift(self, model: Model) -> float:
        change = float(abs(model.curvatures - self._reference).sum())
        own = np.array([change, float(abs(self._reference).sum())])
        change, scale = model.total(own).tolist()
        return change / max(scale, 1e-300)


def _allowed_drift(n_columns: int) -> float:
    return _MOST_DRIFT if n_columns > _FEW_COLUMNS else _LITTLE_DRIFT
