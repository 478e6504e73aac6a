"""X on an emulated GPU: trained where it is, predictions in its library, and errors that help.

The oracle is the same fit of rows on the host that are copied to the device: the same bits.
"""

import gc
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from kernels.emulator.foreign_arrays import (
    Array,
    Bfloat16Array,
    Csc,
    Csr,
    Frame,
    Interface,
    Series,
    Tensor,
)
from kernels.emulator.memory import watched
from kernels.emulator.strict_arrays import DeviceArray, StrictDevice
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.base import clone

import snapml
from snapml import (
    ElasticNet,
    Lasso,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from snapml.kernels.device import device_arrays
from snapml.searches.shared import fits as shared_fits
from snapml.solvers.plan import device_choice

from .conftest import run_python

DENSE = {"CuPy": DeviceArray, "DLPack": Tensor, "read-only": Array, "interface": Interface}
SPARSE = {"CSR": Csr, "CSC": Csc}


class WatchedDevice(StrictDevice):
    """Keeps the shapes of what is copied to and from it."""

    def __init__(self):
        super().__init__()
        self.copied = []

    def to_device(self, array):
        self.copied.append(array.shape)
        return super().to_device(array)

    def to_host(self, array, out=None):
        self.copied.append(array.shape)
        return super().to_host(array, out)


@pytest.fixture
def devices(monkeypatch):
    """Emulated devices by number, made as they are asked for."""
    made = {}

    def make(number):
        return made.setdefault(number, WatchedDevice())

    monkeypatch.setattr(device_choice, "make_device", make)
    monkeypatch.setattr(device_arrays, "pointer_device", lambda pointer: 0)
    return made


def example(dtype=np.float64, n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    y = (X[:, :n_classes] + 0.3 * rng.normal(size=(150, n_classes))).argmax(axis=1)
    return X.astype(dtype), y


def sparse_example(dtype=np.float64, n_classes=2):
    X, y = example(dtype, n_classes)
    return csr_matrix(X * (np.random.default_rng(1).random(X.shape) < 0.5)), y


def values(array):
    """Return what a foreign array holds."""
    return array if isinstance(array, np.ndarray) else array._data


MODELS = {
    "logistic": (LogisticRegression(), 2),
    "unpenalised": (LogisticRegression(C=np.inf), 2),
    "liblinear": (LogisticRegression(solver="liblinear", tol=1e-6), 2),
    "multinomial": (LogisticRegression(class_weight="balanced"), 3),
    "one against the rest": (LogisticRegression(multi_class="ovr"), 3),
    "logistic ascent": (LogisticRegression(solver="sdca", C=0.01, tol=1e-2), 2),
    "squared hinges": (LinearSVC(class_weight="balanced"), 3),
    "hinge": (LinearSVC(loss="hinge", C=0.01, tol=1e-2), 2),
    "ridge": (Ridge(tol=1e-6), 3),
    "ridge classifier": (RidgeClassifier(tol=1e-6), 3),
    "l1": (LogisticRegression(l1_ratio=1.0), 2),
    "l1 squared hinges": (LinearSVC(penalty="l1"), 3),
    "positive": (Ridge(positive=True), 2),
    "lasso": (Lasso(alpha=0.01), 2),
    "elastic net": (ElasticNet(alpha=0.01), 2),
}


@pytest.mark.parametrize("kind", [*DENSE, *SPARSE])
@pytest.mark.parametrize("name", MODELS)
def test_model_has_the_bits_of_rows_copied_from_the_host(devices, name, kind):
    model, n_classes = MODELS[name]
    X, y = (sparse_example if kind in SPARSE else example)(np.float64, n_classes)
    expected = clone(model).set_params(device_ids=[0]).fit(X, y)
    model = clone(model).fit({**DENSE, **SPARSE}[kind](X), y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.intercept_, expected.intercept_)
    assert (model.gap_, model.objective_) == (expected.gap_, expected.objective_)
    assert model.solver_ == expected.solver_
    assert model.n_features_in_ == 6
    assert type(model.coef_) is np.ndarray


@pytest.mark.parametrize(
    ("family", "link"),
    [("poisson", "log"), *(("binomial", link) for link in ("logit", "probit", "cloglog"))],
)
def test_means_are_those_of_the_host(devices, family, link):
    X, y = example()
    labels = (y == y.max()).astype(float)
    model = snapml.GeneralizedLinearRegressor(family=family, link=link, alpha=0.1).fit(X, labels)
    found = model.predict(DeviceArray(X))
    assert type(found) is DeviceArray
    np.testing.assert_allclose(values(found), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_folds_of_counts_are_taken_where_rows_are(devices, ratio):
    X, y = example()
    made = snapml.GeneralizedLinearRegressorCV(family="poisson", l1_ratio=ratio, n_alphas=4, cv=3)
    expected = clone(made).fit(X, y)
    found = clone(made).fit(DeviceArray(X), y)
    np.testing.assert_allclose(found.alphas_, expected.alphas_, rtol=1e-9)
    np.testing.assert_allclose(found.deviance_path_, expected.deviance_path_, rtol=1e-3)
    np.testing.assert_allclose(values(found.predict(DeviceArray(X))), found.predict(X))


@pytest.mark.parametrize("make", [lambda X: X, np.asfortranarray, lambda X: X[:, ::-1]])
def test_rows_stay_where_they_are(devices, make):
    X, y = example()
    before = X.copy()
    resident = DeviceArray(make(X))
    model = LogisticRegression().fit(resident, y)
    model.predict_proba(resident)
    assert X.shape not in devices[0].copied
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("kind", DENSE)
def test_c_order_is_used_in_place(devices, monkeypatch, kind):
    X, y = example()
    resident = DENSE[kind](X)
    seen = []
    monkeypatch.setattr(
        device_choice, "fit", lambda problem, dataset, *_: seen.append(dataset) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        LogisticRegression().fit(resident, y)
    assert np.shares_memory(values(seen[0].matrix.rows.values), values(resident))


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_rows_stay_where_they_are(devices, kind):
    X, y = sparse_example()
    resident = SPARSE[kind](X)
    before = X.copy()
    model = LogisticRegression(deterministic=False).fit(resident, y)
    model.predict(resident)
    assert (X.nnz,) not in devices[0].copied
    assert abs(X - before).nnz == 0


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int64, np.uint16, bool])
def test_other_numbers_become_float64_on_the_device(devices, dtype):
    X, y = example()
    X = (3 * X).astype(dtype)
    expected = LogisticRegression(device_ids=[0]).fit(X, y)
    model = LogisticRegression().fit(Tensor(X), y)
    assert model.coef_.dtype == np.float64
    np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_float32_stays_float32(devices):
    X, y = example(np.float32)
    model = LogisticRegression().fit(Tensor(X), Tensor(y))
    assert model.coef_.dtype == np.float32
    assert model.decision_function(Tensor(X)).dtype == np.float32


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("model", [LogisticRegression(), MODELS["hinge"][0]], ids=str)
def test_entries_in_any_order_stored_twice_are_added_up(devices, index, model):
    X, y = sparse_example()
    rng = np.random.default_rng(2)
    twice = coo_matrix((np.tile(X.data / 2, 2), [np.tile(i, 2) for i in X.nonzero()]), X.shape)
    order = np.lexsort((rng.random(twice.nnz), twice.row))
    indptr = np.searchsorted(twice.row[order], np.arange(X.shape[0] + 1)).astype(index)
    unsorted = csr_matrix((X.shape[0], X.shape[1]))
    unsorted.data, unsorted.indptr = twice.data[order], indptr
    unsorted.indices = twice.col[order].astype(index)
    expected = clone(model).set_params(device_ids=[0], max_iter=10_000).fit(X, y)
    model = clone(model).set_params(max_iter=10_000).fit(Csr(unsorted), y)
    tolerance = 2 * model.tol
    assert model.objective_ == pytest.approx(expected.objective_, rel=tolerance)
    assert model.gap_ <= model.tol * model.objective_
    np.testing.assert_allclose(
        values(model.decision_function(Csr(unsorted))), X @ model.coef_[0] + model.intercept_
    )


@pytest.mark.parametrize("where", [Tensor, np.asarray], ids=["on the device", "on the host"])
def test_labels_and_weights_may_be_on_the_host_or_beside_x(devices, where):
    X, y = example()
    weights = np.random.default_rng(3).random(len(y))
    expected = LogisticRegression(device_ids=[0]).fit(X, y, weights)
    model = LogisticRegression().fit(Tensor(X), where(y), where(weights))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.score(Tensor(X), where(y), where(weights)) == expected.score(X, y, weights)


def test_several_targets_and_labels(devices):
    X, y = example(n_classes=3)
    targets = np.column_stack([X[:, 0], X @ np.arange(6.0), y])
    expected = Ridge(tol=1e-6, device_ids=[0]).fit(X, targets)
    model = Ridge(tol=1e-6).fit(Tensor(X), Tensor(targets))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert values(model.predict(Tensor(X))).shape == targets.shape
    assert model.score(Tensor(X), Tensor(targets)) == pytest.approx(expected.score(X, targets))
    labels = (targets > 0).astype(np.int64)
    model = RidgeClassifier(tol=1e-6).fit(Tensor(X), Tensor(labels))
    found = model.predict(Tensor(X))
    np.testing.assert_array_equal(values(found), model.predict(X))
    assert isinstance(found, Tensor)


@pytest.mark.parametrize("where", [DeviceArray, Tensor, Array])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["auto", "ovr"])
def test_predictions_are_of_the_inputs_library(devices, where, n_classes, multi_class):
    X, y = example(n_classes=n_classes)
    model = LogisticRegression(multi_class=multi_class).fit(X, y + 1.0)
    for name in ("decision_function", "predict_proba", "predict_log_proba"):
        found = getattr(model, name)(where(X))
        assert type(found) is where
        expected = getattr(model, name)(X)
        np.testing.assert_allclose(values(found), expected, rtol=1e-12, atol=1e-12)
        assert values(found).dtype == expected.dtype
    found = model.predict(where(X))
    assert type(found) is where
    np.testing.assert_array_equal(values(found), model.predict(X))


def test_subclasses_have_the_library_of_their_base(devices):
    class Parameter(Tensor):
        __module__ = "users"

    X, y = example()
    assert type(LogisticRegression().fit(X, y).predict(Parameter(X))) is Tensor


@pytest.mark.parametrize("make", [Csr, Csc, Interface, lambda X: Frame(X)])
def test_predictions_for_what_has_no_dlpack_are_cupys(devices, make):
    X, y = sparse_example() if make in (Csr, Csc) else example()
    model = LogisticRegression().fit(X, y)
    found = model.predict_proba(make(X))
    assert type(found) is DeviceArray
    np.testing.assert_allclose(values(found), model.predict_proba(X), rtol=1e-12)


def test_names_of_classes_come_back_as_numpys(devices):
    X, y = example()
    y = np.array(["no", "yes"])[y]
    model = LogisticRegression().fit(Tensor(X), y)
    found = model.predict(Tensor(X))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, model.predict(X))
    assert model.score(Tensor(X), y) == model.score(X, y)


