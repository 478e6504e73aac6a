"""The descent's shared vector on a device, in floating point or in fixed point."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from snapml.kernels.device.device import Device

__all__ = ["FixedVector", "FloatVector", "SharedVector"]

# An entry may grow to 2^12 times what was expected, and still has its sign and a bit to spare.
_ROOM_BITS = 12
_WORD_BITS = 62


class SharedVector(Protocol):
    """A vector that many rows change at once."""

    entries: Any
    """Its numbers as the kernels change them."""

    def load(self, values: np.ndarray, reach: float) -> None:
        """Set it to float64 numbers; `reach` is about the largest that it will ever hold."""

    def wide(self) -> Any:
        """Return its numbers in float64, on the device."""


class FloatVector:
    """Numbers of the data's type (protocol `SharedVector`).

    Parameters
    ----------
    device : Device
        Where it is.
    dtype : numpy.dtype
        float32 or float64.
    """

    def __init__(self, device: Device, dtype: np.dtype) -> None:
        self._device = device
        self._dtype = dtype
        self.entries: Any = None

    def load(self, values: np.ndarray, reach: float) -> None:
        """Set it to float64 numbers."""
        self.entries = self._device.to_device(values.astype(self._dtype))

    def wide(self) -> Any:
        """Return its numbers in float64, on the device."""
        return self.entries.astype(np.float64)


class FixedVector:
    """Multiples of a power of two, which add up to the same in any order.

    Parameters
    ----------
    device : Device
        Where it is.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.entries: Any = None
        self.unit = 1.0

    def load(self, values: np.ndarray, reach: float) -> None:
        """Set it to float64 numbers, and choose the unit."""
        self._choose_unit(max(reach, float(np.abs(values).max(initial=0.0))))
        with np.errstate(invalid="ignore"):  # what is not a number stays none of the answer's
            self.entries = self._device.to_device(np.rint(values / self.unit).astype(np.int64))

    def clear(self, size: int, reach: float) -> None:
        """Set it to `size` zeros, and choose the unit."""
        self._choose_unit(reach)
        self.entries = self._device.xp.zeros(size, np.int64)

    def _choose_unit(self, largest: float) -> None:
        exponent = math.frexp(largest)[1] if math.isfinite(largest) else 0
        self.unit = math.ldexp(1.0, exponent + _ROOM_BITS - _WORD_BITS)

    def wide(self) -> Any:
        """Return its numbers in float64, on the device."""
        return self.entries * self.unit
