"""Shards of one process, each on a thread of its own: one for every device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from snapml.data import ChunkedMatrix, CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.kernels import Device
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.result import FitResult

__all__ = ["dealt_rows", "row_shards", "rows_of", "solve_together"]

# Neighbouring sparse rows that go to the same shard, and blocks that each shard gets, at least: to
# copy a block costs less than to look up each of its rows.
_MOST_DEALT, _LEAST_BLOCKS = 1024, 64


def row_shards(dataset: Dataset, n_shards: int) -> list[Dataset]:
    """Return neighbouring rows in shards of about equal size, without copying them.

    Those of a store are whole chunks.

    Parameters
    ----------
    dataset : Dataset
        The rows.
    n_shards : int
        How many; fewer if there are fewer rows.

    Returns
    -------
    list of Dataset
        In the order of the rows.
    """
    matrix = dataset.matrix
    if isinstance(matrix, ChunkedMatrix):
        parts: list[Matrix] = list(matrix.split(n_shards))
    else:
        n_rows = matrix.shape[0]
        n_shards = max(1, min(n_shards, n_rows))
        bounds = [n_rows * k // n_shards for k in range(n_shards + 1)]
        parts = [_rows_of(matrix, first, last) for first, last in pairwise(bounds)]
    shards, last = [], 0
    for matrix in parts:
        first, last = last, last + matrix.shape[0]
        shards.append(dataset.of_rows(matrix, slice(first, last)))
    return shards


def dealt_rows(dataset: Dataset, n_shards: int) -> list[slice | np.ndarray]:
    """Return which rows each shard gets where they are dealt out like cards.

    Shards of neighbouring rows differ where rows are sorted: by label, say. The sum of what their
    coordinate ascents change is then far from what each of them expects; on sparse rows sorted by
    label two such shards took 1,083 epochs where dealt ones took 29.

    Parameters
    ----------
    dataset : Dataset
        The rows.
    n_shards : int
        How many; fewer if there are fewer rows.

    Returns
    -------
    list of slice or ndarray of int64
        Row numbers of each shard: every so many-th row of a dense matrix, which needs no copy;
        blocks of neighbouring rows of a sparse one.
    """
    n_rows = dataset.matrix.shape[0]
    n_shards = max(1, min(n_shards, n_rows))
    block = min(_MOST_DEALT, n_rows // (_LEAST_BLOCKS * n_shards))
    if block <= 1 or isinstance(dataset.matrix, DenseMatrix):
        return [slice(k, None, n_shards) for k in range(n_shards)]
    turn = np.arange(n_rows) // block % n_shards
    return [np.flatnonzero(turn == k) for k in range(n_shards)]


def rows_of(dataset: Dataset, rows: slice | np.ndarray) -> Dataset:
    """Return some rows: a view of dense ones in a slice, else a copy.

    Parameters
    ----------
    dataset : Dataset
        All rows.
    rows : slice or ndarray of int64
        Which.

    Returns
    -------
    Dataset
        With contiguous labels, weights and offsets.
    """
    matrix = dataset.matrix
    if isinstance(matrix, DenseMatrix):
        taken: Matrix = DenseMatrix(matrix.values[rows])
    else:
        taken = _blocks_of(matrix, np.arange(matrix.shape[0])[rows])
    own = dataset.of_rows(taken, rows)
    weights, offsets = (
        None if array is None else np.ascontiguousarray(array)
        for array in (own.row_weights, own.offsets)
    )
    labels = np.ascontiguousarray(own.labels)
    return replace(own, labels=labels, row_weights=weights, offsets=offsets)


def solve_together(
    solves: Sequence[Callable[[Communicator], FitResult]],
    devices: Sequence[Device] = (),
    others: Communicator | None = None,
) -> list[FitResult]:
    """Run one solver a shard, on as many threads, and return what they return.

    Ctrl-C reaches the caller's thread, which has the first shard. The others end at their next sum:
    after the read of their rows that they are in.

    Parameters
    ----------
    solves : sequence of callable
        Each solves the same problem on its shard; all of them return the same model.
    devices : sequence of Device, default=()
        Where each shard's arrays live that are not of the host, if there are any: one device a
        shard, or the same one for several. Equal bits on all take devices of one model.
    others : Communicator or None, default=None
        Processes that have shards too. Shards are added up within this process first; where there
        are `devices`, `others` adds up arrays of the first one.

    Returns
    -------
    list of FitResult
        In the order of the shards.

    Raises
    ------
    BaseException
        What a shard raised; the others have ended when it leaves here.
    """
    others = SerialCommunicator() if others is None else others
    counts = others.exchange(len(solves))
    meeting = _Meeting(len(solves), sum(counts[: others.rank]), sum(counts), others)
    results: dict[int, FitResult] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            device = devices[rank] if devices else None
            results[rank] = solves[rank](_ThreadCommunicator(rank, meeting, device))
        except BaseException as error:
            errors.append(error)
            meeting.leave()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(1, len(solves))]
    try:
        for thread in threads:
            thread.start()
        run(0)
        _join(threads)
    except BaseException as error:  # between the shards' own code
        errors.append(error)
        meeting.leave()
        _join(threads)
    meeting.forget()  # `run` knows it, and whoever keeps an error keeps `run`
    if not errors:
        return [results[rank] for rank in range(len(solves))]
    try:
        raise min(errors, key=_consequence)
    finally:
        errors.clear()  # an error that its own traceback leads to would live until a collection


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        if thread.ident is not None:  # it was started
            thread.join()


class _Lost(RuntimeError):
    """Another shard has ended with an error, and will not come to the next sum."""


class _Meeting:
    """Where the shards lay down what each of them has.

    What all have come to is handed out even where one of them fails right after: its cause then
    shows in every shard that has one, and not as a broken wait.
    """

    def __init__(self, size: int, first: int, n_all: int, others: Communicator) -> None:
        self.size, self.first, self.n_all = size, first, n_all
        self.others = others
        self._change = threading.Condition()
        self._laid_down: list[Any] = [None] * size
        self._n_arrived = self._n_meetings = 0
        self._has_lost = False
        self._made: Any = None

    def meet(self, rank: int, own: Any, make: Callable[[list[Any]], Any]) -> Any:
        """Return what the last to come makes of what all have laid down, in the order of ranks."""
        with self._change:
            n_before = self._n_meetings
            self._laid_down[rank] = own
            self._n_arrived += 1
            if self._n_arrived == self.size:
                self._made = make(self._laid_down)
                self._laid_down = [None] * self.size
                self._n_arrived, self._n_meetings = 0, n_before + 1
                self._change.notify_all()
            self._change.wait_for(lambda: self._n_meetings > n_before or self._has_lost)
            if self._n_meetings == n_before:
                raise _Lost("another shard of this fit has failed")
            return self._made  # nobody can complete the next meeting before this line

    def leave(self) -> None:
        """Send those home who wait for this shard."""
        with self._change:
            self._has_lost = True
            self._change.notify_all()

    def forget(self) -> None:
        """Drop what was laid down, arrays of devices among it, when all have gone home."""
        self._laid_down, self._made = [], None


class _ThreadCommunicator:
    """One shard's end of a meeting (protocol `Communicator`)."""

    def __init__(self, place: int, meeting: _Meeting, device: Device | None) -> None:
        self.rank = meeting.first + place
        self.size = meeting.n_all
        self._place = place
        self._meeting = meeting
        self._device = device

    description = "shards of one process"

    def with_device(self, device: Device) -> _ThreadCommunicator:
        """Return itself: each shard was given its device."""
        return self

    def allreduce_sum(self, array: Any) -> Any:
        """Return the sum over all shards, where the array is; every shard gets the same bits."""
        if isinstance(array, np.ndarray):
            return self._meeting.meet(self._place, array, self._sum_of_all).copy()
        if self._device is None:
            raise TypeError(f"expected an array of the host, got {type(array)}")
        if self._meeting.others.size > 1:
            return self._sum_with_others(self._device, array)
        return self._sum_on(self._device, array)

    def exchange(self, value: Any) -> list[Any]:
        """Return what all shards have laid down, in the order of ranks."""
        found: list[Any] = self._meeting.meet(self._place, value, self._all_of)
        return list(found)

    def _sum_of_all(self, addends: list[np.ndarray]) -> Any:
        return self._meeting.others.allreduce_sum(_sum(addends))

    def _all_of(self, values: list[Any]) -> list[Any]:
        return [value for own in self._meeting.others.exchange(values) for value in own]

    def _sum_on(self, device: Device, array: Any) -> Any:
        """Return the sum on this shard's device, which fetches the others' addends itself.

        CUDA orders the work of one stream only: an addend is complete before others hear of it,
        and stays until all of them have read it.
        """
        addends = self._lay_down(device, device.xp.ascontiguousarray(array))
        total = _sum_of_copies(device, addends)
        device.synchronize()
        self._meeting.meet(self._place, None, list)
        return total

    def _sum_with_others(self, device: Device, array: Any) -> Any:
        """Return the sum over the shards of all processes; the first one here speaks to those."""
        addends = self._lay_down(device, device.xp.ascontiguousarray(array))
        total = None
        if self._place == 0:
            total = self._meeting.others.allreduce_sum(_sum_of_copies(device, addends))
        found = self._lay_down(device, total)[0]
        if self._place > 0:
            total = device.copy_of(found)
            device.synchronize()
        self._meeting.meet(self._place, None, list)
        return total

    def _lay_down(self, device: Device, own: Any) -> list[Any]:
        device.synchronize()
        return list(self._meeting.meet(self._place, own, list))