@pytest.mark.parametrize(
    "model",
    [
        RidgeCV(),
        RidgeClassifierCV(),
        snapml.Lasso(alpha=0.1),
        snapml.LinearRegression(),
        LinearSVC(),
    ],
    ids=str,
)
def test_models_of_the_host_predict_on_the_device(devices, model):
    X, y = example()
    model = clone(model).fit(X, y)
    found = model.predict(Tensor(X))
    assert type(found) is Tensor
    np.testing.assert_allclose(values(found), model.predict(X), rtol=1e-12, atol=1e-12)
    assert model.score(Tensor(X), Tensor(y)) == pytest.approx(model.score(X, y), rel=1e-12)
    assert X.shape not in devices[0].copied


def test_sparsified_models_predict_on_the_device(devices):
    X, y = example()
    model = LogisticRegression().fit(X, y).sparsify()
    np.testing.assert_array_equal(values(model.predict(Tensor(X))), model.predict(X))


def test_cross_validation_takes_the_rows_of_its_folds_on_the_device(devices):
    X, y = example()
    weights = np.random.default_rng(3).random(len(y))
    chosen = dict(l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False)
    made = LogisticRegressionCV(Cs=[0.1, 1.0], cv=2, **chosen)
    expected = clone(made).set_params(device_ids=[0]).fit(X, y, weights)
    model = clone(made).fit(Tensor(X), Tensor(y), Tensor(weights))
    np.testing.assert_array_equal(model.coefs_paths_, expected.coefs_paths_)
    np.testing.assert_allclose(model.scores_, expected.scores_, rtol=1e-12)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.score(Tensor(X), Tensor(y)) == pytest.approx(expected.score(X, y), rel=1e-12)
    assert model.C_ == expected.C_


