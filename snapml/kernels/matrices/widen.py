"""Launches of widen.cu: rows that came over the bus in one or two bytes an entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices.layouts import DenseRows
from snapml.kernels.sums.partial_sums import BLOCK, blocks_for

__all__ = ["PROGRAM", "widened"]

PROGRAM = Program("widen")


def widened(device: Device, values: Any, scales: Any = None, offsets: Any = None) -> DenseRows:
    """Return what narrow entries mean, in memory of their own.

    Parameters
    ----------
    device : Device
        Where they are.
    values : array of shape (n_rows, n_cols), uint16 or uint8
        As `snapml.data.narrow_rows.NarrowRows` has them.
    scales, offsets : array of shape (n_cols,), float32, or None
        Of uint8.

    Returns
    -------
    DenseRows
        float32.
    """
    out = device.xp.empty(values.shape, np.float32)
    count = int(values.size)
    if count:
        args: tuple[Any, ...] = (values, np.int64(count), out)
        name = "widen_halves"
        if values.dtype == np.uint8:
            name = "widen_steps"
            args = (values, scales, offsets, np.int64(count), np.int64(values.shape[1]), out)
        device.launch(Kernel(PROGRAM, name), (blocks_for(count, BLOCK),), (BLOCK,), args)
    return DenseRows(out)
