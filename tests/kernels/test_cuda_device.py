"""What a CUDA device asks of CuPy, with a stand-in for CuPy: no GPU is needed."""

import contextlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from real_device import real_device, why_no_device

from snapml.kernels import CudaDevice, Kernel, Program
from snapml.kernels.device import cuda_device
from snapml.kernels.sums import reduce

from .emulator import EmulatedDevice
from .emulator.strict_arrays import StrictDevice
from .host_array_device import HostArrayDevice


class FakeFunction:
    """Keeps what it was launched with."""

    max_dynamic_shared_size_bytes = 0

    def __init__(self):
        self.launches = []
        self.kernel = SimpleNamespace(ptr=1)

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


def fake_cupy(function, n_devices=1, error=None, driver=13000):
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
            driver=SimpleNamespace(
                CUDADriverError=FakeDriverError,
                occupancyMaxActiveBlocksPerMultiprocessor=lambda *_: 2,
            ),
            memory=SimpleNamespace(OutOfMemoryError=FakeOutOfMemory),
            runtime=SimpleNamespace(
                getDeviceCount=count,
                CUDARuntimeError=FakeCudaError,
                driverGetVersion=lambda: driver,
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
    monkeypatch.setattr(cuda_device, "cached_cubin", lambda *_, renews: f"{renews}.cubin")
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
        (
            fake_cupy(None, error="insufficient driver", driver=0),
            "but this machine has no CUDA driver",
        ),
        (fake_cupy(None, n_devices=2), r"device_ids=\[2\] but 2 CUDA devices are visible"),
    ],
)
def test_device_that_is_not_there_is_an_error_that_says_what_is(monkeypatch, cupy, message):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(RuntimeError, match=message) as raised:
        CudaDevice(2)
    assert "device_ids=None" in str(raised.value)


@pytest.fixture
def math_modes(function):
    """The modes that cuBLAS was given, the first being that of before."""
    modes = ["default"]
    sys.modules["cupy"].cuda.get_cublas_handle = lambda: "handle"
    sys.modules["cupy"].cuda.cublas = SimpleNamespace(
        getMathMode=lambda handle: modes[-1],
        setMathMode=lambda handle, mode: modes.append(mode),
    )
    return modes


def test_mode_of_products_is_as_before_even_after_an_error(math_modes):
    with CudaDevice(0).fast_products():
        assert math_modes == ["default", 3]
    assert math_modes[-1] == "default"
    with pytest.raises(ZeroDivisionError), CudaDevice(0).fast_products():
        raise ZeroDivisionError
    assert math_modes == ["default", 3, "default", 3, "default"]


def test_factorisation_that_fails_is_told_to_raise(function, monkeypatch):
    asked = []

    @contextlib.contextmanager
    def errstate(**state):
        asked.append(state)
        yield

    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(errstate=errstate))
    sys.modules["cupy"].linalg = SimpleNamespace(cholesky=lambda matrix: (asked[-1], matrix))
    assert CudaDevice(0).cholesky("matrix") == ({"linalg": "raise"}, "matrix")


def test_model_tells_devices_apart_that_may_compute_other_bits(function):
    assert CudaDevice(0).model == "Fake card of 132 multiprocessors"


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


def test_description_is_known_without_asking_a_device_that_may_have_failed(function):
    device = CudaDevice(0)
    device.xp.cuda.runtime.getDeviceProperties = None
    assert device.description == "Fake card (device 0)"


class FakeDriver:
    """libcuda with devices whose numbers in the driver are 10, 11, ..."""

    status = 0

    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, device, number):
        device._obj.value = 10 + number
        return 0

    def cuDeviceGetUuid_v2(self, found, device):
        found[:] = [device.value, 0, *range(14)]  # no string: a 0 ends nothing
        return self.status


def test_devices_are_told_apart_by_what_the_driver_calls_them(function, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(function, n_devices=2))
    monkeypatch.setattr(cuda_device.ctypes, "CDLL", lambda name: FakeDriver())
    rest = bytes([0, *range(14)]).hex()
    assert cuda_device.visible_devices() == [f"0a{rest}", f"0b{rest}"]
    assert CudaDevice(1).uuid == f"0b{rest}"


def test_driver_that_does_not_know_a_device_says_so(function, monkeypatch):
    monkeypatch.setattr(FakeDriver, "status", 101)
    monkeypatch.setattr(cuda_device.ctypes, "CDLL", lambda name: FakeDriver())
    with pytest.raises(RuntimeError, match="does not say which device 0 is: 101"):
        assert CudaDevice(0).uuid


@pytest.mark.parametrize("n_blocks", [264, 265])
def test_grid_that_has_no_room_at_once_is_refused(function, n_blocks):
    kernel = Kernel(Program("reduce"), "parts_sum", is_cooperative=True)
    device = CudaDevice(0)
    if n_blocks == 264:  # two on each of 132 multiprocessors
        device.launch(kernel, (n_blocks,), (64,), ())
        assert len(function.launches) == 1
        return
    with pytest.raises(RuntimeError, match=r"holds 264 blocks of parts_sum .* at least 265"):
        device.launch(kernel, (n_blocks,), (64,), ())
    assert function.launches == []


