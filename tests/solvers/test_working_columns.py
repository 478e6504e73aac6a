"""Elastic nets on dense rows in one call, against plain NumPy, and what is left to other ways."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from snapml import ElasticNet, Lasso
from snapml._validation import as_matrix
from snapml.data import Dataset
from snapml.problems import Bounds, Intercept, Logistic, Penalty, Problem, Squared
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import Control
from snapml.solvers.fit_settings import Settings
from snapml.solvers.least_squares import working_columns
from snapml.solvers.plan import choice
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.result import StartModel
from snapml.solvers.stopping import StoppingRule


def make(n_rows, n_columns, dtype, *, kind="rows", is_weighted=False, has_offsets=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns)) + rng.standard_normal((n_rows, 1))
    y = X[:, :3].sum(axis=1) + rng.standard_normal(n_rows) + 30.0
    offsets = 100.0 * rng.random(n_rows) if has_offsets else None
    y = y if offsets is None else y + offsets
    weights = None
    if is_weighted:
        weights = (rng.random(n_rows) * (rng.random(n_rows) < 0.8) + 1e-3) / n_rows
        weights = weights.astype(dtype)
    if kind == "gaps":
        X = np.repeat(X, 2, axis=0)[::2]
    if kind == "reversed":
        X = np.ascontiguousarray(X[::-1])[::-1]
    X = X.astype(dtype, copy=False)
    return X, Dataset(as_matrix(X), y.astype(dtype), weights, 1.0 / n_rows, offsets)


def bounds_of(X, dataset, penalty, intercept, coef, b):
    """Return P at a model and the dual objective at its residuals, scaled to be feasible."""
    c = np.full(len(X), dataset.weight) if dataset.row_weights is None else dataset.row_weights
    X, c, w = X.astype(np.float64), c.astype(np.float64), coef.astype(np.float64)
    y = dataset.labels.astype(np.float64)
    y = y if dataset.offsets is None else y - dataset.offsets
    if intercept is Intercept.FREE:
        X, y = X - c @ X / c.sum(), y - c @ y / c.sum()
        b = 0.0
    residuals = y - X @ w - b
    P = c @ residuals**2 / 2 + penalty.l1 * np.abs(w).sum() + penalty.l2 / 2 * w @ w
    # With rows sqrt(l2) I of target 0, whose residuals are -sqrt(l2) w.
    slopes = X.T @ (c * residuals) - penalty.l2 * w
    largest = (slopes if penalty.is_positive else np.abs(slopes)).max(initial=0.0)
    most = min(1.0, penalty.l1 / largest) if largest > 0.0 else 1.0
    square, along = c @ residuals**2 + penalty.l2 * w @ w, c @ (y * residuals)
    best = min(max(along / square, 0.0), most) if square > 0.0 else most
    return P, best * along - best**2 * square / 2


def solve(problem, dataset, tol=1e-8, n_threads=None, start=None, max_iter=100):
    rule = StoppingRule(tol=tol, max_iter=max_iter)
    alone = SerialCommunicator()
    return working_columns.solve(
        problem, dataset, alone, rule, Settings(n_threads=n_threads), start
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=40)
@given(
    n_rows=st.integers(1, 300),
    n_columns=st.integers(1, 200),
    strength=st.sampled_from([0.9, 0.3, 0.03]),
    ridge=st.sampled_from([0.0, 0.1]),
    is_positive=st.booleans(),
    intercept=st.sampled_from([Intercept.FREE, Intercept.NONE]),
    kind=st.sampled_from(["rows", "gaps", "reversed"]),
    is_weighted=st.booleans(),
    has_offsets=st.booleans(),
    n_threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 5),
)
@example(200, 90, 0.03, 0.0, False, Intercept.FREE, "rows", False, False, 1, 0)
@example(120, 200, 0.3, 0.1, True, Intercept.NONE, "gaps", True, True, 3, 1)
@example(1, 1, 0.3, 0.0, False, Intercept.FREE, "reversed", False, False, 1, 0)
def test_model_and_bounds_are_those_of_numpy(
    dtype, n_rows, n_columns, strength, ridge, is_positive, intercept, kind, is_weighted,
    has_offsets, n_threads, seed,
):  # fmt: skip
    X, dataset = make(
        n_rows,
        n_columns,
        dtype,
        kind=kind,
        is_weighted=is_weighted,
        has_offsets=has_offsets,
        seed=seed,
    )
    penalty = Penalty(5.0 * strength, ridge, is_positive)
    problem = Problem(Squared(), intercept, penalty=penalty)
    found = solve(problem, dataset, n_threads=n_threads)
    if found is None:  # more columns than rows, the targets interpolated
        assert n_rows < n_columns
        return
    assert found.coef.dtype == dtype
    assert found.has_converged
    allowed = 1e-6 if dtype == np.float32 else 1.1e-8
    assert found.gap <= allowed * found.objective + 1e-20
    P, lower = bounds_of(X, dataset, penalty, intercept, found.coef, 0.0)
    noise = 1e-12 * (1.0 + P)
    assert found.objective == pytest.approx(P, rel=1e-11, abs=1e-11)
    # Its own bound is that of the model before it was rounded: no worse than of the rounded one.
    assert found.objective - found.gap >= lower - 1e-7 * P
    assert found.gap >= -noise
    if is_positive:
        assert found.coef.min() >= 0.0
    stored = dataset.row_weights
    c = np.full(n_rows, dataset.weight) if stored is None else stored.astype(np.float64)
    stiffness = c @ np.square(X.astype(np.float64)).sum(axis=1)
    assert found.mean_stiffness == pytest.approx(stiffness / n_rows, rel=1e-5)
    if intercept is Intercept.FREE and dtype == np.float64:
        y = dataset.labels - (0.0 if dataset.offsets is None else dataset.offsets)
        residual = c @ (y - X @ found.coef - found.intercept)
        assert abs(residual) <= 1e-10 * (c @ np.abs(y))
    else:
        assert intercept is not Intercept.NONE or found.intercept == 0.0


def test_certified_gap_is_not_below_the_distance_to_the_minimum():
    for seed in range(20):
        X, dataset = make(150, 80, np.float64, seed=seed)
        penalty = Penalty(0.02 * 2.0**-seed, 0.0)
        problem = Problem(Squared(), Intercept.FREE, penalty=penalty)
        rough, fine = solve(problem, dataset, 1e-2), solve(problem, dataset, 1e-12)
        assert rough.gap >= rough.objective - fine.objective - 1e-12 * fine.objective
        P, _ = bounds_of(X, dataset, penalty, Intercept.FREE, rough.coef, 0.0)
        assert rough.objective == pytest.approx(P, rel=1e-12)


def test_threads_give_equal_bits_each_time_and_nearly_those_of_one(small_data_get_threads):
    _, dataset = make(4000, 90, np.float64)
    problem = Problem(Squared(), Intercept.FREE, penalty=Penalty(0.01, 0.0))
    one, four, again = (solve(problem, dataset, n_threads=n) for n in (1, 4, 4))
    np.testing.assert_array_equal(four.coef, again.coef)
    np.testing.assert_allclose(four.coef, one.coef, rtol=1e-6, atol=1e-9)
    assert four.description == "working sets of columns in one call, 4 threads"


def test_a_start_at_the_model_takes_no_step():
    _, dataset = make(500, 90, np.float64)
    problem = Problem(Squared(), Intercept.FREE, penalty=Penalty(0.05, 0.0))
    cold = solve(problem, dataset, 1e-12)
    warm = solve(problem, dataset, 1e-10, start=StartModel(cold.coef, cold.intercept))
    assert warm.n_iter == 0 < cold.n_iter
    np.testing.assert_array_equal(warm.coef, cold.coef)


def test_fewer_steps_than_needed_give_nothing():
    _, dataset = make(500, 90, np.float64)
    problem = Problem(Squared(), Intercept.FREE, penalty=Penalty(0.01, 0.0))
    found = solve(problem, dataset)
    assert found.n_iter > 1
    assert [entry["epoch"] for entry in found.history] == list(range(found.n_iter + 1))
    gaps = [entry["gap"] for entry in found.history]
    assert gaps[-1] <= 1e-8 * found.objective < gaps[-2]
    assert solve(problem, dataset, max_iter=found.n_iter).n_iter == found.n_iter
    assert solve(problem, dataset, max_iter=found.n_iter - 1) is None


def test_whoever_looks_on_sees_each_point_and_may_end_the_fit_there():
    X, dataset = make(500, 90, np.float64)
    problem = Problem(Squared(), Intercept.FREE, penalty=Penalty(0.01, 0.0))
    plain, seen = solve(problem, dataset), []

    def told(most):
        def look(model_of):
            seen.append(model_of())
            return len(seen) == most

        seen.clear()
        rule = StoppingRule(tol=1e-8, max_iter=100, control=Control(look=look))
        return working_columns.solve(problem, dataset, SerialCommunicator(), rule, Settings())

    np.testing.assert_array_equal(told(100).coef, plain.coef)
    assert len(seen) == plain.n_iter + 1
    np.testing.assert_array_equal(seen[-1].coef[0], plain.coef)
    for model in seen:
        P, _ = bounds_of(X, dataset, problem.penalty, Intercept.FREE, model.coef[0], 0.0)
        assert model.objective == pytest.approx(P, rel=1e-12)
        residuals = dataset.labels - X @ model.coef[0] - model.intercept[0]
        assert abs(residuals.mean()) < 1e-12
    cut = told(2)
    assert not cut.has_converged
    assert cut.n_iter == 1
    np.testing.assert_array_equal(cut.coef, seen[-1].coef[0])


@pytest.mark.parametrize("shift", [1e3, 1e9])
def test_columns_far_from_zero_are_solved_as_well_or_left_to_others(shift):
    X, near = make(400, 80, np.float64)
    problem = Problem(Squared(), Intercept.FREE, penalty=Penalty(0.05, 0.0))
    far = Dataset(as_matrix(X + shift), near.labels, None, near.weight)
    found, expected = solve(problem, far), solve(problem, near)
    if shift == 1e9:
        assert found is None
        return
    assert found.objective == pytest.approx(expected.objective, rel=1e-8)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-5)


@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_left_to_others_who_name_them(entry):
    X, dataset = make(300, 80, np.float64)
    X[200, 70] = entry
    problem = Problem(Squared(), Intercept.FREE, penalty=Penalty(0.05, 0.0))
    assert solve(problem, dataset) is None
    rule = StoppingRule(tol=1e-8, max_iter=100)
    with pytest.raises(NonFiniteError):
        choice.fit_sequence(
            problem, [problem.penalty], dataset, SerialCommunicator(), rule, Settings()
        )


def test_squares_that_overflow_are_refused():
    X, near = make(300, 80, np.float32)
    dataset = Dataset(as_matrix(X * np.float32(1e19)), near.labels, None, near.weight)
    with pytest.raises(ValueError, match="scale the columns"):
        solve(Problem(Squared(), Intercept.FREE, penalty=Penalty(1e22, 0.0)), dataset)


class _Two(SerialCommunicator):
    size = 2


RULE = StoppingRule(tol=1e-8, max_iter=100)
LASSO = Problem(Squared(), Intercept.FREE, penalty=Penalty(0.1, 0.0))


@pytest.mark.parametrize(
    ("problem", "shape", "communicator", "rule", "settings", "is_suited"),
    [
        (LASSO, (1000, 65), SerialCommunicator(), RULE, Settings(), True),
        (LASSO, (1000, 60), SerialCommunicator(), RULE, Settings(), False),
        (LASSO, (100, 60), SerialCommunicator(), RULE, Settings(), True),
        (LASSO, (1000, 65), _Two(), RULE, Settings(), False),
        (LASSO, (1000, 65), SerialCommunicator(), RULE, Settings(device_ids=(0,)), False),
        (LASSO, (1000, 65), SerialCommunicator(), RULE, Settings("sdca"), False),
        (
            Problem(Logistic(), penalty=Penalty(0.1, 0.0)),
            (1000, 65),
            SerialCommunicator(),
            RULE,
            Settings(),
            False,
        ),
        (
            Problem(Squared(), Intercept.FREE, penalty=Penalty(0.0, 0.1)),
            (1000, 65),
            SerialCommunicator(),
            RULE,
            Settings(),
            False,
        ),
        (
            Problem(Squared(), Intercept.PENALISED, penalty=Penalty(0.1, 0.0)),
            (1000, 65),
            SerialCommunicator(),
            RULE,
            Settings(),
            False,
        ),
        (
            Problem(
                Squared(),
                Intercept.FREE,
                penalty=Penalty(0.1, 0.0, bounds=Bounds(np.zeros(65), np.ones(65))),
            ),
            (1000, 65),
            SerialCommunicator(),
            RULE,
            Settings(),
            False,
        ),
    ],
    ids=[
        "dense",
        "few columns",
        "small",
        "shards",
        "a GPU",
        "a solver",
        "another loss",
        "no L1",
        "a penalised intercept",
        "bounds",
    ],
)
def test_what_suits(problem, shape, communicator, rule, settings, is_suited):
    _, dataset = make(*shape, np.float64)
    assert working_columns.suits(problem, dataset, communicator, rule, settings) is is_suited


def test_sparse_rows_and_rows_by_columns_are_left_to_others():
    X, dataset = make(1000, 65, np.float64)
    for other in (csr_matrix(X), np.asfortranarray(X)):
        rows = Dataset(as_matrix(other), dataset.labels, None, dataset.weight)
        assert not working_columns.suits(LASSO, rows, SerialCommunicator(), RULE, Settings())


@pytest.mark.parametrize("estimator", [Lasso(alpha=0.05), ElasticNet(alpha=0.05)])
def test_estimators_take_one_call(estimator):
    X, dataset = make(2000, 90, np.float64)
    estimator.fit(X, dataset.labels)
    assert estimator.solver_.startswith("working sets of columns in one call")
    assert estimator.gap_ <= 1e-8 * estimator.objective_
