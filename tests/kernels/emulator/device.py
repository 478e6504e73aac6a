"""NumPy in CuPy's place, and launches on the emulator."""

import contextlib
import ctypes
import functools
import os
import re
import struct
import weakref

import numpy as np
import scipy.special
from scipy.linalg import solve_triangular

from snapml.kernels.device.failures import out_of_memory

from .build import build, sanitizer_of_process
from .memory import OutOfMemory
from .streams import CopyTargets, LateCopyStream, WorkMark, root

_WORD = 8  # bytes: no argument of a kernel is longer


class EmulationError(RuntimeError):
    """A kernel did what a GPU would answer with a hang, or with wrong numbers."""


class _Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in "xyz"]


class Launch(ctypes.Structure):
    """The struct of that name in cuda_on_cpu.hpp."""

    _fields_ = [
        ("grid", _Shape),
        ("block", _Shape),
        ("shared_bytes", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("n_workers", ctypes.c_int),
        ("is_cooperative", ctypes.c_int),
    ]


class EmulatedDevice:
    """A device of `n_multiprocessors` that hold `blocks_each` blocks (protocol `Device`).

    Parameters
    ----------
    n_multiprocessors, blocks_each : int
        What the launches see, and choose their grids by.
    shared_bytes_per_block : int
        Launches that ask for more fail.
    seed : int, default=0
        Order in which the threads of a block run: 0 is that of their numbers, else random.
    n_workers : int, default=2
        Blocks that run at once.
    """

    xp = np
    special = scipy.special

    def __init__(
        self,
        n_multiprocessors=2,
        blocks_each=2,
        shared_bytes_per_block=99 * 1024,
        seed=0,
        n_workers=2,
    ):
        self.n_multiprocessors = n_multiprocessors
        self.blocks_each = blocks_each
        self.shared_bytes_per_block = shared_bytes_per_block
        self.seed = seed
        self.copy_targets = CopyTargets()
        self._pinned = {}
        self.n_workers = 1 if sanitizer_of_process() == "address" else n_workers

    description = model = "emulated device"
    n_emptied = 0
    """How often its unused memory was given back."""

    nccl = None

    @property
    def uuid(self):
        return f"{os.getpid()} {id(self)}"

    def address(self, array):
        return array.ctypes.data

    def stream_address(self):
        return 0

    def use(self):
        return contextlib.nullcontext()

    def launch(self, kernel, grid, block, args, shared_bytes=0):
        assert all(n >= 1 for n in (*grid, *block)), f"empty launch: {grid} blocks of {block}"
        assert np.prod(block) <= 1024, f"no device has blocks of {block} threads"
        assert shared_bytes <= self.shared_bytes_per_block, f"{shared_bytes} bytes of shared memory"
        room = self.blocks_each * self.n_multiprocessors
        if kernel.is_cooperative:
            assert np.prod(grid) <= room, f"{grid} blocks at once, where {room} have room"
        emulate, parameters = _entry(kernel, sanitizer_of_process())
        values = _marshalled(args, parameters, kernel.name)
        first = ctypes.addressof(ctypes.c_char.from_buffer(values))
        places = range(first, first + _WORD * len(args), _WORD)
        pointers = (ctypes.c_void_p * len(args))(*places)
        shapes = (_Shape(*n, *(1,) * (3 - len(n))) for n in (grid, block))
        launch = Launch(*shapes, shared_bytes, self.seed, self.n_workers, kernel.is_cooperative)
        message = emulate(ctypes.byref(launch), pointers)
        if message is not None:
            raise EmulationError(f"{kernel.name}: {message.decode()}")

    def resident_blocks(self, kernel, n_threads, shared_bytes):
        return self.blocks_each

    def synchronize(self):
        pass

    def to_device(self, array):
        return np.array(array, order="C")

    def to_host(self, array, out=None):
        if out is None:
            return np.array(array)
        assert out.shape == array.shape, f"{out.shape} for {array.shape}"
        assert out.dtype == array.dtype, f"{out.dtype} for {array.dtype}"
        out[...] = array
        return out

    def adopt(self, array):
        return over_the_same_memory(array)

    def pinned_empty(self, shape, dtype):
        memory = np.empty(shape, dtype)
        self._pinned[id(memory)] = weakref.ref(memory)
        return memory

    def is_pinned(self, array):
        """Return whether an array lies in memory of `pinned_empty`."""
        owner = root(array)
        known = self._pinned.get(id(owner))
        return known is not None and known() is owner

    def copy_stream(self):
        return _CheckedCopies(self)

    def mark(self):
        return WorkMark(self.copy_targets.n_uses)

    def wait(self, mark):
        mark.synchronize()

    def copy_of(self, array):
        return np.array(array)

    def cholesky(self, matrix):
        return np.linalg.cholesky(matrix)

    def solve_lower(self, lower, right):
        return solve_triangular(lower, right, lower=True)

    def fast_products(self):
        return contextlib.nullcontext()

    def free_bytes(self):
        return 2**34

    def free_unused(self):
        self.n_emptied += 1

    def explained(self, error):
        if isinstance(error, OutOfMemory):
            return out_of_memory(self.description, self.free_bytes(), error)
        return None


class _CheckedCopies(LateCopyStream):
    """Copies from pinned memory to arrays of a device."""

    def __init__(self, device):
        super().__init__(device.copy_targets)
        self._device = device

    def copy(self, source, target):
        assert self._device.is_pinned(source), "a copy from pageable memory would not run beside"
        super().copy(source, getattr(target, "memory", target))


def over_the_same_memory(array):
    """Return a NumPy array over another library's memory, by the protocols that CuPy takes."""
    if hasattr(array, "__dlpack__"):
        return np.from_dlpack(_OnHost(array))
    return np.asarray(_WithInterface(dict(array.__cuda_array_interface__)))


class _OnHost:
    """A producer of DLPack whose device is the emulator's: the host."""

    def __init__(self, array):
        self._array = array

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        # What CuPy asks for: its stream, and a version that may be read-only.
        return self._array.__dlpack__(stream=1, max_version=(1, 0), copy=None)


class _WithInterface:
    def __init__(self, interface):
        self.__array_interface__ = interface


@functools.cache
def _entry(kernel, sanitizer):
    """Return the function that runs a kernel, and the types of its parameters."""
    library = ctypes.CDLL(str(build(kernel.program, sanitizer)))
    signature = getattr(library, f"signature_{kernel.name}")
    emulate = getattr(library, f"emulate_{kernel.name}")
    signature.restype = emulate.restype = ctypes.c_char_p
    return emulate, re.findall("p?[a-z][0-9]", signature().decode())


def _marshalled(args, parameters, name):
    """Return the bytes of the arguments, a word each; a wrong type is an error here."""
    n_expected = len(parameters)
    assert len(args) == n_expected, f"{name} takes {n_expected} arguments, got {len(args)}"
    values = bytearray(_WORD * max(1, n_expected))
    for position, (arg, expected) in enumerate(zip(args, parameters, strict=True)):
        if expected.startswith("p") and arg is None:
            continue
        if expected.startswith("p"):
            assert isinstance(arg, np.ndarray), _expected(position, name, "an array", repr(arg))
            assert arg.flags.c_contiguous, _expected(
                position, name, "C order", f"strides {arg.strides}"
            )
            found = f"p{arg.dtype.kind}{arg.dtype.itemsize}"
            struct.pack_into("P", values, _WORD * position, arg.__array_interface__["data"][0])
        else:
            assert isinstance(arg, np.generic), _expected(
                position, name, "a NumPy scalar", repr(arg)
            )
            found = f"{arg.dtype.kind}{arg.dtype.itemsize}"
            values[_WORD * position : _WORD * position + arg.itemsize] = arg.tobytes()
        assert found == expected, _expected(position, name, expected, found)
    return values


def _expected(position, name, what, found):
    return f"argument {position} of {name}: expected {what}, got {found}"
