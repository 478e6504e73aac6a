"""Linear models under Snap ML's names: its objectives, parameters and attributes."""

import inspect
import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import snapml
from snapml import compat
from snapml.compat import LinearRegression, LogisticRegression, SupportVectorMachine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4)) + 0.5
T = X @ [1.0, -2.0, 0.0, 0.5] + 3.0 + 0.1 * RNG.normal(size=150)
Y = (X[:, 0] - X[:, 1] + RNG.normal(size=150) > 0.5).astype(int)
THREE = X[:, :3].argmax(axis=1)
ALL = (LinearRegression, LogisticRegression, SupportVectorMachine)
TIGHT = {"tol": 1e-9, "max_iter": 10_000, "regularizer": 0.7}
LINEAR = [
    "max_iter",
    "regularizer",
    "device_ids",
    "verbose",
    "use_gpu",
    "dual",
    "n_jobs",
    "penalty",
    "tol",
    "generate_training_history",
    "privacy",
    "eta",
    "batch_size",
    "privacy_epsilon",
    "grad_clip",
    "fit_intercept",
    "intercept_scaling",
    "normalize",
    "kernel",
    "gamma",
    "n_components",
    "random_state",
]


def target(kind):
    return T if kind is LinearRegression else Y


def test_parameters_have_the_names_and_order_that_users_know():
    logistic = [*LINEAR[:5], "class_weight", *LINEAR[5:]]
    machine = [
        "loss",
        *(name for name in logistic if name not in ("dual", "penalty", *LINEAR[10:15])),
    ]
    for kind, names in zip(ALL, (LINEAR, logistic, machine), strict=True):
        assert list(inspect.signature(kind).parameters) == [*names, "num_threads"]
        assert list(inspect.signature(kind.fit).parameters) == ["self", "X_train", "y_train"]
    assert compat.SnapLogisticRegression is LogisticRegression
    assert compat.SnapSVMClassifier is SupportVectorMachine


def losses(kind, model, z):
    if kind is LinearRegression:
        return ((z - T) ** 2).sum() / 2
    sign = 2 * Y - 1
    if kind is LogisticRegression:
        return np.logaddexp(0, -sign * z).sum()
    slack = np.maximum(0, 1 - sign * z)
    return (slack if model.loss == "hinge" else slack**2).sum()


def objective(kind, model, coef, bias):
    """Return Snap ML's objective; a penalised intercept is one more coefficient."""
    is_l1 = getattr(model, "penalty", "l2") == "l1"
    is_joint = model.fit_intercept and getattr(model, "dual", True)
    w = np.append(coef, bias / model.intercept_scaling) if is_joint else coef
    size = np.abs(w).sum() if is_l1 else w @ w / 2
    return losses(kind, model, X @ coef + bias) + model.regularizer * size


CASES = [
    (kind, parameters)
    for kind in ALL
    for parameters in (
        {},
        {"fit_intercept": True},
        {"fit_intercept": True, "intercept_scaling": 3.0},
        *([{"loss": "squared_hinge"}] if kind is SupportVectorMachine else ()),
        *([{"dual": False, "fit_intercept": True}] if kind is not SupportVectorMachine else ()),
        *(
            [
                {"dual": False, "penalty": "l1"},
                {"dual": False, "penalty": "l1", "fit_intercept": True},
            ]
            if kind is not SupportVectorMachine
            else ()
        ),
    )
]


@pytest.mark.parametrize(("kind", "parameters"), CASES, ids=str)
def test_fits_minimise_snap_mls_objective(kind, parameters):
    model = kind(**TIGHT, **parameters, generate_training_history="summary").fit(X, target(kind))
    coef, bias = model.coef_[0], float(np.ravel(model.intercept_)[0])
    best = objective(kind, model, coef, bias)
    [history] = model.training_history_
    assert history["train_obj"] == pytest.approx(best, rel=1e-9)
    # A convex function whose value grows in all directions is at its minimum.
    steps = [*np.eye(5), *np.random.default_rng(1).normal(size=(50, 5))]
    for step in np.concatenate([steps, np.negative(steps)]) * 1e-2:
        if not model.fit_intercept:
            step[4] = 0.0
        assert objective(kind, model, coef + step[:4], bias + step[4]) >= best * (1 - 1e-8)
    if not model.fit_intercept:
        assert bias == 0.0


