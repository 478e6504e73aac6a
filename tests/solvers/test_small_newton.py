"""Fits in one call of the extension, against NumPy and against the method for many rows."""

import logging
import math
from dataclasses import replace

import numpy as np
import pytest
from reference.losses import ORACLES
from scipy.sparse import csr_matrix

from snapml import LogisticRegression
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import (
    Hinge,
    Huber,
    Intercept,
    Logistic,
    NegativeBinomial,
    Penalty,
    Poisson,
    Problem,
    Softmax,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    Tweedie,
)
from snapml.solvers.columns.cpu_column_engine import CpuColumnEngine
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import Control
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.newton import quasi_newton, small_newton
from snapml.solvers.observer import Observer
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.working_sets import working_set_descent

pytestmark = pytest.mark.pairwise

LOSSES = [
    Logistic(),
    SquaredHinge(),
    Squared(),
    Huber(),
    SquaredEpsilonInsensitive(0.0),
    Poisson(),
    Tweedie(1.5),
    NegativeBinomial(1.0),
]
KINDS = [
    (Intercept.NONE, 1.0),
    (Intercept.FREE, 1.0),
    (Intercept.PENALISED, 3.0),
]
ALONE, SETTINGS = SerialCommunicator(), Settings(n_threads=1)
RULE = StoppingRule(1e-8, 100)


def drawn(loss, z, rng):
    if loss.labels == "class":
        return rng.integers(0, loss.n_outputs, len(z)) * (z < 1.0)
    if loss.labels == "sign":
        return np.where(rng.random(len(z)) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
    if loss.labels in ("count", "positive"):
        return rng.poisson(np.exp(np.clip(z, -3, 3))) + (loss.labels == "positive") * 0.5
    return z + rng.normal(size=len(z))


class Case:
    """Random rows with weights, some of them 0, and offsets."""

    def __init__(
        self, loss, kind=KINDS[1], *, dtype=np.float64, shape=(97, 5), seed=0, empty=0.3, **penalty
    ):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=shape) * np.exp(rng.normal(size=shape[1]))
        X[rng.random(shape) < empty] = 0.0
        z = X @ rng.normal(scale=0.4, size=shape[1]) + 0.5
        self.X = X.astype(dtype)
        self.y = drawn(loss, z, rng).astype(dtype)
        self.c = rng.integers(0, 3, shape[0]).astype(dtype) / 2
        n_offsets = (loss.n_outputs, shape[0]) if loss.is_joint else (shape[0],)
        self.o = rng.normal(scale=0.3, size=n_offsets)
        self.problem = Problem(loss, *kind, Penalty(**{"l2": 0.7, **penalty}))

    def dataset(self, layout="dense"):
        return Dataset(self.matrix(layout), self.y, self.c, 1.0, self.o)

    def matrix(self, layout):
        if layout == "dense":
            return DenseMatrix(self.X)
        if layout == "columns":
            return DenseMatrix(np.asfortranarray(self.X))
        rows = csr_matrix(self.X)
        index = np.int64 if layout == "int64" else np.int32
        arrays = rows.indptr.astype(index), rows.indices.astype(index)
        return CompressedMatrix(*arrays, self.X.shape[1], rows.data, self.X.dtype)

    def objective(self, coef, intercept):
        """P in NumPy."""
        loss, penalty = self.problem.loss, self.problem.penalty
        X = self.X.astype(np.float64)
        if loss.is_joint:
            z = (X @ coef.T + intercept).T + self.o
            value = np.logaddexp.reduce(z) - z[self.y.astype(int), np.arange(len(X))]
        else:
            value = ORACLES[loss.core_name].value(
                X @ coef + intercept + self.o, self.y.astype(float)
            )
        weights = np.ravel(coef)
        if self.problem.intercept is Intercept.PENALISED:
            weights = np.append(weights, np.ravel(intercept) / self.problem.intercept_scaling)
        with_weight = self.c > 0
        total = self.c[with_weight] @ value[with_weight]
        return total + penalty.l1 * np.abs(weights).sum() + 0.5 * penalty.l2 * weights @ weights

    def solve(self, layout="dense", rule=RULE, start=None, settings=SETTINGS, dataset=None):
        start = Start() if start is None else start
        dataset = self.dataset(layout) if dataset is None else dataset
        return small_newton.solve(self.problem, dataset, ALONE, rule, settings, start)

    def expected(self):
        rule = replace(RULE, tol=1e-12, max_iter=1000)
        if not self.problem.penalty.is_smooth:
            engine = CpuColumnEngine(self.problem, self.dataset(), n_threads=1)
            return working_set_descent.solve(engine, ALONE, rule)
        engine = CpuPrimalEngine(self.problem, self.dataset(), n_threads=1)
        return quasi_newton.solve(engine, ALONE, rule, is_rounded=False)


