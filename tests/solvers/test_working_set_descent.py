"""Working-set descent: optimal on every kind of problem, with a certificate that holds."""

from dataclasses import dataclass

import numpy as np
import pytest
from reference.data import make_labels, make_rows, make_weights
from reference.elastic_net import ElasticNetObjective
from reference.losses import ORACLES
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import (
    Huber,
    Intercept,
    Logistic,
    Penalty,
    Poisson,
    Problem,
    Squared,
    SquaredHinge,
)
from snapml.solvers.columns import cpu_column_engine, gpu_columns, hot_block
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.working_sets.working_set_descent import solve

from .column_engines import ENGINES

pytestmark = pytest.mark.pairwise

LOSSES = (Squared(), Logistic(), SquaredHinge(), Huber(), Poisson())
PENALTIES = {
    "l1": Penalty(2.0, 0.0),
    "elastic net": Penalty(1.0, 0.5),
    "positive": Penalty(1.0, 0.0, True),
    "positive ridge": Penalty(0.0, 0.5, True),
}


@dataclass(frozen=True)
class Case:
    loss: object
    penalty: Penalty = PENALTIES["l1"]
    intercept: Intercept = Intercept.FREE
    layout: str = "C"
    dtype: str = "float64"
    shape: tuple = (80, 12)
    scaling: float = 2.0
    engine: str = "cpu"

    def data(self):
        density = 0.5 if self.layout == "csr" else 1.0
        X = make_rows(*self.shape, density=density)
        y = make_labels(X, labels=self.loss.labels)
        return X, y, make_weights(len(X))

    def fit(self, *, tol=1e-11, n_threads=1, start=None, data=None, max_iter=500):
        X, y, c = data or self.data()
        if self.layout == "csr":
            stored = csr_matrix(X.astype(self.dtype))
            parts = (stored.indptr, stored.indices, X.shape[1], stored.data)
            matrix = CompressedMatrix(*parts)
        else:
            matrix = DenseMatrix(np.array(X, dtype=self.dtype, order=self.layout))
        problem = Problem(self.loss, self.intercept, self.scaling, self.penalty)
        dataset = Dataset(matrix, y.astype(self.dtype), c.astype(self.dtype), 1.0)
        engine = ENGINES[self.engine](problem, dataset, n_threads=n_threads)
        return solve(engine, SerialCommunicator(), StoppingRule(tol, max_iter), start)

    def objective(self, data=None):
        X, y, c = data or self.data()
        return ElasticNetObjective(
            ORACLES[self.loss.core_name],
            X,
            y,
            c,
            self.penalty.l1,
            self.penalty.l2,
            self.penalty.is_positive,
            self.intercept.value,
            self.scaling,
        )


def assert_optimal(case, result, rel, data=None):
    """Assert that what the result says of itself is true, and that nothing better exists."""
    objective = case.objective(data)
    value = objective.primal(result.coef, result.intercept)
    assert result.has_converged
    assert result.objective == pytest.approx(value, rel=1e-12)
    minimum = objective.minimum()
    assert value - minimum <= rel * abs(value)
    assert value - minimum <= result.gap + 1e-13 * abs(value)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("layout", ["C", "csr"])
def test_solution_is_optimal_and_certified(loss, penalty, intercept, layout):
    case = Case(loss, PENALTIES[penalty], intercept, layout)
    assert_optimal(case, case.fit(), rel=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@pytest.mark.parametrize("penalty", ["l1", "positive ridge"])
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("layout", ["C", "csr"])
def test_solution_of_an_emulated_gpu_is_optimal_and_certified(loss, penalty, intercept, layout):
    case = Case(loss, PENALTIES[penalty], intercept, layout, engine="gpu-emulated")
    assert_optimal(case, case.fit(tol=1e-9), rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "layout", "intercept"),
    [
        (Logistic(), "C", Intercept.FREE),
        (Squared(), "csr", Intercept.PENALISED),
        (SquaredHinge(), "csr", Intercept.FREE),
    ],
    ids=str,
)
def test_rounds_on_columns_of_an_emulated_gpu_are_optimal(monkeypatch, loss, layout, intercept):
    monkeypatch.setattr(gpu_columns, "_MOST_GRAM_COLUMNS", 0)
    monkeypatch.setattr(gpu_columns, "_MOST_SPARSE_GRAM", 0)
    monkeypatch.setattr(hot_block, "_MOST_COLUMNS", 4)
    case = Case(loss, Penalty(3.0, 0.0), intercept, layout, engine="gpu-emulated")
    assert_optimal(case, case.fit(tol=1e-5), rel=1e-5)


