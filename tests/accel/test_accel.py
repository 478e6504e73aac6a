"""scikit-learn's names stand for classes that fit by snapml, and for nothing else that is new."""

import logging
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn
import sklearn.linear_model
import sklearn.svm
import sklearn.tree
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import snapml
from snapml import accel
from snapml.accel import accelerated, classes
from snapml.accel.__main__ import main

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parents[2]
CLASSES = [getattr(classes, name) for name in classes.__all__]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    return X, (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=300) > 1).astype(int)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(accelerated, "_said", set())


@pytest.fixture
def installed():
    accel.install()
    yield
    accel.uninstall()


def run(*arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def target_for(cls, y):
    is_classifier = hasattr(cls, "decision_function") or hasattr(cls, "predict_proba")
    return y if is_classifier else y + np.linspace(0.01, 1, len(y))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_fit_is_by_snapml_and_leaves_what_scikit_learns_own_leaves(cls, rows, caplog):
    X, y = rows
    y = target_for(cls, y)
    caplog.set_level(logging.INFO, "snapml.accel")
    options = {"use_legacy_attributes": False} if cls.__name__ == "LogisticRegressionCV" else {}
    if cls.__name__ == "LogisticRegressionCV":
        options |= {"l1_ratios": (0,), "scoring": "neg_log_loss"}
    if cls.__name__ == "LinearSVR":  # LIBLINEAR's stops up to 0.02 away, by chance
        options |= {"random_state": 1, "max_iter": 5000}
    model, theirs = cls(**options).fit(X, y), cls.genuine(**options).fit(X, y)
    assert caplog.messages == [f"{cls.__name__}: fitted by snapml"]
    fitted = {name for name in vars(theirs) if name.endswith("_")}
    assert fitted <= set(vars(model))
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=2e-2)
    assert type(model).predict.__module__.partition(".")[0] in ("sklearn", "snapml")


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_scripts_of_scikit_learn_print_the_same(script):
    plain, ours = run(str(script)), run("-m", "snapml.accel", "-v", str(script))
    assert plain.returncode == ours.returncode == 0, plain.stderr + ours.stderr
    assert ours.stdout == plain.stdout
    assert ": fitted by snapml" in ours.stderr
    assert "stays scikit-learn's" not in ours.stderr


def test_what_snapml_does_not_serve_stays_scikit_learns_and_is_said_once(rows, caplog):
    X, y = rows
    model = classes.LogisticRegression(warm_start=True).fit(X, y)
    model.fit(X, y)
    theirs = sklearn.linear_model.LogisticRegression(warm_start=True).fit(X, y).fit(X, y)
    np.testing.assert_array_equal(model.coef_, theirs.coef_)
    assert caplog.messages == [
        "LogisticRegression stays scikit-learn's: warm_start=True: each fit starts anew here"
    ]


def test_what_snapml_refuses_in_a_fit_is_left_to_scikit_learn(rows, caplog):
    X, y = rows
    X = X.astype(object)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        classes.Ridge().fit(X, y)
    assert caplog.messages == []  # scikit-learn could not either, and has said so


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        (classes.LogisticRegression, {"l1_ratio": 1.0}),
        (classes.LogisticRegression, {"l1_ratio": 0.5, "solver": "newton-cg"}),
        (classes.LogisticRegression, {"dual": True}),
        (classes.LogisticRegression, {"l1_ratio": 0.5, "solver": "liblinear"}),
        (classes.LogisticRegression, {"l1_ratio": 1.0, "solver": "liblinear", "dual": True}),
        (classes.LogisticRegression, {"C": np.inf, "solver": "liblinear"}),
        (classes.LogisticRegressionCV, {"l1_ratios": (0.0, 0.5), "use_legacy_attributes": False}),
        (classes.LinearSVC, {"loss": "hinge", "dual": False}),
        (classes.LinearSVC, {"penalty": "l1", "dual": True}),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_scikit_learn_has_no_solver_for_raises_its_error(cls, parameters, rows):
    with pytest.raises(ValueError) as theirs:  # noqa: PT011
        cls.genuine(**parameters).fit(*rows)
    with pytest.raises(ValueError) as ours:  # noqa: PT011
        cls(**parameters).fit(*rows)
    assert str(ours.value) == str(theirs.value)


def test_what_a_fit_of_snapml_refuses_is_fitted_by_scikit_learn(rows, caplog, monkeypatch):
    class Refusing(snapml.Ridge):
        def fit(self, X, y, sample_weight=None):
            raise NotImplementedError("alpha: expected less")

    monkeypatch.setattr(classes.Ridge, "ours", Refusing)
    X, y = rows
    model, theirs = classes.Ridge().fit(X, y), sklearn.linear_model.Ridge().fit(X, y)
    np.testing.assert_array_equal(model.coef_, theirs.coef_)
    assert caplog.messages == ["Ridge stays scikit-learn's: alpha: expected less"]


def test_a_fit_by_scikit_learn_leaves_no_certificate_of_the_one_before(rows):
    X, y = rows
    model = classes.LogisticRegression().fit(X, y)
    assert model.gap_ >= 0
    model.set_params(warm_start=True).fit(X, y)
    assert not hasattr(model, "gap_")
    assert hasattr(model, "coef_")


