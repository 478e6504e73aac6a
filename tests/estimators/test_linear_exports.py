"""Linear models as scikit-learn's own estimators and back, and in what reads those."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sklearn.linear_model
import sklearn.svm
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.validation import check_is_fitted

import snapml
from snapml.model_selection import GridSearchCV
from tests.estimators.every import CLASSES
from tests.estimators.test_model_file import fitted, quiet_fit, rows, same

METHODS = ("predict", "decision_function", "predict_proba", "predict_log_proba")


def theirs_of(name):
    return getattr(sklearn.linear_model, name, None) or getattr(sklearn.svm, name)


def models():
    """Return every estimator fitted, and what has a form of its own."""
    found = {name: fitted(name)[0] for name in CLASSES}
    X, y = rows()
    several = np.column_stack([X @ np.arange(5), y, -y])
    found |= {
        "one-vs-rest": snapml.LogisticRegression(multi_class="ovr", C=0.5).fit(X, y),
        "one-vs-rest CV": quiet_fit(
            snapml.LogisticRegressionCV(multi_class="ovr", cv=3, Cs=3), X, y
        ),
        "two classes": snapml.LogisticRegression(multi_class="ovr").fit(X, y > 0),
        "sparse": snapml.LogisticRegression(l1_ratio=1.0).fit(X, y).sparsify(),
        "float32": snapml.LogisticRegression().fit(X.astype(np.float32), y),
        "no intercept": snapml.LinearSVC(fit_intercept=False).fit(X, y),
        "several targets": snapml.Ridge().fit(X, several),
        "one column": snapml.Ridge().fit(X, several[:, :1]),
        "lasso of several": snapml.Lasso(alpha=0.1).fit(X, several),
        "two ridge classes": snapml.RidgeClassifier().fit(X, y > 0),
        "labels": snapml.RidgeClassifier().fit(X, np.eye(3, dtype=int)[y]),
        "labels CV": snapml.RidgeClassifierCV().fit(X, np.eye(3, dtype=int)[y]),
    }
    return found


MODELS = models()
X = rows()[0]


def assert_predicts_alike(one, other):
    """Products of the same numbers in another order: equal but for their rounding."""
    of_rest = isinstance(other, OneVsRestClassifier)  # which has no predict_log_proba
    for method in METHODS[:3] if of_rest else METHODS:
        assert hasattr(one, method) == hasattr(other, method), method
        if hasattr(one, method):
            mine, its = getattr(one, method)(X), getattr(other, method)(X)
            assert mine.shape == its.shape, method
            if mine.dtype.kind == "f":
                rtol = 1e-5 if np.result_type(one.coef_.dtype) == np.float32 else 1e-9
                np.testing.assert_allclose(mine, its, rtol=rtol, atol=1e-12, err_msg=method)
            else:
                np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize("name", MODELS)
def test_scikit_learns_estimator_predicts_the_same(name):
    model = MODELS[name]
    theirs = model.to_sklearn()
    assert type(theirs).__module__.startswith("sklearn.")
    check_is_fitted(theirs)
    assert_predicts_alike(model, theirs)
    assert theirs.n_features_in_ == 5


@pytest.mark.parametrize("name", MODELS)
def test_what_scikit_learn_holds_comes_back(name):
    model = MODELS[name]
    theirs = model.to_sklearn()
    if isinstance(theirs, OneVsRestClassifier):
        with pytest.raises(TypeError, match=r"got a sklearn\.multiclass.OneVsRestClassifier"):
            type(model).from_sklearn(theirs)
        return
    again = type(model).from_sklearn(theirs)
    assert_predicts_alike(again, theirs)
    own = {"gap_", "objective_", "history_", "solver_", "has_offset_"}
    for attribute in {key for key in vars(model) if key.endswith("_")} - own:
        assert same(getattr(again, attribute), getattr(model, attribute)), attribute


@pytest.mark.parametrize("name", CLASSES)
def test_models_of_scikit_learn_are_taken_over(name, tmp_path):
    y = rows()[1]
    theirs = theirs_of(name)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.fit(X, np.array(["a", "bb", "ccc"])[y] if is_classifier(theirs) else X[:, 0] + y)
    model = CLASSES[name].from_sklearn(theirs)
    assert_predicts_alike(model, theirs)
    assert model.gap_ == math.inf
    assert math.isnan(model.objective_)
    assert model.solver_.startswith(f"scikit-learn {sklearn.__version__}")
    for parameter, value in theirs.get_params().items():
        assert same(getattr(model, parameter), value), parameter
    model.save(tmp_path / "model")
    assert_predicts_alike(snapml.load(tmp_path / "model"), theirs)
    assert_predicts_alike(model, model.to_sklearn())


def test_labels_of_scikit_learn_are_taken_over():
    Y = np.eye(3, dtype=int)[rows()[1]]
    theirs = sklearn.linear_model.RidgeClassifier().fit(X, Y)
    assert_predicts_alike(snapml.RidgeClassifier.from_sklearn(theirs), theirs)


@pytest.mark.parametrize("name", [name for name in CLASSES if name != "LogisticRegressionCV"])
def test_scikit_learns_estimator_can_be_fitted_again(name):
    theirs = clone(MODELS[name].to_sklearn())
    quiet_fit(theirs, X, rows()[1])


@pytest.mark.parametrize(
    ("parameters", "solver"),
    [
        ({}, "lbfgs"),
        ({"solver": "pqn"}, "lbfgs"),
        ({"l1_ratio": 1.0}, "saga"),
        ({"l1_ratio": 0.5, "solver": "liblinear"}, "saga"),
        ({"l1_ratio": 1.0, "solver": "liblinear"}, "liblinear"),
        ({"l1_ratio": 1.0, "solver": "lbfgs"}, "saga"),
        ({"solver": "newton-cg"}, "newton-cg"),
    ],
)
def test_solver_of_scikit_learn_takes_the_penalty(parameters, solver):
    model = snapml.LogisticRegression(**parameters).fit(X, rows(2)[1])
    theirs = model.to_sklearn()
    assert theirs.solver == solver
    quiet_fit(clone(theirs), X, rows(2)[1])


@pytest.mark.parametrize(
    ("ratios", "solver"),
    [
        (None, "lbfgs"),
        ([0, 1], "saga"),
        (np.array([0, 0.5]), "saga"),
        (np.array([0.0]), "lbfgs"),
    ],
)
def test_solver_of_scikit_learn_takes_all_ratios_that_were_tried(ratios, solver):
    model = snapml.LogisticRegressionCV(l1_ratios=ratios, Cs=[1.0], cv=2)
    assert quiet_fit(model, X, rows(2)[1]).to_sklearn().solver == solver


def test_models_share_no_memory():
    model = snapml.Ridge().fit(X, X[:, 0])
    theirs = model.to_sklearn()
    again = snapml.Ridge.from_sklearn(theirs)
    theirs.coef_[:] = 0.0
    assert model.coef_.any()
    assert again.coef_.any()


def test_names_of_columns_go_along():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcde"))
    for model in (snapml.Ridge(), snapml.LogisticRegression(multi_class="ovr")):
        theirs = model.fit(frame, rows()[1]).to_sklearn()
        assert theirs.feature_names_in_.tolist() == list("abcde")
        theirs.predict(frame)


def test_models_before_fit_are_refused():
    with pytest.raises(NotFittedError):
        snapml.Ridge().to_sklearn()
    with pytest.raises(NotFittedError):
        snapml.Ridge.from_sklearn(sklearn.linear_model.Ridge())


def test_other_classes_are_refused():
    class Mine(sklearn.linear_model.Ridge):
        pass

    for theirs in (sklearn.linear_model.Lasso(), Mine(), snapml.Ridge(), 3, None):
        with pytest.raises(TypeError, match=r"expected a sklearn\.linear_model\.Ridge, got a "):
            snapml.Ridge.from_sklearn(theirs)
    with pytest.raises(TypeError, match=r"expected a sklearn\.svm\.LinearSVC"):
        snapml.LinearSVC.from_sklearn(sklearn.svm.SVC())


def test_parameters_without_a_counterpart_are_refused(monkeypatch):
    """scikit-learn has none today: a future version's stands in."""
    theirs = sklearn.linear_model.Lasso().fit(X, X[:, 0])
    known = [name for name in snapml.Lasso._get_param_names() if name != "warm_start"]
    monkeypatch.setattr(snapml.Lasso, "_get_param_names", lambda: known)
    snapml.Lasso.from_sklearn(theirs)  # as it is by default
    theirs.warm_start = True
    with pytest.raises(ValueError, match="warm_start=True: Lasso has no such parameter"):
        snapml.Lasso.from_sklearn(theirs)