def test_equal_fits_of_an_emulated_gpu_give_equal_bits(monkeypatch):
    monkeypatch.setattr(gpu_columns, "_MOST_SPARSE_GRAM", 0)
    case = Case(Logistic(), Penalty(6.0, 0.0), layout="csr", engine="gpu-emulated")
    one, other = case.fit(tol=1e-4), case.fit(tol=1e-4)
    np.testing.assert_array_equal(one.coef, other.coef)
    assert (one.intercept, one.gap) == (other.intercept, other.gap)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@pytest.mark.parametrize("layout", ["C", "F", "csr"])
def test_float32_data_are_solved_to_the_resolution_of_the_model(loss, layout):
    case = Case(loss, dtype="float32", layout=layout)
    assert_optimal(case, case.fit(tol=1e-9), rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@pytest.mark.parametrize("layout", ["C", "csr"])
@pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)
@pytest.mark.parametrize("most_near", [-1, 3000], ids=["rounds", "near the support"])
def test_descent_on_columns_finds_what_the_gram_matrix_finds(
    monkeypatch, loss, layout, intercept, most_near
):
    monkeypatch.setattr(cpu_column_engine, "_MOST_GRAM_COLUMNS", 0)
    monkeypatch.setattr(cpu_column_engine, "_MOST_SPARSE_GRAM", 0)
    monkeypatch.setattr(cpu_column_engine, "_MOST_NEAR", most_near)
    case = Case(loss, layout=layout, intercept=intercept)
    assert_optimal(case, case.fit(), rel=1e-10)


def one_hot_rows(n_rows, sizes):
    """Return rows of one category per field: the columns of every field add up to one."""
    rng = np.random.default_rng(3)
    fields = [np.eye(size)[rng.zipf(1.5, n_rows) % size] for size in sizes]
    return np.hstack(fields)


@pytest.mark.parametrize("n_hot", [0, 5, 512])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@pytest.mark.parametrize("layout", ["C", "csr"])
@pytest.mark.parametrize("intercept", [Intercept.NONE, Intercept.FREE], ids=lambda kind: kind.value)
def test_fields_that_add_up_to_one_are_solved_by_blocks(
    monkeypatch, n_hot, loss, layout, intercept
):
    monkeypatch.setattr(cpu_column_engine, "_MOST_GRAM_COLUMNS", 0)
    monkeypatch.setattr(cpu_column_engine, "_MOST_SPARSE_GRAM", 0)
    monkeypatch.setattr(cpu_column_engine, "_MOST_NEAR", -1)
    monkeypatch.setattr(hot_block, "_MOST_COLUMNS", n_hot)
    case = Case(loss, Penalty(0.3), intercept, layout)
    X = one_hot_rows(400, (3, 4, 20, 40))
    data = X, make_labels(X, labels=loss.labels), make_weights(len(X))
    result = case.fit(data=data, tol=1e-9)
    assert result.n_iter < 60
    assert_optimal(case, result, 1e-8, data)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=lambda loss: loss.core_name)
def test_the_last_models_are_solved_near_the_support(monkeypatch, loss):
    """Words that depend on each other: a Gram matrix of few of them, and the optimum of all."""
    near = []
    whole = cpu_column_engine._SparseSet._minimise_near

    def counted(self, columns, model, coef, target):
        near.append((len(columns), len(coef)))
        return whole(self, columns, model, coef, target)

    monkeypatch.setattr(cpu_column_engine._SparseSet, "_minimise_near", counted)
    monkeypatch.setattr(cpu_column_engine, "_GRAM_READS", 1e9)
    case = Case(loss, Penalty(1.0), layout="csr", shape=(300, 1200))
    result = case.fit(tol=1e-9)
    assert_optimal(case, result, rel=1e-9)
    assert any(0 < n_near < n_columns for n_near, n_columns in near)
    n_reads, n_near = result.n_iter, len(near)
    monkeypatch.setattr(cpu_column_engine, "_GRAM_READS", 0.0)  # too dear
    other = case.fit(tol=1e-9)
    assert len(near) == n_near
    assert n_reads <= other.n_iter + 1
    np.testing.assert_allclose(result.coef, other.coef, atol=1e-4)


@pytest.mark.parametrize("layout", ["C", "csr"])
def test_more_columns_than_one_working_set_holds(layout):
    case = Case(Squared(), Penalty(40.0), layout=layout, shape=(60, 900))
    assert_optimal(case, case.fit(), rel=1e-10)


@pytest.mark.parametrize("layout", ["C", "csr"])
def test_strong_penalty_leaves_no_coefficient_and_no_step(layout):
    case = Case(Squared(), Penalty(1e9), layout=layout)
    result = case.fit()
    assert not result.coef.any()
    assert result.n_iter == 0
    assert_optimal(case, result, rel=1e-12)


