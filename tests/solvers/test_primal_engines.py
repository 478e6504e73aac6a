"""Every verb of the primal engines against plain NumPy, on the CPU and on an emulated GPU."""

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice
from reference.data import make_labels, make_rows, make_weights, rounding
from reference.losses import ORACLES
from reference.softmax import softmax_loss, softmax_probabilities
from scipy.sparse import csr_matrix, issparse

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Problem, Softmax, Squared, SquaredHinge
from snapml.solvers.engine import own_curvatures
from snapml.solvers.range_checks import NonFiniteError

from .primal_engines import (
    ENGINES,
    MAKERS,
    on_cpu,
    on_emulated_gpu,
    on_store,
    streamed_to_gpu,
)

pytestmark = pytest.mark.pairwise

EXACT = dict(rtol=1e5 * rounding(np.float64), atol=1e5 * rounding(np.float64))
LAYOUTS = ["dense", "Fortran", "sparse", "int64", "ones"]
KINDS = [(Logistic(), 1), (Squared(), 3), (SquaredHinge(), 1), (Softmax(3), 3)]
SPOTS = np.array([0, 7, 8, 40])


class Case:
    """A problem, an engine on it, and what NumPy needs to say the same."""

    def __init__(self, make, loss, n_outputs, layout="dense", dtype="float64", weights="each row",
                 shape=(60, 9), **options):  # fmt: skip
        self.loss, self.n_outputs, self.layout = loss, n_outputs, layout
        is_sparse = layout not in ("dense", "Fortran")
        X = make_rows(*shape, density=0.4 if is_sparse else 1.0)
        X = (X != 0).astype(float) if layout == "ones" else X
        self.X = X.astype(dtype).astype(float)
        rng = np.random.default_rng(1)
        if isinstance(loss, Softmax):
            self.y = rng.integers(0, n_outputs, len(X)).astype(float)
        else:
            kind = dict(labels=loss.labels)
            self.y = np.array([make_labels(X, seed=k, **kind) for k in range(n_outputs)])
        given = make_weights(len(X)) if weights == "each row" else None
        if weights == "each row and output":
            given = np.array([make_weights(len(X), seed=k) for k in range(n_outputs)])
        given = None if given is None else given.astype(dtype)
        self.c = np.broadcast_to(0.5 if given is None else given, (n_outputs, len(X))).astype(float)
        labels = (self.y[0] if self.y.ndim == 2 and n_outputs == 1 else self.y).astype(dtype)
        self.y = self.y.astype(dtype).astype(float)
        dataset = Dataset(matrix_of(X.astype(dtype), layout), labels, given, 0.5)
        problem = Problem(loss, Intercept.PENALISED, 0.5)
        self.engine = make(problem, dataset, **options)
        self.A = np.column_stack([self.X, np.full(len(X), 0.5)])
        self.coef = rng.normal(size=(n_outputs, shape[1] + 1))
        self.direction = rng.normal(size=self.coef.shape)

    def fused_pass(self, coef, **options):
        """Return what the engine's pass does, on the host."""
        engine = self.engine
        value, gradient, stiffness = engine.fused_pass(engine.to_vectors(coef), **options)
        assert isinstance(gradient, engine.vectors.ndarray)
        return value, engine.to_host(gradient), stiffness

    def hessian_product(self, direction):
        """Return the engine's product, on the host."""
        engine = self.engine
        return engine.to_host(engine.hessian_product(engine.to_vectors(direction)))

    def at(self, coef):
        """Return margins, loss and slopes by NumPy."""
        z = coef @ self.A.T
        if isinstance(self.loss, Softmax):
            classes = self.y.astype(int)
            slopes = softmax_probabilities(z)
            slopes[classes, np.arange(len(classes))] -= 1
            return z, self.c[0] @ softmax_loss(z, classes), self.c * slopes
        oracle = ORACLES[self.loss.core_name]
        return z, np.sum(self.c * oracle.value(z, self.y)), self.c * oracle.gradient(z, self.y)

    def curvatures(self, z):
        if isinstance(self.loss, Softmax):
            return softmax_probabilities(z)
        return self.c * ORACLES[self.loss.core_name].curvature(z, self.y)

    def curvature_products(self, z, u):
        if isinstance(self.loss, Softmax):
            p = softmax_probabilities(z)
            return self.c * p * (u - (p * u).sum(axis=0))
        return self.curvatures(z) * u