def _sum_of_copies(device: Device, addends: list[Any]) -> Any:
    total = device.copy_of(addends[0])
    for addend in addends[1:]:
        total += device.copy_of(addend)
    return total


def _sum(addends: list[np.ndarray]) -> np.ndarray:
    total = addends[0].copy()
    for addend in addends[1:]:
        total += addend
    return total


def _consequence(error: BaseException) -> int:
    """Return how far an error is from its cause: other shards see NaN in sums, or nobody come."""
    if not isinstance(error, Exception):
        return 0  # KeyboardInterrupt: whatever else failed meanwhile
    if isinstance(error, NonFiniteError):
        return 1
    return 3 if isinstance(error, _Lost) else 2


def _rows_of(matrix: Matrix, first: int, last: int) -> Matrix:
    if isinstance(matrix, DenseMatrix):
        return DenseMatrix(matrix.values[first:last])
    return _compressed_rows_of(matrix, first, last)


def _compressed_rows_of(matrix: Matrix, first: int, last: int) -> CompressedMatrix:
    if not isinstance(matrix, CompressedMatrix):
        raise TypeError(f"expected a DenseMatrix or CompressedMatrix, got {type(matrix).__name__}")
    stored = slice(int(matrix.indptr[first]), int(matrix.indptr[last]))
    return CompressedMatrix(
        matrix.indptr[first : last + 1] - matrix.indptr[first],
        matrix.indices[stored],
        matrix.n_features,
        None if matrix.values is None else matrix.values[stored],
        matrix.dtype,
    )


def _blocks_of(matrix: Matrix, rows: np.ndarray) -> CompressedMatrix:
    """Return a copy of rows, of which neighbours come together: one memory copy for each run."""
    if not isinstance(matrix, CompressedMatrix):
        raise TypeError(f"expected a DenseMatrix or CompressedMatrix, got {type(matrix).__name__}")
    if len(rows) == 0:
        return _compressed_rows_of(matrix, 0, 0)
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    firsts = rows[np.append(0, breaks)]
    lasts = rows[np.append(breaks, len(rows)) - 1] + 1
    begins, ends = matrix.indptr[firsts].tolist(), matrix.indptr[lasts].tolist()
    runs = [slice(first, last) for first, last in zip(begins, ends, strict=True)]
    indptr = np.zeros(len(rows) + 1, matrix.indptr.dtype)
    np.cumsum(matrix.indptr[rows + 1] - matrix.indptr[rows], out=indptr[1:])
    indices = np.concatenate([matrix.indices[run] for run in runs])
    values = None
    if matrix.values is not None:
        values = np.concatenate([matrix.values[run] for run in runs])
    return CompressedMatrix(indptr, indices, matrix.n_features, values, matrix.dtype)
