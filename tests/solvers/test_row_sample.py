"""Samples of rows that do not depend on how the rows are shared out."""

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers import quasi_newton
from snapml.solvers.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.row_sample import Place, own_sample, sampled_rows
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .simulated import solve_shards


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