def matrix_of(X, layout):
    if layout == "dense":
        return DenseMatrix(X)
    if layout == "Fortran":
        return DenseMatrix(np.asfortranarray(X))
    stored = csr_matrix(X)
    index = np.int64 if layout == "int64" else np.int32
    arrays = stored.indptr.astype(index), stored.indices.astype(index)
    values = None if layout == "ones" else stored.data
    return CompressedMatrix(*arrays, stored.shape[1], values, X.dtype)


@pytest.fixture(params=ENGINES)
def make(request):
    return MAKERS[request.param]


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.mark.parametrize(("loss", "n_outputs"), KINDS, ids=str)
def test_pass_gives_loss_gradient_and_stiffness(make, layout, loss, n_outputs, dtype):
    case = Case(make, loss, n_outputs, layout, dtype)
    value, gradient, stiffness = case.fused_pass(case.coef, wants_stiffness=True)
    _, exact, slopes = case.at(case.coef)
    np.testing.assert_allclose(value, exact, **EXACT)
    np.testing.assert_allclose(gradient, slopes @ case.A, **EXACT)
    np.testing.assert_allclose(stiffness, np.sum(case.c @ (case.X**2).sum(axis=1)), **EXACT)
    assert case.fused_pass(case.coef)[2] == 0.0


@pytest.mark.parametrize("weights", ["none", "each row", "each row and output"])
@pytest.mark.parametrize(("loss", "n_outputs"), KINDS[:3], ids=str)
def test_weights_of_every_kind_count(make, loss, n_outputs, weights):
    case = Case(make, loss, n_outputs, weights=weights)
    value, gradient, stiffness = case.fused_pass(case.coef, wants_stiffness=True)
    case.engine.accept()
    z, exact, slopes = case.at(case.coef)
    np.testing.assert_allclose(value, exact, **EXACT)
    np.testing.assert_allclose(gradient, slopes @ case.A, **EXACT)
    np.testing.assert_allclose(stiffness, np.sum(case.c @ (case.X**2).sum(axis=1)), **EXACT)
    some = np.broadcast_to(case.engine.row_weights(SPOTS), (n_outputs, len(SPOTS)))
    np.testing.assert_array_equal(some, case.c[:, SPOTS])
    whole = case.engine.to_host(case.engine.row_weights())
    np.testing.assert_array_equal(np.broadcast_to(whole, case.c.shape), case.c)
    np.testing.assert_allclose(case.engine.curvatures(SPOTS), case.curvatures(z)[:, SPOTS], **EXACT)
    if weights != "each row and output":
        np.testing.assert_allclose(case.engine.total_weight, case.c[0].sum(), **EXACT)


@pytest.mark.parametrize(("loss", "n_outputs"), KINDS, ids=str)
def test_present_point_answers_without_the_trial(make, layout, loss, n_outputs, dtype):
    case = Case(make, loss, n_outputs, layout, dtype)
    engine = case.engine
    case.fused_pass(case.coef)
    engine.accept()
    case.fused_pass(case.coef + case.direction)
    z = case.coef @ case.A.T
    change = case.direction @ case.A.T
    for step in (0.0, 0.25, 1.0):
        _, exact, slopes = case.at(case.coef + step * case.direction)
        found = engine.line_point(step)
        np.testing.assert_allclose(found, (exact, np.sum(slopes * change)), **EXACT)
    np.testing.assert_allclose(engine.to_host(engine.curvatures()), case.curvatures(z), **EXACT)
    np.testing.assert_allclose(engine.curvatures(SPOTS), case.curvatures(z)[:, SPOTS], **EXACT)
    np.testing.assert_array_equal(
        np.atleast_2d(engine.labels(SPOTS)), np.atleast_2d(case.y)[:, SPOTS]
    )
    if not isinstance(loss, Softmax):
        exact = ORACLES[loss.core_name].gradient(z, case.y)[:, SPOTS]
        np.testing.assert_allclose(engine.gradients(SPOTS), exact, **EXACT)


