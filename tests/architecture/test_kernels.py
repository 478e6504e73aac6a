"""Kernels read core headers and their own, and CuPy is asked for in one place."""

import re

import pytest

from snapml.kernels.device.program import kernel_dir

SOURCES = sorted(kernel_dir().glob("*/*.cu*"))
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<][^">]*[">])', re.MULTILINE)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_kernel_includes_core_headers_and_its_neighbours_only(source):
    """NVRTC has no standard headers, and CUDA's own take seconds to compile."""
    neighbours = {f'"{path.parent.name}/{path.name}"' for path in kernel_dir().glob("*/*.cuh")}
    for name in INCLUDE.findall(source.read_text()):
        assert name in neighbours or re.fullmatch(r'"snapml/\w+\.hpp"', name)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_kernel_does_not_ask_which_compiler_reads_it(source):
    assert not re.search(r"^\s*#\s*(if|ifdef|ifndef|elif)\b", source.read_text(), re.MULTILINE)


def test_every_kernel_file_has_its_launches_beside_it():
    found = {path.stem for path in kernel_dir().glob("*/*.cu")}
    assert found >= {"rows", "reduce", "ranked_rows"}
    beside = {path.stem for path in kernel_dir().glob("*/*.py")} | {"dense_pass"}
    assert found <= beside


def test_cupy_is_imported_in_one_file():
    package = kernel_dir().parent
    importers = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) cupy", path.read_text(), re.MULTILINE)
    ]
    assert importers == ["kernels/device/cuda_device.py"]
