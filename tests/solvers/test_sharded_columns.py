"""Working-set descent on rows of several shards: the answer of all rows, on every shard."""

from dataclasses import dataclass
from itertools import pairwise

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
from snapml.solvers.columns import cpu_block_descent, cpu_column_engine, gpu_columns, hot_block
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.working_sets import working_set_descent

from .column_engines import ENGINES
from .simulated import solve_shards

pytestmark = pytest.mark.pairwise

LOSSES = (Squared(), Logistic(), SquaredHinge(), Huber(), Poisson())
PENALTIES = {
    "l1": Penalty(2.0, 0.0),
    "elastic net": Penalty(1.0, 0.5),
    "positive": Penalty(1.0, 0.0, True),
    "positive ridge": Penalty(0.0, 0.5, True),
}
# Row numbers at which the rows, which are sorted by label, are cut: shards of one class, of no row.
CUTS = {"two": (7,), "three, one of them empty": (30, 30)}
LIMITS = (
    "_MOST_GRAM_COLUMNS",
    "_MOST_SPARSE_GRAM",
    "_MOST_SPARSE_GRAM_OF_SHARDS",
    "_MOST_GATHERED",
)
on_every_layout = pytest.mark.parametrize("layout", ["dense", "csr"])
on_every_cut = pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
of_every_kind = pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)


@dataclass
class Case:
    """Rows, of which each shard gets some."""

    loss: object = Logistic()
    penalty: Penalty = PENALTIES["l1"]
    intercept: Intercept = Intercept.FREE
    layout: str = "dense"
    dtype: str = "float64"
    shape: tuple = (80, 12)
    engine: str = "cpu"

    def __post_init__(self):
        X = make_rows(*self.shape, density=0.5 if self.layout == "csr" else 1.0)
        y = make_labels(X, labels=self.loss.labels)
        order = np.argsort(y, kind="stable")
        self.X, self.y, self.c = X[order], y[order], make_weights(len(X))
        self.problem = Problem(self.loss, self.intercept, 2.0, self.penalty)

    def shard(self, rows=slice(None)):
        X = self.X[rows].astype(self.dtype)
        matrix = DenseMatrix(X)
        if self.layout == "csr":
            stored = csr_matrix(X)
            matrix = CompressedMatrix(stored.indptr, stored.indices, X.shape[1], stored.data)
        y, c = self.y[rows].astype(self.dtype), self.c[rows].astype(self.dtype)
        dataset = Dataset(matrix, y, c, 1.0)
        return ENGINES[self.engine](self.problem, dataset, n_threads=1)

    def fit(self, cuts, tol=1e-10, max_iter=500):
        bounds = [0, *cuts, len(self.X)]
        engines = [lambda rows=slice(*b): self.shard(rows) for b in pairwise(bounds)]
        return solve_shards(engines, StoppingRule(tol, max_iter), working_set_descent.solve)

    def fit_alone(self, tol=1e-10):
        rule = StoppingRule(tol, 500)
        return working_set_descent.solve(self.shard(), SerialCommunicator(), rule)

    def objective(self):
        penalty = self.penalty
        parts = penalty.l1, penalty.l2, penalty.is_positive, self.intercept.value, 2.0
        return ElasticNetObjective(ORACLES[self.loss.core_name], self.X, self.y, self.c, *parts)


def assert_one_optimum(case, results, rel):
    """Assert that all shards hold the same bits, which are optimal and truly certified."""
    first, objective = results[0], case.objective()
    for other in results[1:]:
        assert other.coef.tobytes() == first.coef.tobytes()
        assert (other.intercept, other.gap) == (first.intercept, first.gap)
        assert other.objective == first.objective
    value, minimum = objective.primal(first.coef, first.intercept), objective.minimum()
    assert first.has_converged
    assert first.objective == pytest.approx(value, rel=1e-12)
    assert value - minimum <= rel * abs(value)
    assert value - minimum <= first.gap + 1e-13 * abs(value)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@pytest.mark.parametrize("penalty", PENALTIES)
