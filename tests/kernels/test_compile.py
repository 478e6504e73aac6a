"""Every kernel compiles for every architecture, without a GPU, and keeps to its registers."""

import os
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu.sections import loss_names
from snapml.kernels import Program
from snapml.kernels.all_programs import all_programs
from snapml.kernels.device import compiler
from snapml.kernels.device.program import kernel_dir
from snapml.kernels.losses import fused_pass

from .nvrtc import find_nvrtc

ARCHITECTURES = ["75", "80", "90", "100", "120"]
LOSSES, DUAL = loss_names()
# These meet all types of numbers on one architecture. Each other loss meets one of the types, and
# each other architecture one a file. The check on a card compiles every pair.
IN_ALL_TYPES, ALL_TYPES_ON = (["Logistic", "Softmax"], ["Logistic"]), "90"


def types_in_turn(programs, first):
    """Return one of the programs of each file and loss, whose types differ from one to the next."""
    found = {}
    for program in programs:
        macros = dict(program.macros)
        loss = macros.get("SNAPML_LOSS") or macros.get("SNAPML_OUTPUTS")
        found.setdefault((program.file, loss), []).append(program)
    return [variants[(first + k) % len(variants)] for k, variants in enumerate(found.values())]


def programs_for(architecture):
    common = list(all_programs(*IN_ALL_TYPES))
    if architecture != ALL_TYPES_ON:
        return types_in_turn(common, ARCHITECTURES.index(architecture))
    rest = [program for program in all_programs(LOSSES, DUAL) if program not in common]
    return common + types_in_turn(rest, 0)


PROGRAMS = {architecture: programs_for(architecture) for architecture in ARCHITECTURES}
# At these, blocks of 256 threads share a multiprocessor's 65536 registers: two or more of them.
MOST_REGISTERS = {
    "reduce": 64,
    "column_descent": 64,
    "rows": 64,
    "ranked_rows": 64,  # of 1024 threads a block
    "ranking": 64,
    "dense_pass": 120,
    "losses": 96,  # the negative binomial loss in float64; 72 are the most of others
    "many_rows": 64,
    "many_losses": 96,
    "transposed": 80,
    "adjoint": 64,
    "row_checks": 64,
    "widen": 32,
    "scaling": 64,
    "objective": 96,
    "coordinate_descent": 112,
    "dense_rounds": 128,  # of 512 threads, the only block of a multiprocessor
}
# Older code generators take a few more; what the newer ones hold is what the launches count on.
SPARE = {"70": 8, "75": 8}
USED = re.compile(r"Used (\d+) registers")
SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@pytest.fixture(scope="module")
def nvrtc():
    found = find_nvrtc()
    if found is None:
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")
    return found


def assert_whole_elf(content):
    """Every section and both tables of an ELF file lie in it, and nothing comes after the last."""
    assert content[:6] == b"\x7fELF\x02\x01"
    segments, sections = struct.unpack_from("<QQ", content, 32)
    segment_bytes, n_segments, section_bytes, n_sections = struct.unpack_from("<4H", content, 54)
    ends = [segments + segment_bytes * n_segments, sections + section_bytes * n_sections]
    for k in range(n_sections):
        kind, *_, offset, size = struct.unpack_from(
            "<IQQQQ", content, sections + k * section_bytes + 4
        )
        ends += [offset + size] * (kind != 8)  # SHT_NOBITS takes no room
    assert max(ends) == len(content)


def compile_all(nvrtc, programs, architecture):
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda p: compiler.compile_program(nvrtc, p, architecture), programs))


def check_all(nvrtc, programs, architecture):
    for program, (cubin, log) in zip(
        programs, compile_all(nvrtc, programs, architecture), strict=True
    ):
        assert_whole_elf(cubin)
        kernels = re.findall(r"__global__\s+void[\s\w()]*?(\w+)\(", program.path.read_text())
        used = [int(n) for n in USED.findall(log)]
        spilled = [int(n) for pair in SPILLED.findall(log) for n in pair]
        assert len(used) == len(kernels) >= 1, log
        assert len(spilled) == 2 * len(used), log
        most = MOST_REGISTERS[program.file] + SPARE.get(architecture, 0)
        assert max(used) <= most, f"{program}\n{log}"
        assert max(spilled) == 0, f"{program}\n{log}"


