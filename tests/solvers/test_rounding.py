"""Models a little longer than dual ascent's, where single precision hides the hinge's corner."""

import numpy as np
import pytest
from scipy import sparse

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Hinge, Intercept, Logistic, Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent.dual_coordinate_ascent import solve
from snapml.solvers.dual_ascent.rounding import Rounding
from snapml.solvers.stopping import StoppingRule

from .engines import ENGINES, make_engine_on

pytestmark = pytest.mark.usefixtures("no_polish")

TOL = 1e-5


def engine_of_met_rows(name, *, is_sparse=False, kind=Intercept.PENALISED, dtype=np.float32):
    """Return an engine of rows that are fewer than their columns, so that all can be met."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 300))
    labels = np.where(rng.random(40) < 0.5, 1.0, -1.0).astype(dtype)
    if is_sparse:
        rows[rng.random(rows.shape) < 0.7] = 0.0
        csr = sparse.csr_matrix(rows.astype(dtype))
        matrix = CompressedMatrix(csr.indptr, csr.indices, csr.shape[1], csr.data)
    else:
        matrix = DenseMatrix(rows.astype(dtype))
    problem = Problem(Hinge(), kind, 1.0)
    return make_engine_on(name, problem, Dataset(matrix, labels, None, 100.0))


@pytest.mark.parametrize("kind", [Intercept.NONE, Intercept.PENALISED])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("name", ENGINES)
def test_hinge_of_rows_that_can_all_be_met_converges(name, is_sparse, kind):
    engine = engine_of_met_rows(name, is_sparse=is_sparse, kind=kind)
    result = solve(engine, SerialCommunicator(), StoppingRule(tol=TOL, max_iter=200))
    assert result.has_converged
    assert result.gap <= TOL * result.objective
    # The ascent's own models are short of the corner by many times the tolerance.
    assert min(entry["running_gap"] for entry in result.history) > 2 * TOL * result.objective


def test_last_epoch_tries_longer_models():
    engine = engine_of_met_rows("cpu")
    result = solve(engine, SerialCommunicator(), StoppingRule(tol=1e-12, max_iter=60))
    assert not result.has_converged
    assert result.gap <= TOL * result.objective


def history(gaps):
    return [{"running_gap": gap} for gap in gaps]


def test_longer_models_is_due_where_the_running_gap_stays():
    rounding = Rounding(engine_of_met_rows("cpu"))
    assert not rounding.is_due(history([1.0] * 15))
    assert rounding.is_due(history([1.0] * 20))
    assert not rounding.is_due(history([1.0] * 29))  # not yet again
    assert rounding.is_due(history([1.0] * 30))
    assert not rounding.is_due(history([1.0] * 40 + [0.4]))  # it falls


def test_longer_models_are_for_the_hinge_in_single_precision_alone():
    assert not Rounding(engine_of_met_rows("cpu", dtype=np.float64)).can_lengthen
    engine = engine_of_met_rows("cpu")
    engine.problem = Problem(Logistic())
    assert not Rounding(engine).can_lengthen
