"""Elastic nets whose rows are summed up first: the read after that finds the tolerance met."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml._validation import as_matrix
from snapml.data import Dataset
from snapml.problems import Bounds, Intercept, Logistic, Penalty, Problem, Squared
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings
from snapml.solvers.least_squares import summed_fits, summed_starts, working_columns
from snapml.solvers.newton import small_newton
from snapml.solvers.plan import choice
from snapml.solvers.result import StartModel
from snapml.solvers.stopping import StoppingRule

PENALTIES = [Penalty(0.1, 0.0), Penalty(0.05, 0.02), Penalty(0.01, 0.0, is_positive=True)]


@pytest.fixture(autouse=True, params=["one read for all", "working sets"])
def certified_by(request, monkeypatch):
    """Keep these rows from the methods of few rows, and say what certifies their models."""
    monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)
    monkeypatch.setattr(working_columns, "suits", lambda *_: False)
    monkeypatch.setattr(summed_fits, "_LEAST_ENTRIES", 0)
    if request.param == "working sets":
        monkeypatch.setattr(summed_fits, "suits", lambda *_: False)
    return request.param


def make_dataset(kind, n_rows=400, n_columns=12):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((n_rows, n_columns)) + rng.standard_normal((n_rows, 1))
    X[:, 1] = X[:, 0] + 1e-6 * rng.standard_normal(n_rows)
    y = X @ rng.standard_normal(n_columns) + rng.standard_normal(n_rows) + 30.0
    dtype = np.float32 if kind == "float32" else np.float64
    weights = offsets = None
    if kind == "far":
        X += np.array([1e3, 0.0] * (n_columns // 2))
    if kind == "weights":
        weights = rng.random(n_rows) * (rng.random(n_rows) < 0.8) / n_rows
    if kind == "offsets":
        offsets = 100.0 * rng.random(n_rows)
        y = y + offsets
    X = np.asfortranarray(X) if kind == "columns" else X
    if kind == "sparse":
        X *= rng.random(X.shape) < 0.5
    X = X.astype(dtype)
    matrix = as_matrix(csr_matrix(X) if kind == "sparse" else X)
    return X, Dataset(matrix, y.astype(dtype), weights, 1.0 / n_rows, offsets)


def slopes_of(result, X, dataset, penalty):
    """Return the slopes of the rows' mean square plus the L2 penalty, and of the intercept."""
    X, y = X.astype(np.float64), dataset.labels.astype(np.float64)
    c = np.full(len(y), dataset.weight) if dataset.row_weights is None else dataset.row_weights
    fixed = 0.0 if dataset.offsets is None else dataset.offsets
    residuals = c * (X @ result.coef.astype(np.float64) + result.intercept + fixed - y)
    return X.T @ residuals + penalty.l2 * result.coef, residuals.sum(), np.abs(X).max()


def solve(problem, penalties, dataset, tol=1e-9):
    rule = StoppingRule(tol=tol, max_iter=100)
    alone = SerialCommunicator()
    return choice.fit_sequence(problem, penalties, dataset, alone, rule, Settings())


@pytest.mark.parametrize("intercept", [Intercept.FREE, Intercept.NONE])
@pytest.mark.parametrize("penalty", PENALTIES, ids=["lasso", "elastic net", "positive"])
@pytest.mark.parametrize(
    "kind", ["rows", "columns", "far", "float32", "weights", "offsets", "sparse"]
)
def test_one_read_certifies_what_the_sums_gave(kind, penalty, intercept, certified_by):
    X, dataset = make_dataset(kind)
    problem = Problem(Squared(), intercept, penalty=penalty)
    assert summed_starts.suits(problem, dataset.matrix)
    (found,) = solve(problem, [penalty], dataset, 1e-5 if kind == "float32" else 1e-9)
    assert found.has_converged
    if certified_by == "one read for all" and kind != "far":
        assert found.description == "sums over the rows, 1 thread: columns are few"
    else:
        assert "working-set" in found.description or kind == "far"
    assert 1 <= found.n_iter <= (6 if kind == "far" else 1)  # sums of far columns lose digits
    slopes, shift, scale = slopes_of(found, X, dataset, penalty)
    atol = (2e-3 if kind == "float32" else 1e-4) * scale
    is_free = found.coef != 0.0
    np.testing.assert_allclose(
        slopes[is_free], -penalty.l1 * np.sign(found.coef[is_free]), atol=atol
    )
    assert (-slopes if penalty.is_positive else np.abs(slopes)).max() <= penalty.l1 + atol
    if intercept is Intercept.FREE:
        assert abs(shift) <= atol


