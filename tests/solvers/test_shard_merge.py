"""How shards of coordinate ascent put their steps together."""

from itertools import pairwise

import numpy as np
import pytest
from reference.losses import ORACLES

from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, Dataset, DenseMatrix
from snapml.problems import Hinge, Intercept, Logistic, Problem
from snapml.solvers.certificate import certify
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent import dual_coordinate_ascent
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.shard_merge import ShardMerge
from snapml.solvers.dual_ascent.streamed_dual_engine import StreamedDualEngine
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .engines import ENGINES, make_engine
from .simulated import solve_shards

pytestmark = pytest.mark.usefixtures("no_polish")


class SafeMerge(ShardMerge):
    """CoCoA+: the number of shards as the factor, and the whole step."""

    def _step(self, rise, pull, joint):
        return 1.0

    def _next_sigma(self):
        return self.sigma


def parts_of(n_rows, n_shards):
    bounds = [n_rows * k // n_shards for k in range(n_shards + 1)]
    return [slice(*bound) for bound in pairwise(bounds)]


def watched_epochs(make_engines, n_epochs):
    """Return what every epoch of the first shard was like: dual, factor and step."""
    seen = []

    def ascend(engine, communicator, rule):
        engine.agree(communicator)
        merge = ShardMerge(engine, communicator)
        for epoch in range(n_epochs):
            sigma = merge.sigma
            merge.epoch(epoch)
            bound = certify(engine, communicator).lower_bound
            if communicator.rank == 0:
                seen.append((bound, sigma, merge.step))
        return FitResult(engine.shared[:-1], 0.0, engine.duals, 0.0, 0, True, 0.0, 0.0, [], 0.0, "")

    solve_shards(make_engines, StoppingRule(0.0, 0), ascend)
    return seen


@pytest.mark.parametrize("intercept", [Intercept.NONE, Intercept.PENALISED])
def test_dual_objective_never_decreases(loss, intercept):
    case = Case(loss, intercept, scale=2.0)
    engines = [lambda rows=rows: case.engine(rows, n_threads=1) for rows in parts_of(60, 4)]
    duals, sigmas, steps = zip(*watched_epochs(engines, 40), strict=True)
    assert min(steps) < 0.9  # or nothing was searched
    assert set(sigmas) == {1.0, 4.0}
    for before, after in pairwise(duals):
        assert after >= before - 1e-12 * abs(before)


def test_shards_of_other_columns_take_long_steps_only():
    rng = np.random.default_rng(0)
    X = np.zeros((60, 12))
    for k, rows in enumerate(parts_of(60, 3)):
        X[rows, 4 * k : 4 * k + 4] = rng.normal(size=(20, 4))
    labels = np.sign(rng.normal(size=60))
    problem = Problem(Logistic(), Intercept.NONE)

    def make(rows):
        part = Dataset(DenseMatrix(X[rows]), labels[rows], None, 10.0)
        return CpuEngine(problem, part, n_threads=1)

    engines = [lambda rows=rows: make(rows) for rows in parts_of(60, 3)]
    _, sigmas, steps = zip(*watched_epochs(engines, 12), strict=True)
    assert sigmas == (3.0, *[1.0] * 11)
    assert min(steps) > 0.7


def dense_problem(loss, n_shards):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20)) / np.sqrt(20)
    y = np.sign(X @ rng.normal(size=20) + 0.3 * rng.normal(size=3000))
    problem = Problem(loss, Intercept.FREE if loss.is_smooth else Intercept.NONE)

    def make(rows):
        return CpuEngine(problem, Dataset(DenseMatrix(X[rows]), y[rows], None, 0.3), n_threads=1)

    return [lambda rows=rows: make(rows) for rows in parts_of(3000, n_shards)]


@pytest.mark.parametrize("loss", [Logistic(), Hinge()])
def test_eight_shards_need_far_fewer_epochs_than_with_the_safe_factor(loss, monkeypatch):
    rule = StoppingRule(1e-3, 300)
    found = solve_shards(dense_problem(loss, 8), rule)[0]
    monkeypatch.setattr(dual_coordinate_ascent, "ShardMerge", SafeMerge)
    safe = solve_shards(dense_problem(loss, 8), rule)[0]
    assert found.has_converged
    assert found.n_iter <= 0.7 * safe.n_iter


def test_equal_fits_of_shards_give_equal_bits():
    rule = StoppingRule(1e-3, 30)
    first, again = (solve_shards(dense_problem(Logistic(), 3), rule) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert one.coef.tobytes() == other.coef.tobytes() == first[0].coef.tobytes()
        assert one.duals.tobytes() == other.duals.tobytes()


def streamed(case, folder):
    """Return an engine on the rows of a case in a store of several chunks."""
    dataset = case.dataset()
    with ChunkWriter(folder, chunk_bytes=1000) as writer:
        writer.append(dataset.matrix.values)
    matrix = ChunkedMatrix(ChunkedDataset.open(folder, memory_limit=0))
    rows = Dataset(matrix, dataset.labels, dataset.row_weights, 1.0)
    return StreamedDualEngine(case.problem, rows, n_threads=1)


@pytest.mark.parametrize("name", [*ENGINES, "store"])
def test_line_of_an_engine_is_that_of_its_dual_variables(name, loss, tmp_path):
    case = Case(loss, Intercept.FREE, scale=0.5)
    engine = streamed(case, tmp_path) if name == "store" else make_engine(name, case)
    engine.dual_epoch(0, 1.0)
    engine.offset = 0.25
    engine.keep_states()
    first = engine.duals.copy()
    engine.dual_epoch(1, 1.0)
    last = engine.duals.copy()
    oracle, objective = ORACLES[loss.core_name], case.objective
    c, y = objective.c, objective.y
    ends = [oracle.dual(state, y) for state in (first, last)]

    def terms(step):
        shares = np.clip(
            (1 - step) * ends[0] + step * ends[1], np.minimum(*ends), np.maximum(*ends)
        )
        return -c @ (oracle.conjugate(-shares, y) + 0.25 * shares)

    for step in (0.25, 0.75):
        slope = (terms(step + 1e-6) - terms(step - 1e-6)) / 2e-6
        assert engine.line_slope(step) == pytest.approx(slope, rel=1e-6, abs=1e-6)
    engine.go_to(0.25)
    found = oracle.dual(engine.duals, y)
    np.testing.assert_allclose(found, 0.75 * ends[0] + 0.25 * ends[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ENGINES)
def test_line_needs_kept_states(name):
    with pytest.raises(RuntimeError, match="expected kept states"):
        make_engine(name, Case()).line_slope(0.5)


def test_serial_fit_keeps_no_states():
    engine = Case().engine()
    dual_coordinate_ascent.solve(engine, SerialCommunicator(), StoppingRule(1e-3, 5))
    with pytest.raises(RuntimeError, match="expected kept states"):
        engine.go_to(0.5)
