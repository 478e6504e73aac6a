"""Sums over ranks: in the order that is promised, wherever the arrays are and the ranks too."""

import numpy as np
import pytest

from snapml.distributed import ordered_sums
from snapml.distributed.mpi.host_group import HostGroup

from .launching import results_of, run_job


@pytest.fixture(scope="module")
def results():
    """Return what jobs of 1 to 4 ranks found, all in one."""
    return results_of(run_job("sums.py", 4))


def test_every_layout_of_nodes_was_tried(results):
    layouts = [found["layout"] for found in results if "layout" in found]
    assert len(layouts) == 3 * (1 + 2 + 4 + 6)


@pytest.mark.parametrize("kind", ["host", "staged", "nccl"])
def test_bits_are_those_of_the_fixed_order_on_all_ranks(results, kind):
    for found in results:
        if found.get("kind") == kind:
            assert found["wrong"] == [[]] * len(found["layout"]), found


def test_groups_of_nccl_are_closed_and_given_back(results):
    calls = results[-1]["calls"]
    assert calls["is_used"]
    assert calls["groupStart"] == calls["groupEnd"]
    assert calls["destroy"] > 0


class CountingComm:
    """One rank's end of MPI that keeps the largest number it was asked to count to."""

    most = 0

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 3

    def Alltoallv(self, sent, received):
        self._count(sent[1])
        self._count(received[1])

    def Allgatherv(self, sent, received):
        self._count(received[1])

    def _count(self, blocks):
        counts, places = blocks
        assert counts.dtype == places.dtype == np.int64
        self.most = max(self.most, int((counts + places).max()))


def without_memory(count):
    """Return an array of any length whose entries are one and the same."""
    return np.broadcast_to(np.zeros(()), (count,))


@pytest.mark.parametrize("count", [100, 2**24, 2**31 + 5, 2**33])
def test_no_message_counts_past_32_bits(monkeypatch, count):
    comm, traffic = CountingComm(), ordered_sums.Traffic()
    group = HostGroup(comm)
    monkeypatch.setattr(group, "empty", without_memory)
    monkeypatch.setattr(ordered_sums, "_added_up", lambda parts: parts[0])
    level = ordered_sums.Level(group, 3, np.array([False, True, True]))
    total = ordered_sums.OrderedSum([level], traffic)
    total.add(without_memory(count), without_memory(count))
    assert 0 < comm.most <= min(count, 2**27)
    assert traffic.across == pytest.approx(2 * 8 * count * 2 / 3, rel=1e-2)
    assert traffic.within == 0
