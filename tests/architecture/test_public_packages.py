"""Public parts of the package are reachable from it, and imported only when they are asked for."""

import subprocess
import sys

PROGRAM = """
import sys
import snapml
for name in snapml._PACKAGES:
    assert f"snapml.{name}" not in sys.modules or name in ("data", "io"), name
    assert name in dir(snapml)
assert snapml.model_selection.GridSearchCV and snapml.io.convert and snapml.statistics.inference
try:
    snapml.nothing
except AttributeError as error:
    print(error)
"""


def test_packages_are_imported_when_they_are_asked_for():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert ended.stdout == "module 'snapml' has no attribute 'nothing'\n", ended.stderr
