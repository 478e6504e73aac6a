"""Which differences between ranks a check calls faults, and its tables."""

from dataclasses import replace

import pytest

from snapml_run.check_report import Measured, Rank, faults, ranges, report

FIRST = Rank(
    number=0,
    host="a",
    local_rank=0,
    n_local=2,
    cpus=(0, 1),
    n_threads="2",
    gpus=("GPU-1", "GPU-2"),
    gpu_trouble=None,
    clock_s=0.0,
    clock_doubt_s=0.0,
    versions={"python": "3.11.7", "snapml-open": "0.1.0"},
)
RANKS = [
    FIRST,
    replace(FIRST, number=1, local_rank=1, cpus=(2, 3), clock_s=2e-6, clock_doubt_s=1e-6),
    replace(FIRST, number=2, host="b", gpus=("GPU-3", "GPU-4"), clock_s=-0.01, clock_doubt_s=1e-4),
    replace(FIRST, number=3, host="b", local_rank=1, cpus=(2, 3), gpus=("GPU-3", "GPU-4")),
]


def with_third(**changes):
    return [*RANKS[:2], replace(RANKS[2], **changes), RANKS[3]]


def test_ranks_that_are_alike_have_no_fault():
    assert faults(RANKS, [2, 2], is_bound=True, has_gpus=True) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"versions": {"python": "3.11.7", "snapml-open": "0.2.0"}},
            "expected the same snapml-open on all ranks, got 0.1.0 on rank 0 (a) and 0.2.0 on "
            "rank 2 (b)",
        ),
        ({"clock_s": -1.5}, "expected clocks within 1 s, got -1.500 s on rank 2 (b)"),
        ({"cpus": (0, 1, 2)}, "bound to cores of their own, got CPUs 2 for several"),
        ({"gpus": ("GPU-3",)}, "expected the ranks on b to see the same GPUs"),
        ({"gpus": ("GPU-3",)}, "expected a GPU for each of 2 ranks on b, got 1"),
        ({"host": "a"}, "expected [2, 2] ranks on the machines, got [3, 1]"),
    ],
)
def test_difference_is_a_fault(changes, fault):
    found = faults(with_third(**changes), [2, 2], is_bound=True, has_gpus=True)
    assert any(fault in sentence for sentence in found), found


def test_hosts_with_other_numbers_of_gpus_are_a_fault():
    ranks = [*RANKS[:2], *(replace(rank, gpus=("GPU-3",)) for rank in RANKS[2:])]
    (fault,) = faults(ranks, [2, 2], is_bound=True, has_gpus=False)
    assert fault == "expected as many GPUs on all hosts, got 1, 2"


def test_clock_is_no_fault_where_the_network_was_too_slow_to_tell():
    assert (
        faults(with_third(clock_s=-1.5, clock_doubt_s=0.6), [2, 2], is_bound=True, has_gpus=True)
        == []
    )


def test_ranks_that_were_not_to_be_bound_may_share_cores():
    assert faults(with_third(cpus=(0, 1, 2)), [2, 2], is_bound=False, has_gpus=True) == []


def test_tables():
    text = report(RANKS, [Measured(1_000_000, 0.01, 0.002)])
    lines = text.splitlines()
    assert lines[0] == "python 3.11.7  snapml-open 0.1.0"
    assert lines[5].split()[:7] == ["2", "b", "0", "of", "2", "0-1", "2"]
    assert lines[5].endswith("-10.000 ± 0.100")
    assert lines[-1].split() == ["8,000,000", "10.000", "800.0", "2.000", "4,000.0"]


def test_cpus_are_listed_as_the_kernel_lists_them():
    assert ranges({3, 1, 2, 8}) == "1-3,8"
    assert ranges([]) == ""