def check_against_others(case):
    found, expected = case.solve(), case.expected()
    dtype = case.X.dtype
    assert found.has_converged
    assert found.coef.dtype == dtype
    assert found.objective == pytest.approx(
        case.objective(found.coef.astype(np.float64), found.intercept), rel=1e-12
    )
    # Neither certificate lies: the minimum is at least one's bound and at most the other's value.
    assert found.objective - found.gap <= expected.objective
    assert expected.objective - expected.gap <= found.objective
    assert found.gap <= 1e-6 * found.objective
    rtol = 1e-7 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found.coef, expected.coef, rtol, rtol)
    stiffness = case.c @ (case.X.astype(np.float64) ** 2).sum(axis=1) / len(case.X)
    assert found.mean_stiffness == pytest.approx(stiffness)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].value)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
def test_minimum_is_that_of_the_method_for_many_rows(loss, kind, dtype):
    check_against_others(Case(loss, kind, dtype=dtype))


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("l1", [0.5, 30.0])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].value)
@pytest.mark.parametrize("loss", [Logistic(), Squared(), Poisson()], ids=lambda x: x.struct)
def test_minimum_under_an_l1_norm_is_that_of_working_sets(loss, kind, l1, l2):
    case = Case(loss, kind, shape=(97, 9), l1=l1, l2=l2)
    check_against_others(case)
    zeros = case.solve().coef == 0.0
    np.testing.assert_array_equal(zeros, case.expected().coef == 0.0)
    assert zeros.any() or l1 < 1.0


LONG = replace(RULE, max_iter=1000)
FINE = replace(LONG, tol=1e-13)


def check_many_columns(case, layout="dense"):
    """Under an L1 norm: the objective, coefficients and zeros of working sets."""
    found, expected = case.solve(layout, LONG), case.expected()
    assert found.has_converged
    assert found.objective == pytest.approx(
        case.objective(found.coef.astype(np.float64), found.intercept), rel=1e-12
    )
    assert found.objective - found.gap <= expected.objective * (1.0 + 1e-14)
    assert expected.objective - expected.gap <= found.objective * (1.0 + 1e-14)
    assert found.gap <= RULE.tol * found.objective * (1.0 + 1e-6)
    if expected.has_converged:  # working sets crawl on rows of Huber's loss that are flat
        scale = np.abs(expected.coef).max() + 1e-12
        np.testing.assert_allclose(found.coef, expected.coef, atol=3e-3 * scale)


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("l1", [0.3, 3.0])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].value)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.core_name)
@pytest.mark.parametrize(
    ("shape", "empty", "layout"),
    [((150, 80), 0.2, "dense"), ((60, 130), 0.0, "columns"), ((203, 140), 0.95, "int64")],
)
def test_of_many_columns_an_l1_norm_needs_few(loss, kind, l1, l2, shape, empty, layout):
    case = Case(loss, kind, shape=shape, empty=empty, l1=l1, l2=l2)
    check_many_columns(case, layout)


@pytest.mark.parametrize("loss", [Logistic(), Poisson()], ids=lambda x: x.struct)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].value)
@pytest.mark.parametrize("seed", range(4))
def test_groups_of_nearly_the_same_columns_are_told_apart(loss, kind, seed):
    case = Case(loss, kind, shape=(120, 90), empty=0.0, l1=0.02, l2=0.0, seed=seed)
    rng = np.random.default_rng(seed)
    case.X = case.X + 5.0 * np.repeat(rng.normal(size=(120, 9)), 10, axis=1) + rng.normal(size=1)
    case.X *= 0.3
    case.y = drawn(loss, case.X[:, 3] - case.X[:, 41], rng)
    found, expected = case.solve(rule=LONG), case.expected()
    assert found.has_converged
    assert found.gap <= RULE.tol * found.objective
    assert expected.objective - expected.gap <= found.objective
    assert found.objective <= expected.objective * (1.0 + 1e-7)


@pytest.mark.parametrize("shift", [-3.0, -0.3, 0.3, 3.0])
@pytest.mark.parametrize("loss", [Logistic(), Poisson()], ids=lambda x: x.struct)
def test_penalised_intercept_may_rest_at_zero_or_leave_it(loss, shift):
    case = Case(loss, KINDS[2], shape=(90, 70), l1=1.5, l2=0.0)
    case.X += 1.0  # the intercept is tied to all columns
    case.o = case.o - shift
    check_many_columns(case)


