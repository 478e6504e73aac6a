"""Estimators on an emulated GPU: the same models, named in solver_, and errors that help."""

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice
from real_device import real_device, with_real_device
from reference.data import rounding
from scipy.sparse import csr_matrix
from sklearn.base import clone

from snapml import (
    ElasticNet,
    ElasticNetCV,
    GeneralizedLinearRegressorCV,
    Lasso,
    LassoCV,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
)
from snapml.solvers.plan import device_choice, support

pytestmark = pytest.mark.pairwise

GPU = dict(device_ids=[0])


class Asked(list):
    """Numbers of devices, and what a device says of itself."""

    description = "emulated device"


@pytest.fixture(params=with_real_device(["emulated"]))
def devices(request, monkeypatch):
    """Emulated devices in the place of CUDA's, or a real one for every number that is asked for."""
    asked = Asked()
    if request.param == "gpu":
        asked.description = real_device().description

    def make(device_id):
        asked.append(device_id)
        return real_device() if request.param == "gpu" else StrictDevice()

    monkeypatch.setattr(device_choice, "make_device", make)
    return asked


def example(dtype=np.float64, n_classes=2, *, is_sparse=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 7)) * (rng.random((240, 7)) < 0.5 if is_sparse else 1.0)
    scores = X[:, :n_classes] + 0.3 * rng.normal(size=(240, n_classes))
    X = X.astype(dtype)
    return (csr_matrix(X) if is_sparse else X), scores.argmax(axis=1)


MODELS = {
    "logistic": (LogisticRegression(), 2),
    "unpenalised": (LogisticRegression(C=np.inf), 2),
    "liblinear": (LogisticRegression(solver="liblinear", tol=1e-6), 2),
    "multinomial": (LogisticRegression(), 3),
    "one against the rest": (LogisticRegression(multi_class="ovr"), 3),
    "squared hinge": (LinearSVC(), 2),
    "squared hinges": (LinearSVC(class_weight="balanced"), 3),
    "ridge": (Ridge(tol=1e-6), 2),
    "ridge classifier": (RidgeClassifier(tol=1e-6), 3),
    "lasso": (Lasso(alpha=0.05), 2),
    "positive elastic net": (ElasticNet(alpha=0.05, positive=True, fit_intercept=False), 2),
    "lasso path": (LassoCV(alphas=3, cv=2), 2),
    "l1 logistic": (LogisticRegression(C=0.1, l1_ratio=1.0), 2),
    "penalised intercept": (LogisticRegression(l1_ratio=0.5, solver="liblinear"), 2),
    "l1 squared hinges": (LinearSVC(penalty="l1", dual=False, C=0.02), 3),
    "positive ridge": (Ridge(positive=True), 2),
}

SUPPORTS = ["lasso", "positive elastic net", "lasso path", "l1 logistic", "l1 squared hinges"]


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_model_is_the_cpus(devices, name, is_sparse, dtype):
    model, n_classes = MODELS[name]
    X, y = example(dtype, n_classes, is_sparse=is_sparse)
    cpu = clone(model).fit(X, y)
    gpu = clone(model).set_params(device_ids=[3]).fit(X, y)
    assert set(devices) == {3}
    tolerance = max(2 * model.tol, 100 * rounding(dtype))
    assert gpu.objective_ == pytest.approx(cpu.objective_, rel=tolerance)
    assert 0 <= gpu.gap_ <= tolerance * gpu.objective_
    assert gpu.coef_.shape == cpu.coef_.shape
    assert gpu.coef_.dtype == dtype
    tolerance = max(10 * model.tol, 1000 * rounding(dtype))
    np.testing.assert_allclose(gpu.predict(X), cpu.predict(X), rtol=tolerance, atol=tolerance)
    assert devices.description in gpu.solver_


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", SUPPORTS)
def test_support_is_the_cpus(devices, name, is_sparse):
    model, n_classes = MODELS[name]
    X, y = example(np.float64, n_classes, is_sparse=is_sparse)
    cpu = clone(model).fit(X, y)
    gpu = clone(model).set_params(device_ids=[3]).fit(X, y)
    np.testing.assert_array_equal(gpu.coef_ != 0, cpu.coef_ != 0)
    assert 0 < np.count_nonzero(cpu.coef_) < cpu.coef_.size