@pytest.mark.parametrize("make", [Tensor, Csr], ids=["dense", "sparse"])
def test_folds_of_cross_validation_share_reads_of_rows_where_they_are(devices, make, monkeypatch):
    X, y = (sparse_example if make is Csr else example)()
    seen = []
    whole = shared_fits.device_products

    def counted(device, matrix):
        seen.append((device, matrix.device_id))
        return whole(device, matrix)

    monkeypatch.setattr(shared_fits, "device_products", counted)
    chosen = dict(l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False)
    LogisticRegressionCV(Cs=[0.1, 1.0], cv=2, **chosen).fit(make(X), y)
    assert seen == [(devices[0], 0)]
    assert X.shape not in devices[0].copied


@pytest.mark.parametrize("make", [Tensor, Csr], ids=["dense", "sparse"])
def test_cross_validation_refuses_rows_that_are_no_numbers(devices, make):
    X, y = (sparse_example if make is Csr else example)()
    (X.data if make is Csr else X[3])[:1] = np.nan
    chosen = dict(l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False)
    with pytest.raises(ValueError, match="NaN"):
        LogisticRegressionCV(Cs=[0.1, 1.0], cv=2, **chosen).fit(make(X), y)


def test_warm_start_goes_on_from_the_last_model(devices):
    X, y = example()
    model = LogisticRegression(warm_start=True).fit(Tensor(X), y)
    n_iter = model.n_iter_[0]
    assert model.fit(Tensor(X), y).n_iter_[0] < n_iter