@of_every_kind
@on_every_layout
@on_every_cut
def test_shards_find_the_optimum_of_all_rows(loss, penalty, intercept, layout, cuts):
    case = Case(loss, PENALTIES[penalty], intercept, layout)
    assert_one_optimum(case, case.fit(cuts), rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@on_every_layout
def test_float32_shards_are_solved_to_the_resolution_of_the_model(loss, layout):
    case = Case(loss, layout=layout, dtype="float32")
    case.X, case.c = (a.astype(np.float32).astype(np.float64) for a in (case.X, case.c))
    if loss.is_quadratic:
        case.y = case.y.astype(np.float32).astype(np.float64)
    assert_one_optimum(case, case.fit(CUTS["two"], tol=1e-8), rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@of_every_kind
@on_every_layout
@on_every_cut
def test_blocks_of_columns_are_descended_on_together(monkeypatch, loss, intercept, layout, cuts):
    for most in LIMITS:
        monkeypatch.setattr(cpu_column_engine, most, 0)
    monkeypatch.setattr(cpu_block_descent, "_COLUMNS", 5)
    monkeypatch.setattr(hot_block, "_MOST_COLUMNS", 4)
    case = Case(loss, Penalty(2.0, 0.0), intercept, layout)
    assert_one_optimum(case, case.fit(cuts, tol=1e-8), rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@of_every_kind
@on_every_cut
@pytest.mark.parametrize("most_near", [-1, 3000], ids=["rounds", "near the support"])
def test_columns_that_all_shards_get_are_descended_on_by_each(
    monkeypatch, loss, intercept, cuts, most_near
):
    monkeypatch.setattr(cpu_column_engine, "_MOST_SPARSE_GRAM", 0)
    monkeypatch.setattr(cpu_column_engine, "_MOST_NEAR", most_near)
    monkeypatch.setattr(hot_block, "_MOST_COLUMNS", 4)
    case = Case(loss, Penalty(2.0, 0.0), intercept, "csr")
    alone = case.fit_alone(tol=1e-8)
    results = case.fit(cuts, tol=1e-8)
    assert_one_optimum(case, results, rel=1e-8)
    assert results[0].n_iter <= alone.n_iter + 1


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
@on_every_layout
def test_shards_need_no_more_reads_than_one(loss, layout):
    case = Case(loss, layout=layout, shape=(200, 30))
    alone = case.fit_alone()
    for cuts in ((100,), (20, 90, 150)):
        assert case.fit(cuts)[0].n_iter <= alone.n_iter + 1


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=lambda loss: loss.core_name)
def test_many_columns_grow_their_working_set_alike(loss):
    """600 columns: few of them are worked on, and which ones is decided by sums over the shards."""
    case = Case(loss, Penalty(8.0, 0.0), shape=(60, 600))
    results = case.fit((20, 41), tol=1e-9)
    assert_one_optimum(case, results, rel=1e-8)
    assert np.count_nonzero(results[0].coef) < 60
    assert results[0].n_iter <= case.fit_alone(1e-9).n_iter + 2


class Counting:
    """A communicator that counts the vectors over the columns that are sent."""

    def __init__(self, communicator, n_columns):
        self.rank, self.size = communicator.rank, communicator.size
        self._communicator, self._n_columns = communicator, n_columns
        self.n_vectors = 0

    def allreduce_sum(self, array):
        self._see(array)
        return self._communicator.allreduce_sum(array)

    def exchange(self, value):
        for part in value or ():
            self._see(np.asarray(part))
        return self._communicator.exchange(value)

    def _see(self, array):
        if array.shape and array.shape[-1] == self._n_columns:
            self.n_vectors += array.size // self._n_columns


@on_every_layout
def test_a_read_sends_the_slopes_and_little_else(layout):
    """Beside them the moments of dense columns, and a row or two for the balance."""
    case = Case(Logistic(), Penalty(8.0, 0.0), shape=(60, 5000), layout=layout)
    counts = []

    def solve(engine, communicator, rule):
        counting = Counting(communicator, 5000)
        result = working_set_descent.solve(engine, counting, rule)
        counts.append((counting.n_vectors, result.n_iter + 1))
        return result

    shards = [lambda: case.shard(slice(0, 25)), lambda: case.shard(slice(25, 60))]
    solve_shards(shards, StoppingRule(1e-7, 100), solve)
    most_beside = {"dense": 2 + 2 * 2, "csr": 0}[layout]
    for n_vectors, n_reads in counts:
        assert n_reads >= 3
        assert n_reads <= n_vectors <= n_reads + most_beside


@pytest.mark.parametrize("max_iter", [0, 1, 2])
@of_every_kind
@on_every_layout
def test_gap_of_shards_is_never_below_the_suboptimality(max_iter, intercept, layout):
    case = Case(SquaredHinge(), PENALTIES["elastic net"], intercept, layout)
    objective = case.objective()
    for result in case.fit((33,), tol=1e-12, max_iter=max_iter):
        value = objective.primal(result.coef, result.intercept)
        assert result.gap >= value - objective.minimum() - 1e-12 * value


def test_more_columns_than_a_gram_matrix_holds_are_refused_on_gpus_of_shards(monkeypatch):
    monkeypatch.setattr(gpu_columns, "_MOST_SPARSE_GRAM", 0)
    case = Case(Logistic(), layout="csr", engine="gpu-emulated")
    with pytest.raises(NotImplementedError, match=r"columns to work on, on GPUs of several"):
        case.fit((40,))


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_shards_on_emulated_gpus_find_the_optimum(layout):
    case = Case(Logistic(), layout=layout, engine="gpu-emulated")
    assert_one_optimum(case, case.fit((40,), tol=1e-8), rel=1e-8)
