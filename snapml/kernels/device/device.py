"""What kernels are launched on, as engines see it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from snapml.kernels.device.program import Kernel

__all__ = ["Argument", "CopyStream", "Device", "Mark"]

Argument = Any
"""An argument of a kernel: an array of the device, None for a null pointer, or a NumPy scalar.

The scalar's type must be the parameter's: ``np.int64(n)`` for an int64. Python's own numbers have
no such type and are refused.
"""


class Mark(Protocol):
    """A place in a queue of work: all that was queued there before it."""

    def synchronize(self) -> None:
        """Let the host wait until the work before the mark is done; any thread may."""


class CopyStream(Protocol):
    """Copies to a device in their own order, beside the work of its current stream.

    Marks alone order the two: nothing else keeps a copy from memory that a kernel still reads.
    """

    def copy(self, source: np.ndarray, target: Any) -> None:
        """Queue a copy of an array in pinned memory, which must not change before it is done.

        Parameters
        ----------
        source : ndarray
            From `Device.pinned_empty`, C-contiguous.
        target : array of the device
            Of the same shape and dtype, C-contiguous.
        """

    def wait(self, mark: Mark) -> None:
        """Let copies that are queued from now on come after a mark."""

    def mark(self) -> Mark:
        """Return a mark behind all copies that are queued."""

    def synchronize(self) -> None:
        """Let the host wait until all copies are done."""


class Device(Protocol):
    """A device with its array module: all that an engine needs to allocate, copy and launch.

    Work is queued on the current stream of the device and ends later; reading a number on the host
    (`to_host`, ``float(array)``) waits for it. Calls belong inside ``with device.use():`` where the
    process has several devices.
    """

    xp: Any
    """The array module: ``cupy``, or what has the same functions."""

    @property
    def special(self) -> Any:
        """Functions of ``scipy.special`` by the same names, on arrays of the device."""

    n_multiprocessors: int
    """How many blocks run at once, at least, if each is as large as it may be."""

    shared_bytes_per_block: int
    """Most shared memory that one block may ask for in `launch`."""

    @property
    def description(self) -> str:
        """Which device this is, for `FitResult.description`."""

    @property
    def model(self) -> str:
        """Which kind of device this is: equal kinds give equal bits."""

    @property
    def uuid(self) -> str:
        """Which device this is among those of all processes and hosts."""

    @property
    def nccl(self) -> Any:
        """The module ``cupy.cuda.nccl``, or what has its functions; None where NCCL is missing."""

    def address(self, array: Any) -> int:
        """Return where an array of the device begins, as NCCL takes it."""

    def stream_address(self) -> int:
        """Return the current stream, as NCCL takes it."""

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

    def synchronize(self) -> None:
        """Wait until all work of the device is done."""

    def to_device(self, array: np.ndarray) -> Any:
        """Return a copy of an array of the host, of any strides, which may change afterwards."""

    def to_host(self, array: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Return a copy of an array of the device; waits for the current stream.

        Parameters
        ----------
        array : array of the device
            What to copy.
        out : ndarray of the same shape and dtype, C-contiguous, or None, default=None
            Where to; None makes an array.

        Returns
        -------
        ndarray
            `out`, if given.
        """

    def adopt(self, array: Any) -> Any:
        """Return an array over the memory of another library's, which is on this device.

        Work that is queued on the current stream comes after the other library's.
        """

    def pinned_empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an array of the host whose copies to the device run beside other work."""

    def copy_stream(self) -> CopyStream:
        """Return a new stream of copies to this device."""

    def mark(self) -> Mark:
        """Return a mark behind all work that is queued on the current stream."""

    def wait(self, mark: Mark) -> None:
        """Let work that is queued on the current stream from now on come after a mark."""

    def copy_of(self, array: Any) -> Any:
        """Return a copy on this device of an array of any device, queued on the current stream.

        The array must be C-contiguous and complete, and must stay until the copy is done.
        """

    def cholesky(self, matrix: Any) -> Any:
        """Return the lower Cholesky factor of a symmetric matrix of the device.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is not positive definite.
        """

    def solve_lower(self, lower: Any, right: Any) -> Any:
        """Return the inverse of a lower triangular matrix times another matrix."""

    def fast_products(self) -> AbstractContextManager[Any]:
        """Let float32 matrix products of the calling thread use TF32, inside ``with``.

        Factors are then rounded to 11 bits, and their products added up in float32.
        """

    def free_bytes(self) -> int:
        """Return how much memory an allocation may still take."""

    def free_unused(self) -> None:
        """Give back to the driver what no array uses any more."""

    def explained(self, error: BaseException) -> Exception | None:
        """Return what to raise for an error of the device, None where the error says enough."""
