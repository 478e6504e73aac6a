"""The CUDA kernels: their text, how it is compiled and kept, and the device that runs them.

A ``.cu`` file holds kernels on core headers; the ``.py`` file of the same name owns their launches.
Everything runs against the protocol `Device`, so that the same launches serve a CUDA device and
whatever else obeys it. ``cupy`` is imported when a `CudaDevice` is made, and not before.
"""

from __future__ import annotations

from snapml.kernels.device.cuda_device import CudaDevice
from snapml.kernels.device.device import Argument, Device
from snapml.kernels.device.program import Kernel, Program
from snapml.kernels.matrices.layouts import CompressedRows, DenseRows, Targets
from snapml.kernels.matrices.resident_matrix import ResidentMatrix
from snapml.kernels.products.ranked_rows import RankedRows

__all__ = [
    "Argument",
    "CompressedRows",
    "CudaDevice",
    "DenseRows",
    "Device",
    "Kernel",
    "Program",
    "RankedRows",
    "ResidentMatrix",
    "Targets",
]
