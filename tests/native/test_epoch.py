"""Epochs of dual coordinate ascent, in every layout, on one thread and on two."""

import re

import numpy as np
import pytest
from reference.data import rounding

from snapml.problems import Hinge, Logistic, Squared, SquaredHinge

from .shards import DENSE, LAYOUTS, Shard
from .slow_epoch import SlowEpoch

pytestmark = pytest.mark.pairwise

FLOAT64 = np.dtype(np.float64)


def drift_tolerance(shard, n_epochs):
    """Return how far rounding may take shared from X^T beta: a random walk of updates."""
    largest = np.abs(shard.descent_X).T @ shard.c * max(1.0, np.abs(shard.beta).max())
    return 8 * rounding(shard.dtype) * np.sqrt(n_epochs) * (largest + 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_epoch_equals_the_slow_epoch(loss, layout, n_threads):
    shard = Shard(loss, FLOAT64, layout, n_threads, tau=0.5, offset=0.25)
    slow = SlowEpoch(shard)
    for epoch, block_rows in enumerate((16, 5, 1)):
        options = dict(sigma=float(n_threads), outer=1.5, relaxation=0.75, seed=5)
        gap, _, measured = shard.run_epoch(epoch, block_rows=block_rows, **options)
        slow_gap = slow.run(epoch, block_rows=block_rows, **options)
        assert gap == pytest.approx(slow_gap, rel=1e-9)
        if n_threads > 1:
            assert measured == pytest.approx(max(1.0, slow.needed), rel=1e-9)
        np.testing.assert_allclose(shard.duals, slow.duals, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(shard.shared, slow.shared, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("is_weighted", [True, False])
def test_epoch_in_float32_follows_the_slow_epoch(loss, is_weighted):
    shard = Shard(loss, np.dtype(np.float32), is_weighted=is_weighted, scale=0.25)
    slow = SlowEpoch(shard)
    shard.run_epoch(0)
    slow.run(0)
    # A loosely solved step ends at another of its iterates where its test is a matter of rounding.
    tolerance = 1e-2 if loss.core_name == "Logistic" else 1e-4
    np.testing.assert_allclose(shard.shared, slow.shared, rtol=tolerance, atol=tolerance)


def test_rounds_of_one_worker_are_one_sweep(loss):
    """Merges concern several workers only."""
    once, often = (Shard(loss, FLOAT64, n_rows=200) for _ in range(2))
    once.run_epoch(0, rounds=1)
    often.run_epoch(0, rounds=5)
    np.testing.assert_array_equal(once.duals, often.duals)


@pytest.mark.parametrize("rounds", [1, 3, 50])
@pytest.mark.parametrize("n_threads", [2, 3])
def test_merged_replicas_visit_every_row_once(rounds, n_threads):
    """More rounds than blocks leave some rounds empty."""
    shard = Shard(Squared(), FLOAT64, n_threads=n_threads, n_rows=101, is_weighted=False)
    start = shard.duals.copy()
    shard.run_epoch(0, rounds=rounds)
    assert np.all(shard.duals != start)
    np.testing.assert_allclose(shard.shared, shard.descent_X.T @ shard.beta, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_shared_vector_stays_the_image_of_the_dual_variables(loss, dtype, layout, n_threads):
    shard = Shard(loss, dtype, layout, n_threads, tau=0.5)
    for epoch in range(10):
        shard.run_epoch(epoch)
    image = shard.descent_X.T @ shard.beta
    assert np.abs(image).max() > 0.1
    assert np.all(np.abs(shard.shared[:-1] - image[:-1]) <= drift_tolerance(shard, 10)[:-1])
    assert abs(shard.shared[-1] - image[-1]) <= drift_tolerance(shard, 10)[-1]


def test_threads_on_one_vector_keep_the_dual_variables_legal(loss):
    shard = Shard(loss, FLOAT64, "compressed-int32", n_threads=2, n_rows=2000, scale=0.2)
    for epoch in range(3):
        shard.run_epoch(epoch, has_replicas=False)
    assert np.isfinite(shard.dual_objective)
    assert (
        np.all(shard.beta[shard.c > 0] != 0)
        or loss.kinks != "none"
        or loss.link in ("log", "cloglog")
    )


def test_threads_on_one_vector_lose_nothing_where_rows_share_no_column(loss):
    entries = np.diag(np.linspace(0.5, 2, 500))
    shard = Shard(loss, FLOAT64, "compressed-int32", n_threads=2, entries=entries)
    alone = Shard(loss, FLOAT64, "compressed-int32", n_threads=1, entries=entries)
    for epoch in range(3):
        shard.run_epoch(epoch, has_replicas=False)
        alone.run_epoch(epoch)
    np.testing.assert_array_equal(shard.shared, alone.shared)
    np.testing.assert_array_equal(shard.duals, alone.duals)


@pytest.mark.parametrize("relaxation", [0.51, 0.65, 1.0])
@pytest.mark.parametrize("layout", ["row-major", "centred", "compressed-int32"])
def test_dual_objective_never_decreases(loss, dtype, layout, relaxation):
    shard = Shard(loss, dtype, layout, tau=0.5)
    before = shard.dual_objective
    first = before
    for epoch in range(30):
        shard.run_epoch(epoch, relaxation=relaxation)
        after = shard.dual_objective
        assert after >= before - 50 * rounding(dtype) * shard.c.sum()
        before = after
    assert before > first


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_dual_objective_never_decreases_with_replicas_at_the_safe_sigma(loss, n_threads):
    shard = Shard(loss, FLOAT64, n_threads=n_threads, n_rows=300, scale=2.0)
    before = shard.dual_objective
    for epoch in range(20):
        shard.run_epoch(epoch, sigma=float(n_threads), relaxation=0.65)
        after = shard.dual_objective
        assert after >= before - 1e-12 * abs(before)
        before = after


def test_identical_rows_need_the_safe_sigma():
    """Two workers that know nothing of each other both take the whole way: twice too far."""
    gains = {}
    for sigma in (1.0, 2.0):
        entries = np.full((32, 3), 2.0)
        shard = Shard(Squared(), FLOAT64, n_threads=2, is_weighted=False, entries=entries)
        shard.labels[:] = shard.duals[:] = shard.y[:] = 1.0
        before = shard.dual_objective
        _, _, measured = shard.run_epoch(0, sigma=sigma)
        assert measured == pytest.approx(2.0)
        gains[sigma] = shard.dual_objective - before
    assert gains[2.0] > 0 > gains[1.0]


def test_sigma_stays_between_one_and_the_number_of_workers(loss):
    shard = Shard(loss, FLOAT64, n_threads=4, n_rows=300)
    sigma = 4.0
    for epoch in range(10):
        _, sigma, measured = shard.run_epoch(epoch, sigma=sigma, rounds=3)
        assert 1.0 <= sigma <= 4.0
        assert 1.0 <= measured <= 4.0 + 1e-9


def test_sigma_falls_where_workers_do_not_meet():
    """Diagonal rows: the changes of two workers are orthogonal, and 1 is safe."""
    shard = Shard(Squared(), FLOAT64, n_threads=2, is_weighted=False, entries=np.eye(64))
    sigma = 2.0
    for epoch in range(60):
        _, sigma, measured = shard.run_epoch(epoch, sigma=sigma)
        assert measured == pytest.approx(1.0)
    assert sigma == pytest.approx(1.1, abs=0.01)  # the measured value and a margin


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("layout", ["row-major", "compressed-int32"])
def test_same_seed_gives_the_same_bits(loss, dtype, layout, n_threads):
    shards = [Shard(loss, dtype, layout, n_threads, n_rows=500) for _ in range(2)]
    for shard in shards:
        for epoch in range(5):
            shard.run_epoch(epoch, rounds=3, seed=11)
    np.testing.assert_array_equal(shards[0].duals, shards[1].duals)
    np.testing.assert_array_equal(shards[0].shared, shards[1].shared)


def test_order_varies_with_seed_and_epoch():
    results = []
    for seed, epoch in ((0, 0), (1, 0), (0, 1)):
        shard = Shard(Logistic(), FLOAT64)
        shard.run_epoch(epoch, seed=seed)
        results.append(shard.shared.tobytes())
    assert len(set(results)) == 3


def test_dense_layouts_give_the_same_bits(loss, dtype):
    results = set()
    for layout in DENSE:
        shard = Shard(loss, dtype, layout)
        shard.run_epoch(0)
        results.add(shard.shared.tobytes() + shard.duals.tobytes())
    assert len(results) == 1


def test_rows_of_weight_zero_take_no_part(loss, dtype):
    shard = Shard(loss, dtype)
    start = shard.duals.copy()
    for epoch in range(3):
        shard.run_epoch(epoch)
    unused = shard.c == 0
    assert unused.any()
    np.testing.assert_array_equal(shard.duals[unused], start[unused])


@pytest.mark.parametrize("value", [0.5, 2.0])
def test_common_weight_equals_a_vector_of_it(value):
    shards = [Shard(SquaredHinge(), FLOAT64, is_weighted=False) for _ in range(2)]
    shards[0].row_weights = np.full(shards[0].n_rows, value)
    for shard in shards:
        shard.native = type(shard.native).make(
            shard.labels, shard.row_weights, value, shard.norms, shard.duals, shard.shared, 0.0, 0.0
        )
        shard.run_epoch(0)
    np.testing.assert_array_equal(shards[0].duals, shards[1].duals)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_running_gap_of_the_first_epoch_begins_at_the_loss_at_zero(loss, n_threads):
    """Stiffness of almost nothing: no row hears of the others, all gaps are losses at 0."""
    shard = Shard(loss, FLOAT64, n_threads=n_threads, scale=1e-6)
    gap, _, _ = shard.run_epoch(0)
    assert gap == pytest.approx(shard.c @ shard.oracle.value(np.zeros(77), shard.y), rel=1e-4)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_empty_shard_is_left_alone(n_threads):
    shard = Shard(Hinge(), FLOAT64, n_threads=n_threads, n_rows=0)
    assert shard.run_epoch(0)[0] == 0.0
    assert not shard.shared.any()


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("layout", ["row-major", "compressed-int32"])
def test_picked_rows_alone_are_visited(layout, n_threads):
    shard = Shard(Logistic(), np.dtype(np.float64), layout, n_threads, is_weighted=False)
    picked = np.array([0, 3, 5, 6, 40, 41, 42, *range(50, 70), 76])
    states, dual = shard.duals.copy(), shard.dual_objective
    gaps = np.full(shard.n_rows, np.nan)
    gap, _, _ = shard.run_epoch(picked=picked, row_gaps=gaps)
    is_picked = np.isin(np.arange(shard.n_rows), picked)
    assert np.array_equal(shard.duals != states, is_picked)
    assert np.array_equal(np.isfinite(gaps), is_picked)
    assert gaps[picked].sum() == pytest.approx(gap)
    assert shard.shared == pytest.approx(shard.descent_X.T @ shard.beta, abs=1e-9)
    assert shard.dual_objective > dual


@pytest.mark.parametrize(
    ("picked", "message"),
    [([3, 3], "ascending rows"), ([2, 1], "ascending"), ([-1], "ascending"), ([77], "[0, 77)")],
)
def test_rows_picked_twice_or_outside_are_refused(picked, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Shard(Logistic(), np.dtype(np.float64)).run_epoch(picked=np.array(picked))


def test_picked_rows_of_a_column_major_matrix_are_refused():
    shard = Shard(Logistic(), np.dtype(np.float64), "column-major")
    with pytest.raises(ValueError, match="contiguous rows"):
        shard.run_epoch(picked=np.array([1]))
