"""The emulator computes what a GPU does, and finds the mistakes that a GPU answers with silence."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from snapml.kernels import Kernel, Program

from .emulator import EmulatedDevice, EmulationError
from .emulator.build import build, environment_of


@dataclasses.dataclass(frozen=True)
class Faulty(Program):
    """A program beside the emulator instead of in the library."""

    file: str = "faulty"

    @property
    def path(self):
        return Path(__file__).parent / "emulator" / "faulty.cu"


def launch(name, grid, block, args, shared_bytes=0, macros=(), is_cooperative=False, **device):
    kernel = Kernel(Faulty(macros=macros), name, is_cooperative=is_cooperative)
    EmulatedDevice(**device).launch(kernel, grid, block, args, shared_bytes)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_block_exchanges_numbers_through_shared_memory(seed, n_workers):
    x, out = np.arange(5 * 96.0), np.empty(5 * 96)
    launch("reversed_block", (5,), (96,), (x, out), 96 * 8, seed=seed, n_workers=n_workers)
    np.testing.assert_array_equal(out.reshape(5, 96), x.reshape(5, 96)[:, ::-1])


def test_removed_barrier_gives_wrong_numbers_in_some_order():
    x, out = np.arange(64.0), np.empty(64)
    args = (x, out)
    launch("reversed_block", (1,), (64,), args, 512, macros=(("WITHOUT_BARRIER", "1"),), seed=1)
    assert not np.array_equal(out, x[::-1])


def test_shuffles_sum_a_warp():
    x, out = np.arange(64.0), np.empty(64)
    launch("warp_sums", (1,), (64,), (x, out), seed=3)
    np.testing.assert_array_equal(out, np.repeat(x.reshape(2, 32).sum(axis=1), 32))


def test_shuffles_and_votes_are_those_of_the_programming_guide():
    x, out = np.arange(100, 132, dtype=np.int32), np.empty((6, 32), np.int32)
    launch("shuffles", (1,), (32,), (x, out))
    lane = np.arange(32)
    last_of_8, first_of_16 = lane | 7, lane & ~15
    np.testing.assert_array_equal(out[0], x[3])
    np.testing.assert_array_equal(out[1], x[np.where(lane + 1 <= last_of_8, lane + 1, lane)])
    np.testing.assert_array_equal(out[2], x[np.where(lane - 2 >= first_of_16, lane - 2, lane)])
    np.testing.assert_array_equal(out[3], x[lane ^ 4])
    votes = np.sum((x % 3 == 0) * np.int64(1) << lane)
    np.testing.assert_array_equal(out[4].view(np.uint32), votes)
    np.testing.assert_array_equal(out[5], 0)


@pytest.mark.parametrize("n_workers", [1, 4])
def test_atomics_lose_nothing(n_workers):
    sums = np.zeros(1), np.zeros(1, np.float32), np.zeros(1, np.int32)
    launch("counts", (8,), (64,), sums, n_workers=n_workers)
    assert [float(s[0]) for s in sums] == [512.0] * 3


def test_threads_and_blocks_know_their_places():
    out = np.empty((2 * 3 * 2, 4 * 3 * 2), np.int64)
    launch("positions", (2, 3, 2), (4, 3, 2), (out,))
    np.testing.assert_array_equal(out, 1000 * np.arange(12)[:, None] + np.arange(24))


def test_shared_memory_that_nobody_wrote_is_not_a_number():
    out = np.zeros(32)
    launch("uninitialised", (1,), (32,), (out,), 32 * 8)
    assert np.isnan(out).all()


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("barrier_for_some", (), "lanes 0x000000ff wait at __syncthreads of faulty.cu:\\d+"),
        ("two_barriers", (), "threads meet at __syncthreads of .*\\d+ and at __syncthreads"),
        ("absent_lane", (np.zeros(64, np.int32),), "lanes 0x00000020 have ended"),
        ("source_outside_mask", (np.zeros(64, np.int32),), "reads lane 20, which is not in"),
        ("caller_outside_mask", (np.zeros(64, np.int32),), "0x0000ffff, which leaves it out"),
    ],
)
@pytest.mark.parametrize("seed", [0, 7])
def test_wait_without_end_is_an_error_that_says_who_waits_where(name, args, message, seed):
    with pytest.raises(EmulationError, match=message):
        launch(name, (2,), (64,), args, seed=seed)


@pytest.mark.parametrize("n_blocks", [1, 2, 4])
def test_blocks_of_a_cooperative_launch_meet(n_blocks):
    numbers, out = np.zeros(n_blocks + 1), np.zeros(32 * n_blocks)
    launch("grid_neighbours", (n_blocks,), (32,), (numbers, out), is_cooperative=True)
    expected = 1.0 + (np.arange(n_blocks) + 1) % n_blocks
    np.testing.assert_array_equal(out, np.repeat(expected, 32))


@pytest.mark.parametrize(
    ("name", "is_cooperative", "message"),
    [
        ("grid_absent", True, "waits at .*grid_barrier.cuh:\\d+ for blocks that wait too"),
        ("grid_neighbours", False, "another block at .* in a launch that is not cooperative"),
    ],
)
def test_block_that_waits_in_vain_is_an_error(name, is_cooperative, message):
    args = np.zeros(4), np.zeros(96)
    with pytest.raises(EmulationError, match=message):
        launch(name, (3,), (32,), args, is_cooperative=is_cooperative, n_workers=1)


def test_cooperative_launch_of_more_blocks_than_have_room_is_refused():
    with pytest.raises(AssertionError, match="blocks at once, where 4 have room"):
        launch("grid_neighbours", (5,), (32,), (np.zeros(6), np.zeros(160)), is_cooperative=True)


@pytest.mark.parametrize(("macros", "is_right"), [((), True), ((("WITHOUT_BARRIER", "1"),), False)])
def test_copy_is_not_made_before_it_is_waited_for(macros, is_right):
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    launch("late_copy", (1,), (32,), (x, out), 128, macros)
    assert np.array_equal(out, x) == is_right


def test_misaligned_copy_is_an_error():
    x = np.zeros(8, np.float32)
    with pytest.raises(EmulationError, match="copy of 16 bytes between addresses not aligned"):
        launch("misaligned_copy", (1,), (1,), (x, x.copy()), 32)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.zeros(64), 64), "NumPy scalar"),
        ((np.zeros(64), np.int32(64)), "expected i8, got i4"),
        ((np.zeros(64, np.float32), np.int64(64)), "expected pf8, got pf4"),
        ((np.zeros(128)[::2], np.int64(64)), "strides"),
        ((np.zeros(64),), "takes 2 arguments"),
    ],
)
def test_arguments_of_other_types_than_the_kernels_are_refused(args, message):
    with pytest.raises(AssertionError, match=message):
        launch("scaled", (1,), (32,), args)


# No NumPy and no snapml here: a sanitizer would slow down their imports.
SANITIZED = """
import ctypes, sys
library, name = sys.argv[1:3]
n_blocks, n_threads, shared_bytes, n_workers = map(int, sys.argv[3:])
# grid, block, shared_bytes, seed, n_workers, is_cooperative of cuda_on_cpu.hpp
class Launch(ctypes.Structure):
    _fields_ = [("a", ctypes.c_uint * 6), ("b", ctypes.c_uint64 * 2), ("c", ctypes.c_int * 2)]