def test_path_copies_the_rows_once_for_each_fold(devices):
    X, y = example()
    ElasticNetCV(l1_ratio=[0.5, 1.0], alphas=5, cv=3, **GPU).fit(X, y)
    assert len(devices) == 2 * 3 + 1


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_strengths_of_counts_are_followed_on_the_device(devices, ratio):
    X, y = example()
    made = GeneralizedLinearRegressorCV(family="poisson", l1_ratio=ratio, n_alphas=4, cv=3)
    cpu = clone(made).set_params(tol=1e-10).fit(X, y)
    gpu = clone(made).set_params(tol=1e-10, **GPU).fit(X, y)
    np.testing.assert_allclose(gpu.deviance_path_, cpu.deviance_path_, rtol=1e-5)
    assert gpu.alpha_ == pytest.approx(cpu.alpha_)
    assert devices.description in gpu.solver_


def test_model_is_good_by_its_own_certificate(devices):
    X, y = example()
    model = LogisticRegression(tol=1e-8, **GPU).fit(X, y)
    z = (2 * y - 1) * model.decision_function(X)
    objective = np.logaddexp(0, -z).sum() + 0.5 * np.sum(model.coef_**2)
    assert model.objective_ == pytest.approx(objective, rel=1e-12)
    exact = LogisticRegression(tol=1e-12).fit(X, y)
    assert model.objective_ - exact.objective_ <= model.gap_ + 1e-12 * objective


def test_solver_asked_for_is_named(devices):
    X, y = example()
    assert LogisticRegression(solver="pqn", **GPU).fit(X, y).solver_.endswith(": as asked for")


def test_warm_start_goes_on_from_the_last_model(devices):
    X, y = example()
    model = LogisticRegression(warm_start=True, tol=1e-6, **GPU).fit(X, y)
    n_iter = model.n_iter_[0]
    assert model.fit(X, y).n_iter_[0] < n_iter


def test_cross_validation_trains_every_model_there(devices):
    X, y = example()
    chosen = dict(l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False)
    model = LogisticRegressionCV(Cs=[0.1, 1.0], cv=2, **chosen, **GPU).fit(X, y)
    assert devices == [0, 0]  # of all folds together, and of the model of all rows
    reference = LogisticRegressionCV(Cs=[0.1, 1.0], cv=2, **chosen).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=0.05, atol=0.05)


# Few epochs do: each is some launches of the emulator.
ASCENTS = {
    "hinge": (LinearSVC(loss="hinge", solver="sdca", C=0.01, tol=1e-2), 2),
    "hinges": (LinearSVC(loss="hinge", solver="sdca", C=0.01, tol=1e-2), 3),
    "logistic": (LogisticRegression(solver="sdca", C=0.01, tol=1e-2), 2),
}


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ASCENTS)
def test_coordinate_ascent_is_certified_as_the_cpus(devices, name, is_sparse, dtype):
    model, n_classes = ASCENTS[name]
    X, y = example(dtype, n_classes, is_sparse=is_sparse)
    best = clone(model).set_params(tol=1e-6, max_iter=10_000).fit(X, y)
    gpu = clone(model).set_params(device_ids=[3]).fit(X, y)
    assert set(devices) == {3}
    assert f"dual coordinate ascent, {devices.description}" in gpu.solver_
    assert gpu.gap_ <= model.tol * gpu.objective_
    assert gpu.objective_ - gpu.gap_ <= best.objective_ * (1 + 1e-6)
    assert best.objective_ - best.gap_ <= gpu.objective_ * (1 + 1e-6)


