"""What working-set descent asks of an engine, on every engine, against plain NumPy."""

import gc
import weakref

import numpy as np
import pytest
from kernels.emulator.strict_arrays import DeviceArray, StrictDevice
from reference.data import make_labels, make_rows, make_weights
from reference.losses import ORACLES
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Penalty, Problem, Squared, SquaredHinge
from snapml.solvers.columns import cpu_column_engine, gpu_column_set, gpu_columns
from snapml.solvers.columns.gpu_columns import GpuColumns
from snapml.solvers.columns.gram_set import GramSet
from snapml.solvers.concurrency import Concurrency
from snapml.solvers.quadratic_model import Model
from snapml.solvers.range_checks import NonFiniteError

from .column_engines import ENGINES

LAYOUTS = ["dense", "csr", "implicit", "twice"]
SCALING = 2.0
EXACT = dict(rtol=1e-10, atol=1e-12)

engines = pytest.mark.parametrize("engine", ENGINES)
layouts = pytest.mark.parametrize("layout", LAYOUTS)
kinds = pytest.mark.parametrize("intercept", Intercept, ids=lambda kind: kind.value)


class Case:
    """An engine, and its data in plain arrays; `X` has the intercept's column where it is one."""

    def __init__(
        self, engine, layout="dense", intercept=Intercept.FREE, loss=None, dtype="float64"
    ):
        loss = loss or Logistic()
        X = make_rows(60, 9, density=1.0 if layout == "dense" else 0.4).astype(dtype)
        X = (X != 0).astype(dtype) if layout == "implicit" else X
        y = make_labels(X, labels=loss.labels)
        self.y, self.c = y.astype(dtype), make_weights(60).astype(dtype)
        problem = Problem(loss, intercept, SCALING, Penalty(0.5, 0.1))
        dataset = Dataset(self._matrix(X, layout), self.y, self.c, 1.0)
        self.engine = ENGINES[engine](problem, dataset)
        self.oracle = ORACLES[loss.core_name]
        constant = [np.full((60, 1), SCALING)] if intercept is Intercept.PENALISED else []
        self.X = np.hstack([X.astype(np.float64), *constant])
        self.is_free = intercept is Intercept.FREE

    def _matrix(self, X, layout):
        if layout == "dense":
            return DenseMatrix(X)
        stored = csr_matrix(X)
        parts = [stored.indptr, stored.indices, X.shape[1], stored.data]
        if layout == "implicit":
            parts = [*parts[:3], None, X.dtype]
        elif layout == "twice":  # every entry as the sum of two
            quarter = stored.data.repeat(2) * np.tile([0.25, 0.75], stored.nnz).astype(X.dtype)
            parts = [2 * stored.indptr, stored.indices.repeat(2), X.shape[1], quarter]
        return CompressedMatrix(*parts)

    def rows(self, array):
        """Return a vector over the rows where the engine keeps its rows."""
        device = getattr(self.engine, "device", None)
        return array.copy() if device is None else device.to_device(array)

    def host(self, array):
        device = getattr(self.engine, "device", None)
        return array if device is None else device.to_host(array)

    def gram(self, h, columns):
        X = self.X[:, columns]
        X = X - h @ X / h.sum() if self.is_free else X
        return (X.T * h) @ X


def numbers(size, seed=0):
    return np.random.default_rng(seed).normal(size=size)


@engines
@layouts
@kinds
def test_products_are_those_of_the_matrix(engine, layout, intercept):
    case = Case(engine, layout, intercept)
    w, v = numbers(case.X.shape[1]), numbers(60, 1)
    np.testing.assert_allclose(case.host(case.engine.product(w)), case.X @ w, **EXACT)
    np.testing.assert_allclose(case.engine.adjoint(case.rows(v)), case.X.T @ v, **EXACT)
    sums, squares = case.engine.moments()
    np.testing.assert_allclose(sums, case.X.T @ case.c, **EXACT)
    np.testing.assert_allclose(squares, (case.X**2).T @ case.c, **EXACT)
    columns, entries = case.engine.row(7)
    row = np.zeros(9)
    np.add.at(row, columns, entries)
    np.testing.assert_allclose(row, case.X[7, :9], **EXACT)
    assert case.engine.total_weight == pytest.approx(case.c.sum())
    assert (case.engine.n_cols, case.engine.is_sparse) == (case.X.shape[1], layout != "dense")


@engines
def test_float32_rows_are_added_up_in_float64(engine):
    case = Case(engine, dtype="float32")
    w, v = numbers(9), numbers(60, 1)
    np.testing.assert_allclose(case.host(case.engine.product(w)), case.X @ w, **EXACT)
    np.testing.assert_allclose(case.engine.adjoint(case.rows(v)), case.X.T @ v, **EXACT)


