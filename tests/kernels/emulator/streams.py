"""Streams of copies that run as late as they may, and what nothing orders is an error.

The work of the current stream runs at once, copies not before somebody waits for them. That shows a
copy that is missing a wait behind it. A copy that would have to wait for work before it is found by
counting: of memory that copies write to, every use by the current stream is numbered, and a copy
must come after a mark behind the last of them.
"""

import threading
import weakref
import zlib

import numpy as np


class OrderError(AssertionError):
    """Two operations on the same memory that nothing puts in an order."""


def root(array):
    """Return the array that owns the memory."""
    while isinstance(base := array.base, np.ndarray):
        array = base
    return array


class _Buffer:
    """Memory that copies write to."""

    def __init__(self, array):
        self.owner = weakref.ref(array)
        self.last_use = 0
        self.pending = []  # copies, by their streams and places


class CopyTargets:
    """The memory of one device that copies write to."""

    def __init__(self):
        self.n_uses = 0
        self._buffers = {}

    def of(self, array, *, is_new=False):
        """Return what is known of an array's memory, if copies ever wrote to it."""
        owner = root(array)
        known = self._buffers.get(id(owner))
        if known is not None and known.owner() is owner:
            return known
        if is_new:
            self._buffers[id(owner)] = known = _Buffer(owner)
            return known
        return None

    def use(self, array):
        """Note that work of the current stream reads or writes an array."""
        buffer = self.of(array) if self._buffers else None
        if buffer is None:
            return
        if any(stream.n_done < place for stream, place in buffer.pending):
            raise OrderError("work on memory that a copy may still write to")
        buffer.pending.clear()
        self.n_uses += 1
        buffer.last_use = self.n_uses


class WorkMark:
    """A place in the current stream's work, which is done as soon as it is queued."""

    def __init__(self, position):
        self.position = position

    def synchronize(self):
        pass


class CopyMark:
    """A place in a stream of copies."""

    def __init__(self, stream, position):
        self._stream, self._position = stream, position

    def synchronize(self):
        self._stream.run_until(self._position)


class LateCopyStream:
    """Copies that run when somebody waits for them, and not before (protocol `CopyStream`)."""

    def __init__(self, targets):
        self._targets = targets
        self._queue, self.n_done = [], 0
        self._comes_after = -1  # of the current stream's uses
        self._lock = threading.RLock()

    def copy(self, source, target):
        """Queue a copy into an array of NumPy."""
        assert source.flags.c_contiguous
        assert target.flags.c_contiguous
        assert (source.shape, source.dtype) == (target.shape, target.dtype)
        buffer = self._targets.of(target, is_new=True)
        if buffer.last_use > self._comes_after:
            raise OrderError("a copy into memory that queued work may still use")
        content = zlib.crc32(source)

        def run():
            if zlib.crc32(source) != content:
                raise OrderError("memory of the host has changed before the copy from it was done")
            np.copyto(target, source)

        with self._lock:
            self._queue.append(run)
            buffer.pending.append((self, len(self._queue)))

    def wait(self, mark):
        """Put the copies to come behind a mark of the current stream."""
        self._comes_after = max(self._comes_after, mark.position)

    def mark(self):
        """Return a mark behind the copies so far."""
        return CopyMark(self, len(self._queue))

    def run_until(self, position):
        """Run the first copies of the queue."""
        with self._lock:
            while self.n_done < position:
                self._queue[self.n_done]()
                self._queue[self.n_done] = None
                self.n_done += 1

    def synchronize(self):
        """Run all copies."""
        self.run_until(len(self._queue))