@pytest.mark.parametrize(("loss", "n_outputs"), KINDS[:3], ids=str)
def test_losses_and_slopes_at_given_margins(make, loss, n_outputs, dtype):
    case = Case(make, loss, n_outputs, dtype=dtype)
    z, exact, slopes = case.at(case.coef)
    value, found = case.engine.losses_at(case.engine.to_rows(z))
    np.testing.assert_allclose(value, exact, **EXACT)
    np.testing.assert_allclose(case.engine.to_host(found), slopes, **EXACT)
    case.fused_pass(case.coef)
    case.engine.accept()
    np.testing.assert_allclose(case.engine.to_host(case.engine.margins), z, **EXACT)
    whole = case.engine.to_host(case.engine.labels())
    np.testing.assert_array_equal(np.atleast_2d(whole), case.y)


@pytest.mark.parametrize("weights", ["none", "each row"])
def test_a_restated_engine_has_other_losses_weights_and_offsets(make, layout, weights, dtype):
    case = Case(make, Logistic(), 1, layout, dtype, weights)
    offsets = np.random.default_rng(3).normal(size=len(case.X))
    problem = Problem(SquaredHinge(), Intercept.PENALISED, 0.5)
    before = case.fused_pass(case.coef)
    other = case.engine.restated(problem, 0.25, case.engine.to_rows(offsets))
    z = case.coef @ case.A.T + offsets
    oracle = ORACLES["SquaredHinge"]
    slopes = 0.25 * case.c * oracle.gradient(z, case.y)
    value, gradient, stiffness = other.fused_pass(other.to_vectors(case.coef), wants_stiffness=True)
    other.accept()
    exact = 0.25 * np.sum(case.c * oracle.value(z, case.y))
    np.testing.assert_allclose(value, exact, **EXACT)
    np.testing.assert_allclose(other.to_host(gradient), slopes @ case.A, **EXACT)
    exact = 0.25 * np.sum(case.c @ (case.X**2).sum(axis=1))
    np.testing.assert_allclose(stiffness, exact, **EXACT)
    np.testing.assert_allclose(
        other.gradients(SPOTS), oracle.gradient(z, case.y)[:, SPOTS], **EXACT
    )
    np.testing.assert_array_equal(other.offsets(SPOTS), offsets[SPOTS])
    np.testing.assert_array_equal(other.to_host(other.offsets()), offsets)
    np.testing.assert_allclose(other.total_weight, 0.25 * case.c.sum(), **EXACT)
    some = np.broadcast_to(other.row_weights(SPOTS), SPOTS.shape)
    np.testing.assert_allclose(some, 0.25 * case.c[0, SPOTS], **EXACT)
    np.testing.assert_allclose(
        other.to_host(other.hessian_product(other.to_vectors(case.direction))),
        (0.25 * case.c * oracle.curvature(z, case.y) * (case.direction @ case.A.T)) @ case.A,
        **EXACT,
    )
    sample = other.sample(20)
    assert sample.problem.loss == SquaredHinge()
    assert sample.offsets(np.arange(3)).shape == (3,)
    again = case.fused_pass(case.coef)
    np.testing.assert_allclose(again[0], before[0], **EXACT)
    np.testing.assert_allclose(again[1], before[1], **EXACT)
    assert case.engine.offsets() is None


@pytest.mark.parametrize(("loss", "n_outputs"), KINDS, ids=str)
def test_hessian_product_is_that_of_the_rows(make, layout, loss, n_outputs, dtype):
    case = Case(make, loss, n_outputs, layout, dtype)
    case.fused_pass(case.coef)
    case.engine.accept()
    z = case.coef @ case.A.T
    exact = case.curvature_products(z, case.direction @ case.A.T) @ case.A
    np.testing.assert_allclose(case.hessian_product(case.direction), exact, **EXACT)


@pytest.mark.parametrize(("loss", "n_outputs"), KINDS, ids=str)
def test_own_curvatures_are_the_diagonal_of_the_rows_hessians(make, loss, n_outputs):
    case = Case(make, loss, n_outputs)
    case.fused_pass(case.coef)
    case.engine.accept()
    z = case.coef @ case.A.T
    exact = [
        case.curvature_products(z, unit[:, None])[k] for k, unit in enumerate(np.eye(n_outputs))
    ]
    found = case.engine.to_host(own_curvatures(case.engine))
    np.testing.assert_allclose(found, exact, **EXACT)
    np.testing.assert_array_equal(own_curvatures(case.engine, SPOTS), found[:, SPOTS])


