"""A loss is added by four edits, and every solver, layout, store and rank then knows it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from distributed.launching import library, results_of

ROOT = Path(__file__).parents[2]
NEW = Path(__file__).parent / "new_loss"
HEADERS = Path("snapml", "core", "include", "snapml")
CASES = ["dense", "sparse", "store", "dense, L1", "sparse, L1", "store, L1"]

pytestmark = pytest.mark.slow


def edit(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, f"{path} has {text.count(old)} times: {old}"
    path.write_text(text.replace(old, new))


def add_loss(tree):
    """Make the four edits that CONTRIBUTING.md names."""
    shutil.copy(NEW / "log_cosh.hpp", tree / HEADERS / "losses")
    losses = tree / HEADERS / "losses.hpp"
    edit(
        losses,
        '#include "snapml/losses/logistic.hpp"\n',
        '#include "snapml/losses/log_cosh.hpp"\n#include "snapml/losses/logistic.hpp"\n',
    )
    edit(losses, "  CALL(Logistic)", "  CALL(LogCosh) CALL(Logistic)")
    dataclasses = tree / "snapml" / "problems" / "losses.py"
    edit(dataclasses, '    "Logistic",\n', '    "LogCosh",\n    "Logistic",\n')
    with dataclasses.open("a") as lines:
        lines.write('\n\n@dataclass(frozen=True)\nclass LogCosh(Loss):\n    """l = log(cosh)."""\n')
    with (tree / "tests" / "reference" / "losses.py").open("a") as lines:
        lines.write((NEW / "oracle.py").read_text())


def leave_out_others(tree):
    """Compile the engines of no loss that no fit here asks for: that takes half of the time."""
    path = tree / "snapml" / "native" / "bindings" / "dispatch.hpp"
    head, dual, primal = path.read_text().split("if (bare == #Loss) return call(")
    has_name = 'if constexpr (std::string_view(#Loss) == "{}") if (bare == #Loss) return call('
    path.write_text(head + has_name.format("Squared") + dual + has_name.format("LogCosh") + primal)


def build(tree, folder):
    """Compile the tree's extension, fast rather than to be fast."""
    pytest.importorskip("nanobind", reason="nanobind is not installed: pip install '.[test]'")
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake: pip install cmake")
    settings = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0"]
    if shutil.which("ninja"):
        settings += ["-G", "Ninja"]
    python = f"-DPython_EXECUTABLE={sys.executable}"
    configure = [cmake, "-S", str(tree), "-B", str(folder), python, *settings]
    for command in (configure, [cmake, "--build", str(folder), "--parallel", "2"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (extension,) = folder.glob("_native*")
    shutil.copy(extension, tree / "snapml")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Return a copy of the tree with one loss more, built."""
    folder = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "CMakeLists.txt", folder)
    without = shutil.ignore_patterns("_native*.so", "__pycache__", "*.pyc")
    shutil.copytree(ROOT / "snapml", folder / "snapml", ignore=without)
    shutil.copytree(ROOT / "tests" / "reference", folder / "tests" / "reference", ignore=without)
    add_loss(folder)
    leave_out_others(folder)
    build(folder, tmp_path_factory.mktemp("build"))
    return folder


def check(command, environment, cases):
    environment = {**os.environ, **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    results = results_of(done)
    assert [found["case"] for found in results] == cases
    for found in results:
        assert found["has_converged"], found
        rounding = 1e-8 * found["minimum"]  # of SciPy's minimum
        assert found["objective"] - found["gap"] <= found["minimum"] + rounding, found
        assert found["minimum"] <= found["objective"] + rounding, found
        assert found["gap"] <= 1e-9 * found["objective"], found


def test_one_process_fits_dense_and_sparse_rows_and_stores(tree):
    check([sys.executable, str(NEW / "fits.py"), str(tree)], {}, CASES)


def test_two_ranks_fit(tree):
    chosen = library()
    command = [chosen.mpirun, "-n", "2", sys.executable, "-m", "mpi4py"]
    command += [str(NEW / "fits.py"), str(tree), "ranks"]
    check(command, chosen.environment, ["ranks", "ranks, L1"])
