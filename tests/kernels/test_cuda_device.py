"""What a CUDA device asks of CuPy, with a stand-in for CuPy: no GPU is needed."""

import contextlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from real_device import real_device, why_no_device

from snapml.kernels import CudaDevice, Kernel, Program, cuda_device, reduce

from .emulator import EmulatedDevice
from .emulator.strict_arrays import StrictDevice
from .host_array_device import HostArrayDevice


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


class FakeCudaError(Exception):
    pass


def fake_cupy(function, n_devices=1, error=None):
    def count():
        if error is not None:
            raise FakeCudaError(error)
        return n_devices

    return SimpleNamespace(
        ndarray=FakeArray,
        RawModule=lambda path: SimpleNamespace(get_function=lambda name: function),
        cuda=SimpleNamespace(
            Device=FakeDevice,
            nvrtc=None,
            runtime=SimpleNamespace(getDeviceCount=count, CUDARuntimeError=FakeCudaError),
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


@pytest.mark.gpu
def test_real_device_adds_up():
    """The one place that says why nothing else of the suite runs on a card here."""
    if why_no_device() is not None:
        pytest.skip(f"no test runs on a GPU here: {why_no_device()}")
    device = real_device()
    parts = np.random.default_rng(0).random((50, 7))
    with device.use():
        out = device.to_device(np.zeros(7))
        reduce.parts_sum(device, device.to_device(parts), out)
        np.testing.assert_allclose(device.to_host(out), parts.sum(axis=0), rtol=1e-14)
    assert device.free_bytes() > 0


@pytest.mark.parametrize("behind", [EmulatedDevice, StrictDevice])
def test_arrays_of_the_host_are_copied_there_and_back(behind):
    device = HostArrayDevice(behind())
    parts, out = np.random.default_rng(0).random((50, 7)), np.zeros(7)
    reduce.parts_sum(device, parts, out)
    np.testing.assert_allclose(out, parts.sum(axis=0), rtol=1e-14)
