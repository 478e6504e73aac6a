"""Chunks of the host on their way to a device, while it works on the chunks before them.

Threads read chunks into pinned buffers; from there they are copied, piece by piece, into buffers of
the device, in a stream of its own. What orders all this are marks: kernels come after the copy of
what they read, a copy after the kernels that read its target before, and a pinned buffer is filled
again after the copies from it. The host waits for pinned buffers only.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.device.device import Device, Mark

__all__ = ["DEVICE_BUFFERS", "ChunkStream", "Piece"]

DEVICE_BUFFERS = 2
"""One is worked on while the other is written."""

# One thread reads slower than the bus takes: several do, each its own chunk.
_MOST_STAGES = 12


@dataclass(frozen=True)
class Piece:
    """Neighbouring rows of a chunk.

    Attributes
    ----------
    rows : slice
        Of the whole matrix.
    base : int
        What the first offset of compressed rows holds: how many entries of the chunk come before.
    arrays : tuple of ndarray
        What is copied; of pinned memory on the host, of buffers on the device.
    """

    rows: slice
    base: int
    arrays: tuple[Any, ...]


@dataclass
class _Stage:
    memory: np.ndarray
    is_read: Mark | None = None


@dataclass
class _Buffer:
    arrays: tuple[Any, ...]
    is_free: Mark


class ChunkStream:
    """Buffers for chunks of some size, which serve pass after pass.

    Parameters
    ----------
    device : Device
        Where chunks go.
    stage_bytes : int
        Memory that the largest chunk takes on the host.
    buffers : sequence of (tuple of int, numpy dtype)
        Shape and type of each of a piece's arrays, the largest there are.

    Raises
    ------
    MemoryError
        If the device has no room for the buffers.
    """

    def __init__(
        self, device: Device, stage_bytes: int, buffers: Sequence[tuple[tuple[int, ...], np.dtype]]
    ) -> None:
        self._device = device
        self._copies = device.copy_stream()
        n_stages = max(3, min(_MOST_STAGES, os.cpu_count() or 1))
        byte = np.dtype(np.uint8)
        self._stages = [_Stage(device.pinned_empty((stage_bytes,), byte)) for _ in range(n_stages)]
        self._buffers: deque[_Buffer] = deque()
        for _ in range(DEVICE_BUFFERS):
            arrays = tuple(device.xp.empty(shape, dtype) for shape, dtype in buffers)
            # The memory may have been another array's, which queued work still reads.
            self._buffers.append(_Buffer(arrays, device.mark()))

    def pieces(
        self, read: Callable[[int, np.ndarray], list[Piece]], numbers: Iterable[int]
    ) -> Iterator[tuple[int, Piece]]:
        """Bring chunks to the device, one after the other.

        Parameters
        ----------
        read : callable
            Reads the chunk of a number into the memory that it is given, and returns its pieces
            there. Runs on other threads, on several chunks at once.
        numbers : iterable of int
            Which chunks.

        Yields
        ------
        number : int
            Of the chunk.
        piece : Piece
            With arrays of the device, for work that is queued on the current stream before the
            next step.
        """
        to_read = iter(numbers)
        pending: deque[tuple[int, _Stage, Future[list[Piece]]]] = deque()
        readers = ThreadPoolExecutor(len(self._stages), "snapml-chunks")

        def read_ahead(stage: _Stage) -> None:
            number = next(to_read, None)
            if number is not None:
                reading = readers.submit(self._filled, read, number, stage)
                pending.append((number, stage, reading))

        try:
            for stage in self._stages:
                read_ahead(stage)
            while pending:
                number, stage, reading = pending.popleft()
                for piece in reading.result():
                    try:
                        yield number, self._sent(piece)
                    finally:
                        self._buffers[-1].is_free = self._device.mark()
                stage.is_read = self._copies.mark()
                read_ahead(stage)
        finally:
            readers.shutdown(cancel_futures=True)
            # However the pass ends, no copy is left that reads or writes a buffer.
            self._copies.synchronize()

    def _filled(
        self, read: Callable[[int, np.ndarray], list[Piece]], number: int, stage: _Stage
    ) -> list[Piece]:
        if stage.is_read is not None:
            stage.is_read.synchronize()
        return read(number, stage.memory)

    def _sent(self, piece: Piece) -> Piece:
        """Queue the copies of a piece into the buffer that was used longest ago."""
        buffer = self._buffers[0]
        self._buffers.rotate(-1)  # it is the last now
        self._copies.wait(buffer.is_free)
        targets = []
        for source, whole in zip(piece.arrays, buffer.arrays, strict=True):
            targets.append(whole[: len(source)])
            if len(source):
                self._copies.copy(source, targets[-1])
        self._device.wait(self._copies.mark())
        return Piece(piece.rows, piece.base, tuple(targets))
