"""Vectors that grow, and that another process takes over."""

import gc
import mmap
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from snapml import _native
from snapml.data import growing_array
from snapml.data.growing_array import GrowingArray, by_blocks, can_share

KINDS = [
    False,
    pytest.param(True, marks=pytest.mark.skipif(not can_share(), reason="no shared memory here")),
]
PAGE = mmap.PAGESIZE // 8


def filled(parts, is_shared, dtype=np.float64):
    array = GrowingArray(np.dtype(dtype), is_shared=is_shared)
    for part in parts:
        array.append(part)
    return array


def open_files():
    gc.collect()
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


@pytest.mark.parametrize("is_shared", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_entries_come_back_in_order_however_they_have_come(is_shared, dtype):
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 9, size=n).astype(float) for n in (0, 1, 3000, 7, 0, 100_000, 5)]
    array = filled(parts, is_shared, dtype)
    np.testing.assert_array_equal(array.filled(), np.concatenate(parts))
    assert array.filled().dtype == dtype
    assert array.n_bytes == sum(map(len, parts)) * np.dtype(dtype).itemsize
    assert len(GrowingArray(np.dtype(dtype), is_shared=is_shared).filled()) == 0


@pytest.mark.parametrize("is_shared", KINDS)
def test_who_looks_at_entries_sees_them_while_the_vector_grows(is_shared):
    array = filled([np.arange(5.0)], is_shared)
    seen = array.filled()
    array.append(np.ones(100_000))
    np.testing.assert_array_equal(seen, np.arange(5.0))
    np.testing.assert_array_equal(array.filled()[:6], [0.0, 1.0, 2.0, 3.0, 4.0, 1.0])


def test_threads_copy_all_blocks(monkeypatch):
    monkeypatch.setattr(growing_array, "_BLOCK_BYTES", 64)
    array = GrowingArray(np.dtype(np.float64))
    array.append(np.arange(1001.0), n_threads=3)
    np.testing.assert_array_equal(array.filled(), np.arange(1001.0))


def test_what_fails_in_a_block_reaches_the_caller():
    def fails(block):
        raise MemoryError(str(block.start))

    with pytest.raises(MemoryError, match="0"):
        by_blocks(fails, 10, 4, 2)


@pytest.mark.parametrize("is_shared", KINDS)
@pytest.mark.parametrize("n", [0, 1, 5000])
def test_what_is_handed_over_is_there_and_no_longer_here(is_shared, n, tmp_path):
    before = open_files()
    array = filled([np.arange(float(n))], is_shared)
    array.hand_over(tmp_path, "values")
    assert array.n_bytes == 0
    (path,) = tmp_path.iterdir()
    found = GrowingArray.handed_over(path)
    np.testing.assert_array_equal(found.filled(), np.arange(float(n)))
    assert found.filled().dtype == np.float64
    found.release()
    assert (found.n_bytes, path.stat().st_size) == (0, 0)
    del array, found
    assert open_files() == before


def take(path, answers):
    found = GrowingArray.handed_over(path)
    answers.put(float(found.filled().sum()))
    found.release()


@pytest.mark.skipif(not can_share(), reason="no shared memory here")
def test_another_process_takes_the_memory_itself(tmp_path):
    array = filled([np.ones(50_000)], True)
    array.hand_over(tmp_path, "values")
    (path,) = tmp_path.iterdir()
    assert path.is_symlink()
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=take, args=(path, answers))
    process.start()
    assert answers.get(timeout=60.0) == 50_000.0
    process.join()
    assert path.stat().st_size == 0


@pytest.mark.skipif(not can_share(), reason="no shared memory here")
def test_memory_of_a_process_that_has_ended_is_an_error(tmp_path):
    array = filled([np.ones(3)], True)
    array.hand_over(tmp_path, "values")
    del array
    (path,) = tmp_path.iterdir()
    with pytest.raises(OSError, match="No such file"):
        GrowingArray.handed_over(path)


@pytest.mark.skipif(not can_share(), reason="no shared memory here")
@pytest.mark.parametrize("sizes", [[0, 0, 0], [PAGE, 0, 2 * PAGE], [3 * PAGE, PAGE, 2 * PAGE]])
def test_joined_vectors_are_over_their_memory(sizes):
    before = open_files()
    entries = [np.arange(n * PAGE + more) for n, more in ((3, 5), (1, 0), (2, 77))]
    parts = [filled([each], True) for each in entries]
    array = GrowingArray.joined(parts, sizes)
    whole = [each[:n] for each, n in zip(entries, sizes, strict=True)]
    rest = [each[n:] for each, n in zip(entries, sizes, strict=True)]
    np.testing.assert_array_equal(array.filled(), np.concatenate(whole + rest))
    if sizes[0]:
        array.filled()[0] = -1.0
        assert parts[0].filled()[0] == -1.0
    expected = array.filled().copy()
    seen = array.filled()
    del array, parts
    np.testing.assert_array_equal(seen, expected)  # lives as long as anybody looks
    del seen
    assert open_files() == before


@pytest.mark.skipif(not can_share(), reason="no shared memory here")
def test_what_cannot_be_joined_is_refused():
    shared, private = filled([np.ones(PAGE)], True), filled([np.ones(PAGE)], False)
    with pytest.raises(ValueError, match="expected shared vectors, got a private one"):
        GrowingArray.joined([shared, private], [0, 0])
    with pytest.raises(ValueError, match="expected whole pages of files, got 8 of"):
        GrowingArray.joined([shared], [1])
    with pytest.raises(ValueError, match="expected whole pages of files"):  # beyond the end
        _native.joined_memory([(shared._descriptor, 1 << 40)], 0)
    with pytest.raises(ValueError, match="expected at least one byte"):
        _native.joined_memory([], 0)
    with pytest.raises(ValueError, match="n_more: expected at least 0, got -1"):
        _native.joined_memory([], -1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        _native.joined_memory([(10**6, mmap.PAGESIZE)], 0)


@pytest.mark.skipif(not can_share(), reason="no shared memory here")
@pytest.mark.parametrize("n", [1, 511, 512, 5000])
def test_what_was_taken_over_holds_one_descriptor(n, tmp_path):
    array = filled([np.arange(float(n))], True)
    array.hand_over(tmp_path, "values")
    (path,) = tmp_path.iterdir()
    before = open_files()
    taken = [GrowingArray.handed_over(path) for _ in range(20)]
    assert open_files() == before + 20
    taken[0].filled()[-1] = -1.0
    np.testing.assert_array_equal(taken[19].filled(), [*range(n - 1), -1.0])
    del taken
    assert open_files() == before


@pytest.mark.skipif(not can_share(), reason="no shared memory here")
def test_process_that_others_may_not_look_at_shares_nothing():
    code = (
        "import ctypes\n"
        "from snapml.data.growing_array import can_share\n"
        "print(can_share())\n"
        "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"  # PR_SET_DUMPABLE, as after setuid
        "print(can_share.__wrapped__())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_systems_without_shared_memory_say_so(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert not can_share.__wrapped__()
    monkeypatch.setattr(
        os, "memfd_create", lambda name: os.open(os.devnull, os.O_RDONLY), raising=False
    )
    monkeypatch.setattr(growing_array, "_link", lambda descriptor: "/nowhere")
    assert not can_share.__wrapped__()
