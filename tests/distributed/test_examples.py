"""The examples of the documentation, run as they stand: from files to a model, on two ranks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import snapml
from snapml import LogisticRegression
from snapml.io import load_svmlight

from .launching import library

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """Return a folder with the files that the examples name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8))
    y = (X[:, 0] + rng.normal(size=2000) > 0.0).astype(int)
    for name, rows in (("train", slice(0, 1500)), ("test", slice(1500, 2000))):
        dump_svmlight_file(X[rows], y[rows], str(tmp_path / f"{name}.svm"), zero_based=False)
    return tmp_path


@pytest.mark.parametrize("page", ["docs/mpi.md"])
@pytest.mark.parametrize("way", ["mpirun", "snapml-run"])
def test_example_trains_from_files_to_a_saved_model(page, way, folder):
    text = (REPOSITORY / page).read_text()
    code = re.search(r"```python\n# fit\.py\n(.*?)```", text, re.DOTALL)[1]
    assert f"{way} -n 4 " in text
    job = run(code, way, folder)
    model = snapml.load(folder / "clicks.model")
    whole = LogisticRegression(C=0.1).fit(folder / "train.svm")
    assert abs(model.objective_ - whole.objective_) <= max(model.gap_, whole.gap_)
    if page == "docs/mpi.md":
        assert job.stdout.startswith("2 ranks: loss 0.")


def test_other_blocks_of_the_page_run_after_it(folder):
    """But for the one that needs a GPU on each rank."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    page = (REPOSITORY / "docs/mpi.md").read_text()
    first, *others = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    on_cards = [block for block in others if "device_ids" in block]
    assert len(on_cards) == 1
    X, y = load_svmlight(folder / "train.svm")
    columns = {f"x{k}": column for k, column in enumerate(X.toarray().T)}
    for name in ("monday", "tuesday"):
        parquet.write_table(pyarrow.table({**columns, "clicked": y}), folder / f"{name}.parquet")
    for name in ("rows", "part-00000", "part-00001"):
        (folder / f"{name}.svm").write_bytes((folder / "train.svm").read_bytes())
    code = "\n".join([first, "X_own, y_own = X, y", *(b for b in others if b not in on_cards)])
    code = code.replace("/shared/", f"{folder}/")
    code += "model.fit(X, y)\nprint(comm.rank, model.gap_ / model.objective_)\n"
    job = run(code, "mpirun", folder)
    gaps = re.findall(r"^[01] (\S+)$", job.stdout, re.M)
    assert len(gaps) == 2
    assert all(float(gap) <= 1e-6 for gap in gaps)


def run(code, way, folder):
    """Run a script on two ranks."""
    (folder / "fit.py").write_text(code)
    mpi, python = library(), sys.executable
    commands = {
        "mpirun": [mpi.mpirun, "-n", "2", python, "-m", "mpi4py", "fit.py"],
        "snapml-run": [python, "-m", "snapml_run", "--oversubscribe", "-n", "2", "fit.py"],
    }
    path = f"{Path(mpi.mpirun).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **mpi.environment, "PATH": path}
    job = subprocess.run(
        commands[way],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    return job