@engines
@pytest.mark.parametrize("loss", [Squared(), Logistic(), SquaredHinge()], ids=lambda o: o.core_name)
def test_losses_and_their_derivatives_are_the_oracles(engine, loss):
    case = Case(engine, loss=loss)
    z = numbers(60)
    filled = [case.rows(np.full(60, np.nan)) for _ in range(2)]
    sums = case.engine.loss_sums(case.rows(z), 0.25, *filled)
    at = z + 0.25, case.y
    expected = [case.c * f(*at) for f in (case.oracle.gradient, case.oracle.curvature)]
    for found, exact in zip(filled, expected, strict=True):
        np.testing.assert_allclose(case.host(found), exact, **EXACT)
    value = case.c @ case.oracle.value(*at)
    np.testing.assert_allclose(sums, [value, *(exact.sum() for exact in expected)], **EXACT)
    used = case.c > 0
    c, g = case.c[used], expected[0][used]
    terms = -c @ case.oracle.conjugate(0.5 * g / c, case.y[used])
    assert case.engine.dual_terms(filled[0], 0.5) == pytest.approx(terms, rel=1e-10)


@pytest.fixture(params=["gram", "columns"])
def way(request, monkeypatch):
    """How sets are minimised on."""
    if request.param == "columns":
        for module in (cpu_column_engine, gpu_columns):
            monkeypatch.setattr(module, "_MOST_GRAM_COLUMNS", 0)
            monkeypatch.setattr(module, "_MOST_SPARSE_GRAM", 0)
    return request.param


@engines
@layouts
@kinds
def test_working_set_multiplies_with_its_columns(engine, layout, intercept, way):
    case = Case(engine, layout, intercept)
    for chosen in ([1, 4, 5, 8], [0, 1, 4, 5, 8], range(9), range(case.X.shape[1])):
        columns = case.engine.working_set(np.array(chosen))
        assert set(chosen) <= set(columns.columns)
        X = case.X[:, columns.columns]
        w, v = numbers(X.shape[1]), numbers(60, 1)
        np.testing.assert_allclose(case.host(columns.product(w)), X @ w, **EXACT)
        np.testing.assert_allclose(columns.adjoint(case.rows(v)), X.T @ v, **EXACT)
    assert columns.is_most_of_data


@pytest.mark.parametrize("layout", ["dense", "csr"])
@kinds
def test_models_of_the_gpu_are_minimised_where_the_cpus_are(layout, intercept):
    found = {}
    for engine in ENGINES:
        case = Case(engine, layout, intercept)
        h = case.c * 0.25
        slopes = 3.0 * numbers(case.X.shape[1])
        model = Model(slopes, case.rows(case.c * 0.1), case.rows(h), Penalty(0.5, 0.1))
        columns = case.engine.working_set(np.arange(len(slopes)))
        found[engine] = columns.minimise(model, np.zeros(len(slopes)), 1e-12)
    np.testing.assert_allclose(found["gpu-emulated"], found["cpu"], rtol=1e-6, atol=1e-8)
    assert np.any(found["cpu"])


@engines
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_set_of_the_constant_column_alone(engine, layout, way):
    case = Case(engine, layout, Intercept.PENALISED)
    columns, h = case.engine.working_set(np.array([9])), np.full(60, 0.25)
    np.testing.assert_allclose(case.host(columns.product(np.ones(1))), SCALING, **EXACT)
    model = Model(np.ones(1), case.rows(0.1 * h), case.rows(h), Penalty(0.5, 0.0))
    found = columns.minimise(model, np.zeros(1), 1e-12)
    np.testing.assert_allclose(found, -0.5 / (h.sum() * SCALING**2), **EXACT)


@layouts
@kinds
def test_gram_matrix_of_the_device_is_exact_and_grows(layout, intercept, monkeypatch):
    monkeypatch.setattr("snapml.solvers.columns.gpu_packed.BLOCK_ENTRIES", 100)
    case = Case("gpu-emulated", layout, intercept)
    h = np.random.default_rng(0).uniform(0.1, 1.0, 60)
    for chosen in ([1, 4], [1, 4, 6, case.X.shape[1] - 1]):
        columns = case.engine.working_set(np.array(chosen))
        assert isinstance(columns, GramSet)
        gram = columns._gram_for(Model(np.empty(0), None, case.rows(h), Penalty()))
        np.testing.assert_allclose(gram, case.gram(h, columns.columns), **EXACT)