@pytest.mark.parametrize("shape", [(90, 70), (203, 140)])
def test_columns_that_every_row_is_flat_in_come_to_rest(shape):
    """Rows beyond the hinge have neither slope nor curvature."""
    case = Case(SquaredHinge(), KINDS[0], shape=shape, empty=0.9, l1=0.05, l2=0.0)
    case.o = np.zeros(shape[0])
    case.y = np.where(np.arange(shape[0]) % 2 == 0, 1.0, -1.0)
    case.X[:, :3] = 0.0
    case.X[::7, 0] = 40.0 * case.y[::7]
    check_many_columns(case, "int32")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].value)
def test_start_where_all_rows_are_flat_leads_to_the_minimum(kind):
    case = Case(SquaredHinge(), kind, shape=(90, 70), empty=0.0, l1=0.5, l2=0.0)
    case.o = np.zeros(90)
    case.y = np.where(case.X[:, 0] > 0.0, 1.0, -1.0)
    case.X[:, 0] += case.y
    far = np.zeros((1, 71))
    far[0, 0] = 10.0  # every margin is at least 10
    found, other = case.solve(rule=LONG, start=Start(coef=far)), case.solve(rule=LONG)
    assert found.has_converged
    assert found.objective == pytest.approx(other.objective, rel=1e-7)


def test_copies_of_many_columns_share_an_l1_norm_without_an_end():
    case = Case(Logistic(), l1=0.3, l2=0.0, shape=(80, 90))
    case.X[:, 45:] = case.X[:, :45]
    case.X[:, 7] = 0.0
    found = case.solve()
    assert found.has_converged
    assert found.objective == pytest.approx(case.expected().objective, rel=1e-7)
    assert found.coef[7] == 0.0


def test_more_columns_than_a_gram_matrix_is_made_of_are_left_to_working_sets():
    case = Case(Squared(), KINDS[0], shape=(1500, 1700), empty=0.9, l1=1e-3, l2=0.0)
    assert case.solve("int32", rule=FINE) is None


def test_columns_alike_share_an_l1_norm_without_an_end():
    case = Case(Logistic(), l1=0.5, l2=0.0, shape=(80, 6))
    case.X[:, 3] = case.X[:, 2]
    case.X[:, 4] = 0.0
    found = case.solve()
    assert found.objective == pytest.approx(case.expected().objective, rel=1e-7)
    assert found.coef[4] == 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].value)
def test_multinomial_minimum_is_that_of_the_method_for_many_rows(kind, n_classes, dtype):
    check_against_others(Case(Softmax(n_classes), kind, dtype=dtype, shape=(123, 6)))


@pytest.mark.parametrize("n_columns", [7, 8, 16])
def test_multinomial_columns_may_fill_the_registers(n_columns):
    """Without an intercept, nothing stands behind the last column of the last class."""
    check_against_others(Case(Softmax(3), KINDS[0], shape=(123, n_columns)))


def test_class_numbers_outside_the_classes_are_refused():
    case = Case(Softmax(3))
    for label in (3.0, -1.0, np.nan):
        case.y = np.full_like(case.y, label)
        with pytest.raises(ValueError, match="expected class numbers below 3"):
            case.solve()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].value)
@pytest.mark.parametrize("loss", [*LOSSES, Softmax(3)], ids=str)
@pytest.mark.parametrize("l1", [0.0, 0.4])
def test_rows_of_few_entries_are_those_of_mostly_zeros(loss, kind, l1):
    if loss.is_joint and l1:
        return  # a softmax with an L1 norm is not small
    case = Case(loss, kind, shape=(203, 40), empty=0.95, l1=l1)
    rows = csr_matrix(case.X)
    # Backwards, and every entry in two halves: entries of one column add up.
    order = np.concatenate(
        [np.tile(np.arange(rows.indptr[i], rows.indptr[i + 1])[::-1], 2) for i in range(203)]
    )
    parts = 2 * rows.indptr, rows.indices[order], 40, rows.data[order] / 2
    twice = case.solve(dataset=replace(case.dataset(), matrix=CompressedMatrix(*parts)))
    dense, sparse = case.solve(), case.solve("int32")
    assert dense.has_converged
    for other in (sparse, twice):
        assert other.has_converged
        assert other.gap >= 0.0
        # The intercept's column is flat where nothing but offsets tells classes apart.
        np.testing.assert_allclose(other.objective, dense.objective, rtol=1e-7)
        np.testing.assert_allclose(other.coef, dense.coef, atol=2e-4)
        np.testing.assert_allclose(other.mean_stiffness, dense.mean_stiffness, rtol=1e-12)


