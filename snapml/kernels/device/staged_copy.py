"""Large arrays of the host to a device, through pinned memory.

From pageable memory the driver copies on one thread into buffers of its own, and only then over the
bus. Here several threads fill one pinned buffer while the device reads the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["LEAST_STAGED_BYTES", "copy_staged"]

LEAST_STAGED_BYTES = 2**26
"""From here on the copy is worth threads and a stream: some 10 ms of the driver's own way."""

# Of a buffer: long enough that starting the threads costs little beside, and soon pinned. CuPy's
# pool keeps the two.
_LEAST_STAGE_BYTES, _MOST_STAGE_BYTES = 2**24, 2**26
_PIECES = 8  # of the smallest arrays, so that the device reads while the host fills
_MOST_THREADS = 12


def copy_staged(cupy: Any, array: np.ndarray, target: Any) -> None:
    """Copy an array of the host; the copy is complete, and no buffer in use, on return.

    Parameters
    ----------
    cupy : module
        ``cupy``, with the target's device the current one.
    array : ndarray
        Any strides; no copy of all of it is made unless its first axis has few, huge elements.
    target : array of the device
        C-contiguous, of the same shape and dtype. Its memory may be in use by work that is queued
        on the current stream.

    Raises
    ------
    cupy.cuda.runtime.CUDARuntimeError
        If memory cannot be pinned; nothing has been copied then.
    """
    stage_bytes = min(_MOST_STAGE_BYTES, max(_LEAST_STAGE_BYTES, array.nbytes // _PIECES))
    stage_bytes -= stage_bytes % array.itemsize
    memory = [cupy.cuda.alloc_pinned_memory(stage_bytes) for _ in range(2)]
    count = stage_bytes // array.itemsize
    stages = [np.frombuffer(pinned, array.dtype, count) for pinned in memory]
    is_read = [cupy.cuda.Event(block=True, disable_timing=True) for _ in stages]
    queued = cupy.cuda.Event(disable_timing=True)
    queued.record(cupy.cuda.get_current_stream())
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(queued)
    flat, first = target.reshape(-1), 0
    n_threads = min(_MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(n_threads) as threads:
        try:
            for number, piece in enumerate(_pieces(array, count)):
                stage, event = stages[number % 2][: piece.size], is_read[number % 2]
                event.synchronize()  # one that was never recorded is over
                _fill(stage.reshape(piece.shape), piece, threads, n_threads)
                flat[first : first + piece.size].set(stage, stream)
                event.record(stream)
                first += piece.size
        finally:
            stream.synchronize()  # an interrupt, too, leaves no copy that reads the buffers


def _pieces(array: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Yield views of neighbouring elements, at most `count` at a time, in C order."""
    row = array[:1].size
    if array.flags.c_contiguous or row > count:
        array, row = np.ascontiguousarray(array).reshape(-1), 1
    step = count // row
    for first in range(0, len(array), step):
        yield array[first : first + step]


def _fill(
    stage: np.ndarray, piece: np.ndarray, threads: ThreadPoolExecutor, n_threads: int
) -> None:
    """Copy a piece, a part of it on each thread: NumPy copies without the interpreter's lock."""
    bounds = np.linspace(0, len(piece), n_threads + 1).astype(np.int64).tolist()
    parts = [slice(*bound) for bound in pairwise(bounds)]
    copies = [threads.submit(np.copyto, stage[part], piece[part]) for part in parts]
    for copy in copies:
        copy.result()