def test_frames_have_names(devices):
    X, y = example()
    frame = Frame(X, columns=list("abcdef"))
    model = LogisticRegression().fit(frame, Series(y))
    np.testing.assert_array_equal(model.feature_names_in_, list("abcdef"))
    np.testing.assert_array_equal(model.coef_, LogisticRegression(device_ids=[0]).fit(X, y).coef_)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(Frame(X, columns=list("abcdeg")))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(Tensor(X))


@pytest.mark.parametrize("kind", [*DENSE, *SPARSE])
@pytest.mark.parametrize("model", [LogisticRegression(), MODELS["hinge"][0]], ids=str)
def test_fitted_models_hold_no_array_of_a_device(devices, kind, model):
    X, y = sparse_example() if kind in SPARSE else example()
    model = clone(model).fit({**DENSE, **SPARSE}[kind](X), y)
    text = pickle.dumps(model)
    assert b"strict_arrays" not in text
    assert b"snapml.kernels" not in text
    copy = pickle.loads(text)
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert not hasattr(clone(model), "coef_")


@pytest.mark.parametrize("kind", [*DENSE, *SPARSE])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_as_on_the_host(devices, kind, bad):
    X, y = sparse_example() if kind in SPARSE else example()
    model = LogisticRegression().fit(X, y)
    (X.data if kind in SPARSE else X[3])[2] = bad
    resident = {**DENSE, **SPARSE}[kind](X)
    for act in (lambda X: clone(model).fit(X, y), lambda X: model.predict(X)):
        with pytest.raises(ValueError, match="contains") as expected:
            act(X)
        with pytest.raises(ValueError, match="contains") as found:
            act(resident)
        assert str(found.value) == str(expected.value)


def test_finite_rows_whose_margins_overflow_are_no_error(devices):
    X, y = example()
    model = LogisticRegression().fit(X, y)
    model.coef_ = np.full_like(model.coef_, 1e300)
    X[0] = 1e300
    found = values(model.decision_function(Tensor(X)))
    assert np.isposinf(found[0])
    np.testing.assert_allclose(found, model.decision_function(X), rtol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X[:0],
        lambda X: X[:, :0],
        lambda X: X[:, :, None],
        lambda X: X[0],
        lambda X: X[:10],
        lambda X: X.astype(complex),
    ],
    ids=["no rows", "no columns", "three axes", "one axis", "fewer rows than y", "complex"],
)
def test_wrong_shapes_are_refused_as_on_the_host(devices, make):
    X, y = example()
    with pytest.raises(ValueError, match=r".") as expected:
        LogisticRegression().fit(make(X), y)
    with pytest.raises(ValueError, match=r".") as found:
        LogisticRegression().fit(Tensor(make(X)), y)
    if make(X).ndim == 2 and make(X).dtype == np.float64:
        assert str(found.value) == str(expected.value)
    else:
        assert "2D" in str(found.value) or "real numbers" in str(found.value)