def test_squares_of_the_columns_are_weighted(make, layout, dtype):
    case = Case(make, Squared(), 2, layout, dtype)
    weights = np.random.default_rng(0).random((2, 60))
    found = case.engine.weighted_squares(case.engine.to_rows(weights))
    tolerance = dict(rtol=1e3 * rounding(dtype), atol=1e3 * rounding(dtype))
    np.testing.assert_allclose(case.engine.to_host(found), weights @ case.X**2, **tolerance)


def test_gram_matrices_of_some_columns_are_weighted(make, layout, dtype):
    case = Case(make, Squared(), 2, layout, dtype)
    engine, columns = case.engine, np.array([1, 4, 8])
    engine.block_entries = 80  # several blocks of rows
    weights = np.random.default_rng(0).random((2, 60)) * (np.arange(60) % 3 > 0)
    found = engine.column_grams(engine.to_rows(columns), engine.to_rows(weights))
    A = case.A[:, [*columns, -1]]
    tolerance = dict(rtol=1e3 * rounding(dtype), atol=1e3 * rounding(dtype))
    for gram, own in zip(engine.to_host(found), weights, strict=True):
        np.testing.assert_allclose(gram, A.T @ (own[:, None] * A), **tolerance)


def test_few_rows_come_as_they_are(make, layout, dtype):
    case = Case(make, Squared(), 2, layout, dtype)
    engine = case.engine
    factors = np.arange(8.0).reshape(2, 4)
    sums = engine.to_host(engine.weighted_rows(SPOTS, factors))
    np.testing.assert_allclose(sums, factors @ case.X[SPOTS])
    np.testing.assert_array_equal(engine.to_host(engine.dense_rows(slice(3, 99))), case.X[3:])
    taken = engine.dense_rows(engine.to_rows(SPOTS))
    np.testing.assert_array_equal(engine.to_host(taken), case.X[SPOTS])
    rows = engine.host_rows()
    np.testing.assert_array_equal(rows.toarray() if issparse(rows) else rows, case.X)


@pytest.mark.parametrize("weights", ["none", "each row", "each row and output"])
def test_sample_is_the_cpus_and_stands_for_all_rows(make, layout, weights):
    cases = [Case(m, Squared(), 2, layout, weights=weights, shape=(400, 6)) for m in (on_cpu, make)]
    samples = [case.engine.sample(100) for case in cases]
    for case, sample in zip(cases, samples, strict=True):
        assert sample.rows_per_row == pytest.approx(400 / 104)
        assert sample.n_rows == 104
        assert sample.n_stored == samples[0].n_stored
        assert 0.8 < sample.total_weight / case.engine.total_weight < 1.25
    first, *others = (
        sample.to_host(sample.fused_pass(sample.to_vectors(cases[0].coef))[1]) for sample in samples
    )
    for other in others:
        np.testing.assert_allclose(other, first, **EXACT)


def test_numbers_that_are_not_finite_are_found(make, layout):
    case = Case(make, Squared(), 1, layout)
    case.engine.check_finite()
    if layout != "ones":
        X = case.X.copy()
        X[3, np.flatnonzero(X[3])[0]] = np.nan
        dataset = Dataset(matrix_of(X, layout), case.y[0], None, 1.0)
        # Stores refuse them when they are written.
        error = ValueError if make in (on_store, streamed_to_gpu) else NonFiniteError
        with pytest.raises(error, match="expected finite"):
            make(Problem(Squared()), dataset).check_finite()


def test_rows_too_long_for_a_block_are_read_twice(dtype):
    small = StrictDevice(shared_bytes_per_block=4096)
    for loss, n_outputs in KINDS:
        case = Case(on_emulated_gpu, loss, n_outputs, dtype=dtype, shape=(60, 300), device=small)
        value, gradient, _ = case.fused_pass(case.coef)
        case.engine.accept()
        z, exact, slopes = case.at(case.coef)
        np.testing.assert_allclose(value, exact, **EXACT)
        np.testing.assert_allclose(gradient, slopes @ case.A, **EXACT)
        np.testing.assert_allclose(
            case.engine.curvatures(SPOTS), case.curvatures(z)[:, SPOTS], **EXACT
        )


