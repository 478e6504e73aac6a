"""Launch of dense_rounds.cu: epochs of dual coordinate ascent that read dense rows once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.device.device import Argument, Device
from snapml.kernels.device.launch_shape import WARP
from snapml.kernels.device.program import Kernel, Program, loss_macros
from snapml.kernels.matrices.device_matrix import layout_macros
from snapml.kernels.sums.shared_vector import FixedVector

__all__ = ["DenseRoundsShape", "dense_rounds", "program"]

_MOST_THREADS = 512  # kMaxThreads of dense_rounds.cu
_ROWS_TOGETHER = 2  # kRowsTogether
# With fewer rows of a round in a block, meetings of the blocks would take most of the time.
_LEAST_ROWS = 4


def program(loss_name: str, real: np.dtype) -> Program:
    """Return dense_rounds.cu for a loss and a type of entries."""
    macros = (*layout_macros(real, None), *loss_macros(loss_name).items())
    return Program("dense_rounds", macros)


@dataclass(frozen=True)
class DenseRoundsShape:
    """How a round is divided among blocks, one a multiprocessor.

    Attributes
    ----------
    n_blocks : int
        Blocks.
    slots_each : int
        Rows of a round in each block.
    n_threads : int
        Threads of a block.
    shared_bytes : int
        Shared memory of a block.
    """

    n_blocks: int
    slots_each: int
    n_threads: int
    shared_bytes: int

    @classmethod
    def make(
        cls, device: Device, n_cols: int, itemsize: int, n_slots: int
    ) -> DenseRoundsShape | None:
        """Return the shape for rounds of `n_slots` rows, or None where they do not fit.

        Parameters
        ----------
        device : Device
            Where the rounds will run.
        n_cols : int
            Columns.
        itemsize : int
            Bytes of an entry.
        n_slots : int
            Rows of a round.
        """
        slots_each = -(-n_slots // device.n_multiprocessors)
        shared_bytes = _shared_bytes(slots_each, n_cols, itemsize)
        if shared_bytes > device.shared_bytes_per_block or slots_each > _MOST_THREADS:
            return None
        n_warps = max(-(-slots_each // _ROWS_TOGETHER), -(-(n_cols + 1) // WARP))
        n_threads = min(_MOST_THREADS, n_warps * WARP)
        return cls(-(-n_slots // slots_each), slots_each, n_threads, shared_bytes)

    @classmethod
    def capacity(cls, device: Device, n_cols: int, itemsize: int) -> int:
        """Return the most rows of a round; 0 where those of a block would be too few."""
        without, each = (_shared_bytes(n, n_cols, itemsize) for n in (0, 4))
        room = device.shared_bytes_per_block - without
        # Whole words of 16 bytes belong to 4 slots.
        slots_each = min(_MOST_THREADS, max(0, room) // -(-(each - without) // 4) // 4 * 4)
        return 0 if slots_each < _LEAST_ROWS else slots_each * device.n_multiprocessors


def dense_rounds(
    device: Device,
    kernel_program: Program,
    shape: DenseRoundsShape,
    matrix_and_shard: tuple[Argument, ...],
    order: Any,
    n_slots: int,
    vector: FixedVector,
) -> Any:
    """Visit all rows in rounds.

    Parameters
    ----------
    device : Device
        Where everything is.
    kernel_program : Program
        Of `program`.
    shape : DenseRoundsShape
        For rounds of `n_slots` rows.
    matrix_and_shard : tuple of Argument
        The kernel's parameters SNAPML_MATRIX and SNAPML_SHARD.
    order : array of the device, int64
        Rows in the order of the epoch; -1 is none.
    n_slots : int
        Rows of a round.
    vector : FixedVector
        The shared vector; changed.

    Returns
    -------
    array of shape (3, n_parts), float64
        Parts of the epoch's sums.
    """
    xp, size = device.xp, len(vector.entries)
    sums = xp.zeros((3, shape.n_blocks * shape.n_threads), np.float64)
    args = (
        *matrix_and_shard,
        order,
        np.int64(len(order)),
        np.int64(n_slots),
        np.int64(shape.slots_each),
        vector.entries,
        np.float64(vector.unit),
        xp.zeros((3, size), np.int64),
        sums,
        xp.zeros(1, np.uint64),
    )
    kernel = Kernel(kernel_program, "dense_rounds", is_cooperative=True)
    device.launch(kernel, (shape.n_blocks,), (shape.n_threads,), args, shape.shared_bytes)
    return sums


def _shared_bytes(n_slots: int, n_cols: int, itemsize: int) -> int:
    """Return the bytes of struct Tile."""

    def rounded(count: int) -> int:
        of_word = 16 // itemsize
        return -(-count // of_word) * of_word

    reals = n_slots * rounded(n_cols) + 4 * rounded(n_slots) + rounded(n_cols + 1)
    return itemsize * reals + 8 * (n_cols + 1 + 2 * n_slots)
