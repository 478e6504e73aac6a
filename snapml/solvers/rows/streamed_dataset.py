"""Rows of which only a part is in a device's memory: the others are sent there in every pass."""

from __future__ import annotations

import functools
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_matrix

from snapml._lazy import cached_property
from snapml.data import Dataset
from snapml.kernels import CompressedRows, DenseRows, Device, RankedRows
from snapml.kernels.device.chunk_stream import DEVICE_BUFFERS, ChunkStream, Piece
from snapml.kernels.matrices.device_matrix import DeviceMatrix
from snapml.kernels.matrices.ranking import ColumnFacts, rank_type
from snapml.kernels.matrices.row_checks import has_legal_indices
from snapml.kernels.matrices.widen import widened
from snapml.kernels.products.ranked_rows import Ranking
from snapml.problems import Problem
from snapml.solvers.rows.cpu_rows import array_of
from snapml.solvers.rows.device_dataset import DeviceDataset, DeviceTargets, Visit, upload_targets
from snapml.solvers.rows.host_chunks import HostChunks, PieceSize
from snapml.solvers.rows.row_sample import rows_looked_at

__all__ = ["CHUNK_BYTES", "LEAST_PIECE_BYTES", "StreamedDataset", "least_room"]

_logger = logging.getLogger("snapml")
_T = TypeVar("_T")

LEAST_PIECE_BYTES = 2**16
"""Smaller ones, of which a pass over a gigabyte takes 15,000, are not tried."""
CHUNK_BYTES = 2**25
"""Of rows in memory: 0.6 ms of the bus, more than it takes to queue the work on them. A thread
fills them in about 3 ms, which is how long the first copy of a pass has to wait."""
# Of the room for rows, that buffers take at most, unless the least piece needs more.
_BUFFERS_SHARE = 4


def least_room() -> int:
    """Return the bytes of a device's memory that rows take at least where they stream."""
    return DEVICE_BUFFERS * LEAST_PIECE_BYTES


