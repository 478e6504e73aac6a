"""Adds up arrays of all kinds on ranks that count as nodes of all kinds; compares with an oracle.

Jobs of fewer ranks are the first ranks of this one.
"""

import json

import fake_nccl
import numpy as np
from emulated_gpus import NcclDevice, StrictDevice
from mpi4py import MPI  # noqa: TID253 - a job of MPI

from snapml.distributed.mpi import MpiCommunicator

LAYOUTS = {
    1: [[0]],
    2: [[0, 0], [0, 1]],
    3: [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 2]],
    4: [[0, 0, 0, 0], [0, 0, 1, 1], [7, 2, 7, 2], [0, 1, 1, 1], [0, 1, 1, 0], [0, 1, 2, 3]],
}
COUNTS = [1, 62, 63, 64, 1000, 4099]


def addends(count, size):
    """Return what the ranks have: sums of these depend on the order."""
    rng = np.random.default_rng(count)
    return rng.normal(size=(size, count)) * 10.0 ** rng.integers(-8, 8, (size, count))


def expected(values, layout, *, by_node):
    """Return the sum in the order of ranks, or of the ranks of nodes and then of nodes."""
    if not by_node:
        return in_order(values)
    layout = np.array(layout)
    return in_order([in_order(values[layout == node]) for node in dict.fromkeys(layout.tolist())])


def in_order(values):
    total = values[0].copy()
    for addend in values[1:]:
        total = total + addend
    return total


def least_bytes(count, layout, rank):
    """Return what a rank sends within its node and to others, parts of `count` being equal."""
    size, nodes = len(layout), len(set(layout))
    local = layout.count(layout[rank])
    if nodes == 1 or local == 1:
        share = 2 * 8 * count / size
        return share * (local - 1), share * (size - local)
    return 2 * 8 * count * (local - 1) / local, 2 * 8 * (count / local) * (nodes - 1) / nodes


def place_of(kind):
    """Return a rank's array maker, and what turns a sum into an array of the host."""
    if kind == "host":
        return None, np.asarray, np.asarray
    device = NcclDevice() if kind == "nccl" else StrictDevice()
    return device, device.to_device, device.to_host


def try_all(comm, layout, kind):
    """Return how the sums of one layout and kind of array differ from what they should be."""
    ranks = MpiCommunicator(comm, node=layout[comm.rank])
    by_node = len(set(layout)) > 1 and len(set(layout)) < comm.size
    wrong = [] if ranks.nodes.is_by_node == by_node else ["choice"]
    device, put, get = place_of(kind)
    adder = ranks if device is None else ranks.with_device(device)
    if device is not None and adder.uses_nccl != (kind == "nccl" and comm.size > 1):
        wrong.append(adder.description)
    # Short pieces stand for those of 2 GB and more.
    for most in (None, 100):
        if most is not None:
            ranks._long_sum.most_at_once = most
            if device is not None:
                adder._sum.most_at_once = most
        for count in COUNTS:
            values = addends(count, comm.size)
            own = put(values[comm.rank].copy().reshape(-1, 1))
            n_before = ranks.traffic.within, ranks.traffic.across
            found = get(adder.allreduce_sum(own))
            long = by_node and count > 62
            ok = np.array_equal(found.ravel(), expected(values, layout, by_node=long))
            ok &= found.shape == (count, 1)
            ok &= np.array_equal(get(own).ravel(), values[comm.rank])
            if count > 62 and len(set(map(layout.count, layout))) == 1:
                sent = np.subtract((ranks.traffic.within, ranks.traffic.across), n_before)
                pieces = 1 if most is None else -(-count // most)
                least = least_bytes(count, layout, comm.rank)
                ok &= bool((np.abs(sent - least) <= 8 * 4 * comm.size * pieces).all())
            if not ok:
                wrong.append((most, count))
    ranks.close()
    return wrong


def main():
    world = MPI.COMM_WORLD
    for size, layouts in LAYOUTS.items():
        comm = world.Split(0 if world.rank < size else MPI.UNDEFINED, world.rank)
        if comm == MPI.COMM_NULL:
            continue
        for layout in layouts:
            for kind in ("host", "staged", "nccl"):
                found = comm.gather(try_all(comm, layout, kind))
                if comm.rank == 0:
                    result = {"layout": layout, "kind": kind, "wrong": found}
                    print(json.dumps(result, default=str), flush=True)
    groups = fake_nccl.calls.count("groupStart")
    # Ranks that leave out a send, or a group's end, would not have come here.
    if world.rank == 0:
        n = {name: fake_nccl.calls.count(name) for name in ("groupStart", "groupEnd", "destroy")}
        n["is_used"] = groups > 0
        print(json.dumps({"calls": n}), flush=True)


if __name__ == "__main__":
    main()
