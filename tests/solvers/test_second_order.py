"""Proofs without a penalty, against minima in 80-bit arithmetic, on every place."""

import decimal
import math

import numpy as np
import pytest
from reference.losses import ORACLES
from reference.softmax import softmax_loss, softmax_probabilities
from scipy.sparse import csr_matrix

from snapml import LogisticRegression, PoissonRegressor
from snapml.data import ChunkedDataset, ChunkWriter, CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import (
    Huber,
    Intercept,
    Logistic,
    NegativeBinomial,
    Penalty,
    Poisson,
    Problem,
    Softmax,
    Squared,
    SquaredHinge,
    Tweedie,
)
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton.curvature import DenseCurvature
from snapml.solvers.newton.second_order import distances, prove

from .primal_engines import ENGINES, MAKERS

LOSSES = [Logistic(), Poisson(), Tweedie(1.5), NegativeBinomial(1.0), Squared(), Softmax(3)]
FREE = Penalty(l1=0.0, l2=0.0)


class Fit:
    """Random rows, labels of a model on them, and the problem without a penalty."""

    def __init__(self, loss, seed=0, n_rows=300, n_columns=5, is_sparse=False):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n_rows, n_columns))
        X[:, 0] = np.exp(X[:, 0])  # far rows
        X = X * (rng.random(X.shape) < 0.5) if is_sparse else X
        self.rng, self.loss, self.X = rng, loss, X
        z = X @ rng.normal(scale=0.3, size=n_columns) + 0.3
        self.y = self.drawn(z)
        self.c = rng.integers(0, 3, n_rows) + 0.5
        matrix = compressed(X) if is_sparse else DenseMatrix(X)
        self.dataset = Dataset(matrix, self.y, self.c, 1.0)
        self.problem = Problem(loss, Intercept.FREE, 1.0, FREE)
        self.A = np.column_stack([X, np.ones(n_rows)])
        self.n_outputs = loss.n_outputs

    def drawn(self, z):
        rng, kind = self.rng, self.loss.labels
        if kind == "class":
            return rng.integers(0, 3, len(z)).astype(float)
        if kind == "sign":
            return np.where(rng.random(len(z)) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
        return z + rng.normal(size=len(z)) if kind == "real" else rng.poisson(np.exp(z)) + 0.0

    def terms(self, coef):
        """Return the objective in 80 bits where NumPy has them, gradient and Hessian."""
        A, c = self.A.astype(np.longdouble), self.c.astype(np.longdouble)
        z = coef.astype(np.longdouble) @ A.T
        if self.loss.is_joint:
            p = softmax_probabilities(z)
            slopes = p - (np.arange(3)[:, None] == self.y)
            value = c @ softmax_loss(z, self.y.astype(int))
            curvature = c * (np.eye(3)[:, :, None] * p[:, None] - p[:, None] * p)
            hessian = np.einsum("ia,jki,ib->jakb", A, curvature, A)
            size = coef.size
            return value, (c * slopes) @ A, hessian.reshape(size, size).astype(float)
        oracle = ORACLES[self.loss.core_name]
        value = c @ oracle.value(z[0], self.y)
        gradient = (c * oracle.gradient(z[0], self.y)) @ A
        curvature = c * oracle.curvature(z[0], self.y)
        return value, gradient[None], ((A.T * curvature) @ A).astype(float)

    def minimum(self):
        """Return the minimiser and the minimum by Newton's method."""
        coef = np.zeros((self.n_outputs, self.A.shape[1]), np.longdouble)
        value, gradient, hessian = self.terms(coef)
        for _ in range(200):
            step = np.linalg.pinv(hessian, hermitian=True, rcond=1e-12)
            step = (step @ gradient.ravel().astype(float)).reshape(coef.shape)
            size = 1.0
            while size > 1e-9 and self.terms(coef - size * step)[0] > value:
                size /= 2.0
            moved = coef - size * step
            after = self.terms(moved)
            if not after[0] < value:
                return coef, value
            coef, (value, gradient, hessian) = moved, after
        raise AssertionError("no minimum")

    def proof(self, coef, make=MAKERS["cpu"], communicator=None):
        """Return what the Hessian at a point proves."""
        communicator = communicator or SerialCommunicator()
        engine = make(self.problem, self.dataset)
        _, gradient, _ = engine.fused_pass(engine.to_vectors(coef.astype(float)))
        engine.accept()
        curvature = DenseCurvature(engine, communicator)
        return prove(engine, communicator, curvature, gradient)


def compressed(X):
    rows = csr_matrix(X)
    return CompressedMatrix(rows.indptr, rows.indices, rows.shape[1], rows.data)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.core_name)