@pytest.mark.parametrize("layout", ["sparse", "ones"])
@pytest.mark.parametrize(("loss", "n_outputs"), KINDS, ids=str)
def test_equal_passes_of_a_gpu_give_equal_bits(layout, loss, n_outputs):
    found = set()
    for seed, n_workers in ((0, 1), (3, 4), (4, 3)):
        device = StrictDevice(3, 2, seed=seed, n_workers=n_workers)
        engine = (case := Case(on_emulated_gpu, loss, n_outputs, layout, device=device)).engine
        value, gradient, stiffness = engine.fused_pass(case.coef, wants_stiffness=True)
        engine.accept()
        numbers = np.array([value, stiffness])
        arrays = (numbers, gradient, engine.hessian_product(case.direction))
        found.add(b"".join(array.tobytes() for array in arrays))
    assert len(found) == 1


def test_entries_stored_twice_are_added_up(make):
    values = np.array([1.0, 2.0, 4.0, 8.0])
    indptr, indices = np.array([0, 3, 4], np.int32), np.array([1, 0, 1, 2], np.int32)
    matrix = CompressedMatrix(indptr, indices, 3, values)
    engine = make(Problem(Squared()), Dataset(matrix, np.zeros(2), None, 1.0))
    X = np.array([[2.0, 5.0, 0.0], [0.0, 0.0, 8.0]])
    np.testing.assert_array_equal(engine.to_host(engine.dense_rows(slice(None))), X)
    coef = np.array([[1.0, 2.0, 3.0, 0.0]])
    _, gradient, _ = engine.fused_pass(engine.to_vectors(coef))
    np.testing.assert_allclose(engine.to_host(gradient)[0, :3], X.T @ (X @ coef[0, :3]))


@pytest.mark.parametrize(
    ("indptr", "indices", "says"),
    [
        ([0, 1, 2], [0, 3], r"column indices must lie in \[0, 3\), got 3"),
        ([0, 1, 2], [-1, 0], r"column indices must lie in \[0, 3\), got -1"),
        ([0, 2, 1], [0, 1], "indptr must not decrease"),
        ([1, 1, 2], [0, 1], "indptr must start with 0, got 1"),
        ([0, 1, 3], [0, 1], "indptr ends at 3, but only 2 indices are stored"),
    ],
)
def test_indices_that_lead_outside_are_refused(make, indptr, indices, says):
    arrays = np.array(indptr, np.int32), np.array(indices, np.int32)
    dataset = Dataset(CompressedMatrix(*arrays, 3, np.ones(2)), np.ones(2), None, 1.0)
    with pytest.raises(ValueError, match=says):
        make(Problem(Squared()), dataset)


@pytest.mark.parametrize("label", [-1.0, 3.0, np.nan])
def test_class_numbers_outside_the_classes_are_refused(make, label):
    dataset = Dataset(DenseMatrix(np.ones((2, 2))), np.array([0.0, label]), None, 1.0)
    with pytest.raises(ValueError, match="labels: expected class numbers below 3"):
        make(Problem(Softmax(3)), dataset)


def test_engines_differ_in_nothing_that_solvers_ask_for():
    first, second = (Case(m, Logistic(), 1, "sparse").engine for m in (on_cpu, on_emulated_gpu))
    for name in ("dtype", "n_rows", "n_features", "n_stored", "n_outputs", "is_single",
                 "bias_column", "rows_per_row", "is_sparse", "problem"):  # fmt: skip
        assert getattr(first, name) == getattr(second, name), name
    assert second.description == "emulated device"


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_only_long_vectors_are_on_the_device(n_outputs):
    where = []
    for n_features in (32_767 // n_outputs - 1, 32_768 // n_outputs):
        matrix = CompressedMatrix(np.zeros(2, np.int32), np.zeros(0, np.int32), n_features)
        problem = Problem(Softmax(n_outputs) if n_outputs > 1 else Squared())
        engine = on_emulated_gpu(problem, Dataset(matrix, np.zeros(1), None, 1.0))
        where.append(engine.vectors)
    assert where == [np, engine.xp]
