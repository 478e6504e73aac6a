"""The interior point method: its answers against linear programs, and what its gap proves."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import EpsilonInsensitive, Hinge, Intercept, Penalty, Problem, Quantile
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings
from snapml.solvers.interior_point import working_matrix, working_rows
from snapml.solvers.newton.row_space import RowSpace
from snapml.solvers.plan import choice
from snapml.solvers.stopping import StoppingRule

from .simulated import run_ranks

pytestmark = pytest.mark.pairwise

LOSSES = (Quantile(0.5), Quantile(0.03), EpsilonInsensitive(0.7), Hinge())
PENALTIES = (Penalty(0.0, 0.0), Penalty(0.05, 0.0), Penalty(0.0, 0.01), Penalty(0.02, 0.02))
RULE = StoppingRule(1e-6, 1000)


def make(loss, n_rows=300, n_features=5, dtype=np.float64, seed=0):
    """Return rows whose columns have unlike units, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * np.logspace(-2, 2, n_features) + 3.0
    t = X @ (rng.normal(size=n_features) / np.logspace(-2, 2, n_features))
    t += rng.standard_t(3, n_rows)
    y = np.sign(t - np.median(t) + 1e-9) if loss.labels == "sign" else t
    return X.astype(dtype), y.astype(dtype)


def fit(problem, X, y, weights=None, offsets=None, rule=RULE):
    dataset = Dataset(DenseMatrix(X), y, weights, 1.0 / len(y), offsets)
    return working_rows.solve(problem, dataset, SerialCommunicator(), rule, n_threads=1)


def program(problem, X, y, weights):
    """Return the least objective with an L1 penalty, by a linear program."""
    n_rows, n_features = X.shape
    q = problem.loss.quantile
    cost = np.concatenate(
        [np.full(2 * n_features, problem.penalty.l1), [0, 0], q * weights, (1 - q) * weights]
    )
    one = np.ones((n_rows, 1))
    eye = np.eye(n_rows)
    found = linprog(cost, A_eq=np.hstack([X, -X, one, -one, eye, -eye]), b_eq=y, method="highs")
    return found.fun


@pytest.mark.parametrize("l1", [0.0, 0.05])
@pytest.mark.parametrize("q", [0.02, 0.5, 0.9])
def test_quantiles_are_those_of_the_linear_program(q, l1):
    X, y = make(Quantile(q))
    weights = np.random.default_rng(1).random(len(y))
    weights[:20] = 0.0
    weights /= weights.sum()
    problem = Problem(Quantile(q), Intercept.FREE, penalty=Penalty(l1, 0.0))
    result = fit(problem, X, y, weights)
    least = program(problem, X, y, weights)
    assert result.has_converged
    assert -1e-9 * least <= result.objective - least <= result.gap + 1e-9 * least


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
def test_gap_is_small_and_no_other_model_is_below_it(loss, intercept, penalty):
    X, y = make(loss)
    problem = Problem(loss, intercept, 2.0, penalty)
    result = fit(problem, X, y)
    assert result.has_converged
    exact = fit(problem, X, y, rule=StoppingRule(1e-10, 1000))
    assert exact.objective >= result.objective - result.gap * (1 + 1e-9)
    rng = np.random.default_rng(3)
    for size in (1.0, 1e-2, 1e-4):
        step = size * rng.normal(size=X.shape[1]) * abs(result.coef)
        level = result.intercept + (size * rng.normal() if intercept is not Intercept.NONE else 0)
        other = objective(problem, X, y, result.coef + step, level)
        assert other >= result.objective - result.gap


def objective(problem, X, y, coef, intercept):
    """Return the mean loss and the penalty."""
    z, penalty = X @ coef + intercept, problem.penalty
    if isinstance(problem.loss, Hinge):
        losses = np.maximum(0, 1 - y * z)
    elif isinstance(problem.loss, Quantile):
        q = problem.loss.quantile
        losses = np.maximum(q * (y - z), (q - 1) * (y - z))
    else:
        losses = np.maximum(0, abs(y - z) - problem.loss.epsilon)
    if problem.intercept is Intercept.PENALISED:
        coef = np.append(coef, intercept / problem.intercept_scaling)
    return losses.mean() + penalty.l1 * abs(coef).sum() + penalty.l2 * coef @ coef / 2


