"""Several shards solve the problem that one would solve alone."""

from itertools import pairwise

import numpy as np
import pytest

from snapml.problems import Intercept
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .simulated import solve_shards

pytestmark = [
    pytest.mark.usefixtures("no_polish"),  # threads of Python meet slowly
    pytest.mark.pairwise,
]

TOL = 1e-4
# Row numbers at which the 60 rows are cut.
CUTS = {
    "two even shards": (30,),
    "two uneven shards": (7,),
    "three uneven shards": (3, 50),
}


def solve_cut(case, cuts, tol=TOL, max_iter=3000, **options):
    bounds = [0, *cuts, case.n_rows]
    parts = [slice(*bound) for bound in pairwise(bounds)]
    engines = [lambda rows=rows: case.engine(rows, **options) for rows in parts]
    return solve_shards(engines, StoppingRule(tol, max_iter))


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_shards_reach_the_optimum_of_all_rows(loss, intercept, is_sparse, cuts):
    case = Case(loss, intercept, is_sparse=is_sparse, scale=0.5)
    results = solve_cut(case, cuts)
    for result in results:
        assert result.has_converged
        assert abs(case.suboptimality(result)) <= TOL * case.optimum.objective


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
def test_certified_gap_of_shards_is_never_below_the_suboptimality(loss, intercept, dtype):
    case = Case(loss, intercept, dtype.name)
    for max_iter in (0, 1, 3, 10):
        for result in solve_cut(case, CUTS["three uneven shards"], max_iter=max_iter):
            objective = case.objective.primal(result.coef, result.intercept)
            assert result.objective == pytest.approx(objective, rel=1e-12)
            assert result.gap >= case.suboptimality(result) - 1e-12 * objective


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
def test_all_shards_hold_the_same_model(loss, intercept):
    results = solve_cut(Case(loss, intercept), CUTS["three uneven shards"], max_iter=20)
    for result in results[1:]:
        assert result.coef.tobytes() == results[0].coef.tobytes()
        assert result.intercept == results[0].intercept
        assert result.gap == results[0].gap
        assert result.n_iter == results[0].n_iter


def test_shards_start_from_their_own_duals():
    case = Case(n_rows=60)
    cut = CUTS["two uneven shards"]
    first = solve_cut(case, cut)
    parts = [slice(0, 7), slice(7, 60)]
    engines = [
        lambda rows=rows, duals=result.duals: case.engine(rows, duals=duals.copy())
        for rows, result in zip(parts, first, strict=True)
    ]
    for result in solve_shards(engines, StoppingRule(1e-3, 0)):
        assert result.has_converged


def test_error_on_one_shard_ends_all():
    case = Case()

    def fail():
        raise ZeroDivisionError("no such shard")

    with pytest.raises(ZeroDivisionError, match="no such shard"):
        solve_shards([case.engine, fail], StoppingRule(TOL, 10))


@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
def test_shard_whose_rows_all_weigh_nothing_takes_part(intercept):
    case = Case(intercept=intercept)
    assert case.objective.c[0] == 0
    for result in solve_cut(case, (1,)):
        assert result.has_converged


def test_one_shard_alone_is_a_serial_fit():
    case = Case()
    (alone,) = solve_cut(case, ())
    assert np.array_equal(alone.coef, case.fit(tol=TOL, max_iter=3000).coef)