def test_other_numbers_of_columns_are_refused_as_on_the_host(devices):
    X, y = example()
    model = LogisticRegression().fit(Tensor(X), y)
    with pytest.raises(ValueError, match="X has 5 features, but LogisticRegression is expecting 6"):
        model.predict(Tensor(X[:, :5]))


@pytest.mark.parametrize("y", [None, np.zeros(150), np.linspace(0, 1, 150), np.full(150, np.nan)])
def test_bad_labels_are_refused_as_on_the_host(devices, y):
    X, _ = example()
    with pytest.raises(ValueError, match=r".") as expected:
        LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match=r".") as found:
        LogisticRegression().fit(Tensor(X), y if y is None else Tensor(y))
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("name", ["indices", "indptr"])
@pytest.mark.parametrize("bad", [-1, 10_000])
def test_indices_that_lead_outside_are_refused(devices, kind, name, bad):
    X, y = sparse_example()
    resident = SPARSE[kind](X)
    model = LogisticRegression().fit(X, y)
    getattr(resident, name)[1] = bad
    with pytest.raises(ValueError, match=r"indptr|indices"):
        LogisticRegression().fit(resident, y)
    with pytest.raises(ValueError, match=r"indptr|indices"):
        model.predict(resident)


def test_sparse_matrix_of_another_format_says_what_to_do(devices):
    X, y = sparse_example()
    resident = Csr(X)
    resident.format = "coo"
    with pytest.raises(ValueError, match=r"CSR or CSC.*coo.*X\.tocsr\(\)"):
        LogisticRegression().fit(resident, y)


def test_device_ids_may_name_the_device_of_x_and_no_other(devices):
    X, y = example()
    X = Tensor(X, number=1)
    assert "emulated" in LogisticRegression().fit(X, y).solver_
    LogisticRegression(device_ids=[1]).fit(X, y)
    assert set(devices) == {1}
    for asked in ([0], [0, 1], [1, 2]):
        with pytest.raises(ValueError, match=r"device_ids=.*CUDA device 1.*None or \[1\]"):
            LogisticRegression(device_ids=asked).fit(X, y)
    assert set(devices) == {1}


def test_labels_and_weights_on_another_device_are_refused(devices):
    X, y = example()
    X, elsewhere = Tensor(X), Tensor(y, number=1)
    with pytest.raises(ValueError, match="X is on CUDA device 0, y on CUDA device 1"):
        LogisticRegression().fit(X, elsewhere)
    with pytest.raises(ValueError, match="X is on CUDA device 0, sample_weight on CUDA device 1"):
        LogisticRegression().fit(X, y, elsewhere)


def test_tensors_with_gradients_say_what_to_do(devices):
    X, y = example()
    X = Tensor(X, requires_grad=True)
    with pytest.raises(ValueError, match=r"X: expected a tensor without gradients, X\.detach\(\)"):
        LogisticRegression().fit(X, y)
    LogisticRegression().fit(X.detach(), y)


def test_bfloat16_says_what_to_do(devices):
    X, y = example()
    with pytest.raises(ValueError, match=r"X\.float\(\).*PyTorch.*JAX"):
        LogisticRegression().fit(Bfloat16Array(X), y)


class Sharded(Array):
    """Lies on several devices: JAX exports no such array."""

    platform = "gpu"

    def __dlpack_device__(self):
        raise BufferError("__dlpack__ only supported for unsharded arrays.")

    def devices(self):
        return [SimpleNamespace(platform=self.platform) for _ in range(2)]


class ShardedOnHost(Sharded):
    platform = "cpu"

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._data, dtype)


