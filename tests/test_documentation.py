"""The Python blocks of pages that a new user follows, run as they stand, from top to bottom."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import snapml

PAGES = Path(__file__).parents[1] / "docs"
NEEDED = {
    "model_files.md": ("onnxruntime", "skl2onnx", "skops"),
    "migrating.md": (),
    "statistics.md": ("pandas",),
}


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Return rows of two classes, and stand in a folder with the file that pages name."""
    if not PAGES.is_dir():
        pytest.skip("no docs beside these tests")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + 0.5 * rng.normal(size=200) > 0).astype(int)
    monkeypatch.chdir(tmp_path)
    dump_svmlight_file(X, y, "train.svm", zero_based=False)
    return {"X": X, "y": y}


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page", NEEDED)
def test_examples_of_a_page_run(page, rows):
    for module in NEEDED[page]:
        pytest.importorskip(module, reason=f"{module} is not installed")
    found = blocks(page)
    assert len(found) >= 3
    names = dict(rows)
    for block in found:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(block, page, "exec"), names)


def test_penalties_of_gblinear_become_the_same_problem(rows):
    """The page's formulas, against XGBoost's objective: no small step is better."""
    [block] = [block for block in blocks("migrating.md") if "gblinear" in block]
    names = dict(rows)
    exec(block, names)
    X, y = rows["X"], rows["y"]
    model = snapml.LogisticRegression(C=names["C"], l1_ratio=names["l1_ratio"], tol=1e-10)
    model.fit(X, y)
    squares = snapml.ElasticNet(names["strength"], l1_ratio=names["l1_ratio"], tol=1e-10)
    squares.fit(X, y)

    def objective(loss, w):
        penalty = 0.01 * (w[:4] @ w[:4]) / 2 + 0.002 * np.abs(w[:4]).sum()
        return loss(X @ w[:4] + w[4]) + len(y) * penalty

    def logistic(z):
        return np.logaddexp(0, -(2 * y - 1) * z).sum()

    def squared(z):
        return ((z - y) ** 2).sum() / 2

    for loss, fitted in ((logistic, model), (squared, squares)):
        best = np.append(np.ravel(fitted.coef_), np.ravel(fitted.intercept_))
        for step in np.random.default_rng(1).normal(size=(50, 5)) * 1e-3:
            assert objective(loss, best + step) > objective(loss, best)