def test_bounds_are_never_below_the_truth_and_near_it(loss, is_sparse):
    ratios = []
    for seed in range(6):
        fit = Fit(loss, seed, is_sparse=is_sparse)
        best, least = fit.minimum()
        hessian_root = np.linalg.cholesky(fit.terms(best)[2] + 1e-9 * np.eye(best.size))
        way = np.linalg.solve(hessian_root.T, fit.rng.normal(size=best.size)).reshape(best.shape)
        for size in (3.0, 1.0, 0.3, 1e-2, 1e-4):
            point = (best + size / np.sqrt(best.size) * way).astype(float)
            proof = fit.proof(point)
            if proof is None:
                assert size >= 1.0
                continue
            value, _, hessian = fit.terms(point)
            away = (point - best).ravel().astype(float)
            distance = math.sqrt(max(away @ hessian @ away, 0.0))
            assert proof.gap >= (value - least) * (1.0 - 1e-6) - 1e-13 * least
            if not loss.is_joint:  # whose best coefficients are known up to what all share
                assert proof.distance >= distance * (1.0 - 1e-6) - 1e-12
            ratios.append(float(proof.gap / (value - least)))
    assert len(ratios) >= 18
    assert np.median(ratios) <= 1.5


@pytest.mark.parametrize("maker", ENGINES)
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=lambda loss: loss.core_name)
def test_every_place_says_the_same(loss, maker):
    fit = Fit(loss, n_rows=200)
    point = fit.minimum()[0].astype(float) + 1e-3
    expected, found = fit.proof(point), fit.proof(point, MAKERS[maker])
    assert found.gap == pytest.approx(expected.gap, rel=1e-6)
    assert found.distance == pytest.approx(expected.distance, rel=1e-6)


@pytest.mark.parametrize("loss", [Huber(), SquaredHinge()], ids=lambda loss: loss.core_name)
def test_losses_with_kinks_prove_nothing(loss):
    fit = Fit(loss)
    assert fit.proof(np.zeros((1, 6))) is None


@pytest.mark.parametrize("s", [0.0, 1e-8, 9e-4, 1.1e-3, 0.1, 0.9, 0.999])
def test_bounds_are_the_theorems(s):
    with decimal.localcontext(prec=60):
        exact = decimal.Decimal(s)
        logarithm = (1 - exact).ln()
        gap, distance = ((1 - exact) * logarithm + exact) / 4, -logarithm / 2
    found = distances(1.0, (s / 2) ** 2, 4.0)
    assert found.gap >= float(gap) * (1 - 1e-9)
    assert found.gap == pytest.approx(float(gap), rel=2e-6 if s < 0.5 else 1e-9, abs=1e-300)
    assert found.distance == pytest.approx(float(distance), rel=1e-5, abs=1e-300)


@pytest.mark.parametrize("s", [1.0, 1.5, math.inf, math.nan])
def test_too_far_away_nothing_is_proved(s):
    assert distances(1.0, s * s, 1.0) is None


def test_columns_that_depend_on_others_do_not_stand_in_the_way():
    fit = Fit(Logistic())
    X = np.column_stack([fit.X, fit.X[:, 0] + fit.X[:, 1], np.ones(len(fit.X))])
    model = LogisticRegression(C=np.inf).fit(X, fit.y, fit.c)
    assert model.existence_ == "proved"
    assert model.numerical_error_ < 1e-5
    assert model.objective_ == pytest.approx(float(fit.minimum()[1]), rel=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_separated_rows_are_never_proved_to_have_a_minimum():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    whole = LogisticRegression(C=np.inf).fit(X, X[:, 0] > 0.0)
    assert (whole.existence_, whole.numerical_error_) == ("separated", math.inf)
    X[:, 2] = np.arange(200) < 12
    y = rng.random(200) < 0.5
    y[:12] = True
    partly = LogisticRegression(C=np.inf, max_iter=1000).fit(X, y)
    assert partly.existence_ in ("separated", "unknown")
    counts = rng.poisson(2.0, size=200) * (X[:, 2] == 0.0)
    level = PoissonRegressor(alpha=0.0, max_iter=1000).fit(X, counts)
    assert level.existence_ in ("separated", "unknown")
    assert level.numerical_error_ == math.inf


def test_a_penalty_takes_the_words_back():
    fit = Fit(Logistic())
    model = LogisticRegression(C=np.inf).fit(fit.X, fit.y)
    assert model.existence_ == "proved"
    assert not hasattr(model.set_params(C=1.0).fit(fit.X, fit.y), "existence_")


def test_stores_and_float32_are_proved_too(tmp_path):
    fit = Fit(Logistic(), n_rows=3000)
    with ChunkWriter(tmp_path / "store", chunk_bytes=4000) as writer:
        writer.append(fit.X, fit.y)
    store = ChunkedDataset.open(tmp_path / "store", memory_limit=0)
    for X in (store, fit.X.astype(np.float32)):
        model = LogisticRegression(C=np.inf).fit(X, None if X is store else fit.y)
        assert model.existence_ == "proved"
        assert model.numerical_error_ < 1e-2


def test_no_coefficient_is_farther_than_it_says():
    """In standard errors of statistics' own inverse Hessian, for weights as they are given."""
    fit = Fit(Poisson(), n_rows=40_000)
    best, _ = fit.minimum()
    model = PoissonRegressor(alpha=0.0, tol=1e-3).fit(fit.X, fit.y, fit.c)
    joint = np.append(model.coef_, model.intercept_)
    errors = np.sqrt(np.linalg.inv(fit.terms(joint[None])[2]).diagonal())
    away = np.abs(joint - best[0].astype(float)) / errors
    assert away.max() <= model.numerical_error_ <= 100.0 * away.max()
