"""Copies through pinned buffers, with a stand-in for CuPy whose streams are as late as they may."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from snapml.kernels.device import staged_copy
from snapml.kernels.device.staged_copy import copy_staged

STAGE_BYTES = 4096


class FakeStream:
    """Runs what is queued when somebody waits for it, and not before."""

    def __init__(self, non_blocking=False):
        self.is_non_blocking = non_blocking
        self.queue, self.n_done, self.waits_for = [], 0, []

    def run_until(self, position):
        for event in self.waits_for:
            event.synchronize()
        while self.n_done < position:
            self.queue[self.n_done]()
            self.n_done += 1

    def wait_event(self, event):
        assert not self.queue, "work was queued before"
        self.waits_for.append(event)

    def synchronize(self):
        self.run_until(len(self.queue))


class FakeEvent:
    def __init__(self, block=False, disable_timing=False):
        assert disable_timing
        self.stream = None

    def record(self, stream):
        self.stream, self.position = stream, len(stream.queue)

    def synchronize(self):
        if self.stream is not None:
            self.stream.run_until(self.position)


class FakeArray:
    """An array of the device: contiguous, and written by streams only."""

    def __init__(self, data):
        self.data = data

    def reshape(self, *shape):
        return FakeArray(self.data.reshape(*shape))

    def __getitem__(self, key):
        return FakeArray(self.data[key])

    def set(self, array, stream):
        assert array.flags.c_contiguous
        assert (array.shape, array.dtype) == (self.data.shape, self.data.dtype)
        assert 0 < array.nbytes <= STAGE_BYTES
        stream.queue.append(lambda: np.copyto(self.data, array))


class FakeCupy:
    def __init__(self):
        self.current, self.streams, self.n_pinned = FakeStream(), [], 0
        self.cuda = SimpleNamespace(
            alloc_pinned_memory=self.pin,
            get_current_stream=lambda: self.current,
            Event=FakeEvent,
            Stream=self.stream,
        )

    def pin(self, n_bytes):
        self.n_pinned += n_bytes
        return bytearray(n_bytes)

    def stream(self, non_blocking):
        self.streams.append(FakeStream(non_blocking))
        return self.streams[-1]


@pytest.fixture(autouse=True)
def small_stages(monkeypatch):
    monkeypatch.setattr(staged_copy, "_LEAST_STAGE_BYTES", STAGE_BYTES)
    monkeypatch.setattr(staged_copy, "_MOST_STAGE_BYTES", STAGE_BYTES)


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape)


ARRAYS = {
    "a stage": numbers(512),
    "one more": numbers(513),
    "many": numbers(64, 77),
    "few": numbers(3),
    "one": numbers(1),
    "other type": numbers(1000, 3).astype(np.int32),
    "fortran order": np.asfortranarray(numbers(300, 11)),
    "every third row": numbers(999, 7)[1::3],
    "reversed": numbers(2000)[::-1],
    "some columns": numbers(200, 40)[:, 3:9],
    "rows longer than a stage": numbers(3, 1400)[:, ::2],
    "three axes": numbers(7, 20, 9),
    "read only": np.broadcast_to(numbers(5), (400, 5)),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_bytes_arrive_in_their_places(array):
    cupy, target = FakeCupy(), np.zeros(array.shape, array.dtype)
    copy_staged(cupy, array, FakeArray(target))
    assert target.tobytes() == array.tobytes()
    assert cupy.n_pinned == 2 * STAGE_BYTES
    (stream,) = cupy.streams
    assert stream.is_non_blocking
    assert stream.n_done == len(stream.queue) >= -(-array.nbytes // STAGE_BYTES)
    assert cupy.current.queue == []


def test_copy_waits_for_work_queued_before():
    """The target's memory may be another array's that a queued kernel still reads."""
    cupy, target, seen = FakeCupy(), np.zeros(2000), []
    cupy.current.queue.append(lambda: seen.append(target.any()))
    copy_staged(cupy, numbers(2000), FakeArray(target))
    assert seen == [False]


def test_one_buffer_is_filled_while_the_other_is_read(monkeypatch):
    """When a buffer is filled, the copy from the other one has not been waited for."""
    cupy, pending = FakeCupy(), []
    fill = staged_copy._fill

    def counted(*args):
        (stream,) = cupy.streams
        pending.append(len(stream.queue) - stream.n_done)
        fill(*args)

    monkeypatch.setattr(staged_copy, "_fill", counted)
    copy_staged(cupy, numbers(512 * 5), FakeArray(np.zeros(512 * 5)))
    assert pending == [0, 1, 1, 1, 1]


def test_interrupt_leaves_no_copy_and_no_thread_behind(monkeypatch):
    cupy, fill, calls = FakeCupy(), staged_copy._fill, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        fill(*args)

    monkeypatch.setattr(staged_copy, "_fill", interrupted)
    n_threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        copy_staged(cupy, numbers(512 * 9), FakeArray(np.zeros(512 * 9)))
    assert len(calls) == 3
    assert threading.active_count() == n_threads
    (stream,) = cupy.streams
    assert stream.n_done == len(stream.queue) == 2