def test_rows_of_few_entries_are_small_although_they_are_many():
    case = Case(Logistic(), shape=(9000, 120), empty=0.95)
    assert small_newton.is_small(case.problem, case.matrix("int32"), 9000)
    assert not small_newton.is_small(case.problem, case.matrix("dense"), 9000)
    result = case.solve("int32")
    assert result.has_converged
    exact = quasi_newton.solve(
        CpuPrimalEngine(case.problem, case.dataset("int32"), n_threads=1), ALONE, RULE
    )
    np.testing.assert_allclose(result.coef, exact.coef, atol=1e-4)


@pytest.mark.parametrize("layout", ["columns", "int32", "int64"])
def test_layouts_give_equal_bits(layout):
    case = Case(Logistic())
    dense, other = case.solve(), case.solve(layout)
    np.testing.assert_array_equal(other.coef, dense.coef)
    assert (other.intercept, other.gap) == (dense.intercept, dense.gap)


def test_entries_of_one_column_in_a_row_add_up():
    once, twice = ([0, 1, 2], [0, 1], [3.0, -1.0]), ([0, 2, 3], [0, 0, 1], [1.0, 2.0, -1.0])
    found = []
    for indptr, indices, values in (once, twice):
        arrays = np.array(indptr, np.int32), np.array(indices, np.int32)
        matrix = CompressedMatrix(*arrays, 2, np.array(values), np.dtype(np.float64))
        dataset = Dataset(matrix, np.array([1.0, -1.0]), None, 1.0)
        problem = Problem(Logistic(), Intercept.NONE)
        found.append(small_newton.solve(problem, dataset, ALONE, RULE, SETTINGS, Start()))
    np.testing.assert_array_equal(found[0].coef, found[1].coef)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (8, 7), (9, 8), (40, 90), (700, 3), (3000, 60)])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Poisson()], ids=lambda x: x.struct)
def test_shapes_are_certified(loss, shape):
    case = Case(loss, KINDS[2], shape=shape)
    found = case.solve()
    assert found.gap <= 1e-8 * found.objective + 1e-300
    assert found.objective <= case.objective(np.zeros(shape[1]), 0.0)