@pytest.mark.parametrize("status", [2, 1])
def test_host_that_pins_no_memory_is_a_memory_error_in_our_words(function, status):
    def refuse(n_bytes):
        raise FakeCudaError(f"no {n_bytes} bytes", status)

    device = CudaDevice(0)
    device.xp.cuda.alloc_pinned_memory = refuse
    expected = (MemoryError, "could not pin 0.004 MB") if status == 2 else (FakeCudaError, "4000")
    with pytest.raises(expected[0], match=expected[1]):
        device.pinned_empty((1000,), np.dtype(np.float32))


@pytest.mark.parametrize("available", [True, False])
def test_nccl_is_there_or_not(function, monkeypatch, available):
    nccl = SimpleNamespace(available=available)
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(nccl=nccl))
    assert CudaDevice(0).nccl is (nccl if available else None)


def test_nccl_that_cannot_be_imported_is_not_there(function, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace())
    assert CudaDevice(0).nccl is None


def test_driver_that_fails_lists_no_devices(function, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(function, error="no driver"))
    with pytest.raises(RuntimeError, match=r"driver answers no driver; use device_ids=None"):
        cuda_device.visible_devices()


def test_nccl_takes_addresses_as_numbers(function):
    device = CudaDevice(0)
    device.xp.cuda.get_current_stream = lambda: SimpleNamespace(ptr=77)
    assert device.stream_address() == 77
    assert device.address(SimpleNamespace(data=SimpleNamespace(ptr=99))) == 99


def test_copies_to_the_host_go_where_they_are_asked_to(function):
    device, out = CudaDevice(0), np.zeros(3)
    device.xp.asnumpy = lambda array, out=None: ("copied", array, out)
    assert device.to_host("array", out) == ("copied", "array", out)
    assert device.to_host("array") == ("copied", "array", None)


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


def test_refused_launch_names_kernel_and_shape(function, monkeypatch):
    def refuse(*_, **__):
        raise FakeCudaError("cudaErrorInvalidValue: invalid argument", 1)

    monkeypatch.setattr(FakeFunction, "__call__", refuse)
    with pytest.raises(RuntimeError) as raised:
        CudaDevice(0).launch(KERNEL, (2,), (64,), (), 100)
    for part in ("Fake card", "parts_sum of reduce.cu", "(2,) blocks of (64,)", "100 bytes",
                 "cudaErrorInvalidValue"):  # fmt: skip
        assert part in str(raised.value)


def test_error_of_an_earlier_launch_is_not_blamed_on_this_one(function, monkeypatch):
    def refuse(*_, **__):
        raise FakeDriverError("CUDA_ERROR_LAUNCH_FAILED")

    monkeypatch.setattr(FakeFunction, "__call__", refuse)
    with pytest.raises(FakeDriverError):
        CudaDevice(0).launch(KERNEL, (2,), (64,), ())


def test_kernel_that_does_not_compile_is_named(function, monkeypatch):
    def fail(*_, renews):
        raise RuntimeError("reduce.cu did not compile for sm_90 with {}:\nno such type")

    monkeypatch.setattr(cuda_device, "cached_cubin", fail)
    says = r"kernel parts_sum of Fake card \(device 0\): reduce.cu did not .* sm_90"
    with pytest.raises(RuntimeError, match=says):
        CudaDevice(0).launch(KERNEL, (1,), (64,), ())


@pytest.mark.parametrize(("status", "is_renewed"), [(200, True), (209, True), (2, False)])
def test_cubin_that_the_driver_refuses_is_compiled_anew(function, status, is_renewed):
    device, paths = CudaDevice(0), []
    load = device.xp.RawModule

    def once(path, **options):
        paths.append(path)
        if len(paths) == 1:
            raise FakeCudaError("CUDA_ERROR_INVALID_IMAGE", status)
        return load(path, **options)

    device.xp.RawModule = once
    if not is_renewed:
        with pytest.raises(FakeCudaError):
            device.launch(KERNEL, (1,), (64,), ())
        return
    device.launch(KERNEL, (1,), (64,), ())
    assert paths == ["False.cubin", "True.cubin"]
    assert len(function.launches) == 1


@pytest.mark.parametrize("fails", [False, True], ids=["pinned", "nothing can be pinned"])
@pytest.mark.parametrize("n_bytes", [2**26 - 8, 2**26])
def test_large_arrays_go_through_pinned_memory(function, monkeypatch, caplog, n_bytes, fails):
    device, sets, staged = CudaDevice(0), [], []
    device.xp.empty = lambda shape, dtype: SimpleNamespace(set=sets.append)

    def copy_staged(cupy, array, target):
        if fails:
            raise FakeCudaError("cudaErrorMemoryAllocation: out of memory", 2)
        staged.append(array)

    monkeypatch.setattr(cuda_device, "copy_staged", copy_staged)
    array = np.zeros(n_bytes, np.int8)[::-1]
    device.to_device(array)
    is_large = n_bytes >= 2**26
    assert (len(sets), len(staged)) == ((0, 1) if is_large and not fails else (1, 0))
    assert not staged or staged[0] is array  # no copy of it is made first
    assert not sets or sets[0].flags.c_contiguous
    assert ("copies are slower" in caplog.text) == (is_large and fails)