@pytest.mark.parametrize("file", MOST_REGISTERS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_compile_without_spilling_registers(nvrtc, architecture, file):
    programs = [program for program in PROGRAMS[architecture] if program.file == file]
    check_all(nvrtc, programs, architecture)


@pytest.mark.slow
def test_every_kernel_compiles_for_volta():
    nvrtc = find_nvrtc(below=13)
    if nvrtc is None:
        pytest.skip("sm_70 needs NVRTC 12: pip install nvidia-cuda-nvrtc-cu12")
    check_all(nvrtc, PROGRAMS["75"], "70")


@pytest.mark.parametrize("architecture", ["90"])
def test_dense_pass_compiles_for_every_number_of_columns(nvrtc, architecture):
    types = np.dtype(np.float32), np.dtype(np.float64)
    programs = [
        fused_pass.dense_program("Logistic", *types, columns)
        for columns in range(1, fused_pass.MOST_COLUMNS + 1)
    ]
    assert len(set(programs)) == len(programs)
    for _, log in compile_all(nvrtc, programs, architecture):
        assert max(int(n) for n in USED.findall(log)) <= MOST_REGISTERS["dense_pass"]
        assert SPILLED.findall(log) == [("0", "0")]


def test_every_kernel_file_is_compiled():
    files = {path.stem for path in kernel_dir().glob("*/*.cu")}
    for programs in PROGRAMS.values():
        assert {program.file for program in programs} == files
    assert set(MOST_REGISTERS) == files


def test_compiler_that_refuses_is_quoted(nvrtc):
    program = Program("rows", (("SNAPML_REAL", "quaternion"),))
    with pytest.raises(RuntimeError, match=r"rows.cu did not compile for sm_90(.|\n)*quaternion"):
        compiler.compile_program(nvrtc, program, "90")


# A header and an empty table of sections, without the last byte, as CuPy returns it.
TABLE = struct.pack("<16s16xQQ6xHHHH2x64x", b"\x7fELF\x02\x01", 0, 64, 56, 0, 64, 1)
RETURNED = TABLE[:-1]


class CountingCompiler:
    """Stands in for NVRTC where only the cache is looked at."""

    NVRTCError = RuntimeError

    def __init__(self):
        self.n_compiled = 0

    def getVersion(self):
        return 13, 0

    def createProgram(self, *_):
        return "handle"

    def compileProgram(self, handle, options):
        self.n_compiled += 1

    def getCUBIN(self, handle):
        return RETURNED

    def getProgramLog(self, handle):
        return ""

    def destroyProgram(self, handle):
        pass


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SNAPML_CACHE_DIR", str(tmp_path))
    compiler.cache_dir.cache_clear()
    yield tmp_path
    compiler.cache_dir.cache_clear()


def test_program_is_compiled_once_for_each_digest(cache, monkeypatch):
    counting = CountingCompiler()
    program = Program("reduce")
    first = compiler.cached_cubin(counting, program, "90")
    assert first == compiler.cached_cubin(counting, program, "90")
    assert first.read_bytes() == TABLE
    assert counting.n_compiled == 1
    compiler.cached_cubin(counting, program, "80")
    compiler.cached_cubin(counting, Program("reduce", (("A", "1"),)), "90")
    assert counting.n_compiled == 3


@pytest.mark.parametrize(
    "digest", ["snapml.core.source_digest", "snapml.kernels.device.program._kernel_digest"]
)
def test_changed_header_or_kernel_is_another_program(digest, monkeypatch):
    before = Program("reduce").digest
    monkeypatch.setattr(digest, lambda: "changed")
    assert Program("reduce").digest != before


def test_cache_that_cannot_be_written_is_replaced_for_the_process(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SNAPML_CACHE_DIR", str(tmp_path / "file"))
    compiler.cache_dir.cache_clear()
    place = compiler.cache_dir()
    compiler.cache_dir.cache_clear()
    assert place.is_dir()
    assert tmp_path not in place.parents


class FailingCompiler(CountingCompiler):
    class NVRTCError(RuntimeError):
        pass

    def compileProgram(self, handle, options):
        raise self.NVRTCError("NVRTC_ERROR_COMPILATION (6)")

    def getProgramLog(self, handle):
        return "\n".join(f"error {k}" for k in range(100))


def test_error_of_the_compiler_begins_with_the_head_of_its_log():
    program = Program("objective", (("SNAPML_LOSS", "snapml::Hinge"),))
    with pytest.raises(RuntimeError) as raised:
        compiler.compile_program(FailingCompiler(), program, "90")
    says = str(raised.value)
    for part in ("objective.cu", "sm_90", "snapml::Hinge", "NVRTC_ERROR_COMPILATION", "error 19\n",
                 "and 80 more lines"):  # fmt: skip
        assert part in says
    assert "error 20" not in says


@pytest.mark.parametrize(
    ("returned", "says"),
    [(b"PTX, perhaps", "12 bytes that are no ELF"), (TABLE[:-2], "126 bytes of a file of 128")],
)
def test_what_is_no_whole_cubin_is_refused(cache, monkeypatch, returned, says):
    monkeypatch.setattr(CountingCompiler, "getCUBIN", lambda *_: returned)
    with pytest.raises(RuntimeError, match=says):
        compiler.cached_cubin(CountingCompiler(), Program("reduce"), "90")
    assert list(compiler.cache_dir().iterdir()) == []


def test_file_that_is_no_cubin_is_replaced(cache):
    program = Program("reduce")
    path = compiler.cached_cubin(CountingCompiler(), program, "90")
    path.write_bytes(b"")
    assert compiler.cached_cubin(CountingCompiler(), program, "90", renews=True) == path
    assert path.read_bytes() == TABLE


def test_cache_that_is_full_is_left_for_one_of_the_process(cache, monkeypatch, caplog):
    place = compiler.cache_dir()
    write = compiler._write_whole

    def full(path, content):
        if path.parent == place:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(compiler, "_write_whole", full)
    path = compiler.cached_cubin(CountingCompiler(), Program("reduce"), "90")
    assert path.read_bytes() == TABLE
    assert place not in path.parents
    assert "No space left on device" in caplog.text


def test_write_that_fails_leaves_no_part_behind(cache, monkeypatch):
    def fail(*_):
        raise OSError("read-only")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="read-only"):
        compiler._write_whole(compiler.cache_dir() / "name", b"code")
    assert list(compiler.cache_dir().iterdir()) == []


def test_compilers_at_work_at_once_leave_one_whole_file(cache):
    contents = [bytes([k]) * 100_000 for k in range(8)]
    path = compiler.cache_dir() / "name"
    seen = set()
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(compiler._write_whole, path, content) for content in contents]:
            done.result()
            seen.add(path.read_bytes())
    assert seen <= set(contents)
    assert list(path.parent.iterdir()) == [path]
