"""Sweeps over the rows that an epoch has moved, and rows at rest."""

import re

import numpy as np
import pytest

from snapml import _native
from snapml.problems import Hinge, Logistic, SquaredHinge

from .shards import Shard

FLOAT64 = np.dtype(np.float64)


def sweep(shard, at_rest, *, epoch=0, enough=0.0, most_entries=10**9, **options):
    """Sweep over the rows that move; return the last sweep's gap and the next factor."""
    replicas = None
    if shard.n_threads > 1:
        replicas = np.full((shard.n_threads, len(shard.shared)), np.nan, dtype=shard.dtype)
    settings = {"sigma": float(shard.n_threads), "outer": 1.0, "relaxation": 0.65, "rounds": 1}
    settings |= {"block_rows": 2, "seed": 0, "epoch": epoch} | options
    return _native.sweep_moving_rows(
        *shard.arguments,
        replicas,
        **settings,
        at_rest=at_rest,
        enough=enough,
        most_entries=most_entries,
    )


def visited(shard, n_epochs):
    """Return which rows the last of some epochs has found at rest."""
    at_rest = np.full(shard.n_rows, 7, dtype=np.uint8)
    for epoch in range(n_epochs):
        shard.run_epoch(epoch, at_rest=at_rest)
    return at_rest


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("layout", ["row-major", "compressed-int32", "without-values"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=str)
def test_epochs_note_rows_that_a_visit_leaves_alone(loss, layout, n_threads):
    shard = Shard(loss, FLOAT64, layout, n_threads, tau=0.5, scale=3.0)
    at_rest = visited(shard, 3)
    before = shard.duals.copy()
    at_rest[:] = 7
    shard.run_epoch(3, at_rest=at_rest)
    assert set(at_rest[shard.c > 0]) == {0, 1}
    assert np.array_equal(shard.duals[at_rest == 1], before[at_rest == 1])
    moved = (shard.duals != before) & (shard.c > 0)
    assert not at_rest[moved].any()


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=str)
def test_sweeps_leave_rows_at_rest_alone_and_raise_the_dual(loss, n_threads):
    shard = Shard(loss, FLOAT64, "compressed-int32", n_threads, tau=0.5, scale=3.0)
    at_rest = visited(shard, 2)
    resting, states, dual = at_rest == 1, shard.duals.copy(), shard.dual_objective
    gap, sigma = sweep(shard, at_rest, epoch=2, most_entries=20_000)
    assert resting.any()
    assert np.array_equal(shard.duals[resting], states[resting])
    assert shard.dual_objective > dual
    assert shard.shared == pytest.approx(shard.descent_X.T @ shard.beta, abs=1e-9)
    assert gap >= 0.0
    assert 1.0 <= sigma <= n_threads


def test_sweeps_end_once_their_gap_is_little():
    reads = []
    for enough in (1e9, 1e-2, 0.0):
        shard = Shard(SquaredHinge(), FLOAT64, tau=0.5)
        at_rest = visited(shard, 2)
        gap, _ = sweep(shard, at_rest, epoch=2, enough=enough, most_entries=100_000)
        reads.append((gap, shard.dual_objective))
    assert reads[0][0] > 1e-2 >= reads[1][0] >= reads[2][0]
    assert reads[0][1] < reads[1][1] <= reads[2][1]


def test_no_more_entries_are_read_than_allowed():
    shard = Shard(Hinge(), FLOAT64, tau=0.5)
    at_rest = visited(shard, 1)
    states = shard.duals.copy()
    gap, _ = sweep(shard, at_rest, epoch=1, most_entries=int((at_rest == 0).sum()))
    assert gap == 0.0
    assert np.array_equal(shard.duals, states)


def test_rows_of_weight_zero_are_no_moving_rows():
    shard = Shard(Hinge(), FLOAT64)
    unused = shard.c == 0
    states = shard.duals.copy()
    sweep(shard, np.zeros(shard.n_rows, dtype=np.uint8), most_entries=10_000)
    assert unused.any()
    assert np.array_equal(shard.duals[unused], states[unused])


def test_a_smooth_loss_knows_no_rest():
    shard = Shard(Logistic(), FLOAT64)
    assert not visited(shard, 3)[shard.c > 0].any()


def test_equal_sweeps_give_equal_bits():
    shards = [Shard(Hinge(), FLOAT64, "compressed-int32", 2, tau=0.5) for _ in range(2)]
    for shard in shards:
        sweep(shard, visited(shard, 2), epoch=2, most_entries=5_000)
    np.testing.assert_array_equal(shards[0].duals, shards[1].duals)
    np.testing.assert_array_equal(shards[0].shared, shards[1].shared)


@pytest.mark.parametrize(
    ("at_rest", "options", "message"),
    [
        (np.zeros(77), {}, "at_rest: expected a contiguous vector of uint8"),
        (np.zeros(76, dtype=np.uint8), {}, "expected a contiguous vector of 77 elements"),
        (np.zeros(77, dtype=np.uint8), {"sigma": 0.5}, "sigma and outer >= 1"),
        (np.zeros(77, dtype=np.uint8), {"block_rows": 17}, "block_rows in [1, 16]"),
    ],
)
def test_bad_arguments_are_refused(at_rest, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        sweep(Shard(Hinge(), FLOAT64), at_rest, **options)


def test_columns_side_by_side_are_refused():
    shard = Shard(Hinge(), FLOAT64, "column-major")
    with pytest.raises(ValueError, match="contiguous rows"):
        sweep(shard, np.zeros(shard.n_rows, dtype=np.uint8))
