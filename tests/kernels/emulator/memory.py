"""What the strict device's arrays take: bytes alive, their peak, and an allocation that fails."""

import contextlib
import threading
import weakref

import numpy as np

_UNIT = 512  # CuPy's allocations are multiples of it


class OutOfMemory(MemoryError):
    """Stands for ``cupy.cuda.memory.OutOfMemoryError``, which is a MemoryError too."""


class Memory:
    """Counts the buffers of arrays while it is watching.

    Parameters
    ----------
    n_allowed : int or None
        Allocations that succeed before one fails; None means all.
    """

    def __init__(self, n_allowed=None):
        self.n_allowed = n_allowed
        self.n_allocations = self.alive = self.peak = 0
        self._lock = threading.RLock()  # a buffer may be freed while another is counted
        self._counted = {}

    def count(self, array):
        """Count the buffer of an array unless it was counted before."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        with self._lock:
            if id(array) in self._counted:
                return
            if self.n_allocations == self.n_allowed:
                self.n_allowed = None  # whoever tries again may succeed
                raise OutOfMemory(f"Out of memory allocating {array.nbytes:,} bytes")
            size = -(-array.nbytes // _UNIT) * _UNIT
            self.n_allocations += 1
            self.alive += size
            self.peak = max(self.peak, self.alive)
            key = id(array)
            self._counted[key] = size, weakref.ref(array, lambda _: self._free(key))

    def _free(self, key):
        with self._lock:
            size, _ = self._counted.pop(key)
            self.alive -= size


_watching = []


def count(array):
    """Count an array of the device in every memory that is watching."""
    for memory in _watching:
        memory.count(array)


@contextlib.contextmanager
def watched(n_allowed=None):
    """Watch all strict devices inside ``with``."""
    memory = Memory(n_allowed)
    _watching.append(memory)
    try:
        yield memory
    finally:
        _watching.remove(memory)
