"""Spark's objective is what a task minimises, whichever solver it takes; without Spark."""

import numpy as np
import pytest
from scipy.sparse import random as random_rows
from scipy.special import expit

from snapml.data import CompressedMatrix, Dataset
from snapml.data.store.temporary_store import removing_temporary_stores
from snapml.distributed.spark.tasks.batches import RowBatch
from snapml.distributed.spark.tasks.fitting import fit
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.spark.tasks.request import FitRequest
from snapml.problems import Logistic, Penalty, Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings
from snapml.solvers.plan import choice
from snapml.solvers.stopping import StoppingRule


@pytest.mark.parametrize("solver", ["auto", "pqn", "sdca"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_many_columns_have_the_penalty_that_was_asked_for(solver, is_weighted):
    rng = np.random.default_rng(0)
    X = random_rows(400, 700, density=0.02, format="csr", random_state=rng)
    y = rng.integers(0, 2, 400).astype(float)
    weights = rng.integers(1, 4, 400).astype(float) if is_weighted else None
    rows = CompressedMatrix(X.indptr, X.indices, 700, X.data)
    strengths = (0.05, 0.002)
    request = FitRequest(
        "logistic",
        "f",
        "l",
        reg_params=strengths,
        elastic_net_params=(0.0, 0.0),
        standardization=False,
        tol=1e-10,
        max_iter=1000,
        n_threads=1,
        solver=solver,
    )
    with removing_temporary_stores():
        local = LocalRows([RowBatch(rows, y, weights)], np.dtype(np.float64), 10**9)
        outcomes = fit(local, X.shape[1], request, SerialCommunicator())
    shares = np.full(400, 1 / 400) if weights is None else weights / weights.sum()
    for strength, outcome in zip(strengths, outcomes, strict=True):
        coef = outcome.coef[0]
        margins = X @ coef + outcome.intercept[0]
        gradient = X.T @ (shares * (expit(margins) - y)) + strength * coef
        assert np.abs(gradient).max() < 1e-6
        value = shares @ np.logaddexp(0.0, (1.0 - 2.0 * y) * margins)
        value += 0.5 * strength * coef @ coef
        assert outcome.objective == pytest.approx(value, rel=1e-9)
        assert outcome.objective_history[-1] == pytest.approx(value, rel=1e-6)
        assert outcome.gap < 1e-9


@pytest.mark.parametrize("is_weighted", [False, True])
def test_coordinate_ascent_takes_any_strength(is_weighted):
    """Its engines know a strength of 1 only, to which weights are divided on the way."""
    rng = np.random.default_rng(0)
    X = random_rows(400, 700, density=0.02, format="csr", random_state=rng)
    matrix = CompressedMatrix(X.indptr, X.indices, 700, X.data)
    labels = rng.choice([-1.0, 1.0], 400)
    weights = rng.random(400) / 200 if is_weighted else None
    dataset = Dataset(matrix, labels, weights, 1.0 / 400)
    rule = StoppingRule(tol=1e-10, max_iter=1000)
    results = [
        choice.fit(
            Problem(Logistic(), penalty=Penalty(0.0, 0.02)),
            dataset,
            SerialCommunicator(),
            rule,
            Settings(solver, 1),
        )
        for solver in ("sdca", "pqn")
    ]
    assert "dual coordinate ascent" in results[0].description
    assert results[0].coef == pytest.approx(results[1].coef, abs=1e-5)
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-8)
    assert results[0].gap <= 1e-10 * results[0].objective
    assert results[0].history[-1]["objective"] == pytest.approx(results[0].objective, rel=1e-6)
