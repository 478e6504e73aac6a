"""Many multinomial models side by side, against NumPy."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from snapml import LogisticRegression
from snapml.problems import Intercept, Problem, Softmax
from snapml.solvers.many.many_chunks import many_products
from snapml.solvers.many.many_models import ManyTargets, solve

from .test_many_models import FACTORS, FOLDS, N_FEATURES, N_ROWS, in_store, make_rows

N_CLASSES, N_MODELS, WIDTH = 3, 3, 16  # 9 columns of models, 7 that fill a panel
USED = N_CLASSES * N_MODELS
PLACES = np.arange(N_MODELS)
CLOSE = {np.float32: {"rtol": 1e-4, "atol": 2e-4}, np.float64: {"rtol": 1e-9, "atol": 1e-11}}


def make_classes(X, seed=1):
    """Return class numbers that X says something about, and weights of three folds."""
    rng = np.random.default_rng(seed)
    scores = X @ rng.standard_normal((N_FEATURES, N_CLASSES)) + rng.standard_normal((N_ROWS, 3))
    return scores.argmax(axis=1), rng.integers(0, 3, (N_ROWS, 3)).astype(X.dtype)


def make_losses(products, y, weights):
    labels = y[:, None].astype(weights.dtype)
    columns = PLACES.astype(np.int32)
    return products.losses(
        Softmax(N_CLASSES),
        labels,
        weights,
        np.zeros(N_MODELS, np.int32),
        columns,
        FACTORS[:3].astype(weights.dtype),
    )


def make_vectors(dtype, seed):
    vectors = np.random.default_rng(seed).standard_normal((N_FEATURES + 1, WIDTH))
    vectors[:, USED:] = 0.0
    return vectors.astype(dtype)


def by_model(columns):
    """Return the columns of models, shape (n, N_MODELS, N_CLASSES), float64."""
    return np.asarray(columns, dtype=np.float64)[:, :USED].reshape(len(columns), N_MODELS, -1)


def case(dtype, is_sparse, is_stored, path):
    X, matrix = make_rows(dtype, is_sparse)
    if is_stored:
        matrix = in_store(matrix, path / "store")
    y, weights = make_classes(X)
    products = many_products(matrix, 2)
    return X.astype(np.float64), y, weights, products, make_losses(products, y, weights)


@pytest.mark.parametrize("is_stored", [False, True], ids=["memory", "store"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_losses_and_products_are_those_of_numpy(dtype, is_sparse, is_stored, tmp_path):
    X, y, weights, products, losses = case(dtype, is_sparse, is_stored, tmp_path)
    vectors, direction = make_vectors(dtype, 2), make_vectors(dtype, 3)
    wide = np.append(X, np.ones((N_ROWS, 1)), axis=1)
    z, moves = by_model(wide @ vectors), by_model(wide @ direction)
    c = weights * FACTORS[:3]
    p, chosen = softmax(z, axis=2), np.eye(N_CLASSES)[y][:, None, :]
    close = CLOSE[dtype]

    values, slopes, curvatures = losses.tangents(products.margins(vectors))
    expected = (c * (logsumexp(z, axis=2) - (z * chosen).sum(axis=2))).sum(axis=0)
    np.testing.assert_allclose(values, expected, **close)
    np.testing.assert_allclose(by_model(slopes), c[:, :, None] * (p - chosen), **close)
    np.testing.assert_allclose(by_model(curvatures), c[:, :, None] * p, **close)
    np.testing.assert_allclose(
        by_model(losses.diagonals(curvatures)), c[:, :, None] * p * (1.0 - p), **close
    )
    pairs = np.einsum("im,imj,imk->mjk", c, p, p)
    sums = np.einsum("im,imj->mj", c, p)[:, :, None] * np.eye(N_CLASSES)
    np.testing.assert_allclose(losses.mixing(curvatures), sums - pairs, rtol=1e-3, atol=1e-3)
    steps = np.array([0.0, 0.5, -2.0])
    ahead = z + steps[:, None] * moves
    expected = (c * (logsumexp(ahead, axis=2) - (ahead * chosen).sum(axis=2))).sum(axis=0)
    found = losses.ahead(
        products.margins(vectors), products.margins(direction), steps.astype(dtype)
    )
    np.testing.assert_allclose(found, expected, **close)

    mean = (p * moves).sum(axis=2, keepdims=True)
    curved = np.zeros((N_ROWS, WIDTH))
    curved[:, :USED] = (c[:, :, None] * p * (moves - mean)).reshape(N_ROWS, USED)
    product = products.hessian(curvatures, direction, N_CLASSES)
    np.testing.assert_allclose(product, wide.T @ curved, **close)
    for array in (slopes, curvatures, product):
        assert not array[:, USED:].any()


def test_products_are_differences_of_gradients(tmp_path):
    _, _, _, products, losses = case(np.float64, False, False, tmp_path)
    vectors, direction, step = make_vectors(np.float64, 2), make_vectors(np.float64, 3), 1e-6

    def gradient(at):
        return products.adjoint(losses.tangents(products.margins(at))[1])

    curvatures = losses.tangents(products.margins(vectors))[2]
    change = gradient(vectors + step * direction) - gradient(vectors - step * direction)
    found = products.hessian(curvatures, direction, N_CLASSES)
    np.testing.assert_allclose(found, change / (2.0 * step), atol=1e-6)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("intercept", [Intercept.FREE, Intercept.NONE])
def test_models_are_those_of_certified_fits(intercept, is_sparse, tmp_path):
    X, matrix = make_rows(np.float64, is_sparse)
    y, weights = make_classes(X)
    labels, first = y[:, None].astype(np.float64), np.zeros(5, dtype=int)
    targets = ManyTargets(labels, weights, first, FOLDS, FACTORS)
    problem = Problem(Softmax(N_CLASSES), intercept)
    result = solve(problem, many_products(matrix), targets, 1e-13)
    stored = solve(problem, many_products(in_store(matrix, tmp_path / "store")), targets, 1e-13)
    assert result.has_converged.all()
    np.testing.assert_allclose(stored.vectors, result.vectors, atol=1e-9)
    for k in range(5):
        single = LogisticRegression(
            C=FACTORS[k], tol=1e-13, fit_intercept=intercept is Intercept.FREE
        ).fit(X, y, weights[:, FOLDS[k]])
        own = result.vectors[:, k * N_CLASSES : (k + 1) * N_CLASSES]
        np.testing.assert_allclose(own[:-1].T, single.coef_, atol=1e-5)
        biases = single.intercept_ - np.mean(single.intercept_)
        np.testing.assert_allclose(own[-1] - own[-1].mean(), biases, atol=1e-5)
        margins = result.margins[:, k * N_CLASSES : (k + 1) * N_CLASSES]
        np.testing.assert_allclose(margins, X @ own[:-1] + own[-1], atol=1e-9)


def test_models_that_rounding_keeps_from_the_tolerance_are_taken_where_they_are_near():
    X, matrix = make_rows(np.float32, is_sparse=False)
    y, weights = make_classes(X)
    labels, first = y[:, None].astype(np.float32), np.zeros(1, dtype=int)
    targets = ManyTargets(labels, weights, first, first, np.array([1e8]))
    problem, products = Problem(Softmax(N_CLASSES), Intercept.FREE), many_products(matrix)
    strict = solve(problem, products, targets, 1e-12)
    near = solve(problem, products, targets, 1e-12, rounding_tol=1e-2)
    assert not strict.has_converged.any()
    assert near.has_converged.all()
    np.testing.assert_array_equal(near.vectors, strict.vectors)


@pytest.mark.parametrize("wrong", [-1.0, 3.0, np.nan])
def test_class_numbers_that_are_none_are_refused(wrong):
    X, matrix = make_rows(np.float64, is_sparse=False)
    y, weights = make_classes(X)
    labels = y.astype(np.float64)
    labels[7] = wrong
    with pytest.raises(ValueError, match="class numbers"):
        make_losses(many_products(matrix), labels, weights).tangents(np.zeros((N_ROWS, WIDTH)))
