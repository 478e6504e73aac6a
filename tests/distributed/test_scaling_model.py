"""The model of a fit over ranks: what it must say whatever the machine is."""

from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

if not (Path(__file__).parents[2] / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)

from benchmarks.scaling.model import (
    Link,
    Work,
    fit_seconds,
    node_bytes,
    node_pass_s,
    pass_seconds,
    rank_bytes,
    sum_s,
)
from benchmarks.scaling.rank_overhead import shares

WORK = Work(
    rows_s=100.0,
    vectors_s=0.01,
    add_s_per_byte=1e-9,
    size=1_000_001,
    n_passes=20.0,
    vectors_per_pass=1.05,
    small_sums_per_pass=2.0,
)
LINK = Link(latency_s=1e-5, bytes_per_s=1e9)


def test_one_rank_sends_nothing_and_waits_for_nobody():
    assert rank_bytes(1, 1000) == 0.0
    assert sum_s(1, 1000, LINK) == 0.0
    assert pass_seconds(WORK, 1, LINK, n_cores=1) == pytest.approx(100.01)


@pytest.mark.parametrize("n_ranks", [2, 3, 7])
def test_bytes_are_those_of_parts_that_go_out_and_totals_that_go_out(n_ranks):
    bounds = [10_000 * k // n_ranks for k in range(n_ranks + 1)]
    parts = np.diff(bounds)
    sent = [8 * (10_000 - own + own * (n_ranks - 1)) for own in parts]
    assert rank_bytes(n_ranks, 10_000) == pytest.approx(np.mean(sent))


def test_seconds_where_the_wire_is_all():
    work = Work(0.0, 0.0, 0.0, 1_000_000, n_passes=3.0, vectors_per_pass=1.0, small_sums_per_pass=0)
    link = Link(latency_s=0.0, bytes_per_s=1e6)
    assert fit_seconds(work, 2, link, n_cores=2) == pytest.approx(3 * 8.0, rel=1e-3)


def test_ranks_that_share_cores_take_turns():
    slow = pass_seconds(WORK, 4, LINK, n_cores=2)
    fast = pass_seconds(WORK, 4, LINK, n_cores=4)
    computed = 100.0 / 4 + 0.01 + 1.05 * 1e-9 * rank_bytes(4, WORK.size)
    assert slow - fast == pytest.approx(computed)


@hypothesis.given(st.integers(2, 1000), st.floats(1e8, 1e11))
@hypothesis.example(1000, 1.25e9)
def test_two_levels_send_least_and_more_nodes_are_never_fully_used(n_nodes, bytes_per_s):
    link = Link(1e-5, bytes_per_s)
    assert node_bytes(n_nodes, 1_000_000, "hierarchical") < 16e6
    assert node_bytes(n_nodes, 1_000_000, "hierarchical") <= node_bytes(n_nodes, 1_000_000, "flat")
    alone = node_pass_s(WORK, 1, link, "flat")
    for sums in ("flat", "hierarchical"):
        assert alone < n_nodes * node_pass_s(WORK, n_nodes, link, sums)


def test_shares_of_a_rank():
    spent = {"n_passes": 10, "n_sent": 10 * 8 * 100, "small_sums_s": 0.5, "solve_s": 5.0}
    spent |= {"solve_cpu_s": 4.0, "rows_cpu_s": 2.0, "sums_cpu_s": 1.0}
    found = shares(spent, 2, 100)
    assert found["bytes_over_least"] == 1.0
    assert found["overhead_share"] == pytest.approx(1 / 3)
    assert found["small_sum_share"] == pytest.approx(0.1)
