"""How many ranks each machine gets, and which cores each rank."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapml_run.cores import Core
from snapml_run.gpus import Gpu
from snapml_run.hosts import Allocation, Host
from snapml_run.placement import place, share_cores
from snapml_run.refusal import Refusal

from .machines import machine

HERE = Allocation((Host("localhost"),), "this machine")


def hosts(*slots, cpus=None):
    names = "abcdefgh"
    return Allocation(
        tuple(Host(names[k], n, cpus and cpus[k]) for k, n in enumerate(slots)), "--hosts"
    )


def placed(allocation, cores=8, gpus=(), **wishes):
    settings = {
        "n_gpus": None,
        "n_ranks": None,
        "n_cores": None,
        "is_bound": True,
        "may_crowd": False,
        **wishes,
    }
    here = machine(cores) if isinstance(cores, int) else cores
    return place(allocation, here, gpus, **settings)


def numbers(placement):
    return [[core.number for core in cores] for cores in placement.cores]


def near(*cpus):
    return [Gpu(str(k), near_cpus=frozenset(found)) for k, found in enumerate(cpus)]


def test_cores_of_this_machine_are_divided_evenly():
    found = placed(HERE, n_ranks=2)
    assert found.hosts == (("localhost", 2),)
    assert numbers(found) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert found.n_threads == 4


def test_cores_that_cannot_be_divided_are_left_over():
    found = placed(HERE, n_ranks=3)
    assert numbers(found) == [[0, 1], [2, 3], [4, 5]]
    assert found.n_threads == 2


def test_number_of_ranks_is_asked_for_where_nothing_tells_it():
    with pytest.raises(Refusal, match="-n: expected the number of ranks"):
        placed(HERE)


def test_more_ranks_than_cores_only_when_asked():
    with pytest.raises(Refusal, match=r"9 ranks: expected at most 8, .* this machine.*oversubsc"):
        placed(HERE, n_ranks=9)
    found = placed(HERE, n_ranks=9, may_crowd=True)
    assert (found.n_ranks, found.cores, found.n_threads) == (9, (), 1)
    assert found.is_crowded
    assert found.note == "there are more ranks than cores"


def test_hosts_say_how_many_ranks():
    found = placed(hosts(2, 2))
    assert found.hosts == (("a", 2), ("b", 2))
    assert numbers(found) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_host_without_a_number_takes_one_rank():
    assert placed(hosts(None, 3)).hosts == (("a", 1), ("b", 3))
    with pytest.raises(Refusal, match="3 ranks: expected at most 2"):
        placed(hosts(None, None), n_ranks=3)


def test_fewer_ranks_than_places_are_balanced():
    assert placed(hosts(4, 4, 4), n_ranks=4).hosts == (("a", 2), ("b", 1), ("c", 1))
    assert placed(hosts(4, 4), n_ranks=1).hosts == (("a", 1),)
    assert placed(hosts(1, 4), n_ranks=4).hosts == (("a", 1), ("b", 3))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(1, 60), st.booleans())
@example([1, 4], 4, False)
def test_ranks_are_all_placed_and_differ_only_where_there_is_no_room(slots, n_ranks, may_crowd):
    if n_ranks > sum(slots) and not may_crowd:
        with pytest.raises(Refusal):
            placed(hosts(*slots), n_ranks=n_ranks, may_crowd=may_crowd)
        return
    found = placed(hosts(*slots), n_ranks=n_ranks, may_crowd=may_crowd)
    counts = dict(found.hosts)
    counts = [counts.get(host.name, 0) for host in hosts(*slots).hosts]
    assert sum(counts) == n_ranks
    if n_ranks <= sum(slots):
        assert all(count <= n for count, n in zip(counts, slots, strict=True))
        roomy = [count for count, n in zip(counts, slots, strict=True) if count < n]
        assert max(counts) - min(roomy, default=max(counts)) <= 1


def test_one_rank_a_gpu():
    found = placed(HERE, gpus=near([0, 1, 2, 3], [4, 5, 6, 7]))
    assert found.hosts == (("localhost", 2),)
    assert numbers(found) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_cores_are_those_near_the_gpu():
    far, close = [4, 5, 6, 7], [0, 1, 2, 3]
    found = placed(HERE, gpus=near(far, far, close, close))
    assert numbers(found) == [[4, 5], [6, 7], [0, 1], [2, 3]]


def test_ranks_share_evenly_where_cores_near_a_gpu_are_too_few():
    found = placed(HERE, gpus=near([0], [0], [1, 2, 3]))
    assert numbers(found) == [[0, 1], [2, 3], [4, 5]]
    found = placed(HERE, gpus=near([0, 1], []))
    assert numbers(found) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@given(
    st.integers(1, 8),
    st.lists(st.frozensets(st.integers(0, 7)), max_size=8),
)
@example(2, [frozenset([0, 1]), frozenset([1, 2])])
def test_no_core_serves_two_ranks(n_ranks, near_cpus):
    cores = [Core(k, (k,)) for k in range(8)]
    found = share_cores(cores, n_ranks, near_cpus)
    used = [core.number for mine in found for core in mine]
    assert len(found) == n_ranks
    assert all(found)
    assert len(used) == len(set(used))


def test_more_ranks_than_gpus_are_refused():
    with pytest.raises(Refusal, match=r"one rank a GPU, got 3 on localhost \(2 each, as found"):
        placed(HERE, gpus=near([], []), n_ranks=3)
    assert placed(HERE, gpus=near([], []), n_ranks=3, n_gpus=0).n_ranks == 3
    with pytest.raises(Refusal, match=r"got 3 on a, 3 on b \(2 each, as --gpus says\)"):
        placed(hosts(3, 3), n_gpus=2)


def test_gpus_say_how_many_ranks_a_bare_host_takes():
    assert placed(hosts(None, None), n_gpus=4).hosts == (("a", 4), ("b", 4))


def test_ranks_that_cannot_be_balanced_over_gpus_are_refused():
    with pytest.raises(Refusal, match="same number of ranks with GPUs on all hosts, got 2 on a, 1"):
        placed(hosts(None, None), n_gpus=2, n_ranks=3)
    assert placed(hosts(None, None), n_gpus=2, n_ranks=2).hosts == (("a", 1), ("b", 1))


def test_cpus_that_slurm_gave_limit_threads():
    found = placed(hosts(2, 2, cpus=[4, 4]), cores=8)
    assert (found.n_threads, found.cores) == (2, ())
    assert "not those of this one" in found.note
    found = placed(hosts(2, 2, cpus=[8, 8]), cores=8)
    assert (found.n_threads, len(found.cores)) == (4, 2)


def test_threads_are_those_of_the_fullest_machine():
    assert placed(hosts(1, 4), cores=8).n_threads == 2


def test_stated_cores_leave_ranks_unbound():
    found = placed(hosts(2, 2), n_cores=32)
    assert (found.n_threads, found.cores) == (16, ())


def test_reason_why_the_machine_cannot_bind_is_told():
    found = placed(HERE, cores=machine(8, n_usable=4, why_unbound="a quota"), n_ranks=2)
    assert (found.n_threads, found.cores, found.note) == (2, (), "a quota")


def test_unbound_when_asked_needs_no_note():
    found = placed(HERE, n_ranks=2, is_bound=False)
    assert (found.cores, found.note) == ((), None)
