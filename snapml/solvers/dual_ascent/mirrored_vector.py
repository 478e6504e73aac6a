"""The shared vector in two places: the device's, in full precision, and the host's copy."""

from __future__ import annotations

import numpy as np

from snapml.kernels import Device
from snapml.kernels.sums.shared_vector import SharedVector

__all__ = ["MirroredVector"]


class MirroredVector:
    """A device's vector and a copy of it that the host may read and write.

    Parameters
    ----------
    device : Device
        Where the vector is.
    vector : SharedVector
        The device's.
    dtype : numpy.dtype
        Type of the host's copy.
    """

    def __init__(self, device: Device, vector: SharedVector, dtype: np.dtype) -> None:
        self._device = device
        self._vector = vector
        self._dtype = dtype
        self._host: np.ndarray | None = None  # None: the device's is newer
        self._as_copied = np.empty(0, dtype)

    @property
    def host(self) -> np.ndarray:
        """The host's copy. What is written into it counts until the device's vector changes."""
        if self._host is None:
            wide = self._device.to_host(self._vector.wide())
            self._host = wide.astype(self._dtype)
            self._as_copied = self._host.copy()
        return self._host

    @property
    def is_written(self) -> bool:
        """Whether the host's copy has other numbers than the device's vector.

        Who only reads does not make the device's vector lose what the copy's type cannot hold.
        """
        return self._host is not None and not np.array_equal(self._host, self._as_copied)

    def device_has_changed(self) -> None:
        """Forget the host's copy."""
        self._host = None
