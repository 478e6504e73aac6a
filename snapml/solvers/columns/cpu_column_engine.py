"""The CPU engine of working-set descent: which columns are packed, and how models are minimised."""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.data import Dataset
from snapml.problems import Intercept, Problem
from snapml.solvers.columns.column_model import ColumnDescent, minimise_on_columns
from snapml.solvers.columns.cpu_block_descent import BlockDescent
from snapml.solvers.columns.cpu_column_descent import NativeDescent
from snapml.solvers.columns.cpu_columns import CpuColumns
from snapml.solvers.columns.cpu_gathered_columns import GatheredColumns
from snapml.solvers.columns.cpu_gram_model import descend_on_gram, minimise_on_gram
from snapml.solvers.columns.cpu_packed import DenseChunk, SparseColumns, dense_gram
from snapml.solvers.columns.gram_set import GramSet
from snapml.solvers.engine import WorkingSet
from snapml.solvers.quadratic_model import Model

__all__ = ["CpuColumnEngine"]

_MOST_GRAM_COLUMNS = 6000
_MOST_SPARSE_GRAM = 400
# Columns whose slopes are at least so much of l1 may come into the support; up to how many of them,
# and reads of the data that their Gram matrix may cost; rounds of descent and Newton steps.
_NEAR, _MOST_NEAR, _GRAM_READS, _NEAR_ROUNDS = 0.9, 3000, 20.0, 10
# Where the rows are on several shards, entries and rows up to which all get more columns than
# that; beyond, Gram matrices are sent once a model, or slopes of blocks of columns in each sweep.
_MOST_GATHERED = 1 << 24
_MOST_SPARSE_GRAM_OF_SHARDS = 2000
# Share of the entries from which on a read of all rows is quicker than two products with columns.
_SHARE_OF_ROWS = 0.2
_COLUMNS_TOGETHER = 64  # squared in one go: the copy stays small


class CpuColumnEngine(CpuColumns):
    """A shard of rows with the working set that was packed last (protocol `ColumnEngine`).

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        Rows, labels and row weights; used in place.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    """

    def __init__(self, problem: Problem, dataset: Dataset, *, n_threads: int | None = None) -> None:
        super().__init__(problem, dataset, n_threads=n_threads)
        self._kept: WorkingSet | None = None  # by the last fit, and the next may need it too

    def working_set(self, columns: np.ndarray) -> WorkingSet:
        """Return a set that holds `columns`, and what was packed before where that saves work.

        Parameters
        ----------
        columns : ndarray
            Sorted numbers of columns.

        Returns
        -------
        WorkingSet
            Its ``columns`` say which ones, in which order.
        """
        self._kept = self._suited(self._kept, columns)
        return self._kept

    def _suited(self, before: WorkingSet | None, columns: np.ndarray) -> WorkingSet:
        if self.is_sparse:
            is_served = isinstance(before, _SparseSet) and before.serves(columns)
            return before if is_served and before is not None else _SparseSet(self, columns)
        if len(columns) > _MOST_GRAM_COLUMNS:
            return _ColumnSet(self, columns)
        return GramSet.holding(self, columns, before)

    def pack(self, columns: np.ndarray) -> list[DenseChunk]:
        """Return columns of dense rows side by side; all of them are used in place."""
        own = columns[columns < self.n_features]
        if len(own) < self.n_features:
            return [DenseChunk(self, columns)]
        rest = columns[len(own) :]
        return [DenseChunk(self, None), *([DenseChunk(self, rest)] if len(rest) else [])]

    def gram(
        self,
        old: list[DenseChunk],
        new: list[DenseChunk],
        curvatures: np.ndarray,
        means: list[np.ndarray],
    ) -> np.ndarray:
        """Return the weighted, centred products of all columns with the new ones."""
        return dense_gram(old, new, curvatures, means, self.n_threads)


