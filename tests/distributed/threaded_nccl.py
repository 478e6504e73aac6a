"""The part of ``cupy.cuda.nccl`` that snapml calls, for ranks on threads of one process."""

import ctypes
import itertools
import queue
import threading

import numpy as np

__all__ = ["ThreadedNccl"]

_TIMEOUT_S = 10.0


class ThreadedNccl:
    """Stands for the module; ranks that have the same one can meet.

    Attributes
    ----------
    n_open : int
        Communicators that nobody has destroyed.
    """

    NCCL_FLOAT64 = 8

    def __init__(self):
        self.n_open = 0
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._ways = {}
        self._queued = threading.local()

    def get_unique_id(self):
        return (next(self._numbers), 0)

    def groupStart(self):
        self._queued.sends, self._queued.receives = [], []

    def groupEnd(self):
        """Run what the group has queued: nothing of it depends on the order inside."""
        for way, memory in self._queued.sends:
            way.put(memory.copy())
        for way, memory in self._queued.receives:
            memory[:] = way.get(timeout=_TIMEOUT_S)
        del self._queued.sends, self._queued.receives

    def NcclCommunicator(self, size, mark, rank):
        self.count(1)
        return _Communicator(self, size, mark, rank)

    def count(self, change):
        with self._lock:
            self.n_open += change

    def way(self, *key):
        with self._lock:
            return self._ways.setdefault(key, queue.Queue())


class _Communicator:
    def __init__(self, nccl, size, mark, rank):
        self._nccl, self._size, self._mark, self._rank = nccl, size, mark, rank

    def send(self, address, count, datatype, peer, stream):
        way = self._nccl.way(self._mark, self._rank, peer)
        memory = self._checked(address, count, datatype, peer, stream)
        self._nccl._queued.sends.append((way, memory))

    def recv(self, address, count, datatype, peer, stream):
        way = self._nccl.way(self._mark, peer, self._rank)
        memory = self._checked(address, count, datatype, peer, stream)
        self._nccl._queued.receives.append((way, memory))

    def destroy(self):
        self._nccl.count(-1)

    def _checked(self, address, count, datatype, peer, stream):
        assert datatype == ThreadedNccl.NCCL_FLOAT64
        assert 0 <= peer < self._size
        assert peer != self._rank
        assert count > 0
        assert (type(address), type(count), type(peer), type(stream)) == (int, int, int, int)
        return np.frombuffer((ctypes.c_double * count).from_address(address), np.float64)
