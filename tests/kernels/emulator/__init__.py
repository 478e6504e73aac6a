"""A device (`snapml.kernels.Device`) that runs kernels on the CPU: test code, see emulator.cpp."""

from .device import EmulatedDevice, EmulationError

__all__ = ["EmulatedDevice", "EmulationError"]
