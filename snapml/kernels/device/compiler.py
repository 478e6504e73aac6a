"""From a program to a cubin, once: NVRTC, and a cache on disk that knows when a header changed."""

from __future__ import annotations

import functools
import logging
import os
import struct
import tempfile
from pathlib import Path
from typing import Any

from snapml.kernels.device.program import Program

__all__ = ["cached_cubin", "compile_program"]

_logger = logging.getLogger("snapml")

_LOG_LINES = 20  # of the compiler, in an error
# Of an ELF header of 64 bits: where the tables of segments and of sections begin, and the size and
# number of the entries of each.
_ELF_HEADER = struct.Struct("<32x QQ 6x HHHH 2x")


def compile_program(nvrtc: Any, program: Program, architecture: str) -> tuple[bytes, str]:
    """Compile a program for one architecture; needs no device.

    Parameters
    ----------
    nvrtc : module
        ``cupy.cuda.nvrtc``, or what has its functions.
    program : Program
        What to compile.
    architecture : str
        Two or three digits, as in ``"90"``.

    Returns
    -------
    cubin : bytes
        The machine code.
    log : str
        What the compiler said; registers and spills of every kernel among it.

    Raises
    ------
    RuntimeError
        If it does not compile, with the compiler's words.
    """
    handle = nvrtc.createProgram(program.path.read_text(), program.path.name, (), ())
    # No fast-math, and no flush to zero: a GPU's numbers then differ from a CPU's by rounding only.
    # Line numbers cost nothing and let a profiler or a sanitizer name the line.
    target = (f"-arch=sm_{architecture}", "-lineinfo", "--ptxas-options=-v")
    try:
        try:
            nvrtc.compileProgram(handle, (*program.options, *target))
        except nvrtc.NVRTCError as error:
            raise RuntimeError(
                f"{program.path.name} did not compile for sm_{architecture} with "
                f"{dict(program.macros)}: {error}\n{_head(str(nvrtc.getProgramLog(handle)))}"
            ) from error
        return _whole_elf(nvrtc.getCUBIN(handle)), str(nvrtc.getProgramLog(handle))
    finally:
        nvrtc.destroyProgram(handle)


def cached_cubin(nvrtc: Any, program: Program, architecture: str, *, renews: bool = False) -> Path:
    """Return the file of a compiled program, and compile it if there is none yet.

    CuPy's own cache leaves included headers out of its key: after an update of the core headers it
    would run the kernels of yesterday. Where the cache takes no more files, the program is compiled
    for this process alone, and the log says so.

    Parameters
    ----------
    nvrtc, program, architecture
        As in `compile_program`.
    renews : bool, default=False
        Whether to compile it even if there is one: for a file that the driver refuses.

    Returns
    -------
    pathlib.Path
        A cubin in the cache. Its name says program, NVRTC and architecture.
    """
    version = "_".join(map(str, nvrtc.getVersion()))
    name = f"{program.file}-sm_{architecture}-nvrtc_{version}-{program.digest[:32]}.cubin"
    path = cache_dir() / name
    if renews or not path.exists():
        cubin, _ = compile_program(nvrtc, program, architecture)
        try:
            _write_whole(path, cubin)
        except OSError as error:  # a full disk, or a folder that has become read-only
            _logger.warning("compiled kernels are not kept: %s", error)
            path = Path(_process_cache().name) / name
            _write_whole(path, cubin)
    return path


def _whole_elf(cubin: bytes) -> bytes:
    """Return a cubin with its last byte, which CuPy takes for the NUL behind a string and drops.

    A cubin is an ELF file of 64 bits whose tables of sections and segments say how long it is. One
    of them stands last, and its last byte is the highest of a small number: 0.
    """
    if len(cubin) < _ELF_HEADER.size or cubin[:4] != b"\x7fELF":
        raise RuntimeError(f"the compiler returned {len(cubin)} bytes that are no ELF file")
    segments, sections, segment_bytes, n_segments, section_bytes, n_sections = (
        _ELF_HEADER.unpack_from(cubin)
    )
    size = max(segments + segment_bytes * n_segments, sections + section_bytes * n_sections)
    if size > len(cubin) + 1:
        raise RuntimeError(f"the compiler returned {len(cubin)} bytes of a file of {size}")
    return cubin.ljust(size, b"\0")


@functools.cache
def cache_dir() -> Path:
    """Return the folder of compiled kernels.

    ``SNAPML_CACHE_DIR``, else ``snapml`` in the user's cache folder, else, where that cannot be
    written, a folder that lives as long as the process: kernels are then compiled in every process.
    """
    base = os.environ.get("SNAPML_CACHE_DIR")
    if base is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        base = str(Path(home) / "snapml")
    path = Path(base) / "kernels"
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError:
        return Path(_process_cache().name)


@functools.cache
def _process_cache() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="snapml_kernels_", ignore_cleanup_errors=True)


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file that other processes see whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        part = Path(file.name)
    try:
        part.write_bytes(content)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _head(log: str) -> str:
    lines = log.splitlines()
    rest = len(lines) - _LOG_LINES
    return "\n".join([*lines[:_LOG_LINES], f"... and {rest} more lines"] if rest > 0 else lines)
