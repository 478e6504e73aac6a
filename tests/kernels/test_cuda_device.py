"""What a CUDA device asks of CuPy, with a stand-in for CuPy: no GPU is needed."""

import contextlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from snapml.kernels import CudaDevice, Kernel, Program, cuda_device


class FakeFunction:
    """Keeps what it was launched with."""

    max_dynamic_shared_size_bytes = 0

    def __init__(self):
        self.launches = []

    def __call__(self, grid, block, args, *, shared_mem):
        self.launches.append((grid, block, args, shared_mem))


class FakeArray:
    def __init__(self, device_id=0, is_contiguous=True):
        self.device = SimpleNamespace(id=device_id)
        self.flags = SimpleNamespace(c_contiguous=is_contiguous)
        self.shape, self.strides = (4,), (8,)


class FakeDevice(contextlib.nullcontext):
    compute_capability = "90"

    def __init__(self, device_id):
        super().__init__()
        self.attributes = {"MultiProcessorCount": 132, "MaxSharedMemoryPerBlockOptin": 232448}


class FakeCudaError(RuntimeError):
    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class FakeDriverError(RuntimeError):
    status = 719


class FakeOutOfMemory(MemoryError):
    """As CuPy's, a MemoryError."""


class FakePool:
    """2 GB in use, 3 GB unused."""

    def __init__(self, limit=0):
        self.limit, self.n_emptied = limit, 0

    def free_bytes(self):
        return 3 * 10**9

    def used_bytes(self):
        return 2 * 10**9

    def get_limit(self):
        return self.limit

    def free_all_blocks(self):
        self.n_emptied += 1


def fake_cupy(function, n_devices=1, error=None):
    def count():
        if error is not None:
            raise FakeCudaError(error)
        return n_devices

    def raw_module(path, enable_cooperative_groups):
        if function is not None:
            function.is_cooperative = enable_cooperative_groups
        return SimpleNamespace(get_function=lambda name: function)

    pool, pinned_pool = FakePool(), FakePool()
    return SimpleNamespace(
        ndarray=FakeArray,
        get_default_memory_pool=lambda: pool,
        get_default_pinned_memory_pool=lambda: pinned_pool,
        RawModule=raw_module,
        cuda=SimpleNamespace(
            Device=FakeDevice,
            nvrtc=None,
            driver=SimpleNamespace(CUDADriverError=FakeDriverError),
            memory=SimpleNamespace(OutOfMemoryError=FakeOutOfMemory),
            runtime=SimpleNamespace(
                getDeviceCount=count,
                CUDARuntimeError=FakeCudaError,
                getDeviceProperties=lambda device_id: {"name": b"Fake card"},
                memGetInfo=lambda: (10**9, 8 * 10**9),
            ),
        ),
    )


KERNEL = Kernel(Program("reduce"), "parts_sum")


@pytest.fixture
def function(monkeypatch):
    """The function that launches reach."""
    found = FakeFunction()
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(found))
    monkeypatch.setattr(cuda_device, "cached_cubin", lambda *_: "reduce.cubin")
    return found


def test_launch_passes_arrays_scalars_and_null_pointers(function):
    array, number = FakeArray(), np.int64(3)
    CudaDevice(0).launch(KERNEL, (2,), (64,), (array, None, number), 100)
    [(grid, block, args, shared_bytes)] = function.launches
    assert (grid, block, shared_bytes) == ((2,), (64,), 100)
    assert args == (array, np.uintp(0), number)
    assert isinstance(args[1], np.uintp)
    assert function.max_dynamic_shared_size_bytes == 0


def test_much_shared_memory_is_asked_of_the_kernel_first(function):
    CudaDevice(0).launch(KERNEL, (1,), (64,), (), 60_000)
    assert function.max_dynamic_shared_size_bytes == 232448


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_kernel_whose_blocks_meet_is_launched_cooperatively(function, is_cooperative):
    kernel = Kernel(KERNEL.program, KERNEL.name, is_cooperative)
    CudaDevice(0).launch(kernel, (1,), (64,), ())
    assert function.is_cooperative is is_cooperative


@pytest.mark.parametrize(
    ("arg", "error", "message"),
    [
        (3, TypeError, "a NumPy scalar, got <class 'int'>"),
        (np.zeros(3), TypeError, "an array of the device"),
        (FakeArray(device_id=1), ValueError, "on device 1"),
        (FakeArray(is_contiguous=False), ValueError, "C-contiguous arrays of device 0"),
    ],
)
def test_argument_that_a_kernel_would_misread_is_refused(function, arg, error, message):
    with pytest.raises(error, match=message):
        CudaDevice(0).launch(KERNEL, (1,), (64,), (arg,))
    assert not function.launches


@pytest.mark.parametrize(
    ("cupy", "message"),
    [
        (None, r"device_ids=\[2\] needs CuPy: pip install"),
        (fake_cupy(None, error="insufficient driver"), "driver answers insufficient driver"),
        (fake_cupy(None, n_devices=2), r"device_ids=\[2\] but 2 CUDA devices are visible"),
    ],
)
def test_device_that_is_not_there_is_an_error_that_says_what_is(monkeypatch, cupy, message):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(RuntimeError, match=message) as raised:
        CudaDevice(2)
    assert "device_ids=None" in str(raised.value)


def test_description_is_known_without_asking_a_device_that_may_have_failed(function):
    device = CudaDevice(0)
    device.xp.cuda.runtime.getDeviceProperties = None
    assert device.description == "Fake card (device 0)"


@pytest.mark.parametrize(("limit", "free"), [(0, 4e9), (3 * 10**9, 1e9), (10**9, 0)])
def test_free_memory_is_the_drivers_and_the_pools_up_to_its_limit(function, limit, free):
    device = CudaDevice(0)
    device.xp.get_default_memory_pool().limit = limit
    assert device.free_bytes() == free


def test_unused_memory_of_both_pools_is_given_back(function):
    device = CudaDevice(0)
    device.free_unused()
    assert device.xp.get_default_memory_pool().n_emptied == 1
    assert device.xp.get_default_pinned_memory_pool().n_emptied == 1


@pytest.mark.parametrize(
    "error",
    [
        FakeOutOfMemory("Out of memory allocating 5,000 bytes"),
        FakeCudaError("cudaErrorMemoryAllocation: out of memory", 2),
    ],
    ids=str,
)
def test_full_device_is_a_memory_error_that_says_what_to_do(function, error):
    explained = CudaDevice(0).explained(error)
    assert isinstance(explained, MemoryError)
    for part in ("Fake card (device 0) ran out", str(error), "4 GB are free", "device_ids=None"):
        assert part in str(explained)


@pytest.mark.parametrize(
    "error",
    [
        FakeCudaError("cudaErrorIllegalAddress: an illegal memory access was encountered", 700),
        FakeDriverError("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"),
    ],
    ids=str,
)
def test_lost_context_says_that_the_process_must_be_restarted(function, error):
    explained = CudaDevice(0).explained(error)
    assert isinstance(explained, RuntimeError)
    for part in ("Fake card (device 0)", str(error), "restart", "CUDA_LAUNCH_BLOCKING=1"):
        assert part in str(explained)


@pytest.mark.parametrize(
    "error",
    [
        FakeCudaError("cudaErrorInvalidValue: invalid argument", 1),
        MemoryError("Unable to allocate 3 TiB for an array"),
        ValueError("no"),
    ],
    ids=str,
)
def test_other_errors_speak_for_themselves(function, error):
    assert CudaDevice(0).explained(error) is None
