"""The fuzzers' harnesses run under AddressSanitizer and UBSan on their corpus and changes of it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from snapml import core

HERE = Path(__file__).parent
N_CHANGES = 3000


@pytest.mark.parametrize("name", ["svmlight"])
def test_no_input_leads_the_parser_astray(name, tmp_path):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on the path")
    harness = HERE / f"{name}_fuzzer.cpp"
    native = Path(core.include_dir()).parents[1] / "native"
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-pthread"]
    flags += ["-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror"]
    includes = [f"-I{core.include_dir()}", f"-I{native}"]
    program = tmp_path / "fuzzer"
    subprocess.run(
        [compiler, *flags, *includes, str(harness), str(HERE / "driver.cpp"), "-o", str(program)],
        check=True,
    )
    corpus = sorted(map(str, (HERE / f"{name}_corpus").iterdir()))
    ran = subprocess.run(
        [str(program), str(N_CHANGES), *corpus], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert int(ran.stdout) == len(corpus) * (N_CHANGES + 1)
