"""Models of families are those of the estimators, with Spark's penalty; without Spark."""

import numpy as np
import pytest

import snapml
from snapml.data import ChunkedMatrix
from snapml.data.store.temporary_store import removing_temporary_stores
from snapml.distributed.spark.tasks import sums
from snapml.distributed.spark.tasks.batches import RowBatch
from snapml.distributed.spark.tasks.fitting import fit
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.spark.tasks.request import FamilyName, FitRequest
from snapml.distributed.spark.tasks.targets import family_of
from snapml.solvers.communicator import SerialCommunicator

N_ROWS, N_FEATURES = 300, 4
FAMILIES = [
    FamilyName("poisson", "log"),
    FamilyName("gamma", "log"),
    FamilyName("tweedie", "log", 1.6),
    FamilyName("binomial", "logit"),
    FamilyName("binomial", "probit"),
    FamilyName("binomial", "cloglog"),
]


def data(family, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * [1.0, 5.0, 0.2, 1.0] + 0.5
    offsets = 0.5 * rng.normal(size=N_ROWS)
    margins = X @ [0.3, -0.05, 1.0, 0.0] + offsets - 0.2
    means = np.exp(margins)
    y = {
        "poisson": lambda: rng.poisson(means).astype(float),
        "gamma": lambda: rng.gamma(2.0, means / 2.0) + 1e-3,
        "tweedie": lambda: np.where(rng.random(N_ROWS) < 0.3, 0.0, rng.gamma(2.0, means / 2.0)),
        "binomial": lambda: (rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(-margins))).astype(float),
    }[family.name]()
    return X, y, rng.integers(1, 4, N_ROWS).astype(float), offsets


def request(family, **params):
    params = {"reg_params": (0.0,), "elastic_net_params": (0.0,), "tol": 1e-12, **params}
    terms = {"family": family, "standardization": False, "n_threads": 1}
    return FitRequest("glm", "x", "y", **terms, **params)


def fitted(asked, X, y, weights, offsets, limit=10**9):
    with removing_temporary_stores():
        halves = slice(None, 170), slice(170, None)
        parts = [RowBatch(X[rows], y[rows], weights[rows], offsets[rows]) for rows in halves]
        local = LocalRows(parts, np.dtype(np.float64), limit)
        return fit(local, X.shape[1], asked, SerialCommunicator())


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("limit", [10**9, 4096])
def test_models_are_those_of_the_estimators(family, limit):
    """In memory, and of rows on the disk, whose offsets stay in memory."""
    X, y, weights, offsets = data(family)
    (outcome,) = fitted(request(family), X, y, weights, offsets, limit)
    name = f"tweedie ({family.power})" if family.name == "tweedie" else family.name
    model = snapml.GeneralizedLinearRegressor(family=name, link=family.link, tol=1e-12)
    model.fit(X, y, weights, offset=offsets)
    assert outcome.coef[0] == pytest.approx(model.coef_, abs=1e-6)
    assert outcome.intercept[0] == pytest.approx(model.intercept_, abs=1e-6)
    assert outcome.objective == pytest.approx(model.objective_, rel=1e-9)
    assert outcome.has_converged


def test_small_limits_stream():
    X, y, weights, offsets = data(FAMILIES[0])
    with removing_temporary_stores():
        parts = [RowBatch(X, y, weights, offsets)]
        local = LocalRows(parts, np.dtype(np.float64), 4096)
        matrix = local.matrix(SerialCommunicator(), N_FEATURES, None, 1)
        assert isinstance(matrix, ChunkedMatrix)
        assert np.array_equal(local.offsets(), offsets)


def test_offsets_go_with_rows_to_the_task_that_takes_them(tmp_path):
    X, y, weights, offsets = data(FAMILIES[0])
    with removing_temporary_stores():
        tasks = [
            LocalRows([RowBatch(X[rows], y[rows], weights[rows], offsets[rows])], X.dtype, 10**9)
            for rows in (slice(None, 170), slice(170, None))
        ]
        tasks[1].move_to(tmp_path / "rows")
        tasks[0].take_from([tmp_path / "rows"], N_FEATURES)
        assert np.array_equal(tasks[0].offsets(), offsets)
        assert np.array_equal(tasks[0].labels(), y)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_penalty_is_measured_at_the_working_weights_of_the_model(family, fit_intercept):
    """Where iteratively reweighted least squares, which divide by the sum of weights, stand."""
    X, y, weights, offsets = data(family)
    asked = request(family, reg_params=(0.4, 0.1), elastic_net_params=(0.0, 0.0))
    asked = FitRequest(**{**vars(asked), "fit_intercept": fit_intercept})
    own = family_of(family)
    for strength, outcome in zip((0.4, 0.1), fitted(asked, X, y, weights, offsets), strict=True):
        coef = outcome.coef[0]
        means = own.means(X @ coef + outcome.intercept[0] + offsets)
        rates, variances = own.rates(means), own.variances(means)
        score = X.T @ (weights * (y - means) * rates / variances)
        working = np.sum(weights * rates**2 / variances)
        assert score == pytest.approx(strength * working * coef, abs=1e-5 * working)
        assert outcome.mean_curvature == pytest.approx(working / weights.sum(), rel=1e-7)


def test_labels_of_another_family_are_refused_with_the_column():
    X, y, weights, offsets = data(FAMILIES[0])
    for family, message in ((1, "positive amounts, got 0"), (3, "expected 0 and 1")):
        name = FAMILIES[family].name
        with pytest.raises(ValueError, match=rf"labelCol='y' with family='{name}'.*{message}"):
            fitted(request(FAMILIES[family]), X, y, weights, offsets)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_sums_of_rows_are_those_of_numpy(family):
    X, y, weights, offsets = data(family)
    coef, intercept, null = np.array([0.2, 0.0, 0.5, 0.1]), -0.3, 0.4
    own, part = family_of(family), RowBatch(X, y, weights, offsets)
    means = own.means(X @ coef + intercept + offsets)
    found = sums.Deviances(family, coef, intercept, null)(part)
    assert found[:3] == pytest.approx([N_ROWS, weights.sum(), np.log(weights).sum()])
    assert found[3] == pytest.approx(2.0 * weights @ own.half_deviances(y, means))
    assert found[4] == pytest.approx(
        2.0 * weights @ own.half_deviances(y, own.means(offsets + null))
    )
    assert found[5] == pytest.approx(weights @ ((y - means) ** 2 / own.variances(means)))
    mean, scale = X.mean(axis=0), X.std(axis=0)
    gram = sums.Information(family, coef, intercept, mean, scale)(part)
    working = weights * own.rates(means) ** 2 / own.variances(means)
    joint = np.column_stack([(X - mean) / scale, np.ones(N_ROWS)])
    assert gram == pytest.approx(joint.T @ (working[:, None] * joint))
    moments = sums.column_moments(part)
    assert moments == pytest.approx([weights.sum(), *(weights @ X), *(weights @ X**2)])
