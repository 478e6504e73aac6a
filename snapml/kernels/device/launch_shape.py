"""How many threads and blocks a launch has, and the types it is compiled for."""

from __future__ import annotations

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.program import Kernel, core_type

__all__ = ["WARP", "filling_grid", "types_of"]

WARP = 32


def filling_grid(
    device: Device, kernel: Kernel, n_units: int, n_threads: int, shared_bytes: int = 0
) -> tuple[int]:
    """Return a grid that fills the device, or is as large as the work.

    Parameters
    ----------
    device : Device
        Where the kernel will run.
    kernel : Kernel
        Whose threads take turns over the work.
    n_units : int
        Blocks that find work.
    n_threads, shared_bytes : int
        Of a block.

    Returns
    -------
    tuple of int
        The same for the same device and work, so that sums by blocks have the same order.
    """
    resident = device.resident_blocks(kernel, n_threads, shared_bytes)
    return (max(1, min(n_units, resident * device.n_multiprocessors)),)


def types_of(real: np.dtype, wide: np.dtype, index: np.dtype | None = None) -> dict[str, str]:
    """Return the macros of types.cuh, and SNAPML_INDEX if there is an index type."""
    macros = {"SNAPML_REAL": core_type(real), "SNAPML_SUM": core_type(wide)}
    return macros if index is None else {**macros, "SNAPML_INDEX": core_type(index)}
