"""GPUs to ranks: as many ranks as can have one of their own get one."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

pytest.importorskip("mpi4py", reason="mpi4py is not installed")

from snapml.distributed.mpi import placement

SEEN = st.lists(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4), max_size=7)


@given(SEEN)
@example([["a", "b"], ["a"], ["b"]])
@example([["a", "b"], ["a"], ["c", "b"], ["b"], []])
def test_as_many_ranks_as_possible_get_a_gpu_that_they_see(visible):
    found = placement._matched(visible)
    taken = [visible[rank][number] for rank, number in found.items()]
    assert len(set(taken)) == len(taken)
    sees = np.array([[uuid in own for uuid in "abcdef"] for own in visible], dtype=int)
    if sees.size:
        best = maximum_bipartite_matching(csr_matrix(sees), perm_type="column")
        assert len(found) == np.count_nonzero(best >= 0)
    else:
        assert found == {}


def test_ranks_that_see_all_take_them_in_order():
    assert placement._matched([list("abcd")] * 3) == {0: 0, 1: 1, 2: 2}


def test_ranks_that_name_theirs_take_part_in_no_matching():
    assert placement._matched([None, ["a"], None]) == {1: 0}


def test_several_gpus_are_refused_where_mpi_has_one_thread(monkeypatch):
    mpi = SimpleNamespace(Query_thread=lambda: 1, THREAD_SERIALIZED=2)
    monkeypatch.setattr(placement, "mpi_module", lambda: mpi)
    ranks = SimpleNamespace(rank=0, exchange=lambda value: [value])
    assert placement.placed([3], ranks) == (3,)
    with pytest.raises(RuntimeError, match=r"device_ids=\[0, 1\].*one GPU for each rank"):
        placement.placed([0, 1], ranks)