@pytest.mark.parametrize("layout", ["C", "csr"])
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=lambda loss: loss.core_name)
def test_constant_zero_duplicate_and_badly_scaled_columns(loss, layout):
    case = Case(loss, Penalty(0.5), layout=layout)
    X, y, c = case.data()
    X = X.copy()
    X[:, 3], X[:, 4], X[:, 5] = 0.0, 7.0, X[:, 6]
    X[:, 7] *= 1e6
    X[:, 8] *= 1e-6
    data = X, y, c
    result = case.fit(tol=1e-9, data=data)
    assert result.coef[3] == 0.0
    assert result.coef[4] == 0.0
    assert result.has_converged
    # The gap is proven without the reference, which such columns defeat.
    assert result.objective == pytest.approx(
        case.objective(data).primal(result.coef, result.intercept)
    )


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2)])
def test_tiny_shapes(shape):
    for intercept in Intercept:
        case = Case(Squared(), Penalty(0.01), intercept, shape=shape)
        X = make_rows(*shape)
        data = X, make_labels(X, labels="real"), np.ones(len(X))
        result = case.fit(data=data)
        assert result.has_converged
        assert np.isfinite(result.coef).all()


def test_warm_start_at_the_solution_needs_one_read():
    case = Case(Logistic())
    first = case.fit(tol=1e-9)
    again = case.fit(tol=1e-8, start=first, max_iter=1)
    assert again.has_converged
    assert again.objective <= first.objective * (1 + 1e-9)


@pytest.mark.usefixtures("small_data_get_threads")
@pytest.mark.parametrize("layout", ["C", "F", "csr"])
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=lambda loss: loss.core_name)
def test_equal_threads_give_equal_bits_and_others_the_same_answer(loss, layout):
    case = Case(loss, layout=layout, shape=(900, 12))
    one, two, again = case.fit(), case.fit(n_threads=2), case.fit(n_threads=2)
    np.testing.assert_array_equal(two.coef, again.coef)
    assert two.intercept == again.intercept
    np.testing.assert_allclose(one.coef, two.coef, atol=1e-8)


def test_history_has_one_entry_per_read_and_gaps_that_bound_the_error():
    case = Case(Logistic(), shape=(200, 40))
    result = case.fit()
    minimum = case.objective().minimum()
    assert result.duals is None
    assert [entry["epoch"] for entry in result.history] == list(range(result.n_iter + 1))
    assert set(result.history[0]) == {"epoch", "time_s", "running_gap", "gap", "objective"}
    for entry in result.history:
        assert entry["objective"] - minimum <= entry["gap"] + 1e-12 * abs(minimum)


def test_few_reads_are_not_said_to_have_converged():
    result = Case(Logistic()).fit(max_iter=2)
    assert not result.has_converged
    assert result.n_iter == 2


def test_models_that_keep_their_promise_are_damped_less_on_nearly_separable_classes():
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.3, 0.5, 450), (600, 450)) * rng.gamma(1.0, 2.0, 450)
    y = np.where(X[:, :40] @ rng.normal(size=40) + rng.normal(size=600) > 0.0, 1.0, -1.0)
    case = Case(Logistic(), Penalty(1.0, 0.0), layout="csr")
    result = case.fit(tol=1e-6, data=(X, y, np.full(600, 30.0)))
    assert result.has_converged
    assert result.n_iter <= 30  # 79 with the damping of a first step all along


@pytest.mark.parametrize("weight", [1.0, 10.0])
def test_columns_far_from_zero_and_a_penalised_intercept_do_not_block_each_other(weight):
    rng = np.random.default_rng(0)
    deviations = 30.0 * rng.normal(size=(600, 150))
    y = deviations @ rng.normal(size=150) / 30.0 + 5.0 * rng.normal(size=600)
    data = (488.0 + deviations, np.where(y > 0.0, 1.0, -1.0), np.full(600, weight))
    case = Case(Logistic(), Penalty(1.0, 0.0), Intercept.PENALISED, scaling=1.0)
    result = case.fit(tol=1e-6, data=data)
    assert result.has_converged
    # 51 and 200 where descent alone follows a Newton step that a coefficient at zero has ended.
    assert result.n_iter <= 30


@pytest.mark.parametrize("layout", ["C", "csr"])
@pytest.mark.parametrize("distance", [100.0, 1000.0])
def test_columns_far_from_zero_take_the_reads_of_centred_ones(distance, layout):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 200)) * np.exp(rng.normal(size=200))
    y = np.sign(X[:, :20].sum(axis=1) + 8.0 * rng.normal(size=150))
    case, c = Case(Logistic(), Penalty(1.0, 0.0), layout=layout), np.full(150, 100.0)
    far = case.fit(tol=1e-6, data=(X + distance, y, c))
    near = case.fit(tol=1e-6, data=(X, y, c))
    assert far.has_converged
    assert far.objective == pytest.approx(near.objective, rel=1e-6)
    # 96 where the free intercept is looked for from where it was, and stops 1e-9 of it short.
    assert far.n_iter <= near.n_iter + 6
