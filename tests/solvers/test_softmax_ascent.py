"""Dual coordinate ascent for several classes of sparse rows: certificate and hand-over."""

import numpy as np
import pytest
from reference.data import make_rows, make_weights
from reference.softmax import softmax_objective, softmax_optimum
from scipy.sparse import csr_matrix, random_array
from sklearn.base import clone

import snapml
from snapml.data import CompressedMatrix, Dataset
from snapml.problems import Intercept, Penalty, Problem, Softmax
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent import softmax_ascent
from snapml.solvers.dual_ascent.softmax_duals import SoftmaxDuals
from snapml.solvers.stopping import StoppingRule

N_ROWS, N_FEATURES = 80, 9


def make_case(n_classes=3, weight=2.0):
    X = make_rows(N_ROWS, N_FEATURES, density=0.5)
    scores = X @ np.random.default_rng(1).normal(size=(N_FEATURES, n_classes))
    y = np.argmax(scores + np.random.default_rng(2).gumbel(size=scores.shape), axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y, weight * make_weights(N_ROWS)


def make_duals(X, y, c, intercept=Intercept.FREE, n_threads=1, dtype=np.float64):
    rows = csr_matrix(X.astype(dtype))
    matrix = CompressedMatrix(rows.indptr, rows.indices, X.shape[1], rows.data)
    weights, weight = (None, c) if np.ndim(c) == 0 else (c.astype(dtype), 1.0)
    problem = Problem(Softmax(int(y.max()) + 1), intercept)
    data = Dataset(matrix, y.astype(dtype), weights, weight)
    return SoftmaxDuals(problem, data, n_threads=n_threads)


def fit(duals, tol=1e-9, max_iter=500, **kwargs):
    rule = StoppingRule(tol, max_iter)
    return softmax_ascent.solve(duals, SerialCommunicator(), rule, **kwargs)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("weight", [0.01, 2.0, 300.0])
@pytest.mark.parametrize("intercept", [Intercept.NONE, Intercept.FREE], ids=lambda k: k.value)
def test_fit_is_within_its_certified_gap(intercept, weight, n_threads):
    X, y, c = make_case(weight=weight)
    best = softmax_optimum(X, y, c, has_intercept=intercept is Intercept.FREE)
    for max_iter in (0, 1, 5, 3000):
        result = fit(make_duals(X, y, c, intercept, n_threads), max_iter=max_iter)
        objective = softmax_objective(result.coef, result.intercept, X, y, c)
        assert result.objective == pytest.approx(objective, rel=1e-12)
        assert -1e-12 * best <= objective - best <= result.gap + 1e-12 * best
    assert result.has_converged == (result.gap <= 1e-9 * result.objective)
    assert result.has_converged or weight == 300.0  # a case for another solver


@pytest.mark.parametrize("n_classes", [2, 7, 8, 17])
def test_any_number_of_classes_and_a_common_weight(n_classes):
    X, y, _ = make_case(n_classes)
    result = fit(make_duals(X, y, 1.5), max_iter=2000)
    best = softmax_optimum(X, y, 1.5, has_intercept=True)
    assert result.coef.shape == (n_classes, N_FEATURES)
    assert result.objective == pytest.approx(best, rel=2e-9)


def test_penalised_intercept_is_a_column_of_ones():
    X, y, c = make_case()
    result = fit(make_duals(X, y, c, Intercept.PENALISED), max_iter=2000)
    wide = np.column_stack([X, np.ones(N_ROWS)])
    expected = softmax_optimum(wide, y, c, has_intercept=False)
    assert result.objective == pytest.approx(expected, rel=2e-9)


def test_float32_rows_give_a_certified_float32_model():
    X, y, c = make_case()
    result = fit(make_duals(X, y, c, dtype=np.float32), tol=1e-6)
    objective = softmax_objective(
        result.coef.astype(float), result.intercept, X.astype(np.float32).astype(float), y,
        c.astype(np.float32).astype(float),
    )  # fmt: skip
    assert result.coef.dtype == np.float32
    assert result.objective == pytest.approx(objective, rel=1e-12)
    assert result.gap <= 1e-6 * result.objective


def test_rows_of_weight_zero_do_not_matter():
    X, y, c = make_case()
    c[::5] = 0.0
    kept = c > 0
    cases = (X, y, c), (X[kept], y[kept], c[kept])
    whole, part = (fit(make_duals(*case), tol=1e-13) for case in cases)
    np.testing.assert_allclose(whole.coef, part.coef, rtol=1e-5, atol=1e-7)


def test_class_without_weight_leaves_a_bound_and_is_left_to_others(text):
    X, y, c = make_case()
    c[y == 1] = 0.0
    result = fit(make_duals(X, y, c), max_iter=300)
    assert result.gap <= 1e-2 * result.objective
    X, y = text
    weights = np.where(y == 2, 0.0, 1.0)
    model = snapml.LogisticRegression(max_iter=500).fit(X, y, sample_weight=weights)
    assert "dual coordinate ascent" not in model.solver_
    assert model.gap_ <= 1e-6 * model.objective_


def test_equal_fits_give_equal_bits():
    X, y, c = make_case()
    first, second = (fit(make_duals(X, y, c, n_threads=3), max_iter=7) for _ in range(2))
    assert first.coef.tobytes() == second.coef.tobytes()


def test_early_end_is_no_worse_than_no_coefficients():
    X, y, c = make_case(weight=1e6)
    result = fit(make_duals(50 * X, y, c), max_iter=1)
    shares = np.bincount(y, c) / c.sum()
    assert result.objective <= -(c @ np.log(shares[y])) * (1 + 1e-12)
    assert not result.has_converged


def test_impatient_fit_ends_early():
    X, y, c = make_case(weight=1e4)
    result = fit(make_duals(X, y, c), tol=1e-12, patience=1.0)
    assert not result.has_converged
    assert result.n_iter < 100


@pytest.fixture(scope="module")
def text():
    """Return made-up documents of five classes: frequent words, rare words, 1,500 columns."""
    rng = np.random.default_rng(0)
    X = random_array((600, 1500), density=0.02, rng=rng, format="csr")
    W = rng.normal(size=(1500, 5))
    y = np.argmax(X @ W + 0.2 * rng.gumbel(size=(600, 5)), axis=1)
    return X, y


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_estimators_take_it_for_sparse_text(text, C):
    X, y = text
    model = snapml.LogisticRegression(C=C).fit(X, y)
    asked = snapml.LogisticRegression(C=C, solver="pqn", max_iter=1000).fit(X, y)
    assert "dual coordinate ascent" in model.solver_
    assert model.gap_ <= 1e-6 * model.objective_
    assert model.objective_ == pytest.approx(asked.objective_, rel=2e-6)
    # Near ties are told apart beyond the default tol.
    exact = [clone(fitted).set_params(tol=1e-8).fit(X, y).predict(X) for fitted in (model, asked)]
    assert (exact[0] == exact[1]).mean() > 0.995


def test_long_rows_are_handed_over(text):
    X, y = text
    columns = np.exp(1.5 * np.random.default_rng(1).normal(size=X.shape[1]))
    model = snapml.LogisticRegression(C=10.0, max_iter=300).fit(X.multiply(columns).tocsr(), y)
    assert "conjugate gradients" in model.solver_
    assert "epochs of dual coordinate ascent" in model.solver_
    assert len(model.history_) > 5


def test_what_it_does_not_suit():
    X, y, c = make_case()
    rows = csr_matrix(X)
    matrix = CompressedMatrix(rows.indptr, rows.indices, X.shape[1], rows.data)
    data = Dataset(matrix, y.astype(float), c, 1.0)
    softmax, alone = Problem(Softmax(3), Intercept.FREE), SerialCommunicator()
    assert softmax_ascent.suits(softmax, data, alone)
    strong = Problem(Softmax(3), Intercept.FREE, penalty=Penalty(l2=2.0))
    sparse = Problem(Softmax(3), Intercept.FREE, penalty=Penalty(l1=1.0, l2=1.0))
    assert not softmax_ascent.suits(strong, data, alone)
    assert not softmax_ascent.suits(sparse, data, alone)
    shifted = Dataset(matrix, data.labels, c, 1.0, np.zeros((3, N_ROWS)))
    assert not softmax_ascent.suits(softmax, shifted, alone)
