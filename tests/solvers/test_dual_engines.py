"""Dual coordinate ascent on every engine: the same answers with the same certificates."""

from itertools import pairwise

import numpy as np
import pytest

from snapml.data import CompressedMatrix, Dataset
from snapml.problems import Hinge, Intercept, Logistic, Squared, SquaredHinge
from snapml.solvers.certificate import certify
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent.dual_coordinate_ascent import solve
from snapml.solvers.rows.cpu_rows import NonFiniteError
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .engines import ENGINES, make_engine, make_engine_on
from .simulated import solve_shards

pytestmark = pytest.mark.usefixtures("no_polish")


def fit(engine, *, tol=1e-6, max_iter=100):
    return solve(engine, SerialCommunicator(), StoppingRule(tol, max_iter))


KINDS = [
    (Logistic(), Intercept.FREE, True),
    (Logistic(), Intercept.PENALISED, False),
    (Squared(), Intercept.NONE, True),
    (Squared(), Intercept.FREE, False),
    (Hinge(), Intercept.PENALISED, True),
    (Hinge(), Intercept.NONE, False),
    (SquaredHinge(), Intercept.NONE, True),
    (SquaredHinge(), Intercept.FREE, False),
]


def name_of(value):
    if isinstance(value, bool):
        return "sparse" if value else "dense"
    return getattr(value, "name", type(value).__name__)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("loss", "intercept", "is_sparse"), KINDS, ids=name_of)
def test_fit_reaches_the_optimum_and_its_certificate_is_true(name, loss, intercept, is_sparse):
    case = Case(loss, intercept, is_sparse=is_sparse, scale=0.25, intercept_scaling=1.0)
    result = fit(make_engine(name, case), max_iter=300)
    assert result.has_converged
    optimum = case.optimum.objective
    suboptimality = case.suboptimality(result)
    assert -1e-12 * optimum <= suboptimality <= result.gap <= 1e-6 * optimum * (1 + 1e-6)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("is_sparse", [True, False])
def test_fit_in_float32_reaches_the_optimum(name, is_sparse):
    case = Case(Logistic(), Intercept.FREE, is_sparse=is_sparse, scale=0.4, dtype="float32")
    result = fit(make_engine(name, case))
    assert result.has_converged
    assert result.coef.dtype == np.float32
    assert case.suboptimality(result) <= 1e-6 * case.optimum.objective


@pytest.mark.parametrize("name", ENGINES)
def test_engine_continues_where_another_ended(name):
    case = Case(Logistic(), Intercept.FREE, is_sparse=True, scale=0.3)
    first = fit(make_engine("cpu", case), tol=1e-8)
    again = fit(make_engine(name, case, duals=first.duals.copy(), offset=first.offset), tol=1e-8)
    assert again.n_iter == 0
    assert again.objective == pytest.approx(first.objective, rel=1e-12)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("is_sparse", [True, False])
def test_certificates_of_equal_states_are_equal(name, is_sparse):
    case = Case(Logistic(), Intercept.FREE, is_sparse=is_sparse, offset=0.5)
    duals = np.random.default_rng(0).normal(size=60)
    engine, other = (make_engine(one, case, duals=duals.copy()) for one in ("cpu", name))
    for one in (engine, other):
        one.set_shared(one.exact_sweep(1.0, 1.0)[1])
    expected, found = (certify(one, SerialCommunicator()) for one in (engine, other))
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-12)
    assert found.intercept == pytest.approx(expected.intercept, rel=1e-9)
    np.testing.assert_allclose(found.adjoint, expected.adjoint, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ENGINES)
def test_shards_agree_on_one_answer(name):
    case = Case(Logistic(), Intercept.FREE, scale=0.25)
    parts = [slice(0, 35), slice(35, 60)]
    engines = [lambda rows=rows: make_engine(name, case, rows) for rows in parts]
    results = solve_shards(engines, StoppingRule(1e-3, 100))
    np.testing.assert_array_equal(results[0].coef, results[1].coef)
    assert results[0].has_converged
    assert case.suboptimality(results[0]) <= results[0].gap