def test_reported_objective_is_that_of_the_rounded_model():
    for dtype in (np.float32, np.float64):
        X, y = make(Quantile(0.3), dtype=dtype)
        problem = Problem(Quantile(0.3), Intercept.FREE, penalty=Penalty(0.01, 0.01))
        result = fit(problem, X, y)
        wide = X.astype(np.float64)
        found = objective(problem, wide, y.astype(np.float64), result.coef, result.intercept)
        assert result.coef.dtype == dtype
        assert result.objective == pytest.approx(found, rel=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("q", [0.01, 0.5])
def test_a_few_rows_suffice_and_the_gap_is_over_all(q):
    X, y = make(Quantile(q), n_rows=50_000, n_features=4)
    problem = Problem(Quantile(q), Intercept.FREE, penalty=Penalty(0.0, 0.0))
    result = fit(problem, X, y)
    assert result.has_converged
    exact = fit(problem, X, y, rule=StoppingRule(1e-10, 1000))
    assert 0.0 <= result.objective - exact.objective + 1e-12 <= result.gap + 1e-12


def test_offsets_move_the_labels():
    X, y = make(Quantile(0.5))
    offsets = np.random.default_rng(5).normal(size=len(y))
    problem = Problem(Quantile(0.5), Intercept.FREE, penalty=Penalty(0.0, 1e-3))
    moved, plain = fit(problem, X, y + offsets, offsets=offsets), fit(problem, X, y)
    assert moved.objective == pytest.approx(plain.objective, rel=1e-6)


def test_ties_and_equal_columns_are_no_trouble():
    rng = np.random.default_rng(6)
    X = rng.integers(0, 3, size=(400, 3)).astype(float)
    X = np.column_stack([X, X[:, 0], np.ones(400)])
    y = rng.integers(0, 4, size=400).astype(float)
    for q in (0.25, 0.5):
        problem = Problem(Quantile(q), Intercept.FREE, penalty=Penalty(0.0, 0.0))
        result = fit(problem, X, y)
        least = program(problem, X, y, np.full(400, 1 / 400))
        assert result.has_converged
        assert result.objective - least <= result.gap + 1e-9


def test_a_model_without_loss_is_found():
    X = np.arange(12.0).reshape(6, 2) ** 2
    y = X @ [1.0, -0.5] + 2.0
    problem = Problem(EpsilonInsensitive(0.1), Intercept.FREE, penalty=Penalty(0.0, 0.0))
    result = fit(problem, X, y)
    assert result.objective <= 1e-9


@pytest.mark.parametrize("penalty", PENALTIES[:3], ids=str)
def test_ranks_find_the_model_of_one(penalty):
    X, y = make(Quantile(0.3), n_rows=900)
    problem = Problem(Quantile(0.3), Intercept.FREE, penalty=penalty)
    whole = fit(problem, X, y)
    ends = [0, 200, 900, 900]

    def one(communicator):
        rows = slice(ends[communicator.rank], ends[communicator.rank + 1])
        dataset = Dataset(DenseMatrix(X[rows]), y[rows], None, 1.0 / 900)
        return working_rows.solve(problem, dataset, communicator, RULE, n_threads=1)

    results = run_ranks(3, one)
    for result in results:
        assert result.has_converged
        assert abs(result.objective - whole.objective) <= max(result.gap, whole.gap)
        np.testing.assert_array_equal(result.coef, results[0].coef)


def test_sparse_rows_have_the_model_of_dense_ones():
    X, y = make(Quantile(0.5))
    X[np.random.default_rng(8).random(X.shape) < 0.5] = 0.0
    rows = csr_matrix(X)
    sparse = CompressedMatrix(rows.indptr, rows.indices, 5, rows.data, rows.dtype)
    problem = Problem(Quantile(0.5), Intercept.FREE, penalty=Penalty(0.01, 0.0))
    dense = fit(problem, X, y)
    dataset = Dataset(sparse, y, None, 1.0 / len(y))
    result = working_rows.solve(problem, dataset, SerialCommunicator(), RULE, n_threads=1)
    assert abs(result.objective - dense.objective) <= max(result.gap, dense.gap)


def test_fits_are_refused_by_what_the_loss_allows():
    X, y = make(Quantile(0.5))
    dataset = Dataset(DenseMatrix(X), y, None, 1.0)

    def solve(penalty, **settings):
        problem = Problem(Quantile(0.5), Intercept.FREE, penalty=penalty)
        how = Settings(**settings)
        return choice.fit(problem, dataset, SerialCommunicator(), RULE, how)

    with pytest.raises(ValueError, match="'auto', 'ipm' or 'sdca'"):
        solve(Penalty(), solver="pqn")
    with pytest.raises(ValueError, match="needs an L2 penalty"):
        solve(Penalty(1.0, 0.0), solver="sdca")
    with pytest.raises(NotImplementedError, match=r"device_ids=\[0\].*device_ids=None"):
        solve(Penalty(1.0, 0.0), solver="auto", device_ids=(0,))


def test_columns_that_are_not_finite_are_refused():
    X, y = make(Quantile(0.5))
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN|finite"):
        fit(Problem(Quantile(0.5), Intercept.FREE), X, y)


def thin_rows(n_rows=400, n_features=120, seed=0):
    """Return sparse rows of four entries, and labels that they do not tell apart."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n_rows, n_features))
    places = rng.integers(0, n_features, (n_rows, 4))
    X[np.arange(n_rows)[:, None], places] = rng.choice([1.0, 2.0, -0.5], (n_rows, 4))
    z = X @ rng.standard_normal(n_features)
    return X, np.where(z + rng.standard_normal(n_rows) > 0.0, 1.0, -1.0)


def compressed(X):
    rows = csr_matrix(X)
    return CompressedMatrix(rows.indptr, rows.indices, X.shape[1], rows.data)


@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_are_scaled_in_products_as_dense_ones_are_in_a_copy(bias, dtype):
    X = thin_rows()[0].astype(dtype)
    rng = np.random.default_rng(1)
    mean, scale = rng.normal(size=X.shape[1]), rng.uniform(0.5, 2.0, X.shape[1])
    scaling = working_matrix.Scaling(mean, scale, bias)
    dense, thin = scaling.rows(X, 1), scaling.rows(csr_matrix(X), 2)
    assert type(dense) is not type(thin)
    A = np.column_stack([(X - mean) / scale, np.full(len(X), bias)])
    point, vector, weights = rng.normal(size=A.shape[1]), rng.normal(size=len(A)), rng.random(400)
    for rows in (dense, thin):
        assert rows.shape == A.shape
        np.testing.assert_allclose(rows.product(point), A @ point, atol=1e-11)
        np.testing.assert_allclose(rows.adjoint(vector), A.T @ vector, atol=1e-11)
        np.testing.assert_allclose(rows.gram(weights), (A.T * weights) @ A, atol=1e-10)
        np.testing.assert_allclose(rows.columns(np.array([3, 120])), A[:, [3, 120]], atol=1e-12)
    for values in (X, csr_matrix(X)):
        expected = ((X - mean) ** 2).sum(axis=0)
        np.testing.assert_allclose(working_matrix.squares(values, mean), expected, rtol=1e-6)


@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
def test_thin_rows_give_the_answer_of_dense_ones(loss, intercept):
    X, y = thin_rows()
    problem = Problem(loss, intercept, 2.0, Penalty(0.0, 0.01))
    dense = fit(problem, X, y)
    dataset = Dataset(compressed(X), y, None, 1.0 / len(y))
    thin = working_rows.solve(problem, dataset, SerialCommunicator(), RULE, n_threads=1)
    assert thin.has_converged
    assert thin.objective == pytest.approx(dense.objective, rel=2e-6)


@pytest.mark.parametrize("solver", ["auto", "sdca"])
def test_a_hinge_of_many_thin_columns_is_handed_over_where_ascent_gets_slow(solver):
    X, y = thin_rows(3000, 700)
    problem = Problem(Hinge(), Intercept.PENALISED, penalty=Penalty(0.0, 1.0))
    dataset = Dataset(compressed(X), y, None, 1e4)
    rule = StoppingRule(1e-7, 60)
    found = choice.fit(problem, dataset, SerialCommunicator(), rule, Settings(solver=solver))
    assert found.has_converged == (solver == "auto")
    assert found.description.startswith("interior" if solver == "auto" else "dual")
    assert found.n_iter <= 60
    assert found.gap >= 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
def test_few_rows_are_solved_in_their_span(loss, intercept, is_weighted, dtype):
    rng = np.random.default_rng(5)
    X = (rng.normal(size=(30, 70)) + 1.0).astype(dtype)
    X[20:] = X[:10]  # of rows that are equal the span has one direction
    t = X[:, 0] + rng.standard_t(3, 30)
    y = (np.sign(t - np.median(t) + 1e-9) if loss.labels == "sign" else t).astype(dtype)
    weights = (rng.integers(0, 3, 30) / 30.0).astype(dtype) if is_weighted else None
    problem = Problem(loss, intercept, 2.0, Penalty(0.0, 0.05))
    dataset = Dataset(DenseMatrix(X), y, weights, 1.0 / 30.0)
    one, models = SerialCommunicator(), []
    how = {"communicator": one, "rule": RULE, "n_threads": 1}
    for span in (None, lambda: RowSpace(problem, dataset)):
        models.append(working_rows.solve(problem, dataset, span=span, **how))
    direct, spanned = models
    assert spanned.has_converged
    assert "in the span of the rows" in spanned.description
    rounding = 1e-13 * direct.objective
    beside = direct.objective - spanned.objective
    assert -spanned.gap - rounding <= beside <= direct.gap + rounding
    assert spanned.gap <= 1e-6 * spanned.objective
    if weights is None:
        own = objective(problem, X, y, spanned.coef.astype(float), spanned.intercept)
        assert spanned.objective == pytest.approx(own, rel=1e-6)


def test_corners_of_few_rows_are_not_worked_on_in_all_columns():
    rng = np.random.default_rng(6)
    X, loss = rng.normal(size=(20, 3500)), EpsilonInsensitive(0.1)
    dataset = Dataset(DenseMatrix(X), X[:, 0].copy(), None, 1.0)
    problem = Problem(loss, Intercept.FREE, penalty=Penalty(0.0, 1.0))
    one = SerialCommunicator()
    found = choice.fit(problem, dataset, one, RULE, Settings(solver="ipm", n_threads=1))
    assert found.has_converged
    assert "in the span of the rows" in found.description
    sparse = Penalty(1.0, 0.0)
    with pytest.raises(NotImplementedError, match="at most 3000 columns, got 3500"):
        choice.fit(Problem(loss, Intercept.FREE, penalty=sparse), dataset, one, RULE, Settings())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(90, 110), (60, 560), (300, 520)])
def test_a_hinge_of_wide_rows_far_from_zero_is_handed_over_where_ascent_gets_slow(shape, dtype):
    rng = np.random.default_rng(7)
    X = (rng.normal(size=shape) + 30.0).astype(dtype)
    y = np.where(rng.random(len(X)) < 0.5, -1.0, 1.0).astype(dtype)
    problem = Problem(Hinge(), Intercept.PENALISED, penalty=Penalty(0.0, 1.0 / len(X)))
    dataset, rule = Dataset(DenseMatrix(X), y, None, 1.0 / len(X)), StoppingRule(1e-5, 200)
    found = choice.fit(problem, dataset, SerialCommunicator(), rule, Settings(n_threads=1))
    # 1,000 epochs of ascent left gaps of as much as the objective; in single precision the
    # continuation took hundreds of times as long.
    assert found.has_converged or found.is_rounded
    assert found.gap <= (1e-5 if dtype == np.float64 else 1e-3) * found.objective
    assert "in the span of the rows" in found.description
    wide = X.astype(np.float64), y.astype(np.float64), found.coef.astype(np.float64)
    assert found.objective == pytest.approx(objective(problem, *wide, found.intercept), rel=1e-9)