@pytest.mark.parametrize("kind", ALL)
def test_history_has_snap_mls_keys(kind):
    summary = kind(generate_training_history="summary").fit(X, target(kind)).training_history_
    full = kind(generate_training_history="full").fit(X, target(kind)).training_history_
    assert not hasattr(kind().fit(X, target(kind)), "training_history_")
    for history in (summary, full):
        assert [list(each) for each in history] == [["epochs", "t_elap_sec", "train_obj"]]
    assert full[0]["train_obj"][-1] == pytest.approx(summary[0]["train_obj"])
    assert full[0]["t_elap_sec"] == sorted(full[0]["t_elap_sec"])


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        LogisticRegression(fit_intercept=True, dual=False),
        LogisticRegression(penalty="l1", dual=False),
        SupportVectorMachine(),
        SupportVectorMachine(loss="squared_hinge", fit_intercept=True),
        LinearRegression(),
        LinearRegression(fit_intercept=True),
        LinearRegression(penalty="l1", dual=False),
    ],
    ids=str,
)
def test_one_history_is_of_all_classes_and_targets(model):
    many = np.column_stack([T, -2.0 * T]) if isinstance(model, LinearRegression) else THREE
    model = clone(model).set_params(tol=1e-6, generate_training_history="full").fit(X, many)
    [full] = model.training_history_
    assert full["train_obj"][-1] == pytest.approx(
        model._objective_scale(len(X)) * model.estimator_.objective_, rel=1e-12
    )
    assert full["epochs"][-1] == model.n_iter_
    assert min(full["train_obj"]) == pytest.approx(full["train_obj"][-1], rel=1e-12)
    [summary] = model.set_params(generate_training_history="summary").fit(X, many).training_history_
    assert summary["train_obj"] == pytest.approx(full["train_obj"][-1], rel=1e-12)
    assert summary["epochs"] == full["epochs"][-1]


@pytest.mark.parametrize("kind", [LogisticRegression, SupportVectorMachine])
def test_more_classes_are_fitted_one_against_the_rest(kind):
    model = kind(**TIGHT, generate_training_history="summary").fit(X, THREE)
    [history] = model.training_history_
    assert history["train_obj"] == pytest.approx(0.7 * model.estimator_.objective_)
    assert model.coef_.shape == (3, 4)
    for number in range(3):
        alone = kind(**TIGHT).fit(X, number == THREE)
        np.testing.assert_allclose(model.coef_[number], alone.coef_[0], atol=1e-3)
    if kind is LogisticRegression:
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        margins = X @ model.coef_.T
        plain = 1 / (1 + np.exp(-margins))
        np.testing.assert_allclose(proba, plain / plain.sum(axis=1, keepdims=True))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)


@pytest.mark.parametrize("kind", ALL)
def test_attributes_are_snap_mls(kind):
    model = kind(fit_intercept=True).fit(X_train=X, y_train=target(kind))
    assert model.coef_.shape == (1, 4)
    assert type(model.n_iter_) is int
    assert model.n_features_in_ == 4
    expected = X @ model.coef_[0] + model.intercept_
    if kind is LinearRegression:
        np.testing.assert_allclose(model.predict(X), expected)
    else:
        np.testing.assert_array_equal(model.classes_, [0, 1])
        np.testing.assert_array_equal(model.predict(X, n_jobs=2), expected > 0)
    if kind is SupportVectorMachine:
        np.testing.assert_allclose(model.decision_function(X), expected)
    assert model.score(X, target(kind)) > 0.7


def test_support_names_the_columns_of_an_l1_model():
    model = LogisticRegression(penalty="l1", dual=False, regularizer=20.0).fit(X, Y)
    np.testing.assert_array_equal(model.support_, np.flatnonzero(model.coef_[0]))
    assert len(model.support_) < 4


@pytest.mark.parametrize("kind", ALL)
def test_the_estimator_inside_predicts_the_same_and_can_be_saved(tmp_path, kind):
    model = kind(fit_intercept=True, intercept_scaling=2.0).fit(X, target(kind))
    model.estimator_.save(tmp_path / "model")
    loaded = snapml.load(tmp_path / "model")
    assert type(loaded).__module__.startswith("snapml.estimators")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.gap_ <= 1e-3 * loaded.objective_


def test_threads_have_two_names():
    assert LogisticRegression(n_jobs=2).fit(X, Y).estimator_.n_threads == 2
    assert LogisticRegression(n_jobs=2, num_threads=1).fit(X, Y).estimator_.n_threads == 1


