"""Samples of rows that do not depend on how the rows are shared out."""

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapml.problems import Intercept, Logistic, Problem, Softmax, Squared
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import quasi_newton
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.row_sample import Place, RowTargets, choose_rows, own_sample, sampled_rows
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .simulated import solve_shards

SERIAL = SerialCommunicator()


def drawn(targets, n_wanted=200):
    """Return a sample's rows and how many rows each stands for."""
    sample = choose_rows(targets, n_wanted, 0, SERIAL)
    factor = np.broadcast_to(sample.factor, sample.rows.shape)
    assert (np.diff(sample.rows) > 0).all()
    assert sample.rows_per_row == pytest.approx(targets.n_rows / len(sample.rows))
    assert factor.sum() == pytest.approx(targets.n_rows)
    return sample.rows, factor


def test_a_sample_takes_all_rows_of_a_rare_class_and_counts_them_once():
    labels = -np.ones(10_000)
    rare = np.random.default_rng(0).choice(10_000, 7, replace=False)
    labels[rare] = 1.0
    rows, factor = drawn(RowTargets(Logistic(), labels, None, 1))
    assert set(rare) <= set(rows)
    assert (factor[np.isin(rows, rare)] == 1.0).all()


def test_a_sample_takes_its_share_of_a_class_that_is_larger_than_it():
    labels = np.where(np.arange(100_000) % 50 == 0, 1.0, -1.0)
    rows, factor = drawn(RowTargets(Logistic(), labels, None, 1))
    assert np.count_nonzero(labels[rows] > 0) == 50
    assert factor[labels[rows] > 0].sum() == pytest.approx(2000)


def test_a_sample_takes_the_rows_that_carry_the_weight():
    weights = np.full(10_000, 1e-3)
    heavy = np.random.default_rng(0).choice(10_000, 9, replace=False)
    weights[heavy] = 50.0
    rows, factor = drawn(RowTargets(Squared(), np.zeros(10_000), weights, 1))
    assert set(heavy) <= set(rows)
    assert weights[rows] @ factor == pytest.approx(weights.sum())


def test_a_sample_takes_rare_ones_of_several_classes_and_of_several_outputs():
    numbers = np.arange(10_000.0) % 3
    numbers[[5, 77, 4000]] = 3.0
    rows, _ = drawn(RowTargets(Softmax(), numbers, None, 4))
    assert {5, 77, 4000} <= set(rows)
    labels = np.where(np.arange(4)[:, None] == numbers, 1.0, -1.0)
    rows, _ = drawn(RowTargets(Logistic(), labels, None, 4))
    assert {5, 77, 4000} <= set(rows)


def test_labels_of_equal_shares_and_weights_leave_a_sample_to_chance():
    targets = RowTargets(Logistic(), np.where(np.arange(10_000) % 2, 1.0, -1.0), np.ones(10_000), 1)
    rows, factor = drawn(targets)
    assert rows.tolist() == sampled_rows(10_000, 200, 0).tolist()
    assert (factor == 50.0).all()


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(0, 400), st.integers(0, 9)
)
@example([100, 0, 3], 24, 0)
def test_shards_take_the_rows_that_one_shard_would_take(sizes, n_wanted, seed):
    total, first, found = sum(sizes), 0, []
    for size in sizes:
        rows, rows_per_row = own_sample(size, n_wanted, seed, Place(first, total))
        found += (rows + first).tolist()
        first += size
    assert found == sampled_rows(total, n_wanted, seed).tolist()
    assert rows_per_row == total / max(1, len(found))


@pytest.mark.parametrize("seed", range(3))
def test_passes_do_not_depend_on_the_number_of_shards(seed):
    """Where each shard took a sample of its own, luck made between 17 and 25 passes of 17."""
    case = Case(Logistic(), n_rows=4000, n_features=80, seed=seed)
    whole = case.dataset()
    problem = Problem(Logistic(), Intercept.FREE)
    found = []
    for n_shards in (1, 3, 8):
        cuts = np.array_split(np.arange(whole.matrix.shape[0]), n_shards)
        makes = [
            partial(CpuPrimalEngine, problem, whole.take(rows, 1.0), n_threads=1) for rows in cuts
        ]
        results = solve_shards(makes, StoppingRule(1e-6, 100), quasi_newton.solve)
        assert "curvature from 4000 rows" not in results[0].description
        found.append(results[0].n_iter)
    assert found[0] == found[1] == found[2]