@pytest.mark.parametrize("l2", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_certificate_never_lies(l2, scale):
    for seed in range(5):
        case = Case(Logistic(), l2=l2, seed=seed)
        case.X *= scale
        found = case.solve()
        if found is None:
            continue
        for tol in (1e-2, 1e-4):
            early = case.solve(rule=StoppingRule(tol, 100))
            assert early.objective - early.gap <= found.objective
            assert early.gap <= tol * early.objective


def test_history_has_every_step_and_its_certificate():
    found = Case(Poisson()).solve()
    history = found.history
    assert [entry["epoch"] for entry in history] == list(range(len(history)))
    assert history[0]["running_gap"] == math.inf
    assert history[-1]["objective"] == found.objective
    assert history[-1]["gap"] == found.gap
    times = [entry["time_s"] for entry in history]
    assert times == sorted(times)
    assert len(history) - 1 <= found.n_iter <= 100


def test_start_at_the_minimum_needs_next_to_nothing():
    case = Case(Logistic())
    first = case.solve()
    again = case.solve(start=Start(coef=first.point(1.0)))
    assert again.n_iter <= 2 < first.n_iter
    np.testing.assert_allclose(again.coef, first.coef, rtol=1e-9)


@pytest.mark.parametrize(("tol", "max_iter"), [(1e-8, 0), (1e-8, 2), (0.0, 100)])
def test_what_is_not_met_is_left_to_another_method(tol, max_iter):
    assert Case(Logistic()).solve(rule=StoppingRule(tol, max_iter)) is None


def test_what_is_not_finite_is_left_to_another_method():
    case = Case(Poisson())
    case.X[3, 2] = np.nan
    case.c[3] = 1.0
    assert case.solve() is None


def test_rows_too_heavy_for_their_type_are_refused():
    case = Case(Logistic(), dtype=np.float32)
    case.X *= np.float32(1e18)
    with pytest.raises(ValueError, match="scale the columns"):
        case.solve(rule=StoppingRule(1.0, 100))


def test_number_of_threads_is_checked():
    with pytest.raises(ValueError, match="n_threads"):
        Case(Logistic()).solve(settings=Settings(n_threads=0))


@pytest.mark.parametrize("n_steps", [1, 3])
def test_whoever_looks_on_sees_every_step_and_can_end_there(n_steps):
    case, seen = Case(Logistic()), []

    def look(model_of):
        seen.append(model_of())
        return len(seen) == n_steps

    ended = case.solve(rule=StoppingRule(1e-8, 100, control=Control(look=look)))
    whole = case.solve()
    assert len(seen) == n_steps
    assert not ended.has_converged
    np.testing.assert_array_equal(ended.coef, seen[-1].coef[0])
    assert ended.intercept == seen[-1].intercept[0]
    assert ended.objective == seen[-1].objective == whole.history[n_steps - 1]["objective"]
    assert ended.gap == whole.history[n_steps - 1]["gap"]


def test_watched_fit_has_the_bits_of_another():
    case = Case(SquaredHinge(), KINDS[2])
    watched = case.solve(rule=StoppingRule(1e-8, 100, control=Control(look=lambda _: False)))
    np.testing.assert_array_equal(watched.coef, case.solve().coef)


def test_steps_are_logged_when_asked_for(caplog):
    with caplog.at_level(logging.INFO, "snapml"):
        found = Case(Logistic()).solve(rule=StoppingRule(1e-8, 100, verbose=1))
    assert caplog.text.count("certified gap") == len(found.history)


def suits(problem=None, dataset=None, rule=RULE, settings=SETTINGS):
    case = Case(Logistic())
    problem = case.problem if problem is None else problem
    dataset = case.dataset() if dataset is None else dataset
    return small_newton.suits(problem, dataset, ALONE, rule, settings)


def test_small_smooth_problems_suit():
    problem = Case(Logistic()).problem
    assert suits()
    assert not suits(replace(problem, loss=Hinge()))
    for penalty in (Penalty(l2=0.0), Penalty(l1=1.0, is_positive=True)):
        assert not suits(replace(problem, penalty=penalty))
    assert not suits(settings=Settings("pqn"))
    assert not suits(settings=Settings(device_ids=(0,)))
    assert not suits(rule=replace(RULE, observer=Observer()))
    many = Dataset(DenseMatrix(np.ones((200_000, 2))), np.ones(200_000), None, 1.0)
    assert not suits(dataset=many)
    # A sample of the rows is worth more the more of them there are a column.
    assert small_newton.is_small(problem, DenseMatrix(np.ones((8000, 99))), 8000)
    assert not small_newton.is_small(problem, DenseMatrix(np.ones((40_000, 19))), 40_000)
    for n_columns, penalty in ((513, Penalty()), (2**16 + 1, Penalty(l1=0.1))):
        for n_more in (-1, 0):
            matrix = DenseMatrix(np.ones((2, n_columns + n_more)))
            wide = Dataset(matrix, np.ones(2), None, 1.0)
            assert suits(replace(problem, penalty=penalty), wide) == (n_more < 0)
    for n_rows, loss, penalty in (
        (10_000, Logistic(), Penalty()),
        (8000, Logistic(), Penalty(l1=0.1)),
        (2000, Squared(), Penalty(l1=0.1)),
    ):
        for n_more in (0, 1):
            matrix = DenseMatrix(np.ones((n_rows + n_more, 99)))
            tall = Dataset(matrix, np.ones(n_rows + n_more), None, 1.0)
            assert suits(replace(problem, loss=loss, penalty=penalty), tall) == (n_more == 0)
    assert suits(replace(problem, loss=Softmax(3)))
    assert not suits(replace(problem, loss=Softmax(3), penalty=Penalty(l1=0.1)))
    assert not suits(replace(problem, loss=Softmax(201)))


def test_default_fits_of_few_rows_are_made_in_one_call():
    case = Case(Logistic())
    model = LogisticRegression().fit(case.X, case.y)
    assert model.solver_ == (
        "quasi-Newton in one call, curvature from 97 rows, 1 thread: the rows stay in the cache"
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].value)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.core_name)
def test_slopes_of_a_model_bound_the_objective_on_the_way(loss, kind):
    case = Case(loss, kind, shape=(260, 80), empty=0.2, l1=0.3, l2=0.0)
    expected = case.expected()
    for tol in (0.1, 1e-2, 1e-4, 1e-6):
        found = case.solve(rule=replace(LONG, tol=tol))
        assert found.objective - found.gap <= expected.objective * (1.0 + 1e-14)


def test_slopes_of_a_model_say_that_its_step_was_the_last():
    case = Case(Logistic(), KINDS[1], shape=(2000, 80), empty=0.2, l1=0.3, l2=0.0)
    found = case.solve(rule=replace(LONG, tol=1e-6))
    assert found.has_converged
    assert found.n_iter <= 9  # 10 with the slopes at the points alone
