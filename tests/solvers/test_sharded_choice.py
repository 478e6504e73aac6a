"""Sparse rows of many columns on several shards: products take over from merged steps early."""

from functools import partial

import pytest

from snapml.data import CompressedMatrix, Dataset, make_click_log
from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers.fit_settings import Settings
from snapml.solvers.plan import choice
from snapml.solvers.plan.thread_shards import row_shards, solve_together
from snapml.solvers.stopping import StoppingRule


def test_several_shards_are_less_patient_with_coordinate_ascent():
    X, y = make_click_log(4000, 4000, dtype=float)
    matrix = CompressedMatrix(X.indptr, X.indices, 4000, X.data)
    whole = Dataset(matrix, 2.0 * y - 1.0, None, 1.0)
    rule = StoppingRule(tol=1e-7, max_iter=1000)

    def fit(shard, communicator):
        problem = Problem(Logistic(), Intercept.FREE)
        return choice.fit(problem, shard, communicator, rule, Settings("auto", 1))

    (alone,) = solve_together([partial(fit, whole)])
    together, *_ = solve_together([partial(fit, shard) for shard in row_shards(whole, 4)])
    assert alone.description.endswith("1 thread: sparse rows")
    assert together.description.endswith("dual coordinate ascent, whose gap shrank too slowly")
    assert together.has_converged
    assert together.objective == pytest.approx(alone.objective, rel=2e-7)
