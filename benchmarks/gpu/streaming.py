"""Passes over rows that the card has no room for, beside what the bus can carry."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.gpu.data import Shape, logistic
from benchmarks.gpu.measurement import Measurement
from benchmarks.gpu.transfers import wall_s
from snapml.data import (
    ChunkedDataset,
    ChunkedMatrix,
    ChunkWriter,
    CompressedMatrix,
    Dataset,
    DenseMatrix,
)
from snapml.kernels import Device
from snapml.problems import Problem
from snapml.solvers.rows import streamed_dataset
from snapml.solvers.rows.gpu_primal_engine import GpuPrimalEngine

__all__ = ["measure_streaming"]

_ALLOWED_ERROR = 1e-10
# Of the rate of plain copies from pinned memory, that a streamed pass is to reach.
_ASKED = 0.9
_ROOM_SHARE = 0.2
_CHUNK_BYTES = 2**25


def measure_streaming(
    device: Device, shapes: Sequence[Shape], seed: int, copy_bytes: int = 2**25
) -> Iterator[Measurement]:
    """Time passes over streamed rows, and compare their sums with those of rows on the card.

    Parameters
    ----------
    device : Device
        The card.
    shapes : sequence of Shape
        Of the rows.
    seed : int
        Of the random numbers.
    copy_bytes : int, default=2**25
        Of one of the copies that tell what the bus carries.

    Yields
    ------
    Measurement
        Rates in bytes a second, of those that cross the bus; shares that stay; errors.
    """
    rate = _pinned_rate(device, copy_bytes)
    case = f"copies of {copy_bytes:,} bytes from pinned memory"
    yield Measurement("streaming", "the bus", case, rate, "B/s")
    for shape in shapes:
        problem, dataset = logistic(shape, seed)
        expected = _pass(GpuPrimalEngine(problem, dataset, device))
        yield from _of(device, f"{shape}, from memory", problem, dataset, expected, rate)
        with tempfile.TemporaryDirectory() as folder:
            stored = _stored(Path(folder) / "store", dataset)
            case = f"{shape}, from a store in the page cache"
            yield from _of(device, case, problem, stored, expected, rate)


def _of(
    device: Device,
    case: str,
    problem: Problem,
    dataset: Dataset,
    expected: np.ndarray,
    rate: float,
) -> Iterator[Measurement]:
    n_bytes = _row_bytes(dataset)
    data = streamed_dataset.StreamedDataset(device, problem, dataset, int(_ROOM_SHARE * n_bytes))
    engine = GpuPrimalEngine(problem, data, device)
    found = _pass(engine)
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    is_good = error <= _ALLOWED_ERROR
    limit = _ALLOWED_ERROR
    yield Measurement("streaming", "error of a pass", case, error, "", limit, is_good)
    seconds = wall_s(device, partial(_pass, engine))
    yield Measurement("streaming", "share that stays", case, data.kept_share, "")
    sent = (1.0 - data.kept_share) * n_bytes
    is_good = sent / seconds >= _ASKED * rate if "memory" in case else None
    yield Measurement("streaming", "pass, sent", case, sent / seconds, "B/s", rate, is_good)
    yield Measurement("streaming", "pass", case, seconds, "s")


def _pass(engine: GpuPrimalEngine) -> np.ndarray:
    """Return loss and gradient at a point of small numbers, on the host."""
    size = engine.n_outputs, engine.n_features + 1
    coef = engine.to_vectors(np.linspace(-0.1, 0.1, size[1]).reshape(size))
    loss, gradient, _ = engine.fused_pass(coef)
    return np.append(engine.to_host(gradient).ravel(), loss)


def _pinned_rate(device: Device, n_bytes: int, n_copies: int = 16) -> float:
    """Return the rate of copies one after the other, bytes a second."""
    source = device.pinned_empty((n_bytes,), np.dtype(np.uint8))
    source[:] = 1
    target, copies = device.xp.empty(n_bytes, np.uint8), device.copy_stream()
    copies.wait(device.mark())

    def all_copies() -> None:
        for _ in range(n_copies):
            copies.copy(source, target)
        copies.synchronize()

    return n_copies * n_bytes / wall_s(device, all_copies)


def _row_bytes(dataset: Dataset) -> int:
    """Return the bytes of all rows, which are sent where none stays."""
    matrix = dataset.matrix
    if isinstance(matrix, ChunkedMatrix):
        index = matrix.index_dtype.itemsize if matrix.index_dtype is not None else 0
        of_entry = index + (matrix.dtype.itemsize if matrix.has_values else 0)
        return of_entry * matrix.n_stored + (index * (matrix.shape[0] + 1) if index else 0)
    if isinstance(matrix, DenseMatrix):
        return matrix.values.nbytes
    assert isinstance(matrix, CompressedMatrix)  # the only other rows
    arrays = (matrix.indptr, matrix.indices, matrix.values)
    return sum(array.nbytes for array in arrays if array is not None)


def _stored(folder: Path, dataset: Dataset) -> Dataset:
    """Return the dataset with its rows in files that were just written."""
    matrix = dataset.matrix
    with ChunkWriter(folder, chunk_bytes=max(1, min(_CHUNK_BYTES, _row_bytes(dataset) // 9))) as w:
        w.append(matrix.values if isinstance(matrix, DenseMatrix) else matrix)
    return replace(dataset, matrix=ChunkedMatrix(ChunkedDataset.open(folder), 0))