def test_gpus_are_the_first_one_or_those_that_are_named():
    model = LogisticRegression(use_gpu=True)
    assert model._estimator(1).device_ids == [0]
    ids = np.array([1, 2], np.uint32)
    model.set_params(device_ids=ids)
    assert model._estimator(1).device_ids == [1, 2]
    model.set_params(use_gpu=False)
    assert model._estimator(1).device_ids is None
    np.testing.assert_array_equal(ids, [1, 2])


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_are_normalised_and_mapped_alike_in_fit_and_predict(form, kernel):
    model = LogisticRegression(normalize=True, kernel=kernel, regularizer=0.1)
    model.fit(form(X * [1.0, 100.0, 1.0, 1.0]), Y)
    assert model.coef_.shape == (1, 4 if kernel == "linear" else 100)
    assert model.n_features_in_ == 4
    scaled = form(X * [1.0, 100.0, 1.0, 1.0])
    assert model.score(scaled, Y) > 0.7
    again = clone(model).fit(scaled, Y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    with pytest.raises(ValueError, match="features"):
        model.predict(form(X[:, :3]))


PREPARED = pytest.mark.parametrize(
    "parameters", [{}, {"normalize": True}, {"kernel": "rbf"}], ids=str
)


@PREPARED
def test_a_refit_that_fails_leaves_the_model_as_it_was(parameters):
    model = LogisticRegression(**parameters).fit(X, Y)
    expected = model.predict_proba(X)
    with pytest.raises(ValueError, match="class"):
        model.fit(100.0 * X[:, :3], np.zeros(150))
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert model.n_features_in_ == 4


def test_a_refit_keeps_nothing_of_the_fit_before():
    model = LogisticRegression(penalty="l1", dual=False, generate_training_history="full")
    model.fit(X, Y).set_params(penalty="l2", generate_training_history=None).fit(X, Y)
    assert not hasattr(model, "support_")
    assert not hasattr(model, "training_history_")


@PREPARED
def test_names_of_columns_are_kept_and_checked(parameters):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = LogisticRegression(**parameters).fit(frame, Y)
    np.testing.assert_array_equal(model.feature_names_in_, list("abcd"))
    assert model.n_features_in_ == 4
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


def test_partitions_bring_their_labels(tmp_path):
    path = tmp_path / "rows.snap"
    compat.dump_to_snap_format(X, Y, path)
    data = compat.load_from_snap_format(path)
    model = LogisticRegression(**TIGHT).fit(data)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    own = LogisticRegression(**TIGHT).fit(X.astype(np.float32), Y)
    np.testing.assert_allclose(model.coef_, own.coef_, rtol=1e-3)
    assert model.score(data) == compat.accuracy_score(data, model.predict(data))
    assert model.score(data) == own.score(X, Y)
    squares = LinearRegression(penalty="l1", dual=False, regularizer=3.0).fit(data)
    assert squares.estimator_.alpha == 3.0 / 150
    assert squares.score(data) == pytest.approx(compat.r2_score(data, squares.predict(data)))
    with pytest.raises(NotImplementedError, match="expected rows in memory"):
        LogisticRegression(normalize=True).fit(data)


@pytest.mark.parametrize("kind", ALL)
def test_searches_and_copies_of_scikit_learn_work(kind):
    search = GridSearchCV(kind(), {"regularizer": [0.1, 10.0]}, cv=3).fit(X, target(kind))
    assert search.best_params_["regularizer"] in (0.1, 10.0)
    assert clone(kind(regularizer=3.0)).regularizer == 3.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"regularizer": 0.0}, "regularizer: expected a finite number > 0, got 0.0"),
        ({"regularizer": math.nan}, "regularizer: expected a finite number"),
        ({"regularizer": math.inf}, "regularizer: expected a finite number"),
        ({"regularizer": "1"}, "regularizer: expected a finite number"),
        ({"regularizer": True}, "regularizer: expected a finite number"),
        ({"penalty": "l1"}, "penalty='l1': expected dual=False with it"),
        ({"penalty": "elasticnet"}, "penalty: expected one of"),
        ({"kernel": "poly"}, "kernel: expected one of"),
        ({"generate_training_history": True}, "generate_training_history: expected one of"),
        ({"regularizer": 1e-320}, "with a finite inverse, got 1e-320"),
        ({"intercept_scaling": math.nan}, "intercept_scaling: expected a finite number > 0"),
        ({"intercept_scaling": 0}, "intercept_scaling: expected a finite number > 0, got 0"),
        ({"verbose": None}, "verbose: expected True or False, got None"),
        ({"dual": "no"}, "dual: expected True or False, got 'no'"),
        ({"fit_intercept": "no"}, "fit_intercept: expected True or False, got 'no'"),
        ({"normalize": 2}, "normalize: expected True or False, got 2"),
        ({"device_ids": 5}, "device_ids: expected a list of integers >= 0, got 5"),
        ({"device_ids": "01"}, "device_ids: expected a list of integers >= 0, got '01'"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": -1}, "max_iter"),
    ],
)
@pytest.mark.parametrize("kind", [LogisticRegression, LinearRegression])
def test_parameters_outside_their_domain_are_refused(kind, parameters, message):
    with pytest.raises(ValueError, match=message):
        kind(**parameters).fit(X, target(kind))


def test_privacy_is_refused_and_says_so():
    with pytest.raises(NotImplementedError, match="does not train with differential privacy"):
        LogisticRegression(privacy=True, dual=False).fit(X, Y)


@pytest.mark.parametrize("kind", ALL)
def test_models_before_fit_are_refused(kind):
    with pytest.raises(NotFittedError):
        kind().predict(X)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("make", [str, lambda path: path])
def test_a_path_is_no_rows(kind, make, tmp_path):
    with pytest.raises(TypeError, match=r"X_train: .*load_from_svmlight_format"):
        kind().fit(make(tmp_path / "train.svm"))
