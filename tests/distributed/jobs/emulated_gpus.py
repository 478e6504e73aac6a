"""Emulated devices for jobs, with and without an NCCL over MPI."""

import sys
from pathlib import Path

import fake_nccl

sys.path.insert(0, str(Path(__file__).parents[2]))

from kernels.emulator.strict_arrays import StrictDevice

__all__ = ["NcclDevice", "StrictDevice"]


class NcclDevice(StrictDevice):
    """An emulated device that has NCCL."""

    nccl = fake_nccl