def test_arrays_on_several_devices_are_refused(devices):
    X, y = example()
    with pytest.raises(ValueError, match=r"one device: .*unsharded"):
        LogisticRegression().fit(Sharded(X), y)
    LogisticRegression().fit(ShardedOnHost(X), y)
    assert devices == {}


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (RidgeCV(), "RidgeCV takes rows of the host in this version: pass {}"),
        (RidgeClassifierCV(), "RidgeClassifierCV takes rows of the host .*pass {}"),
        (snapml.LassoCV(), "LassoCV takes rows of the host .*pass {}"),
        (snapml.LinearRegression(), "LinearRegression takes rows of the host .*pass {}"),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("where", "copy"),
    [
        (DeviceArray, r"cupy\.asnumpy\(X\)"),
        (Tensor, r"X\.detach\(\)\.cpu\(\)"),
        (Array, r"numpy\.asarray\(X\)"),
        (Csr, r"X\.get\(\)"),
        (lambda X: Frame(X), r"X\.to_pandas\(\)"),
    ],
    ids=["CuPy", "PyTorch", "JAX", "sparse", "cuDF"],
)
def test_what_the_device_does_not_train_is_not_moved_to_the_host(devices, model, says, where, copy):
    X, y = sparse_example() if where is Csr else example()
    model = clone(model)
    with pytest.raises(NotImplementedError, match=says.format(copy)):
        model.fit(where(X), y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("function", [snapml.lasso_path, snapml.enet_path])
def test_paths_refuse_what_is_on_a_device(devices, function):
    X, y = example()
    with pytest.raises(NotImplementedError, match="rows of the host"):
        function(Tensor(X), y.astype(float))


def test_arrays_of_other_libraries_on_the_host_are_as_before(devices):
    class OnHost(Tensor):
        def __dlpack_device__(self):
            return (1, 0)

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self._data, dtype)

    X, y = example()
    model = LogisticRegression().fit(OnHost(X), y)
    np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(X, y).coef_)
    assert type(model.predict(OnHost(X))) is np.ndarray
    assert devices == {}


@pytest.mark.parametrize("name", ["logistic", "hinge"])
@pytest.mark.parametrize("kind", ["Fortran order", "CSC"])
def test_nothing_is_left_on_the_device_however_a_fit_ends(devices, name, kind):
    model, _ = MODELS[name]
    X, y = sparse_example() if kind == "CSC" else example()
    bad = X.copy()
    (bad.data if kind == "CSC" else bad[3])[2] = np.nan
    make = Csc if kind == "CSC" else lambda X: DeviceArray(np.asfortranarray(X))
    gc.collect()
    with watched() as memory:
        good, bad = make(X), make(bad)
        users = memory.alive
        model = clone(model).fit(good, y)
        model.predict(good)
        assert memory.peak > users == memory.alive
        errors = []  # as a shell keeps the last
        for act in (lambda: clone(model).fit(bad, y), lambda: model.predict(bad)):
            with pytest.raises(ValueError, match="contains NaN") as raised:
                act()
            errors.append(raised.value)
            assert memory.alive == users
        memory.n_allowed = memory.n_allocations + 4  # after the conversion
        with pytest.raises(MemoryError, match="emulated device ran out of memory") as raised:
            model.predict(good)
        assert raised.value is not None
        assert memory.alive == users


def test_room_is_asked_for_what_is_not_there_yet(devices, monkeypatch):
    said = []
    monkeypatch.setattr(device_choice, "check_room", lambda _, needed: said.append(sum(needed)))
    X, y = example()
    LogisticRegression(device_ids=[0]).fit(X, y)
    LogisticRegression().fit(Tensor(X), y)
    assert said[0] - said[1] == X.nbytes


def test_without_cupy_the_error_says_what_to_do():
    if "cupy" in sys.modules:
        pytest.skip("CuPy is here")
    with pytest.raises(RuntimeError, match=r"X is on CUDA device 99: .*with X on the host"):
        LogisticRegression().fit(Tensor(example()[0], number=99), example()[1])


def test_rows_of_the_host_import_no_library_of_devices():
    run_python(
        """
        import sys
        import numpy as np
        from snapml import LogisticRegression
        X = np.random.default_rng(0).normal(size=(50, 3))
        LogisticRegression().fit(X, X[:, 0] > 0).predict_proba(X)
        assert not {"cupy", "cupyx", "torch", "jax", "cudf", "numba"} & set(sys.modules)
        """
    )