class _SparseSet:
    """Columns of compressed rows: a Gram matrix of few, a descent on many."""

    def __init__(self, engine: CpuColumns, columns: np.ndarray) -> None:
        self._engine = engine
        self._packed = SparseColumns(engine, columns)
        self.columns = columns
        self.product, self.adjoint = self._packed.product, self._packed.adjoint
        self._gathered: GatheredColumns | None = None
        self._has_asked = False  # the other shards, whether all columns can be sent

    def descent(self, model: Model) -> ColumnDescent:
        native = self._packed.native
        if model.communicator.size > 1:
            return BlockDescent(self, model, self._engine.pool, self._engine.dtype)
        return NativeDescent(self._engine, native, model)

    def moments(self, curvatures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._packed.moments(curvatures)

    def block(self, first: int, last: int) -> _native.Columns:
        return self._packed.block(first, last)

    def block_gram(self, first: int, last: int, curvatures: np.ndarray) -> np.ndarray:
        return self._packed.block_gram(first, last, curvatures)

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
        n_columns, most = len(self.columns), _MOST_SPARSE_GRAM
        if n_columns > most and len(near := self._near_support(model, coef)):
            return self._minimise_near(near, model, coef, target)
        if n_columns > most and model.communicator.size > 1:
            if (gathered := self._gathered_for(model)) is not None:
                return gathered.minimise(model, coef, target)
            most = _MOST_SPARSE_GRAM_OF_SHARDS
        if model.penalty.bounds is not None:
            most = _MOST_GRAM_COLUMNS
        if n_columns <= most:
            gram = self.gram(np.arange(len(coef)), model)
            return minimise_on_gram(gram, model, coef, target)
        return minimise_on_columns(self._engine.problem, self, model, coef, target)

    def _near_support(self, model: Model, coef: np.ndarray) -> np.ndarray:
        """Return the columns that the minimum may have, where their Gram matrix is cheap; or none.

        Near the solution few columns are left, whose systems are solved while conjugate gradients
        crawl on those that depend on each other.
        """
        is_near = (coef != 0.0) | (np.abs(model.slopes) > _NEAR * model.penalty.l1)
        near = np.flatnonzero(is_near)
        if not model.is_trusted or len(near) > _MOST_NEAR:
            return near[:0]
        engine = self._engine
        own = [float(self.counts()[near].sum()), float(engine.n_rows), float(engine.n_stored)]
        n_entries, n_rows, n_stored = model.total(np.array(own)).tolist()
        # A row with k of the columns adds k^2 products; here as if all rows had as many.
        return near if n_entries**2 <= _GRAM_READS * n_rows * n_stored else near[:0]

    def _minimise_near(
        self, near: np.ndarray, model: Model, coef: np.ndarray, target: float
    ) -> np.ndarray:
        """Return coefficients near the model's minimum over some columns, the others staying."""
        own, gradient, out = coef[near], model.slopes[near], coef.copy()
        gram = self.gram(near, model)
        descend_on_gram(gram, model.penalty, own, gradient, 0.3 * target, _NEAR_ROUNDS)
        out[near] = own
        return model.agreed(out)

    def _gathered_for(self, model: Model) -> GatheredColumns | None:
        """Return these columns with the rows of all shards; None where that is too much to send."""
        if not self._has_asked:
            own = self._packed.stored()
            size = float(model.total(np.array([float(own.nnz + own.shape[0])]))[0])
            if size <= _MOST_GATHERED:
                self._gathered = GatheredColumns(self._engine, own, model.communicator)
            self._has_asked = True
        return self._gathered

    def counts(self) -> np.ndarray:
        _ = self._packed.native  # they are packed
        return self._packed.counts

    def gram(self, kept: np.ndarray, model: Model) -> np.ndarray:
        packed = self._packed
        if len(kept) < packed.n_cols:
            packed = SparseColumns(self._engine, self.columns[kept])
        gram = model.total_square(packed.gram(model.curvatures))
        if self._engine.problem.intercept is Intercept.FREE:
            sums = model.total(packed.adjoint(model.curvatures))
            gram -= np.outer(sums, sums / model.curvature_sum)
        return gram


class _ColumnSet:
    """More columns of dense rows than a Gram matrix is worth."""

    def __init__(self, engine: CpuColumns, columns: np.ndarray) -> None:
        self._engine = engine
        self.columns = columns
        self._values = np.empty((len(columns), engine.n_rows), dtype=engine.dtype)
        if engine.n_rows:
            _native.pack_dense(engine.pool, engine.rows, columns, engine.tau, True, self._values)
        self._native = self.block(0, len(columns))

    @property
    def is_most_of_data(self) -> bool:
        return len(self.columns) == self._engine.n_cols

    def product(self, coef: np.ndarray) -> np.ndarray:
        out = np.zeros(self._engine.n_rows)
        if self._native is not None:
            _native.columns_product(self._native, coef, out)
        return out

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        out = np.zeros(len(self.columns))
        if self._native is not None:
            _native.columns_adjoint(self._engine.pool, self._native, vector, out)
        return out

    def moments(self, curvatures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        squares = np.zeros(len(self.columns))
        for first in range(0, len(squares), _COLUMNS_TOGETHER):
            part = slice(first, first + _COLUMNS_TOGETHER)
            squares[part] = self._values[part].astype(np.float64) ** 2 @ curvatures
        return self.adjoint(curvatures), squares

    def block(self, first: int, last: int) -> _native.Columns | None:
        n_rows = self._engine.n_rows
        return _native.Columns.dense(self._values[first:last], n_rows) if n_rows else None

    def block_gram(self, first: int, last: int, curvatures: np.ndarray) -> np.ndarray:
        values = self._values[first:last].astype(np.float64)
        return np.asarray((values * curvatures) @ values.T)

    def hessian_product(self, coef: np.ndarray, shift: float, curvatures: np.ndarray) -> np.ndarray:
        return self.adjoint(curvatures * (self.product(coef) + shift))

    def descent(self, model: Model) -> ColumnDescent:
        if model.communicator.size > 1 or self._native is None:
            return BlockDescent(self, model, self._engine.pool, self._engine.dtype)
        return NativeDescent(self._engine, self._native, model)

    def counts(self) -> np.ndarray:
        return np.full(len(self.columns), self._engine.n_rows)

    def gram(self, kept: np.ndarray, model: Model) -> np.ndarray:
        engine, curvatures = self._engine, model.curvatures
        chunk, mean = DenseChunk(engine, self.columns[kept]), np.zeros(len(kept))
        if engine.problem.intercept is Intercept.FREE:
            mean = model.total(chunk.adjoint(curvatures)) / model.curvature_sum
        return model.total_square(dense_gram([], [chunk], curvatures, [mean], engine.n_threads))

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        return minimise_on_columns(self._engine.problem, self, model, coef, target)
