"""The whole solver: it reaches the optimum, and never claims to be closer to it than it is."""

from dataclasses import replace

import numpy as np
import pytest
from reference.data import rounding

from snapml.problems import Hinge, Intercept, Logistic, Squared
from snapml.solvers import threads

from .cases import Case

pytestmark = pytest.mark.pairwise

# The reference optimum and float64 sums are exact to about this share of the objective.
EXACT = 1e-12
# What a fit in either type is asked to reach: some hundred roundings in float32; in float64 less,
# as the hinge with a free intercept is slow.
TIGHT = {"float32": 1e-5, "float64": 1e-9}


@pytest.fixture(params=Intercept, ids=lambda kind: kind.value, scope="session")
def intercept(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["dense", "sparse"], scope="session")
def is_sparse(request):
    return request.param


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.usefixtures("small_data_get_threads", "no_polish")
def test_fit_reaches_the_reference_optimum(loss, intercept, dtype, is_sparse, n_threads):
    case = Case(loss, intercept, dtype.name, is_sparse)
    tol = TIGHT[dtype.name]
    result = case.fit(tol=tol, max_iter=20_000, n_threads=n_threads)
    objective = case.objective.primal(result.coef, result.intercept)
    assert result.has_converged
    assert 0 <= result.gap <= tol * result.objective
    assert result.objective == pytest.approx(objective, rel=EXACT)
    assert abs(case.suboptimality(result)) <= tol * objective
    # Strong convexity in w, of curvature 1.
    distance = np.linalg.norm(result.coef - case.optimum.coef)
    assert distance <= np.sqrt(2 * (result.gap + EXACT * objective))
    assert result.coef.dtype == result.duals.dtype == dtype


@pytest.mark.parametrize(
    ("n_threads", "deterministic"), [(1, True), (2, True), (2, False)], ids=str
)
@pytest.mark.usefixtures("small_data_get_threads")
def test_certified_gap_is_never_below_the_suboptimality(
    loss, intercept, dtype, is_sparse, n_threads, deterministic
):
    case = Case(loss, intercept, dtype.name, is_sparse)
    for tol in (1e-1, 1e-3, 1e-6):
        for max_iter in (0, 1, 2, 3, 5, 10):
            result = case.fit(
                tol=tol, max_iter=max_iter, n_threads=n_threads, deterministic=deterministic
            )
            objective = case.objective.primal(result.coef, result.intercept)
            assert result.objective == pytest.approx(objective, rel=EXACT)
            assert result.gap >= case.suboptimality(result) - EXACT * objective
            assert result.gap >= 0
            assert result.n_iter <= max_iter
            assert result.has_converged == (result.gap <= tol * result.objective)


@pytest.mark.parametrize("seed", range(5))
def test_certified_gap_holds_where_a_fit_goes_on_after_it_has_converged(
    loss, intercept, dtype, seed
):
    """Small data are polished to rounding level; what is returned is what was certified."""
    case = Case(loss, intercept, dtype.name, seed=seed)
    for tol in (0.3, 0.1, 0.03):
        result = case.fit(tol=tol, max_iter=10)
        objective = case.objective.primal(result.coef, result.intercept)
        assert result.objective == pytest.approx(objective, rel=EXACT)
        assert result.gap >= case.suboptimality(result) - EXACT * objective


def test_small_data_are_polished_to_rounding_level(intercept, dtype):
    case = Case(Logistic(), intercept, dtype.name)
    result = case.fit(tol=1e-2, max_iter=1000)
    assert result.gap <= 3e3 * rounding(dtype) ** 2 * result.objective + 1e-14 * result.objective


def test_gap_of_an_untrained_model_is_the_loss_at_zero(loss, is_sparse):
    case = Case(loss, Intercept.NONE, is_sparse=is_sparse)
    result = case.fit(tol=0.0, max_iter=0)
    at_zero = case.objective.primal(np.zeros(5))
    assert result.n_iter == 0
    assert not result.has_converged
    assert not result.coef.any()
    assert result.gap == pytest.approx(at_zero)
    assert result.objective == pytest.approx(at_zero)


