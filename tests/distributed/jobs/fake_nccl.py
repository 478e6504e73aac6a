"""The part of ``cupy.cuda.nccl`` that snapml calls, over MPI and memory of the host."""

import ctypes
import itertools

import numpy as np
from mpi4py import MPI  # noqa: TID253 - for jobs of MPI

NCCL_FLOAT64 = 8
available = True
calls = []
"""What was called, in order."""

_numbers = itertools.count(1)
_queue = None
_MEETING_TAG, _FIRST_TAG = 1, 100


def get_unique_id():
    return (MPI.COMM_WORLD.rank, _FIRST_TAG + next(_numbers))


def groupStart():
    global _queue
    assert _queue is None, "groups are not nested here"
    calls.append("groupStart")
    _queue = []


def groupEnd():
    """Run what the group has queued: nothing of it depends on the order inside."""
    global _queue
    calls.append("groupEnd")
    MPI.Request.Waitall([start() for start in _queue])
    _queue = None


class NcclCommunicator:
    """Ranks that meet by an id that one of them has made."""

    def __init__(self, size, mark, rank):
        first, self._tag = mark
        world = MPI.COMM_WORLD
        if world.rank == first:
            members = dict([(rank, first)])
            for _ in range(size - 1):
                other, number = world.recv(tag=self._tag)
                members[other] = number
            for number in members.values():
                if number != first:
                    world.send(members, dest=number, tag=self._tag)
        else:
            world.send((rank, world.rank), dest=first, tag=self._tag)
            members = world.recv(source=first, tag=self._tag)
        assert sorted(members) == list(range(size))
        self._members, self._rank = members, rank
        self.is_destroyed = False

    def send(self, address, count, datatype, peer, stream):
        buffer = self._checked("send", address, count, datatype, peer, stream)
        _queue.append(lambda: MPI.COMM_WORLD.Isend(buffer, self._members[peer], self._tag))

    def recv(self, address, count, datatype, peer, stream):
        buffer = self._checked("recv", address, count, datatype, peer, stream)
        _queue.append(lambda: MPI.COMM_WORLD.Irecv(buffer, self._members[peer], self._tag))

    def destroy(self):
        self.is_destroyed = True
        calls.append("destroy")

    def _checked(self, name, address, count, datatype, peer, stream):
        assert _queue is not None, "outside of a group, ranks would wait for each other for ever"
        assert not self.is_destroyed
        assert datatype == NCCL_FLOAT64
        assert peer != self._rank
        assert count > 0
        assert (type(address), type(count), type(peer), type(stream)) == (int, int, int, int)
        calls.append(name)
        memory = (ctypes.c_double * count).from_address(address)
        return np.frombuffer(memory, np.float64)
