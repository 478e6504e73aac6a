"""Working sets of columns: the loss's quadratic model on them, and its minimiser."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from snapml import _native
from snapml.problems import Intercept
from snapml.solvers.cpu_column_model import minimise_on_columns
from snapml.solvers.cpu_columns import CpuColumns
from snapml.solvers.cpu_gram_model import minimise_on_gram
from snapml.solvers.cpu_packed import DenseChunk, SparseColumns, dense_gram
from snapml.solvers.quadratic_model import Model

__all__ = ["WorkingSet", "working_set"]

_MOST_GRAM_COLUMNS = 6000
_MOST_SPARSE_GRAM = 400
# Share of the curvature that may have changed since a Gram matrix was formed: the step is then a
# little shorter of the minimum, and a new matrix costs far more than another step.
_MOST_DRIFT = 0.15
# Share of the entries from which on a read of all rows is quicker than two products with columns.
_SHARE_OF_ROWS = 0.2
_FEW_COLUMNS = 150  # whose Gram matrix costs little more than a read of the data


class WorkingSet(Protocol):
    """Some columns, and how to minimise the penalised quadratic model on them."""

    columns: np.ndarray

    @property
    def is_most_of_data(self) -> bool:
        """Whether a read of all columns costs little more than one of these."""

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return the columns' sum weighted by `coef`, one number per row."""

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        """Return the columns' products with a vector of one number per row."""

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        """Return coefficients that minimise the model to within about `target`."""


def working_set(engine: CpuColumns, columns: np.ndarray, before: WorkingSet | None) -> WorkingSet:
    """Return a working set that holds `columns`, and what was packed before where that saves work.

    Parameters
    ----------
    engine : CpuColumns
        Where the columns come from.
    columns : ndarray
        Sorted numbers of columns.
    before : WorkingSet or None
        The last one.

    Returns
    -------
    WorkingSet
        Its ``columns`` say which ones, in which order.
    """
    if engine.is_sparse:
        if isinstance(before, _SparseSet) and before.serves(columns):
            return before
        return _SparseSet(engine, columns)
    if len(columns) > _MOST_GRAM_COLUMNS:
        return _ColumnSet(engine, columns)
    if isinstance(before, _GramSet):
        missing = np.setdiff1d(columns, before.columns)
        if len(missing) == 0:
            return before
        if len(before.columns) + len(missing) <= 1.5 * len(columns) + 50:
            before.extend(missing)
            return before
    fresh = _GramSet(engine)
    fresh.extend(columns)
    return fresh


class _GramSet:
    """Columns of dense rows, and their Gram matrix: descents on it read no data."""

    def __init__(self, engine: CpuColumns) -> None:
        self._engine = engine
        self._chunks: list[DenseChunk] = []
        self.columns = np.empty(0, dtype=np.int64)
        self._gram: np.ndarray | None = None
        self._reference: np.ndarray | None = None  # curvatures of the Gram matrix
        self._n_formed = 0

    def extend(self, columns: np.ndarray) -> None:
        """Add columns that are not yet in the set."""
        engine = self._engine
        own = columns[columns < engine.n_features]
        if len(own) == engine.n_features:
            self._chunks.append(DenseChunk(engine, None))
            rest = columns[len(own) :]
        else:
            rest = columns
        if len(rest):
            self._chunks.append(DenseChunk(engine, rest))
        self.columns = np.concatenate([self.columns, columns])

    @property
    def is_most_of_data(self) -> bool:
        return len(self.columns) == self._engine.n_cols

    def product(self, coef: np.ndarray) -> np.ndarray:
        parts = np.split(coef, np.cumsum([chunk.n_cols for chunk in self._chunks])[:-1])
        total = self._chunks[0].product(parts[0])
        for chunk, part in zip(self._chunks[1:], parts[1:], strict=True):
            total += chunk.product(part)
        return total

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        return np.concatenate([chunk.adjoint(vector) for chunk in self._chunks])

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        gram = self._gram_for(model.curvatures, model.must_be_fresh)
        return minimise_on_gram(gram, model, coef, target)

    def _gram_for(self, curvatures: np.ndarray, must_be_fresh: bool) -> np.ndarray:
        """Return the Gram matrix of the model, an old one where curvatures have changed little."""
        if self._reference is not None:
            allowed = 0.0 if must_be_fresh else _allowed_drift(len(self.columns))
            if self._drift(curvatures) > allowed:
                self._gram, self._n_formed = None, 0
        if self._gram is None:
            self._reference = curvatures.copy()
        n_old = self._n_formed
        widths = np.cumsum([0] + [chunk.n_cols for chunk in self._chunks])
        split = int(np.searchsorted(widths, n_old))
        if split < len(self._chunks):
            means = self._means()
            old, new = self._chunks[:split], self._chunks[split:]
            assert self._reference is not None
            fresh = dense_gram(old, new, self._reference, means, self._engine.n_threads)
            gram = np.empty((widths[-1], widths[-1]), dtype=self._engine.dtype)
            if self._gram is not None:
                gram[:n_old, :n_old] = self._gram
            gram[:, n_old:] = fresh
            gram[n_old:, :n_old] = fresh[:n_old].T
            self._gram, self._n_formed = gram, int(widths[-1])
        assert self._gram is not None
        return self._gram

    def _means(self) -> list[np.ndarray]:
        """Return the columns' means under the curvatures, zeros where the intercept is not free."""
        if self._engine.problem.intercept is not Intercept.FREE:
            return [np.zeros(chunk.n_cols) for chunk in self._chunks]
        assert self._reference is not None
        total = max(float(self._reference.sum()), np.finfo(np.float64).tiny)
        return [chunk.adjoint(self._reference) / total for chunk in self._chunks]

    def _drift(self, curvatures: np.ndarray) -> float:
        assert self._reference is not None
        scale = float(np.abs(self._reference).sum())
        return float(np.abs(curvatures - self._reference).sum()) / max(scale, 1e-300)