CONTINUATIONS = {
    "hinge": (LinearSVC(loss="hinge", solver="pqn", C=0.1, tol=1e-4), 2),
    "no intercept": (LinearSVC(loss="hinge", solver="pqn", tol=1e-4, fit_intercept=False), 2),
    "balanced hinges": (
        LinearSVC(loss="hinge", solver="pqn", C=0.1, tol=1e-3, class_weight="balanced"),
        3,
    ),
}


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", CONTINUATIONS)
def test_continuation_of_the_hinge_is_that_of_the_cpu(devices, name, is_sparse, dtype):
    model, n_classes = CONTINUATIONS[name]
    X, y = example(dtype, n_classes, is_sparse=is_sparse)
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    best = clone(model).set_params(solver="auto", tol=1e-7).fit(X, y, weights)
    gpu = clone(model).set_params(device_ids=[3]).fit(X, y, weights)
    assert set(devices) == {3}
    assert "smoothed hinges" in gpu.solver_
    assert devices.description in gpu.solver_
    assert gpu.gap_ <= model.tol * gpu.objective_
    assert gpu.objective_ - gpu.gap_ <= best.objective_ * (1 + 1e-6)
    assert best.objective_ - best.gap_ <= gpu.objective_ * (1 + 1e-6)


def test_the_hinge_is_smoothed_where_rows_are_dense_and_not_too_wide(devices, monkeypatch):
    model = LinearSVC(loss="hinge", C=0.01, tol=1e-2, **GPU)
    assert "smoothed hinges" in model.fit(*example()).solver_
    assert "coordinate ascent" in model.fit(*example(is_sparse=True)).solver_
    monkeypatch.setattr(support, "MOST_DENSE_COLUMNS", 6)
    assert "coordinate ascent" in model.fit(*example()).solver_


@pytest.mark.parametrize(
    "model", [Lasso(), Ridge(positive=True), LogisticRegression(l1_ratio=1.0)], ids=str
)
def test_several_gpus_are_refused_where_one_solves(devices, model):
    with pytest.raises(NotImplementedError, match=r"device_ids=\[0, 1\].*use device_ids=\[0\]"):
        clone(model).set_params(device_ids=[0, 1]).fit(*example())


@pytest.mark.filterwarnings("ignore:alpha=0 is least squares")
@pytest.mark.parametrize("model", [Ridge(alpha=0), Lasso(alpha=0)], ids=str)
def test_nonnegative_least_squares_without_a_penalty_are_refused(devices, model):
    model = clone(model).set_params(positive=True, **GPU)
    with pytest.raises(NotImplementedError, match=r"positive=True and alpha=0.*device_ids=None"):
        model.fit(*example())
    assert devices == []


def test_least_squares_without_a_penalty_are_those_of_the_cpu(devices):
    X, y = example()
    found, expected = Ridge(alpha=0, **GPU).fit(X, y), Ridge(alpha=0).fit(X, y)
    assert devices
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6)
    assert found.objective_ - found.gap_ <= expected.objective_ * (1.0 + 1e-12)


def test_l1_of_several_classes_is_refused_but_one_against_the_rest(devices):
    model = LogisticRegression(l1_ratio=1.0, **GPU)
    with pytest.raises(NotImplementedError, match=r"multinomial.*multi_class='ovr'"):
        model.fit(*example(n_classes=3))
    assert devices == []
    model.set_params(multi_class="ovr").fit(*example(n_classes=3))
    assert devices.description in model.solver_


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_numbers_that_are_not_finite_are_refused_as_on_the_cpu(devices, is_sparse):
    X, y = example(is_sparse=is_sparse)
    (X.data if is_sparse else X[3])[2] = np.nan
    for model in (LogisticRegression(), LogisticRegression(l1_ratio=1.0), Lasso()):
        with pytest.raises(ValueError, match="contains NaN"):
            clone(model).set_params(**GPU).fit(X, y)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["logistic", "multinomial", "one against the rest", "ridge"])