@pytest.mark.parametrize("name", ENGINES)
def test_entries_stored_twice_are_added_up(name):
    case = Case(Squared(), is_sparse=True, scale=0.4)
    data = case.dataset()
    one = data.matrix
    doubled = CompressedMatrix(
        2 * one.indptr, np.repeat(one.indices, 2), one.n_features, np.repeat(one.values / 2, 2)
    )
    twice = Dataset(doubled, data.labels, data.row_weights, 1.0)
    result = fit(make_engine_on(name, case.problem, twice))
    assert result.has_converged
    assert case.suboptimality(result) <= result.gap


def put(array, place, value):
    """Return what spoils an array of a matrix."""
    return lambda matrix: getattr(matrix, array).__setitem__(place, value)


BAD = {
    "nan": (NonFiniteError, "expected finite entries", put("values", 3, np.nan)),
    "too large": (ValueError, "scale the columns", put("values", 3, 1e160)),
    "column": (ValueError, r"lie in \[0, 5\), got 5 at position 3", put("indices", 3, 5)),
    "negative": (ValueError, "got -1 at position 3", put("indices", 3, -1)),
    "start": (ValueError, "indptr must start with 0, got 1", put("indptr", 0, 1)),
    "falls": (ValueError, "must not decrease, got .* at row", put("indptr", 2, 0)),
    "end": (ValueError, "only .* indices are stored", put("indptr", -1, 10**6)),
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("error", "message", "spoil"), BAD.values(), ids=BAD)
def test_rows_that_no_sweep_may_see_are_refused(name, error, message, spoil):
    case = Case(Logistic(), is_sparse=True)
    dataset = case.dataset()
    spoil(dataset.matrix)
    with pytest.raises(error, match=message):
        make_engine_on(name, case.problem, dataset)


@pytest.mark.parametrize("name", ENGINES)
def test_sums_over_margins_need_an_exact_sweep_first(name):
    with pytest.raises(RuntimeError, match="expected an exact sweep"):
        make_engine(name, Case()).loss_value(0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("loss", "intercept", "is_sparse"), KINDS, ids=name_of)
def test_several_epochs_of_one_call_are_those_of_several_calls(loss, intercept, is_sparse, dtype):
    case = Case(loss, intercept, is_sparse=is_sparse, scale=0.25, dtype=dtype)
    ones, together = (make_engine("cpu", case) for _ in range(2))
    if together.has_focus:
        assert together.several_epochs is None
        return
    gaps = []
    for epoch in range(3, 9):
        gaps.append(ones.dual_epoch(epoch, 1.0))
        if intercept is Intercept.FREE:
            ones.offset += ones.tau * float(ones.shared[-1])
    assert together.several_epochs(3, 6, np.nan, 1.0, -1.0) == gaps
    assert together.offset == ones.offset
    np.testing.assert_array_equal(together.duals, ones.duals)
    np.testing.assert_array_equal(together.shared, ones.shared)


def test_several_epochs_end_where_the_gap_that_they_predict_is_small_enough():
    case = Case(Hinge(), Intercept.PENALISED, scale=0.25)
    gaps = make_engine("cpu", case).several_epochs(0, 12, np.nan, 1.0, -1.0)
    predicted = [gap * min(1.0, gap / before) for before, gap in pairwise(gaps)]
    most = 0.5 * (predicted[3] + predicted[4])
    assert predicted[4] < most < min(predicted[:4])
    engine = make_engine("cpu", case)
    assert engine.several_epochs(0, 1, np.nan, 1.0, -1.0) == gaps[:1]
    assert engine.several_epochs(1, 11, gaps[0], 2.0, 2.0 * most) == gaps[1:6]
