"""Offsets of rows: every loss has them, wherever the rows are, and the certificate knows them."""

import contextlib
import tempfile
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice
from reference.data import make_labels, make_rows, make_weights
from reference.elastic_net import ElasticNetObjective
from reference.losses import ORACLES
from scipy.sparse import csr_matrix

from snapml._validation import as_matrix
from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, Dataset
from snapml.problems import (
    Hinge,
    Intercept,
    Logistic,
    Penalty,
    Poisson,
    Problem,
    Softmax,
    Squared,
    SquaredHinge,
)
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings
from snapml.solvers.plan import choice, device_choice
from snapml.solvers.plan.thread_shards import row_shards, solve_together
from snapml.solvers.stopping import StoppingRule

N, P = 60, 5
X = make_rows(N, P, density=0.6, seed=3)
WEIGHTS = make_weights(N, seed=3)
OFFSETS = np.random.default_rng(3).normal(scale=1.5, size=N)
LOSSES = (Hinge(), Logistic(), Poisson(), Squared(), SquaredHinge())
PENALTIES = {"L2": Penalty(), "L1": Penalty(0.7, 0.3)}
PLACES = ("dense", "sparse", "store", "shards", "device", "devices", "store to device")
NOT_THERE = {"L1": ("devices", "store to device"), "hinge": ("store to device",)}


def _emulated(_):
    return StrictDevice()


@contextlib.contextmanager
def dataset_at(place, labels, dtype, offsets=OFFSETS):
    """Return rows in a place, with the devices to fit on."""
    values = X.astype(dtype)
    rows = (labels.astype(dtype), WEIGHTS.astype(dtype), 1.0, offsets)
    devices = {"device": (0,), "devices": (0, 1), "store to device": (0,)}.get(place, ())
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(device_choice, "make_device", new=_emulated))
        if not place.startswith("store"):
            kept = csr_matrix(values) if place == "sparse" else values
            yield Dataset(as_matrix(kept), *rows), devices
            return
        path = Path(stack.enter_context(tempfile.TemporaryDirectory()), "store")
        with ChunkWriter(path, chunk_bytes=600) as writer:
            writer.append(values, np.arange(N) % 2)
        matrix = ChunkedMatrix(ChunkedDataset.open(path), 0)
        yield Dataset(matrix, *rows), devices


def fit(problem, dataset, devices, place, tol):
    rule = StoppingRule(tol=tol, max_iter=3000)
    settings = Settings("auto", 1, device_ids=devices)
    if place != "shards":
        return choice.fit(problem, dataset, SerialCommunicator(), rule, settings)

    def solve(shard):
        return lambda communicator: choice.fit(problem, shard, communicator, rule, settings)

    return solve_together([solve(shard) for shard in row_shards(dataset, 2)])[0]


@cache
def labels_of(loss):
    return make_labels(X, labels=loss.labels, seed=3)


def objective_of(loss, penalty, intercept):
    """Return what the reference makes of the problem, its losses moved by the offsets."""
    oracle = ORACLES[loss.core_name]
    moved = replace(
        oracle,
        value=lambda z, y: oracle.value(z + OFFSETS, y),
        gradient=lambda z, y: oracle.gradient(z + OFFSETS, y),
        curvature=lambda z, y: oracle.curvature(z + OFFSETS, y),
    )
    terms = (penalty.l1, penalty.l2)
    return ElasticNetObjective(
        moved, X, labels_of(loss), WEIGHTS, *terms, intercept=intercept.value, scaling=2.0
    )


def cases():
    """Yield what is solved somewhere; the types are crossed with some of the places."""
    for loss, kind, place in product(LOSSES, PENALTIES, PLACES):
        if not loss.is_smooth and kind == "L1":
            continue
        if place in NOT_THERE.get(kind if loss.is_smooth else "hinge", ()):
            continue
        few = place in ("sparse", "shards", "devices")
        for dtype in ("float64",) if few else ("float64", "float32"):
            name = f"{loss.core_name}-{kind}-{place}-{dtype}"
            yield pytest.param(loss, kind, place, dtype, id=name)


