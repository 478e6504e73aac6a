"""Compressed rows with their columns numbered by frequency, and launches of ranked_rows.cu."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from snapml.kernels.device.device import Argument, Device
from snapml.kernels.device.launch_shape import WARP, filling_grid, types_of
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices import ranking
from snapml.kernels.matrices.layouts import CompressedRows, check_array

__all__ = ["TEAM_ENTRIES", "RankedRows", "Ranking", "program", "ranked_margins", "ranked_products"]

# One block a multiprocessor, with all its shared memory: what is gained by more columns in it is
# more than two blocks' overlap, as long as its threads have enough reads on their way.
MOST_THREADS = 1024  # kMaxThreads of ranked_rows.cu
_LEAST_THREADS = 128
# Entries of an average row that one thread takes, at least: teams of more threads idle at its end.
_ENTRIES_EACH = 4
TEAM_ENTRIES = MOST_THREADS
"""Longer rows are taken by whole blocks: shorter ones leave threads of it without an entry."""
# No device's shared memory holds more 32-bit numbers.
MOST_HOT = 2**16


@functools.cache
def program(real: np.dtype, wide: np.dtype, rank: np.dtype) -> Program:
    """Return ranked_rows.cu for types of entries, of sums within a row, and of ranks."""
    return Program("ranked_rows", tuple(types_of(real, wide, rank).items()))


@dataclass(frozen=True)
class Ranking:
    """The columns of a matrix numbered by frequency.

    Attributes
    ----------
    column_of : array of shape (n_cols + 1,), int64
        Column of each rank, and the intercept's at the end.
    rank_of : array of shape (n_cols,), the type of the ranks
        The inverse.
    scales : array of shape (n_cols + 1,), float64, or None
        What the values of each column must be multiplied by, 1 for the intercept's: a power of two,
        so that nothing is rounded, or the constant of rows without values. None means 1.
    factors : array of shape (n_cols,), float64, or None
        What the values were multiplied by before; None without values.
    counts : ndarray of int64
        Entries of the first ranks, at most; never increasing. Those of all further ranks are no
        more than the last.
    is_finite : bool
        Whether all values are numbers.
    """

    column_of: Any
    rank_of: Any
    scales: Any
    factors: Any
    counts: np.ndarray
    is_finite: bool

    @classmethod
    def of(
        cls, device: Device, facts: ranking.ColumnFacts, constant: float, *, has_values: bool
    ) -> Ranking:
        """Return the ranking of columns of which all entries were seen.

        Parameters
        ----------
        device : Device
            Where the rows are.
        facts : ColumnFacts
            What was seen.
        constant : float
            Of rows without values.
        has_values : bool
            Whether entries have values.

        Returns
        -------
        Ranking
            For these rows, and for all parts of them.
        """
        xp, counts = device.xp, facts.counts
        n_cols = len(counts)
        order = xp.argsort(-counts, kind="stable")
        rank_of = xp.empty(n_cols, ranking.rank_type(n_cols))
        rank_of[order] = xp.arange(n_cols, dtype=rank_of.dtype)
        largest = facts.largest() if has_values else None
        scales, factors = _scales(n_cols, constant, largest)
        return cls(
            xp.concatenate((order, xp.full(1, n_cols, np.int64))),
            rank_of,
            None if scales is None else device.to_device(scales),
            None if factors is None else device.to_device(factors),
            device.to_host(counts[order[: MOST_HOT + 1]]),
            largest is None or bool(np.isfinite(largest).all()),
        )

    def ranked(
        self,
        device: Device,
        rows: CompressedRows,
        long_rows: Any,
        n_wrong: Any,
        *,
        may_overwrite: bool,
    ) -> RankedRows:
        """Return rows of these columns with ranks in the place of the columns; nothing waits.

        Parameters
        ----------
        device : Device
            Where the rows are.
        rows : CompressedRows
            All rows, or a part of them.
        long_rows : array of int64
            As of `RankedRows`.
        n_wrong : array of shape (1,), int32
            Counts the entries whose column does not exist; they are given to another.
        may_overwrite : bool
            Whether `rows` may be destroyed to save memory.

        Returns
        -------
        RankedRows
            The same matrix.
        """
        ranks, values = ranking.rank_entries(
            device, rows, self.rank_of, self.factors, n_wrong, may_overwrite=may_overwrite
        )
        indptr = rows.indptr.astype(np.int64, copy=not may_overwrite)
        return RankedRows(
            CompressedRows(indptr, ranks, values, rows.n_cols, 1.0, rows.dtype),
            self.column_of,
            self.rank_of,
            self.scales,
            np.minimum(self.counts, len(rows.indices)),
            long_rows,
            self.is_finite,
        )


@dataclass(frozen=True)
class RankedRows:
    """Rows whose entries hold the ranks of their columns; outside, columns keep their numbers.

    Attributes
    ----------
    rows : CompressedRows
        ``indptr`` int64; ``indices`` are ranks, 0 for the column with most entries; ``values`` are
        below 2 in magnitude, and mostly at most 1.
    column_of : array of shape (n_cols + 1,), int64
        Column of each rank, and the intercept's at the end.
    rank_of : array of shape (n_cols,), the type of the ranks
        The inverse.
    scales : array of shape (n_cols + 1,), float64, or None
        What the values of each column must be multiplied by, 1 for the intercept's: a power of two,
        so that nothing is rounded, or the constant of rows without values. None means 1.
    counts : ndarray of int64
        Entries of the first ranks, at most; never increasing. Those of all further ranks are no
        more than the last.
    long_rows : array of int64
        Rows that whole blocks take.
    is_finite : bool
        Whether all values are numbers.
    """

    rows: CompressedRows
    column_of: Any
    rank_of: Any
    scales: Any
    counts: np.ndarray
    long_rows: Any
    is_finite: bool

    @classmethod
    def make(
        cls, device: Device, rows: CompressedRows, *, may_overwrite: bool = False
    ) -> RankedRows:
        """Return rows with their columns numbered by frequency, made on the device.

        Parameters
        ----------
        device : Device
            Where the rows are.
        rows : CompressedRows
            Rows with legal indices, of which a column may occur twice.
        may_overwrite : bool, default=False
            Whether `rows` may be destroyed to save memory.

        Returns
        -------
        RankedRows
            The same matrix.
        """
        has_values = rows.values is not None
        facts = ranking.ColumnFacts(device, rows.n_cols, has_values=has_values)
        facts.see(rows)
        made = Ranking.of(device, facts, rows.constant, has_values=has_values)
        n_wrong = device.xp.zeros(1, np.int32)  # none is, as was promised
        long_rows = _long_rows(device, rows.indptr)
        return made.ranked(device, rows, long_rows, n_wrong, may_overwrite=may_overwrite)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return np.dtype(self.rows.dtype)

    def with_rows(self, device: Device, rows: CompressedRows) -> RankedRows:
        """Return other rows of the same columns, which hold ranks too."""
        counts = np.array([len(rows.indices)], np.int64)  # a row may have been taken twice
        return replace(self, rows=rows, counts=counts, long_rows=_long_rows(device, rows.indptr))

    def unranked(self, device: Device, entries: Any = slice(None)) -> tuple[Any, Any]:
        """Return column (int64) and value of entries, all or some, as they were given."""
        columns, values = self.column_of[self.rows.indices[entries]], self.rows.values
        if values is None:
            values = device.xp.full(len(columns), 1.0, self.dtype)
        else:
            values = values[entries]
        if self.scales is not None:
            values = (values * self.scales[columns]).astype(self.dtype)
        return columns, values


def ranked_margins(
    device: Device,
    matrix: RankedRows,
    coef: Any,
    bias_column: float,
    out: Any = None,
    *,
    most_hot: int = MOST_HOT,
) -> Any:
    """Return the margins of every row and output; `rows.margins` has the parameters.

    At most `most_hot` columns are kept in shared memory, which changes nothing but the time.
    """
    xp, (n_rows, n_cols) = device.xp, matrix.shape
    check_array("coef", coef, (np.float32, np.float64), (None, n_cols + 1))
    wide = np.dtype(coef.dtype)
    scaled = coef if matrix.scales is None else (coef * matrix.scales).astype(wide, copy=False)
    ranked = xp.ascontiguousarray(scaled[:, matrix.column_of])
    out = xp.empty((coef.shape[0], n_rows), np.float64) if out is None else out
    check_array("out", out, (np.float64,), (coef.shape[0], n_rows))
    point = (ranked, np.float64(bias_column), out)
    size = wide.itemsize
    launch = _Launch.make(device, matrix, wide, "ranked_margins", (most_hot, size, size * WARP))
    launch.run(coef.shape[0], point)
    return out


def ranked_products(
    device: Device,
    matrix: RankedRows,
    vectors: Any,
    out: Any,
    *,
    is_squared: bool = False,
    most_hot: int = MOST_HOT,
) -> None:
    """Multiply every column, or the squares of its entries, with every vector.

    Equal calls give equal bits.

    Parameters
    ----------
    device : Device
        Where the rows are.
    matrix : RankedRows
        The rows.
    vectors : array of shape (n_vectors, n_rows), float64
        The vectors. What is not finite in one makes all its products NaN.
    out : array of shape (n_vectors, n_cols + 1), float64
        Receives the products; the last column is left alone.
    is_squared : bool, default=False
        Whether to square the entries.
    most_hot : int, default=MOST_HOT
        Columns to add up in shared memory, at most.
    """
    n_rows, n_cols = matrix.shape
    check_array("vectors", vectors, (np.float64,), (None, n_rows))
    check_array("out", out, (np.float64,), (vectors.shape[0], n_cols + 1))
    if n_cols == 0:
        return
    if not matrix.is_finite:
        out[:, :n_cols] = np.nan
        return
    largest = ranking.largest_magnitudes(device, vectors)
    words = device.xp.zeros((vectors.shape[0], n_cols), np.int64)
    wide = np.dtype(np.float64)
    launch = _Launch.make(device, matrix, wide, "ranked_products", (most_hot, 8, 0))
    scale = (largest, *launch.count_bits())
    launch.run(len(vectors), (vectors, np.int64(is_squared), *scale, words))
    ranking.sums(device, words, matrix.rank_of, launch.n_hot, scale, out)
    if matrix.scales is not None:
        scales = matrix.scales[:n_cols]
        out[:, :n_cols] *= scales * scales if is_squared else scales


@dataclass(frozen=True)
class _Launch:
    """A kernel of ranked_rows.cu, its grid, and how many columns each block keeps."""

    device: Device
    matrix: RankedRows
    kernel: Kernel
    grid: tuple[int]
    n_threads: int
    n_hot: int
    shared_bytes: int

    @classmethod
    def make(
        cls,
        device: Device,
        matrix: RankedRows,
        wide: np.dtype,
        name: str,
        memory: tuple[int, int, int],
    ) -> _Launch:
        """Shape a launch; `memory`: most hot columns, bytes of each, other bytes of a block."""
        most_hot, each, more = memory
        n_rows, n_cols = matrix.shape
        rows, n_blocks = matrix.rows, device.n_multiprocessors
        n_stored = len(rows.indices)
        kernel = Kernel(program(matrix.dtype, wide, np.dtype(rows.indices.dtype)), name)
        room = (device.shared_bytes_per_block - more) // each
        # No more than a block has entries: filling the memory would cost more than it saves.
        n_hot = max(0, min(n_cols, most_hot, room, n_stored // n_blocks))
        lanes = _team_lanes(n_stored, n_rows)
        n_threads = MOST_THREADS
        while n_threads > _LEAST_THREADS and n_rows * lanes < n_blocks * n_threads:
            n_threads //= 2
        shared_bytes = more + each * n_hot
        n_units = max(-(-n_rows * lanes // n_threads), len(matrix.long_rows))
        grid = filling_grid(device, kernel, n_units, n_threads, shared_bytes)
        return cls(device, matrix, kernel, grid, n_threads, n_hot, shared_bytes)

    def count_bits(self) -> tuple[Argument, Argument]:
        """Return how many bits the counts of hot columns have, and those of others."""
        counts = self.matrix.counts
        first_cold = counts[min(self.n_hot, len(counts) - 1)]
        hot, cold = (int(count).bit_length() for count in (counts[0], first_cold))
        return np.int64(hot), np.int64(cold)

    def run(self, n_vectors: int, args: tuple[Argument, ...]) -> None:
        """Launch a grid for each vector, with what follows the rows' arguments."""
        rows, long_rows = self.matrix.rows, self.matrix.long_rows
        n_rows, n_cols = rows.shape
        lanes = _team_lanes(len(rows.indices), n_rows)
        first = (rows.indptr, rows.indices, rows.values, np.int64(n_rows), long_rows)
        sizes = (len(long_rows), TEAM_ENTRIES, lanes, n_cols, self.n_hot)
        all_args = (*first, *map(np.int64, sizes), *args)
        grid = (*self.grid, n_vectors)
        self.device.launch(self.kernel, grid, (self.n_threads,), all_args, self.shared_bytes)


def _team_lanes(n_stored: int, n_rows: int) -> int:
    """Return how many threads share an average row: a power of two, at most a warp."""
    return 1 << min(5, max(1, n_stored // (max(1, n_rows) * _ENTRIES_EACH)).bit_length() - 1)


def _long_rows(device: Device, indptr: Any) -> Any:
    return device.xp.flatnonzero(device.xp.diff(indptr) > TEAM_ENTRIES)


def _scales(
    n_cols: int, constant: float, largest: np.ndarray | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return what scales columns back, the intercept's too, and the factors of the values."""
    if largest is None:
        if constant == 1.0:
            return None, None
        return np.append(np.full(n_cols, constant), 1.0), None
    exponents = np.where(np.isfinite(largest), np.frexp(largest)[1], 0).clip(-1022, 1023)
    return np.append(np.ldexp(1.0, exponents), 1.0), np.ldexp(1.0, -exponents)