is_cooperative = name.startswith("grid_")
launch = Launch(
    (n_blocks, 1, 1, n_threads, 1, 1), (shared_bytes, 0), (n_workers, is_cooperative)
)
arrays = [(ctypes.c_double * n_threads * n_blocks)() for _ in range(2)]
pointers = [ctypes.c_void_p(ctypes.addressof(array)) for array in arrays]
args = (ctypes.c_void_p * 2)(*(ctypes.addressof(pointer) for pointer in pointers))
ctypes.CDLL(library)["emulate_" + name](ctypes.byref(launch), args)
print("no report")
"""


def run_sanitized(sanitizer, name, n_blocks, n_threads, shared_bytes=0, macros=()):
    """Launch a kernel of two arrays under a sanitizer, and return what the process said."""
    library = build(Faulty(macros=macros), sanitizer)
    n_workers = 1 if sanitizer == "address" else 2
    values = map(str, (library, name, n_blocks, n_threads, shared_bytes, n_workers))
    command = [sys.executable, "-c", SANITIZED, *values]
    environment = environment_of(sanitizer)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.stdout + done.stderr


WITHOUT_BARRIER = (("WITHOUT_BARRIER", "1"),)
FLAWS = {
    "removed barrier": ("thread", ("reversed_block", 1, 64, 512, WITHOUT_BARRIER), "data race"),
    "removed warp barrier": ("thread", ("neighbours", 1, 32, 0, WITHOUT_BARRIER), "data race"),
    "plain sum of threads": ("thread", ("racy_count", 1, 32), "data race"),
    "plain sum of blocks": ("thread", ("racy_count", 2, 1), "data race"),
    "removed grid barrier": ("thread", ("grid_neighbours", 2, 32, 0, WITHOUT_BARRIER), "data race"),
    "unmarked read": ("thread", ("racy_read", 1, 32), "data race"),
    "end of shared memory": ("address", ("shared_overflow", 1, 32, 256), "heap-buffer-overflow"),
    "end of an array": ("address", ("array_overflow", 1, 64), "out of bounds"),
}


@pytest.mark.parametrize(("sanitizer", "launched", "report"), FLAWS.values(), ids=FLAWS)
def test_sanitizer_finds_the_flaw_and_names_the_file(sanitizer, launched, report):
    said = run_sanitized(sanitizer, *launched)
    assert report in said
    assert "faulty.cu" in said
    assert "no report" not in said


SOUND = [("reversed_block", 5, 64, 512), ("neighbours", 1, 64), ("marked_read", 4, 32)]
SOUND += [("grid_neighbours", 2, 32)]


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("launched", SOUND, ids=str)
def test_sanitizer_is_silent_about_sound_kernels(sanitizer, launched):
    assert run_sanitized(sanitizer, *launched) == "no report\n"