@pytest.mark.parametrize("intercept", [Intercept.FREE, Intercept.PENALISED])
@pytest.mark.parametrize(("loss", "kind", "place", "dtype"), [*cases()])
def test_minimum_is_that_of_moved_losses(loss, kind, place, dtype, intercept):
    tol = 1e-8 if dtype == "float64" and loss.is_smooth else 1e-5
    problem = Problem(loss, intercept, 2.0, PENALTIES[kind])
    reference = objective_of(loss, PENALTIES[kind], intercept)
    with dataset_at(place, labels_of(loss), dtype) as (dataset, devices):
        result = fit(problem, dataset, devices, place, tol)
    slack = 1e-9 if dtype == "float64" else 1e-5  # the rows are rounded
    assert result.gap <= 2.0 * tol * result.objective
    at_model = reference.primal(result.coef, result.intercept)
    assert at_model == pytest.approx(result.objective, rel=slack)
    if isinstance(loss, Hinge):
        least = least_of_hinge(intercept)
    else:
        least = minimum_of(loss, kind, intercept)
    assert result.objective - result.gap <= least * (1 + slack)
    assert least <= result.objective * (1 + slack)


@cache
def minimum_of(loss, kind, intercept):
    return objective_of(loss, PENALTIES[kind], intercept).minimum()


@cache
def least_of_hinge(intercept):
    """Return the minimum by linear programming's neighbour, a quadratic programme of the dual."""
    from scipy.optimize import minimize

    y = labels_of(Hinge())
    columns = [X, np.full((N, 1), 2.0)] if intercept is Intercept.PENALISED else [X]
    A = np.hstack(columns) * y[:, None]
    # max sum_i a_i (1 - y_i o_i) - ||A^T a||^2 / 2 over 0 <= a <= c, and y.a = 0 for a free one.
    linear = 1.0 - y * OFFSETS
    found = minimize(
        lambda a: 0.5 * np.sum((A.T @ a) ** 2) - linear @ a,
        np.zeros(N),
        jac=lambda a: A @ (A.T @ a) - linear,
        bounds=[(0.0, c) for c in WEIGHTS],
        constraints=[{"type": "eq", "fun": lambda a: y @ a, "jac": lambda a: y}]
        if intercept is Intercept.FREE
        else [],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    return -found.fun


@pytest.mark.parametrize("kind", PENALTIES)
def test_softmax_takes_an_offset_for_each_class(kind):
    labels = (np.arange(N) % 3).astype(float)
    moved = np.random.default_rng(4).normal(size=(3, N))
    problem = Problem(Softmax(3), Intercept.FREE, 1.0, PENALTIES[kind])
    dataset = Dataset(as_matrix(X), labels, WEIGHTS, 1.0, moved)
    result = fit(problem, dataset, (), "dense", 1e-8)
    z = result.coef @ X.T + np.asarray(result.intercept)[:, None] + moved
    losses = np.logaddexp.reduce(z, axis=0) - z[labels.astype(int), np.arange(N)]
    w, penalty = result.coef.ravel(), PENALTIES[kind]
    value = WEIGHTS @ losses + penalty.l1 * np.abs(w).sum() + penalty.l2 * w @ w / 2
    assert value == pytest.approx(result.objective, rel=1e-10)
    assert result.gap <= 2e-8 * result.objective
    shares = np.exp(z - np.logaddexp.reduce(z, axis=0))
    shares[labels.astype(int), np.arange(N)] -= 1.0
    assert np.abs((shares * WEIGHTS).sum(axis=1)).max() < 1e-3  # the free intercepts' slopes


def test_rows_of_a_dataset_keep_their_offsets():
    several = np.vstack([OFFSETS, 2.0 * OFFSETS])
    whole = Dataset(as_matrix(X), np.ones((2, N)), None, 1.0, several)
    one, other = whole.outputs()
    np.testing.assert_array_equal(one.offsets, OFFSETS)
    np.testing.assert_array_equal(other.take(np.array([3, 1]), 2.0).offsets, several[1, [3, 1]])
    parts = row_shards(whole, 3)
    np.testing.assert_array_equal(np.hstack([part.offsets for part in parts]), several)
