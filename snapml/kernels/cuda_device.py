"""A CUDA device through CuPy."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from snapml.kernels.compiler import cached_cubin
from snapml.kernels.device import Argument, Stream
from snapml.kernels.failures import context_lost, out_of_memory
from snapml.kernels.program import Kernel

__all__ = ["CudaDevice"]

# What every block may ask for; more must be asked of each kernel first.
_SHARED_BYTES_OF_ALL = 48 * 1024

# cudaErrorMemoryAllocation, and the errors after which, by CUDA's manual, "the process must be
# terminated and relaunched": illegal address, launch timeout, assert, hardware stack, illegal
# instruction, misaligned address, invalid address space, invalid pc, launch failure.
_OUT_OF_MEMORY = 2
_LOST = frozenset({700, 702, 710, *range(714, 720)})


class CudaDevice:
    """One CUDA device of this process (protocol `Device`).

    Parameters
    ----------
    device_id : int
        Its number, as CUDA counts the visible devices.

    Raises
    ------
    RuntimeError
        If CuPy is not installed, or no such device is visible.
    """

    def __init__(self, device_id: int) -> None:
        self.xp = _import_cupy(device_id)
        self.device_id = device_id
        _check_visible(self.xp, device_id)
        self._device = self.xp.cuda.Device(device_id)
        attributes = self._device.attributes
        self.n_multiprocessors = int(attributes["MultiProcessorCount"])
        self.shared_bytes_per_block = int(attributes["MaxSharedMemoryPerBlockOptin"])
        name = self.xp.cuda.runtime.getDeviceProperties(device_id)["name"].decode()
        self.description = f"{name} (device {device_id})"
        self._functions: dict[Kernel, Any] = {}

    def use(self) -> AbstractContextManager[Any]:
        """Make this device the current one inside ``with``."""
        return self._device

    def launch(
        self,
        kernel: Kernel,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Argument, ...],
        shared_bytes: int = 0,
    ) -> None:
        """Queue a kernel on the current stream; see `Device.launch`."""
        pointers = tuple(self._checked(arg) for arg in args)
        with self._device:
            self._function(kernel, shared_bytes)(grid, block, pointers, shared_mem=shared_bytes)

    def resident_blocks(self, kernel: Kernel, n_threads: int, shared_bytes: int) -> int:
        """Return how many blocks of a kernel one multiprocessor holds at once."""
        with self._device:
            function = self._function(kernel, shared_bytes).kernel
            count = self.xp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                function.ptr, n_threads, shared_bytes
            )
        return max(1, int(count))

    def stream(self) -> Stream:
        """Return a new stream, which does not wait for the default one."""
        with self._device:
            return self.xp.cuda.Stream(non_blocking=True)

    def synchronize(self) -> None:
        """Wait until all work of the device is done."""
        self._device.synchronize()

    def to_device(self, array: np.ndarray) -> Any:
        """Return a copy of an array of the host."""
        with self._device:
            copy = self.xp.empty(array.shape, array.dtype)
            copy.set(np.ascontiguousarray(array))
            return copy

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy of an array of the device; waits for the current stream."""
        with self._device:
            return self.xp.asnumpy(array)

    def pinned_empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an array of the host in pinned memory."""
        count = int(np.prod(shape, dtype=np.int64))
        with self._device:
            memory = self.xp.cuda.alloc_pinned_memory(max(1, count * dtype.itemsize))
        return np.frombuffer(memory, dtype, count).reshape(shape)

    def free_bytes(self) -> int:
        """Return what the driver has left and CuPy's pool holds unused, up to the pool's limit."""
        with self._device:
            free, _ = self.xp.cuda.runtime.memGetInfo()
            pool = self.xp.get_default_memory_pool()
            free = int(free) + int(pool.free_bytes())
            limit = int(pool.get_limit())
            return min(free, max(0, limit - int(pool.used_bytes()))) if limit else free

    def free_unused(self) -> None:
        """Empty CuPy's pools of what no array uses, on this device and in pinned memory."""
        with self._device:
            self.xp.get_default_memory_pool().free_all_blocks()
        self.xp.get_default_pinned_memory_pool().free_all_blocks()

    def explained(self, error: BaseException) -> Exception | None:
        """Return what to raise for an error of CUDA, None where the error says enough."""
        cuda = self.xp.cuda
        is_cudas = isinstance(error, (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError))
        status = getattr(error, "status", None) if is_cudas else None
        if isinstance(error, cuda.memory.OutOfMemoryError) or status == _OUT_OF_MEMORY:
            return out_of_memory(self.description, self.free_bytes(), error)
        return context_lost(self.description, error) if status in _LOST else None

    def _function(self, kernel: Kernel, shared_bytes: int) -> Any:
        function = self._functions.get(kernel)
        if function is None:
            capability = self._device.compute_capability
            path = cached_cubin(self.xp.cuda.nvrtc, kernel.program, capability)
            module = self.xp.RawModule(
                path=str(path), enable_cooperative_groups=kernel.is_cooperative
            )
            function = module.get_function(kernel.name)
            self._functions[kernel] = function
        if shared_bytes > _SHARED_BYTES_OF_ALL:
            function.max_dynamic_shared_size_bytes = self.shared_bytes_per_block
        return function

    def _checked(self, arg: Argument) -> Any:
        if arg is None:
            return np.uintp(0)  # CuPy would leave the parameter out
        if isinstance(arg, np.generic):
            return arg
        if not isinstance(arg, self.xp.ndarray):
            raise TypeError(f"expected an array of the device or a NumPy scalar, got {type(arg)}")
        if not arg.flags.c_contiguous or arg.device.id != self.device_id:
            raise ValueError(
                f"expected C-contiguous arrays of device {self.device_id}, got strides "
                f"{arg.strides} for shape {arg.shape} on device {arg.device.id}"
            )
        return arg


def _import_cupy(device_id: int) -> Any:
    try:
        import cupy
    except ImportError as error:
        raise RuntimeError(
            f"device_ids=[{device_id}] needs CuPy: pip install 'snapml-open[cuda13]' (or [cuda12], "
            "whichever the driver supports), or use device_ids=None"
        ) from error
    return cupy


def _check_visible(cupy: Any, device_id: int) -> None:
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"device_ids=[{device_id}] but the CUDA driver answers {error}; use device_ids=None"
        ) from error
    if not 0 <= device_id < count:
        raise RuntimeError(
            f"device_ids=[{device_id}] but {count} CUDA devices are visible; use device_ids=None"
        )