def _allowed_drift(n_columns: int) -> float:
    return _MOST_DRIFT if n_columns > _FEW_COLUMNS else 0.01


class _SparseSet:
    """Columns of compressed rows: a Gram matrix of few, a descent on many."""

    def __init__(self, engine: CpuColumns, columns: np.ndarray) -> None:
        self._engine = engine
        self._packed = SparseColumns(engine, columns)
        self.columns = columns
        self.product, self.adjoint = self._packed.product, self._packed.adjoint
        self._gram: np.ndarray | None = None

    @property
    def native(self) -> _native.Columns:
        """The packed columns."""
        return self._packed.native

    @property
    def is_most_of_data(self) -> bool:
        is_all = len(self.columns) == self._engine.n_cols
        return is_all or self._packed.n_stored > _SHARE_OF_ROWS * self._engine.n_stored

    def serves(self, columns: np.ndarray) -> bool:
        """Return whether to work on this set although `columns` are all that is asked for."""
        if len(columns) <= _MOST_SPARSE_GRAM:
            return np.array_equal(columns, self.columns)
        return len(columns) <= len(self.columns) and bool(np.isin(columns, self.columns).all())

    def hessian_product(self, coef: np.ndarray, shift: float, curvatures: np.ndarray) -> np.ndarray:
        engine = self._engine
        if self._packed.n_stored < _SHARE_OF_ROWS * engine.n_stored:
            return self.adjoint(curvatures * (self.product(coef) + shift))
        full = np.zeros(engine.n_cols)
        full[self.columns] = coef
        return engine.hessian_product(full, shift, curvatures)[self.columns]

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        if len(self.columns) > _MOST_SPARSE_GRAM:
            return minimise_on_columns(self._engine, self, model, coef, target)
        gram = self.gram(np.arange(len(coef)), model.curvatures)
        return minimise_on_gram(gram, model, coef, target)

    def counts(self) -> np.ndarray:
        return self._packed.counts

    def gram(self, kept: np.ndarray, curvatures: np.ndarray) -> np.ndarray:
        is_free = self._engine.problem.intercept is Intercept.FREE
        packed = self._packed
        if len(kept) < packed.n_cols:
            packed = SparseColumns(self._engine, self.columns[kept])
        sums = packed.adjoint(curvatures) if is_free else None
        return packed.gram(curvatures, sums)


class _ColumnSet:
    """More columns of dense rows than a Gram matrix is worth."""

    def __init__(self, engine: CpuColumns, columns: np.ndarray) -> None:
        self._engine = engine
        self.columns = columns
        self._values = np.empty((len(columns), engine.n_rows), dtype=engine.dtype)
        _native.pack_dense(engine.pool, engine.rows, columns, engine.tau, True, self._values)
        self.native = _native.Columns.dense(self._values, engine.n_rows)

    @property
    def is_most_of_data(self) -> bool:
        return len(self.columns) == self._engine.n_cols

    def product(self, coef: np.ndarray) -> np.ndarray:
        out = np.zeros(self._engine.n_rows)
        _native.columns_product(self.native, coef, out)
        return out

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        out = np.empty(len(self.columns))
        _native.columns_adjoint(self._engine.pool, self.native, vector, out)
        return out

    def hessian_product(self, coef: np.ndarray, shift: float, curvatures: np.ndarray) -> np.ndarray:
        return self.adjoint(curvatures * (self.product(coef) + shift))

    def counts(self) -> np.ndarray:
        return np.full(len(self.columns), self._engine.n_rows)

    def gram(self, kept: np.ndarray, curvatures: np.ndarray) -> np.ndarray:
        engine = self._engine
        chunk = DenseChunk(engine, self.columns[kept])
        is_free = engine.problem.intercept is Intercept.FREE
        total = max(float(curvatures.sum()), np.finfo(np.float64).tiny)
        mean = chunk.adjoint(curvatures) / total if is_free else np.zeros(len(kept))
        return dense_gram([], [chunk], curvatures, [mean], engine.n_threads)

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        return minimise_on_columns(self._engine, self, model, coef, target)
