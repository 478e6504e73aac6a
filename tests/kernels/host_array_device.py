"""A device for tests that hand NumPy's arrays to kernels: they are copied there and back."""

import contextlib

import numpy as np


class HostArrayDevice:
    """Another device, which runs its kernels on copies of NumPy's arrays (protocol `Device`).

    Every array is copied back after a launch, those that the kernel only read as well.

    Parameters
    ----------
    device : Device
        Does the work.
    """

    xp = np

    def __init__(self, device):
        self._device = device

    def __getattr__(self, name):
        return getattr(self._device, name)

    def use(self):
        return contextlib.nullcontext()

    def launch(self, kernel, grid, block, args, shared_bytes=0):
        with self._device.use():
            copies = [
                self._device.to_device(arg) if isinstance(arg, np.ndarray) else arg for arg in args
            ]
            self._device.launch(kernel, grid, block, tuple(copies), shared_bytes)
            for arg, copy in zip(args, copies, strict=True):
                if isinstance(arg, np.ndarray) and arg.flags.writeable:
                    arg[...] = self._device.to_host(copy)

    def to_device(self, array):
        return np.array(array, order="C")

    def to_host(self, array):
        return np.array(array)
