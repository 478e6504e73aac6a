"""Runs these tests with several versions of Spark, each installed into a folder of its own.

python tests/distributed/spark/run_versions.py FOLDER 3.5.9 4.0.5 4.3.0
"""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
# What a version needs other than what is installed, and what pytest does not run or see there.
ALSO = {"3": ["pandas<3"]}
OPTIONS = {
    "3": [
        "-Wignore::DeprecationWarning",  # of its imports of distutils
        f"--ignore={TESTS / 'test_connect.py'}",  # Connect: from version 4 on
        f"--ignore={TESTS / 'test_gpus.py'}",  # so are resources of one stage
    ]
}


def installed(folder, version):
    """Return a folder with a version of Spark."""
    target = folder / f"pyspark-{version}"
    if not (target / "pyspark").is_dir():
        wanted = [f"pyspark=={version}", *ALSO.get(version[0], [])]
        command = [sys.executable, "-m", "pip", "install", "--target", str(target), *wanted]
        subprocess.run(command, check=True)
    return target


def main(folder, *versions):
    failed = []
    for version in versions:
        path = [str(installed(Path(folder), version)), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
        command = [sys.executable, "-m", "pytest", "-q", *OPTIONS.get(version[0], [])]
        command.append("-Wignore::ResourceWarning")  # versions before 4.1 leave sockets open
        command += map(str, [TESTS, *sorted(TESTS.parent.glob("test_spark_*.py"))])
        print(f"pyspark {version}", flush=True)
        if subprocess.run(command, env=environment, check=False).returncode:
            failed.append(version)
    print("failed:", *(failed or ["none"]))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
