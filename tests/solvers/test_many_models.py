import numpy as np
import pytest
from scipy import sparse

from snapml.data import (
    ChunkedDataset,
    ChunkedMatrix,
    ChunkWriter,
    CompressedMatrix,
    DenseMatrix,
)
from snapml.problems import Intercept, Logistic, Penalty, Problem, SquaredHinge
from snapml.solvers.many import many_preconditioners
from snapml.solvers.many.many_arrays import HostArrays
from snapml.solvers.many.many_chunks import many_products
from snapml.solvers.many.many_models import ManyTargets, solve
from snapml.solvers.many.many_rows import HALF_PANEL, PANEL

N_ROWS, N_FEATURES = 90, 13
FACTORS = np.array([0.01, 1.0, 30.0, 1.0, 0.1])
FOLDS = np.array([0, 1, 2, 0, 2])


def make_rows(dtype, is_sparse, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    X[rng.random(X.shape) < 0.5] = 0.0
    X = X.astype(dtype)
    if not is_sparse:
        return X, DenseMatrix(X)
    csr = sparse.csr_matrix(X)
    return X, CompressedMatrix(csr.indptr, csr.indices, N_FEATURES, csr.data)


def in_store(matrix, path, memory_limit=0):
    """The same rows in a store of several chunks, of which none stays in memory."""
    with ChunkWriter(path, chunk_bytes=1500) as writer:
        rows = matrix.values if isinstance(matrix, DenseMatrix) else matrix
        writer.append(rows, np.zeros(N_ROWS))
    chunked = ChunkedMatrix(ChunkedDataset.open(path), memory_limit)
    assert chunked.n_chunks > 2
    return chunked


def make_targets(X, seed=1):
    rng = np.random.default_rng(seed)
    y = np.where(X @ rng.standard_normal(N_FEATURES) + rng.standard_normal(N_ROWS) > 0, 1.0, -1.0)
    weights = rng.integers(0, 3, (N_ROWS, 3)).astype(X.dtype)
    return ManyTargets(y.astype(X.dtype)[:, None], weights, np.zeros(5, dtype=int), FOLDS, FACTORS)


def gradient_of(loss, X, y, c, vector, bias_penalty):
    """The objective's gradient, written out."""
    z = X @ vector[:-1] + vector[-1]
    if isinstance(loss, Logistic):
        slopes = -y / (1.0 + np.exp(y * z))
    else:
        slopes = -2.0 * y * np.maximum(0.0, 1.0 - y * z)
    whole = np.append(X, np.ones((len(X), 1)), axis=1).T @ (c * slopes)
    return whole + np.append(vector[:-1], bias_penalty * vector[-1])


@pytest.mark.parametrize("is_stored", [False, True], ids=["memory", "store"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_models", [HALF_PANEL, PANEL, 2 * PANEL])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_those_of_the_matrix(dtype, n_models, is_sparse, is_stored, tmp_path):
    X, matrix = make_rows(dtype, is_sparse)
    if is_stored:
        matrix = in_store(matrix, tmp_path / "store")
    products = many_products(matrix, 2)
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((N_FEATURES + 1, n_models)).astype(dtype)
    scales = rng.standard_normal((N_ROWS, n_models)).astype(dtype)
    wide = np.append(X, np.ones((N_ROWS, 1), dtype), axis=1).astype(np.float64)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"atol": 1e-12}
    np.testing.assert_allclose(products.margins(vectors), wide @ vectors, **close)
    np.testing.assert_allclose(products.adjoint(scales), wide.T @ scales, **close)
    squares = products.adjoint(scales, squares_entries=True)
    np.testing.assert_allclose(squares, (wide * wide).T @ scales, **close)
    expected = wide.T @ (scales * (wide @ vectors))
    np.testing.assert_allclose(products.hessian(scales, vectors), expected, **close)
    if not is_sparse:
        weights = np.abs(scales[:, 0])
        np.testing.assert_allclose(products.row_squares(), (X * X).sum(axis=1), **close)
        expected = wide.T @ (weights[:, None] * wide)
        np.testing.assert_allclose(products.gram(weights), expected, **close)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_models_of_a_store_are_those_of_its_rows(is_sparse, tmp_path, monkeypatch):
    monkeypatch.setattr(many_preconditioners, "_FEWEST_COLUMNS", 1)
    X, matrix = make_rows(np.float64, is_sparse)
    problem, targets = Problem(Logistic(), Intercept.FREE), make_targets(X)
    stored = in_store(matrix, tmp_path / "store")
    expected = solve(problem, many_products(matrix), targets, 1e-14)
    found = solve(problem, many_products(stored), targets, 1e-14)
    assert found.has_converged.all()
    np.testing.assert_array_equal(found.n_products, expected.n_products)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-10)
    np.testing.assert_allclose(found.margins, expected.margins, atol=1e-10)


def test_models_that_fill_no_panel_are_refused():
    _, matrix = make_rows(np.float32, is_sparse=True)
    with pytest.raises(ValueError, match="n_models: expected a multiple of 8, got 12"):
        many_products(matrix).margins(np.ones((N_FEATURES + 1, 12), np.float32))


def test_rows_that_are_nowhere_are_refused():
    with pytest.raises(TypeError, match="expected rows of the host, got ndarray"):
        many_products(np.ones((2, 2)))


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()])
def test_gradients_of_all_models_vanish(loss, intercept, is_sparse):
    X, matrix = make_rows(np.float64, is_sparse)
    targets = make_targets(X)
    scaling = 3.0 if intercept is Intercept.PENALISED else 1.0
    result = solve(
        Problem(loss, intercept, scaling, Penalty()), many_products(matrix), targets, 1e-14
    )
    assert result.has_converged.all()
    for k in range(5):
        c = FACTORS[k] * targets.weights[:, FOLDS[k]]
        bias_penalty = 1.0 / scaling**2 if intercept is Intercept.PENALISED else 0.0
        gradient = gradient_of(loss, X, targets.labels[:, 0], c, result.vectors[:, k], bias_penalty)
        if intercept is Intercept.NONE:
            assert result.vectors[-1, k] == 0.0
            gradient = gradient[:-1]
        # Half of g^T H^-1 g is at most 1e-14 of the penalty, and H at most some 1e4.
        np.testing.assert_allclose(gradient, 0.0, atol=2e-5)
        margins = X @ result.vectors[:-1, k] + result.vectors[-1, k]
        np.testing.assert_allclose(result.margins[:, k], margins, atol=1e-9)


