"""Launch of reduce.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.launch_shape import WARP
from snapml.kernels.device.program import Kernel, Program

__all__ = ["PROGRAM", "parts_sum"]

PROGRAM = Program("reduce")
_STRANDS = 8


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
