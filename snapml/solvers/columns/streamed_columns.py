"""Working-set descent's engine over rows of which only a part is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from snapml import _native
from snapml.data import ChunkedMatrix, CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.problems import Problem
from snapml.solvers.columns.column_packing import ColumnPacker, packed_bytes
from snapml.solvers.columns.cpu_column_engine import CpuColumnEngine
from snapml.solvers.columns.streamed_gram import StreamedGram
from snapml.solvers.engine import WorkingSet
from snapml.solvers.rows.cpu_rows import array_of, native_rows
from snapml.solvers.rows.host_losses import HostLosses

__all__ = ["Ahead", "PackedColumns", "StreamedColumns"]


@dataclass(frozen=True)
class Ahead:
    """A point at which an engine has read the data.

    Attributes
    ----------
    coef : ndarray of shape (n_cols,), float64
        Its coefficients.
    shift : float
        Its free intercept.
    margins : array of shape (n_rows,), float64
        X coef.
    loss : float
        Over the rows of the engine.
    slopes : ndarray of shape (n_cols,), float64
        X^T of the loss's derivatives.
    """

    coef: np.ndarray
    shift: float
    margins: Any
    loss: float
    slopes: np.ndarray


class PackedColumns:
    """Some columns of a store in memory, as a shard of their own.

    Attributes
    ----------
    columns : ndarray
        Sorted numbers, without the constant column.
    places : ndarray
        Where their coefficients are among all; with the constant column's.
    engine : CpuColumnEngine
        On the packed rows.
    """

    def __init__(
        self, problem: Problem, dataset: Dataset, columns: np.ndarray, places: np.ndarray, n: int
    ) -> None:
        self.columns, self.places = columns, places
        self.engine = CpuColumnEngine(problem, dataset, n_threads=n)

    def serves(self, columns: np.ndarray) -> bool:
        """Return whether all of `columns` are among these."""
        return bool(np.isin(columns, self.places, assume_unique=True).all())


class StreamedColumns(HostLosses):
    """A shard of rows that are read chunk by chunk (protocol `ColumnEngine`, but working sets).

    Labels, weights and what descent has for each row stay in memory; chunks that the matrix keeps
    are not read again.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        With a `ChunkedMatrix`, whose memory packed columns share.
    n_threads : int or None, default=None
        Threads to use; None means all available. One more reads ahead.

    Raises
    ------
    TypeError
        If the matrix is another.

    Attributes
    ----------
    n_reads : int
        How often the store was read, from its first row to its last.
    packed_limit : int
        Bytes that packed columns may take: never less than a chunk has.
    """

    def __init__(self, problem: Problem, dataset: Dataset, *, n_threads: int | None = None) -> None:
        if not isinstance(dataset.matrix, ChunkedMatrix):
            raise TypeError(f"expected a ChunkedMatrix, got {type(dataset.matrix).__name__}")
        super().__init__(problem, dataset, n_threads)
        self._matrix = dataset.matrix
        self.dtype, self.n_stored = self._matrix.dtype, self._matrix.n_stored
        self.packed_limit = self._matrix.share_memory()
        self.n_reads = 0
        self.packed: PackedColumns | None = None
        self._moments: tuple[np.ndarray, np.ndarray] | None = None
        self._counts: np.ndarray | None = None
        self._asked: StreamedGram | None = None
        self._foreseen: np.ndarray | None = None

    @property
    def description(self) -> str:
        """Threads, and how many chunks stay in memory."""
        chunks = f"{self._matrix.n_resident} of {self._matrix.n_chunks} chunks in memory"
        return f"{super().description}, {chunks}"

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return self._matrix.is_sparse

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return X coef: from packed columns where they are all it takes, else by one read.

        Parameters
        ----------
        coef : ndarray of shape (n_cols,), float64
            One number per column.

        Returns
        -------
        ndarray of shape (n_rows,), float64
            The margins without a free intercept.
        """
        if self.packed is not None and self.packed.serves(np.flatnonzero(coef)):
            return self.packed.engine.product(coef[self.packed.places])
        out = np.empty(self.n_rows)
        own = np.ascontiguousarray(coef[: self.n_features], dtype=np.float64)
        for rows, _, native in self._chunks():
            _native.product(self.pool, native, own, out[rows])
        if self.tau:
            out += self.tau * coef[-1]
        return out

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        """Return X^T vector by one read, which also fills what `gram_of` has asked for.

        Parameters
        ----------
        vector : ndarray of shape (n_rows,), float64
            One number per row.

        Returns
        -------
        ndarray of shape (n_cols,), float64
            One sum per column.
        """
        if self._foreseen is not None:
            sums, self._foreseen = self._foreseen, None
            return sums
        sums, own = np.zeros(self.n_features), np.empty((self.n_threads, self.n_features))
        facts = None if self._counts is not None else _Facts(self)
        gram, self._asked = self._asked, None
        for rows, matrix, native in self._chunks():
            _native.adjoint_product(self.pool, native, vector[rows], own)
            sums += own[0]
            if facts is not None:
                facts.add(rows, matrix, native)
            if gram is not None:
                gram.add(rows, matrix, native)
        if facts is not None:
            self._moments, self._counts = facts.moments(), facts.counts
        if gram is not None:
            gram.is_formed = True
        return np.append(sums, self.tau * vector.sum()) if self.tau else sums

    def look_ahead(
        self,
        coef: np.ndarray,
        step: np.ndarray,
        margins: np.ndarray,
        shift: float,
        columns: np.ndarray | None,
        added: np.ndarray | None,
    ) -> tuple[Ahead, StreamedGram | None]:
        """Read the store once for what a Newton step leads to, and for the next step's model.

        Parameters
        ----------
        coef, step : ndarray of shape (n_cols,), float64
            The present point, and how it would move.
        margins : ndarray of shape (n_rows,), float64
            X coef.
        shift : float
            The free intercept there.
        columns : ndarray or None
            Sorted numbers of the columns whose Gram matrix is formed at the point's curvatures;
            None forms none.
        added : ndarray of shape (n_rows,), float64, or None
            Added to those curvatures.

        Returns
        -------
        ahead : Ahead
            The point. If the fit goes there, `foresee` its slopes.
        gram : StreamedGram or None
            The Gram matrix.
        """
        moved, loss = np.empty(self.n_rows), 0.0
        gradients, curvatures = np.empty(self.n_rows), np.empty(self.n_rows)
        gram = None if columns is None else StreamedGram(self, columns, curvatures)
        own_step = np.ascontiguousarray(step[: self.n_features])
        sums, own = np.zeros(self.n_features), np.empty((self.n_threads, self.n_features))
        for rows, matrix, native in self._chunks():
            z, h = moved[rows], curvatures[rows]
            _native.product(self.pool, native, own_step, z)
            z += margins[rows] + (self.tau * step[-1] if self.tau else 0.0)
            loss += float(self._loss_over(rows, z, shift, gradients[rows], h)[0])
            _native.adjoint_product(self.pool, native, gradients[rows], own)
            sums += own[0]
            if gram is not None:
                h += 0.0 if added is None else added[rows]
                gram.add(rows, matrix, native)
        if gram is not None:
            gram.is_formed = True
        slopes = np.append(sums, self.tau * gradients.sum()) if self.tau else sums
        return Ahead(coef + step, shift, moved, loss, slopes), gram

    @property
    def has_foreseen(self) -> bool:
        """Whether the next `adjoint` takes no read."""
        return self._foreseen is not None

    def foresee(self, slopes: np.ndarray) -> None:
        """Return these slopes when `adjoint` is next asked, for the gradients they are of."""
        self._foreseen = slopes

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sum_i c_i x_ij and sum_i c_i x_ij^2 of every column, as the first read had them.

        Returns
        -------
        sums, squares : ndarray of shape (n_cols,), float64
            Weighted by the row weights; of dense rows.

        Raises
        ------
        RuntimeError
            If the rows were not yet read.
        """
        if self._moments is None:
            raise RuntimeError("expected a read of the rows before, got none")
        return self._moments

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns that row i holds, and its entries in float64.

        Parameters
        ----------
        i : int
            Number of the row.

        Returns
        -------
        columns, entries : ndarray
            Without the constant column.
        """
        row = self._matrix.take(np.array([i]))
        if isinstance(row, DenseMatrix):
            return np.arange(self.n_features), row.values[0].astype(np.float64)
        stored: Any = array_of(row)
        return stored.indices, stored.data.astype(np.float64)

    def working_set(self, columns: np.ndarray) -> WorkingSet:
        """Refuse: `streamed_descent` asks for packed columns, or for Gram matrices."""
        raise TypeError("expected `pack` or `gram_of`, got a working set to hold")

    def bytes_of(self, columns: np.ndarray) -> np.ndarray:
        """Return what each column takes once it is packed.

        Parameters
        ----------
        columns : ndarray
            Numbers, after the first read.

        Returns
        -------
        ndarray of float64
            Bytes.
        """
        own = columns < self.n_features
        if self._counts is None:
            raise RuntimeError("expected a read of the rows before, got none")
        counts = np.where(own, self._counts[np.minimum(columns, self.n_features - 1)], self.n_rows)
        return packed_bytes(self._matrix, counts)

    def pack(self, columns: np.ndarray) -> PackedColumns:
        """Return some columns in memory: those of the last time if they are among them.

        Parameters
        ----------
        columns : ndarray
            Sorted numbers.

        Returns
        -------
        PackedColumns
            Copied by one read.
        """
        if self.packed is not None and self.packed.serves(columns):
            return self.packed
        self.packed = None  # before the next ones need its memory
        own = columns[columns < self.n_features]
        places = np.append(own, self.n_features) if self.tau else own
        assert self._counts is not None
        packer = ColumnPacker(self._matrix, own, int(self._counts[own].sum()))
        for rows, matrix, _ in self._chunks():
            packer.add(rows, matrix)
        dataset = replace(self._dataset, matrix=packer.matrix())
        self.packed = PackedColumns(self.problem, dataset, own, places, self.n_threads)
        return self.packed

    def gram_of(self, columns: np.ndarray, curvatures: np.ndarray) -> StreamedGram:
        """Ask the next read for a Gram matrix.

        Parameters
        ----------
        columns : ndarray
            Sorted numbers.
        curvatures : ndarray of shape (n_rows,), float64
            Of the rows.

        Returns
        -------
        StreamedGram
            To be used once `form` or a read has filled it.
        """
        self._asked = StreamedGram(self, columns, curvatures)
        return self._asked

    def form(self, gram: StreamedGram) -> None:
        """Fill a Gram matrix by one read, unless the last read has.

        Parameters
        ----------
        gram : StreamedGram
            Of this engine.
        """
        self._asked = None
        if gram.is_formed:
            return
        for rows, matrix, native in self._chunks():
            gram.add(rows, matrix, native)
        gram.is_formed = True

    def _chunks(self) -> Iterator[tuple[slice, Matrix, _native.Rows]]:
        """Read the store once."""
        for number, matrix in self._matrix.chunks():
            yield self._matrix.rows_of(number), matrix, native_rows(matrix, self.pool)
        self.n_reads += 1


class _Facts:
    """What the first read of the rows shows of the columns."""

    def __init__(self, engine: StreamedColumns) -> None:
        self._engine = engine
        self.counts = np.zeros(engine.n_features, np.int64)
        self._sums: Any = 0.0 if engine.is_sparse else np.zeros((2, engine.n_features))

    def add(self, rows: slice, matrix: Matrix, native: _native.Rows) -> None:
        engine = self._engine
        if isinstance(matrix, CompressedMatrix):
            self.counts += np.bincount(matrix.indices, minlength=engine.n_features)
            return
        self.counts += rows.stop - rows.start
        own = np.empty((engine.n_threads, 2, engine.n_features))
        _native.column_moments(engine.pool, native, *engine.weights_of(rows), own)
        self._sums += own[0]

    def moments(self) -> tuple[np.ndarray, np.ndarray] | None:
        engine = self._engine
        if engine.is_sparse:
            return None
        sums, squares = self._sums
        if engine.tau:
            total = engine.total_weight
            sums = np.append(sums, engine.tau * total)
            squares = np.append(squares, engine.tau**2 * total)
        return sums, squares
