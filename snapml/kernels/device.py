"""What kernels are launched on, as engines see it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from snapml.kernels.program import Kernel

__all__ = ["Argument", "Device", "Stream"]

Argument = Any
"""An argument of a kernel: an array of the device, None for a null pointer, or a NumPy scalar.

The scalar's type must be the parameter's: ``np.int64(n)`` for an int64. Python's own numbers have
no such type and are refused.
"""


class Stream(Protocol):
    """A queue of work on a device; copies and launches inside ``with stream:`` join it."""

    def __enter__(self) -> Any:
        """Make it the current stream."""

    def __exit__(self, *args: Any) -> Any:
        """Make the former stream the current one."""

    def synchronize(self) -> None:
        """Wait until its work is done."""


class Device(Protocol):
    """A device with its array module: all that an engine needs to allocate, copy and launch.

    Work is queued on the current stream of the device and ends later; reading a number on the host
    (`to_host`, ``float(array)``) waits for it. Calls belong inside ``with device.use():`` where the
    process has several devices.
    """

    xp: Any
    """The array module: ``cupy``, or what has the same functions."""

    n_multiprocessors: int
    """How many blocks run at once, at least, if each is as large as it may be."""

    shared_bytes_per_block: int
    """Most shared memory that one block may ask for in `launch`."""

    @property
    def description(self) -> str:
        """Which device this is, for `FitResult.description`."""

    def use(self) -> AbstractContextManager[Any]:
        """Make this device the current one of the calling thread, inside ``with``."""

    def launch(
        self,
        kernel: Kernel,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Argument, ...],
        shared_bytes: int = 0,
    ) -> None:
        """Queue a kernel; it is compiled by the first call in the lifetime of a disk cache.

        Parameters
        ----------
        kernel : Kernel
            What to run.
        grid, block : tuple of 1 to 3 int
            Blocks, and threads of a block; each at least 1.
        args : tuple of Argument
            One for each parameter of the kernel, arrays C-contiguous.
        shared_bytes : int, default=0
            Dynamic shared memory of a block, at most `shared_bytes_per_block`.

        Raises
        ------
        RuntimeError
            If the kernel does not compile, or the device refuses the launch.
        """

    def resident_blocks(self, kernel: Kernel, n_threads: int, shared_bytes: int) -> int:
        """Return how many blocks of a kernel one multiprocessor holds at once.

        Parameters
        ----------
        kernel : Kernel
            What would run.
        n_threads : int
            Threads of a block.
        shared_bytes : int
            Dynamic shared memory of a block.

        Returns
        -------
        int
            At least 1; a grid of this many times `n_multiprocessors` fills the device.
        """

    def stream(self) -> Stream:
        """Return a new stream."""

    def synchronize(self) -> None:
        """Wait until all work of the device is done."""

    def to_device(self, array: np.ndarray) -> Any:
        """Return a copy of an array of the host, queued if its memory is pinned."""

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy of an array of the device; waits for the current stream."""

    def pinned_empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an array of the host whose copies to the device run beside other work."""

    def free_bytes(self) -> int:
        """Return how much memory an allocation may still take."""

    def free_unused(self) -> None:
        """Give back to the driver what no array uses any more."""

    def explained(self, error: BaseException) -> Exception | None:
        """Return what to raise for an error of the device, None where the error says enough."""