def test_a_failed_fit_keeps_the_model_of_before(rows):
    X, y = rows
    model = classes.LogisticRegression().fit(X, y)
    coef = model.coef_
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), y)
    assert model.coef_ is coef
    assert model.gap_ >= 0


def test_names_of_columns_do_not_outlive_the_fit_that_had_them(rows):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    model = classes.Ridge().fit(pandas.DataFrame(X, columns=list("abcdef")), y)
    assert list(model.feature_names_in_) == list("abcdef")
    assert not hasattr(model.fit(X, y), "feature_names_in_")


def test_the_tolerance_is_the_tighter_one_and_reads_the_more(rows):
    X, y = rows
    for tol, max_iter in ((1e-4, 1), (1, np.int64(1)), (np.float32(0.1), np.int32(1))):
        model = classes.LogisticRegression(tol=tol, max_iter=max_iter).fit(X, y)
        assert model.gap_ <= 1e-6 * model.objective_
        assert "gap_" in vars(model)


def test_install_changes_public_names_and_uninstall_gives_them_back():
    genuine = sklearn.linear_model.Lasso
    assert not accel.is_installed()
    accel.install()
    accel.install()
    try:
        assert accel.is_installed()
        assert sklearn.linear_model.Lasso is classes.Lasso
        assert sklearn.svm.LinearSVC is classes.LinearSVC
        assert sklearn.tree.DecisionTreeClassifier is classes.DecisionTreeClassifier
    finally:
        accel.uninstall()
        accel.uninstall()
    assert sklearn.linear_model.Lasso is genuine


def test_notebooks_load_and_unload_it():
    genuine = sklearn.linear_model.Ridge
    accel.load_ipython_extension(None)
    assert sklearn.linear_model.Ridge is classes.Ridge
    accel.unload_ipython_extension(None)
    assert sklearn.linear_model.Ridge is genuine


def test_modules_that_imported_a_name_before_are_named(caplog, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "R", sklearn.linear_model.Ridge, raising=False)
    accel.install()
    accel.uninstall()
    assert f"{__name__}.R was imported before snapml.accel" in caplog.text


def test_scikit_learns_own_instances_and_subclasses_count(installed):
    genuine = classes.ElasticNet.genuine
    assert isinstance(genuine(), sklearn.linear_model.ElasticNet)
    assert issubclass(sklearn.linear_model.Lasso, sklearn.linear_model.ElasticNet)
    assert issubclass(classes.Lasso.genuine, sklearn.linear_model.ElasticNet)
    assert not isinstance(sklearn.linear_model.Ridge(), sklearn.linear_model.ElasticNet)

    class Mine(sklearn.linear_model.ElasticNet):
        pass

    assert isinstance(Mine(), Mine)
    assert not isinstance(genuine(), Mine)


def test_users_subclasses_fit_by_snapml(rows):
    X, y = rows

    class Shifted(classes.Ridge):
        def __init__(self, shift=0.0, alpha=1.0):
            super().__init__(alpha=alpha)
            self.shift = shift

        def predict(self, X):
            return super().predict(X) + self.shift

    model = clone(Shifted(shift=2.0, alpha=3.0)).fit(X, y)
    assert model.gap_ >= 0
    plain = classes.Ridge(alpha=3.0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X) + 2.0)


def test_pickles_are_of_the_same_class_and_predict_the_same(rows):
    X, y = rows
    for cls in (classes.LogisticRegression, classes.DecisionTreeClassifier):
        model = cls().fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        assert type(again) is cls
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_scikit_learns_own_class_comes_back(cls, rows, installed):
    X, y = rows
    own = {"use_legacy_attributes": False, "l1_ratios": (0,), "scoring": "neg_log_loss"}
    options = own if cls.__name__ == "LogisticRegressionCV" else {}
    model = cls(**options).fit(X, target_for(cls, y))
    theirs = model.to_sklearn()
    assert type(theirs) is cls.genuine
    assert not hasattr(theirs, "gap_")
    np.testing.assert_array_equal(theirs.predict(X), model.predict(X))


def test_exports_know_scikit_learns_own_classes_while_installed(rows, installed):
    X, y = rows
    for cls in (classes.Ridge, classes.DecisionTreeClassifier):
        theirs = cls.ours().fit(X, y).to_sklearn()
        assert type(theirs) is cls.genuine
        for model in (theirs, cls().fit(X, y)):
            ours = cls.ours.from_sklearn(model)
            np.testing.assert_allclose(ours.predict(X), model.predict(X), rtol=1e-12)


def test_the_command_passes_arguments_and_status_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, helper\nprint(sys.argv[1:], __name__)\nsys.exit(3)\n")
    (tmp_path / "helper.py").write_text("")
    done = run("-m", "snapml.accel", str(script), "-v", "--", "x")
    assert (done.returncode, done.stdout) == (3, "['-v', '--', 'x'] __main__\n"), done.stderr
    done = run("-m", "snapml.accel", "-m", "timeit", "-h")
    assert done.returncode == 0
    assert "Tool for measuring execution time" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "required"), (["-m"], "the name of a module"), (["no.py"], "found no file 'no.py'")],
)
def test_the_command_says_what_it_expected(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@parametrize_with_checks([classes.LogisticRegression(), classes.DecisionTreeRegressor()])
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