def test_several_devices_share_the_rows(devices, name, is_sparse):
    model, n_classes = MODELS[name]
    X, y = example(np.float64, n_classes, is_sparse=is_sparse)
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    cpu = clone(model).set_params(tol=1e-8).fit(X, y, weights)
    gpu = clone(model).set_params(device_ids=[2, 0, 1], tol=1e-8).fit(X, y, weights)
    assert devices == [2, 0, 1]
    assert gpu.objective_ == pytest.approx(cpu.objective_, rel=1e-7)
    np.testing.assert_allclose(gpu.coef_, cpu.coef_, rtol=1e-3, atol=1e-3)
    assert ", ".join([devices.description] * 3) + ": all that" in gpu.solver_


def test_more_devices_than_rows_leave_some_idle(devices):
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    model = LogisticRegression(device_ids=list(range(5))).fit(X, y)
    assert model.solver_.count(devices.description) == 3
    np.testing.assert_allclose(model.coef_, LogisticRegression().fit(X, y).coef_, rtol=1e-4)


def test_one_device_may_hold_several_shards(monkeypatch):
    device = StrictDevice()
    monkeypatch.setattr(device_choice, "make_device", lambda _: device)
    X, y = example()
    twice = LogisticRegression(device_ids=[0, 0], tol=1e-8).fit(X, y)
    np.testing.assert_allclose(twice.coef_, LogisticRegression(tol=1e-8).fit(X, y).coef_, rtol=1e-3)


def test_devices_of_two_models_are_refused(monkeypatch):
    def make(device_id):
        device = StrictDevice()
        device.model = f"model {device_id}"
        return device

    monkeypatch.setattr(device_choice, "make_device", make)
    with pytest.raises(NotImplementedError, match=r"of one model, got .*model 0, .*model 1"):
        LogisticRegression(device_ids=[0, 1]).fit(*example())


def test_error_of_one_device_ends_all_of_them(monkeypatch):
    made = []

    def make(device_id):
        made.append(device_id)
        return FailingDevice() if device_id == 1 else StrictDevice()

    monkeypatch.setattr(device_choice, "make_device", make)
    with pytest.raises(MemoryError):
        LogisticRegression(device_ids=[0, 1, 2]).fit(*example())
    assert made == [0, 1, 2]
    X, y = example()
    X[200] = np.inf  # on the last device; the others see it in the sums
    with pytest.raises(ValueError, match="contains infinity"):
        LogisticRegression(device_ids=[0, 2, 4]).fit(X, y)


class FailingDevice(StrictDevice):
    """Runs out of memory at the third launch."""

    n_launches = 0

    def launch(self, *args):
        self.n_launches += 1
        if self.n_launches > 2:
            raise MemoryError("out of memory")
        super().launch(*args)


def test_device_is_made_once(monkeypatch):
    monkeypatch.setattr(device_choice, "CudaDevice", lambda _: StrictDevice())
    device_choice.make_device.cache_clear()
    try:
        first = device_choice.make_device(7)
        assert device_choice.make_device(7) is first
        assert device_choice.make_device(8) is not first
    finally:
        device_choice.make_device.cache_clear()


def test_failed_fit_leaves_the_estimator_as_it_was(monkeypatch):
    X, y = example()
    model = LogisticRegression().fit(X, y)
    before = dict(vars(model), device_ids=[0])
    model.set_params(**GPU)
    monkeypatch.setattr(device_choice, "make_device", lambda _: FailingDevice())
    with pytest.raises(MemoryError):
        model.fit(X[:, ::-1].copy(), 1 - y)
    assert vars(model) == before
    monkeypatch.setattr(device_choice, "make_device", lambda _: StrictDevice())
    assert "emulated" in model.fit(X, y).solver_


def test_without_cupy_or_a_card_the_fit_says_so():
    """Where a card is there, device 99 is not."""
    with pytest.raises(RuntimeError, match=r"device_ids=\[99\].*device_ids=None"):
        LogisticRegression(device_ids=[99]).fit(*example())