@pytest.mark.parametrize("name", MODELS)
def test_onnx_predicts_the_same(name):
    convert = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = MODELS[name]
    narrow = X.astype(np.float32)
    options = {"zipmap": False} if hasattr(model, "predict_proba") else {}
    theirs = model.densify().to_sklearn() if name == "sparse" else model.to_sklearn()
    graph = convert.to_onnx(theirs, narrow, options={id(theirs): options})
    session = runtime.InferenceSession(graph.SerializeToString())
    answers = session.run(None, {session.get_inputs()[0].name: narrow})
    expected = model.predict(narrow)
    if is_classifier(model):
        np.testing.assert_array_equal(answers[0], expected)
    else:
        np.testing.assert_allclose(answers[0].reshape(expected.shape), expected, atol=1e-4)
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(answers[1], model.predict_proba(narrow), atol=1e-5)


def test_exports_import_no_optional_package():
    script = (
        "import sys, snapml; m = snapml.Ridge().fit([[0.0], [1.0]], [0.0, 1.0]); m.to_sklearn(); "
        "snapml.from_json(m.to_json()); "
        "assert not {'skl2onnx', 'onnx', 'skops', 'sklearn.tree'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100)


def test_skops_trusts_the_search():
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    X, y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    search = GridSearchCV(snapml.Ridge(), {"alpha": [1.0, 2.0]}, cv=2).fit(X, y)
    data = skops.dumps(search)
    others = set(skops.get_untrusted_types(data=data)) - set(snapml.skops_types())
    assert all(name.startswith("sklearn.") for name in others)
    again = skops.loads(data, trusted=[*snapml.skops_types(), *others])
    assert (again.predict(X) == search.predict(X)).all()


@pytest.mark.parametrize("name", CLASSES)
def test_skops_trusts_the_classes_that_are_named(name):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    data = skops.dumps(MODELS[name])
    again = skops.loads(data, trusted=snapml.skops_types())
    assert same(again.predict(X), MODELS[name].predict(X))
    with pytest.raises(skops.exceptions.UntrustedTypesFoundException):
        skops.loads(data)