class StreamedDataset(DeviceTargets):
    """One shard of training data: labels and weights on a device, rows partly on the host.

    Parameters
    ----------
    device : Device
        Where work is done.
    problem : Problem
        Says how many outputs the labels belong to.
    dataset : Dataset
        Rows in a store or in memory, labels and row weights.
    room : int
        Bytes of the device's memory that rows may take.

    Raises
    ------
    ValueError
        If indices or offsets lead outside the matrix, or class numbers outside the classes.
    OSError
        If a chunk cannot be read.
    MemoryError
        If the device has no room for the smallest pieces.
    """

    def __init__(self, device: Device, problem: Problem, dataset: Dataset, room: int) -> None:
        self.device, self._problem, self._host = device, problem, dataset
        self.targets = upload_targets(device, problem, dataset)
        n_outputs = self.targets.n_outputs
        self.is_single = n_outputs == 1 and dataset.labels.ndim == 1
        self.n_stored = dataset.matrix.n_stored
        least = max(LEAST_PIECE_BYTES, min(CHUNK_BYTES, room // (2 * _BUFFERS_SHARE)))
        self._chunks = HostChunks(dataset.matrix, least)
        self._size = self._first_size(room)
        self._stream: ChunkStream | None = None
        self._n_wrong = device.xp.zeros(1, np.int32)
        self._ranking: Ranking | None = None
        if self._chunks.is_sparse:
            self._ranking = self._until_it_fits(self._rank)
        self._kept: dict[int, list[tuple[slice, DenseRows | RankedRows]] | None] = {}
        self._kept = dict.fromkeys(range(self._n_kept(room)))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._chunks.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return np.dtype(self._chunks.dtype)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return self._chunks.is_sparse

    @property
    def description(self) -> str:
        """How many chunks are sent in each pass."""
        n_chunks = self._chunks.n_chunks
        n_sent = n_chunks - len(self._kept)
        if n_sent == 0:
            return f", which keeps all {n_chunks} chunks of the rows"
        return f", to which {n_sent} of {n_chunks} chunks of the rows stream in each pass"

    @property
    def kept_share(self) -> float:
        """Share of the stored entries that is not sent in each pass."""
        kept = self._chunks.n_stored[list(self._kept)]
        return float(kept.sum() / max(1, self._chunks.n_stored.sum()))

    def summed(self, visit: Visit) -> Any:
        """Return a sum over all parts; `DeviceDataset.summed` has the parameters.

        Where the device's memory does not suffice, pieces are halved and fewer chunks kept there,
        and the pass begins again.
        """
        return self._until_it_fits(functools.partial(self._summed, visit))

    def take(self, rows: np.ndarray, factor: float | np.ndarray) -> DeviceDataset:
        """Return a copy of some rows on the device, their weights multiplied.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers, on the host.
        factor : float, or ndarray of shape (n_taken,), float64
            For the weights.

        Returns
        -------
        DeviceDataset
            In the order asked for.
        """
        return DeviceDataset.upload(self.device, self._problem, self._host.take(rows, factor))

    def dense_rows(self, rows: Any, columns: Any = None) -> Any:
        """Return rows as a dense array of the device; `DeviceDataset.dense_rows` has more."""
        if isinstance(rows, slice):
            numbers = np.arange(*rows.indices(self.shape[0]))
        else:
            numbers = self.device.to_host(rows)
        taken = self._taken(numbers)
        return DeviceDataset.upload(self.device, self._problem, taken).dense_rows(
            slice(None), columns
        )

    def host_rows(self, rows: np.ndarray | None = None) -> np.ndarray | csr_matrix:
        """Return a copy of some or all rows on the host, in the order asked for."""
        taken = self._taken(np.arange(self.shape[0]) if rows is None else rows)
        return array_of(taken.matrix)

    def _taken(self, rows: np.ndarray) -> Dataset:
        """Return rows on the host: of those that certificates look at, from a copy."""
        numbers, looked_at = self._looked_at
        if len(rows) <= len(numbers):
            places = np.minimum(np.searchsorted(numbers, rows), len(numbers) - 1)
            if (numbers[places] == rows).all():
                return looked_at.take(places, 1.0)
        return self._host.take(rows, 1.0)

    @cached_property
    def _looked_at(self) -> tuple[np.ndarray, Dataset]:
        """The rows that certificates ask for again and again: a read of a store each time."""
        rows = rows_looked_at(self.shape[0])
        return rows, self._host.take(rows, 1.0)

    def _first_size(self, room: int) -> PieceSize:
        """Return the size of pieces whose buffers leave most of the room to chunks that stay."""
        size, chunks = self._chunks.largest, self._chunks
        while chunks.piece_bytes(size) > max(
            LEAST_PIECE_BYTES, room // (DEVICE_BUFFERS * _BUFFERS_SHARE)
        ):
            size = size.halved()
        return size

    def _n_kept(self, room: int) -> int:
        """Return how many chunks have room on the device beside the buffers."""
        chunks, rows = self._chunks, np.diff(self._chunks.bounds)
        sizes = chunks.n_stored * (self.dtype.itemsize if chunks.has_values else 0)
        if chunks.is_sparse:
            sizes = sizes + chunks.n_stored * rank_type(self.shape[1]).itemsize + 8 * (rows + 1)
        left = room - DEVICE_BUFFERS * chunks.piece_bytes(self._size)
        return int(np.searchsorted(np.cumsum(sizes), left, side="right"))

    def _until_it_fits(self, work: Callable[[], _T]) -> _T:
        """Return what `work` does, with smaller and smaller pieces while memory runs out."""
        while True:
            try:
                return work()
            except MemoryError as error:
                if self.device.explained(error) is None or not self._can_shrink():
                    raise
            self._shrink()  # not before the error, and all arrays that it kept alive, are gone

    def _can_shrink(self) -> bool:
        is_small = self._chunks.piece_bytes(self._size) <= LEAST_PIECE_BYTES
        return bool(self._kept) or not is_small

    def _shrink(self) -> None:
        self._stream = None
        if self._chunks.piece_bytes(self._size) > LEAST_PIECE_BYTES:
            self._size = self._size.halved()
        self._kept = dict(list(self._kept.items())[: len(self._kept) // 2])
        self.device.free_unused()
        _logger.warning(
            "%s is short of memory: pieces of %d kB at most, and %d of %d chunks stay there",
            self.device.description,
            self._chunks.piece_bytes(self._size) // 1000,
            len(self._kept),
            self._chunks.n_chunks,
        )

    def _summed(self, visit: Visit) -> Any:
        missing = [k for k in range(self._chunks.n_chunks) if self._kept.get(k) is None]
        kept = deque(found for parts in self._kept.values() for found in parts or ())
        # Work on what stays is queued between the chunks that come: the copies have begun by then.
        share = -(-len(kept) // max(1, len(missing)))
        arriving: list[tuple[slice, DenseRows | RankedRows]] = []
        total = None
        for number, piece in self._pieces(missing):
            stays = number in self._kept
            matrix = self._matrix(piece, stays=stays)
            total = self._add(total, visit, piece.rows, matrix)
            if stays:
                arriving.append((piece.rows, matrix))
                if piece.rows.stop == self._chunks.bounds[number + 1]:
                    self._kept[number], arriving = arriving, []
            del matrix  # or the next piece would meet it in memory
            if piece.rows.start == self._chunks.bounds[number]:
                for _ in range(min(share, len(kept))):
                    total = self._add(total, visit, *kept.popleft())
        while kept:
            total = self._add(total, visit, *kept.popleft())
        if len(self._kept) == self._chunks.n_chunks:
            self._stream = None
        if missing and self.is_sparse and int(self.device.to_host(self._n_wrong)[0]):
            raise ValueError(
                f"column indices must lie in [0, {self.shape[1]}), got others: the rows have "
                "changed since they were read first"
            )
        return total

    def _add(self, total: Any, visit: Visit, rows: slice, matrix: DenseRows | RankedRows) -> Any:
        """Return a sum with what one part adds to it; the first addend becomes it."""
        targets = self.targets_of(rows)
        own = visit(rows, DeviceDataset(self.device, matrix, targets, 0, self.is_single))
        if total is None:
            return own
        total += own
        return total

    def _pieces(self, numbers: list[int]) -> Any:
        """Return an iterator of chunks' numbers and pieces, on the device."""
        if self._stream is None:
            buffers = self._chunks.buffers(self._size)
            self._stream = ChunkStream(self.device, self._chunks.memory_bytes, buffers)
        read = functools.partial(self._chunks.read, size=self._size)
        return self._stream.pieces(read, numbers)

    def _matrix(self, piece: Piece, *, stays: bool) -> DenseRows | RankedRows:
        """Return a piece as kernels take it: over the buffers, or a copy that stays."""
        if self._chunks.storage != "plain":
            return widened(self.device, *piece.arrays)
        if self._ranking is None:
            (values,) = piece.arrays
            return DenseRows(values.copy() if stays else values)
        long_rows = piece.arrays[-1].copy() if stays else piece.arrays[-1]
        rows = self._compressed(piece)
        return self._ranking.ranked(
            self.device, rows, long_rows, self._n_wrong, may_overwrite=not stays
        )

    def _compressed(self, piece: Piece) -> CompressedRows:
        indptr, indices, *values = piece.arrays[:-1]
        if piece.base:
            indptr = indptr - indptr.dtype.type(piece.base)
        given = values[0] if values else None
        return CompressedRows(indptr, indices, given, self.shape[1], 1.0, self.dtype)

    def _rank(self) -> Ranking:
        """Read all rows once to number their columns."""
        has_values = self._chunks.has_values
        facts = ColumnFacts(self.device, self.shape[1], has_values=has_values)
        for number, piece in self._pieces(list(range(self._chunks.n_chunks))):
            rows = self._compressed(piece)
            if not has_legal_indices(self.device, DeviceMatrix(rows)):
                raise ValueError(
                    f"rows {piece.rows.start} to {piece.rows.stop - 1} (chunk {number}): column "
                    f"indices must lie in [0, {self.shape[1]}), got others"
                )
            facts.see(rows)
        return Ranking.of(self.device, facts, 1.0, has_values=has_values)