@pytest.mark.parametrize("kind", ["rows", "float32", "weights", "offsets"])
def test_gap_and_objective_are_those_of_the_rounded_model(kind, certified_by):
    X, dataset = make_dataset(kind)
    penalty = Penalty(0.05, 0.02)
    problem = Problem(Squared(), Intercept.FREE, penalty=penalty)
    (found,) = solve(problem, [penalty], dataset, 1e-5 if kind == "float32" else 1e-9)
    c = np.full(len(X), dataset.weight) if dataset.row_weights is None else dataset.row_weights
    c, w = c.astype(np.float64), found.coef.astype(np.float64)
    fixed = 0.0 if dataset.offsets is None else dataset.offsets
    residuals = dataset.labels - fixed - X.astype(np.float64) @ w - found.intercept
    objective = c @ residuals**2 / 2 + 0.05 * np.abs(w).sum() + 0.01 * w @ w
    assert found.objective == pytest.approx(objective, rel=1e-12)
    (best,) = solve(
        problem,
        [penalty],
        Dataset(
            as_matrix(X.astype(np.float64)),
            dataset.labels.astype(np.float64),
            None if dataset.row_weights is None else c,
            float(dataset.weight),
            dataset.offsets,
        ),
        1e-13,
    )
    assert found.gap >= objective - best.objective - 1e-13 * objective
    if certified_by == "working sets":
        return
    stiffness = float(c @ np.square(X.astype(np.float64)).sum(axis=1)) / len(X)
    assert found.mean_stiffness == pytest.approx(stiffness, rel=1e-5)


def test_a_path_is_that_of_single_fits():
    _, dataset = make_dataset("weights")
    problem = Problem(Squared(), Intercept.FREE, penalty=PENALTIES[0])
    penalties = [Penalty(a, 0.0) for a in np.geomspace(0.5, 1e-3, 7)]
    for number, found in enumerate(solve(problem, penalties, dataset)):
        (alone,) = solve(problem, penalties[number : number + 1], dataset)
        assert found.n_iter == 1
        assert found.objective == pytest.approx(alone.objective, rel=1e-9)


@pytest.mark.parametrize(
    ("problem", "shape"),
    [
        (Problem(Logistic(), penalty=Penalty(0.1, 0.0)), (400, 12)),
        (Problem(Squared(), Intercept.PENALISED, penalty=Penalty(0.1, 0.0)), (400, 12)),
        (Problem(Squared(), penalty=Penalty(0.1, 0.0)), (40, 12)),
        (Problem(Squared(), penalty=Penalty(0.1, 0.0)), (4000, 520)),
        (Problem(Squared(), penalty=Penalty(0.1, 0.0)), (8000, 260)),
        (
            Problem(Squared(), penalty=Penalty(0.1, 0.0, bounds=Bounds(np.zeros(12), np.ones(12)))),
            (400, 12),
        ),
    ],
    ids=[
        "another loss",
        "penalised intercept",
        "few rows",
        "many columns",
        "many columns of many rows",
        "bounds",
    ],
)
def test_other_problems_are_left_to_reads_of_rows(problem, shape):
    assert not summed_starts.suits(problem, as_matrix(np.ones(shape)))


@pytest.mark.parametrize(
    ("shape", "n_fits", "is_suited"),
    [((40, 12), 2, True), ((40, 600), 18, False), ((40, 600), 19, True), ((40, 1025), 100, False)],
)
def test_fits_one_after_the_other_share_products_of_more_columns(shape, n_fits, is_suited):
    problem = Problem(Squared(), penalty=Penalty(0.1, 0.0))
    assert summed_starts.suits(problem, as_matrix(np.ones(shape)), n_fits) is is_suited


def test_no_more_reads_are_taken_than_allowed():
    _, dataset = make_dataset("far")
    problem = Problem(Squared(), Intercept.NONE, penalty=PENALTIES[0])
    for most in (0, 1, 2):
        rule, alone = StoppingRule(tol=1e-14, max_iter=most), SerialCommunicator()
        (found,) = choice.fit_sequence(problem, [PENALTIES[0]], dataset, alone, rule, Settings())
        assert found.n_iter == most
        assert found.history[-1]["epoch"] == most


def test_thin_rows_are_left_to_reads_of_rows():
    thin = csr_matrix(np.eye(12)[np.arange(400) % 12])
    assert not summed_starts.suits(Problem(Squared(), penalty=PENALTIES[0]), as_matrix(thin))


def test_overflowing_sums_give_no_model():
    _, dataset = make_dataset("rows")
    far = Dataset(as_matrix(1e200 * np.ones((400, 12))), dataset.labels, None, 1.0, None)
    problem = Problem(Squared(), penalty=PENALTIES[0])
    with np.errstate(over="raise"):
        assert summed_starts.summed(problem, far) is None


def test_a_start_leads_to_the_same_model():
    _, dataset = make_dataset("rows")
    problem = Problem(Squared(), Intercept.FREE, penalty=PENALTIES[0])
    start = StartModel(np.arange(12.0), 3.0)
    summed = summed_starts.summed(problem, dataset)
    (cold,) = summed_starts.models(summed, [PENALTIES[0]], 1e-12)
    (warm,) = summed_starts.models(summed, [PENALTIES[0]], 1e-12, start)
    np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-5)
    assert warm.intercept == pytest.approx(cold.intercept, abs=1e-4)