def test_warm_start_from_the_duals_of_a_fit_is_where_the_fit_ended(loss, intercept, dtype):
    case = Case(loss, intercept, dtype.name)
    first = case.fit(tol=TIGHT[dtype.name], max_iter=20_000)
    for max_iter in (0, 1):  # one more epoch does not lead away
        start = dict(duals=first.duals.copy(), offset=first.offset)
        again = case.fit(tol=1e-3, max_iter=max_iter, **start)
        assert again.has_converged
        assert case.suboptimality(again) <= 1e-3 * case.optimum.objective


def test_duals_of_another_problem_are_a_legal_start(loss, intercept):
    case = Case(loss, intercept)
    other = Case(loss, intercept, seed=1).fit(tol=1e-6, max_iter=1000)
    result = case.fit(tol=1e-9, max_iter=20_000, duals=other.duals.copy())
    assert case.suboptimality(result) <= 1e-9 * case.optimum.objective


@pytest.mark.parametrize("n_threads", [1, 2])
def test_same_seed_gives_the_same_bits(n_threads):
    n_rows = 2 * threads._ENTRIES_PER_THREAD // 100  # just enough for two threads
    case = Case(Logistic(), Intercept.FREE, "float32", n_rows=n_rows, n_features=100, scale=0.1)
    results = [case.fit(tol=1e-4, max_iter=20, n_threads=n_threads, seed=s) for s in (3, 3, 4)]
    assert f"{n_threads} thread" in results[0].description
    assert results[0].coef.tobytes() == results[1].coef.tobytes()
    assert results[0].duals.tobytes() == results[1].duals.tobytes()
    assert results[0].coef.tobytes() != results[2].coef.tobytes()


@pytest.mark.parametrize("offset", [10.0, 1e3])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), Hinge()], ids=str)
def test_columns_far_from_zero_take_hardly_more_epochs(loss, offset):
    """With a free intercept dense rows are centred: their common offset costs nothing."""
    tol = 1e-4
    near = Case(loss, Intercept.FREE, n_rows=400, scale=0.5)
    (n_near, first), (n_far, other) = (
        epochs_needed(case, tol) for case in (near, replace(near, offset=offset))
    )
    assert n_far <= 1.25 * n_near + 2
    # The same problem: only b differs.
    assert other.objective == pytest.approx(first.objective, rel=2 * tol)


def test_columns_far_from_zero_would_take_many_epochs_if_they_were_not_centred():
    case = Case(Logistic(), Intercept.FREE, n_rows=400, scale=0.5, offset=1e3)
    assert not case.fit(tol=1e-4, max_iter=100, is_centred=False).has_converged


def epochs_needed(case, tol):
    """Return how many epochs meet the tolerance; `n_iter` would count those of polishing too."""
    for max_iter in range(1, 200):
        result = case.fit(tol=tol, max_iter=max_iter)
        if result.has_converged:
            return max_iter, result
    raise AssertionError("no convergence in 200 epochs")


@pytest.mark.parametrize("scale", [1e2, 1e3, 1e4])
def test_rows_of_any_length_leave_a_finite_model(loss, intercept, dtype, scale):
    case = Case(loss, intercept, dtype.name, scale=scale, n_rows=200)
    result = case.fit(tol=1e-6, max_iter=20)
    assert np.isfinite(result.coef).all()
    assert np.isfinite([result.gap, result.objective, result.intercept]).all()
    assert np.isfinite(result.duals).all()


def test_description_says_how_threads_share_the_vector(small_data_get_threads):
    def describe(**options):
        return Case(is_sparse=True).fit(tol=1.0, max_iter=1, **options).description

    assert describe(n_threads=1) == "dual coordinate ascent, 1 thread"
    assert describe(n_threads=2).endswith("2 threads with merged replicas")
    assert describe(n_threads=2, deterministic=False).endswith("2 threads with one shared vector")


def test_history_has_one_entry_an_epoch():
    result = Case().fit(tol=1e-6, max_iter=50)
    assert [entry["epoch"] for entry in result.history] == list(range(1, result.n_iter + 1))
    assert result.history[-1]["gap"] == result.gap
    assert result.history[-1]["objective"] == result.objective
    times = [entry["time_s"] for entry in result.history]
    assert times == sorted(times)
