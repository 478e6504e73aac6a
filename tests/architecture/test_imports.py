"""Who may import whom, and what stays unimported until it is asked for."""

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import snapml
from snapml import _native
from snapml.problems import Loss

PACKAGE = Path(snapml.__file__).parent
ROOT = PACKAGE.parent
OPTIONAL = {"cupy", "mpi4py", "pyspark", "matplotlib", "pyarrow", "pandas", "polars"}
MAY_IMPORT_NATIVE = {
    "data/growing_array.py",
    "data/narrow_rows.py",
    "data/sparse_form.py",
    "io/readers/click_log.py",
    "io/readers/svmlight.py",
    "problems/losses.py",
    "solvers/dual_ascent/cpu_engine.py",
    "solvers/rows/cpu_margins.py",
    "solvers/rows/cpu_primal_engine.py",
    "solvers/rows/cpu_rows.py",
    "solvers/rows/looked_at_rows.py",  # one thread for what is on the host
    "solvers/columns/cpu_block_descent.py",
    "solvers/columns/cpu_column_descent.py",
    "solvers/columns/cpu_gathered_columns.py",
    "solvers/columns/cpu_columns.py",
    "solvers/cpu_formulas.py",
    "solvers/columns/cpu_packed.py",
    "solvers/columns/cpu_gram_model.py",
    "solvers/dual_ascent/host_duals.py",
    "solvers/dual_ascent/softmax_duals.py",
    "solvers/dual_ascent/streamed_dual_engine.py",
    "solvers/columns/cpu_column_engine.py",
    "solvers/rows/host_losses.py",
    "solvers/rows/output_panels.py",
    "solvers/least_squares/compiled_sums.py",
    "solvers/least_squares/normal_equations.py",
    "solvers/least_squares/working_columns.py",
    "solvers/many/many_arrays.py",
    "solvers/many/many_chunks.py",
    "solvers/many/many_rows.py",
    "solvers/many/many_softmax.py",
    "solvers/columns/streamed_columns.py",
    "solvers/columns/streamed_gram.py",
    "solvers/rows/streaming_engine.py",
    "solvers/newton/small_groups.py",
    "solvers/interior_point/small_rows.py",
    "solvers/newton/small_newton.py",
    "solvers/threads.py",
    "trees/categorical_tree.py",
    "trees/exact_tree.py",
    "trees/histogram_tree.py",
}


def test_layers_import_only_what_lies_below_them():
    lint_imports = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if lint_imports is None:
        pytest.skip("import-linter is not installed: pip install -e '.[lint]'")
    command = [lint_imports, "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr


def imports_native(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        else:
            continue
        if "snapml._native" in names:
            return True
    return False


def test_only_the_cpu_engines_their_threads_parsers_and_narrow_rows_import_the_extension():
    found = {str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if imports_native(p)}
    assert found == MAY_IMPORT_NATIVE


def test_solvers_name_no_loss():
    """They ask for traits, so that a loss is added without them."""
    names = {cls.__name__ for cls in Loss.__subclasses__()}
    for path in (PACKAGE / "solvers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("snapml.problems"):
                assert names.isdisjoint(alias.name for alias in node.names), path


def loaded_by(statement):
    script = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(process.stdout))


def test_importing_the_library_loads_no_optional_package():
    """None but those that scikit-learn looks for when it is imported itself."""
    loaded = loaded_by("import snapml")
    assert "snapml" in loaded
    assert not OPTIONAL & (loaded - loaded_by("import sklearn.base"))


def test_library_can_be_imported_where_no_optional_package_is_installed():
    blocked = f"sys.modules |= dict.fromkeys({sorted(OPTIONAL)})"
    assert "snapml" in loaded_by(f"{blocked}; import snapml")


def test_stub_lists_what_the_extension_offers():
    stub = ast.parse((PACKAGE / "_native.pyi").read_text())
    declared: dict[str, ast.stmt] = {
        node.name: node for node in stub.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    declared |= {ast.unparse(node.target): node for node in stub.body if hasattr(node, "target")}
    offered = {name for name in vars(_native) if not name.startswith("_")}
    assert set(declared) == offered
    for name, node in declared.items():
        if isinstance(node, ast.FunctionDef):
            # nanobind writes the signature as the first line of the docstring.
            signature = getattr(_native, name).__doc__.splitlines()[0]
            names = re.findall(r"(\w+): ", signature)
            assert len(names) == len(node.args.args), f"{name}: {signature}"
            for found, argument in zip(names, node.args.args, strict=True):
                assert found == argument.arg, f"{name}: {signature}"