def make_correlated_rows(dtype, n_rows=400, n_features=20, seed=3):
    """Rows whose Hessians are far from their diagonals, and the constant column from the others."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n_features, n_features)) * np.logspace(0, -2, n_features)
    X = (rng.standard_normal((n_rows, n_features)) @ common.T + 1.0).astype(dtype)
    y = np.where(X[:, 0] + rng.standard_normal(n_rows) > 1.0, 1.0, -1.0).astype(dtype)
    weights = rng.integers(0, 3, (n_rows, 3)).astype(dtype)
    targets = ManyTargets(y[:, None], weights, np.zeros(5, dtype=int), FOLDS, FACTORS)
    return DenseMatrix(X), targets


def squared_distances(problem, matrix, targets, found, expected):
    """Return d^T H d of the logistic models' differences d, over their penalties.

    Each stops where half of g^T H^-1 g, half its own squared distance from the optimum, is at
    most tol of the penalty: two that do are no further apart than 2 sqrt(2 tol). tol is to be
    well above what rounding does to a gradient, for rounding is the machine's own.
    """
    wide = np.append(matrix.values, np.ones((matrix.shape[0], 1)), axis=1).astype(np.float64)
    is_penalised = problem.intercept is Intercept.PENALISED
    bias_penalty = 1.0 / problem.intercept_scaling**2 if is_penalised else 0.0
    ridge = np.append(np.ones(matrix.shape[1]), bias_penalty)
    ratios = []
    for k, (fold, factor) in enumerate(zip(targets.weight_columns, targets.factors, strict=True)):
        vector = expected.vectors[:, k].astype(np.float64)
        difference = found.vectors[:, k] - vector
        p = 1.0 / (1.0 + np.exp(-(wide @ vector)))
        curvature = factor * targets.weights[:, fold] * p * (1.0 - p)
        squared = curvature @ (wide @ difference) ** 2 + ridge @ difference**2
        ratios.append(squared / (0.5 * vector[:-1] @ vector[:-1]))
    return np.array(ratios)


@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gram_matrix_that_models_share_changes_steps_and_not_the_answer(
    monkeypatch, intercept, dtype
):
    matrix, targets = make_correlated_rows(dtype)
    problem, tol = Problem(Logistic(), intercept, 2.0), 1e-12 if dtype == np.float64 else 1e-6
    monkeypatch.setattr(many_preconditioners, "_FEWEST_COLUMNS", matrix.shape[1] + 1)
    plain = solve(problem, many_products(matrix), targets, tol)
    monkeypatch.undo()
    shared = many_preconditioners.SharedGram()
    scaled = solve(problem, many_products(matrix), targets, tol, shared=shared)
    assert shared.gram is not None
    assert plain.has_converged.all()
    assert scaled.has_converged.all()
    assert (squared_distances(problem, matrix, targets, scaled, plain) < 8.0 * tol).all()
    assert (scaled.n_products < 0.7 * plain.n_products).all()


@pytest.mark.parametrize("bias_penalty", [0.0, 0.25, 1.0])
def test_a_scaled_gram_matrix_is_inverted_with_its_penalty(bias_penalty):
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((30, 9)) + 1.0
    rows[:, -1] = 1.0
    gram = rows.T @ rows
    scales, arrays = np.array([0.0, 1e-3, 1.0, 50.0]), HostArrays()
    strengths = np.append(np.ones(8), bias_penalty)
    diagonals = many_preconditioners.Diagonals(arrays, np.full((9, 4), 2.0))
    reduced = many_preconditioners.TridiagonalGram.of(gram)
    penalty = (1.0, bias_penalty)
    scaled = many_preconditioners.ScaledGrams(arrays, reduced, scales, penalty, diagonals)
    residual = rng.standard_normal((9, 4))
    found = scaled.solve(residual, np.ones(4, dtype=bool))
    np.testing.assert_allclose(found[:, 0], residual[:, 0] / 2.0)
    for k in range(1, 4):
        whole = scales[k] * gram + np.diag(strengths)
        np.testing.assert_allclose(whole @ found[:, k], residual[:, k], atol=1e-8)
    part = scaled.take(np.array([3, 0])).solve(residual[:, [3, 0]], np.ones(2, dtype=bool))
    np.testing.assert_allclose(part, found[:, [3, 0]], atol=1e-12)


def test_a_scaled_gram_matrix_is_inverted_between_the_classes_of_models():
    rng = np.random.default_rng(6)
    n_models, n_classes, n_columns = 3, 4, 6
    rows = rng.standard_normal((30, n_columns)) + 1.0
    rows[:, -1] = 1.0
    gram, halves = rows.T @ rows, rng.standard_normal((n_models, 9, n_classes))
    mixing = halves.transpose(0, 2, 1) @ halves
    strengths, rotations = many_preconditioners._between_outputs(mixing, 16)
    arrays = HostArrays()
    diagonals = many_preconditioners.Diagonals(arrays, np.full((n_columns, 16), 2.0))
    reduced = many_preconditioners.TridiagonalGram.of(gram)
    scaled = many_preconditioners.ScaledGrams(
        arrays, reduced, strengths, (1.0, 0.25), diagonals, rotations
    )
    residual = rng.standard_normal((n_columns, 16))
    residual[:, n_models * n_classes :] = 0.0
    is_open = np.repeat([True, True, True, False], n_classes)
    found = scaled.solve(residual, is_open)
    penalty = np.kron(np.diag(np.append(np.ones(n_columns - 1), 0.25)), np.eye(n_classes))
    for k in range(n_models):
        own = slice(k * n_classes, (k + 1) * n_classes)
        whole = np.kron(gram, mixing[k]) + penalty
        expected = np.linalg.solve(whole, residual[:, own].ravel()).reshape(n_columns, n_classes)
        np.testing.assert_allclose(found[:, own], expected, atol=1e-10)
    taken = np.append(np.arange(8, 12), np.zeros(12, dtype=int))
    part = scaled.take(taken).solve(residual[:, taken], np.arange(16) < n_classes)
    np.testing.assert_allclose(part[:, :n_classes], found[:, 8:12], atol=1e-12)
    assert np.isfinite(scaled.spread[: n_models * n_classes]).all()
    mixing[1, 0, 0] = np.nan
    broken, _ = many_preconditioners._between_outputs(mixing, 16)
    assert not broken[4:8].any()


def test_a_scaled_gram_matrix_that_rounding_leaves_indefinite_gives_way_to_the_diagonal():
    gram = np.diag([1.0, -0.5, 2.0, 3.0]).astype(np.float32)
    reduced = many_preconditioners.TridiagonalGram.of(gram)
    arrays = HostArrays()
    diagonals = many_preconditioners.Diagonals(arrays, np.full((4, 2), 4.0, dtype=np.float32))
    scales, penalty = np.array([1.0, 4.0]), (1.0, 1.0)
    scaled = many_preconditioners.ScaledGrams(arrays, reduced, scales, penalty, diagonals)
    residual = np.ones((4, 2), dtype=np.float32)
    found = scaled.solve(residual, np.ones(2, dtype=bool))
    np.testing.assert_allclose(found[:, 0], [0.5, 2.0, 1.0 / 3.0, 0.25], rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], 0.25)
    assert scaled.spread.tolist() == [4.0, np.inf]


def test_models_start_where_they_are_told_to():
    X, matrix = make_rows(np.float64, is_sparse=True)
    problem, targets = Problem(Logistic(), Intercept.FREE), make_targets(X)
    first = solve(problem, many_products(matrix), targets, 1e-14)
    again = solve(problem, many_products(matrix), targets, 1e-6, start=first.vectors)
    assert again.n_products.sum() < first.n_products.sum() / 4
    np.testing.assert_allclose(again.vectors, first.vectors, atol=1e-6)


def test_models_that_run_out_of_steps_say_so():
    X, matrix = make_rows(np.float64, is_sparse=True)
    problem, targets = Problem(Logistic(), Intercept.FREE), make_targets(X)
    assert not solve(
        problem, many_products(matrix), targets, 1e-14, max_steps=1
    ).has_converged.all()


def test_models_that_cost_more_products_than_a_factor_are_given_up():
    X, matrix = make_rows(np.float64, False)
    problem, targets = Problem(Logistic()), make_targets(X)
    whole = solve(problem, many_products(matrix, 1), targets, 1e-10)
    most = int(np.median(whole.n_products))
    found = solve(problem, many_products(matrix, 1), targets, 1e-10, most_products=most)
    assert whole.has_converged.all()
    kept = found.has_converged
    assert (whole.n_products[~kept] >= most).all()
    assert 0 < kept.sum() < len(kept)
    np.testing.assert_allclose(found.vectors[:, kept], whole.vectors[:, kept], atol=1e-9)


def test_a_gram_matrix_is_made_anew_where_a_step_takes_many_products(monkeypatch):
    X, matrix = make_rows(np.float64, False)
    made, make = [], many_preconditioners.SharedGram.make_gram
    monkeypatch.setattr(
        many_preconditioners.SharedGram,
        "make_gram",
        lambda *args: made.append(1) or make(*args),
    )
    problem, targets = Problem(Logistic()), make_targets(X)
    first = solve(problem, many_products(matrix, 1), targets, 1e-10)
    assert first.has_converged.all()
    assert len(made) > 1
    monkeypatch.setattr(many_preconditioners.SharedGram, "see", lambda *_: None)
    second = solve(problem, many_products(matrix, 1), targets, 1e-10)
    np.testing.assert_allclose(first.vectors, second.vectors, atol=1e-5)
    assert first.n_products.sum() < second.n_products.sum()
