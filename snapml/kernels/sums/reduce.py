"""Launches of reduce.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.launch_shape import WARP, filling_grid
from snapml.kernels.device.program import Kernel, Program

__all__ = ["PROGRAM", "parts_sum", "vector_sums"]

PROGRAM = Program("reduce")
_STRANDS = 8
_THREADS = 256
# Numbers of a thread, at least: fewer leave more to add up than they save.
_NUMBERS_EACH = 8


def parts_sum(device: Device, parts: Any, out: Any) -> None:
    """Add up the parts that the blocks of a launch left behind, in a fixed order.

    Parameters
    ----------
    device : Device
        Where they are.
    parts : array of shape (n_parts, size), float64
        The parts.
    out : array of at least `size` elements, float64
        Receives the sums at its beginning.
    """
    n_parts, size = parts.shape
    device.launch(
        Kernel(PROGRAM, "parts_sum"),
        (-(-size // WARP),),
        (WARP, _STRANDS),
        (parts, np.int64(n_parts), np.int64(size), out),
    )


def vector_sums(device: Device, vectors: Any) -> Any:
    """Return the sum of each of some long vectors. Equal calls give equal bits.

    Parameters
    ----------
    device : Device
        Where they are.
    vectors : array of shape (n_vectors, size), float64
        The vectors. A library's sum along the longer axis has one block add up each.

    Returns
    -------
    array of shape (n_vectors,), float64
        The sums.
    """
    n_vectors, size = vectors.shape
    kernel = Kernel(PROGRAM, "vector_parts")
    n_units = -(-size // (_THREADS * _NUMBERS_EACH))
    (n_blocks,) = filling_grid(device, kernel, n_units, _THREADS)
    parts = device.xp.empty((n_blocks, n_vectors), np.float64)
    out = device.xp.zeros(n_vectors, np.float64)
    if n_vectors:
        args = (vectors, np.int64(size), parts)
        device.launch(kernel, (n_blocks, n_vectors), (_THREADS,), args)
        parts_sum(device, parts, out)
    return out
