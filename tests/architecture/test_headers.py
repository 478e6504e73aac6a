"""Core headers are freestanding: each stands alone, and sees core headers only."""

import os
import re
import shutil
import subprocess

import pytest

from snapml import core

INCLUDE_DIR = core.include_dir()
HEADERS = sorted(INCLUDE_DIR.rglob("*.hpp"))
NAMES = [str(header.relative_to(INCLUDE_DIR)) for header in HEADERS]
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<][^">]*[">])', re.MULTILINE)
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b", re.MULTILINE)


def test_there_are_headers_to_look_at():
    assert "snapml/config.hpp" in NAMES
    assert len(NAMES) >= 5


@pytest.mark.parametrize("header", HEADERS, ids=NAMES)
def test_core_header_includes_core_headers_only(header):
    """NVRTC has no standard headers; config.hpp brings in what the host compiler needs."""
    allowed = {f'"{name}"' for name in NAMES}
    if header.name == "config.hpp":
        allowed |= {"<cmath>", "<cstdint>", "<cstring>"}
    assert set(INCLUDE.findall(header.read_text())) <= allowed


@pytest.mark.parametrize("header", HEADERS, ids=NAMES)
def test_core_header_asks_only_in_one_place_which_compiler_reads_it(header):
    conditions = CONDITION.findall(header.read_text())
    assert bool(conditions) == (header.name == "config.hpp")


@pytest.mark.parametrize("header", HEADERS, ids=NAMES)
def test_core_header_compiles_alone(header, tmp_path):
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler found: neither CXX is set nor g++ nor c++ on the path")
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "{header.relative_to(INCLUDE_DIR)}"\n')
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    command = [*compiler.split(), *flags, f"-I{INCLUDE_DIR}", str(source)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
