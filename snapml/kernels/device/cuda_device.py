"""A CUDA device through CuPy."""

from __future__ import annotations

import ctypes
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from snapml.kernels.device.compiler import cached_cubin
from snapml.kernels.device.copy_stream import CudaCopyStream, marked
from snapml.kernels.device.device import Argument, CopyStream, Mark
from snapml.kernels.device.failures import context_lost, out_of_memory, out_of_pinned_memory
from snapml.kernels.device.program import Kernel
from snapml.kernels.device.staged_copy import LEAST_STAGED_BYTES, copy_staged

__all__ = ["CudaDevice", "pointer_device", "visible_devices"]

_logger = logging.getLogger("snapml")

# What every block may ask for; more must be asked of each kernel first.
_SHARED_BYTES_OF_ALL = 48 * 1024

# cudaErrorMemoryAllocation, and the errors after which, by CUDA's manual, "the process must be
# terminated and relaunched": illegal address, launch timeout, assert, hardware stack, illegal
# instruction, misaligned address, invalid address space, invalid pc, launch failure.
_OUT_OF_MEMORY = 2
_LOST = frozenset({700, 702, 710, *range(714, 720)})
# CUBLAS_TF32_TENSOR_OP_MATH of cublasMath_t, a mode that CuPy gives no name.
_TF32_PRODUCTS = 3
# What loading a file that is no cubin, or not a whole one, ends with: invalid image, no binary for
# this device, file not found.
_BAD_CUBIN = frozenset({200, 209, 301})


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
        self._blocks_of: dict[tuple[Kernel, int, int], int] = {}

    @property
    def model(self) -> str:
        """Name and size: libraries choose their algorithms by both."""
        name = self.description.removesuffix(f" (device {self.device_id})")
        return f"{name} of {self.n_multiprocessors} multiprocessors"

    @property
    def uuid(self) -> str:
        """What the driver calls it; that of a part of a card where the card is cut into parts."""
        return _uuid(self.device_id)

    @property
    def nccl(self) -> Any:
        """``cupy.cuda.nccl``, None where NCCL cannot be loaded."""
        try:
            from cupy.cuda import nccl
        except ImportError:
            return None
        return nccl if nccl.available else None

    def address(self, array: Any) -> int:
        """Return where an array of the device begins."""
        return int(array.data.ptr)

    def stream_address(self) -> int:
        """Return the current stream of the calling thread."""
        with self._device:
            return int(self.xp.cuda.get_current_stream().ptr)

    @property
    def special(self) -> Any:
        """``cupyx.scipy.special``."""
        import cupyx.scipy.special

        return cupyx.scipy.special

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
            function = self._function(kernel, shared_bytes)
            if kernel.is_cooperative:
                self._check_room(kernel, grid, block, shared_bytes)
            try:
                function(grid, block, pointers, shared_mem=shared_bytes)
            except self._cuda_errors as error:
                if self.explained(error) is not None:  # then it is not this launch's fault
                    raise
                raise RuntimeError(
                    f"{self.description} refuses {kernel.name} of {kernel.program.path.name} with "
                    f"{dict(kernel.program.macros)}, {grid} blocks of {block} threads and "
                    f"{shared_bytes} bytes of shared memory: {error}"
                ) from error

    def resident_blocks(self, kernel: Kernel, n_threads: int, shared_bytes: int) -> int:
        """Return how many blocks of a kernel one multiprocessor holds at once."""
        return max(1, self._blocks_at_once(kernel, n_threads, shared_bytes))

    def synchronize(self) -> None:
        """Wait until all work of the device is done."""
        self._device.synchronize()

    def to_device(self, array: np.ndarray) -> Any:
        """Return a copy of an array of the host; a large one goes through pinned memory."""
        with self._device:
            copy = self.xp.empty(array.shape, array.dtype)
            if array.nbytes < LEAST_STAGED_BYTES:
                copy.set(np.ascontiguousarray(array))
                return copy
            try:
                copy_staged(self.xp, array, copy)
            except self.xp.cuda.runtime.CUDARuntimeError as error:
                if error.status != _OUT_OF_MEMORY:
                    raise
                _logger.warning("no memory of the host can be pinned, copies are slower: %s", error)
                copy.set(np.ascontiguousarray(array))
            return copy

    def to_host(self, array: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Return a copy of an array of the device; waits for the current stream."""
        with self._device:
            copy: np.ndarray = self.xp.asnumpy(array, out=out)
            return copy

    def adopt(self, array: Any) -> Any:
        """Return an array over the memory of another library's, which is on this device."""
        if isinstance(array, self.xp.ndarray):
            return array
        with self._device:
            # Both wait for the other library's stream, which stands in the array.
            if hasattr(array, "__dlpack__"):
                return self.xp.from_dlpack(array)
            return self.xp.asarray(array)

    def pinned_empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an array of the host in pinned memory."""
        count = int(np.prod(shape, dtype=np.int64))
        n_bytes = max(1, count * dtype.itemsize)
        with self._device:
            try:
                memory = self.xp.cuda.alloc_pinned_memory(n_bytes)
            except self.xp.cuda.runtime.CUDARuntimeError as error:
                if error.status != _OUT_OF_MEMORY:
                    raise
                raise out_of_pinned_memory(n_bytes, error) from error
        return np.frombuffer(memory, dtype, count).reshape(shape)

    def copy_stream(self) -> CopyStream:
        """Return a new stream of copies to this device."""
        with self._device:
            return CudaCopyStream(self.xp)

    def mark(self) -> Mark:
        """Return a mark behind all work that is queued on the current stream."""
        with self._device:
            return marked(self.xp, self.xp.cuda.get_current_stream())

    def wait(self, mark: Mark) -> None:
        """Let work that is queued on the current stream from now on come after a mark."""
        with self._device:
            self.xp.cuda.get_current_stream().wait_event(mark)

    def copy_of(self, array: Any) -> Any:
        """Return a copy of an array of any device."""
        with self._device:
            copy = self.xp.empty(array.shape, array.dtype)
            self.xp.copyto(copy, array)  # between devices too, as no operator of CuPy does
            return copy

    def cholesky(self, matrix: Any) -> Any:
        """Return the lower Cholesky factor; see `Device.cholesky`."""
        import cupyx

        # CuPy looks at cuSOLVER's answer, for which it must wait, only if it is told to.
        with self._device, cupyx.errstate(linalg="raise"):
            return self.xp.linalg.cholesky(matrix)

    def solve_lower(self, lower: Any, right: Any) -> Any:
        """Return the inverse of a lower triangular matrix times another matrix."""
        from cupyx.scipy.linalg import solve_triangular

        with self._device:
            return solve_triangular(lower, right, lower=True)

    @contextmanager
    def fast_products(self) -> Iterator[None]:
        """Let float32 matrix products of the calling thread use TF32, inside ``with``."""
        cublas = self.xp.cuda.cublas
        with self._device:
            handle = self.xp.cuda.get_cublas_handle()  # of this thread and device
            before = cublas.getMathMode(handle)
            cublas.setMathMode(handle, _TF32_PRODUCTS)
            try:
                yield
            finally:
                cublas.setMathMode(handle, before)

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
        status = getattr(error, "status", None) if isinstance(error, self._cuda_errors) else None
        is_full = isinstance(error, self.xp.cuda.memory.OutOfMemoryError)
        if is_full or status == _OUT_OF_MEMORY:
            return out_of_memory(self.description, self.free_bytes(), error)
        return context_lost(self.description, error) if status in _LOST else None

    @property
    def _cuda_errors(self) -> tuple[type[Exception], ...]:
        cuda = self.xp.cuda
        return cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError

    def _blocks_at_once(self, kernel: Kernel, n_threads: int, shared_bytes: int) -> int:
        launched = kernel, n_threads, shared_bytes
        if launched not in self._blocks_of:
            with self._device:
                function = self._function(kernel, shared_bytes).kernel
                count = self.xp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                    function.ptr, n_threads, shared_bytes
                )
            self._blocks_of[launched] = int(count)
        return self._blocks_of[launched]

    def _check_room(
        self, kernel: Kernel, grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int
    ) -> None:
        """Refuse a grid that CuPy would cut to what has room: the rows of the rest were skipped."""
        n_threads = math.prod(block)
        each = self._blocks_at_once(kernel, n_threads, shared_bytes)
        most = each * self.n_multiprocessors
        if math.prod(grid) > most:
            raise RuntimeError(
                f"{self.description} holds {most} blocks of {kernel.name} of "
                f"{kernel.program.path.name} with {n_threads} threads and {shared_bytes} bytes of "
                f"shared memory at once, expected at least {math.prod(grid)}"
            )

    def _function(self, kernel: Kernel, shared_bytes: int) -> Any:
        function = self._functions.get(kernel)
        if function is None:
            try:
                function = self._loaded(kernel, renews=False)
            except self._cuda_errors as error:
                if getattr(error, "status", None) not in _BAD_CUBIN:
                    raise
                _logger.warning("a compiled kernel is made anew: %s", error)
                function = self._loaded(kernel, renews=True)
            self._functions[kernel] = function
        if shared_bytes > _SHARED_BYTES_OF_ALL:
            function.max_dynamic_shared_size_bytes = self.shared_bytes_per_block
        return function

    def _loaded(self, kernel: Kernel, *, renews: bool) -> Any:
        """Return a function of a compiled program."""
        capability, nvrtc = self._device.compute_capability, self.xp.cuda.nvrtc
        try:
            path = cached_cubin(nvrtc, kernel.program, capability, renews=renews)
        except RuntimeError as error:
            raise RuntimeError(f"kernel {kernel.name} of {self.description}: {error}") from error
        module = self.xp.RawModule(path=str(path), enable_cooperative_groups=kernel.is_cooperative)
        return module.get_function(kernel.name)

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


def visible_devices() -> list[str]:
    """Return the `Device.uuid` of every device that this process sees, in the order of numbers.

    Returns
    -------
    list of str
        None of what ``CUDA_VISIBLE_DEVICES`` hides.

    Raises
    ------
    RuntimeError
        If CuPy is not installed, or the driver fails.
    """
    runtime = _import_cupy(0).cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise RuntimeError(f"{_no_count(runtime, error)}; use device_ids=None") from error
    return [_uuid(number) for number in range(count)]


def pointer_device(pointer: int) -> int:
    """Return the number of the device that an address belongs to.

    Parameters
    ----------
    pointer : int
        Of memory that CUDA has allocated; 0, as of an array without elements, asks for the
        current device.

    Returns
    -------
    int
        As CUDA counts the visible devices.

    Raises
    ------
    RuntimeError
        If CuPy is not installed.
    """
    runtime = _import_cupy(0).cuda.runtime
    if pointer == 0:
        return int(runtime.getDevice())
    return int(runtime.pointerGetAttributes(pointer).device)


def _uuid(device_id: int) -> str:
    """Ask the driver: CuPy reads the 16 bytes as a string, which ends at the first 0 among them."""
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    device, found = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    status = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), device_id)
        or driver.cuDeviceGetUuid_v2(found, device)
    )
    if status:
        raise RuntimeError(f"the CUDA driver does not say which device {device_id} is: {status}")
    return bytes(found).hex()


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
        why = _no_count(cupy.cuda.runtime, error)
        raise RuntimeError(f"device_ids=[{device_id}] but {why}; use device_ids=None") from error
    if not 0 <= device_id < count:
        raise RuntimeError(
            f"device_ids=[{device_id}] but {count} CUDA devices are visible; use device_ids=None"
        )


def _no_count(runtime: Any, error: Exception) -> str:
    """Say why nobody can count the devices: what CUDA answers without a driver tells of its age."""
    try:
        version = runtime.driverGetVersion()
    except runtime.CUDARuntimeError:
        version = 0
    if version == 0:
        return "this machine has no CUDA driver: expected an NVIDIA GPU, and its driver"
    return f"the CUDA driver answers {error}"