@layouts
@kinds
def test_columns_of_the_device_say_curvatures_counts_and_gram(layout, intercept, monkeypatch):
    monkeypatch.setattr(gpu_columns, "_MOST_GRAM_COLUMNS", 0)
    monkeypatch.setattr(gpu_columns, "_MOST_SPARSE_GRAM", 0)
    case = Case("gpu-emulated", layout, intercept)
    chosen = np.array([0, 2, 3, 7, case.X.shape[1] - 1])
    columns, h = case.engine.working_set(chosen), numbers(60) ** 2
    X = case.X[:, chosen]
    np.testing.assert_allclose(columns.squares(case.rows(h)), h @ X**2, **EXACT)
    counts = np.full(5, 60) if layout == "dense" else (X != 0).sum(axis=0)
    np.testing.assert_array_equal(columns.counts(), counts)
    kept = np.array([1, 3, 4])
    gram = columns.gram(kept, Model(np.empty(0), None, case.rows(h), Penalty()))
    np.testing.assert_allclose(gram, case.gram(h, chosen[kept]), **EXACT)
    w = numbers(5)
    product = columns.hessian_product(w, 0.5, case.rows(h))
    np.testing.assert_allclose(product, X.T @ (h * (X @ w + 0.5)), **EXACT)


class Ruthless(Concurrency):
    """All columns at once, and no shorter steps whatever happens."""

    is_safest = True

    def __init__(self, rows, coupling):
        super().__init__(9, 0.0)

    def learn(self, needed):
        pass


@pytest.mark.parametrize("is_damped", [True, False])
def test_parallel_columns_are_descended_on_by_short_steps_only(monkeypatch, is_damped):
    """Undamped steps of parallel columns overshoot; the value of the model then rises."""
    monkeypatch.setattr(gpu_columns, "_MOST_GRAM_COLUMNS", 0)
    if not is_damped:
        monkeypatch.setattr(gpu_column_set, "Concurrency", Ruthless)
    monkeypatch.setattr(gpu_column_set, "rows_in_flight", lambda *_: 9)
    X = np.repeat(numbers(60).reshape(-1, 1), 9, axis=1) + 0.1 * numbers((60, 9), 1)
    problem = Problem(Squared(), Intercept.NONE, penalty=Penalty(0.1, 0.0))
    dataset = Dataset(DenseMatrix(X), X.sum(axis=1), None, 1.0)
    engine = GpuColumns(problem, dataset, StrictDevice())
    h = engine.device.to_device(np.ones(60))
    columns = engine.working_set(np.arange(9))
    slopes, gram = -X.T @ X.sum(axis=1), X.T @ X
    model = Model(slopes, h, h, problem.penalty)
    descent = columns.descent(model)

    class Around:
        penalty, total, squares = problem.penalty, 0.0, np.diag(gram).copy()
        start_penalty = 0.0

        def hessian_product(self, step):
            return gram @ step

    found, gradient = np.zeros(9), slopes
    value = 0.0
    for _ in range(3):
        _, gradient = descent.sweep(Around(), found, gradient, None, 2, 0.0)
        np.testing.assert_allclose(gradient, slopes + gram @ found, rtol=1e-9, atol=1e-9)
        after = slopes @ found + 0.5 * found @ gram @ found + 0.1 * np.abs(found).sum()
        assert (after < value) == is_damped  # what does not fall is undone
        value = after
    if is_damped:
        assert columns.concurrency[True].sigma > 2.0
    else:
        assert not found.any()


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_entries_that_are_not_finite_are_refused(layout):
    for bad in (np.nan, np.inf):
        X = make_rows(20, 4, density=1.0)
        X[3, 2] = bad
        stored = csr_matrix(X)
        parts = stored.indptr, stored.indices, 4, stored.data
        matrix = DenseMatrix(X) if layout == "dense" else CompressedMatrix(*parts)
        engine = GpuColumns(
            Problem(Squared()), Dataset(matrix, np.ones(20), None, 1.0), StrictDevice()
        )
        with pytest.raises(NonFiniteError):
            engine.adjoint(engine.device.to_device(np.ones(20)))


@pytest.mark.parametrize("is_gram", [True, False])
def test_device_memory_goes_with_the_engine(monkeypatch, is_gram):
    if not is_gram:
        monkeypatch.setattr(gpu_columns, "_MOST_SPARSE_GRAM", 0)
    case = Case("gpu-emulated", "csr")
    engine = case.engine
    h = engine.device.to_device(np.ones(60))
    columns = engine.working_set(np.arange(4))
    columns.minimise(Model(np.ones(4), h, h, Penalty(0.1)), np.zeros(4), 1.0)
    rows = engine._all.rows.values
    assert isinstance(rows, DeviceArray)
    left = weakref.ref(rows)
    gc.disable()
    try:
        del case, engine, columns, rows, h
        assert left() is None
    finally:
        gc.enable()
