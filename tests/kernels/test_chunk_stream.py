"""Chunks on their way to a device: every byte arrives, and nothing but marks orders the way."""

import threading

import numpy as np
import pytest

from snapml.kernels.device import chunk_stream
from snapml.kernels.device.chunk_stream import ChunkStream, Piece

from .emulator.streams import LateCopyStream, OrderError
from .emulator.strict_arrays import StrictDevice

N_CHUNKS, N_ROWS, N_PIECES = 9, 8, 2


class LoggingDevice(StrictDevice):
    """Keeps the order in which the host queues copies and work, and waits."""

    def __init__(self):
        super().__init__()
        self.log = []

    def copy_stream(self):
        device, stream = self, super().copy_stream()
        plain = stream.copy

        def copy(source, target):
            device.log.append("copy")
            plain(source, target)

        stream.copy = copy
        return stream

    def to_host(self, array, out=None):
        self.log.append("host waits")
        return super().to_host(array, out)


@pytest.fixture(autouse=True)
def few_stages(monkeypatch):
    monkeypatch.setattr(chunk_stream, "_MOST_STAGES", 3)


def content(number):
    return np.random.default_rng(number).normal(size=(N_ROWS, 3))


def read(number, memory):
    """Fill the memory and cut it into two pieces."""
    rows = memory.view(np.float64).reshape(N_ROWS, 3)
    rows[:] = content(number)
    half = N_ROWS // N_PIECES
    return [
        Piece(slice(first, first + half), 0, (rows[first : first + half],))
        for first in range(0, N_ROWS, half)
    ]


def stream_on(device):
    return ChunkStream(device, 8 * N_ROWS * 3, [((N_ROWS // N_PIECES, 3), np.dtype(np.float64))])


def passed(device, stream, numbers=range(N_CHUNKS), read=read):
    """Return the sums of all pieces, added up on the device, as a pass does."""
    sums = []
    for number, piece in stream.pieces(read, numbers):
        sums.append((number, piece.rows, piece.arrays[0].sum()))
        getattr(device, "log", []).append("work")
    return [(number, rows, float(total)) for number, rows, total in sums]


def expected(numbers=range(N_CHUNKS)):
    halves = slice(0, 4), slice(4, 8)
    return [(n, rows, float(content(n)[rows].sum())) for n in numbers for rows in halves]


def test_every_piece_arrives_in_order_pass_after_pass():
    device = StrictDevice()
    with device.use():
        stream = stream_on(device)
        for numbers in (range(N_CHUNKS), range(N_CHUNKS), [4], [], [8, 1, 3]):
            assert passed(device, stream, numbers) == expected(numbers)


def test_host_waits_for_nothing_and_copies_are_queued_ahead_of_the_work_they_pass_by():
    """A copy is queued behind one piece of work: the buffers are two, and both are in use."""
    device = LoggingDevice()
    with device.use():
        passed(device, stream_on(device))
    assert device.log == ["copy", "work"] * (N_CHUNKS * N_PIECES)


def test_several_chunks_are_read_at_once():
    """Nobody could fill three buffers at the same time if one thread did it."""
    meeting = threading.Barrier(3, timeout=20)

    def read_together(number, memory):
        if number < 3:
            meeting.wait()
        return read(number, memory)

    device = StrictDevice()
    with device.use():
        assert passed(device, stream_on(device), read=read_together) == expected()


class Missing:
    """A device or stream without one of its waits."""

    @staticmethod
    def work_for_copy(monkeypatch):
        monkeypatch.setattr(StrictDevice, "wait", lambda *_: None)

    @staticmethod
    def copy_for_work(monkeypatch):
        monkeypatch.setattr(LateCopyStream, "wait", lambda *_: None)

    @staticmethod
    def copy_for_last_work(monkeypatch):
        """The mark is made before the work, in the place of behind it."""
        plain = ChunkStream._sent

        def sent(self, piece):
            found = plain(self, piece)
            mark = self._device.mark()
            monkeypatch.setattr(self._device, "mark", lambda: mark)
            return found

        monkeypatch.setattr(ChunkStream, "_sent", sent)

    @staticmethod
    def reader_for_copy(monkeypatch):
        def filled(self, read, number, stage):
            return read(number, stage.memory)

        monkeypatch.setattr(ChunkStream, "_filled", filled)
        # A copy that is as late as it may be: no work waits for it before the memory is reused.
        monkeypatch.setattr(chunk_stream, "DEVICE_BUFFERS", 64)


@pytest.mark.parametrize(
    "missing", ["work_for_copy", "copy_for_work", "copy_for_last_work"], ids=str
)
def test_missing_wait_is_found(monkeypatch, missing):
    getattr(Missing, missing)(monkeypatch)
    device = StrictDevice()
    with device.use(), pytest.raises(OrderError):
        passed(device, stream_on(device))


@pytest.mark.parametrize("is_missing", [False, True])
def test_pinned_buffer_is_filled_again_after_the_copies_from_it(monkeypatch, is_missing):
    if is_missing:
        Missing.reader_for_copy(monkeypatch)
    device = StrictDevice()
    with device.use():
        stream = stream_on(device)
        pieces = stream.pieces(read, range(N_CHUNKS))
        if is_missing:
            monkeypatch.setattr(StrictDevice, "wait", lambda *_: None)  # which runs the copies
            with pytest.raises(OrderError, match="memory of the host has changed"):
                list(pieces)
        else:
            assert len(list(pieces)) == N_CHUNKS * N_PIECES


def work_on(pieces, error):
    for number, piece in pieces:
        piece.arrays[0].sum()
        if error is not None and number == 5:
            raise error("at work")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("at", ["read", "work"])
def test_pass_that_fails_leaves_no_copy_and_no_thread_and_the_next_one_works(error, at):
    def failing(number, memory):
        if at == "read" and number == 5:
            raise error("while reading")
        return read(number, memory)

    device = StrictDevice()
    n_threads = threading.active_count()
    with device.use():
        stream = stream_on(device)
        with pytest.raises(error):
            work_on(stream.pieces(failing, range(N_CHUNKS)), error if at == "work" else None)
        assert threading.active_count() == n_threads
        assert stream._copies.n_done == len(stream._copies._queue)
        assert passed(device, stream) == expected()


def test_interrupt_before_a_copy_is_waited_for_leaves_none_that_writes(monkeypatch):
    device, plain, waits = StrictDevice(), StrictDevice.wait, []

    def wait(self, mark):
        waits.append(mark)
        if len(waits) == 5:
            raise KeyboardInterrupt
        plain(self, mark)

    monkeypatch.setattr(StrictDevice, "wait", wait)
    with device.use():
        stream = stream_on(device)
        with pytest.raises(KeyboardInterrupt):
            work_on(stream.pieces(read, range(N_CHUNKS)), None)
        assert stream._copies.n_done == len(stream._copies._queue) == 5
        assert passed(device, stream) == expected()


def test_copies_from_pageable_memory_are_refused_by_the_emulated_device():
    device = StrictDevice()
    with device.use():
        stream, target = device.copy_stream(), device.xp.zeros(3, np.float64)
        with pytest.raises(AssertionError, match="pageable"):
            stream.copy(np.zeros(3), target)
