"""L1 penalties on parts of a store, one a shard: the answer of the whole, by as few reads."""

import numpy as np
import pytest
from reference.data import make_labels, make_rows, make_weights
from reference.elastic_net import ElasticNetObjective
from reference.losses import ORACLES
from scipy.sparse import csr_matrix

from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Penalty, Problem, Squared, SquaredHinge
from snapml.solvers.columns.streamed_columns import StreamedColumns
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings
from snapml.solvers.plan import choice
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.working_sets import streamed_descent

from .simulated import solve_shards

pytestmark = pytest.mark.pairwise

CASES = [
    (Squared(), Intercept.FREE),
    (Logistic(), Intercept.FREE),
    (Logistic(), Intercept.PENALISED),
    (SquaredHinge(), Intercept.NONE),
]
RULE = StoppingRule(1e-9, 100)


def stored(folder, X, y, c, limit, rank=0, size=1):
    """Return a shard's part of rows sorted by label in a store of several chunks: shards differ."""
    order = np.argsort(y, kind="stable")
    if not folder.exists():
        with ChunkWriter(folder, chunk_bytes=4000) as writer:
            writer.append(X[order])
    store = ChunkedDataset.open(folder)
    assert store.n_chunks > 3
    part, own = store.share(rank, size)
    return Dataset(ChunkedMatrix(part, limit), y[order][own], c[order][own], 1.0)


@pytest.mark.parametrize("limit", [0, 10**9], ids=["gram", "packed"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("loss", "intercept"), CASES, ids=str)
def test_shards_of_a_store_find_the_optimum_of_all_rows(
    tmp_path, loss, intercept, is_sparse, limit
):
    X = make_rows(120, 30, density=0.5 if is_sparse else 1.0) + (0.0 if is_sparse else 100.0)
    y = make_labels(X - X.mean(axis=0), labels=loss.labels)
    c = make_weights(len(X))
    data = tmp_path / "store", csr_matrix(X) if is_sparse else X, y, c, limit
    problem = Problem(loss, intercept, 2.0, Penalty(2.0, 0.1))
    alone = StreamedColumns(problem, stored(*data), n_threads=1)
    whole = streamed_descent.solve(alone, SerialCommunicator(), RULE)
    engines = [
        lambda rank=rank: StreamedColumns(problem, stored(*data, rank, 3), n_threads=1)
        for rank in range(3)
    ]
    results = solve_shards(engines, RULE, streamed_descent.solve)
    parts = 2.0, 0.1, False, intercept.value, 2.0
    objective = ElasticNetObjective(ORACLES[loss.core_name], X, y, c, *parts)
    minimum = objective.minimum()
    for result in results:
        assert result.coef.tobytes() == results[0].coef.tobytes()
        assert (result.intercept, result.gap) == (results[0].intercept, results[0].gap)
        value = objective.primal(result.coef, result.intercept)
        assert result.has_converged
        assert result.objective == pytest.approx(value, rel=1e-11)
        assert value - minimum <= result.gap + 1e-12 * abs(value)
        assert ("packed columns" if limit else "Gram matrices") in result.description
        assert result.n_iter <= whole.n_iter + 3


def test_stores_beside_rows_in_memory_are_refused_on_all_shards(tmp_path):
    X, y = make_rows(60, 4), np.ones(60)
    streamed = stored(tmp_path / "store", np.repeat(X, 9, axis=0), np.repeat(y, 9), np.ones(540), 0)
    shards = [Dataset(DenseMatrix(X), y, None, 1.0), streamed]
    problem = Problem(Squared(), penalty=Penalty(1.0, 0.0))

    def solve(dataset, communicator, rule):
        with pytest.raises(ValueError, match=r"a store on rank 1 and rows in memory on rank 0"):
            choice.fit(problem, dataset, communicator, rule, Settings())

    solve_shards([lambda shard=shard: shard for shard in shards], RULE, solve)
