"""The Python and shell blocks that a new user meets, run as they stand, from top to bottom."""

import gzip
import importlib
import re
import shlex
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file

import snapml
from snapml import accel
from snapml.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))) if page.exists()]
NEEDED = {
    "model_files.md": ("onnxruntime", "skl2onnx", "skops"),
    "plots.md": ("matplotlib",),
    "statistics.md": ("pandas",),
    "trees.md": ("pandas",),
    "progress.md": ("sklearn.callback",),  # of scikit-learn 1.9
    "getting_started.md": ("pandas", "pyarrow"),
}
ELSEWHERE = {
    "# fit.py": "tests/distributed/test_examples.py",
    "comm=comm": "tests/distributed/test_examples.py",
    "snapml.distributed.spark": "tests/distributed/spark/test_examples.py",
    "%load_ext": "tests/accel/test_accel.py, without a notebook",
    "torch.": "tests/real_device.py: where there is a card",
    "device_ids=[0]": "tests/real_device.py: where there is a card",
}
"""What is in a block that is not run here, and where it is."""


def blocks(page, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def run_here(page):
    return [block for block in blocks(page) if not any(mark in block for mark in ELSEWHERE)]


WITH_PYTHON = [page.name for page in PAGES if run_here(page)]


@pytest.fixture
def names(tmp_path, monkeypatch):
    """Return the names that pages take for granted, in a folder with the files that they name."""
    if not (ROOT / "docs").is_dir():
        pytest.skip("no docs beside these tests")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    score = X[:, 0] + 0.5 * rng.normal(size=200)
    y = (score > 0).astype(int)
    indptr = np.arange(0, 601, 3)
    monkeypatch.chdir(tmp_path)
    dump_svmlight_file(X, y, "train.svm", zero_based=False)
    return {
        "X": X,
        "y": y,
        "w": rng.uniform(0.5, 2.0, size=200),
        "t": score,
        "Y": np.column_stack([score, -score]),
        "labels": np.digitize(score, [-0.5, 0.5]),
        "X_sparse": csr_matrix(X * (X > 0)),
        "indptr": indptr,
        "indices": np.sort(rng.integers(0, 1_000_000, size=(200, 3)), axis=1).ravel(),
        "clicks": y,
        "X_valid": X,
        "y_valid": y,
        "X_test": X,
        "y_test": y,
    }


def write_click_log(path):
    """Write rows in Criteo's layout: a label, 13 numbers, 26 categories."""
    rng = np.random.default_rng(0)
    rows = np.column_stack(
        [rng.integers(0, 2, 300), rng.integers(0, 9, (300, 13)), rng.integers(0, 50, (300, 26))]
    )
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows.tolist())
    Path(path).write_bytes(gzip.compress(text.encode()) if path.endswith(".gz") else text.encode())


def prepare(page, names):
    """Make what only one page takes for granted."""
    if page == "out_of_core.md":
        write_click_log("day_0.gz")
    if page == "trees.md":
        pandas = sys.modules["pandas"]
        cities = pandas.Series(names["y"]).map({0: "Bern", 1: "Oslo"}).astype("category")
        names["frame"] = pandas.DataFrame({"x": names["X"][:, 0], "city": cities})
        names["X"] = names["X_test"] = names["X"][:, :3]  # the page has three constraints


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_examples_of_a_page_run(page, names, request):
    for module in NEEDED.get(page, ()):
        pytest.importorskip(module, reason=f"{module} is not installed")
    if page == "plots.md":
        sys.modules["matplotlib"].use("agg")
    if page == "accel.md":
        request.addfinalizer(accel.uninstall)
    prepare(page, names)
    for block in run_here(next(one for one in PAGES if one.name == page)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(block, page, "exec"), names)


def test_every_block_is_run_somewhere(names):
    """No mark of a block that is left out here is a mistake, and no language is new."""
    every = [block for page in PAGES for block in blocks(page)]
    for mark, place in ELSEWHERE.items():
        assert any(mark in block for block in every), f"{mark} is in no block any more"
        assert (ROOT / re.match(r"[\w/.]+\.py", place)[0]).exists(), place
    languages = {
        name for page in PAGES for name in re.findall(r"^```(\w+)", page.read_text(), re.M)
    }
    assert languages == {"python", "bash", "text"}


@pytest.mark.parametrize("page", ["out_of_core.md", "command_line.md"])
def test_commands_of_a_page_run(page, names, capsys):
    page = next(one for one in PAGES if one.name == page)
    for name in ("day_0.gz", "clicks.tsv", "new.tsv"):
        write_click_log(name)
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    commands = [
        shlex.split(line, comments=True)[1:] for line in lines if line.startswith("snapml ")
    ]
    assert len(commands) >= 3
    for command in commands:
        assert main(command) == 0, f"{command}: {capsys.readouterr().err}"
    assert np.load("p.npy").shape == (300, 2)


def test_first_steps_in_a_shell_follow_those_in_python(names, capsys):
    pytest.importorskip("pyarrow", reason="reads CSV")
    pytest.importorskip("pandas", reason="writes CSV")
    page = ROOT / "docs" / "getting_started.md"
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)
    capsys.readouterr()
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0, capsys.readouterr().err
    assert Path("predicted.csv").read_text().splitlines()[1] in ("no", "yes")


def test_penalties_of_gblinear_become_the_same_problem(names):
    """The page's formulas, against XGBoost's objective: no small step is better."""
    [block] = [block for block in blocks(ROOT / "docs/migrating.md") if "gblinear" in block]
    exec(block, names)
    X, y = names["X"], names["y"]
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


PUBLIC = {
    "snapml": (),
    "snapml.accel": (),
    "snapml.callbacks": (),
    "snapml.compat": (),
    "snapml.data": (),
    "snapml.distributed.mpi": ("mpi4py",),
    "snapml.distributed.spark": ("pyspark",),
    "snapml.io": (),
    "snapml.model_selection": (),
    "snapml.plots": ("matplotlib",),
    "snapml.statistics": (),
}


@pytest.mark.parametrize("module", PUBLIC)
def test_reference_has_every_public_name(module):
    page = ROOT / "docs" / "api" / "index.md"
    if not page.exists():
        pytest.skip("no docs beside these tests")
    for needed in PUBLIC[module]:
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    parts = page.read_text().split(".. currentmodule:: ")[1:]
    text = " ".join(part for part in parts if part.startswith(f"{module}\n"))
    listed = set(re.findall(r"^   ([\w.]+)$|``(\w+)``", text, re.M))
    listed = {name for pair in listed for name in pair if name}
    public = set(importlib.import_module(module).__all__) - {"__version__"}
    assert public <= listed, public - listed


def test_table_of_tasks_names_what_is_there():
    page = ROOT / "CONTRIBUTING.md"
    if not page.exists():
        pytest.skip("no CONTRIBUTING.md beside these tests")
    rows = re.findall(r"^\|(.*)\|(.*)\|(.*)\|(.*)\|$", page.read_text(), re.MULTILINE)[2:]
    assert len(rows) >= 10
    for _, guides, examples, tests in rows:
        for folder, names in (("docs", guides), ("examples/gallery", examples)):
            for name in re.findall(r"`([^`]+)`", names):
                assert (ROOT / folder / name).exists(), name
        for name in re.findall(r"`([^`]+)`", tests):
            places = (ROOT / "tests" / name, ROOT / "tests" / "estimators" / name)
            assert any(place.exists() for place in places), name
